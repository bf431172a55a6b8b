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
					if stood := s.list()[before:]; len(stood) == 0 || len(stood) > 2 {
						t.Errorf("round %d: %v stood for election", round, stood)
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
