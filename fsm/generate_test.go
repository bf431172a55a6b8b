package fsm

import "fmt"

// generator makes commands: mostly sensible ones, some stale, repeated or malformed. It looks at the state to find
// tokens and sessions, so that two generators with the same choices and the same states make the same commands.
type generator struct {
	choose func(n int) int // 0 … n-1
	ids    []SessionID     // seen so far, the newest last
	seqs   map[SessionID]uint64
	nonces int
	term   uint64
	rare   int // a Generation is made once in so many commands
}

func newGenerator(choose func(int) int) *generator {
	return &generator{choose: choose, seqs: map[SessionID]uint64{}, term: 1, rare: 3000}
}

// tight are Params that random commands reach soon.
func (g *generator) tight() Params {
	return Params{
		HistoryEvents: 8 + g.choose(30), HistoryBytes: 2000 + g.choose(4000), Sessions: 3 + g.choose(4),
		Locks: 3 + g.choose(4), Keys: 3 + g.choose(4), Waiters: 1 + g.choose(4), ReapStep: 1 + g.choose(6),
	}
}

// entry makes the commands of one log entry.
func (g *generator) entry(s *State) []Command {
	n := 1
	if g.choose(3) == 0 {
		n += g.choose(4)
	}
	var cmds []Command
	for range n {
		cmds = append(cmds, g.command(s))
	}
	return cmds
}

func (g *generator) one(options ...string) string { return options[g.choose(len(options))] }
func (g *generator) name() string                 { return g.one("l1", "l2", "l3", "l4", "l5") }
func (g *generator) key() string                  { return g.one("a/1", "a/2", "a/3", "b/1", "b/2", "c") }
func (g *generator) value() []byte                { return []byte(g.one("", "x", "y", "long value")) }
func (g *generator) chance(oneIn int) bool        { return g.choose(oneIn) == 0 }

// session picks a session, usually a live one.
func (g *generator) session(s *State) SessionID {
	var live []SessionID
	for v := range s.Sessions() {
		live = append(live, v.ID)
		if _, known := g.seqs[v.ID]; !known {
			g.seqs[v.ID] = 0
			g.ids = append(g.ids, v.ID)
		}
	}
	if len(live) == 0 || g.chance(20) {
		if len(g.ids) == 0 {
			return 1
		}
		return g.ids[len(g.ids)-1-g.choose(min(len(g.ids), 8))]
	}
	return live[g.choose(len(live))]
}

func (g *generator) change(s *State) Change {
	id := g.session(s)
	last := g.seqs[id]
	c := Change{Session: id, Seq: last + 1}
	if g.chance(6) {
		c.Seq = uint64(g.choose(int(last) + 3)) // 0 now and then: malformed
	}
	if c.Seq > last {
		g.seqs[id] = c.Seq
	}
	if g.chance(3) {
		for range 1 + g.choose(3) {
			c.Acks = append(c.Acks, uint64(max(1, int(last)-g.choose(8))))
		}
	}
	return c
}

// token picks the present token of a lock, or one beside it.
func (g *generator) token(s *State, name string) Revision {
	v := s.Lookup(name)
	if len(v.Holders) == 0 {
		return s.Revision()
	}
	if g.chance(8) {
		return v.Holders[0].Token - 1
	}
	return v.Holders[0].Token
}

// holder is a change of the session that holds the lock, if there is one.
func (g *generator) holder(s *State, name string) Change {
	c := g.change(s)
	if v := s.Lookup(name); len(v.Holders) > 0 && !g.chance(6) {
		c.Session = v.Holders[0].Session
		g.seqs[c.Session]++
		c.Seq, c.Acks = g.seqs[c.Session], nil
	}
	return c
}

