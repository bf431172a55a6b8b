//go:build unix

package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// memory is what this process has, in bytes, after a garbage collection.
type memory struct {
	heap, stacks int64 // live objects; stacks, those kept for goroutines to come included
	resident     int64
}

func takeMemory() memory {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{heap: int64(m.HeapAlloc), stacks: int64(m.StackInuse), resident: takeResident()}
}

func (m memory) minus(other memory) memory {
	return memory{m.heap - other.heap, m.stacks - other.stacks, m.resident - other.resident}
}

// takeResident returns the resident memory of this process; 0 where /proc does not tell.
func takeResident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
