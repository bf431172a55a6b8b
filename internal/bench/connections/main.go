//go:build unix

package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/coordcell/coord/internal/bench/process"
	"github.com/coordcell/coord/internal/calls"
	"github.com/coordcell/coord/internal/failstop"
	"github.com/coordcell/coord/internal/wire"
	"github.com/coordcell/coord/transport"
)

const (
	mostClients = 60_000
	spareFiles  = 64 // file descriptors beside those of connections
)

// plan is what the command line says.
type plan struct {
	clients int
	renew   time.Duration
	phase   time.Duration // of renewals, and of silence

	server string // of the process with the clients: where the server is
}

func main() {
	log.SetFlags(0)
	var p plan
	flag.IntVar(&p.clients, "n", 20_000, fmt.Sprintf("number of clients, 1 to %d", mostClients))
	flag.DurationVar(&p.renew, "renew", 4*time.Second, "time between two renewals of a client")
	flag.DurationVar(&p.phase, "for", 30*time.Second, "how long they renew, and how long they are silent then; at most 10m")
	flag.StringVar(&p.server, "server", "", "(for the command itself) hold the clients of the server there")
	flag.Parse()
	if p.clients < 1 || p.clients > mostClients || p.renew <= 0 || p.phase < p.renew || p.phase > 10*time.Minute {
		log.Fatalf("-n must be 1 to %d, -for at least -renew and at most 10m", mostClients)
	}
	var files syscall.Rlimit // of which Go has taken what it may
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		log.Fatal(err)
	}
	if need := uint64(p.clients + spareFiles); files.Cur < need {
		log.Fatalf("not measured: %d clients need %d file descriptors in each process, and this one may have %d (ulimit -n)", p.clients, need, files.Cur)
	}
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+2*p.phase)
	defer cancel()
	run := p.measure
	if p.server != "" {
		run = p.hold
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// book is a directory of one server.
type book map[string]string

func (b book) Lookup(id string) (addr string, ok bool) {
	addr, ok = b[id]
	return addr, ok
}

const serverID = "server"

// measure is the server, and prints what it sees of itself.
func (p plan) measure(ctx context.Context) error {
	before := takeMemory()
	ep, err := transport.TCP().Listen(ctx, "0.0.0.0:0")
	if err != nil {
		return err
	}
	mux, err := transport.NewMux(ep, transport.MuxConfig{Cell: "bench", CellID: [16]byte{1}, Node: serverID})
	if err != nil {
		return err
	}
	x := calls.New(calls.Config{
		Mux: mux, Directory: book{}, Switch: failstop.New(),
		IsClient: func(id string) bool { return strings.HasPrefix(id, clientPrefix) },
		Handler: func(_ context.Context, r *calls.Request) {
			if r.Method == wire.MethodKeepAlive {
				r.Reply(r.Payload)
				return
			}
			r.Fail(calls.ErrUnknownMethod)
		},
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		x.Serve()
	}()
	defer func() {
		x.Close()
		mux.Close()
		<-served
	}()
	c, err := p.spawn(ctx, mux.Addr())
	if err != nil {
		return err
	}
	defer c.stop()
	var dialled time.Duration
	if err := c.ask(ctx, "dial", &dialled); err != nil {
		return err
	}

	start := process.CPU()
	var renewals, failures int
	var p50, p99 time.Duration
	if err := c.ask(ctx, "renew", &renewals, &failures, &p50, &p99); err != nil {
		return err
	}
	renewing := process.CPU() - start
	resident := takeResident()
	after := takeMemory()

	start = process.CPU()
	var silent time.Duration
	if err := c.ask(ctx, "silence", &silent); err != nil {
		return err
	}
	idle := process.CPU() - start
	p.print(figures{
		dialled: dialled, renewals: renewals, failures: failures, p50: p50, p99: p99,
		renewing: renewing, idle: idle, memory: after.minus(before), resident: resident - before.resident,
	})
	return nil
}

// figures are what was measured.
type figures struct {
	dialled            time.Duration // until all were connected
	renewals, failures int
	p50, p99           time.Duration // of a renewal, as its client sees it
	renewing, idle     time.Duration // CPU time of the server in each phase
	memory             memory        // beyond that of the process before its first connection
	resident           int64         // the same, before the garbage collection
}

func (p plan) print(f figures) {
	n, renewals := int64(p.clients), max(1, f.renewals)
	each := func(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3/float64(renewals)) }
	fmt.Printf("%d connections, dialled in %v; each renews every %v for %v, then is silent for as long\n",
		p.clients, f.dialled.Round(time.Millisecond), p.renew, p.phase)
	fmt.Printf("%d renewals, %d failed; p50 %v, p99 %v\n\n", f.renewals, f.failures, f.p50.Round(time.Microsecond), f.p99.Round(time.Microsecond))
	fmt.Println("| for each connection, on the server | |")
	fmt.Println("|---|---|")
	fmt.Printf("| live heap | %d B |\n", f.memory.heap/n)
	fmt.Printf("| stacks | %d B |\n", f.memory.stacks/n)
	fmt.Printf("| both | %.1f KiB |\n", float64(f.memory.heap+f.memory.stacks)/float64(n)/1024)
	fmt.Printf("| resident memory | %.1f KiB |\n", float64(f.resident)/float64(n)/1024)
	fmt.Printf("| CPU a renewal | %s |\n", each(f.renewing))
	fmt.Printf("| CPU a renewal, without what the server takes while they are silent | %s |\n", each(f.renewing-f.idle))
	fmt.Printf("| CPU of the server while they are silent | %.2f %% of a core |\n", 100*f.idle.Seconds()/p.phase.Seconds())
	fmt.Printf("| goroutines of the server, all together | %d |\n", runtime.NumGoroutine())
}
