package fsm

import "slices"

// newClaim returns nil for a Lock that asks for nothing beyond its name.
func newClaim(c Lock) *claim {
	if c.Terms == nil && len(c.Data) == 0 {
		return nil
	}
	out := &claim{}
	if len(c.Data) > 0 {
		out.data = c.Data
	}
	if t := c.Terms; t != nil {
		out.shared, out.slots, out.ttl, out.delay, out.holding = t.Shared, uint32(t.Slots), t.TTL, t.Delay, t.Holding
		if len(t.More) > 0 {
			out.names = append([]string{c.Name}, t.More...)
		}
	}
	return out
}

// Zero reports whether nothing is asked for.
func (t *Terms) Zero() bool {
	return t == nil ||
		len(t.More) == 0 && !t.Shared && t.Slots == 0 && t.TTL == 0 && t.Delay == 0 && len(t.Holding) == 0
}

// wellFormed reports whether an honest caller may ask so. ttl is that of its session.
func (t *Terms) wellFormed(name string, ttl int64) bool {
	switch {
	case t == nil:
		return true
	case t.Slots < 0 || t.Slots > MaxSlots || t.Slots > 0 && t.Shared:
		return false
	case t.TTL < 0 || t.TTL > ttl || t.Delay < 0:
		return false
	case len(t.More) >= MaxNames || len(t.Holding) > MaxHolding:
		return false
	}
	for i, more := range t.More {
		if more == "" || more == name || slices.Contains(t.More[:i], more) {
			return false
		}
	}
	return true
}

// width is how many names there are.
func (c *claim) width() int {
	if c == nil || c.names == nil {
		return 1
	}
	return len(c.names)
}

// at returns the i-th name; the only one is name.
func (c *claim) at(i int, name string) string {
	if c == nil || c.names == nil {
		return name
	}
	return c.names[i]
}

func (c *claim) exclusive() bool { return c == nil || !c.shared && c.slots == 0 }

// sameWay reports whether both are for themselves alone, or both readers, or both in slots.
func (c *claim) sameWay(d *claim) bool {
	return c.exclusive() == d.exclusive() && (c.exclusive() || c.shared == d.shared)
}

// plain reports whether a LockRecord, or for a request a WaiterRecord, says it all.
func (c *claim) plain() bool {
	return c == nil || c.exclusive() && c.names == nil && c.ttl == 0 && c.delay == 0 && len(c.holding) == 0
}

// granted is the claim of the grant: what its caller held while it waited has been said for the wait alone.
func (c *claim) granted() *claim {
	if c == nil || len(c.holding) == 0 {
		return c
	}
	bare := *c
	bare.holding = nil
	if bare.plain() && len(bare.data) == 0 {
		return nil
	}
	next := bare // its own variable, so that only this way costs memory
	return &next
}

// withData returns the claim with other data.
func (c *claim) withData(data []byte) *claim {
	next := claim{}
	if c != nil {
		next = *c
	}
	next.data = nil
	if len(data) > 0 {
		next.data = data
	}
	return next.orNil()
}

func (c *claim) orNil() *claim {
	if c.plain() && len(c.data) == 0 {
		return nil
	}
	return c
}

// bytes returns the data attached.
func (c *claim) bytes() []byte {
	if c == nil {
		return nil
	}
	return c.data
}
