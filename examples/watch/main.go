// Command watch keeps a routing table in the cell. Each instance of a service enters its own address, and the cell removes
// the entry when the instance is gone; every process sees the same table, changing in the same order.
//
// Without flags, four instances come and go in one process. With -servers, the process is one instance in a cell of several,
// until it is interrupted. In three terminals:
//
//	watch -name alpha -listen 127.0.0.1:7421 -servers 127.0.0.1:7421,127.0.0.1:7422,127.0.0.1:7423
//	watch -name beta  -listen 127.0.0.1:7422 -servers 127.0.0.1:7421,127.0.0.1:7422,127.0.0.1:7423
//	watch -name gamma -listen 127.0.0.1:7423 -servers 127.0.0.1:7421,127.0.0.1:7422,127.0.0.1:7423
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
	"time"

	"github.com/coordcell/coord"
)

func main() {
	name := flag.String("name", "alpha", "this instance, with -servers")
	listen := flag.String("listen", "127.0.0.1:0", "host:port to listen on")
	servers := flag.String("servers", "", "host:port of all servers, with commas between them")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg := coord.Config{InMemory: true, Listen: *listen, Expect: 1}
	live := comeAndGo
	if *servers != "" {
		cfg.Name, cfg.Join = *name, strings.Split(*servers, ",")
		cfg.Expect = len(cfg.Join)
		live = stay
	}
	if err := run(ctx, os.Stdout, cfg, live); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// life is what the instances of this process do. It returns the last revision that it made, for all to have been shown.
type life func(ctx context.Context, node *coord.Node) (coord.Revision, error)

// run starts a node, lets live go on, and shows what comes of it.
func run(ctx context.Context, out io.Writer, cfg coord.Config, live life) error {
	node, err := coord.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer node.Close()
	err = show(ctx, out, node, live)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, node.Shutdown(stopping))
}

// show keeps a Table up to date and prints it at each change, until live is over.
func show(ctx context.Context, out io.Writer, node *coord.Node, live life) error {
	watch, err := node.Watch(ctx, routes, coord.Prefix(), coord.WithSnapshot())
	if err != nil {
		return err
	}
	defer watch.Close()

	var last coord.Revision
	over := make(chan error, 1)
	go func() {
		var err error
		last, err = live(ctx, node)
		over <- err
	}()
	var table Table
	var seen coord.Revision
	for living := true; living || seen < last; {
		select {
		case batch, open := <-watch.Batches():
			if !open {
				return watch.Err()
			}
			seen = batch.Revision
			changed := batch.Snapshot || len(batch.Events) > 0 // otherwise it only says how far the cell has come
			if table.Apply(batch) && changed {
				fmt.Fprintf(out, "revision %d: %v\n", batch.Revision, &table)
			}
		case err := <-over:
			if err != nil {
				return err
			}
			living = false
		}
	}
	return nil
}

// stay is one instance, until ctx ends.
func stay(ctx context.Context, node *coord.Node) (coord.Revision, error) {
	_, revision, err := register(ctx, node, "web", node.Name(), node.Addr())
	if err == nil {
		<-ctx.Done() // Shutdown closes the session, and with it goes the entry
	}
	return revision, err
}

// comeAndGo is a short life of four instances: three of web, the second of which goes, and one of mail.
func comeAndGo(ctx context.Context, node *coord.Node) (coord.Revision, error) {
	_, _, err1 := register(ctx, node, "web", "a", "10.0.0.1:80")
	second, _, err2 := register(ctx, node, "web", "b", "10.0.0.2:80")
	_, _, err3 := register(ctx, node, "mail", "c", "10.0.0.3:25")
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, err
	}
	if err := second.Close(ctx); err != nil { // killed, it would go as well, after its TTL
		return 0, err
	}
	_, revision, err := register(ctx, node, "web", "d", "10.0.0.4:80")
	return revision, err
}

// register enters an instance under a session of its own, with which the entry lives and goes.
func register(ctx context.Context, node *coord.Node, service, instance, addr string) (*coord.Session, coord.Revision, error) {
	session, err := node.NewSession(ctx, coord.WithLabel(instance))
	if err != nil {
		return nil, 0, err
	}
	revision, err := session.Put(ctx, routes+service+"/"+instance, []byte(addr), coord.IfAbsent())
	return session, revision, err
}
