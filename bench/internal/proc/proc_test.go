package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The test program is a worker too, when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "worker" {
		err := Work(os.Stdin, os.Stdout, func(order string) (string, error) {
			if order == "fail" {
				return "", errors.New("as it was told,\nit failed")
			}
			return "done: " + order, nil
		})
		if err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestWorker(t *testing.T) {
	w, err := StartWorker("worker")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	for range 2 {
		if got, err := w.Ask(t.Context(), "this"); err != nil || got != "done: this" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if _, err := w.Ask(t.Context(), "fail"); err == nil || err.Error() != "as it was told,; it failed" {
		t.Errorf("got %v", err)
	}
	if RSS(w.PID()) == 0 {
		t.Error("it takes no memory")
	}
	w.Kill()
	w.Kill()
	if _, err := w.Ask(t.Context(), "this"); err == nil {
		t.Error("a dead worker answers")
	}
}

func TestGroup(t *testing.T) {
	var g Group
	dir := t.TempDir()
	for i := range 2 {
		g.Add(fmt.Sprint(dir, "/", i), "sh", "-c", "echo $$; exec sleep 60")
	}
	if err := g.StartAll(); err != nil {
		t.Fatal(err)
	}
	defer g.Stop()
	if pids := g.PIDs(); len(pids) != 2 || pids[1] != g.PID(1) {
		t.Errorf("processes %v", pids)
	}
	if err := g.Kill(0); err != nil {
		t.Error(err)
	}
	if err := g.Kill(0); err != nil {
		t.Error("twice:", err)
	}
	if g.PID(0) != 0 || len(g.PIDs()) != 1 {
		t.Error("a killed process is still listed")
	}
	if err := g.Start(0); err != nil || g.PID(0) == 0 {
		t.Error("again:", err)
	}
	g.Add(dir+"/2", dir+"/no such program")
	if err := g.Start(2); err == nil || !strings.Contains(err.Error(), "no such program") {
		t.Errorf("got %v", err)
	}
}

func TestUsage(t *testing.T) {
	const stat = "42 (a (strange) name) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15"
	if got := cpuOf(stat); got != 3*time.Second {
		t.Errorf("CPU time %v, want 3 s", got)
	}
	if got := cpuOf("42 (short) S 1"); got != 0 {
		t.Errorf("CPU time %v of a line without one", got)
	}
	const machine = "cpu  100 20 30 5000 7 1 2 40 60 0\ncpu0 1 2 3\n"
	if got := busyOf(machine); got != 1930*time.Millisecond {
		t.Errorf("busy for %v, want 1.93 s: idle, iowait and guest do not count", got)
	}
	if Self() == 0 || Busy() == 0 || CPU(os.Getpid()) > time.Hour {
		t.Error("this process or machine has never worked")
	}
}

func TestFreeAddrs(t *testing.T) {
	addrs, err := FreeAddrs(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, a := range addrs {
		if seen[a] {
			t.Errorf("%s twice", a)
		}
		seen[a] = true
	}
}

func TestUntil(t *testing.T) {
	tries := 0
	err := Until(t.Context(), time.Minute, func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	never := errors.New("never")
	if err := Until(t.Context(), 30*time.Millisecond, func(context.Context) error { return never }); err != never {
		t.Errorf("got %v", err)
	}
}
