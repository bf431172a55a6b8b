package forming

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord/internal/gossip"
)

// aCell is a view of a cell: "a+ b+ c- d* e?": + healthy voter, - dead voter, ~ voter that is silent and gossips,
// * server without vote that is ready, ? one that is not.
func aCell(servers string) cellView {
	v := cellView{self: "a", index: 7, maxVoters: 5, scale: time.Second}
	for _, f := range strings.Fields(servers) {
		id, mark := f[:1], f[1]
		s := serverView{id: id, voter: strings.ContainsRune("+-~", rune(mark))}
		alive := true
		switch mark {
		case '-':
			s.silent, alive = time.Minute, false
		case '~':
			s.silent = time.Minute
		case '*':
			s.ready = time.Minute
		}
		v.servers = append(v.servers, s)
		v.recorded = append(v.recorded, gossip.Peer{ID: id, Name: "n" + id, Addr: id + ":1"})
		v.seen = append(v.seen, gossip.Member{ID: id, Name: "n" + id, Addr: id + ":1", Alive: alive})
	}
	return v
}

func TestAdmission(t *testing.T) {
	for _, c := range []struct {
		cell, id, name string
		asking         time.Duration
		want           string // code, add, remove
	}{
		{"a+ b+ c+", "c", "nc", 0, "1 false "},
		{"a+ b+ c+", "c", "renamed", 0, "1 false "},
		{"a+ b+ c+", "x", "nx", 0, "1 true "},
		{"a+ b+ c+", "x", "nc", 0, "2 false "},               // c looks alive: a moment ago it may have been
		{"a+ b+ c+", "x", "nc", 3 * time.Second, "4 false "}, // it has answered since: it is
		{"a+ b+ c+", "x", "na", 0, "4 false "},               // the leader
		{"a+ b+ c-", "x", "nc", 0, "1 true c"},
		{"a+ b+ c-", "x", "nc", time.Hour, "4 false "}, // it answered a minute ago, when the other was asking already
		{"a+ b+ c~", "x", "nc", 0, "2 false "},         // it does not answer and gossips
		{"a+ b- c-", "x", "nc", 0, "2 false "},         // no majority is healthy
		{"a+ b+ c+ d- e-", "x", "nd", 0, "1 true d"},
		{"a+ b-", "x", "nb", 0, "2 false "},
		{"a+ b+ c+", "", "n", 0, "4 false "},
		{"a+ b+ c+", "x", strings.Repeat("n", 500), 0, "4 false "},
	} {
		a := decideAdmission(aCell(c.cell), JoinRequest{ID: c.id, Name: c.name, Addr: "x:1"}, c.asking)
		if got := fmt.Sprint(a.code, " ", a.add, " ", a.remove); got != c.want {
			t.Errorf("%s, %s named %.9s after %v: %s (%s), want %s", c.cell, c.id, c.name, c.asking, got, a.reason, c.want)
		}
	}
}

func TestRefusalNamesBoth(t *testing.T) {
	a := decideAdmission(aCell("a+ b+ c+"), JoinRequest{ID: "x", Name: "nb"}, time.Hour)
	if !strings.Contains(a.reason, `a second live node named "nb": node b`) {
		t.Error(a.reason)
	}
}

func TestCellIsBounded(t *testing.T) {
	v := aCell("a+")
	for range maxMembers {
		v.servers = append(v.servers, serverView{id: "z"})
	}
	if a := decideAdmission(v, JoinRequest{ID: "x", Name: "nx"}, 0); a.code != Refused {
		t.Error(a)
	}
}

func TestNumberOfVotersStaysOdd(t *testing.T) {
	for cell, want := range map[string]string{
		"a+ b+ c+":             "",
		"a+ b+ c+ d*":          "", // stands by
		"a+ b+ c+ d* e*":       "d",
		"a+ b+ c+ d* e?":       "",
		"a+ b+ c+ d+ e*":       "e",
		"a+ b+ c+ d+ e?":       "", // not yet
		"a+ b+ c+ d+ e+ f* g*": "", // five are enough
		"a+ b+ c+ d+ e+ f+ g*": "",
		"a+ b+ d*":             "d", // one was replaced
		"a+ b+ d?":             "",
		"a+ d*":                "",
		"a+ d* e*":             "d",
		"a+ b- d*":             "d", // 2 of 3 would be healthy
		"a+ b- c- d* e*":       "",  // 2 of 4 would be
		"a+ b+ c- d* e*":       "d",
	} {
		if got := decideStep(aCell(cell)).promote; got != want {
			t.Errorf("%s: %q, want %q", cell, got, want)
		}
	}
}

func TestMembersAreRecorded(t *testing.T) {
	v := aCell("a+ b+ c+")
	v.recorded = v.recorded[:2]
	if c := decideStep(v); c.record == nil || *c.record != v.peer("c") {
		t.Errorf("a new one: %+v", c)
	}
	v = aCell("a+ b+ c+")
	v.seen[1].Addr = "moved:1"
	if c := decideStep(v); c.record == nil || c.record.Addr != "moved:1" {
		t.Errorf("one that moved: %+v", c)
	}
	v = aCell("a+ b+ c+")
	v.seen[1].Name = "nc"
	if c := decideStep(v); c.record != nil {
		t.Errorf("a name that another one has: %+v", c)
	}
	v = aCell("a+ b+ c-")
	v.seen[2].Addr = "stale:1"
	if c := decideStep(v); c.record != nil {
		t.Errorf("the last word of a dead one: %+v", c)
	}
	v = aCell("a+ b+ c+")
	v.servers = v.servers[:2]
	if c := decideStep(v); c.forget != "c" {
		t.Errorf("one that was removed: %+v", c)
	}
}

// peer is what id says about itself.
func (v cellView) peer(id string) gossip.Peer {
	for _, m := range v.seen {
		if m.ID == id {
			return gossip.Peer{ID: m.ID, Name: m.Name, Addr: m.Addr}
		}
	}
	return gossip.Peer{}
}
