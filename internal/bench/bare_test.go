package bench

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// bare is three servers of hashicorp/raft with a state machine that does nothing: the floor.
type bare struct {
	leader *raft.Raft
}

type noop struct{}

func (noop) Apply(*raft.Log) any                 { return nil }
func (noop) Snapshot() (raft.FSMSnapshot, error) { return noop{}, nil }
func (noop) Restore(r io.ReadCloser) error       { return r.Close() }
func (noop) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (noop) Release()                            {}

type layer struct{ net.Listener }

func (l layer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(addr), timeout)
}

func newBare(b *testing.B, servers int) *bare {
	b.Helper()
	var listeners []net.Listener
	var cfg raft.Configuration
	for range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		listeners = append(listeners, l)
		addr := l.Addr().String()
		cfg.Servers = append(cfg.Servers, raft.Server{ID: raft.ServerID(addr), Address: raft.ServerAddress(addr)})
	}
	var all []*raft.Raft
	for i, l := range listeners {
		dir := b.TempDir()
		store, err := raftboltdb.New(raftboltdb.Options{
			Path:        filepath.Join(dir, "raft.db"),
			BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
		})
		if err != nil {
			b.Fatal(err)
		}
		trans := raft.NewNetworkTransport(layer{l}, 3, 10*time.Second, io.Discard)
		rc := raft.DefaultConfig()
		rc.LocalID = cfg.Servers[i].ID
		rc.LogOutput = io.Discard
		rc.MaxAppendEntries = 512
		snaps := raft.NewInmemSnapshotStore()
		if err := raft.BootstrapCluster(rc, store, store, snaps, trans, cfg); err != nil {
			b.Fatal(err)
		}
		r, err := raft.NewRaft(rc, noop{}, store, store, snaps, trans)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, r)
		b.Cleanup(func() {
			r.Shutdown().Error()
			trans.CloseStreams()
			trans.Close()
			store.Close()
		})
	}
	for {
		for _, r := range all {
			if r.State() == raft.Leader {
				if err := r.Barrier(10 * time.Second).Error(); err == nil {
					return &bare{leader: r}
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *bare) verify(b *testing.B) {
	if err := c.leader.VerifyLeader().Error(); err != nil {
		b.Fatal(err)
	}
}

func (c *bare) apply(b *testing.B) {
	if err := c.leader.Apply(make([]byte, 64), 10*time.Second).Error(); err != nil {
		b.Error(err)
	}
}
