package work

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
	"github.com/coordcell/coord/bench/internal/stats"
)

const idleRow = "servers that nobody asks for anything: CPU of all"

func sessionRow(z Sizes, what string) string { return fmt.Sprintf("%d sessions: %s", z.Sessions, what) }

func sessionMetrics(z Sizes) []Metric {
	return []Metric{
		{Name: idleRow, Unit: "% of a core"},
		{Name: sessionRow(z, "opened at"), Unit: "sessions/s", More: true},
		{Name: sessionRow(z, "renewals, of those due"), Unit: "%", More: true},
		{Name: sessionRow(z, "CPU of the leader, 1000 renewals"), Unit: "ms"},
		{Name: sessionRow(z, "CPU of all servers, 1000 renewals"), Unit: "ms"},
		{Name: sessionRow(z, "memory of all servers for each"), Unit: "bytes"},
		{Name: sessionRow(z, "end at once: gone at"), Unit: "sessions/s", More: true},
		{Name: sessionRow(z, "end at once: last gone, TTL after the kill"), Unit: "ms"},
	}
}

// sessions keeps many sessions alive from a process of their own, and then kills that with kill -9. Each has an ephemeral
// key, whose end shows that of the session.
func sessions(ctx context.Context, e *Env) error {
	z := e.Sizes
	idle, err := idleness(ctx, e)
	if err != nil {
		return err
	}
	e.Record(idleRow, 100*(idle.leader+idle.others))
	holder, err := proc.StartWorker("hold", e.Backend, e.Cell.Spec())
	if err != nil {
		return err
	}
	defer holder.Kill()
	before := proc.RSS(e.Cell.PIDs()...)
	begin := time.Now()
	if err := ask(ctx, holder, time.Minute, fmt.Sprintf("open %d %d", z.Sessions, int(z.TTL/time.Second))); err != nil {
		return err
	}
	e.Record(sessionRow(z, "opened at"), float64(z.Sessions)/time.Since(begin).Seconds())
	// Sessions opened together are renewed together, every third of the TTL: what follows begins between two rounds.
	if err := sleep(ctx, z.TTL/2); err != nil {
		return err
	}
	if err := keepAlive(ctx, e, holder, before, idle); err != nil {
		return err
	}
	if err := ask(ctx, holder, time.Minute, "keys"); err != nil {
		return err
	}
	return expire(ctx, e, holder)
}

func ask(ctx context.Context, w *proc.Worker, limit time.Duration, order string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := w.Ask(ctx, order); err != nil {
		return fmt.Errorf("%q: %w", order, err)
	}
	return nil
}

// idle is what share of a core the servers take when nobody asks for anything.
type idle struct{ leader, others float64 }

// idleness watches them for two seconds.
func idleness(ctx context.Context, e *Env) (idle, error) {
	leader, err := leads(ctx, e)
	if err != nil {
		return idle{}, err
	}
	m, cpu := e.measure(), proc.CPU(leader)
	if err := sleep(ctx, 2*time.Second); err != nil {
		return idle{}, err
	}
	u, cpu := m.done(e), proc.CPU(leader)-cpu
	return idle{leader: cpu.Seconds() / u.Took.Seconds(), others: (u.Servers - cpu).Seconds() / u.Took.Seconds()}, nil
}

// leads is the process that leads, or the only one.
func leads(ctx context.Context, e *Env) (pid int, err error) {
	_, pid, err = e.Cell.Leader(ctx)
	if errors.Is(err, peer.ErrUnsupported) {
		return e.Cell.PIDs()[0], nil
	}
	return pid, err
}

// keepAlive watches the renewals of two rounds go by. What they cost is what the servers take beyond their idling.
func keepAlive(ctx context.Context, e *Env, holder *proc.Worker, before int64, idle idle) error {
	z := e.Sizes
	leader, err := leads(ctx, e)
	if err != nil {
		return err
	}
	first, err := renewals(ctx, holder)
	if err != nil {
		return err
	}
	m, cpu := e.measure(holder.PID()), proc.CPU(leader)
	if err := sleep(ctx, 2*z.TTL/3); err != nil {
		return err
	}
	u, cpu := m.done(e), proc.CPU(leader)-cpu
	last, err := renewals(ctx, holder)
	if err != nil {
		return err
	}
	if last == first {
		return errors.New("no session was renewed")
	}
	secs, thousands := u.Took.Seconds(), float64(last-first)/1000
	due := float64(z.Sessions) * secs / (z.TTL.Seconds() / 3)
	e.Record(sessionRow(z, "renewals, of those due"), 100*float64(last-first)/due)
	e.Record(sessionRow(z, "CPU of the leader, 1000 renewals"), 1000*max(0, cpu.Seconds()-idle.leader*secs)/thousands)
	e.Record(sessionRow(z, "CPU of all servers, 1000 renewals"),
		1000*max(0, u.Servers.Seconds()-(idle.leader+idle.others)*secs)/thousands)
	e.Record(sessionRow(z, "memory of all servers for each"), float64(proc.RSS(e.Cell.PIDs()...)-before)/float64(z.Sessions))
	return nil
}

func renewals(ctx context.Context, holder *proc.Worker) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := holder.Ask(ctx, "renewals")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

func ephemeral(i int) string { return fmt.Sprint("eph/", i) }

// expire kills the holder and watches its keys go.
func expire(ctx context.Context, e *Env, holder *proc.Worker) error {
	z := e.Sizes
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := e.Cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	names := make([]string, z.Sessions)
	for i := range names {
		names[i] = ephemeral(i)
	}
	gone := departures{at: make(map[string]time.Time, len(names)), all: make(chan struct{}), want: len(names)}
	if err := client.WatchDeletes(ctx, "eph/", names, gone.saw); err != nil {
		return err
	}
	if err := sleep(ctx, z.TTL/3); err != nil { // a round of renewals, with the keys in place
		return err
	}
	if n, _, _ := gone.so(); n > 0 {
		return fmt.Errorf("%d sessions ended while they were kept alive", n)
	}
	m := e.measure()
	killed := time.Now()
	holder.Kill()
	select {
	case <-gone.all:
	case <-time.After(z.TTL + 20*time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.done(e)
	n, first, last := gone.so()
	if n < z.Sessions {
		return fmt.Errorf("%d of %d keys of dead sessions were still there %v after their time", z.Sessions-n, z.Sessions, 20*time.Second)
	}
	e.Record(sessionRow(z, "end at once: gone at"), float64(n)/max(last.Sub(first), time.Millisecond).Seconds())
	e.Record(sessionRow(z, "end at once: last gone, TTL after the kill"), stats.Milliseconds(last.Sub(killed)-z.TTL))
	return nil
}

// departures notes when each key went.
type departures struct {
	mu   sync.Mutex
	at   map[string]time.Time
	want int
	all  chan struct{} // closed when that many are gone
}

func (d *departures) saw(key string) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, twice := d.at[key]; twice {
		return
	}
	if d.at[key] = now; len(d.at) == d.want {
		close(d.all)
	}
}

// so far: how many, and the first and the last of them.
func (d *departures) so() (n int, first, last time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.at {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return len(d.at), first, last
}
