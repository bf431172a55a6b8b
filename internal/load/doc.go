// Package load makes clients that use a cell through its public API, at random but from a seed, and record what they
// did and saw (package history). The same clients run in virtual time and in real processes: they know nothing of the
// faults around them, and complain only of what no fault explains.
//
// There are four sorts. Lockers hold locks, check them, write to a resource that checks their tokens, and let go in all
// the ways there are. Candidates do the same with elections. Writers write and read keys: plain ones, ephemeral ones,
// under conditions, and counters that only ever grow by one. Watchers follow the keys, change servers, and resume.
package load
