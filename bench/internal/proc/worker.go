package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Worker is a process of this program that answers one line on its standard output to each line on its standard input.
// An answer that begins with "error: " is one. Its methods are for one goroutine.
type Worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when the process says no more
}

// StartWorker starts this program again, with the given arguments.
func StartWorker(args ...string) (*Worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &Worker{cmd: exec.Command(self, args...), lines: make(chan string, 1)}
	w.cmd.Stderr = os.Stderr
	dieWithParent(w.cmd)
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		defer close(w.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	return w, nil
}

// PID is the worker's process.
func (w *Worker) PID() int { return w.cmd.Process.Pid }

// Ask gives an order and waits for the answer. After an error the worker is of no more use, unless the error is its answer.
func (w *Worker) Ask(ctx context.Context, order string) (string, error) {
	if _, err := fmt.Fprintln(w.in, order); err != nil {
		return "", err
	}
	select {
	case line, ok := <-w.lines:
		if !ok {
			return "", errors.New("a worker process has ended by itself")
		}
		if text, bad := strings.CutPrefix(line, "error: "); bad {
			return "", errors.New(text)
		}
		return line, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%s: %w", order, ctx.Err())
	}
}

// Kill is kill -9, and waits. A second one does nothing.
func (w *Worker) Kill() {
	_ = w.cmd.Process.Kill()
	for range w.lines { // an answer that nobody waited for
	}
	_ = w.cmd.Wait()
}

// Work is what a worker does: it answers the lines of in until that ends.
func Work(in io.Reader, out io.Writer, answer func(order string) (string, error)) error {
	s := bufio.NewScanner(in)
	for s.Scan() {
		text, err := answer(s.Text())
		if err != nil {
			text = "error: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return s.Err()
}
