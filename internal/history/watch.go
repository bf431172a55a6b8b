package history

import (
	"slices"
	"strings"
	"time"
)

// watcher is one call of Watch, arranged by what it says to be complete.
type watcher struct {
	id      int
	key     string
	prefix  bool
	batches []*Batch
	spans   []span
}

// span is a part of the history that a watcher says to have told completely: every change above after, up to upTo.
type span struct {
	after, upTo uint64
	events      []Event
	at          time.Duration // when the last of it came
}

func watchersOf(h *History) []*watcher {
	byID := make(map[int]*watcher)
	var all []*watcher
	for i := range h.Batches {
		b := &h.Batches[i]
		w := byID[b.Watcher]
		if w == nil {
			w = &watcher{id: b.Watcher, key: b.Key, prefix: b.Prefix}
			byID[b.Watcher] = w
			all = append(all, w)
		}
		if !b.End {
			w.batches = append(w.batches, b)
		}
	}
	for _, w := range all {
		w.arrange()
	}
	return all
}

// arrange cuts what came into spans. A snapshot begins a new one; before anything has come, a watch from a revision
// begins there, and one from "now" with what comes first.
func (w *watcher) arrange() {
	open := -1
	begin := func(after uint64) {
		w.spans = append(w.spans, span{after: after, upTo: after})
		open = len(w.spans) - 1
	}
	for _, b := range w.batches {
		switch {
		case b.Snapshot && b.More:
			open = -1
			continue
		case b.Snapshot:
			begin(b.Revision)
		case open >= 0:
		case b.From > 0 && len(w.spans) == 0:
			begin(b.From - 1)
		case len(b.Events) > 0:
			begin(b.Revision - 1)
		default:
			begin(b.Revision)
		}
		s := &w.spans[open]
		s.at, s.upTo = b.At, max(s.upTo, b.Revision)
		if !b.Snapshot {
			s.events = append(s.events, b.Events...)
		}
	}
}

func (w *watcher) matches(key string) bool {
	return key == w.key || w.prefix && strings.HasPrefix(key, w.key)
}

// checkStreams: G9. One watcher's batches are in order: each of one revision, above the one before, of what was asked
// for, and not before it was asked for.
func (v *view) checkStreams() {
	for _, w := range v.watchers {
		var last uint64
		var part *Batch // of a snapshot that is not complete
		var lastKey string
		for _, b := range w.batches {
			bad := func(text string) {
				v.add("G9", b.At, "watcher %d of %q: %s: %+v; before it revision %d", w.id, w.key, text, *b, last)
			}
			progress := !b.Snapshot && len(b.Events) == 0
			switch {
			case part != nil && (!b.Snapshot || b.Revision != part.Revision):
				bad("the rest of a snapshot is missing")
			case part == nil && b.Revision < last, part == nil && b.Revision == last && !progress && !b.Snapshot:
				bad("not above what came before")
			case !b.Snapshot && !progress && b.Revision < b.From:
				bad("from before the revision that was asked for")
			}
			if part == nil {
				lastKey = ""
			}
			for _, e := range b.Events {
				switch {
				case !w.matches(e.Key):
					bad("a key that was not asked for")
				case b.Snapshot && (e.Type != eventPut || e.Revision > b.Revision):
					bad("no present state")
				case b.Snapshot && e.Key <= lastKey:
					bad("a key twice, or out of order")
				case !b.Snapshot && e.Revision != b.Revision:
					bad("an event of another revision")
				}
				lastKey = e.Key
			}
			last, part = max(last, b.Revision), nil
			if b.Snapshot && b.More {
				part = b
			}
		}
	}
}

// checkGaps: G9. What a watcher says to have told completely holds every change that anybody knows of.
func (v *view) checkGaps() {
	for _, w := range v.watchers {
		changes := v.all
		if !w.prefix {
			changes = v.changes[w.key]
		}
		for _, s := range w.spans {
			told := make(map[place]bool, len(s.events))
			for _, e := range s.events {
				if at := (place{e.Key, e.Revision}); told[at] {
					v.add("G9", s.at, "watcher %d of %q was told twice of %+v", w.id, w.key, e)
				} else {
					told[at] = true
				}
			}
			for _, c := range changes[after(changes, s.after):] {
				if c.Revision > s.upTo {
					break
				}
				if w.matches(c.Key) && !told[place{c.Key, c.Revision}] {
					v.add("G9", s.at, "watcher %d of %q was told everything from revision %d to %d but for %v",
						w.id, w.key, s.after+1, s.upTo, c)
				}
			}
		}
	}
}

// after is the index of the first change above a revision.
func after(changes []*change, revision uint64) int {
	i, _ := slices.BinarySearchFunc(changes, revision+1, func(c *change, r uint64) int {
		if c.Revision < r {
			return -1
		}
		return 1
	})
	return i
}

// checkSnapshots: G9. The state that a watch begins with is the one that the changes up to its revision have left, as
// far as they are known.
func (v *view) checkSnapshots() {
	for _, w := range v.watchers {
		shown := make(map[string]uint64)
		for _, b := range w.batches {
			if !b.Snapshot {
				continue
			}
			for _, e := range b.Events {
				shown[e.Key] = e.Revision
			}
			if b.More {
				continue
			}
			for _, key := range names(v.changes) {
				if w.matches(key) {
					v.checkShown(w, b, key, shown[key])
				}
			}
			clear(shown)
		}
	}
}

// checkShown compares what a snapshot shows of a key, a revision or 0 for nothing, with the last change known up to
// there. What it shows is a known change itself; what it leaves out may have been deleted by somebody unknown, unless
// a watcher was told everything since.
func (v *view) checkShown(w *watcher, b *Batch, key string, shown uint64) {
	i := after(v.changes[key], b.Revision)
	if i == 0 {
		return
	}
	last := v.changes[key][i-1]
	switch {
	case shown == last.Revision && last.Type == eventPut:
	case shown == 0 && last.Type != eventPut:
	case shown == 0 && !v.covered(key, last.Revision, b.Revision):
	default:
		v.add("G9", b.At, "watcher %d of %q: the snapshot at revision %d has %q as of revision %d, and the last change was %v",
			w.id, w.key, b.Revision, key, shown, last)
	}
}

// covered says whether every change of key above a revision, up to another, is known.
func (v *view) covered(key string, after, upTo uint64) bool {
	spans, ok := v.coverage[key]
	if !ok {
		spans = v.spansOf(key)
		v.coverage[key] = spans
	}
	for _, s := range spans {
		if s.after <= after && upTo <= s.upTo {
			return true
		}
	}
	return false
}

// spansOf joins what the watchers of a key say to be complete.
func (v *view) spansOf(key string) (joined []span) {
	var spans []span
	for _, w := range v.watchers {
		if w.matches(key) {
			spans = append(spans, w.spans...)
		}
	}
	slices.SortFunc(spans, func(a, b span) int {
		if a.after < b.after {
			return -1
		}
		return 1
	})
	for _, s := range spans {
		if n := len(joined); n > 0 && s.after <= joined[n-1].upTo {
			joined[n-1].upTo = max(joined[n-1].upTo, s.upTo)
		} else {
			joined = append(joined, span{after: s.after, upTo: s.upTo})
		}
	}
	return joined
}
