//go:build unix

// Command connections measures what the connection of a client costs the server:
//
//	go run ./internal/bench/connections -n 20000 -renew 4s -for 30s
//
// One process accepts the connections, on loopback and through the same layers as a server, and answers each renewal at
// once; another one holds the clients, one connection and one session each. First every client renews at its pace for
// a while, then all are silent for as long.
//
// Printed are, for one connection at the accepting end, the live heap and the stacks after a garbage collection and the
// share of the process's resident memory; and the CPU time of that process for each renewal, with and without what it
// takes while nothing is renewed. What the cell adds to a renewal, the way to the leader and its evidence, is not in it.
//
// Both processes need a file descriptor for each connection. Where the system does not allow so many, the command says
// so and measures nothing.
package main
