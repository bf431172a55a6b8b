package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// buildTime is what a run may take beyond the time limit of its tests.
const buildTime = 5 * time.Minute

// goTest runs tests of one package.
type goTest struct {
	root    string
	overlay string // file; empty: the code as it is
	dir     string
	run     string // regexp; empty: all
	args    []string
	timeout time.Duration
	short   bool // as go test -short: the random tests of a part do not run for long
	cached  bool // an earlier result for the same code will do
}

// verdict is how a run ended.
type verdict struct {
	failed []string // names of tests, without those of subtests; of those under way if the program ended early
	ran    int      // tests
	hung   bool
	broken string // why it could not be run: what the compiler said
}

// do runs the tests. The error is of the run, not of the tests.
func (g goTest) do(ctx context.Context) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout+buildTime)
	defer cancel()
	args := []string{"test", "-json", "-vet=off", "-timeout", g.timeout.String()}
	if g.overlay != "" {
		args = append(args, "-overlay", g.overlay)
	}
	if g.run != "" {
		args = append(args, "-run", g.run)
	}
	if g.short {
		args = append(args, "-short")
	}
	if !g.cached {
		args = append(args, "-count=1")
	}
	args = append(args, "./"+g.dir)
	cmd := exec.CommandContext(ctx, "go", append(args, g.args...)...)
	cmd.Dir = g.root
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return verdict{}, err
	}
	if err := cmd.Start(); err != nil {
		return verdict{}, err
	}
	v, parseErr := readEvents(stdout)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case parseErr != nil:
		return v, parseErr
	case ctx.Err() != nil:
		v.hung = true
	case err != nil && !errors.As(err, &exit):
		return v, err
	case err != nil && v.broken == "" && len(v.failed) == 0 && !v.hung && v.ran == 0:
		return v, fmt.Errorf("go test ./%s: %w\n%s", g.dir, err, stderr.String())
	case err != nil && v.broken == "" && len(v.failed) == 0:
		return v, fmt.Errorf("go test ./%s fails, and no test does: %w\n%s", g.dir, err, stderr.String())
	}
	return v, nil
}

// event is one line of go test -json.
type event struct {
	Action, Test, Output string
}

func readEvents(r io.Reader) (verdict, error) {
	var v verdict
	var built strings.Builder
	ran, over := make(map[string]bool), make(map[string]bool)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				continue // what a test wrote past the testing package
			}
			top, _, _ := strings.Cut(e.Test, "/")
			switch e.Action {
			case "build-output":
				built.WriteString(e.Output)
			case "build-fail":
				v.broken = built.String()
			case "run":
				ran[top] = ran[top] || top != ""
			case "pass", "skip":
				over[e.Test] = true
			case "fail":
				over[e.Test] = true
				if top != "" && !slices.Contains(v.failed, top) {
					v.failed = append(v.failed, top)
				}
				if top == "" && len(v.failed) == 0 { // of the package: a panic, or the time limit
					for name := range ran {
						if !over[name] {
							v.failed = append(v.failed, name)
						}
					}
					slices.Sort(v.failed)
				}
			case "output":
				v.hung = v.hung || strings.Contains(e.Output, "panic: test timed out after")
			}
		}
		if err == io.EOF {
			v.ran = len(ran)
			return v, nil
		}
		if err != nil {
			return v, err
		}
	}
}
