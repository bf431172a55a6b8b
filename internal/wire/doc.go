// Package wire is the bytes that outlive a process: log entries, snapshots, results, and the messages between servers.
//
// Everything is msgpack, written and read field by field with Encoder and Decoder. A thing that may change one day is an
// array whose first item is its version (a command's: its op, then its version). The rules:
//
//   - A version that has been released is read for ever; testdata holds bytes of each.
//   - A newer version, an unknown command or an unknown kind of record is ErrUnknown. Whoever reads a log or a snapshot
//     must stop then: skipping what the other replicas apply would part them.
//   - Everything else that cannot be read is ErrMalformed. Each value has exactly one encoding, the shortest; other
//     encodings of it, nil, and bytes after the end are malformed too.
//   - Lengths and counts are checked against what is left of the input before memory is taken for them.
//   - What was decoded shares no memory with the input. Each string and byte slice has memory of its own: carving them
//     out of one copy of the entry would let a short name keep a whole batch alive for as long as the lock exists.
//   - An empty slice and a nil one are the same; decoding gives nil.
package wire
