package seglog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The end of a process is not the end of what it has written: TestG11_KillInALoop starts this test program again as a
// child that writes, and kills it. COORD_KILL_ROUNDS is how many times; without it, it goes on for some seconds.
const (
	killDir    = "COORD_KILL_DIR" // makes a process the child
	killSeed   = "COORD_KILL_SEED"
	killModel  = "COORD_KILL_MODEL"
	killRounds = "COORD_KILL_ROUNDS"
)

func TestMain(m *testing.M) {
	if os.Getenv(killDir) == "" {
		os.Exit(m.Run())
	}
	if err := writeUntilKilled(); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

// writeUntilKilled changes the log at random, as its seed says, and says so before and after each change.
func writeUntilKilled() error {
	seed, _ := strconv.ParseUint(os.Getenv(killSeed), 10, 64)
	var m model
	var count int
	if _, err := fmt.Sscan(os.Getenv(killModel), &m.first, &count); err != nil {
		return err
	}
	m.terms = make([]uint64, count) // what they are does not matter for what is changed next
	l, err := Open(os.Getenv(killDir), killOptions(true))
	if err != nil {
		return err
	}
	fmt.Println("opened")
	r := rand.New(rand.NewPCG(seed, 5))
	for i := uint64(0); ; i++ {
		c := killChange(r, m, seed, i)
		fmt.Println("begin")
		if err := c.do(l); err != nil {
			return err
		}
		fmt.Println("done")
		m = c.after(m)
	}
}

func killChange(r *rand.Rand, m model, seed, i uint64) change { return randomChange(r, m, seed<<20+i) }

func killOptions(exists bool) Options {
	return Options{Exists: exists, SegmentSize: 64 << 10, Step: 8 << 10, SyncDir: func(path string) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}}
}

// TestG11_KillInALoop kills a process that writes, at any moment, again and again on the same directory. Each time the
// log holds what had been acknowledged, and the write that ran wholly or not at all. Many of the writes remove the end of
// the log, often back over the border of a segment, after which others follow: what raft does with a former leader.
func TestG11_KillInALoop(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv(killRounds))
	until := time.Now().Add(3 * time.Second)
	dir := t.TempDir()
	var m model
	l, err := Open(dir, killOptions(false))
	must(t, err)
	must(t, l.Close())
	changes, torn := 0, 0
	round := 0
	for ; round < rounds || rounds == 0 && time.Now().Before(until); round++ {
		seed := uint64(round + 1)
		begun, done := killChild(t, dir, seed, m)
		r := rand.New(rand.NewPCG(seed, 5))
		for i := range uint64(done) {
			m = killChange(r, m, seed, i).after(m)
		}
		changes += done
		l, err := Open(dir, killOptions(true))
		if err != nil {
			t.Fatalf("round %d, after %d changes: %v", round, changes, err)
		}
		if err := m.compare(l); err != nil {
			c := killChange(r, m, seed, uint64(done))
			after := c.after(m)
			if other := after.compare(l); begun == done || other != nil {
				t.Fatalf("round %d, after %d changes, in %v: %v, or else %v", round, changes, c, err, other)
			}
			m = after
			torn++
		}
		must(t, l.Close())
	}
	t.Logf("%d rounds, %d changes acknowledged, %d found that had not been", round, changes, torn)
}

// killChild starts a child and kills it while it writes. It returns how many changes it has begun, and how many it has
// done.
func killChild(t *testing.T, dir string, seed uint64, m model) (begun, done int) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), killDir+"="+dir, fmt.Sprint(killSeed, "=", seed), fmt.Sprint(killModel, "=", m.first, " ", len(m.terms)))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewReader(out)
	r := rand.New(rand.NewPCG(seed, 6))
	enough := r.IntN(40)
	for killed := false; ; {
		line, err := lines.ReadString('\n')
		switch strings.TrimSpace(line) {
		case "begin":
			begun++
		case "done":
			done++
		case "opened", "":
		default:
			t.Errorf("the child says %q", line)
		}
		if err == io.EOF {
			break
		}
		must(t, err)
		if !killed && (begun >= enough || t.Failed()) {
			killed = true
			for range r.IntN(20000) { // somewhere in the write
			}
			must(t, cmd.Process.Kill())
		}
	}
	cmd.Wait() // killed
	return begun, done
}
