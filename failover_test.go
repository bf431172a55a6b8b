package coord_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/raftnode"
)

// soon is how long a failover may take that does not wait for an election timeout: a small part of it.
const soon = election / 3

// stands counts the elections that servers stand for because their leader's process is dead.
type stands struct {
	mu sync.Mutex
	by []string // addresses
}

// standing is the raftnode.Observer of one server.
type standing struct {
	of   *stands
	addr string
}

func (standing) Sent(raftnode.Append)           {}
func (standing) Applied(uint64, uint64, []byte) {}
func (standing) Restored(uint64)                {}

func (s standing) Stood(string, uint64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.by = append(s.of.by, s.addr)
}

func (s *stands) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.by...)
}

// inWatchedCell is inCell with a count of who stands.
func inWatchedCell(t *testing.T, n int, test func(t *testing.T, c *cell, s *stands)) {
	t.Helper()
	s := &stands{}
	watch := func(_ int, cfg *coord.Config) {
		cfg.Transport.(interface {
			SetObserver(func(addr string) raftnode.Observer)
		}).SetObserver(func(addr string) raftnode.Observer { return standing{s, addr} })
	}
	inTunedCell(t, n, watch, func(t *testing.T, c *cell) {
		time.Sleep(4 * election)
		test(t, c, s)
	})
}

// The leader's process is killed: the next grant, anywhere, comes long before an election timeout has passed, and no
// session ends.
func TestFailoverAfterAKill(t *testing.T) {
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprint(size, " servers"), func(t *testing.T) {
			inWatchedCell(t, size, func(t *testing.T, c *cell, s *stands) {
				for round := range 6 {
					leader := c.leader()
					var sessions []*coord.Session
					for _, i := range c.others(leader) {
						sessions = append(sessions, c.session(i))
					}
					time.Sleep(2*election + time.Duration(round)*17*time.Millisecond)
					before := len(s.list())
					var grants sync.WaitGroup
					began := time.Now()
					c.kill(leader)
					for i, x := range sessions {
						grants.Go(func() {
							l := c.lock(x, fmt.Sprint("lock ", i))
							if took := time.Since(began); took > soon {
								t.Errorf("round %d: the next grant took %v", round, took)
							}
							l.Unlock(c.within(time.Minute))
						})
					}
					grants.Wait()
					if stood := s.list()[before:]; len(stood) != 1 {
						t.Errorf("round %d: %v stood for election, not one of them", round, stood)
					}
					time.Sleep(2 * election)
					for i, x := range sessions {
						if err := x.Err(); err != nil {
							t.Errorf("round %d: session %d: %v", round, i, err)
						}
						x.Close(c.within(time.Minute))
					}
					c.start(leader)
					c.ready()
				}
			})
		})
	}
}

// nextGrant is how long a lock takes that is asked for now.
func (c *cell) nextGrant(x *coord.Session, name string) time.Duration {
	c.t.Helper()
	began := time.Now()
	c.lock(x, name)
	return time.Since(began)
}

// The leader's process is killed and is there again before anybody has looked: another process answers, in the same term.
func TestFailoverAfterARestart(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		t.Run(pause.String(), func(t *testing.T) {
			inWatchedCell(t, 3, func(t *testing.T, c *cell, s *stands) {
				leader := c.leader()
				x := c.session(c.others(leader)[0])
				time.Sleep(2 * election)
				c.kill(leader)
				time.Sleep(pause)
				c.start(leader)
				if took := c.nextGrant(x, "a"); took > soon {
					t.Errorf("the next grant took %v", took)
				}
				if len(s.list()) == 0 {
					t.Error("nobody stood for election: the test shows nothing")
				}
				c.ready()
			})
		})
	}
}

// A leader that closes its node tells nobody, but its connections end.
func TestFailoverAfterAClose(t *testing.T) {
	inWatchedCell(t, 3, func(t *testing.T, c *cell, s *stands) {
		leader := c.leader()
		x := c.session(c.others(leader)[0])
		time.Sleep(2 * election)
		old := c.nodes[leader]
		c.nodes[leader] = nil
		go old.Close()
		if took := c.nextGrant(x, "a"); took > soon {
			t.Errorf("the next grant took %v", took)
		}
		if len(s.list()) == 0 {
			t.Error("nobody stood for election: the test shows nothing")
		}
		<-old.Done()
	})
}

