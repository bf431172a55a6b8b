package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// model is a cell that keeps its guarantees, with clients of one lock, one election and some keys each, as far as their
// calls go: each takes effect between its start and its return, or, with no answer, also later or never.
type model struct {
	rng      *rand.Rand
	h        History
	now      time.Duration
	revision uint64
	keys     map[string]Event
	locks    map[string][]*Op // the holder's call, and then those that wait
	values   int
	later    []func() // what has not been answered, and is still to be made
}

const (
	modelClients  = 10
	modelWatchers = 3
)

func generate(seed uint64, ops int) *History {
	m := &model{rng: rand.New(rand.NewPCG(seed, 1)), keys: make(map[string]Event), locks: make(map[string][]*Op), revision: 100}
	m.h.Ops = make([]Op, 0, ops+1) // pointers to them are kept
	for w := range modelWatchers {
		m.h.Batches = append(m.h.Batches, Batch{Watcher: w, Prefix: true, Snapshot: true, Revision: 100})
	}
	for len(m.h.Ops) < ops {
		m.turn()
	}
	return &m.h
}

// turn is some calls at once, which take effect in any order.
func (m *model) turn() {
	var calls []*Op
	for client := range modelClients {
		if m.rng.IntN(2) == 0 || len(m.h.Ops) == cap(m.h.Ops) {
			continue
		}
		m.now += time.Duration(m.rng.IntN(1000))
		m.h.Ops = append(m.h.Ops, m.call(client))
		op := &m.h.Ops[len(m.h.Ops)-1]
		op.ID, op.Client, op.Session, op.Call, op.Outcome = len(m.h.Ops), client, uint64(client+1), m.now, OK
		calls = append(calls, op)
	}
	m.rng.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	for _, op := range calls {
		m.now += time.Duration(m.rng.IntN(1000))
		op.Return = m.now + time.Duration(m.rng.IntN(3000))
		switch {
		case (op.Kind == Put || op.Kind == Delete) && m.rng.IntN(20) == 0:
			made := *op
			op.Outcome, op.Revision = Unknown, 0
			m.later = append(m.later, func() { m.effect(&made) })
		default:
			m.effect(op)
		}
		if len(m.later) > 0 && m.rng.IntN(10) == 0 {
			m.later[0]()
			m.later = m.later[1:]
		}
	}
	m.now += 3000
}

func (m *model) call(client int) Op {
	m.values++
	key, value := fmt.Sprint("key/", m.rng.IntN(8)), fmt.Sprint(m.values)
	name := fmt.Sprint("lock/", m.rng.IntN(6))
	for n, queue := range m.locks {
		if len(queue) > 0 && queue[0].Client == client && m.rng.IntN(3) > 0 {
			return []Op{{Kind: Check, Name: n, Token: queue[0].Token}, {Kind: Unlock, Name: n, Token: queue[0].Token}}[m.rng.IntN(2)]
		}
	}
	return []Op{
		{Kind: Put, Name: key, Value: value, Lasting: true},
		{Kind: Put, Name: key, Value: value, Lasting: true, If: Condition{Absent: true}},
		{Kind: Put, Name: key, Value: value, Lasting: true, If: Condition{Revision: m.keys[key].Revision}},
		{Kind: Delete, Name: key, Lasting: true},
		{Kind: Get, Name: key},
		{Kind: TryLock, Name: name},
		{Kind: Lookup, Name: name},
	}[m.rng.IntN(7)]
}

func (m *model) effect(op *Op) {
	old, exists := m.keys[op.Name]
	refuse := func(text string) { op.Outcome, op.Err = Refused, text }
	switch op.Kind {
	case Put:
		if op.If.Absent && exists || op.If.Revision != 0 && op.If.Revision != old.Revision {
			refuse(textConflict)
			return
		}
		m.change(Event{Type: eventPut, Key: op.Name, Value: op.Value})
		op.Revision = m.revision
	case Delete:
		if !exists {
			refuse(textNotFound)
			return
		}
		m.change(Event{Type: eventDelete, Key: op.Name})
		op.Revision = m.revision
	case Get:
		op.Value, op.Revision = old.Value, old.Revision
	case TryLock:
		if len(m.locks[op.Name]) > 0 {
			refuse(textLocked)
			return
		}
		m.revision++
		op.Token = m.revision
		m.locks[op.Name] = []*Op{op}
	case Unlock:
		m.revision++
		delete(m.locks, op.Name)
	case Lookup:
		if queue := m.locks[op.Name]; len(queue) > 0 {
			op.Holder, op.Token = queue[0].Session, queue[0].Token
		}
	}
}

