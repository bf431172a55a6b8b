// Chaos runs a cell in real processes, does to them what happens to real processes, and checks what their clients saw.
//
//	go run ./internal/chaos -for 3m          three minutes of faults
//	go run ./internal/chaos -for 1h          an hour
//	go run -race ./internal/chaos -for 3m    the same under the race detector
//	go run ./internal/chaos -schedule -seed 7    what would be done
//
// It exits with 0 if nothing was wrong, 1 after a violation, 3 if it could not go on, and 77 with a sentence where it may
// not make what it needs. That is Linux, and root or user namespaces with access to /dev/net/tun; no other program.
//
// # What runs
//
// Six processes, each with a coord.Node and eight clients (package load) that write down what they do (package
// history). Five form the cell. The sixth joins it and has no vote as long as the others have theirs: it stands for a
// process that only uses the cell. Which one that is changes when a server is replaced.
//
// Each process lives in a network namespace of its own, with a real TCP/IP stack and one TUN device. The other ends of
// the devices are in this program, which carries the packets from one to the other (fabric) and decides about each: so
// it needs neither a bridge nor packet filters nor a kernel with netem, and can lose, delay, double and reorder packets
// of one direction between two hosts. Data directories are on small file systems in memory, a tmpfs each. The program
// speaks with its processes through pipes, which no fault of the network touches. Namespaces and mounts have no names
// and end with the processes; those are killed by the kernel when this program dies. Of a run that was killed a directory
// in the temporary folder is left, which the next run removes.
//
// The log is compacted every 2,000 entries and the replicas compare themselves every 250, which in production happens
// every some ten thousand.
//
// # What is done to it
//
// A schedule is drawn from a seed: about fifty faults a minute, which overlap. Half of those that have a victim take
// whoever leads.
//
//   - Processes: kill -9 of one, and of all at the same moment; SIGTERM, on which a node hands over and stops, of one, and
//     of all in turn; SIGSTOP of one, and of all, from 0.1 s to four TTLs; leadership handed to another.
//   - Network: two or three processes cut off, one cut off, one that hears nothing, one that is not heard, two that do not
//     reach each other, two halves with one process between them, one that comes and goes; packets late (up to a lease
//     and a half), lost (up to a third), doubled, out of order; a process to which answers come late, and which then is
//     not heard any more, so that it does not notice at once that another leads.
//   - Disk: no room left for a while, on which the node must stop with that error and no other, and go on from the same
//     directory later; all of it lost, on which the server comes back under its name with a new id.
//
// Processes never run the same way twice. A seed repeats the times and kinds of the faults, not what they meet.
//
// # What is checked
//
// A run is made of windows. At the end of each all faults stop, and then:
//
//   - every process can open a session, lock, unlock and read within 30 s of the last fault;
//   - the clients end, and nothing they held or waited for is left;
//   - the replicas come to the same entry, and have the same keys and counts there;
//   - history.Verify finds nothing wrong with what the clients of all processes saw, from the first to the last call of
//     the window. Writes under a lock go to a resource in this program (vault) that checks their tokens, and which can be
//     reached when the cell cannot.
//
// At any time it is a violation if a node stops by itself, other than for its full disk (so does one whose replica
// differs from the majority's) or to get out of a loop that hashicorp/raft can fall into (package raftnode); if a process
// ends by itself or does not end when it is told to; if a client meets an error that no fault explains; or if a log has a
// panic or a report of the race detector. The first violation ends the run, and records, logs and data directories are
// kept.
//
// # What is not
//
// Power failures: what a process has written survives its kill, for the kernel keeps it. Disks that fail, hang or flip
// bits. Clocks: no namespace has a wall clock of its own, and that of the machine is not ours to set; nor can a process
// have a clock that runs at another rate. Other machines. Package sim has the faults of these, in virtual time.
//
// To see that it can find something, run it with something broken: sessions that expire after a third of their TTL, a
// Check that does not look at the lease and a replica that leaves out entries now and then were each found within
// 90 seconds. Reads that a leader answers without evidence were not found in twelve minutes: the moment in which a
// former leader may be asked is too short. Tests in virtual time find them.
package main
