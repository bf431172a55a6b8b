package gossip

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is the Gossip as memberlist sees it. memberlist calls it under its lock: nothing here calls memberlist or waits.
type delegate Gossip

var (
	_ memberlist.Delegate      = (*delegate)(nil)
	_ memberlist.EventDelegate = (*delegate)(nil)
	_ memberlist.AliveDelegate = (*delegate)(nil)
)

func (d *delegate) NodeMeta(int) []byte             { return *d.encoded.Load() }
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}
func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.put(n) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.put(n) }

// NotifyAlive refuses strangers, by every way on which word of a server can arrive: a MergeDelegate sees joins only,
// and would refuse a whole cell for one stranger in its list.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	if !validID(n.Name) {
		return fmt.Errorf("node id %q is not valid", n.Name)
	}
	if !n.Addr.Equal(placeholderIP) || n.Port != 0 {
		return fmt.Errorf("node %s comes with an address of its own", n.Name)
	}
	m, cell, err := decodeMeta(n.Meta)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	if cell != d.cell {
		return fmt.Errorf("node %s belongs to a cell of another name", n.Name)
	}
	if own := d.meta.Load().CellID; own != "" && m.CellID != "" && m.CellID != own {
		return fmt.Errorf("node %s belongs to cell %s, this one to %s", n.Name, m.CellID, own)
	}
	return nil
}

func (d *delegate) NotifyLeave(n *memberlist.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.members[n.Name]; m != nil && m.Alive {
		m.Alive, m.diedAt = false, time.Now()
		(*Gossip)(d).changedLocked()
	}
}

// put records a living server.
func (d *delegate) put(n *memberlist.Node) {
	meta, _, err := decodeMeta(n.Meta)
	if err != nil {
		return // NotifyAlive has refused it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.members[n.Name] == nil && len(d.members) >= maxKnown && !d.evict() {
		return
	}
	d.members[n.Name] = &member{Member: Member{
		ID: n.Name, Name: meta.Name, Addr: meta.Addr, CellID: meta.CellID,
		Expect: meta.Expect, HasState: meta.HasState, Alive: true,
	}}
	for id, m := range d.members {
		if !m.Alive && time.Since(m.diedAt) > deadKept {
			delete(d.members, id)
		}
	}
	(*Gossip)(d).changedLocked()
}

// evict forgets some dead server.
func (d *delegate) evict() bool {
	for id, m := range d.members {
		if !m.Alive {
			delete(d.members, id)
			return true
		}
	}
	return false
}

// logWriter hands memberlist's lines to slog. memberlist warns of everyday events and its word is only a suggestion:
// nothing it says is above Info.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	s := strings.TrimSpace(string(line))
	if rest, ok := strings.CutPrefix(s, "[DEBUG] "); ok {
		w.log.Debug(rest)
		return len(line), nil
	}
	for _, level := range []string{"[ERR] ", "[ERROR] ", "[WARN] ", "[INFO] "} {
		s = strings.TrimPrefix(s, level)
	}
	w.log.Info(s)
	return len(line), nil
}
