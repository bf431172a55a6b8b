package main

import (
	"fmt"
	"strings"

	"github.com/coordcell/coord/bench/internal/bareraft"
	"github.com/coordcell/coord/bench/internal/coordcell"
	"github.com/coordcell/coord/bench/internal/etcd"
	"github.com/coordcell/coord/bench/internal/nats"
	"github.com/coordcell/coord/bench/internal/peer"
	"github.com/coordcell/coord/bench/internal/redis"
	"github.com/coordcell/coord/bench/internal/zookeeper"
)

// backend is a service under the name of its column.
type backend struct {
	name     string
	optional bool // only by -backends
	packages []string
	peer.Backend
}

// all services, in the order of their columns.
func all() []backend {
	raft := func(name, store string, packed bool) backend {
		return backend{name: name, optional: !packed, Backend: bareraft.Backend{Name: name, Store: store, Packed: packed}}
	}
	redisOf := func(name string, masters int, sync string, optional bool) backend {
		return backend{name: name, optional: optional, packages: []string{"redis-server"}, Backend: redis.Backend{Masters: masters, Sync: sync}}
	}
	return []backend{
		{name: "coord", Backend: coordcell.Backend{Name: "coord"}},
		{name: "coord-embedded", Backend: coordcell.Backend{Name: "coord-embedded", Embedded: true}},
		{name: "etcd", Backend: etcd.Backend{}},
		{name: "zookeeper", packages: []string{"zookeeper", "default-jre-headless"}, Backend: zookeeper.Backend{}},
		{name: "nats", Backend: nats.Backend{}},
		{name: "nats-lazy", optional: true, Backend: nats.Backend{Lazy: true}},
		redisOf("redis-always", 1, "always", false),
		redisOf("redis-everysec", 1, "everysec", false),
		redisOf("redlock", peer.Servers, "always", true),
		raft("raft-packed", "wal", true),
		raft("raft-wal", "wal", false),
		raft("raft-bolt", "bolt", false),
	}
}

// defaults are those that are compared unless -backends says otherwise.
func defaults() (out []backend) {
	for _, b := range all() {
		if !b.optional {
			out = append(out, b)
		}
	}
	return out
}

func find(name string) (backend, error) {
	for _, b := range all() {
		if b.name == name {
			return b, nil
		}
	}
	return backend{}, fmt.Errorf("no backend %q; there are: %s", name, names(all()))
}

func names(of []backend) string {
	var list []string
	for _, b := range of {
		list = append(list, b.name)
	}
	return strings.Join(list, ",")
}
