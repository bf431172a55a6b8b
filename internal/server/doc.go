// Package server makes a node out of the parts: it is what the public package calls, and the only package that knows
// all of the others.
//
//	         calls of the program
//	                 │
//	 caller: sessions, locks, changes          repeats a change until it is answered
//	                 │
//	 change, read, keepalive                   each finds the leader, here or elsewhere
//	                 │
//	   ┌─────────────┴──────────────┐
//	 here                         there
//	   │                            │
//	packer ──► raftnode         calls (rpc.go) ──► another server's packer
//	              │
//	          replica ──► expiry (grants.go), hub, hooks, and whoever waits for the answer
//
// A change of this process (package caller) finds its way to the leader (change.go), travels with others in one log entry (packer.go), and is answered
// by the state machine of the leader (replica), not by raft. It is repeated until it is answered; the state machine
// knows it by its session and number.
//
// # Who owns what
//
// Server.Go starts a goroutine that Close waits for. Server.stop ends when the node begins to stop. The order of
// stopping is in stop.go, with the reasons.
package server
