// Package bench measures this project beside bare hashicorp/raft with a state machine that does nothing, on the same
// store, disk, network and number of processes, so that what is ours can be told from what is raft's. It has only
// benchmarks:
//
//	go test ./internal/bench -run '^$' -bench . -benchtime 300x -count 3
//
// Machines differ; what counts are ratios within one run.
//
// What takes several processes is measured by commands: in failover the time from kill -9 of the leader to the next
// grant, and the CPU time of an idle cell; in scale a cell under the load that it is built for. What one server's copy of
// the state costs is in state.
package bench
