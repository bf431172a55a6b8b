package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/failstop"
)

// maxQueued bounds the RPCs that wait for raft's main loop. Each connection has one outstanding, so it is only reached
// by a peer that misbehaves; what is above it is refused.
const maxQueued = 256

var (
	errBusy   = errors.New("raftnode: too many requests are waiting")
	errSilent = errors.New("raftnode: node has stopped")
)

// inbound brings the RPCs of other nodes to raft's main loop and the answers back, on one goroutine.
//
// It refuses what raft would panic about, answers a heartbeat of the known leader itself, and lets no answer leave once
// the switch has been thrown. Raft answers each RPC before it takes the next, so one is handed over at a time.
type inbound struct {
	id       raft.ServerID
	sw       *failstop.Switch
	raft     func() *raft.Raft
	source   <-chan raft.RPC
	toRaft   chan raft.RPC
	injected chan raft.RPC // from this node itself
	standing chan candidacy
	stop     chan struct{}
	snapshot snapshotLoop
	clock    func() time.Duration
	heard    atomic.Int64 // when the leader was last heard, by clock, plus 1; 0: never

	queue     []raft.RPC
	heartbeat raft.RPC // the latest one answered here that raft has not seen yet; Command is nil if there is none
	refusals  sync.WaitGroup

	electionTimeout time.Duration
	candidacy       candidacy     // the latest
	standAgain      time.Duration // not before this moment, by clock
}

func newInbound(cfg Config, source <-chan raft.RPC, r func() *raft.Raft) *inbound {
	return &inbound{
		id:              raft.ServerID(cfg.ID),
		sw:              cfg.Switch,
		raft:            r,
		source:          source,
		toRaft:          make(chan raft.RPC),
		injected:        make(chan raft.RPC),
		standing:        make(chan candidacy),
		stop:            make(chan struct{}),
		clock:           sinceNow(),
		electionTimeout: cfg.ElectionTimeout,
	}
}

// run works until stop is closed, then refuses what is left.
func (in *inbound) run() {
	answers := make(chan raft.RPCResponse, 1)
	var current raft.RPC // with raft; RespChan is where the answer goes
	busy := false
	for {
		var out chan<- raft.RPC
		var head raft.RPC
		if !busy {
			if head = in.head(); head.Command != nil {
				out = in.toRaft
			}
		}
		handed := head
		handed.RespChan = answers
		select {
		case rpc := <-in.source:
			in.admit(rpc)
		case rpc := <-in.injected:
			in.queue = append([]raft.RPC{rpc}, in.queue...)
		case c := <-in.standing:
			in.candidacy = c
			in.queue = append([]raft.RPC{c.rpc}, in.queue...)
		case out <- handed:
			current, busy = head, true
			in.taken(head)
		case a := <-answers:
			busy = false
			in.reply(current, a)
			current = raft.RPC{}
		case <-in.stop:
			if busy {
				in.queue = append(in.queue, current)
			}
			for _, rpc := range in.queue {
				in.refuse(rpc, errSilent)
			}
			in.refusals.Wait()
			return
		}
	}
}

// head is the next RPC for raft: a heartbeat that was answered already waits behind nothing, since raft has to see it to
// know that the leader is alive.
func (in *inbound) head() raft.RPC {
	if in.heartbeat.Command != nil {
		return in.heartbeat
	}
	for len(in.queue) > 0 {
		rpc := in.queue[0]
		req, ok := rpc.Command.(*raft.TimeoutNowRequest)
		if !ok || in.mayDepose(req) {
			return rpc
		}
		in.queue = in.queue[1:]
		in.refuse(rpc, fmt.Errorf("%w: it is not for the sender of this TimeoutNow to decide, or not any more", ErrMayNotStand))
	}
	return raft.RPC{}
}

func (in *inbound) taken(rpc raft.RPC) {
	if in.heartbeat.Command != nil && rpc.Command == in.heartbeat.Command {
		in.heartbeat = raft.RPC{}
		return
	}
	if rpc.Command == in.candidacy.rpc.Command {
		in.standAgain = in.clock() + in.electionTimeout
	}
	in.queue[0] = raft.RPC{}
	in.queue = in.queue[1:]
}

// admit refuses an RPC, answers it, or queues it for raft.
func (in *inbound) admit(rpc raft.RPC) {
	if in.sw.Err() != nil {
		in.refuse(rpc, errSilent)
		return
	}
	if err := checkRequest(rpc.Command); err != nil {
		in.refuse(rpc, err)
		return
	}
	if resp := in.answerHeartbeat(rpc.Command); resp != nil {
		rpc.RespChan <- raft.RPCResponse{Response: resp}
		in.hear()
		// Raft's answer, later, has nowhere to go. The request is the sender's again with an in-memory transport.
		late := *rpc.Command.(*raft.AppendEntriesRequest)
		in.heartbeat = raft.RPC{Command: &late}
		return
	}
	if len(in.queue) >= maxQueued {
		in.refuse(rpc, errBusy)
		return
	}
	in.queue = append(in.queue, rpc)
}

