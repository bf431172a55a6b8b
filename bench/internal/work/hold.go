package work

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/proc"
)

// Hold is a process that keeps sessions of a cell until it is killed. Its orders: "open N TTL" (in seconds), "keys" (one
// ephemeral key for each session), "renewals" (how many there have been).
func Hold(ctx context.Context, cell peer.Cell, in io.Reader, out io.Writer) error {
	client, err := cell.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	var opened []peer.Session
	return proc.Work(in, out, func(order string) (string, error) {
		switch order {
		case "renewals":
			return strconv.FormatInt(client.Renewals(ctx), 10), nil
		case "keys":
			return "ok", each(ctx, len(opened), 256, func(ctx context.Context, i int) error {
				return opened[i].PutEphemeral(ctx, ephemeral(i), "v")
			})
		}
		var n, ttl int
		if _, err := fmt.Sscanf(order, "open %d %d", &n, &ttl); err != nil {
			return "", fmt.Errorf("unknown order %q", order)
		}
		opened = make([]peer.Session, n)
		return "ok", each(ctx, n, 256, func(ctx context.Context, i int) (err error) {
			opened[i], err = client.Session(ctx, time.Duration(ttl)*time.Second)
			return err
		})
	})
}
