//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/bench/process"
)

// server is this process as a server of the cell.
type server struct {
	place
	node *coord.Node

	mu       sync.Mutex
	sessions []*coord.Session
	locks    []*coord.Lock
	grants   []int64 // when waiters got theirs; Unix times in nanoseconds

	lost     atomic.Int64
	peak     atomic.Uint64 // RSS
	probe    *probe
	watchers []*watcher
	ends     *ends
}

// serve is what a server's process does until its standard input ends.
func serve() error {
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	d := json.NewDecoder(in)
	s := &server{}
	if err := d.Decode(&s.place); err != nil {
		return err
	}
	// Everything that goes on in the background ends with the process: a killed server does not say good-bye either.
	ctx := context.Background()
	node, err := coord.Start(ctx, coord.Config{
		Name: fmt.Sprint("server", s.Number), Dir: s.Dir, Listen: s.Addrs[s.Number], Join: s.Addrs,
		Expect: len(s.Addrs), ElectionTimeout: s.Election,
	})
	if err != nil {
		return err
	}
	s.node = node
	if s.Profile != "" {
		f, err := os.Create(s.Profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	go s.watchMemory()
	if err := node.WaitReady(ctx); err != nil {
		return err
	}
	for {
		var o order
		if err := d.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		begin := time.Now()
		r, err := s.obey(ctx, o)
		r.Took = time.Since(begin)
		if err != nil {
			r.Err = err.Error()
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
}

func (s *server) obey(ctx context.Context, o order) (report, error) {
	switch o.Do {
	case doStatus:
		return s.status(), nil
	case doGC:
		runtime.GC()
		runtime.GC() // frees what the first one found in pools
		return s.status(), nil
	case doOpen:
		return s.open(ctx, o)
	case doLock:
		return s.lock(ctx, o)
	case doWait:
		return report{}, s.wait(ctx, o)
	case doGranted:
		return s.granted(o), nil
	case doRelease:
		return s.release(ctx, o)
	case doProbe:
		return report{}, s.startProbe(ctx)
	case doProbed:
		return s.probe.stop(o), nil
	case doWatch:
		return report{}, s.watch(ctx, o)
	case doWatched:
		return s.watched(), nil
	case doEnds:
		s.ends = newEnds(s.node)
		return report{}, nil
	case doEnded:
		return s.ends.stop(), nil
	case doEnd:
		pprof.StopCPUProfile()
		return report{}, nil
	case doLoad:
		return s.load(ctx, o)
	}
	return report{}, fmt.Errorf("unknown order %q", o.Do)
}

func (s *server) status() report {
	st := s.node.Status()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.mu.Lock()
	own := len(s.sessions)
	s.mu.Unlock()
	return report{Status: Status{
		Leader: st.IsLeader, Ready: st.Leader != "", Applied: st.Applied, Sessions: st.Sessions, Locks: st.Locks, Keys: st.Keys,
		Waiting: st.Waiting, Own: own, Lost: int(s.lost.Load()), CPU: process.CPU(), Heap: m.HeapAlloc, RSS: rss(),
		PeakRSS: s.peak.Load(), Goroutines: runtime.NumGoroutine(),
	}}
}

// watchMemory keeps the largest RSS.
func (s *server) watchMemory() {
	for range time.Tick(100 * time.Millisecond) {
		s.peak.Store(max(s.peak.Load(), rss()))
	}
}

// rss is the resident memory of this process in bytes, on Linux.
func rss() (bytes uint64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &bytes); err == nil {
			return bytes << 10
		}
	}
	return 0
}

// together has n goroutines at most do the things 0 … total-1, and returns how long each took and how many failed.
func together(n, total int, do func(i int) error) (latency, int, error) {
	var next, failed atomic.Int64
	var first atomic.Pointer[error]
	took := make([]time.Duration, total)
	var wg sync.WaitGroup
	for range min(n, total) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < total; i = int(next.Add(1)) - 1 {
				begin := time.Now()
				if err := do(i); err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, &err)
				}
				took[i] = time.Since(begin)
			}
		})
	}
	wg.Wait()
	var err error
	if p := first.Load(); p != nil {
		err = *p
	}
	return summarize(took), int(failed.Load()), err
}

// open opens sessions, each with an ephemeral key if that is asked for.
func (s *server) open(ctx context.Context, o order) (report, error) {
	opened := make([]*coord.Session, o.N)
	late := make([]time.Duration, o.N)
	for i := range late {
		late[i] = rand.N(o.Spread + 1)
	}
	times, failed, err := together(o.Callers, o.N, func(i int) (err error) {
		if err := wait(ctx, late[i]); err != nil {
			return err
		}
		defer func(begin time.Time) { late[i] = time.Since(begin) }(time.Now())
		if opened[i], err = s.node.NewSession(ctx, coord.WithTTL(o.TTL)); err != nil || !o.Keys {
			return err
		}
		_, err = opened[i].Put(ctx, fmt.Sprintf("member/%d/%08d", s.Number, o.First+i), []byte("here"))
		return err
	})
	opened = slices.DeleteFunc(opened, func(x *coord.Session) bool { return x == nil })
	for _, x := range opened {
		context.AfterFunc(x.Context(), func() { s.lost.Add(1) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, opened...)
	if o.Spread > 0 {
		times = summarize(late)
	}
	return report{Time: times, Done: len(opened), Failed: failed}, err
}
