package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// jiffy is the unit of times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const jiffy = 10 * time.Millisecond

// CPU is the user and system time of the processes together. One that has gone counts nothing.
func CPU(pids ...int) time.Duration {
	var sum time.Duration
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil {
			sum += cpuOf(string(text))
		}
	}
	return sum
}

// cpuOf reads /proc/PID/stat. The second field, a name in parentheses, may hold spaces and parentheses itself.
func cpuOf(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * jiffy
}

// RSS is the resident memory of the processes together, in bytes.
func RSS(pids ...int) int64 {
	var sum int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum
}

// Self is the CPU time of this process.
func Self() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Busy is the CPU time that the machine has spent on anybody.
func Busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return busyOf(string(text))
}

// busyOf reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, and guest times that
// user and nice have counted already.
func busyOf(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	var sum int64
	for i, field := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, _ := strconv.ParseInt(field, 10, 64)
		sum += n
	}
	return time.Duration(sum) * jiffy
}

// RaiseFiles lifts this process's bound on open files, and so that of those it starts, as far as it may.
func RaiseFiles() {
	const want = 200_000
	r := syscall.Rlimit{Cur: want, Max: want}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		return
	}
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		r.Cur = r.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r) // then it stays as it is
	}
}
