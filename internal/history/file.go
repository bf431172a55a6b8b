package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Save writes h as lines of JSON, which Read reads.
func (h *History) Save(w io.Writer) error {
	buffered := bufio.NewWriter(w)
	out := json.NewEncoder(buffered)
	for i := range h.Ops {
		if err := out.Encode(line{Op: &h.Ops[i]}); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	for i := range h.Batches {
		if err := out.Encode(line{Batch: &h.Batches[i]}); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// Read puts together what several recorders have written. Of a call that was written twice the second counts. Half a
// line at the end of a file is left out: its process was killed.
func Read(files ...io.Reader) (*History, error) {
	h := &History{}
	index := make(map[int]int)
	for i, f := range files {
		if err := h.read(f, index); err != nil {
			return nil, fmt.Errorf("history: file %d: %w", i+1, err)
		}
	}
	slices.SortStableFunc(h.Ops, func(a, b Op) int { return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.ID, b.ID)) })
	slices.SortStableFunc(h.Batches, func(a, b Batch) int { return cmp.Compare(a.At, b.At) })
	return h, nil
}

// read adds the lines of one file; index finds the calls by their ids.
func (h *History) read(f io.Reader, index map[int]int) error {
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		data, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("line %d: %w: %.200q", n, err, bytes.TrimSpace(data))
		}
		if l.Batch != nil {
			h.Batches = append(h.Batches, *l.Batch)
		}
		if l.Op == nil {
			continue
		}
		if i, again := index[l.Op.ID]; again {
			h.Ops[i] = *l.Op
			continue
		}
		index[l.Op.ID] = len(h.Ops)
		h.Ops = append(h.Ops, *l.Op)
	}
}
