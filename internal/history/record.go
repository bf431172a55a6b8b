package history

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Recorder takes note of what clients do. All methods may be called concurrently.
type Recorder struct {
	now func() time.Duration
	out io.Writer

	mu      sync.Mutex
	ops     []*Op
	batches []Batch
	nextID  int
	watcher int
	err     error
}

// NewRecorder returns a recorder on a clock. With out, each note is written to it as a line of JSON, in one Write,
// before the method returns, and is not kept in memory. first is the first id it gives to calls and watchers: recorders
// whose histories are put together need ranges of their own.
func NewRecorder(now func() time.Duration, out io.Writer, first int) *Recorder {
	return &Recorder{now: now, out: out, nextID: first, watcher: first}
}

// Begin notes the start of a call. The caller fills in what comes out of it and passes it to End, or never does.
func (r *Recorder) Begin(op Op) *Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.ID, op.Call, op.Return = r.nextID, r.now(), Pending
	r.nextID++
	if r.out != nil {
		r.write(line{Op: &op})
	} else {
		r.ops = append(r.ops, &op)
	}
	return &op
}

// End notes that a call has returned. Only its caller may still write to op, and no longer after this.
func (r *Recorder) End(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Return = r.now()
	if r.out != nil {
		r.write(line{Op: op})
	}
}

// Watcher is a number for a watch.
func (r *Recorder) Watcher() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watcher++
	return r.watcher - 1
}

// Batch notes what a watch delivered, and when.
func (r *Recorder) Batch(b Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.At = r.now()
	if r.out != nil {
		r.write(line{Batch: &b})
	} else {
		r.batches = append(r.batches, b)
	}
}

// History is what has been kept in memory. Calls that are still under way are Pending in it.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{Ops: make([]Op, 0, len(r.ops)), Batches: append([]Batch(nil), r.batches...)}
	for _, op := range r.ops {
		h.Ops = append(h.Ops, *op)
	}
	return h
}

// Err is the first error in writing.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// line is a line of a file. An Op is written twice: as it starts and as it returns.
type line struct {
	Op    *Op    `json:"op,omitempty"`
	Batch *Batch `json:"batch,omitempty"`
}

func (r *Recorder) write(l line) {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = r.out.Write(append(data, '\n'))
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("history: %w", err)
	}
}
