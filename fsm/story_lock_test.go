package fsm

import (
	"fmt"
	"slices"
	"strings"
)

// lock reads: lock name… [try] [shared] [slots=2] [ttl=5] [delay=5] [data=x] [holds=name@token,…]
func (s *story) lock(c Change, a args) Command {
	names := slices.DeleteFunc(slices.Clone(a.words), func(w string) bool { return w == "try" || w == "shared" })
	out := Lock{Change: c, Try: a.has("try"), Data: optional(a.named["data"])}
	if len(names) > 0 {
		out.Name, names = names[0], names[1:]
	}
	t := Terms{
		More: names, Shared: a.has("shared"), Slots: int(int64(s.signed(a.named["slots"]))),
		TTL: s.signed(a.named["ttl"]) * 1e9, Delay: s.signed(a.named["delay"]) * 1e9,
	}
	if v, ok := a.named["holds"]; ok {
		t.Holding = s.grantIDs(strings.Split(v, ","))
	}
	if !t.Zero() {
		out.Terms = &t
	}
	return out
}

func (s *story) signed(text string) int64 {
	rest, minus := strings.CutPrefix(text, "-")
	if n := int64(s.num(rest)); minus {
		return -n
	} else {
		return n
	}
}

func (s *story) grantIDs(words []string) (list []GrantID) {
	for _, w := range words {
		name, token, _ := strings.Cut(w, "@")
		list = append(list, GrantID{name, s.token(name, token)})
	}
	return list
}

// token reads a token, which may be given by whom it was granted to last under that name.
func (s *story) token(name, text string) Revision {
	if t, ok := s.given[name+"@"+text]; ok {
		return t
	}
	return s.toRev(text)
}

// asked writes what is beyond one name for oneself alone.
func asked(names []string, shared bool, slots int) (text string) {
	if len(names) > 0 {
		text += fmt.Sprintf(" all=%s", strings.Join(names, ","))
	}
	if shared {
		text += " shared"
	}
	if slots > 0 {
		text += fmt.Sprintf(" slots=%d", slots)
	}
	return text
}

func viewed(v LockView, h Holder) string {
	text := asked(h.Names, h.Shared, 0)
	if v.Slots > 0 && !h.Shared {
		text += fmt.Sprintf(" slot=%d of %d", h.Slot, v.Slots)
	}
	if h.TTL > 0 {
		text += fmt.Sprintf(" ttl=%d", h.TTL/1e9)
	}
	if h.Revoked {
		text += " revoked"
	}
	return text
}

func (s *story) mark(m Mark) string {
	if m.Token == 0 {
		return s.name(m.Session)
	}
	return fmt.Sprintf("%s token=%s of %s", m.Name, s.rev(m.Token), s.name(m.Session))
}

func (s *story) levels() {
	for l := range s.state.Leases() {
		s.print("lease %s token=%s of %s: %ds", l.Name, s.rev(l.Token), s.name(l.Session), l.TTL/1e9)
	}
	for e := range s.state.Delays() {
		s.print("delay %s token=%s: %ds", e.Name, s.rev(e.Token), e.Delay/1e9)
	}
	for m := range s.state.Marks() {
		s.print("mark %s", s.mark(m))
	}
}
