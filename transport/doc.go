// Package transport carries bytes between the nodes of a cell: streams and packets on one port.
//
// Its layers, from below:
//
//   - Network and Endpoint are what the rest stands on: a port that takes streams and packets, and a clock. TCP is
//     the real one. Memory lives in one process and has faults that tests set: cuts, delays, drops, duplicates, lost
//     replies, frozen and killed processes, clocks that go wrong. transporttest checks any other.
//   - Mux shares an Endpoint between gossip, raft and calls, and refuses strangers before anything else is read.
//   - ReadFrame and WriteFrame cut a stream into bounded messages.
//
// It knows nothing of raft or of the replicated state. All that it keeps of what others send is bounded, and so is
// the time that it waits for them.
package transport
