// Package state measures what a server's copy of the state costs, with no cell around it: memory, size and time of
// snapshots, and what writing one does to the entries that are applied meanwhile. The tests hold the bounds that are
// counts of bytes; the times are benchmarks:
//
//	go test ./internal/bench/state -run '^$' -bench . -benchtime 3x
package state
