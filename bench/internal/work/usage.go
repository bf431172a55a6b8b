package work

import (
	"time"

	"github.com/coordcell/coord/bench/internal/proc"
)

// Usage is the time of the CPUs in a timed part.
type Usage struct {
	Took    time.Duration
	Servers time.Duration
	Client  time.Duration // the measuring process, and those that hold sessions for it
	Others  time.Duration // on the machine: other programs, and threads of the kernel
}

// meter measures one timed part.
type meter struct {
	servers, clients   []int
	began              time.Time
	server, self, busy time.Duration
	client             time.Duration
}

// measure begins a timed part of the cell; clients are processes besides this one that belong to it.
func (e *Env) measure(clients ...int) *meter {
	pids := e.Cell.PIDs()
	return &meter{
		servers: pids, clients: clients, server: proc.CPU(pids...), client: proc.CPU(clients...),
		self: proc.Self(), busy: proc.Busy(), began: time.Now(),
	}
}

// done ends it.
func (m *meter) done(e *Env) Usage {
	u := Usage{
		Took:    time.Since(m.began),
		Servers: proc.CPU(m.servers...) - m.server,
		Client:  proc.CPU(m.clients...) - m.client + proc.Self() - m.self,
	}
	u.Others = max(0, proc.Busy()-m.busy-u.Servers-u.Client)
	e.Usage(u)
	return u
}

// rate is how many a second.
func (u Usage) rate(n int) float64 { return float64(n) / u.Took.Seconds() }
