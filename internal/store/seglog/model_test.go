package seglog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// small makes logs of many segments.
func small(exists bool) Options { return Options{Exists: exists, SegmentSize: 6 << 10, Step: 1 << 10} }

// model is what a log should hold: the terms of its entries, whose contents follow from index and term.
type model struct {
	first uint64 // of the terms
	terms []uint64
}

func (m model) last() uint64 { return m.first + uint64(len(m.terms)) - 1 }

func (m model) clone() model { return model{m.first, append([]uint64(nil), m.terms...)} }

func (m model) with(entries []*raft.Log) model {
	m = m.clone()
	for _, e := range entries {
		if len(m.terms) == 0 {
			m.first = e.Index
		}
		m.terms = append(m.terms, e.Term)
	}
	return m
}

func (m model) without(lo, hi uint64) model {
	m = m.clone()
	switch {
	case len(m.terms) == 0 || hi < m.first || lo > m.last() || lo > hi:
	case lo <= m.first && hi >= m.last():
		m.terms = nil
	case lo <= m.first:
		m.terms, m.first = m.terms[hi+1-m.first:], hi+1
	default:
		m.terms = m.terms[:lo-m.first]
	}
	return m
}

// compare says how l differs.
func (m model) compare(l *Log) error {
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if len(m.terms) == 0 {
		if first != 0 || last != 0 {
			return fmt.Errorf("the log is %d to %d, and should be empty", first, last)
		}
		return nil
	}
	if first != m.first || last != m.last() {
		return fmt.Errorf("the log is %d to %d, and should be %d to %d", first, last, m.first, m.last())
	}
	for i, term := range m.terms {
		var e raft.Log
		index := m.first + uint64(i)
		if err := l.GetLog(index, &e); err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if want := entry(index, term); !reflect.DeepEqual(&e, want) {
			return fmt.Errorf("entry %d is %+v, and should be %+v", index, e, want)
		}
	}
	for _, i := range []uint64{0, first - 1, last + 1} {
		if err := l.GetLog(i, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			return fmt.Errorf("entry %d: %v", i, err)
		}
	}
	return nil
}

// entry is the entry of an index and a term, of 0 to 700 bytes, a few of several thousand.
func entry(index, term uint64) *raft.Log {
	r := rand.New(rand.NewPCG(index, term))
	n := r.IntN(100)
	switch r.IntN(20) {
	case 0:
		n = 0
	case 1:
		n = 700
	case 2:
		n = 3000
	}
	e := &raft.Log{Index: index, Term: term, Type: raft.LogType(r.IntN(3))}
	for range n {
		e.Data = append(e.Data, byte(r.Uint32()))
	}
	if r.IntN(3) == 0 {
		e.Extensions = []byte("extensions")
	}
	if r.IntN(2) == 0 {
		e.AppendedAt = time.Unix(1700000000+int64(index), int64(term)).UTC()
	}
	return e
}

// change is one call that writes.
type change struct {
	entries []*raft.Log
	lo, hi  uint64
}

func (c change) String() string {
	if c.entries != nil {
		return fmt.Sprintf("store %d to %d of term %d", c.entries[0].Index, c.entries[len(c.entries)-1].Index, c.entries[0].Term)
	}
	return fmt.Sprintf("delete %d to %d", c.lo, c.hi)
}

func (c change) do(l *Log) error {
	if c.entries != nil {
		return l.StoreLogs(c.entries)
	}
	return l.DeleteRange(c.lo, c.hi)
}

func (c change) after(m model) model {
	if c.entries != nil {
		return m.with(c.entries)
	}
	return m.without(c.lo, c.hi)
}

func store(from, to, term uint64) (c change) {
	for i := from; i <= to; i++ {
		c.entries = append(c.entries, entry(i, term))
	}
	return c
}

// randomChange is something that raft might do. term rises with each, so that an entry of before cannot pass for one that
// replaced it.
func randomChange(r *rand.Rand, m model, term uint64) change {
	n := uint64(len(m.terms))
	switch k := r.IntN(10); {
	case n == 0:
		first := m.first + uint64(r.IntN(50)) + 1
		return store(first, first+uint64(r.IntN(5)), term)
	case k < 6:
		return store(m.last()+1, m.last()+1+uint64(r.IntN(8)), term)
	case k < 8: // a conflict
		return change{lo: m.last() - r.Uint64N(min(n, 30)), hi: m.last()}
	case k == 8 || n < 20 || r.IntN(3) > 0: // a snapshot
		return change{lo: m.first, hi: m.first + r.Uint64N(n)/2}
	default: // a snapshot of another server
		return change{lo: m.first, hi: m.last()}
	}
}

// TestModel compares the log with a slice, over reopening.
func TestModel(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		d, m := newDisk(), model{}
		l, err := open(d, small(false))
		must(t, err)
		for i := range uint64(200) {
			c := randomChange(r, m, i+1)
			must(t, c.do(l))
			m = c.after(m)
			if err := m.compare(l); err != nil {
				t.Fatalf("seed %d: after %v: %v", seed, c, err)
			}
			if r.IntN(5) > 0 {
				continue
			}
			must(t, l.Close())
			if d.handles != 0 {
				t.Fatalf("seed %d: %d files are still open", seed, d.handles)
			}
			l, err = open(d, small(true))
			must(t, err)
			if err := m.compare(l); err != nil {
				t.Fatalf("seed %d: opened again after %v: %v", seed, c, err)
			}
		}
		if names, _ := d.list(); len(names) > 20 {
			t.Errorf("seed %d: %d segments are left", seed, len(names))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
