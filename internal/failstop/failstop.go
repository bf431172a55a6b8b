// Package failstop is the switch that silences a node for good.
//
// A node whose disk failed, whose state broke an invariant or that found itself in the minority must not let anything
// more leave it: every part that sends or answers asks the switch first, and the switch is thrown before the call that
// found the fault returns. It is never reset.
package failstop

import "sync"

// Switch is thrown at most once. Its zero value is not usable; make one with New. Safe for concurrent use.
type Switch struct {
	mu   sync.Mutex
	err  error
	done chan struct{}
}

// New returns a switch that has not been thrown.
func New() *Switch { return &Switch{done: make(chan struct{})} }

// Trip throws the switch with its reason. Only the first reason counts. It reports whether this call was the first.
func (s *Switch) Trip(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = err
	close(s.done)
	return true
}

// Err is the reason, nil while the switch has not been thrown.
func (s *Switch) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Tripped is closed when the switch is thrown.
func (s *Switch) Tripped() <-chan struct{} { return s.done }
