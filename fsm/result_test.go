package fsm

import "testing"

// TestG10_EveryResultIsRestored: whatever a change was answered is in a snapshot until it is acknowledged.
func TestG10_EveryResultIsRestored(t *testing.T) {
	for code := OK; code <= NoSuchSession; code++ {
		r := newReplica(t)
		id := r.open("a")
		s, _ := r.live(id)
		next := *s
		next.outstanding++
		r.sessions.Set(id, &next)
		r.results.Set(outcome{id, 1, &kept{"", Result{Code: code}}})
		restored(t, r.State)
	}
}

// TestG10_TooLargeIsRestored: a Txn that would return too much, refused and not acknowledged.
func TestG10_TooLargeIsRestored(t *testing.T) {
	r := newReplica(t)
	id := r.open("a")
	put := Op{Kind: OpPut, Key: "k", Value: make([]byte, MaxTxnResult/2)}
	got := r.result(r.do(Txn{Change: Change{Session: id, Seq: 1}, Then: []Op{put, put, put}}))
	if got.Code != TooLarge {
		t.Fatalf("%+v", got)
	}
	restored(t, r.State)
}
