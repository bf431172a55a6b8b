// Package machine describes what a comparison ran on: the machine, and the versions of the software.
package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
)

// Describe is one line: cores, memory, kernel, Go, and the file system of the servers' folders.
func Describe(dir string) string {
	parts := []string{fmt.Sprintf("%d cores of %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name"))}
	if total := field("/proc/meminfo", "MemTotal"); total != "" {
		parts = append(parts, total+" of memory")
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+strings.TrimSpace(string(release)))
	}
	parts = append(parts, runtime.Version(), "servers on "+fileSystem(dir), "loopback")
	return strings.Join(parts, ", ")
}

// field is the value of the first "name : value" in a file of /proc.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem names the commonest kinds; memory is said to be what it is, since nothing is durable there.
func fileSystem(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "an unknown file system"
	}
	names := map[int64]string{0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x01021994: "tmpfs (memory: nothing is durable)", 0x794C7630: "overlayfs"}
	if name, known := names[int64(s.Type)]; known {
		return name
	}
	return fmt.Sprintf("a file system of type %#x", s.Type)
}

// Load is the load averages.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

// Module is the version of a module that this program is built with.
func Module(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown version"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			if m.Replace != nil {
				return "as in this tree"
			}
			return m.Version
		}
	}
	return "of unknown version"
}

// Output is the first line that a command prints; "" if it fails.
func Output(command ...string) string {
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}