// A graceful stop hands the leadership on.
func TestFailoverAfterAShutdown(t *testing.T) {
	inWatchedCell(t, 3, func(t *testing.T, c *cell, s *stands) {
		leader := c.leader()
		x := c.session(c.others(leader)[0])
		held := c.lock(c.session(leader), "a")
		time.Sleep(2 * election)
		old := c.nodes[leader]
		c.nodes[leader] = nil
		stopped := make(chan error)
		go func() { stopped <- old.Shutdown(c.within(time.Minute)) }()
		if took := c.nextGrant(x, "a"); took > soon {
			t.Errorf("the next grant took %v", took)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if held.Check() == nil {
			t.Error("the lock of a session that was ended is held")
		}
		if took := c.nextGrant(x, "b"); took > soon {
			t.Errorf("the next grant took %v", took)
		}
		if stood := s.list(); len(stood) > 0 {
			t.Errorf("%v stood for election: leadership was not handed on", stood)
		}
	})
}

// A leader whose process lives is left alone, whatever its followers can and cannot reach.
func TestNobodyStandsAgainstALeaderThatLives(t *testing.T) {
	for name, strike := range map[string]func(c *cell, leader int, others []string){
		"frozen": func(c *cell, leader int, _ []string) {
			c.lab.Pause(c.addr(leader))
			time.Sleep(5 * election)
			c.lab.Resume(c.addr(leader))
		},
		"frozen, and its streams reset": func(c *cell, leader int, others []string) {
			c.lab.Pause(c.addr(leader))
			for _, o := range others {
				c.lab.Reset(c.addr(leader), o)
			}
			time.Sleep(5 * election)
			c.lab.Resume(c.addr(leader))
		},
		"cut off": func(c *cell, leader int, _ []string) { c.isolate(leader) },
		"streams reset": func(c *cell, leader int, others []string) {
			for range 20 {
				for _, o := range others {
					c.lab.Reset(c.addr(leader), o)
				}
				time.Sleep(30 * time.Millisecond)
			}
		},
		"its followers are refused": func(c *cell, leader int, others []string) {
			for _, o := range others {
				c.lab.Refuse(o, c.addr(leader))
			}
		},
		"one of two followers is refused, and its streams reset": func(c *cell, leader int, others []string) {
			for range 20 {
				c.lab.Refuse(others[0], c.addr(leader))
				c.lab.Reset(others[0], c.addr(leader))
				time.Sleep(30 * time.Millisecond)
			}
		},
		"a firewall between it and one of two": func(c *cell, leader int, others []string) { c.firewall(leader, others[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			inWatchedCell(t, 3, func(t *testing.T, c *cell, s *stands) {
				leader := c.leader()
				strike(c, leader, c.addrs(c.others(leader)...))
				c.nobodyStands(s)
			})
		})
	}
}

// Opinions are split: two of five servers take the leader for dead, and that is no majority.
func TestNobodyStandsForAMinority(t *testing.T) {
	inWatchedCell(t, 5, func(t *testing.T, c *cell, s *stands) {
		leader := c.leader()
		others := c.addrs(c.others(leader)...)
		c.firewall(leader, others[0])
		c.firewall(leader, others[3])
		c.nobodyStands(s)
	})
}

// nobodyStands waits for long, and heals the cell.
func (c *cell) nobodyStands(s *stands) {
	c.t.Helper()
	time.Sleep(10 * election)
	if stood := s.list(); len(stood) > 0 {
		c.t.Errorf("%v stood for election", stood)
	}
	c.lab.HealAll()
	c.ready()
}

// firewall refuses and resets on both ways between a server and another one, which is what the death of either looks like
// to the other.
func (c *cell) firewall(i int, addr string) {
	c.lab.Refuse(c.addr(i), addr)
	c.lab.Refuse(addr, c.addr(i))
	c.lab.Reset(c.addr(i), addr)
}

// A firewall that keeps a leader from a majority is taken for its death: it could not serve any more. It learns that it is
// replaced when it is reached, and nobody ever holds what another one holds.
func TestAFirewallAroundTheLeader(t *testing.T) {
	inWatchedCell(t, 3, func(t *testing.T, c *cell, s *stands) {
		leader := c.leader()
		others := c.others(leader)
		x := c.session(others[0])
		old := c.lock(c.session(leader), "a")
		time.Sleep(2 * election)
		for _, o := range c.addrs(others...) {
			c.firewall(leader, o)
		}
		if took := c.nextGrant(x, "b"); took > soon {
			t.Errorf("the next grant took %v", took)
		}
		if len(s.list()) == 0 {
			t.Error("nobody stood for election: the test shows nothing")
		}
		taken := c.lock(x, "a")
		if old.Check() == nil {
			t.Error("the lock is held twice")
		}
		if taken.Token() <= old.Token() {
			t.Errorf("token %d after %d", taken.Token(), old.Token())
		}
		c.lab.HealAll()
		c.ready()
	})
}
