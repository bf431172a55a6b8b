package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// logs is raft's log on top of any log store. The log has no gaps: raft makes one only past a snapshot, and then the
// entries before it are of no more use.
type logs struct {
	g       *guard
	inner   raft.LogStore
	name    string        // of its file or directory
	writing chan struct{} // of one, held by who writes: a mutex would stop virtual time while a write hangs

	mu   sync.Mutex
	span span
}

// span is what the log holds. It grows after a write and shrinks before a deletion: what is in it is on the disk.
type span struct {
	first, last uint64 // 0 in an empty log
	deletions   uint64 // so far
}

func (s span) has(index uint64) bool { return s.last != 0 && s.first <= index && index <= s.last }

// IsMonotonic makes raft delete the whole log once it has installed a snapshot, rather than leave a gap behind it.
func (l *logs) IsMonotonic() bool { return true }

// FirstIndex never fails, and does not read the disk.
func (l *logs) FirstIndex() (uint64, error) {
	return l.holds().first, nil
}

// LastIndex never fails, and does not read the disk.
func (l *logs) LastIndex() (uint64, error) {
	return l.holds().last, nil
}

// GetLog returns raft.ErrLogNotFound and no other error. A poisoned store has a no-op at every index.
func (l *logs) GetLog(index uint64, out *raft.Log) error {
	var entry raft.Log
	var found bool
	before := l.holds()
	ok := l.g.do(OpGetLog, func() (err error) {
		found, err = readLog(l.inner, index, &entry)
		return err
	})
	if ok && !found && before.has(index) && before.deletions == l.holds().deletions {
		l.g.fail(OpGetLog, fmt.Errorf("%w: log entry %d is missing from %d to %d", ErrDamaged, index, before.first, before.last))
		ok = false
	}
	switch {
	case !ok:
		*out = raft.Log{Index: index, Type: raft.LogNoop}
	case !found:
		return raft.ErrLogNotFound
	default:
		*out = entry
	}
	return nil
}

func (l *logs) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs returns nil always: once entries could not be stored, nobody hears of it.
func (l *logs) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 || !l.begin() {
		return nil
	}
	defer l.end()
	last := l.holds().last
	for i, e := range entries {
		if e.Index != entries[0].Index+uint64(i) || e.Index <= last {
			l.g.fail(OpStoreLogs, fmt.Errorf("log entry %d does not follow %d", e.Index, max(last, entries[0].Index+uint64(i)-1)))
			return nil
		}
	}
	if last != 0 && entries[0].Index > last+1 && !l.remove(0, last) {
		return nil
	}
	copies := sealed(entries)
	if !l.g.do(OpStoreLogs, func() error { return l.inner.StoreLogs(copies) }) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span.last == 0 {
		l.span.first = entries[0].Index
	}
	l.span.last = entries[len(entries)-1].Index
	return nil
}

// DeleteRange returns nil always. It removes one end of the log, or all of it.
func (l *logs) DeleteRange(lo, hi uint64) error {
	if !l.begin() {
		return nil
	}
	defer l.end()
	switch now := l.holds(); {
	case now.last == 0 || hi < now.first || lo > now.last || lo > hi:
	case lo > now.first && hi < now.last:
		l.g.fail(OpDeleteLogs, fmt.Errorf("entries %d to %d are in the middle of the log, which is %d to %d", lo, hi, now.first, now.last))
	default:
		l.remove(lo, hi)
	}
	return nil
}

// remove deletes one end of the log, or all of it, and reports whether that is on the disk. The caller is writing.
func (l *logs) remove(lo, hi uint64) bool {
	l.mu.Lock()
	l.span.deletions++
	switch {
	case lo <= l.span.first && hi >= l.span.last:
		l.span.first, l.span.last = 0, 0
	case lo <= l.span.first:
		l.span.first = hi + 1
	default:
		l.span.last = lo - 1
	}
	l.mu.Unlock()
	return l.g.do(OpDeleteLogs, func() error { return l.inner.DeleteRange(lo, hi) })
}

func (l *logs) holds() span {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.span
}

// begin waits for its turn to write; false if the store is poisoned by then.
func (l *logs) begin() bool {
	select {
	case l.writing <- struct{}{}:
	case <-l.g.sw.Tripped():
		return false
	}
	if l.g.sw.Err() != nil {
		l.end()
		return false
	}
	return true
}

func (l *logs) end() { <-l.writing }

// readLog reads and checks one entry.
func readLog(from raft.LogStore, index uint64, out *raft.Log) (found bool, err error) {
	switch err := from.GetLog(index, out); {
	case errors.Is(err, raft.ErrLogNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w: log entry %d: %w", ErrDamaged, index, err)
	}
	return true, unseal(out, index)
}
