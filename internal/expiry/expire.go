package expiry

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	tick       = 50 * time.Millisecond
	retryAfter = 200 * time.Millisecond // a round that failed

	// maxBatch is how many sessions end in one entry: few enough that whoever has an entry to be written meanwhile waits
	// for some milliseconds only.
	maxBatch     = 640
	maxProposals = 2 // entries under way
	// maxRound bounds the sessions that are marked and not yet ended.
	maxRound = maxBatch * maxProposals
)

// watchClock looks at the clock in every tick, also while expire waits for others, so that a tick that does not come is
// a pause.
func (t *Table[K]) watchClock(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		t.mu.Lock()
		if ctx.Err() == nil {
			t.look()
		}
		t.mu.Unlock()
	}
}

// expire ends sessions until the term is over.
func (t *Table[K]) expire(ctx context.Context, term uint64) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		switch err := t.round(ctx, term); {
		case err != nil:
			timer.Reset(retryAfter)
		case t.more():
			timer.Reset(0) // the round was full, and has been written
		default:
			timer.Reset(tick)
		}
	}
}

// more reports whether a round has left some over whose time was up.
func (t *Table[K]) more() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.due != nil
}

// round marks sessions whose time is up and proposes their end, and proposes once more the end of those that a former
// round marked and nobody has ended. It returns when every proposal has been answered.
func (t *Table[K]) round(ctx context.Context, term uint64) error {
	pauses, some := t.collect(ctx)
	if !some {
		return nil
	}
	if err := t.cfg.Evidence(ctx, term); err != nil {
		return err
	}
	var proposals sync.WaitGroup
	results := make([]error, maxProposals)
	i := 0
	for ids := range slices.Chunk(t.mark(ctx, pauses), maxBatch) {
		result := &results[i]
		proposals.Go(func() { *result = t.cfg.Propose(ctx, term, slices.Clone(ids)) })
		i++
	}
	proposals.Wait()
	for _, err := range results {
		if err != nil {
			return err
		}
	}
	return nil
}

// collect takes those whose time is up out of the wheel. It reports whether there is anything to propose, and how many
// pauses there have been by now.
func (t *Table[K]) collect(ctx context.Context) (pauses int, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return 0, false
	}
	now := t.look()
	t.wheel.advance(now, func(s *lease[K]) {
		if t.live[s.id] != s {
			return // ended meanwhile
		}
		if deadline := t.deadline(s); deadline > now {
			t.wheel.file(s, deadline)
		} else {
			s.next, t.due = t.due, s
		}
	})
	return t.pauses.count, t.due != nil || len(t.expiring) > 0
}

// mark marks those whose time is still up, as many as a round may carry, and returns all that are marked. None if there
// was a pause since collect: what the evidence proves is older than the pause then.
func (t *Table[K]) mark(ctx context.Context, pauses int) []K {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	now := t.look()
	if t.pauses.count != pauses {
		return nil
	}
	for t.due != nil && len(t.expiring) < maxRound {
		s := t.due
		t.due, s.next = s.next, nil
		if t.live[s.id] != s {
			continue
		}
		if deadline := t.deadline(s); deadline > now {
			t.wheel.file(s, deadline)
			continue
		}
		delete(t.live, s.id)
		t.expiring[s.id] = struct{}{}
	}
	ids := make([]K, 0, len(t.expiring))
	for id := range t.expiring {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, t.cfg.Compare)
	return ids
}
