package fsm

// eventOverhead is what an event counts in the history beside its key and values. Like every number that decides what
// is kept it is part of the agreement between replicas.
const eventOverhead = 128

// record adds an event to the history. Those of one revision are recorded one after the other.
func (st *step) record(e Event) {
	r := &EventRecord{Event: e}
	if last, ok := st.history.Max(); ok && last.Event.Revision == e.Revision {
		r.N = last.N + 1
	}
	st.history.Set(r)
	st.historyBytes += e.size()
	st.out.Events = append(st.out.Events, e)
}

// cutHistory forgets the oldest revisions until what is left is within its bounds. A revision goes as a whole.
func (s *State) cutHistory() {
	for s.history.Len() > s.params.HistoryEvents || s.historyBytes > s.params.HistoryBytes {
		oldest, _ := s.history.Min()
		s.floor = oldest.Event.Revision + 1
		for {
			r, ok := s.history.Min()
			if !ok || r.Event.Revision >= s.floor {
				break
			}
			s.history.Delete(r)
			s.historyBytes -= r.Event.size()
		}
	}
}

func (e Event) size() int {
	return len(e.Key) + len(e.Value) + len(e.Previous) + eventOverhead
}

func eventBefore(a, b *EventRecord) bool {
	if a.Event.Revision != b.Event.Revision {
		return a.Event.Revision < b.Event.Revision
	}
	return a.N < b.N
}
