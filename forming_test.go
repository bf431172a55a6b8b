package coord_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/lab"
)

// inEmptyCell is inTunedCell, but starts nothing.
func inEmptyCell(t *testing.T, n int, tune func(i int, cfg *coord.Config), test func(t *testing.T, c *cell)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cell{t: t, lab: lab.New(50 * time.Millisecond), size: n, port: 1, nodes: make([]*coord.Node, n), tune: tune}
		defer c.stop()
		test(t, c)
	})
}

// voters waits until a server sees as many members and voters, and returns them.
func (c *cell) members(i, all, voters int) []coord.Member {
	c.t.Helper()
	var got []coord.Member
	for range 300 {
		got = c.nodes[i].Members()
		n := 0
		for _, m := range got {
			if m.Voter {
				n++
			}
		}
		if len(got) == all && n == voters {
			return got
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("server %d: want %d members, %d of them voters: %+v", i, all, voters, got)
	return nil
}

// stops waits for server i to end by itself.
func (c *cell) stops(i int) error {
	c.t.Helper()
	select {
	case <-c.nodes[i].Done():
	case <-time.After(time.Minute):
		c.t.Fatalf("server %d has not ended by itself", i)
	}
	return c.nodes[i].Err()
}

// sameCell checks that all servers that run are in one cell, and returns its id.
func (c *cell) sameCell() string {
	c.t.Helper()
	id := ""
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		s := n.Status()
		if s.CellID == "" || id != "" && s.CellID != id {
			c.t.Errorf("server %d is in cell %q, another in %q", i, s.CellID, id)
		}
		id = s.CellID
	}
	return id
}

func TestForming_OneThreeFive(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inCell(t, n, func(t *testing.T, c *cell) {
				c.sameCell()
				for i := range n {
					leaders := 0
					for _, m := range c.members(i, n, n) {
						if m.Leader {
							leaders++
						}
						if !m.Alive || m.LastContact > time.Second || m.Name == "" || m.Addr == "" {
							t.Errorf("server %d sees %+v", i, m)
						}
					}
					if leaders != 1 {
						t.Errorf("server %d sees %d leaders", i, leaders)
					}
				}
			})
		})
	}
}

// Servers may come up in any order and late: nothing forms before all are there.
func TestForming_OneAfterTheOther(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
				for k, i := range order {
					c.start(i)
					time.Sleep(10 * time.Second)
					err := c.nodes[order[0]].WaitReady(c.within(time.Second))
					if k < 2 && !errors.Is(err, coord.ErrNoLeader) || k == 2 && err != nil {
						t.Errorf("after %d servers: %v", k+1, err)
					}
					if want := fmt.Sprintf("3 servers without state, %d are here", k+1); k < 2 && !strings.Contains(err.Error(), want) {
						t.Errorf("it does not say what it waits for: %v", err)
					}
				}
				c.ready()
				c.sameCell()
			})
		})
	}
}

// Servers that disagree about the cell that they would form all end and say about what.
func TestForming_Disagreement(t *testing.T) {
	for name, tc := range map[string]struct {
		tune func(i int, cfg *coord.Config)
		says string
	}{
		"Expect": {func(i int, cfg *coord.Config) { cfg.Expect = 2 + i }, "Expect is "},
		"Limits": {func(i int, cfg *coord.Config) { cfg.Limits.Keys = 100 + i }, "Limits are "},
	} {
		t.Run(name, func(t *testing.T) {
			inEmptyCell(t, 2, tc.tune, func(t *testing.T, c *cell) {
				c.start(0)
				c.start(1)
				for i := range 2 {
					if err := c.stops(i); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
						t.Errorf("server %d: %v", i, err)
					}
				}
			})
		})
	}
}

// joining is a tune for servers above the first three, which find a cell of three.
func joining(expect int) func(i int, cfg *coord.Config) {
	return func(i int, cfg *coord.Config) {
		cfg.Join = []string{"server0:1", "server1:1", "server2:1"}
		cfg.Expect = 3
		if i > 2 {
			cfg.Expect = expect
		}
	}
}

// Late servers join, whether or not they would form a cell; a fourth has no vote until a fifth makes the number odd.
func TestForming_LateServersJoin(t *testing.T) {
	for _, expect := range []int{0, 3} {
		t.Run(fmt.Sprint("Expect", expect), func(t *testing.T) {
			inEmptyCell(t, 5, joining(expect), func(t *testing.T, c *cell) {
				for i := range 3 {
					c.start(i)
				}
				c.ready()
				c.mustPut(0, "a", "1")
				c.start(3)
				c.ready()
				c.members(3, 4, 3)
				time.Sleep(10 * time.Second)
				c.members(0, 4, 3)
				if c.nodes[3].Status().Voter {
					t.Error("the fourth votes")
				}
				if kv, err := c.nodes[3].Get(c.within(time.Second), "a"); err != nil || string(kv.Value) != "1" {
					t.Errorf("on the fourth: %q, %v", kv.Value, err)
				}
				c.lock(c.session(3), "x")
				c.start(4)
				c.ready()
				for i := range 5 {
					c.members(i, 5, 5)
				}
				c.sameCell()
				c.kill(0)
				c.kill(1)
				c.mustPut(4, "a", "2")
			})
		})
	}
}

