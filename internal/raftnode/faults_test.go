package raftnode

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// While the leader is cut off, slowed and replaced, at random, nobody gets evidence for a term at a moment at which a
// later one had become active.
func TestG3G5_EvidenceUnderFaults(t *testing.T) {
	for seed := range int64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { evidenceUnderFaults(t, rand.New(rand.NewSource(seed))) })
		})
	}
}

// proof is evidence that was had for a term and a moment, activation that a term became active at a moment.
type proof struct {
	node string
	term uint64
	at   time.Time
}

func evidenceUnderFaults(t *testing.T, rng *rand.Rand) {
	var mu sync.Mutex
	var proofs, activations []proof
	c := startCell(t, 3, 1, func(i int, cfg *Config) {
		was := cfg.Activated
		cfg.Activated = func(term uint64) {
			was(term)
			mu.Lock()
			defer mu.Unlock()
			activations = append(activations, proof{cfg.ID, term, time.Now()})
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i, m := range c.nodes[:3] {
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(time.Duration(1+i) * 3 * time.Millisecond)
					term, at := m.ActiveTerm(), time.Now()
					if term == 0 || m.WaitEvidence(ctx, term, m.Stamp(), i%2 == 0) != nil {
						continue
					}
					mu.Lock()
					proofs = append(proofs, proof{m.ID(), term, at})
					mu.Unlock()
				}
			})
		}
	}
	for i := range 40 {
		l := c.leader()
		others := c.others(l, c.nodes[3])
		_ = l.Propose(ctx, fmt.Append(nil, i)) // it may have been replaced in the meantime
		switch rng.Intn(4) {
		case 0: // cut off, but for the non-voter
			c.cut(l, others...)
		case 1: // it hears late, is replaced, and does not hear from its successor
			for _, o := range others {
				l.wire.slow(o.ID(), time.Duration(50+rng.Intn(200))*time.Millisecond)
			}
			time.Sleep(time.Duration(50+rng.Intn(150)) * time.Millisecond)
			for _, o := range others {
				o.wire.cut(l.ID(), true)
			}
			_ = l.Transfer(ctx, "")
			time.Sleep(time.Duration(rng.Intn(5)) * time.Millisecond)
		case 2:
			_ = l.Transfer(ctx, "")
		case 3: // it sends, but hears nothing in time
			for _, o := range others {
				l.wire.slow(o.ID(), election)
			}
		}
		time.Sleep(time.Duration(rng.Intn(900)) * time.Millisecond)
		c.heal()
	}
	c.leader()
	cancel()
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	slices.SortFunc(activations, func(a, b proof) int { return a.at.Compare(b.at) })
	for _, p := range proofs {
		for _, a := range activations {
			if a.term > p.term && a.at.Before(p.at) {
				t.Errorf("%s has evidence for term %d after %v, but %s was active in term %d since %v", p.node, p.term, p.at, a.node, a.term, a.at)
				break
			}
		}
	}
	if len(proofs) < 1000 || len(activations) < 10 {
		t.Errorf("%d proofs in %d terms: the test shows little", len(proofs), len(activations))
	}
}
