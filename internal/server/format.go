package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/wire"
)

// formats is what keeps the cell from using the newest format of commands, as its leader knows.
type formats struct {
	mu       sync.Mutex
	obstacle string // "": nothing, or nobody knows yet
}

func (f *formats) set(obstacle string) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	news = obstacle != f.obstacle
	f.obstacle = obstacle
	return news
}

func (f *formats) get() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.obstacle
}

// checkFormat says whether the cell uses the format of a command. While the leader still asks the servers whether all of
// them read it, the answer is errBusy: to be asked again.
func (s *Server) checkFormat(cmd fsm.Command) error {
	needs, has := wire.FormatOf(cmd), uint16(0)
	if needs <= 1 {
		return nil
	}
	s.replica.View(func(state *fsm.State) { has = state.Format() })
	if needs <= has {
		return nil
	}
	if obstacle := s.formats.get(); obstacle != "" {
		return fmt.Errorf("%w: a server of the cell is too old for this: %s", ErrInvalid, obstacle)
	}
	return errBusy
}

// raiseFormat has the cell use the newest format that this server reads, once every server of the configuration, whether
// it votes or not, says that it reads that, too. One that joins later and does not stops by itself when it is sent what
// it cannot read, and says so.
func (s *Server) raiseFormat(ctx context.Context, term uint64) {
	s.formats.set("")
	began := s.now()
	for pause := s.cfg.ElectionTimeout / 8; ctx.Err() == nil; pause = min(2*pause, 8*s.cfg.ElectionTimeout) {
		var format uint16
		s.replica.View(func(state *fsm.State) { format = state.Format() })
		if format >= wire.Format {
			s.formats.set("")
			return
		}
		err := s.allRead(ctx, s.now()-began)
		if err == nil {
			if err := s.propose(ctx, fsm.SetFormat{Format: wire.Format}); err != nil {
				s.log.Debug("the format was not raised", "error", err)
			}
		} else if s.formats.set(err.Error()) && err.Error() != "" {
			s.log.Warn("locks with terms, and stepping in, wait for every server to be new enough", "why", err, "term", term)
		}
		sleep(ctx, pause)
	}
}

// errNotSaid: a server has not said which format it reads, and may yet do so soon.
var errNotSaid = errors.New("")

// formatPatience is how many election timeouts of a term a server may leave unanswered which format it reads, before
// those who need it are told.
const formatPatience = 10

// allRead asks all other servers whether they read the newest format. Whoever is unknown counts as old.
func (s *Server) allRead(ctx context.Context, since time.Duration) error {
	servers, _ := s.raft.Configuration()
	answers := make(chan error, len(servers))
	var asking sync.WaitGroup
	for _, srv := range servers {
		if srv.ID != s.id {
			asking.Go(func() { answers <- s.reads(ctx, srv.ID, since) })
		}
	}
	asking.Wait()
	close(answers)
	var worst error
	for err := range answers {
		if err != nil && (worst == nil || err != errNotSaid) {
			worst = err
		}
	}
	return worst
}

func (s *Server) reads(ctx context.Context, id string, since time.Duration) error {
	ctx, done := context.WithTimeout(ctx, s.cfg.ElectionTimeout)
	defer done()
	payload, err := s.calls.Call(ctx, id, wire.MethodFormat, wire.FormatAsked{}.Append(nil))
	var a wire.FormatAnswer
	if err == nil {
		a, err = wire.DecodeFormatAnswer(payload)
	}
	switch {
	case errors.Is(err, calls.ErrUnknownMethod):
		return fmt.Errorf("server %s reads format 1 only, not %d", id, wire.Format)
	case err == nil && a.Format < wire.Format:
		return fmt.Errorf("server %s reads format %d only, not %d", id, a.Format, wire.Format)
	case err == nil:
		return nil
	case since < formatPatience*s.cfg.ElectionTimeout:
		return errNotSaid
	default:
		return fmt.Errorf("server %s does not say which format it reads: %w", id, err)
	}
}

// tooNew stops a server that reads less than its cell uses.
func (s *Server) tooNew() {
	var format uint16
	s.replica.View(func(state *fsm.State) { format = state.Format() })
	if format > wire.Format {
		s.fail(fmt.Errorf("the cell uses format %d of commands, this server reads up to %d: it is too old for the cell", format, wire.Format))
	}
}