// A server without state that cannot reach anybody waits, and says for what.
func TestForming_NobodyThere(t *testing.T) {
	for _, expect := range []int{0, 3} {
		t.Run(fmt.Sprint("Expect", expect), func(t *testing.T) {
			inEmptyCell(t, 3, func(_ int, cfg *coord.Config) { cfg.Expect = expect }, func(t *testing.T, c *cell) {
				n := c.start(0)
				for _, d := range []time.Duration{time.Minute, time.Minute} {
					err := n.WaitReady(c.within(d))
					if !errors.Is(err, coord.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) ||
						!strings.Contains(err.Error(), "belongs to no cell yet, and waits for") || !strings.Contains(err.Error(), "server1:1") {
						t.Errorf("Expect %d: %v", expect, err)
					}
				}
				if s := n.Status(); s.CellID != "" || s.Leader != "" || s.Voter {
					t.Errorf("Expect %d: %+v", expect, s)
				}
				if _, err := n.Put(c.within(time.Second), "a", nil); !errors.Is(err, coord.ErrNoLeader) && !errors.Is(err, coord.ErrOutcomeUnknown) {
					t.Errorf("put: %v", err)
				}
			})
		})
	}
}

// All servers come back at once on other addresses, and are the same cell with the same state.
func TestForming_EverybodyMoves(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		c.mustPut(0, "a", "1")
		id, ids := c.sameCell(), map[string]bool{}
		for _, n := range c.nodes {
			ids[n.ID()] = true
		}
		time.Sleep(5 * time.Second) // the addresses are on the disks
		for range 2 {
			c.killAll()
			c.move()
			c.startAll()
			c.ready()
			if got := c.sameCell(); got != id {
				t.Errorf("cell %q, was %q", got, id)
			}
			for i, n := range c.nodes {
				if !ids[n.ID()] {
					t.Errorf("server %d has a new id", i)
				}
				if kv, err := n.Get(c.within(time.Minute), "a"); err != nil || string(kv.Value) != "1" {
					t.Errorf("server %d: %q, %v", i, kv.Value, err)
				}
			}
		}
	})
}

// Servers that have met find each other again by what they know, with a Join that names nobody.
func TestForming_JoinIsOutdated(t *testing.T) {
	outdated := false
	tune := func(_ int, cfg *coord.Config) {
		if outdated {
			cfg.Join = []string{"nowhere:1"}
		}
	}
	inTunedCell(t, 3, tune, func(t *testing.T, c *cell) {
		time.Sleep(5 * time.Second) // the addresses are on the disks
		outdated = true
		c.killAll()
		c.startAll()
		c.ready()
		c.sameCell()
	})
}

// A server with state never forms a cell: not alone, and not with new ones.
func TestForming_StateNeverBootstraps(t *testing.T) {
	inEmptyCell(t, 3, nil, func(t *testing.T, c *cell) {
		for i := range 3 {
			c.start(i)
		}
		c.ready()
		id := c.sameCell()
		time.Sleep(5 * time.Second) // the servers are on the disks
		c.killAll()
		c.lab.SetDisk(c.addr(1), nil)
		c.lab.SetDisk(c.addr(2), nil) // a majority is gone for good
		for i := range 3 {
			c.start(i)
		}
		time.Sleep(2 * time.Minute)
		for i, n := range c.nodes {
			err := n.WaitReady(c.within(time.Second))
			if !errors.Is(err, coord.ErrNoLeader) || !strings.Contains(err.Error(), map[bool]string{true: "1 of the cell's 3 servers are in sight", false: "the leader of cell"}[i == 0]) {
				t.Errorf("server %d: %v", i, err)
			}
			if s := n.Status(); s.CellID != id && s.CellID != "" || s.IsLeader {
				t.Errorf("server %d: %+v", i, s)
			}
		}
	})
}

