package fsm

// crowd is what a name has beside an exclusive holder and a queue. The zero value is not kept.
type crowd struct {
	readers uint32 // that hold it, or were lost with a delay
	taken   uint32 // slots that are held, or were lost with a delay
	asking  uint32 // places in its queue that ask for a slot
	slots   uint32 // how many slots there are, as all in taken and asking agree; 0: nobody has said
	top     uint32 // the highest slot taken, plus one. The free ones below are vacancies
	shut    bool   // an exclusive grant was lost with a delay
}

// held reports whether the name counts as held.
func (c crowd) held() bool { return c.readers > 0 || c.taken > 0 || c.shut }

// admits reports whether nothing that is held, or was lost, is in the way of a claim. l is the lock name.
func (s *State) admits(name string, l *lock, c *claim) bool {
	if l.session != 0 {
		return false
	}
	if !l.crowded {
		return true
	}
	crowd, _ := s.crowds.Get(name)
	switch {
	case crowd.shut:
		return false
	case c.exclusive():
		return crowd.readers == 0 && crowd.taken == 0
	case c.shared:
		return crowd.taken == 0
	default:
		return crowd.readers == 0 && crowd.taken < c.slots
	}
}

// room reports whether there is a claim that the lock admits now, in whatever way others hold it.
func (s *State) room(name string, l *lock) bool {
	if l.session != 0 || !l.crowded {
		return l.session == 0
	}
	crowd, _ := s.crowds.Get(name)
	return !crowd.shut && (crowd.taken == 0 || crowd.taken < crowd.slots)
}

// slots returns how many slots a name has; 0: nobody has said.
func (s *State) slots(name string, l *lock) uint32 {
	if !l.crowded {
		return 0
	}
	crowd, _ := s.crowds.Get(name)
	return crowd.slots
}

// setCrowd replaces the crowd of a name, and keeps up the lock.
func (s *State) setCrowd(name string, c crowd) {
	if c.taken == 0 && c.asking == 0 {
		c.slots = 0
	}
	old, _ := s.crowds.Get(name)
	if old.held() != c.held() {
		if c.held() {
			s.crowded++
		} else {
			s.crowded--
		}
	}
	some := c != crowd{}
	if some {
		s.crowds.Set(name, c)
	} else {
		s.crowds.Delete(name)
	}
	l := s.lockOf(name)
	if l.crowded != some || !some {
		l.crowded = some
		s.setLock(name, l)
	}
}

// lockOf returns a copy of a lock, the zero value of one that is not in use.
func (s *State) lockOf(name string) lock {
	if l, ok := s.locks.Get(name); ok {
		return *l
	}
	return lock{}
}

// setLock replaces a lock, or drops one that is not in use.
func (s *State) setLock(name string, l lock) {
	if l.session == 0 && l.waiting == 0 && !l.crowded {
		s.locks.Delete(name)
	} else {
		s.locks.Set(name, &l)
	}
}

// takeSlot takes the lowest slot that is free.
func (s *State) takeSlot(name string, c *crowd) (slot uint32) {
	slot = c.top
	s.vacant.Ascend(vacancy{name: name}, func(v vacancy) bool {
		if v.name == name {
			slot = v.slot
		}
		return false
	})
	c.taken++
	if slot == c.top {
		c.top++
	} else {
		s.vacant.Delete(vacancy{name, slot})
	}
	return slot
}

// freeSlot gives a slot back. The highest one that is taken stays below top, and those that are free up there are no
// vacancies: with the last slot the last vacancy goes.
func (s *State) freeSlot(name string, c *crowd, slot uint32) {
	c.taken--
	s.vacant.Set(vacancy{name, slot})
	for c.top > 0 {
		if _, free := s.vacant.Delete(vacancy{name, c.top - 1}); !free {
			return
		}
		c.top--
	}
}
