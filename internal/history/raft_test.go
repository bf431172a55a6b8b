package history

import (
	"strings"
	"testing"
)

func entries(from, term uint64, sums ...uint64) (es []Entry) {
	for i, sum := range sums {
		es = append(es, Entry{from + uint64(i), term, sum})
	}
	return es
}

func found(r *Raft, part string) bool {
	for _, v := range r.Violations() {
		if strings.Contains(v.Text, part) {
			return true
		}
	}
	return false
}

// led is a cell in which a led term 1, and b leads term 2. Entries 1 to 3 are committed; a has a fourth that is lost.
func led() *Raft {
	r := NewRaft()
	r.Sent("a", 1, 0, 0, entries(1, 1, 11, 12, 13), 0)
	r.Sent("a", 1, 3, 1, nil, 3)
	r.Applied("a", 1, 1, 11)
	r.Applied("a", 3, 1, 13) // the second is raft's own
	r.Sent("a", 1, 3, 1, entries(4, 1, 14), 3)
	r.Sent("b", 2, 3, 1, entries(4, 2, 24, 25), 3)
	r.Sent("b", 2, 5, 2, nil, 5)
	r.Sent("a", 1, 3, 1, entries(4, 1, 14), 3) // once more, late
	r.Applied("b", 1, 1, 11)
	r.Applied("b", 3, 1, 13)
	r.Applied("b", 4, 2, 24)
	return r
}

func TestRaft_GoodCell(t *testing.T) {
	r := led()
	r.Applied("a", 4, 2, 24)
	r.Applied("a", 1, 1, 11) // restarted
	r.Applied("a", 3, 1, 13)
	r.Restored("c", 2)
	r.Applied("c", 3, 1, 13)
	r.Applied("b", 5, 2, 25)
	r.Sent("b", 2, 0, 0, nil, 0) // heartbeat
	r.Sent("d", 4, 0, 0, nil, 0)
	r.Applied("a", 8, 2, 28)                   // committed by d
	r.Sent("b", 2, 9, 2, nil, 9)               // says what d has told it, a moment after its own term
	r.Sent("e", 3, 7, 2, entries(8, 3, 38), 0) // which led before d
	r.Sent("e", 3, 8, 3, entries(9, 3, 39), 0)
	if v := r.Violations(); len(v) > 0 {
		t.Errorf("found in a good cell: %v", v)
	}
}

func TestRaft_Violations(t *testing.T) {
	for name, c := range map[string]struct {
		part string
		then func(*Raft)
	}{
		"two leaders":            {"both lead term 2", func(r *Raft) { r.Sent("a", 2, 0, 0, nil, 0) }},
		"commit not compared":    {"commit index 6", func(r *Raft) { r.Sent("b", 2, 5, 2, nil, 6) }},
		"a hole in a message":    {"sends entry 7", func(r *Raft) { r.Sent("b", 2, 5, 2, entries(7, 2, 1), 5) }},
		"a term falls":           {"sends entry 6 of term 1", func(r *Raft) { r.Sent("b", 2, 5, 2, entries(6, 1, 1), 5) }},
		"another content":        {"before that it was sent with sum", func(r *Raft) { r.Sent("b", 2, 4, 2, entries(5, 2, 99), 4) }},
		"another predecessor":    {"before that it was sent with sum", func(r *Raft) { r.Sent("b", 2, 3, 0, entries(4, 2, 24), 3) }},
		"committed is replaced":  {"was committed there", func(r *Raft) { r.Sent("c", 3, 4, 2, entries(5, 3, 35), 0) }},
		"committed is missing":   {"was committed there", func(r *Raft) { r.Sent("c", 3, 4, 1, nil, 0) }},
		"two commit differently": {"was committed there", func(r *Raft) { r.Sent("a", 1, 3, 1, entries(4, 1, 14), 4) }},
		"applied differs":        {"applied entry 4 of term 1", func(r *Raft) { r.Applied("a", 4, 1, 14) }},
		"applied, not as sent":   {"which was sent with sum", func(r *Raft) { r.Applied("b", 5, 2, 99) }},
		"applied, not the same":  {"committed there was one", func(r *Raft) { r.Applied("a", 9, 2, 1); r.Applied("b", 9, 2, 2) }},
		"one left out":           {"another server after", func(r *Raft) { r.Applied("a", 5, 2, 25); r.Applied("b", 5, 2, 25) }},
		"applied term falls":     {"after entry 4 of term 2", func(r *Raft) { r.Applied("b", 9, 1, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := led()
			c.then(r)
			if !found(r, c.part) {
				t.Errorf("not found: %q; found: %v", c.part, r.Violations())
			}
		})
	}
}

func TestRaft_IsBounded(t *testing.T) {
	r := NewRaft()
	for i := range uint64(window + 1000) {
		r.Sent("a", i+1, i, i, []Entry{{i + 1, i + 1, i}}, i)
		r.Applied("a", i+1, i+1, i)
	}
	if n := max(len(r.log), len(r.committed), len(r.leaders)); n > window+2 || len(r.log) < window {
		t.Errorf("%d entries or terms are remembered, the window is %d", n, window)
	}
	for range 100 {
		r.Sent("b", window+1000, 0, 0, nil, 0)
		r.Sent("a", window+1000, 0, 0, nil, 0)
	}
	if n := len(r.Violations()); n != mostEach+1 {
		t.Errorf("%d violations are told", n)
	}
}
