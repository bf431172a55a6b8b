package fsm

import (
	"fmt"
	"testing"
)

// BenchmarkWays compares a Lock and its Unlock with what each of the others costs, beside 1,000 requests that wait in a
// chain and say so: every one holds a lock and waits for the next.
func BenchmarkWays(b *testing.B) {
	more := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprint("more", i))
		}
		return names
	}
	for _, way := range []struct {
		name  string
		terms func(own GrantID) *Terms
	}{
		{"plain", func(GrantID) *Terms { return nil }},
		{"shared", func(GrantID) *Terms { return &Terms{Shared: true} }},
		{"slots", func(GrantID) *Terms { return &Terms{Slots: 3} }},
		{"lease", func(GrantID) *Terms { return &Terms{TTL: 5e9} }},
		{"delay", func(GrantID) *Terms { return &Terms{Delay: 5e9} }},
		{"holding", func(own GrantID) *Terms { return &Terms{Holding: []GrantID{own}} }},
		{"all8", func(GrantID) *Terms { return &Terms{More: more(7)} }},
	} {
		b.Run(way.name, func(b *testing.B) {
			r := newReplica(b)
			chain(r, 1000)
			a := acknowledging{id: r.open("a")}
			own := GrantID{"own", r.do(Lock{Change: a.next(), Name: "own"}).Grants[0].Token}
			terms := way.terms(own)
			// Another lock of the kind, so that no tree is empty.
			other := way.terms(own)
			if other != nil {
				other.More = nil
			}
			r.do(Lock{Change: a.next(), Name: "other", Terms: other})
			b.ReportAllocs()
			for b.Loop() {
				token := r.do(Lock{Change: a.next(), Name: "l", Terms: terms}).Grants[0].Token
				r.do(Unlock{Change: a.next(), Name: "l", Token: token})
			}
		})
	}
}

// BenchmarkWaiting compares requests that wait, and are withdrawn: one that says nothing, one that says what it holds
// and that nobody wants, and one that ends a chain of so many.
func BenchmarkWaiting(b *testing.B) {
	for _, way := range []string{"plain", "holding", "chain10", "chain1000"} {
		b.Run(way, func(b *testing.B) {
			r := newReplica(b)
			chain(r, 1000)
			a := acknowledging{id: r.open("a")}
			own := GrantID{"own", r.do(Lock{Change: a.next(), Name: "own"}).Grants[0].Token}
			waiting := r.open("b")
			r.do(Lock{Change: Change{Session: waiting, Seq: 1}, Name: "own2"})
			name, terms := "l990", &Terms{Holding: []GrantID{own}}
			switch way {
			case "plain":
				terms = nil
			case "chain1000":
				name = "l0"
				fallthrough
			case "chain10":
				r.do(Lock{Change: Change{Session: waiting, Seq: 2}, Name: "own"})
			}
			b.ReportAllocs()
			for b.Loop() {
				c := a.next()
				if out := r.do(Lock{Change: c, Name: name, Terms: terms}); len(out.Replies) != 0 {
					b.Fatal(out.Replies)
				}
				r.do(Withdraw{Change: a.next(), Target: c.Seq})
			}
		})
	}
}
