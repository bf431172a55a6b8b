package fsm

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the stories in testdata print now into them")

// TestStories runs the scripts of testdata. In a script
//
//   - a line that begins with # is a comment;
//   - an indented line is expected output of the command above it;
//   - every other line is one log entry, or a look at the state. Commands of one entry are separated by ";".
//
// Revision 7 after the second Generation is written G2.7, for that one's own revision is a large number.
//
// A change is written "who: verb arguments", and numbered by the runner unless it says seq=N. The whole of what
// Apply returned is printed, and the revision if it rose. After every entry the state is replaced by one restored
// from its own records, which must have the same hash.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runStory(t, string(script))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(script) {
				t.Errorf("the story goes otherwise (-rewrite accepts that):\n%s", firstDifference(string(script), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	clip := func(l []string) string { return strings.Join(l[min(i, len(l)):min(i+6, len(l))], "\n") }
	return fmt.Sprintf("line %d\nwant:\n%s\ngot:\n%s", i+1, clip(w), clip(g))
}

// story is the state of the runner.
type story struct {
	t     *testing.T
	state *State
	term  uint64
	index uint64
	ids   map[string]SessionID // names of the script
	seqs  map[string]uint64    // last number used
	lives []Revision           // those of the Generations
	given map[string]Revision  // newest token of name@who
	out   strings.Builder
}

func runStory(t *testing.T, script string) string {
	s := &story{t: t, state: New(), term: 1, ids: map[string]SessionID{}, seqs: map[string]uint64{}, given: map[string]Revision{}}
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "  "):
			continue // expected output: printed anew
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&s.out, line)
		default:
			fmt.Fprintln(&s.out, line)
			s.line(line)
		}
	}
	return s.out.String()
}

func (s *story) print(format string, args ...any) { fmt.Fprintf(&s.out, "  "+format+"\n", args...) }

func (s *story) line(line string) {
	if s.look(strings.Fields(line)) {
		return
	}
	var cmds []Command
	opened := map[Nonce]string{}
	for part := range strings.SplitSeq(line, ";") {
		c := s.command(strings.Fields(part))
		if o, ok := c.(OpenSession); ok {
			opened[o.Nonce] = strings.Fields(part)[1]
		}
		cmds = append(cmds, c)
	}
	s.index++
	before := s.state.Revision()
	out := s.state.Apply(s.index, s.term, cmds)
	for _, r := range out.Replies {
		if name, ok := opened[r.Nonce]; ok && r.Result.Code == OK && r.Session == 0 {
			s.ids[name] = r.Result.Session
		}
	}
	for _, c := range cmds {
		if g, ok := c.(Generation); ok && s.state.Revision() > before {
			s.lives = append(s.lives, max(before+1<<32, Revision(g.Seconds<<23)))
		}
	}
	s.output(out)
	if rev := s.state.Revision(); rev != before {
		s.print("revision %s", s.rev(rev))
	}
	s.state = restored(s.t, s.state)
}

// args are what a command of a script says: words, and name=value.
type args struct {
	words []string
	named map[string]string
}

func parse(fields []string) args {
	a := args{named: map[string]string{}}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok && !strings.Contains(k, "(") {
			a.named[k] = v
		} else {
			a.words = append(a.words, f)
		}
	}
	return a
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (s *story) num(text string) uint64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		s.t.Fatalf("not a number: %q", text)
	}
	return n
}

// rev writes a revision, and toRev reads it.
func (s *story) rev(r Revision) string {
	for i, base := range slices.Backward(s.lives) {
		if r >= base {
			return fmt.Sprintf("G%d.%d", i+1, r-base)
		}
	}
	return fmt.Sprint(uint64(r))
}

func (s *story) toRev(text string) Revision {
	life, offset, ok := strings.Cut(strings.TrimPrefix(text, "G"), ".")
	if !ok {
		return Revision(s.num(text))
	}
	return s.lives[s.num(life)-1] + Revision(s.num(offset))
}

func (s *story) id(name string) SessionID {
	if id, ok := s.ids[name]; ok {
		return id
	}
	return SessionID(s.num(strings.TrimPrefix(name, "#")))
}

func (s *story) name(id SessionID) string {
	for _, name := range slices.Sorted(maps.Keys(s.ids)) {
		if s.ids[name] == id {
			return name
		}
	}
	return fmt.Sprintf("#%d", id)
}

