package raftnode

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/goldentest"
)

var rewrite = goldentest.Flag()

// The configuration is in raft's own encoding: this also notices when raft changes it.
func TestGoldenSnapshotHeader(t *testing.T) {
	want := map[string]snapshotHeader{
		"configured": {index: 1 << 40, term: 300, confIndex: 7, configuration: raft.Configuration{Servers: []raft.Server{
			{Suffrage: raft.Voter, ID: "n0", Address: "n0"},
			{Suffrage: raft.Nonvoter, ID: "n1", Address: "n1"},
		}}},
		"unconfigured": {index: 1, term: 2},
	}
	var items []goldentest.Item
	for _, name := range []string{"configured", "unconfigured"} {
		items = append(items, goldentest.Item{Name: name, Bytes: want[name].encode()})
	}
	for name, b := range goldentest.Check(t, "snapshotheader.v1.txt", *rewrite, items) {
		r := bytes.NewReader(append(b, "state"...))
		got, err := decodeSnapshotHeader(r)
		if err != nil || !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s decodes as %+v, %v", name, got, err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "state" {
			t.Errorf("%s: %q is left for the machine", name, rest)
		}
	}
}

func TestNewerSnapshotHeaderIsRefused(t *testing.T) {
	b := snapshotHeader{index: 1, term: 2}.encode()
	b[3]++
	if _, err := decodeSnapshotHeader(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "version 2, this program reads up to 1") {
		t.Error(err)
	}
}
