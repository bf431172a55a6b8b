// Package bareraft is hashicorp/raft with a state machine that does nothing: the floor that a library on it stands on. Lock
// and Unlock are one proposal each, sent to the leader over a small protocol; Get is VerifyLeader. It has no keys,
// sessions, queues or watches.
package bareraft

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	raftwal "github.com/hashicorp/raft-wal"
)

// Serve is one server.
func (b Backend) Serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("raft", flag.ContinueOnError)
	id := flags.Int("id", 0, "number of the server")
	dir := flags.String("dir", "", "data directory")
	servers := flags.String("servers", "", "raft's addresses of all, in order")
	calls := flags.String("calls", "", "address for clients")
	if err := flags.Parse(args); err != nil {
		return err
	}
	addrs := strings.Split(*servers, ",")
	r, err := b.open(*id, *dir, addrs)
	if err != nil {
		return err
	}
	if *id == 0 {
		var c raft.Configuration
		for i, a := range addrs {
			c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(fmt.Sprint("n", i)), Address: raft.ServerAddress(a)})
		}
		if err := r.BootstrapCluster(c).Error(); err != nil && !errors.Is(err, raft.ErrCantBootstrap) { // after a restart
			return err
		}
	}
	s := &server{raft: r}
	if b.Packed {
		s.queue = make(chan proposal, 4096)
		go s.pack() // ends with the process
	}
	l, err := net.Listen("tcp", *calls)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go s.serve(conn) // ends with the connection
	}
}

// open starts raft as its users would who need throughput: bigger batches than the default, and its default timeouts.
func (b Backend) open(id int, dir string, addrs []string) (*raft.Raft, error) {
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return nil, err
	}
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(fmt.Sprint("n", id))
	c.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
	c.BatchApplyCh, c.MaxAppendEntries = true, 1024
	type store interface {
		raft.LogStore
		raft.StableStore
	}
	var disk store
	var err error
	if b.Store == "wal" {
		disk, err = raftwal.Open(filepath.Join(dir, "log"))
	} else {
		disk, err = raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
	}
	if err != nil {
		return nil, err
	}
	logs, err := raft.NewLogCache(4096, disk)
	if err != nil {
		return nil, err
	}
	network, err := raft.NewTCPTransport(addrs[id], nil, 3, 10*time.Second, io.Discard)
	if err != nil {
		return nil, err
	}
	snapshots, err := raft.NewFileSnapshotStore(dir, 1, io.Discard)
	if err != nil {
		return nil, err
	}
	return raft.NewRaft(c, nothing{}, logs, disk, snapshots, network)
}

// nothing is a state machine without a state.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) ApplyBatch(l []*raft.Log) []any      { return make([]any, len(l)) }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }
func (nothing) Restore(r io.ReadCloser) error       { return r.Close() }
func (nothing) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (nothing) Release()                            {}

type server struct {
	raft  *raft.Raft
	queue chan proposal // nil: each proposal is an entry of its own
}

type proposal struct {
	payload []byte
	done    func(error)
}

// pack puts all proposals that wait into one entry, with up to four entries under way.
func (s *server) pack() {
	const most, underWay = 1024, 4
	slots := make(chan struct{}, underWay)
	for first := range s.queue {
		slots <- struct{}{}
		packed, entry := []proposal{first}, append([]byte(nil), first.payload...)
	gathering:
		for len(packed) < most {
			select {
			case p := <-s.queue:
				packed, entry = append(packed, p), append(entry, p.payload...)
			default:
				break gathering
			}
		}
		applied := s.raft.Apply(entry, 0)
		go func() {
			err := applied.Error()
			<-slots
			for _, p := range packed {
				p.done(err)
			}
		}()
	}
}

// serve answers the requests of one connection, each when it is done.
func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	out, done := make(chan frame, 1024), make(chan struct{})
	defer close(done)
	go writeFrames(conn, out, done)
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		request, err := readFrame(in)
		if err != nil {
			return
		}
		answer := func(err error) {
			f := frame{id: request.id}
			if err != nil {
				f.kind, f.payload = kindError, []byte(err.Error())
			}
			select {
			case out <- f:
			case <-done:
			}
		}
		switch request.kind {
		case kindApply:
			if s.queue != nil {
				s.queue <- proposal{request.payload, answer}
				continue
			}
			go func() { answer(s.raft.Apply(request.payload, 0).Error()) }()
		case kindVerify:
			go func() { answer(s.raft.VerifyLeader().Error()) }()
		case kindLeads:
			var err error
			if s.raft.State() != raft.Leader {
				err = raft.ErrNotLeader
			}
			answer(err)
		}
	}
}
