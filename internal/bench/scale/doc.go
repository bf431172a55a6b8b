//go:build unix

// Command scale measures a whole cell under the load it is built for: servers in processes of their own, over loopback, on
// disks in a temporary folder.
//
//	go run ./internal/bench/scale sessions    many sessions that are renewed, and nothing else
//	go run ./internal/bench/scale coldstart   everybody comes back at once, after an outage longer than the TTL
//	go run ./internal/bench/scale locks       many locks held at once, long queues, a restart
//	go run ./internal/bench/scale zone        servers die with all their sessions, the leader among them
//	go run ./internal/bench/scale overload    several times more callers than the cell can serve
//
// Each run is bounded in time and prints one table: what was measured, the figure, and the bar where there is one. -size
// 0.1 makes it a tenth as large. All processes share the cores of one machine, so CPU times are given as well.
//
// This process conducts; each server is a process of this same program, which is told what to do in lines of JSON on its
// standard input. The servers end when that does, and so with this process, however it ends.
package main
