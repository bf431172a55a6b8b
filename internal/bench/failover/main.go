//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/internal/bench/process"
)

const (
	servers  = 3
	mostEnds = 1000
	perEnd   = time.Minute // at most, with the new start
	sessions = 20          // in each process
)

// plan is what the command line says.
type plan struct {
	kills    int
	stops    int
	election time.Duration
	idle     time.Duration // 0: not measured

	server int      // of a child: which one
	dir    string   // of all servers
	addrs  []string // where they listen
}

func main() {
	log.SetFlags(0)
	var p plan
	flag.IntVar(&p.kills, "kills", 10, fmt.Sprintf("how often the leader is killed, at most %d", mostEnds))
	flag.IntVar(&p.stops, "stops", 0, fmt.Sprintf("how often the leader is stopped gracefully, at most %d", mostEnds))
	flag.DurationVar(&p.election, "election", coord.DefaultElectionTimeout, "ElectionTimeout")
	flag.DurationVar(&p.idle, "idle", 10*time.Second, "how long the idle cell is watched, at most 10m; 0: not at all")
	flag.IntVar(&p.server, "server", 0, "(for the command itself) be this server")
	flag.StringVar(&p.dir, "dir", "", "(for the command itself) where the servers keep their things")
	addrs := flag.String("addrs", "", "(for the command itself) where the servers listen")
	flag.Parse()
	if min(p.kills, p.stops) < 0 || max(p.kills, p.stops) > mostEnds || p.idle < 0 || p.idle > 10*time.Minute {
		log.Fatalf("-kills and -stops must be 0 to %d, -idle 0 to 10m", mostEnds)
	}
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+p.idle+time.Duration(p.kills+p.stops)*perEnd)
	defer cancel()
	run := p.measure
	if p.server > 0 {
		p.addrs = strings.Split(*addrs, ",")
		run = p.serve
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// measure runs the cell and prints what it sees.
func (p plan) measure(ctx context.Context) (err error) {
	if p.addrs, err = process.FreeAddrs(servers); err != nil {
		return err
	}
	if p.dir, err = os.MkdirTemp("", "coord-failover-"); err != nil {
		return err
	}
	defer os.RemoveAll(p.dir)
	children := make([]child, servers)
	for i := 1; i < servers; i++ {
		if children[i], err = p.spawn(i); err != nil {
			return err
		}
		defer func() {
			_ = children[i].Kill() // or it has ended before
			children[i].Ended()
		}()
	}
	node, err := p.start(ctx, 0)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := errors.Join(node.WaitReady(ctx), children[1].ready(ctx), children[2].ready(ctx)); err != nil {
		return err
	}
	own, err := p.openSessions(ctx, node)
	if err != nil {
		return err
	}
	if p.idle > 0 {
		if err := p.watchIdle(ctx, node, children); err != nil {
			return err
		}
	}
	lost := 0
	for _, way := range []struct {
		name  string
		times int
		end   func(child) error
	}{
		{"kill -9 of the leader", p.kills, child.Kill},
		{"graceful stop of the leader", p.stops, child.shutDown},
	} {
		var took []time.Duration
		for k := range way.times {
			d, n, err := p.endLeader(ctx, node, own, children, fmt.Sprint(way.name, k), way.end)
			if err != nil {
				return fmt.Errorf("%s, %d: %w", way.name, k, err)
			}
			took, lost = append(took, d), lost+n
		}
		if len(took) > 0 {
			fmt.Printf("%s to the next grant, ElectionTimeout %v, %d times: %s\n", way.name, p.election, len(took), spread(took))
		}
	}
	fmt.Printf("of %d sessions in each process that lived on, %d were lost in all of it\n", sessions, lost+lostOf(own))
	return nil
}

// openSessions opens the sessions of one process.
func (p plan) openSessions(ctx context.Context, node *coord.Node) (own []*coord.Session, err error) {
	for range sessions {
		s, err := node.NewSession(ctx)
		if err != nil {
			return nil, err
		}
		own = append(own, s)
	}
	return own, nil
}

func lostOf(own []*coord.Session) (lost int) {
	for _, s := range own {
		if s.Err() != nil {
			lost++
		}
	}
	return lost
}

// spread is the 50th, 90th and 99th percentile, and the extremes.
func spread(took []time.Duration) string {
	slices.Sort(took)
	at := func(percent int) time.Duration { return round(took[(len(took)-1)*percent/100]) }
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, %v to %v", at(50), at(90), at(99), at(0), at(100))
}

// watchIdle prints the CPU time that each server takes while nobody asks for anything.
func (p plan) watchIdle(ctx context.Context, node *coord.Node, children []child) error {
	usage := func() (used [servers]time.Duration, err error) {
		used[0] = process.CPU()
		for i := 1; i < servers && err == nil; i++ {
			used[i], err = children[i].cpu(ctx)
		}
		return used, err
	}
	before, err := usage()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := wait(ctx, p.idle); err != nil {
		return err
	}
	after, err := usage()
	if err != nil {
		return err
	}
	leader := leads(node)
	for i := range servers {
		role := map[bool]string{true: "leader", false: "follower"}[i == leader]
		fmt.Printf("idle %s: %.2f %% of a core\n", role, 100*float64(after[i]-before[i])/float64(time.Since(begin)))
	}
	return nil
}

// endLeader takes the time from the end of the leader, which is another process, to the next grant, and counts the
// sessions that were lost in the processes that live on, but for this one.
func (p plan) endLeader(ctx context.Context, node *coord.Node, own []*coord.Session, children []child, name string, end func(child) error) (took time.Duration, lost int, err error) {
	leader := leads(node)
	for ; leader <= 0; leader = leads(node) {
		if leader == 0 {
			if err := node.TransferLeadership(ctx, ""); err != nil {
				log.Print(err)
			}
		}
		if err := wait(ctx, p.election/10); err != nil {
			return 0, 0, err
		}
	}
	// Not in step with the renewals and heartbeats, and not so soon that whoever stood for election a moment ago may not
	// stand again.
	if err := wait(ctx, p.election+rand.N(p.election)); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := end(children[leader]); err != nil {
		return 0, 0, err
	}
	lock, err := own[0].Lock(ctx, name)
	took = time.Since(begin)
	if err != nil {
		return 0, 0, err
	}
	children[leader].Ended()
	again, err := p.spawn(leader)
	if err != nil {
		return 0, 0, err
	}
	children[leader] = again
	if err := errors.Join(lock.Unlock(ctx), again.ready(ctx)); err != nil {
		return 0, 0, err
	}
	for i := 1; i < servers; i++ {
		n, err := children[i].lost(ctx)
		if err != nil {
			return 0, 0, err
		}
		lost += n
	}
	return took, lost, nil
}

// start starts a server in this process.
func (p plan) start(ctx context.Context, i int) (*coord.Node, error) {
	return coord.Start(ctx, coord.Config{
		Name: fmt.Sprint("server", i), Dir: filepath.Join(p.dir, fmt.Sprint(i)), Listen: p.addrs[i],
		Join: p.addrs, Expect: servers, ElectionTimeout: p.election,
	})
}

// leads is the number of the server that leads, or -1.
func leads(node *coord.Node) (number int) {
	for _, m := range node.Members() {
		if _, err := fmt.Sscanf(m.Name, "server%d", &number); err == nil && m.Leader {
			return number
		}
	}
	return -1
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
