package coord_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/coordcell/coord"
)

// reads are all calls that must be fresh, as functions that give what they have seen of a counter.
func reads(n *coord.Node) map[string]func(ctx context.Context) (string, error) {
	return map[string]func(ctx context.Context) (string, error){
		"Get": func(ctx context.Context) (string, error) {
			kv, err := n.Get(ctx, "count")
			return string(kv.Value), err
		},
		"List": func(ctx context.Context) (string, error) {
			l, err := n.List(ctx, "count")
			if err != nil {
				return "", err
			}
			return string(l.Keys[0].Value), nil
		},
		"Lookup": func(ctx context.Context) (string, error) {
			info, err := n.Lookup(ctx, "leader")
			if err != nil {
				return "", err
			}
			return string(info.Holders[0].Data), nil
		},
		"Leader": func(ctx context.Context) (string, error) {
			l, err := n.Leader(ctx, "leader")
			return string(l.Value), err
		},
	}
}

// count writes a number where every kind of read sees it.
func (c *cell) count(i int, s *coord.Leadership, number int) {
	c.t.Helper()
	c.mustPut(i, "count", strconv.Itoa(number))
	if err := s.Proclaim(c.within(time.Minute), []byte(strconv.Itoa(number))); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cell) campaign(i int) *coord.Leadership {
	c.t.Helper()
	l, err := c.session(i).Campaign(c.within(time.Minute), "leader", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// A leader that is cut off and has not noticed answers nothing: it waits until ctx ends.
func TestG5_ReadsAreFresh_IsolatedLeader(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		old := c.leader()
		other := c.others(old)[0]
		writer := c.campaign(other)
		c.count(other, writer, 1)
		for name, read := range reads(c.nodes[old]) {
			if v, err := read(c.within(time.Second)); err != nil || v != "1" {
				t.Fatalf("%s: %q, %v", name, v, err)
			}
		}
		c.isolate(old)
		type answer struct {
			name, value string
			err         error
		}
		answers := make(chan answer, 200)
		for name, read := range reads(c.nodes[old]) {
			for range 50 { // from before the others have a leader until long after
				go func() {
					v, err := read(c.within(10 * time.Second))
					answers <- answer{name, v, err}
				}()
				time.Sleep(20 * time.Millisecond)
			}
		}
		c.count(other, writer, 2)
		for range 200 {
			a := <-answers
			if a.err == nil || !errors.Is(a.err, coord.ErrNoLeader) || !errors.Is(a.err, context.DeadlineExceeded) {
				t.Errorf("%s on the server that is cut off: %q, %v", a.name, a.value, a.err)
			}
		}
		if kv, err := c.nodes[old].Get(c.within(time.Second), "count", coord.Stale()); err != nil || string(kv.Value) != "1" {
			t.Errorf("stale: %q, %v", kv.Value, err)
		}
		c.lab.HealAll()
		for name, read := range reads(c.nodes[old]) {
			if v, err := read(c.within(10 * time.Second)); err != nil || v != "2" {
				t.Errorf("%s after the cut: %q, %v", name, v, err)
			}
		}
	})
}

// Reads of a leader that begin before the cut and while leaders change see every write that was acknowledged before
// they began.
func TestG5_ReadsAreFresh_WhileLeadersChange(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		stop := make(chan struct{})
		acked := make(chan int, 1) // the newest number that was acknowledged
		acked <- 0
		c.mustPut(0, "count", "0")
		finished := make(chan int)
		for i := range c.nodes {
			go func() {
				seen := 0
				for {
					select {
					case <-stop:
						finished <- seen
						return
					default:
					}
					least := <-acked
					acked <- least
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					kv, err := c.nodes[i].Get(ctx, "count")
					cancel()
					if n, _ := strconv.Atoi(string(kv.Value)); err == nil && n < least {
						t.Errorf("server %d: read %d after %d was acknowledged", i, n, least)
					} else if err == nil {
						seen++
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		}
		number := 0
		for round := range 4 {
			leader := c.leader()
			c.isolate(leader)
			writer := c.others(leader)[round%2]
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				number++
				c.mustPut(writer, "count", strconv.Itoa(number))
				<-acked
				acked <- number
				time.Sleep(10 * time.Millisecond)
			}
			c.lab.HealAll()
			time.Sleep(500 * time.Millisecond)
		}
		close(stop)
		for i := range c.nodes {
			if seen := <-finished; seen < 100 {
				t.Errorf("server %d: only %d reads were answered", i, seen)
			}
		}
	})
}

// A follower that hears everything late has not applied what its own client or another has just written.
func TestG5_ReadsAreFresh_LateFollower(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		late := c.others(leader)[0]
		writer := c.campaign(leader)
		c.count(leader, writer, 0)
		time.Sleep(time.Second)
		c.lab.SetDelay(c.addr(leader), c.addr(late), 60*time.Millisecond)
		for number := 1; number <= 5; number++ {
			c.count(leader, writer, number)
			kv, err := c.nodes[late].Get(c.within(time.Second), "count", coord.Stale())
			if err != nil || string(kv.Value) == strconv.Itoa(number) {
				t.Errorf("the follower is not late: this test proves nothing: %q, %v", kv.Value, err)
			}
			for name, read := range reads(c.nodes[late]) {
				if v, err := read(c.within(10 * time.Second)); err != nil || v != fmt.Sprint(number) {
					t.Errorf("%s: %q, %v, want %d", name, v, err, number)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

// A follower asks the leader for many reads at once. A read that begins while a question is under way must not be
// content with its answer.
func TestG5_ReadsAreFresh_QuestionUnderWay(t *testing.T) {
	inCell(t, 3, func(t *testing.T, c *cell) {
		leader := c.leader()
		late := c.others(leader)[0]
		c.mustPut(leader, "count", "1")
		time.Sleep(time.Second)
		c.lab.SetDelay(c.addr(leader), c.addr(late), 150*time.Millisecond)
		time.Sleep(time.Second)
		early := make(chan error)
		go func() {
			_, err := c.nodes[late].Get(c.within(10*time.Second), "count")
			early <- err
		}()
		time.Sleep(60 * time.Millisecond) // the answer is on its way
		c.mustPut(leader, "count", "2")
		kv, err := c.nodes[late].Get(c.within(10*time.Second), "count")
		if err != nil || string(kv.Value) != "2" {
			t.Errorf("%q, %v", kv.Value, err)
		}
		if err := <-early; err != nil {
			t.Error(err)
		}
	})
}
