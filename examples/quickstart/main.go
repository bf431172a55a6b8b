// Command quickstart takes a lock in a cell of one and writes under its fencing token.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/fence"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	node, err := coord.Start(ctx, coord.Config{InMemory: true, Expect: 1, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer node.Close()

	session, err := node.NewSession(ctx) // waits until the cell has a leader
	if err != nil {
		return err
	}
	lock, err := session.Lock(ctx, "account/1") // first come, first served, across all processes of the cell
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "holds %s with token %v\n", lock.Name(), lock.Token())

	// What the lock protects refuses a token below the highest that it has seen. Here it is a variable; see package
	// sqlfence for a database.
	balance, guard := 0, fence.NewMemory()
	err = guard.Do(ctx, "account/1", lock.Token(), func(context.Context) error { balance += 10; return nil })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "balance %d\n", balance)

	if err := lock.Unlock(ctx); err != nil {
		return err
	}
	return node.Shutdown(ctx)
}
