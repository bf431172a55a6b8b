package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/hashicorp/raft"

	"github.com/coordcell/coord/internal/failstop"
)

// transport stands between raft and the network. Outgoing, it stamps every AppendEntries and collects the evidence in
// the answers, clamps the commit index, and lets nothing leave once the switch has been thrown. The incoming side is
// inbound's.
type transport struct {
	inner    raft.Transport
	prevote  raft.WithPreVote
	id       raft.ServerID
	sw       *failstop.Switch
	evidence *evidence
	inbound  *inbound
	observer Observer // nil: nobody
	// superseded is called when an AppendEntries or its answer shows a term above every one seen before.
	superseded func()
}

func (t *transport) Consumer() <-chan raft.RPC { return t.inbound.toRaft }

// LocalAddr, EncodePeer and DecodePeer keep to the rule that an address is a node id.
func (t *transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.id) }

func (t *transport) EncodePeer(id raft.ServerID, _ raft.ServerAddress) []byte { return []byte(id) }

func (t *transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler does nothing. Raft's handler would change term and state beside its main loop; inbound answers
// heartbeats in a way that only reads.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	req, sent, err := t.stamp(req)
	if err != nil {
		return err
	}
	err = again(func() error {
		*resp = raft.AppendEntriesResponse{} // raft reuses it, and an old term in it must not pass for an answer
		return t.inner.AppendEntries(id, addr, req, resp)
	})
	if err != nil {
		return err
	}
	t.answered(id, req, resp, sent)
	return nil
}

func (t *transport) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	if err := t.sw.Err(); err != nil {
		return nil, err
	}
	inner, err := t.inner.AppendEntriesPipeline(id, addr)
	if err != nil {
		return nil, err
	}
	return newPipeline(t, id, inner), nil
}

func (t *transport) RequestVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.sw.Err(); err != nil {
		return err
	}
	return again(func() error { return t.inner.RequestVote(id, addr, req, resp) })
}

func (t *transport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.sw.Err(); err != nil {
		return err
	}
	return again(func() error { return t.prevote.RequestPreVote(id, addr, req, resp) })
}

func (t *transport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.sw.Err(); err != nil {
		return err
	}
	if err := t.inner.InstallSnapshot(id, addr, req, resp, &switchedReader{data, t.sw}); err != nil {
		return err
	}
	if resp.Success && resp.Term == req.Term {
		t.evidence.matched(id, req.Term, req.LastLogIndex)
	}
	return nil
}

func (t *transport) TimeoutNow(id raft.ServerID, addr raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if err := t.sw.Err(); err != nil {
		return err
	}
	return again(func() error { return t.inner.TimeoutNow(id, addr, req, resp) })
}

// again repeats a request whose stream was broken. Raft keeps streams that it does not use, and learns only with the next
// request on one that the process at its other end is no more. The followers of a leader that has died have such
// streams, from when they led themselves: an election that lost its votes to them would cost an election timeout. Each
// failure uses one up. What is repeated has the same effect once or twice; as evidence it counts from the first time.
func again(request func() error) error {
	err := request()
	for range maxPooledStreams {
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return err
		}
		err = request()
	}
	return err
}

// stamp prepares an AppendEntries for its way out.
func (t *transport) stamp(req *raft.AppendEntriesRequest) (*raft.AppendEntriesRequest, stamp, error) {
	if err := t.sw.Err(); err != nil {
		return nil, stamp{}, err
	}
	if t.evidence.see(req.Term) {
		t.superseded()
	}
	req = clampCommit(req)
	t.seen(req)
	return req, t.evidence.next(), nil
}

// answered takes in an answer that came without error. Only one of the request's own term is evidence, whether it
// agreed to the entries or not.
func (t *transport) answered(id raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, sent stamp) {
	if resp.Term != req.Term {
		if t.evidence.see(resp.Term) {
			t.superseded()
		}
		return
	}
	match := uint64(0)
	if resp.Success {
		match = req.PrevLogEntry + uint64(len(req.Entries))
	}
	t.evidence.answered(id, req.Term, sent, match)
}

// clampCommit bounds the commit index by the last entry that the request lets the follower compare with the leader's
// log. Raft's follower takes the lesser of the leader's commit index and its own last index, and would commit a suffix
// of its own that nobody agreed to. Raft may still read the request, so the bound goes into a copy.
func clampCommit(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	last := req.PrevLogEntry + uint64(len(req.Entries))
	if req.LeaderCommitIndex <= last {
		return req
	}
	clamped := *req
	clamped.LeaderCommitIndex = last
	return &clamped
}

// switchedReader ends a snapshot that is being sent when the switch is thrown.
type switchedReader struct {
	r  io.Reader
	sw *failstop.Switch
}

func (r *switchedReader) Read(b []byte) (int, error) {
	if err := r.sw.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// pipeline stamps the AppendEntries of one raft pipeline and collects evidence from the answers.
//
// A failed one comes out of the inner pipeline with a zero answer that raft would take for contact with the follower.
// It is not passed on: the pipeline is closed instead, and raft, whose next send fails, falls back to single requests.
type pipeline struct {
	t     *transport
	id    raft.ServerID
	inner raft.AppendPipeline
	out   chan raft.AppendFuture
	stop  chan struct{}
	once  sync.Once

	mu   sync.Mutex
	sent map[*raft.AppendEntriesRequest]stamp
}

func newPipeline(t *transport, id raft.ServerID, inner raft.AppendPipeline) *pipeline {
	p := &pipeline{
		t:     t,
		id:    id,
		inner: inner,
		out:   make(chan raft.AppendFuture),
		stop:  make(chan struct{}),
		sent:  make(map[*raft.AppendEntriesRequest]stamp),
	}
	go p.collect() // ends with Close, which raft always calls
	return p
}

func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	req, sent, err := p.t.stamp(req)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.sent[req] = sent
	p.mu.Unlock()
	f, err := p.inner.AppendEntries(req, resp)
	if err != nil {
		p.take(req)
		return nil, fmt.Errorf("raftnode: pipeline to %s: %w", p.id, err)
	}
	return f, nil
}

func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.stop) })
	return p.inner.Close()
}

func (p *pipeline) collect() {
	for {
		select {
		case f := <-p.inner.Consumer():
			sent := p.take(f.Request())
			if f.Error() != nil {
				_ = p.inner.Close()
				return
			}
			p.t.answered(p.id, f.Request(), f.Response(), sent)
			select {
			case p.out <- f:
			case <-p.stop:
				return
			}
		case <-p.stop:
			return
		}
	}
}

func (p *pipeline) take(req *raft.AppendEntriesRequest) stamp {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sent[req]
	delete(p.sent, req)
	return s
}
