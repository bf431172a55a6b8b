package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord/fsm"
	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/replica"
	"github.com/coordcell/coord/internal/wire"
)

// A new cell uses the newest format by itself, and whoever needs that at once waits for it.
func TestFormat_ANewCellUsesTheNewest(t *testing.T) {
	alone(t, func(t *testing.T, s *Server) {
		x, err := s.Caller().OpenSession(t.Context(), caller.SessionOptions{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		terms := &fsm.Terms{More: []string{"b"}}
		if res, _, err := x.Lock(t.Context(), fsm.Lock{Name: "a", Terms: terms}, 0); err != nil || res.Code != fsm.OK {
			t.Errorf("%+v, %v", res, err)
		}
		s.View(func(state *fsm.State) {
			if f := state.Format(); f != wire.Format {
				t.Errorf("format %d, want %d", f, wire.Format)
			}
		})
	})
}

// What an older server could not read is not proposed: it is asked for again until it is known whether there is one, and
// refused when there is.
func TestFormat_NothingNewForAnOldServer(t *testing.T) {
	s := &Server{replica: replica.New(replica.Config{Now: func() time.Duration { return 0 }})}
	defer s.replica.Close()
	newer := []fsm.Command{
		fsm.Lock{Name: "a", Terms: &fsm.Terms{Shared: true}}, fsm.HandOver{Name: "a"}, fsm.Revoke{Name: "a"}, fsm.RevokeSession{},
	}
	for _, cmd := range newer {
		if err := s.checkFormat(cmd); !errors.Is(err, errBusy) {
			t.Errorf("%T before anybody knows: %v", cmd, err)
		}
	}
	s.formats.set("server b reads format 1 only, not 2")
	for _, cmd := range newer {
		if err := s.checkFormat(cmd); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "too old") || !strings.Contains(err.Error(), "server b") {
			t.Errorf("%T: %v", cmd, err)
		}
	}
	for _, cmd := range []fsm.Command{fsm.Lock{Name: "a"}, fsm.Lock{Name: "a", Terms: &fsm.Terms{}}, fsm.Unlock{Name: "a"}} {
		if err := s.checkFormat(cmd); err != nil {
			t.Errorf("%T: %v", cmd, err)
		}
	}
}
