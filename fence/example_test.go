package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/coordcell/coord/fence"
)

func ExampleMemory() {
	ctx := context.Background()
	guard := fence.NewMemory()
	balance := 0
	deposit := func(t fence.Token, amount int) error {
		return guard.Do(ctx, "account/1", t, func(context.Context) error {
			balance += amount
			return nil
		})
	}

	fmt.Println(deposit(33, 10)) // the holder of token 33 pauses after this one
	fmt.Println(deposit(34, 20)) // the next holder writes meanwhile
	err := deposit(33, 40)       // the first wakes up
	fmt.Println(err)
	fmt.Println(errors.Is(err, fence.ErrStale), balance)
	// Output:
	// <nil>
	// <nil>
	// fence: resource "account/1": stale token 33: 34 was accepted before
	// true 30
}
