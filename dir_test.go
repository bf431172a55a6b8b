package coord_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordcell/coord"
)

// alone is a cell of one, on a real disk and a free port of loopback.
func alone(dir string) coord.Config {
	return coord.Config{Dir: dir, Listen: "127.0.0.1:0", Expect: 1, ElectionTimeout: election}
}

// formed is a Dir that has been used once, by a node that has stopped.
func formed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made by Start")
	n, err := coord.Start(t.Context(), alone(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Put(t.Context(), "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDir_IsReopened(t *testing.T) {
	dir := formed(t)
	n, err := coord.Start(t.Context(), alone(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if kv, err := n.Get(t.Context(), "a"); err != nil || string(kv.Value) != "1" {
		t.Errorf("%q, %v", kv.Value, err)
	}
	_, err = coord.Start(t.Context(), alone(dir))
	if !errors.Is(err, coord.ErrDirInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second node on it: %v", err)
	}
	if _, err := n.Put(t.Context(), "a", []byte("2")); err != nil {
		t.Errorf("the first is harmed: %v", err)
	}
}

// Whatever is wrong with a Dir, Start names the file, and what was in it stays.
func TestDir_Unusable(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(dir string, cfg *coord.Config) error
		file  string
		kind  error
		says  string
	}{
		"of another cell": {func(_ string, cfg *coord.Config) error { cfg.Cell = "other"; return nil }, "identity", coord.ErrWrongCell, `cell "default", not to "other"`},
		"damaged identity": {func(dir string, _ *coord.Config) error {
			return edit(filepath.Join(dir, "identity"), func(b []byte) []byte { return b[:len(b)/2] })
		}, "identity", nil, "damaged"},
		"another version in the identity": {func(dir string, _ *coord.Config) error {
			return edit(filepath.Join(dir, "identity"), func(b []byte) []byte { return bytes.Replace(b, []byte(" 2 "), []byte(" 3 "), 1) })
		}, "identity", nil, "checksum"},
		"no identity":         {func(dir string, _ *coord.Config) error { return os.Remove(filepath.Join(dir, "identity")) }, "identity", nil, "missing"},
		"another kind of log": {func(_ string, cfg *coord.Config) error { cfg.LogStore = coord.LogBolt; return nil }, "", coord.ErrInvalid, `as "segments", asked for is "bolt"`},
		"damaged log": {func(dir string, _ *coord.Config) error {
			return edit(filepath.Join(dir, "group-0", "log", "00000001.log"), func(b []byte) []byte { b[600]++; return b })
		}, "00000001.log", nil, "damaged"},
		"no log": {func(dir string, _ *coord.Config) error { return os.RemoveAll(filepath.Join(dir, "group-0", "log")) }, "log", nil, "missing"},
		"damaged votes": {func(dir string, _ *coord.Config) error {
			return edit(filepath.Join(dir, "group-0", "raft.db"), func(b []byte) []byte { clear(b[4096:]); clear(b[:4096]); return b })
		}, "raft.db", nil, "damaged"},
		"no votes": {func(dir string, _ *coord.Config) error { return os.Remove(filepath.Join(dir, "group-0", "raft.db")) }, "raft.db", nil, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := formed(t)
			cfg := alone(dir)
			if err := tc.spoil(dir, &cfg); err != nil {
				t.Fatal(err)
			}
			for range 2 { // nor does the first try make it look healthy
				_, err := coord.Start(t.Context(), cfg)
				if err == nil || !strings.Contains(err.Error(), tc.file) || !strings.Contains(err.Error(), tc.says) || tc.kind != nil && !errors.Is(err, tc.kind) {
					t.Errorf("%v, want %s … %s", err, tc.file, tc.says)
				}
			}
		})
	}
}

func edit(file string, change func([]byte) []byte) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, change(b), 0o600)
}

func TestDir_NoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := coord.Start(t.Context(), alone(file))
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	if os.Getuid() == 0 {
		return // root may write everywhere
	}
	locked := t.TempDir()
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err = coord.Start(t.Context(), alone(locked))
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), locked) {
		t.Errorf("%v", err)
	}
}

// A port in use is said at once, and leaves the Dir free for the next try.
func TestListen_InUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := alone(t.TempDir())
	cfg.Listen = l.Addr().String()
	if _, err := coord.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), cfg.Listen) {
		t.Errorf("%v", err)
	}
	cfg.Listen = "127.0.0.1:0"
	n, err := coord.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	n.Close()
	if _, port, err := net.SplitHostPort(n.Addr()); err != nil || port == "0" || port == "" {
		t.Errorf("Addr is %q", n.Addr())
	}
}
