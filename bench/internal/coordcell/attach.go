package coordcell

import (
	"context"

	"github.com/coordcell/coord"
)

// attach starts a client node, which keeps no replica and is attached to one of the servers.
func attach(ctx context.Context, servers []string) (*coord.Node, error) {
	return coord.Start(ctx, coord.Config{Role: coord.RoleClient, Join: servers, Logger: discard()})
}
