// Command election lets candidates campaign for an office, lead for a term, and resign; and observes who leads.
//
// Without flags, three candidates in one process each lead once. With -servers, the process is one candidate in a cell of
// several, until it is interrupted. In three terminals:
//
//	election -name alpha -listen 127.0.0.1:7421 -servers 127.0.0.1:7421,127.0.0.1:7422,127.0.0.1:7423
//	election -name beta  -listen 127.0.0.1:7422 -servers 127.0.0.1:7421,127.0.0.1:7422,127.0.0.1:7423
//	election -name gamma -listen 127.0.0.1:7423 -servers 127.0.0.1:7421,127.0.0.1:7422,127.0.0.1:7423
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/coordcell/coord"
)

const office = "office/mayor"

func main() {
	name := flag.String("name", "alpha", "this candidate, with -servers")
	listen := flag.String("listen", "127.0.0.1:0", "host:port to listen on")
	servers := flag.String("servers", "", "host:port of all servers, with commas between them")
	term := flag.Duration("term", time.Second, "how long to lead before resigning")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg := coord.Config{InMemory: true, Listen: *listen, Expect: 1}
	candidates, terms := []string{"alpha", "beta", "gamma"}, 1
	if *servers != "" {
		cfg.Name, cfg.Join = *name, strings.Split(*servers, ",")
		cfg.Expect = len(cfg.Join)
		candidates, terms = []string{*name}, forever
	}
	if err := run(ctx, os.Stdout, cfg, candidates, terms, *term); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

const forever = -1

// run starts a node and lets each candidate lead for a number of terms, each so long.
func run(ctx context.Context, out io.Writer, cfg coord.Config, candidates []string, terms int, term time.Duration) error {
	node, err := coord.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer node.Close()

	observer, err := node.Observe(ctx, office)
	if err != nil {
		return err
	}
	var observing sync.WaitGroup
	observing.Go(func() {
		for leader := range observer.Changes() { // some may be left out, never the last
			if leader.Held {
				fmt.Fprintf(out, "%s leads, epoch %v\n", leader.Value, leader.Epoch)
			} else {
				fmt.Fprintln(out, "nobody leads")
			}
		}
	})

	errs := make([]error, len(candidates))
	var running sync.WaitGroup
	for i, name := range candidates {
		running.Go(func() { errs[i] = candidate(ctx, node, name, terms, term) })
	}
	running.Wait()
	errs = append(errs, observer.Close())
	observing.Wait()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(append(errs, node.Shutdown(stopping))...)
}

// candidate campaigns, leads and resigns, again and again. A real one would act under lead.Context(), and send lead.Epoch()
// along with all that it writes.
func candidate(ctx context.Context, node *coord.Node, name string, terms int, term time.Duration) error {
	session, err := node.NewSession(ctx, coord.WithLabel(name))
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))
	for ; terms != 0; terms-- {
		lead, err := session.Campaign(ctx, office, []byte(name))
		if err != nil {
			return err
		}
		select {
		case <-time.After(term):
		case <-lead.Lost():
			return lead.Err()
		case <-ctx.Done():
		}
		if err := lead.Resign(ctx); err != nil {
			return err
		}
	}
	return nil
}
