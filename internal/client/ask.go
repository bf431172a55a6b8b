package client

import (
	"context"
	"fmt"

	"github.com/coordcell/coord/internal/caller"
	"github.com/coordcell/coord/internal/wire"
)

// Ask carries one question to the leader, by way of the server.
func (c *Client) Ask(ctx context.Context, kind wire.AskKind, question []byte) ([]byte, error) {
	server, _ := c.place.attached()
	if server == "" {
		return nil, fmt.Errorf("%w: attached to no server", caller.ErrNotSent)
	}
	return c.calls.Call(ctx, server, wire.MethodAsk, wire.Ask{Kind: kind, Question: question}.Append(nil))
}
