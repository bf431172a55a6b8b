//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coordcell/coord"
)

// member is a server of the cell, through all of its processes. It belongs to the conductor's goroutine.
type member struct {
	index    int
	name     string
	host     *host
	disk     string // the mount point
	process  *process
	launches int

	claim    int  // of the fault that has it now, so that no other touches its process; 0: none
	full     bool // its disk is, or was until its process was started again
	status   *coord.Status
	statusAt time.Time
	answers  map[string]note // the last answer to each order, of this process
}

// process is one run of a worker.
type process struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	logFile string
	ending  bool // somebody killed it or asked it to stop
	frozen  bool
	stopped string // why its node ended by itself
	loop    bool   // to get out of raft's snapshot loop
}

// event is what a process said, or with exited that it has ended.
type event struct {
	member  *member
	process *process
	note    note
	exited  bool
}

// launch starts a worker for the member. What it says goes to events until done is closed.
func (m *member) launch(s settings, logs string, events chan<- event, done <-chan struct{}) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argument, err := json.Marshal(s)
	if err != nil {
		return err
	}
	m.launches++
	p := &process{cmd: exec.Command(self, string(argument)), logFile: filepath.Join(logs, fmt.Sprintf("%s.%d.log", m.name, m.launches))}
	stderr, err := os.Create(p.logFile)
	if err != nil {
		return err
	}
	defer stderr.Close() // the process has its own
	p.cmd.Env = append(os.Environ(), roleVariable+"="+roleWorker)
	p.cmd.Stderr = stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.host.start(p.cmd); err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	m.process, m.status, m.answers = p, nil, make(map[string]note)
	go follow(m, p, stdout, events, done)
	return nil
}

// follow turns what a process says into events, and waits for its end.
func follow(m *member, p *process, stdout io.Reader, events chan<- event, done <-chan struct{}) {
	send := func(e event) {
		select {
		case events <- e:
		case <-done:
		}
	}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e := event{member: m, process: p}
		if json.Unmarshal(lines.Bytes(), &e.note) == nil {
			send(e)
		}
	}
	_ = p.cmd.Wait() // its state says how it ended
	send(event{member: m, process: p, exited: true})
}

// order writes to the process's standard input. One that has died is found out by its end.
func (m *member) order(o order) {
	if m.process == nil {
		return
	}
	line, err := json.Marshal(o)
	if err != nil {
		return
	}
	delete(m.answers, o.Do)
	_, _ = m.process.stdin.Write(append(line, '\n'))
}

// ask is an order that needs no arguments.
func (m *member) ask(do string) { m.order(order{Do: do}) }

// answered is the answer to an order, if it has come.
func (m *member) answered(do string) (note, bool) {
	n, ok := m.answers[do]
	return n, ok
}

func (m *member) running() bool { return m.process != nil && !m.process.ending && !m.process.frozen }

func (m *member) kill() {
	m.process.ending = true
	_ = m.process.cmd.Process.Kill()
}

func (m *member) terminate() {
	m.process.ending = true
	_ = m.process.cmd.Process.Signal(syscall.SIGTERM)
}

func (m *member) freeze() {
	m.process.frozen = true
	_ = m.process.cmd.Process.Signal(syscall.SIGSTOP)
}

func (m *member) thaw() {
	m.process.frozen = false
	_ = m.process.cmd.Process.Signal(syscall.SIGCONT)
}

// fill leaves no room on the disk, unfill makes room again.
func (m *member) fill() error {
	f, err := os.Create(filepath.Join(m.disk, fillFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return nil
}

func (m *member) unfill() { _ = os.Remove(filepath.Join(m.disk, fillFile)) }

const fillFile = "fill"

// wipe empties the disk.
func (m *member) wipe() error {
	entries, err := os.ReadDir(m.disk)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(m.disk, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// alarms are lines that no log of a worker may have.
func alarms() []string {
	return []string{"panic:", "fatal error:", "WARNING: DATA RACE", "unexpected fault address",
		"this server's state differs", "the servers disagree", "panic in the store", "level=ERROR msg=\"does not stop\""}
}

// alarm is the first such line of a log, or "".
func alarm(log []byte) string {
	for line := range bytes.Lines(log) {
		for _, text := range alarms() {
			if bytes.Contains(line, []byte(text)) {
				return strings.TrimSpace(string(line))
			}
		}
	}
	return ""
}