func (g *generator) command(s *State) Command {
	name, key := g.name(), g.key()
	if s.Counts().Sessions == 0 && !g.chance(4) {
		return g.open()
	}
	switch g.choose(27) {
	case 0:
		return g.open()
	case 1:
		return g.withdrawQueued(s, name)
	case 2, 3, 4, 5, 6, 7:
		return g.lock(s, name)
	case 8, 9, 10, 11:
		for range 3 { // a name that is held, if there is one
			if len(s.Lookup(name).Holders) > 0 {
				break
			}
			name = g.name()
		}
		return Unlock{Change: g.holder(s, name), Name: name, Token: g.token(s, name)}
	case 12, 13:
		c := g.change(s)
		return Withdraw{Change: c, Target: uint64(max(0, int(c.Seq)+1-g.choose(7))), OnlyQueued: g.chance(2)}
	case 14:
		return SetData{Change: g.holder(s, name), Name: name, Token: g.token(s, name), Data: g.value()}
	case 15, 16:
		return Put{Change: g.change(s), Key: key, Value: g.value(), Ephemeral: g.chance(2), If: g.precondition(s, key)}
	case 17:
		return Delete{Change: g.change(s), Key: key, If: g.precondition(s, key)}
	case 18, 19:
		return g.txn(s)
	case 20:
		return Reap{}
	case 21:
		if !g.chance(3) {
			return g.open()
		} else if g.chance(2) {
			return Expire{Term: g.otherTerm(), Sessions: []SessionID{g.session(s), g.session(s)}}
		}
		return CloseSession{g.change(s)}
	case 22:
		return EndHold{Term: g.otherTerm()}
	case 23, 24, 25:
		return g.decision(s, name)
	default:
		return g.odd(s)
	}
}

// withdrawQueued takes back a Lock that waits or holds, rather than any number.
func (g *generator) withdrawQueued(s *State, name string) Command {
	w := Withdraw{Change: g.change(s), Target: 1, OnlyQueued: g.chance(2)}
	if v := s.Lookup(name); len(v.Queue) > 0 {
		last := v.Queue[len(v.Queue)-1]
		w.Change = Change{Session: last.Session, Seq: g.seqs[last.Session] + 1}
		g.seqs[last.Session]++
		w.Target = last.Seq
	} else if len(v.Holders) > 0 {
		id := v.Holders[0].Session
		w.Change = Change{Session: id, Seq: g.seqs[id] + 1}
		g.seqs[id]++
		w.Target = max(1, g.seqs[id]-1)
	}
	return w
}

func (g *generator) otherTerm() uint64 {
	if g.chance(4) {
		return g.term + 1
	}
	return g.term
}

func (g *generator) open() Command {
	if !g.chance(3) {
		g.nonces++
	}
	o := OpenSession{TTL: int64(1 + g.choose(30)), Label: g.one("x", "y"), Node: "n", Internal: g.chance(5)}
	copy(o.Nonce[:], fmt.Sprint("nonce", g.nonces))
	return o
}

func (g *generator) precondition(s *State, key string) Precondition {
	var p Precondition
	switch g.choose(5) {
	case 0:
		p.Absent = true
	case 1:
		kv, _ := s.Get(key)
		p.At = kv.Changed
	case 2:
		p.At = s.Revision()
	}
	return p
}

func (g *generator) txn(s *State) Command {
	t := Txn{Change: g.change(s), Ephemeral: g.chance(3)}
	for range g.choose(3) {
		c := Condition{Kind: ConditionKind(1 + g.choose(4)), Key: g.key(), Value: g.value()}
		kv, _ := s.Get(c.Key)
		c.Revision = kv.Changed
		if c.Kind == HeldBy {
			c.Key = g.name()
			c.Revision = g.token(s, c.Key)
		}
		t.If = append(t.If, c)
	}
	for range g.choose(5) {
		t.Then = append(t.Then, Op{Kind: OpKind(1 + g.choose(3)), Key: g.key(), Value: g.value()})
	}
	for range g.choose(3) {
		t.Else = append(t.Else, Op{Kind: OpKind(1 + g.choose(3)), Key: g.key(), Value: g.value()})
	}
	return t
}

// odd makes what is rare.
func (g *generator) odd(s *State) Command {
	switch g.choose(8) {
	case 0:
		return TermStart{Nonce: Nonce{byte(g.choose(5))}, Format: 1}
	case 1:
		return Check{Index: s.Index(), Hash: 7}
	case 2:
		return SetMember{Member{ID: g.one("", "n1", "n2"), Name: g.one("one", "two"), Addr: "a"}}
	case 3:
		return RemoveMember{ID: g.one("n1", "n2")}
	case 4:
		return Lock{Change: g.change(s)}
	case 5:
		return Put{Change: Change{Seq: 1}, Key: "k"}
	case 6:
		return Txn{Change: g.change(s), Then: []Op{{Kind: OpKind(g.choose(6)), Key: "c"}}}
	}
	if !g.chance(max(1, g.rare/192)) { // 24 × 8 commands come here for one
		return Reap{}
	}
	return Generation{
		First: g.chance(2), Cell: Nonce{byte(g.choose(9))}, Seconds: uint64(g.choose(3000)), Params: g.tight(),
	}
}
