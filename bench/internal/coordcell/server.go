// Package coordcell is this project's own cell: three servers, each a process of this program. Its callers are either in a
// process of their own, attached as a client node, as those of the other services are; or in the process of one of the
// three servers, which is how a program embeds the library.
package coordcell

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/coordcell/coord"

	"github.com/coordcell/coord/bench/internal/peer"
)

// readyFile is what a server makes beside its data directory when it is ready.
const readyFile = "ready"

// Serve is one server, with the library's defaults.
func (Backend) Serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("coord", flag.ContinueOnError)
	c := coord.Config{Expect: peer.Servers, Logger: logger()}
	flags.StringVar(&c.Name, "name", "", "of the server")
	flags.StringVar(&c.Dir, "dir", "", "data directory")
	flags.StringVar(&c.Listen, "listen", "", "its address")
	join := flags.String("join", "", "addresses of all servers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.Join = strings.Split(*join, ",")
	node, err := coord.Start(ctx, c)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := node.WaitReady(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(c.Dir), readyFile), nil, 0o644); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-node.Done():
		return node.Err()
	}
}

// logger writes what goes wrong to the server's log file.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
