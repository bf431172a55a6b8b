package raftnode

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// witness says that the leader's process is dead, with n's own log and term.
func witness(m *member) Testimony { return m.Testify(true) }

// Who may stand, by what the voters say.
func TestWhoMayStand(t *testing.T) {
	voters := func(ids ...string) (c raft.Configuration) {
		for _, id := range ids {
			c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
		}
		return c
	}
	of3, of5 := voters("a", "b", "l"), voters("a", "b", "c", "d", "l")
	nonvoter := voters("a", "b", "l")
	nonvoter.Servers[1].Suffrage = raft.Nonvoter
	four := nonvoter
	four.Servers = append(slices.Clone(nonvoter.Servers), voters("c").Servers...)
	const term = 7
	saw := func(id string, index uint64) Testimony {
		return Testimony{Voter: id, Dead: true, Term: term, LastTerm: term, LastIndex: index}
	}
	as := func(t Testimony, change func(*Testimony)) Testimony {
		change(&t)
		return t
	}
	for name, c := range map[string]struct {
		of     raft.Configuration
		own    Testimony
		others []Testimony
		may    bool
	}{
		"both survivors of three":            {of3, saw("a", 10), []Testimony{saw("b", 10)}, true},
		"alone":                              {of3, saw("a", 10), nil, false},
		"its own voice heard twice":          {of3, saw("a", 10), []Testimony{saw("a", 10)}, false},
		"one voice heard twice":              {of5, saw("a", 10), []Testimony{saw("b", 10), saw("b", 10)}, false},
		"three of five":                      {of5, saw("a", 10), []Testimony{saw("b", 10), saw("c", 10)}, true},
		"two of five":                        {of5, saw("a", 10), []Testimony{saw("b", 10)}, false},
		"opinions are split":                 {of3, saw("a", 10), []Testimony{as(saw("b", 10), func(t *Testimony) { t.Dead = false })}, false},
		"the other is in an earlier term":    {of3, saw("a", 10), []Testimony{as(saw("b", 10), func(t *Testimony) { t.Term = 6 })}, false},
		"the other is in a later term":       {of3, saw("a", 10), []Testimony{as(saw("b", 10), func(t *Testimony) { t.Term = 8 })}, false},
		"this node is in a later term":       {of3, as(saw("a", 10), func(t *Testimony) { t.Term = 8 }), []Testimony{saw("b", 10), saw("l", 9)}, false},
		"enough, and one in a later term":    {of5, saw("a", 10), []Testimony{saw("b", 10), saw("c", 10), as(saw("d", 9), func(t *Testimony) { t.Term = 8 })}, false},
		"the longer log":                     {of3, saw("b", 11), []Testimony{saw("a", 10)}, true},
		"the shorter log":                    {of3, saw("a", 10), []Testimony{saw("b", 11)}, false},
		"as long a log, later in rank":       {of3, saw("b", 10), []Testimony{saw("a", 10)}, false},
		"a longer log of an earlier term":    {of3, saw("b", 10), []Testimony{as(saw("a", 99), func(t *Testimony) { t.LastTerm = 6 })}, true},
		"a longer log that has seen nothing": {of5, saw("a", 10), []Testimony{saw("b", 10), saw("c", 10), as(saw("d", 99), func(t *Testimony) { t.Dead = false })}, true},
		"the leader's next process agrees":   {of3, saw("a", 10), []Testimony{saw("l", 10)}, true},
		"a non-voter's voice":                {four, saw("a", 10), []Testimony{saw("b", 10)}, false},
		"a non-voter's log":                  {four, saw("a", 10), []Testimony{saw("b", 99), saw("c", 10)}, true},
		"no voter":                           {nonvoter, saw("b", 10), []Testimony{saw("a", 10), saw("l", 10)}, false},
		"a stranger's voice":                 {of3, saw("a", 10), []Testimony{saw("x", 10)}, false},
		"a stranger":                         {of3, saw("x", 10), []Testimony{saw("a", 10), saw("b", 10)}, false},
		"no configuration":                   {raft.Configuration{}, saw("a", 10), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := mayStand(c.of, term, c.own, c.others)
			if (err == nil) != c.may || err != nil && !errors.Is(err, ErrMayNotStand) {
				t.Error(err)
			}
		})
	}
}