// A server whose disk was lost comes back under its name, and takes the place of what it was.
func TestForming_WipedServerIsReplaced(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		c.mustPut(0, "a", "1")
		victim := c.leader()
		old := c.nodes[victim].ID()
		time.Sleep(5 * time.Second)
		c.kill(victim)
		c.lab.SetDisk(c.addr(victim), nil)
		c.start(victim)
		c.ready()
		for _, m := range c.members(victim, 3, 3) {
			if m.ID == old {
				t.Errorf("still a member: %+v", m)
			}
		}
		if c.nodes[victim].ID() == old {
			t.Error("it has the id of a disk that is gone")
		}
		c.sameCell()
		c.kill(c.others(victim)[0])
		if kv, err := c.nodes[victim].Get(c.within(time.Minute), "a"); err != nil || string(kv.Value) != "1" {
			t.Errorf("%q, %v", kv.Value, err)
		}
	})
}

// The server whose place was taken comes back, disk and all: it is told, and ends.
func TestForming_ReplacedServerReturns(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		time.Sleep(5 * time.Second)
		c.kill(0)
		disk := c.lab.Disk(c.addr(0))
		c.lab.SetDisk(c.addr(0), nil)
		c.start(0)
		c.ready()
		c.members(0, 3, 3)
		c.lab.SetDisk("elsewhere:1", disk)
		cfg := c.config(0)
		cfg.Listen = "elsewhere:1"
		n, err := coord.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		select {
		case <-n.Done():
		case <-time.After(time.Minute):
			t.Fatalf("it goes on: %v", n.WaitReady(c.within(time.Second)))
		}
		if err := n.Err(); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), `"server0"`) {
			t.Errorf("%v", err)
		}
		c.members(1, 3, 3)
		c.mustPut(0, "a", "1")
	})
}

// A name belongs to one living server.
func TestForming_SecondOfTheSameName(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		cfg := c.config(1)
		cfg.Listen = "twin:1"
		twin, err := coord.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer twin.Close()
		select {
		case <-twin.Done():
		case <-time.After(time.Minute):
			t.Fatal("it goes on")
		}
		if err := twin.Err(); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), `"server1"`) {
			t.Errorf("%v", err)
		}
		if err := twin.WaitReady(t.Context()); err == nil || err.Error() == "" || !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("WaitReady: %v, Err: %v", err, twin.Err())
		}
		c.members(0, 3, 3)
		c.mustPut(1, "a", "1")
	})
}

// After a long time apart the servers find each other again, also when nobody remembers anybody as alive.
func TestForming_PartitionHeals(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		c.lab.Partition(c.addrs(0), c.addrs(1), c.addrs(2))
		time.Sleep(2 * time.Minute)
		for i, n := range c.nodes {
			for _, m := range n.Members() {
				if m.Alive != (m.ID == n.ID()) {
					t.Errorf("server %d: %+v", i, m)
				}
			}
		}
		err := c.nodes[0].WaitReady(c.within(time.Second))
		if err == nil || !strings.Contains(err.Error(), "1 of the cell's 3 voters are in sight") {
			t.Errorf("%v", err)
		}
		c.lab.HealAll()
		c.ready()
		c.mustPut(0, "a", "1")
		time.Sleep(30 * time.Second)
		for i, n := range c.nodes {
			for _, m := range n.Members() {
				if !m.Alive {
					t.Errorf("server %d: %+v", i, m)
				}
			}
		}
	})
}

// Two cells at one address list: the server that wants in is told, and the cell does not care.
func TestForming_WrongCell(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		for _, expect := range []int{0, 3} {
			cfg := c.config(1)
			cfg.Name, cfg.Cell, cfg.Listen, cfg.Expect = "stranger", "other", "stranger:1", expect
			cfg.Join = append(cfg.Join, "stranger:1")
			n, err := coord.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			select {
			case <-n.Done():
			case <-time.After(time.Minute):
				t.Fatalf("Expect %d: it waits for ever", expect)
			}
			if err := n.Err(); !errors.Is(err, coord.ErrWrongCell) || !strings.Contains(err.Error(), "other") {
				t.Errorf("Expect %d: %v", expect, err)
			}
		}
		c.members(0, 3, 3)
		c.mustPut(0, "a", "1")
		for i, n := range c.nodes {
			if err := n.Err(); err != nil {
				t.Errorf("server %d: %v", i, err)
			}
		}
	})
}

// A member that finds strangers at addresses where its peers once were goes on.
func TestForming_MembersIgnoreStrangers(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		c.kill(2)
		stranger, err := coord.Start(t.Context(), coord.Config{
			Cell: "other", InMemory: true, Listen: c.addr(2), Expect: 1, ElectionTimeout: election, Transport: c.lab.Memory,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		time.Sleep(40 * time.Second)
		c.mustPut(0, "a", "1")
		if err := stranger.WaitReady(c.within(time.Second)); err != nil {
			t.Error(err)
		}
		stranger.Close()
		c.start(2)
		c.ready()
		c.members(2, 3, 3)
	})
}
