package raftnode

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// maxServers bounds the servers in a configuration that comes from a peer.
const maxServers = 1024

// checkRequest refuses what raft would panic about or take at face value: configurations that cannot be decoded or have
// no voter, unknown types of entries, gaps between them, and senders whose address is not their id.
func checkRequest(command any) error {
	var header raft.RPCHeader
	var err error
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		header, err = req.RPCHeader, checkEntries(req)
	case *raft.InstallSnapshotRequest:
		header, err = req.RPCHeader, checkSnapshot(req)
	case *raft.RequestVoteRequest:
		header = req.RPCHeader
	case *raft.RequestPreVoteRequest:
		header = req.RPCHeader
	case *raft.TimeoutNowRequest:
		header = req.RPCHeader
	default:
		return fmt.Errorf("raftnode: request of type %T", command)
	}
	if err != nil {
		return err
	}
	if len(header.ID) == 0 || string(header.ID) != string(header.Addr) {
		return fmt.Errorf("raftnode: sender has id %q and address %q, which must be the same", header.ID, header.Addr)
	}
	return nil
}

// checkEntries refuses entries that no leader of the request's term can have sent. Raft's replication of a term runs on
// for a moment after its node has become a follower, and reads the entry before the new ones and the new ones one by
// one, while the main loop replaces them by the next leader's. It may pair a former entry with a successor from another
// log; a follower that has not heard of the next leader would take that, and pass for one whose log matches.
//
// In any log terms never fall, and a leader's has none above its own. That tells every such pair: all entries of a term
// come from one leader, and so does what is before them.
func checkEntries(req *raft.AppendEntriesRequest) error {
	index, term := req.PrevLogEntry, req.PrevLogTerm
	for _, e := range req.Entries {
		if e == nil {
			return errors.New("raftnode: entry missing in AppendEntries")
		}
		if e.Index != index+1 || e.Index == 0 {
			return fmt.Errorf("raftnode: entry %d follows entry %d", e.Index, index)
		}
		if e.Term < term || e.Term > req.Term {
			return fmt.Errorf("raftnode: entry %d has term %d, between %d and %d is possible", e.Index, e.Term, term, req.Term)
		}
		switch e.Type {
		case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
		case raft.LogConfiguration:
			if _, err := decodeConfiguration(e.Data); err != nil {
				return fmt.Errorf("raftnode: entry %d: %w", e.Index, err)
			}
		default:
			return fmt.Errorf("raftnode: entry %d has unknown type %d", e.Index, e.Type)
		}
		index, term = e.Index, e.Term
	}
	return nil
}

func checkSnapshot(req *raft.InstallSnapshotRequest) error {
	if req.SnapshotVersion != raft.SnapshotVersionMax {
		return fmt.Errorf("raftnode: snapshot has version %d, not %d", req.SnapshotVersion, raft.SnapshotVersionMax)
	}
	if req.LastLogIndex == 0 || req.ConfigurationIndex > req.LastLogIndex || req.LastLogTerm > req.Term || req.Size < 0 {
		return fmt.Errorf("raftnode: snapshot of index %d, term %d, configuration %d, size %d in term %d is impossible",
			req.LastLogIndex, req.LastLogTerm, req.ConfigurationIndex, req.Size, req.Term)
	}
	if _, err := decodeConfiguration(req.Configuration); err != nil {
		return fmt.Errorf("raftnode: snapshot of index %d: %w", req.LastLogIndex, err)
	}
	return nil
}

// decodeConfiguration is raft.DecodeConfiguration with an error where that panics, and with the rules that every
// configuration of ours keeps.
func decodeConfiguration(data []byte) (c raft.Configuration, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = raft.Configuration{}, fmt.Errorf("configuration: %v", p)
		}
	}()
	c = raft.DecodeConfiguration(data)
	if len(c.Servers) > maxServers {
		return raft.Configuration{}, fmt.Errorf("configuration: %d servers, at most %d", len(c.Servers), maxServers)
	}
	known := make(map[raft.ServerID]bool, len(c.Servers))
	voters := 0
	for _, s := range c.Servers {
		switch {
		case s.ID == "" || string(s.ID) != string(s.Address):
			return raft.Configuration{}, fmt.Errorf("configuration: server has id %q and address %q, which must be the same", s.ID, s.Address)
		case known[s.ID]:
			return raft.Configuration{}, fmt.Errorf("configuration: server %q is there twice", s.ID)
		case s.Suffrage == raft.Voter:
			voters++
		case s.Suffrage != raft.Nonvoter:
			return raft.Configuration{}, fmt.Errorf("configuration: server %q has suffrage %d", s.ID, s.Suffrage)
		}
		known[s.ID] = true
	}
	if voters == 0 {
		return raft.Configuration{}, errors.New("configuration: no voter")
	}
	return c, nil
}

// isHeartbeat: raft sends heartbeats as AppendEntries that carry nothing but the term.
func isHeartbeat(req *raft.AppendEntriesRequest) bool {
	return req.Term != 0 && req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
}

func isVoter(c raft.Configuration, id raft.ServerID) bool {
	for _, s := range c.Servers {
		if s.ID == id {
			return s.Suffrage == raft.Voter
		}
	}
	return false
}

// emptyResponse is what goes along with an error: raft's transports expect a value of the right type.
func emptyResponse(command any) any {
	switch command.(type) {
	case *raft.AppendEntriesRequest:
		return &raft.AppendEntriesResponse{}
	case *raft.InstallSnapshotRequest:
		return &raft.InstallSnapshotResponse{}
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{}
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{}
	case *raft.TimeoutNowRequest:
		return &raft.TimeoutNowResponse{}
	}
	return nil
}

// maxInstalls is how many snapshots in a row may be installed whose first entry to follow is refused.
const maxInstalls = 3

// ErrSnapshotLoop is why a node stopped that raft would else have installed snapshots for ever.
var ErrSnapshotLoop = errors.New("raftnode: the log disagrees with every snapshot that is installed: start the node again")

// snapshotLoop notices that this node installs one snapshot after the other: its own log diverges at the snapshot's
// index, raft goes on comparing that instead of the snapshot, refuses what follows, and is sent the snapshot again, for
// ever. It has no way out while it runs.
type snapshotLoop struct {
	installed uint64 // index of the last snapshot installed, until something was appended after it
	refused   int
}

// answered takes in raft's answer to each request, and returns an error once there is no doubt.
func (l *snapshotLoop) answered(command any, a raft.RPCResponse) error {
	if a.Error != nil {
		return nil
	}
	switch req := command.(type) {
	case *raft.InstallSnapshotRequest:
		if resp, ok := a.Response.(*raft.InstallSnapshotResponse); ok && resp.Success {
			l.installed = req.LastLogIndex
		}
	case *raft.AppendEntriesRequest:
		resp, ok := a.Response.(*raft.AppendEntriesResponse)
		if !ok || resp.Term != req.Term || isHeartbeat(req) {
			return nil
		}
		if resp.Success {
			*l = snapshotLoop{}
			return nil
		}
		if l.installed != 0 && req.PrevLogEntry == l.installed {
			l.installed = 0
			if l.refused++; l.refused >= maxInstalls {
				return fmt.Errorf("%w; index %d was installed %d times", ErrSnapshotLoop, req.PrevLogEntry, l.refused)
			}
		}
	}
	return nil
}
