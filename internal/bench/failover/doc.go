//go:build unix

// Command failover measures what the death of a leader costs, and what an idle cell does:
//
//	go run ./internal/bench/failover -kills 10 -election 1s -idle 10s
//
// A cell of three servers runs in three processes, this one among them, over loopback and on disks in a temporary folder.
// First nothing happens for a while, and the CPU time of each process is taken. Then, again and again, the process that
// leads is killed with kill -9, at the same moment this one asks for a free lock in a session that it has had all the
// time, and the time to the grant is taken; the dead server is started again, and waited for. Printed are the medians,
// and the extremes.
//
// The other processes end when their standard input does, and so with this one, however it ends.
package main
