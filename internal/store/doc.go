// Package store is what one server keeps: its identity, its raft log, its term and vote, and its snapshots.
//
// # The directory
//
//	lock               held with flock for as long as a process has the directory open
//	identity           node id, cell, cell id, record of forming, kind of log
//	peers              the last known addresses of other servers; a hint
//	retired            if it exists, the directory must never be used again
//	group-0/raft.db    bbolt file of raft-boltdb: the ballot (term and vote), and the log if its kind is LogBolt
//	group-0/log        the log if its kind is LogSegments: see package seglog
//	group-0/snapshots  raft's file snapshot store
//
// identity and peers are written whole: a temporary file, fsync, rename, fsync of the directory. They begin with a line
// that names the kind, the version and a checksum. bbolt has no checksum of its own over what it holds, so each log
// entry carries one, and so does the ballot. bbolt's file never shrinks: it keeps the largest size that the log ever
// had, and reuses the pages. With raft's TrailingLogs as the bound on the log, that is a bound on the file too. Segments
// are removed once the log begins behind them.
//
// A directory keeps the kind of log that it was made with. The identity of one with segments has version 2, so that a
// program that knows only LogBolt refuses it, rather than find no log and forget what it has acknowledged.
//
// Open reads everything once: a directory that is damaged is refused then, with the file's name, and not found out by
// raft later, which can only panic about it.
//
// # Fail-stop
//
// raft cannot live with a store that fails: some errors wedge it, others make it panic on a goroutine of its own, which
// would end the host program. And an operating system that failed to write a page once may drop it and report success
// the next time. So the first error trips the failstop.Switch of the node before the call returns, and from then on the
// store is poisoned: writes return nil without effect, reads return what was last known or a placeholder, and snapshots
// return errors. Nothing is retried or opened again. Whoever sends, answers or applies must ask the switch first; that
// is what makes the lies told to raft harmless.
//
// Unless the disk was merely full, the directory is retired as well, because what it reads back from then on may come
// from memory and not from the disk.
//
// # Stalls
//
// Each call runs on a worker goroutine, with a time limit. A call that overruns is abandoned: Options.OnStall is told,
// the switch is tripped, and raft gets a poisoned answer, so that it can be shut down. The memory that an abandoned call
// still uses is never touched again by anybody else.
//
// A disk whose pages cannot be read, or a bbolt file whose pages make no sense, is a panic or a fault in bbolt; workers
// turn both into errors.
//
// # In memory
//
// A Disk is the same in memory, for Config.InMemory and for tests: it can be cloned at any store call, with or without
// what had not been synced, to see what a crash at that moment leaves. It works in virtual time.
package store