// A testimony says what a vote would be decided by, also when the log is in a snapshot.
func TestTestimony(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, func(_ int, cfg *Config) { cfg.TrailingLogs = 1 })
		l := c.leader()
		slow := c.others(l)[0]
		c.cut(slow, c.others(slow)...)
		for range 20 {
			l.propose(t, "x")
		}
		if err := l.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := Testimony{Voter: l.ID(), Dead: true, Term: l.ActiveTerm(), LastTerm: l.ActiveTerm(), LastIndex: l.LastIndex()}
		if got := witness(l); got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
		c.heal()
		installed := want.LastIndex - 1 // the snapshot of a server that has no entry behind it
		eventually(t, "the snapshot is installed", func() bool { return slow.LastIndex() > installed })
		want.Voter = slow.ID()
		if got := witness(slow); got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
	})
}

// A follower whose leader's process is dead leads long before its timeout.
func TestAFollowerStandsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		f, g := c.others(l)[0], c.others(l)[1]
		time.Sleep(election)
		term := l.ActiveTerm()
		if err := l.Shutdown(); err != nil {
			t.Fatal(err)
		}
		c.cut(l, f, g)
		began := time.Now()
		if err := f.Stand(t.Context(), l.ID(), term, []Testimony{witness(g)}); err != nil {
			t.Fatal(err)
		}
		for f.ActiveTerm() != term+1 && time.Since(began) < election/10 {
			time.Sleep(latency)
		}
		if got := f.ActiveTerm(); got != term+1 {
			t.Errorf("after %v its active term is %d, not %d", time.Since(began), got, term+1)
		}
		if err := g.Stand(t.Context(), l.ID(), term, []Testimony{witness(f)}); !errors.Is(err, ErrMayNotStand) {
			t.Errorf("another one stands for a term that has passed: %v", err)
		}
		time.Sleep(3 * election)
		if got := f.ActiveTerm(); got != term+1 {
			t.Errorf("its active term is %d, not %d", got, term+1)
		}
	})
}

// Who may not stand, whatever the others say, when raft comes to take the request. Nothing happens then.
func TestWhoDoesNotStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 1, nil)
		l := c.leader()
		voters := slices.DeleteFunc(slices.Clone(c.nodes[:3]), func(m *member) bool { return m == l })
		f, g, nonvoter := voters[0], voters[1], c.nodes[3]
		time.Sleep(election)
		term := l.ActiveTerm()
		for name, stands := range map[string]struct {
			who    *member
			leader string
			term   uint64
		}{
			"the leader":           {l, l.ID(), term},
			"a non-voter":          {nonvoter, l.ID(), term},
			"against another node": {f, g.ID(), term},
			"for an earlier term":  {f, l.ID(), term - 1},
			"for a later term":     {f, l.ID(), term + 1},
		} {
			err := stands.who.inbound.stand(t.Context(), candidacy{leader: raft.ServerID(stands.leader), term: stands.term})
			if !errors.Is(err, ErrMayNotStand) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := f.Stand(t.Context(), l.ID(), term, nil); !errors.Is(err, ErrMayNotStand) {
			t.Errorf("without the others: %v", err)
		}
		time.Sleep(2 * election)
		if got := l.ActiveTerm(); got != term {
			t.Errorf("term %d is active, not %d", got, term)
		}
	})
}

// A node stands once for a term, and then for none within an election timeout.
func TestANodeStandsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCell(t, 3, 0, nil)
		l := c.leader()
		f := c.others(l)[0]
		time.Sleep(election)
		first := l.ActiveTerm()
		stand := func(term uint64) error {
			return f.inbound.stand(t.Context(), candidacy{leader: raft.ServerID(l.ID()), term: term})
		}
		begun := time.Now()
		if err := stand(first); err != nil {
			t.Fatal(err)
		}
		eventually(t, "f leads", func() bool { return f.ActiveTerm() != 0 })
		if err := f.Transfer(t.Context(), l.ID()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "f follows", func() bool { id, _ := f.Leader(); return id == l.ID() })
		_, term := f.Leader()
		if time.Since(begun) > election/2 {
			t.Fatalf("%v have passed: the test shows nothing", time.Since(begun))
		}
		if err := stand(first); !errors.Is(err, ErrMayNotStand) {
			t.Errorf("for the same term: %v", err)
		}
		if err := stand(term); !errors.Is(err, ErrMayNotStand) {
			t.Errorf("for the next one after %v: %v", time.Since(begun), err)
		}
		time.Sleep(election)
		if err := stand(first); !errors.Is(err, ErrMayNotStand) {
			t.Errorf("for the same term, an election timeout later: %v", err)
		}
		if err := stand(term); err != nil {
			t.Errorf("an election timeout later: %v", err)
		}
	})
}