func optional(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

func (s *story) command(fields []string) Command {
	if who, ok := strings.CutSuffix(fields[0], ":"); ok {
		return s.change(who, fields[1], parse(fields[2:]))
	}
	a := parse(fields[1:])
	term := s.term
	if v, ok := a.named["term"]; ok {
		term = s.num(v)
	}
	switch fields[0] {
	case "open":
		o := OpenSession{TTL: 10e9, Label: a.named["label"], Node: "n1", Internal: a.has("internal")}
		copy(o.Nonce[:], a.word(0)+a.named["nonce"])
		if v, ok := a.named["ttl"]; ok {
			o.TTL = int64(s.num(v)) * 1e9
		}
		return o
	case "expire":
		e := Expire{Term: term}
		for _, who := range a.words {
			e.Sessions = append(e.Sessions, s.id(who))
		}
		return e
	case "reap":
		return Reap{}
	case "expire-grants":
		return ExpireGrants{Term: term, Grants: s.grantIDs(a.words)}
	case "end-delay":
		return EndDelay{Term: term, Losses: s.grantIDs(a.words)}
	case "finish-revoke":
		c := FinishRevoke{Term: term}
		for _, w := range a.words {
			if strings.Contains(w, "@") {
				c.Grants = append(c.Grants, s.grantIDs([]string{w})...)
			} else {
				c.Sessions = append(c.Sessions, s.id(w))
			}
		}
		return c
	case "set-format":
		return SetFormat{Format: uint16(s.num(a.word(0)))}
	case "term-start":
		c := TermStart{Format: 1}
		copy(c.Nonce[:], a.word(0))
		return c
	case "generation":
		n := func(name string) int { return int(s.num(a.named[name])) }
		c := Generation{First: a.has("first"), Seconds: s.num(a.named["seconds"]), Params: Params{
			HistoryEvents: n("events"), HistoryBytes: n("bytes"), Sessions: n("sessions"), Locks: n("locks"),
			Keys: n("keys"), Waiters: n("waiters"), ReapStep: n("step"),
		}}
		copy(c.Cell[:], a.named["cell"])
		return c
	case "end-hold":
		return EndHold{Term: term}
	case "check":
		return Check{Index: s.num(a.word(0)), Hash: s.num(a.word(1))}
	case "member":
		return SetMember{Member{ID: a.word(0), Name: a.word(1), Addr: a.word(2)}}
	case "remove-member":
		return RemoveMember{ID: a.word(0)}
	}
	s.t.Fatalf("what is %q?", fields)
	return nil
}

func (s *story) change(who, verb string, a args) Command {
	c := Change{Session: s.id(who)}
	if v, ok := a.named["seq"]; ok {
		c.Seq = s.num(v)
	} else {
		s.seqs[who]++
		c.Seq = s.seqs[who]
	}
	if v, ok := a.named["ack"]; ok {
		for n := range strings.SplitSeq(v, ",") {
			c.Acks = append(c.Acks, s.num(n))
		}
	}
	token := s.token(a.word(0), a.named["token"])
	cond := Precondition{Absent: a.has("absent"), At: s.toRev(a.named["at"])}
	switch verb {
	case "close":
		return CloseSession{c}
	case "lock":
		return s.lock(c, a)
	case "hand-over":
		return HandOver{Change: c, Name: a.word(0), Token: token, To: s.id(a.named["to"])}
	case "revoke":
		return Revoke{Change: c, Name: a.word(0), Token: token, Force: a.has("force")}
	case "revoke-session":
		return RevokeSession{Change: c, Target: s.id(a.word(0)), Force: a.has("force")}
	case "unlock":
		return Unlock{Change: c, Name: a.word(0), Token: token}
	case "withdraw":
		w := Withdraw{Change: c, OnlyQueued: a.has("only-queued")}
		if a.word(0) == "last" {
			w.Target = c.Seq - 1
		} else {
			w.Target = s.num(a.word(0))
		}
		return w
	case "set-data":
		return SetData{Change: c, Name: a.word(0), Token: token, Data: optional(a.named["data"])}
	case "put":
		return Put{Change: c, Key: a.word(0), Value: optional(a.word(1)), Ephemeral: a.has("ephemeral"), If: cond}
	case "delete":
		return Delete{Change: c, Key: a.word(0), If: cond}
	case "txn":
		return s.txn(c, a)
	}
	s.t.Fatalf("%s: what is %q?", who, verb)
	return nil
}

// txn reads: if absent(k) at(k,5) is(k,v) held(name,5) then put(k,v) get(k) delete(k) else … [ephemeral]
func (s *story) txn(c Change, a args) Command {
	t := Txn{Change: c, Ephemeral: a.has("ephemeral")}
	part := "if"
	for _, w := range a.words {
		verb, rest, ok := strings.Cut(strings.TrimSuffix(w, ")"), "(")
		if !ok {
			part = w
			continue
		}
		k, v, _ := strings.Cut(rest, ",")
		op := Op{Kind: map[string]OpKind{"get": OpGet, "put": OpPut, "delete": OpDelete}[verb], Key: k, Value: optional(v)}
		switch part {
		case "if":
			cond := Condition{Key: k, Kind: map[string]ConditionKind{
				"at": KeyAt, "absent": KeyAbsent, "is": ValueIs, "held": HeldBy}[verb]}
			if cond.Kind == ValueIs {
				cond.Value = optional(v)
			} else {
				cond.Revision = s.token(k, v)
			}
			t.If = append(t.If, cond)
		case "then":
			t.Then = append(t.Then, op)
		case "else":
			t.Else = append(t.Else, op)
		}
	}
	return t
}

// look answers a line that looks at the state or turns a knob of the runner.
func (s *story) look(f []string) bool {
	switch f[0] {
	case "term":
		s.term = s.num(f[1])
	case "lookup":
		v := s.state.Lookup(f[1])
		for _, h := range v.Holders {
			s.print("held by %s token=%s data=%q label=%q%s", s.name(h.Session), s.rev(h.Token), h.Data, h.Label, viewed(v, h))
		}
		for _, w := range v.Queue {
			s.print("waiting %s/%d since %s%s", s.name(w.Session), w.Seq, s.rev(w.Queued), asked(w.Names, w.Shared, w.Slots))
		}
		for _, e := range v.Delayed {
			s.print("delayed after token=%s for %ds", s.rev(e.Token), e.Delay/1e9)
		}
		if v.Freeing {
			s.print("freeing")
		} else if len(v.Holders)+len(v.Queue) == 0 {
			s.print("free")
		}
	case "list":
		a := parse(f[1:])
		kvs, more := s.state.List(a.word(0), a.named["after"], int(s.num(a.named["limit"])))
		for _, kv := range kvs {
			s.print("%s", s.kv(kv))
		}
		s.print("%d keys, more: %v", len(kvs), more)
	case "counts":
		s.print("%+v reaping: %v", s.state.Counts(), s.state.Reaping())
	case "history":
		s.print("floor %s", s.rev(s.state.Floor()))
		for e := range s.state.Events(s.toRev(f[1])) {
			s.print("%s", s.event(e))
		}
	case "sessions":
		for v := range s.state.Sessions() {
			s.print("%s ttl=%d internal=%v", s.name(v.ID), v.TTL/1e9, v.Internal)
		}
	case "uses":
		s.print("%+v", s.state.Uses(s.id(f[1])))
	case "locks":
		a := parse(f[1:])
		for name, v := range s.state.Locks(a.word(0), a.named["after"]) {
			s.print("%s: %d holders, %d waiting", name, len(v.Holders), len(v.Queue))
		}
	case "levels":
		s.levels()
	case "hold":
		ttl, on := s.state.Hold()
		s.print("%v, for %ds", on, ttl/1e9)
	case "members":
		s.print("%v", s.state.Members())
	default:
		return false
	}
	return true
}

func (s *story) output(out Output) {
	for _, r := range out.Replies {
		who := fmt.Sprintf("%s/%d", s.name(r.Session), r.Seq)
		if r.Session == 0 {
			who = "open " + string(bytes.TrimRight(r.Nonce[:], "\x00"))
		}
		s.print("reply %s: %s", who, s.result(r.Result))
	}
	for _, e := range out.Opened {
		s.print("opened %s ttl=%d label=%q", s.name(e.Session), e.TTL/1e9, e.Label)
	}
	for _, e := range out.Ended {
		s.print("ended %s closed=%v", s.name(e.Session), e.Closed)
	}
	for _, r := range out.Releases {
		why := map[ReleaseReason]string{Unlocked: "unlocked", SessionClosed: "closed", SessionExpired: "expired",
			LockExpired: "lease expired", GrantRevoked: "revoked", HandedOver: "handed over"}[r.Reason]
		s.print("release %s by %s token=%s%s: %s", r.Name, s.name(r.Session), s.rev(r.Token), asked(r.Names, false, 0), why)
	}
	for _, g := range out.Grants {
		for _, name := range append([]string{g.Name}, g.Names...) {
			s.given[name+"@"+s.name(g.Session)] = g.Token
		}
		more := asked(g.Names, g.Shared, g.Slots)
		if g.Slots > 0 {
			more += fmt.Sprintf(" slot=%d", g.Slot)
		}
		if g.TTL > 0 {
			more += fmt.Sprintf(" ttl=%d", g.TTL/1e9)
		}
		s.print("grant %s to %s token=%s queued=%s%s", g.Name, s.name(g.Session), s.rev(g.Token), s.rev(g.Queued), more)
	}
	for _, e := range out.Delayed {
		s.print("delayed %s after token=%s for %ds", e.Name, s.rev(e.Token), e.Delay/1e9)
	}
	for _, m := range out.Marked {
		s.print("marked %s", s.mark(m))
	}
	for _, e := range out.Events {
		s.print("%s", s.event(e))
	}
	if len(out.Touched) > 0 {
		s.print("touched %s", strings.Join(slices.Compact(out.Touched), " "))
	}
	if out.Started != nil {
		s.print("started %s", bytes.TrimRight(out.Started.Nonce[:], "\x00"))
	}
	for _, c := range out.Checks {
		s.print("check index=%d hash=%d", c.Index, c.Hash)
	}
	if out.Members {
		s.print("members changed")
	}
	if out.Format {
		s.print("format %d", s.state.Format())
	}
	if out.Held {
		_, on := s.state.Hold()
		s.print("hold changed: %v", on)
	}
}

func (s *story) result(r Result) string {
	text := map[Code]string{OK: "OK", Locked: "Locked", NotHeld: "NotHeld", Granted: "Granted", Conflict: "Conflict",
		KeyNotFound: "KeyNotFound", UnknownSession: "UnknownSession", Refused: "Refused", LimitReached: "LimitReached",
		Withdrawn: "Withdrawn", Malformed: "Malformed", SlotsMismatch: "SlotsMismatch", Upgrade: "Upgrade",
		Deadlock: "Deadlock", NotQueued: "NotQueued", Revoked: "Revoked", NoSuchSession: "NoSuchSession"}[r.Code]
	if r.Limit != 0 {
		text += " " + map[Limit]string{LimitSessions: "sessions", LimitLocks: "locks", LimitKeys: "keys",
			LimitWaiters: "waiters", LimitOutstanding: "outstanding"}[r.Limit]
	}
	if r.Revision != 0 {
		text += " revision=" + s.rev(r.Revision)
	}
	if r.Session != 0 {
		text += " session=" + s.name(r.Session)
	}
	if r.Slots != 0 {
		text += fmt.Sprintf(" slots=%d", r.Slots)
	}
	if r.Slot != 0 {
		text += fmt.Sprintf(" slot=%d", r.Slot)
	}
	if r.Cycle != nil {
		for _, w := range r.Cycle.Waits {
			text += fmt.Sprintf(" [%s holds %s@%s waits for %s]", s.name(w.Session), w.Holds, s.rev(w.Token), w.WaitsFor)
		}
	}
	if r.Succeeded {
		text += " succeeded"
	}
	for _, op := range r.Ops {
		if op.Found {
			text += fmt.Sprintf(" [%s]", s.kv(op.KV))
		} else {
			text += " [not found]"
		}
	}
	return text
}

func (s *story) kv(kv KeyValue) string {
	text := fmt.Sprintf("%s=%q created=%s changed=%s", kv.Key, kv.Value, s.rev(kv.Created), s.rev(kv.Changed))
	if kv.Session != 0 {
		text += " owner=" + s.name(kv.Session)
	}
	return text
}

func (s *story) event(e Event) string {
	what := map[EventType]string{EventPut: "put", EventDelete: "delete", EventExpire: "expire"}[e.Type]
	text := fmt.Sprintf("event %s: %s %s value=%q previous=%q", s.rev(e.Revision), what, e.Key, e.Value, e.Previous)
	if e.Session != 0 {
		text += " owner=" + s.name(e.Session)
	}
	return text
}
