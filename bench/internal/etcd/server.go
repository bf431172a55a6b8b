// Package etcd is etcd's own embedded server, in three processes of this program with its defaults, and its Go client with
// the recipes of its concurrency package.
package etcd

import (
	"context"
	"flag"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// Serve is one member.
func (Backend) Serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	c := embed.NewConfig()
	flags.StringVar(&c.Name, "name", "", "of the member")
	flags.StringVar(&c.Dir, "dir", "", "data directory")
	flags.StringVar(&c.InitialCluster, "cluster", "", "name=peer address of all members")
	client := addressFlag(flags, "client", "address for clients")
	members := addressFlag(flags, "peer", "address for the other members")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = *client, *client
	c.ListenPeerUrls, c.AdvertisePeerUrls = *members, *members
	c.QuotaBackendBytes = 8 << 30
	c.LogLevel = "error"
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err = <-e.Err():
		return err
	}
}

// addressFlag is a flag whose value is one address.
func addressFlag(flags *flag.FlagSet, name, usage string) *[]url.URL {
	urls := new([]url.URL)
	flags.Func(name, usage, func(text string) error {
		u, err := url.Parse(text)
		if err != nil {
			return fmt.Errorf("-%s: %w", name, err)
		}
		*urls = []url.URL{*u}
		return nil
	})
	return urls
}