func (m *model) change(e Event) {
	m.revision++
	e.Revision = m.revision
	if e.Type == eventPut {
		m.keys[e.Key] = e
	} else {
		delete(m.keys, e.Key)
	}
	for w := range modelWatchers {
		m.h.Batches = append(m.h.Batches, Batch{Watcher: w, Prefix: true, Revision: e.Revision, At: m.now, Events: []Event{e}})
	}
}

func TestGenerated_GoodHistories(t *testing.T) {
	for seed := range uint64(10) {
		r := Verify(generate(seed, 1000))
		for _, v := range r.Violations {
			t.Errorf("seed %d: found in a good history: %v", seed, v)
		}
		if r.Undecided > 0 || r.Grants == 0 || r.Changes == 0 {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
}

// lies falsify one answer or event of a history, at i if it is fit for that.
func lies() map[string]func(*History, int) bool {
	return map[string]func(*History, int) bool{
		"an old value is read": func(h *History, i int) bool {
			op := &h.Ops[i]
			if op.Kind != Get || op.Revision == 0 {
				return false
			}
			for j := i - 1; j >= 0; j-- { // one that the value read has replaced
				old := &h.Ops[j]
				if old.Kind == Put && old.Name == op.Name && old.Outcome == OK && old.Revision < op.Revision {
					if put := writer(h, op.Value); put == nil || put.Return >= op.Call {
						return false
					}
					op.Value, op.Revision = old.Value, old.Revision
					return true
				}
			}
			return false
		},
		"a write that was made is said to be refused": func(h *History, i int) bool {
			op := &h.Ops[i]
			if op.Kind != Put || op.Outcome != OK {
				return false
			}
			op.Outcome, op.Err, op.Revision = Refused, textConflict, 0
			return true
		},
		"a holder of before is shown": func(h *History, i int) bool {
			op := &h.Ops[i]
			if op.Kind != Lookup || op.Holder != 0 {
				return false
			}
			for j := i - 1; j >= 0; j-- {
				if free := &h.Ops[j]; free.Kind == Unlock && free.Name == op.Name && free.Return < op.Call {
					op.Holder, op.Token = free.Session, free.Token
					return true
				}
			}
			return false
		},
		"an event is left out": func(h *History, i int) bool {
			i += modelWatchers
			if i+modelWatchers >= len(h.Batches) {
				return false
			}
			h.Batches = append(h.Batches[:i:i], h.Batches[i+1:]...)
			return true
		},
		"two events change places": func(h *History, i int) bool {
			i += modelWatchers
			if i+modelWatchers >= len(h.Batches) {
				return false
			}
			h.Batches[i], h.Batches[i+modelWatchers] = h.Batches[i+modelWatchers], h.Batches[i]
			return true
		},
		"an event has another value": func(h *History, i int) bool {
			if i < modelWatchers || i >= len(h.Batches) || h.Batches[i].Events[0].Type != eventPut {
				return false
			}
			h.Batches[i].Events = []Event{h.Batches[i].Events[0]}
			h.Batches[i].Events[0].Value = "nobody's"
			return true
		},
	}
}

func TestGenerated_OneLie(t *testing.T) {
	for name, lie := range lies() {
		t.Run(name, func(t *testing.T) {
			told := 0
			for seed := range uint64(12) {
				h := generate(seed, 400)
				i := 200
				for i < 400 && !lie(h, i) {
					i++
				}
				if i == 400 {
					continue
				}
				told++
				if len(Verify(h).Violations) == 0 {
					t.Errorf("seed %d, at %d: not found", seed, i)
				}
			}
			if told < 8 {
				t.Errorf("only %d histories could be falsified", told)
			}
		})
	}
}

func writer(h *History, value string) *Op {
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == Put && op.Value == value && op.Outcome == OK {
			return op
		}
	}
	return nil
}

func BenchmarkVerify(b *testing.B) {
	h := generate(1, 10_000)
	b.ResetTimer()
	for b.Loop() {
		if r := Verify(h); len(r.Violations)+r.Undecided > 0 {
			b.Fatal(r)
		}
	}
}
