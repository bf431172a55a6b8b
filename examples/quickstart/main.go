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
	defer node.Shutdown(ctx)
	session, err := node.NewSession(ctx) // waits until the cell has a leader
	if err != nil {
		return err
	}
	// What the lock protects refuses a token below the highest that it has seen. Here it is a variable; see package
	// sqlfence for a database.
	balance, account := 0, fence.NewMemory()
	return session.Do(ctx, "account/1", func(ctx context.Context, lock *coord.Lock) error {
		err := account.Do(ctx, lock.Name(), lock.Token(), func(context.Context) error { balance += 10; return nil })
		fmt.Fprintf(out, "token %v of %s, balance %d\n", lock.Token(), lock.Name(), balance)
		return err
	})
}
