package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// Group is a set of server processes, numbered from 0. Its methods may be called concurrently, Add excepted.
type Group struct {
	mu      sync.Mutex
	members []member
}

type member struct {
	dir  string
	argv []string
	cmd  *exec.Cmd // nil while it does not run
}

// Add registers a server: the folder it runs in, and its command line. The folder gets its output, in log.txt.
func (g *Group) Add(dir string, argv ...string) {
	g.members = append(g.members, member{dir: dir, argv: argv})
}

// StartAll starts all servers, or none.
func (g *Group) StartAll() error {
	for i := range g.members {
		if err := g.Start(i); err != nil {
			g.Stop()
			return err
		}
	}
	return nil
}

// Start starts server i, which does not run.
func (g *Group) Start(i int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &g.members[i]
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(m.dir, "log.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(m.argv[0], m.argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, m.dir
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", m.argv[0], err)
	}
	m.cmd = cmd
	return nil
}

// PIDs are those of the servers that have been started and not killed.
func (g *Group) PIDs() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pids []int
	for _, m := range g.members {
		if m.cmd != nil {
			pids = append(pids, m.cmd.Process.Pid)
		}
	}
	return pids
}

// PID is server i's process, or 0.
func (g *Group) PID(i int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.members[i].cmd; c != nil {
		return c.Process.Pid
	}
	return 0
}

// Kill is kill -9. It returns once the process is no more.
func (g *Group) Kill(i int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &g.members[i]
	if m.cmd == nil {
		return nil
	}
	err := m.cmd.Process.Kill()
	_ = m.cmd.Wait() // "signal: killed"
	m.cmd = nil
	return err
}

// Stop kills all.
func (g *Group) Stop() {
	for i := range g.members {
		_ = g.Kill(i)
	}
}

// dieWithParent has the kernel kill the process when the thread that started it ends. Go ends no thread but those that a
// goroutine has locked, which nobody here does, so that is when this process ends.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
