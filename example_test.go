package coord_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/coordcell/coord"
	"github.com/coordcell/coord/fence"
	"github.com/coordcell/coord/transport"
)

// single is a cell of one server, in memory: enough for an example, and for the tests of a program.
func single(ctx context.Context) *coord.Node {
	node, err := coord.Start(ctx, coord.Config{
		InMemory: true, Expect: 1, Transport: transport.NewMemory(), ElectionTimeout: 50 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	return node
}

func Example() {
	ctx := context.Background()
	node, err := coord.Start(ctx, coord.Config{
		InMemory:  true, // a real server has a Dir,
		Expect:    1,    // and two or four others, named by Join
		Transport: transport.NewMemory(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	session, err := node.NewSession(ctx, coord.WithLabel("billing"))
	if err != nil {
		log.Fatal(err)
	}
	err = session.Do(ctx, "jobs/nightly", func(ctx context.Context, l *coord.Lock) error {
		fmt.Println("running", l.Name())
		return l.Check()
	})
	fmt.Println(err)
	// Output:
	// running jobs/nightly
	// <nil>
}

// A resource that checks tokens refuses a former holder, however late it wakes up.
func ExampleSession_Lock() {
	ctx := context.Background()
	node := single(ctx)
	defer node.Close()
	ledger := fence.NewMemory() // the guard belongs to the resource, not to its users
	write := func(l *coord.Lock, text string) error {
		return ledger.Do(ctx, "ledger", l.Token(), func(context.Context) error {
			fmt.Println("written:", text)
			return nil
		})
	}
	var grants []*coord.Lock
	for range 2 {
		session, err := node.NewSession(ctx)
		if err != nil {
			log.Fatal(err)
		}
		lock, err := session.Lock(ctx, "ledger")
		if err != nil {
			log.Fatal(err)
		}
		if err := write(lock, fmt.Sprint("by holder ", len(grants)+1)); err != nil {
			log.Fatal(err)
		}
		if err := lock.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
		grants = append(grants, lock)
	}
	err := write(grants[0], "too late")
	fmt.Println("the first again:", errors.Is(err, fence.ErrStale))
	fmt.Println("it could have known:", errors.Is(grants[0].Check(), coord.ErrUnlocked))
	// Output:
	// written: by holder 1
	// written: by holder 2
	// the first again: true
	// it could have known: true
}

func ExampleSession_TryLock() {
	ctx := context.Background()
	node := single(ctx)
	defer node.Close()
	session, err := node.NewSession(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		_, err := session.TryLock(ctx, "jobs/7") // each call is an acquisition of its own
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// coord: try lock "jobs/7": locked
}

func ExampleSession_Campaign() {
	ctx := context.Background()
	node := single(ctx)
	defer node.Close()
	session, err := node.NewSession(ctx, coord.WithLabel("server-a"))
	if err != nil {
		log.Fatal(err)
	}
	leadership, err := session.Campaign(ctx, "scheduler", []byte("10.0.0.1:80"))
	if err != nil {
		log.Fatal(err)
	}
	who, err := node.Leader(ctx, "scheduler")
	fmt.Printf("%v %s %s %v\n", who.Held, who.Label, who.Value, err)
	fmt.Println(who.Epoch == leadership.Epoch())
	if err := leadership.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	who, err = node.Leader(ctx, "scheduler")
	fmt.Println(who.Held, err)
	// Output:
	// true server-a 10.0.0.1:80 <nil>
	// true
	// false <nil>
}

func ExampleNode_Watch() {
	ctx := context.Background()
	node := single(ctx)
	defer node.Close()
	watch, err := node.Watch(ctx, "routes/", coord.Prefix(), coord.WithSnapshot())
	if err != nil {
		log.Fatal(err)
	}
	defer watch.Close()
	for i, target := range []string{"10.0.0.1", "10.0.0.2"} {
		if _, err := node.Put(ctx, fmt.Sprint("routes/", i), []byte(target)); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := node.Delete(ctx, "routes/0"); err != nil {
		log.Fatal(err)
	}
	changes := 0
	for batch, err := range watch.All() {
		if err != nil {
			log.Fatal(err) // ErrNoLeader, say: go on at another node, from the last revision + 1
		}
		if batch.Snapshot {
			fmt.Println("at first:", len(batch.Events), "routes")
		}
		for _, e := range batch.Events {
			fmt.Println(e.Type, e.Key, string(e.Value))
			changes++
		}
		if changes == 3 {
			break
		}
	}
	// Output:
	// at first: 0 routes
	// put routes/0 10.0.0.1
	// put routes/1 10.0.0.2
	// delete routes/0
}

// A read, a decision and a write in one step: nobody else came in between, or nothing is written.
func ExampleNode_Txn() {
	ctx := context.Background()
	node := single(ctx)
	defer node.Close()
	created, err := node.Put(ctx, "stock", []byte("7"), coord.IfAbsent())
	if err != nil {
		log.Fatal(err)
	}
	take := coord.Txn{
		If:   []coord.Condition{coord.KeyAt("stock", created)},
		Then: []coord.Op{coord.OpPut("stock", []byte("6")), coord.OpPut("orders/1", []byte("one"))},
		Else: []coord.Op{coord.OpGet("stock")},
	}
	for range 2 {
		res, err := node.Txn(ctx, take)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v, stock is %s\n", res.Succeeded, res.Results[0].Value)
	}
	// Output:
	// true, stock is 6
	// false, stock is 6
}

// What only the holder may write to the cell's own keys needs no other guard.
func ExampleLock_Held() {
	ctx := context.Background()
	node := single(ctx)
	defer node.Close()
	session, err := node.NewSession(ctx)
	if err != nil {
		log.Fatal(err)
	}
	lock, err := session.Lock(ctx, "jobs/7")
	if err != nil {
		log.Fatal(err)
	}
	progress := coord.Txn{If: []coord.Condition{lock.Held()}, Then: []coord.Op{coord.OpPut("progress/7", []byte("half"))}}
	res, err := node.Txn(ctx, progress)
	fmt.Println(res.Succeeded, err)
	if err := lock.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	res, err = node.Txn(ctx, progress)
	fmt.Println(res.Succeeded, err)
	// Output:
	// true <nil>
	// false <nil>
}

// Ephemeral keys say who is there: they go with their session.
func ExampleSession_Put() {
	ctx := context.Background()
	node := single(ctx)
	defer node.Close()
	session, err := node.NewSession(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.Put(ctx, "workers/a", []byte("10.0.0.1")); err != nil {
		log.Fatal(err)
	}
	for _, end := range []func(context.Context) error{func(context.Context) error { return nil }, session.Close} {
		if err := end(ctx); err != nil {
			log.Fatal(err)
		}
		workers, err := node.List(ctx, "workers/")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(workers.Keys), "at work")
	}
	// Output:
	// 1 at work
	// 0 at work
}

func ExampleNode_NewSession() {
	ctx := context.Background()
	node := single(ctx)
	defer node.Close()
	session, err := node.NewSession(ctx, coord.WithLabel("worker 7"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(session.TTL(), session.Remaining() > 0, session.Err())
	if err := session.Close(ctx); err != nil {
		log.Fatal(err)
	}
	<-session.Done()
	fmt.Println(session.Remaining() > 0, session.Err())
	// Output:
	// 10s true <nil>
	// false coord: session closed
}
