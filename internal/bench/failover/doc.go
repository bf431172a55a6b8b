//go:build unix

// Command failover measures what the end of a leader costs, and what an idle cell does:
//
//	go run ./internal/bench/failover -kills 200 -stops 50 -election 1s -idle 10s
//
// A cell of three servers runs in three processes, this one among them, over loopback and on disks in a temporary folder,
// with sessions in each. First nothing happens for a while, and the CPU time of each process is taken. Then, again and
// again, the process that leads is killed with kill -9, or told to stop, and at the same moment this one asks for a free
// lock; the time to the grant is taken, the server is started again and waited for, and the processes that have lived on
// say how many of their sessions they have lost.
//
// The other processes end when their standard input does, and so with this one, however it ends.
package main
