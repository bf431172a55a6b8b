package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/coordcell/coord/fence"
)

// Event is a line of a server's log, or the end of its process.
type Event struct {
	Who     string      `json:"-"`
	What    string      `json:"msg"`
	Job     string      `json:"job"`
	Minute  time.Time   `json:"minute"`
	Token   fence.Token `json:"token"`
	Highest fence.Token `json:"highest"`
	Term    uint64      `json:"term"`
	Why     string      `json:"why"`

	process *Process
}

// Process is a server in a process of its own.
type Process struct {
	name   string
	cmd    *exec.Cmd
	ending bool          // it was killed or asked to stop
	exited chan struct{} // closed when the process is gone and its last event is sent
	err    error         // how it ended; belongs to readers of exited
}

// startProcess starts this very program with args. The process is killed when ctx ends, and with this process, whatever
// happens to it. Its log goes to events, until ctx ends; what it writes to stderr is appended to a file.
func startProcess(ctx context.Context, name string, args []string, stderrFile string, events chan<- Event) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	stderr, err := os.OpenFile(stderrFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() // the child has its own
	p := &Process{name: name, cmd: exec.CommandContext(ctx, self, args...), exited: make(chan struct{})}
	p.cmd.Stderr = stderr
	p.cmd.SysProcAttr = dieWithParent()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.follow(ctx, stdout, events)
	return p, nil
}

// follow turns the process's log into events and waits for its end.
func (p *Process) follow(ctx context.Context, stdout io.Reader, events chan<- Event) {
	defer close(p.exited)
	send := func(e Event) {
		e.Who, e.process = p.name, p
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = Event{What: "unreadable", Why: lines.Text()}
		}
		send(e)
	}
	p.err = p.cmd.Wait()
	send(Event{What: "exited", Why: fmt.Sprint(p.err)})
}

// Freeze stops the process where it stands, Thaw lets it go on as if nothing had been.
func (p *Process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *Process) Thaw() error   { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill is kill -9. The last event tells when the process is gone.
func (p *Process) Kill() error {
	p.ending = true
	return p.cmd.Process.Kill()
}

// Stop asks the process to end and waits for it. A process that does not end well is an error.
func (p *Process) Stop(ctx context.Context) error {
	p.ending = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return fmt.Errorf("%s does not stop: %w", p.name, ctx.Err())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}
