package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coordcell/coord"
)

// routes is the prefix of all entries: route/SERVICE/INSTANCE, with the instance's address as value.
const routes = "route/"

// Table is a routing table. Its zero value is empty.
type Table struct {
	addrs   map[string]string // by SERVICE/INSTANCE
	partial bool              // parts of a snapshot are still to come
}

// Apply takes in one batch of a watch that was made with a snapshot. It reports whether the table is whole and may be used.
//
// A batch that is marked as a snapshot begins the table anew: the watch sends one first, and again where it cannot tell
// all the changes that were missed. It may come in parts.
func (t *Table) Apply(batch coord.Batch) (whole bool) {
	if t.addrs == nil || batch.Snapshot && !t.partial {
		t.addrs = make(map[string]string)
	}
	t.partial = batch.More
	for _, e := range batch.Events {
		name := strings.TrimPrefix(e.Key, routes)
		if e.Type == coord.EventPut {
			t.addrs[name] = string(e.Value)
		} else { // EventDelete, or EventExpire: its session is over
			delete(t.addrs, name)
		}
	}
	return !t.partial
}

// String lists each service with its addresses.
func (t *Table) String() string {
	services := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(t.addrs)) {
		service, _, _ := strings.Cut(name, "/")
		services[service] = append(services[service], t.addrs[name])
	}
	var b strings.Builder
	for _, service := range slices.Sorted(maps.Keys(services)) {
		fmt.Fprintf(&b, "%s=%s ", service, strings.Join(services[service], ","))
	}
	return strings.TrimSuffix(b.String(), " ")
}