// answerHeartbeat answers a heartbeat of the leader that this node already follows, without waiting for raft's main
// loop, which may be writing to a slow disk or installing a snapshot. It returns nil for everything else.
//
// Why that is safe. It only reads. Raft's main loop is the only writer of the term, and writes it before it grants a
// vote of that term; so if the term read here, after the request has arrived, is the request's own, this node has not
// voted in a later one by then, which is all that the leader concludes from the answer (doc.go). With the same term and
// the same known leader, raft itself would change nothing either: it would set the leader that it has, and note the
// contact. For that note the heartbeat is passed on to it as well. Reaching raft late it is a message that was slow,
// which Raft is made for: if the term has moved on, it is ignored.
// A candidate and a leader know no leader but themselves, so that their heartbeats always go to raft.
func (in *inbound) answerHeartbeat(command any) *raft.AppendEntriesResponse {
	req, ok := command.(*raft.AppendEntriesRequest)
	if !ok || !isHeartbeat(req) {
		return nil
	}
	r := in.raft()
	addr, leader := r.LeaderWithID()
	if len(req.ID) == 0 || string(leader) != string(req.ID) || string(addr) != string(req.Addr) || leader == in.id {
		return nil
	}
	if r.CurrentTerm() != req.Term {
		return nil
	}
	return &raft.AppendEntriesResponse{
		RPCHeader: in.header(),
		Term:      req.Term,
		LastLog:   r.LastIndex(),
		Success:   true,
	}
}

// mayDepose decides whether a TimeoutNow is obeyed: one of the leader that this node follows, or the one that Stand has
// made. Raft obeys each, without a look at term or sender, also as a leader or without a vote, and skips the pre-vote.
func (in *inbound) mayDepose(req *raft.TimeoutNowRequest) bool {
	r := in.raft()
	if r.State() != raft.Follower || !isVoter(r.GetConfiguration().Configuration(), in.id) {
		return false
	}
	if in.candidacy.rpc.Command == any(req) {
		return in.mayStand()
	}
	_, leader := r.LeaderWithID()
	from := raft.ServerID(req.ID)
	return from != "" && from == leader && from != in.id
}

// reply passes raft's answer on, unless the node has been silenced in the meantime.
func (in *inbound) reply(rpc raft.RPC, a raft.RPCResponse) {
	if in.sw.Err() == nil {
		if err := in.snapshot.answered(rpc.Command, a); err != nil {
			in.sw.Trip(err)
		}
		if resp, ok := a.Response.(*raft.AppendEntriesResponse); ok && a.Error == nil && resp.Success && rpc.RespChan != nil {
			in.hear()
		}
	}
	if rpc.RespChan == nil {
		return
	}
	if in.sw.Err() != nil {
		a = raft.RPCResponse{Response: emptyResponse(rpc.Command), Error: errSilent}
	}
	rpc.RespChan <- a
}

// refuse answers an RPC with an error. What is left of a snapshot's bytes is read first: they must not be taken for the
// next request on that connection. That may take as long as the sender likes, so it has a goroutine of its own.
func (in *inbound) refuse(rpc raft.RPC, err error) {
	if rpc.RespChan == nil {
		return
	}
	answer := raft.RPCResponse{Response: emptyResponse(rpc.Command), Error: err}
	if rpc.Reader == nil {
		rpc.RespChan <- answer
		return
	}
	in.refusals.Add(1)
	go func() {
		defer in.refusals.Done()
		_, _ = io.Copy(io.Discard, rpc.Reader)
		rpc.RespChan <- answer
	}()
}

// resign makes raft's main loop step down from leading term, which answers every proposal that is under way. It is an
// AppendEntries of that very term without a sender: raft as its leader becomes a follower without a leader; in any
// other state or term it changes nothing that matters.
func (in *inbound) resign(term uint64) {
	rpc := raft.RPC{Command: &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: term}}
	select {
	case in.injected <- rpc:
	case <-in.stop:
	}
}

// hear notes that the leader of the present term was heard.
func (in *inbound) hear() { in.heard.Store(max(int64(in.clock()), 0) + 1) }

// silence is how long ago that was; negative if it never was. Raft's LastContact also counts votes, and the moment at
// which a leader gave up.
func (in *inbound) silence() time.Duration {
	at := in.heard.Load()
	if at == 0 {
		return -1
	}
	return in.clock() - time.Duration(at-1)
}

func (in *inbound) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(in.id), Addr: []byte(in.id)}
}
