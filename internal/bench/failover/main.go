//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coordcell/coord"
)

const (
	servers  = 3
	mostKill = 100
	perKill  = time.Minute // at most, with the new start
)

// plan is what the command line says.
type plan struct {
	kills    int
	election time.Duration
	idle     time.Duration

	server int      // of a child: which one
	dir    string   // of all servers
	addrs  []string // where they listen
}

func main() {
	log.SetFlags(0)
	var p plan
	flag.IntVar(&p.kills, "kills", 10, fmt.Sprintf("how often the leader is killed, 1 to %d", mostKill))
	flag.DurationVar(&p.election, "election", coord.DefaultElectionTimeout, "ElectionTimeout")
	flag.DurationVar(&p.idle, "idle", 10*time.Second, "how long the idle cell is watched, at most 10m")
	flag.IntVar(&p.server, "server", 0, "(for the command itself) be this server")
	flag.StringVar(&p.dir, "dir", "", "(for the command itself) where the servers keep their things")
	addrs := flag.String("addrs", "", "(for the command itself) where the servers listen")
	flag.Parse()
	if p.kills < 1 || p.kills > mostKill || p.idle <= 0 || p.idle > 10*time.Minute {
		log.Fatalf("-kills must be 1 to %d, -idle up to 10m", mostKill)
	}
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+p.idle+time.Duration(p.kills)*perKill)
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
	if p.addrs, err = freeAddrs(servers); err != nil {
		return err
	}
	if p.dir, err = os.MkdirTemp("", "coord-failover-"); err != nil {
		return err
	}
	defer os.RemoveAll(p.dir)
	children := make([]*child, servers)
	for i := 1; i < servers; i++ {
		if children[i], err = p.spawn(i); err != nil {
			return err
		}
		defer func() { children[i].kill() }()
	}
	node, err := p.start(ctx, 0)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := errors.Join(node.WaitReady(ctx), children[1].ready(ctx), children[2].ready(ctx)); err != nil {
		return err
	}
	session, err := node.NewSession(ctx)
	if err != nil {
		return err
	}
	if err := p.watchIdle(ctx, node, children); err != nil {
		return err
	}
	var took []time.Duration
	for k := range p.kills {
		d, err := p.killLeader(ctx, node, session, children, fmt.Sprint("lock ", k))
		if err != nil {
			return fmt.Errorf("kill %d: %w", k, err)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	fmt.Printf("kill -9 of the leader to the next grant, ElectionTimeout %v: median %v of %d, %v to %v\n",
		p.election, round(took[len(took)/2]), len(took), round(took[0]), round(took[len(took)-1]))
	fmt.Printf("the session has lived through all of them: %v\n", session.Err() == nil)
	return nil
}

// watchIdle prints the CPU time that each server takes while nobody asks for anything.
func (p plan) watchIdle(ctx context.Context, node *coord.Node, children []*child) error {
	usage := func() (used [servers]time.Duration, err error) {
		used[0] = cpu()
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

// killLeader takes the time from the death of the leader, which is another process, to the next grant.
func (p plan) killLeader(ctx context.Context, node *coord.Node, session *coord.Session, children []*child, name string) (time.Duration, error) {
	leader := leads(node)
	for ; leader <= 0; leader = leads(node) {
		if leader == 0 {
			if err := node.TransferLeadership(ctx, ""); err != nil {
				log.Print(err)
			}
		}
		if err := wait(ctx, p.election/10); err != nil {
			return 0, err
		}
	}
	// Not in step with the renewals and heartbeats.
	if err := wait(ctx, rand.N(2*p.election)); err != nil {
		return 0, err
	}
	begin := time.Now()
	children[leader].kill()
	lock, err := session.Lock(ctx, name)
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	again, err := p.spawn(leader)
	if err != nil {
		return 0, err
	}
	children[leader] = again
	return took, errors.Join(lock.Unlock(ctx), again.ready(ctx))
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

// freeAddrs are addresses of loopback that nobody listens on, for now.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // when all have been picked: they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
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
