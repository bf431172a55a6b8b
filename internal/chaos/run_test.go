//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordcell/coord/fence"
)

// TestMain lets this program be started again in its other roles.
func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(run(os.Args[1:], os.Stdout))
	}
	os.Exit(m.Run())
}

func TestRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	var out bytes.Buffer
	status, err := sandboxed([]string{"-for=6s", "-window=6s", "-seed=3"}, &out)
	switch {
	case err != nil:
		t.Fatal(err)
	case status == exitSkipped:
		t.Skip(out.String())
	case status != exitOK:
		t.Errorf("exit status %d:\n%s", status, &out)
	case !strings.Contains(out.String(), "no violations"):
		t.Errorf("it says:\n%s", &out)
	}
}

func TestArguments(t *testing.T) {
	var out bytes.Buffer
	o, err := parse([]string{"-for", "1h", "-seed", "9"}, &out)
	if err != nil || o.length != time.Hour || o.seed != 9 || o.window != time.Minute {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse(nil, &out); err != nil || o.seed == 0 {
		t.Errorf("without a seed: %+v, %v", o, err)
	}
	for _, bad := range []string{"-servers=3", "-for=0s", "-window=-1s", "-disk=1", "-nonsense"} {
		if status := run([]string{bad}, &out); status != exitUsage {
			t.Errorf("%s: exit status %d", bad, status)
		}
	}
}

func TestAlarm(t *testing.T) {
	for log, want := range map[string]string{
		"":                                   "",
		"level=INFO msg=following\n":         "",
		"ok\npanic: oh\ngoroutine 1\n":       "panic: oh",
		"==\nWARNING: DATA RACE\nRead at\n":  "WARNING: DATA RACE",
		"fatal error: all goroutines asleep": "fatal error: all goroutines asleep",
	} {
		if got := alarm([]byte(log)); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}

func TestReceiver(t *testing.T) {
	packet := make([]byte, 40)
	packet[0] = 0x45
	copy(packet[16:], []byte{10, 77, 0, 3})
	if to, ok := receiver(packet); !ok || to != 2 {
		t.Errorf("for 10.77.0.3: host %d, %v", to, ok)
	}
	if _, ok := receiver(packet[:19]); ok {
		t.Error("half a header is for somebody")
	}
	packet[17] = 78
	if _, ok := receiver(packet); ok {
		t.Error("a packet to another network is for somebody")
	}
	packet[0] = 0x60
	if _, ok := receiver(packet); ok {
		t.Error("IPv6 is for somebody")
	}
}

func TestVaultRefusesStaleTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vault")
	v, err := openVault(path)
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	one, err := dialVault(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := dialVault(path)
	if err != nil {
		t.Fatal(err)
	}
	defer one.client.Close()
	defer other.client.Close()
	ran := 0
	write := func(context.Context) error { ran++; return nil }
	ctx := context.Background()
	if err := one.Do(ctx, "r", 7, write); err != nil {
		t.Error(err)
	}
	var stale *fence.StaleError
	if err := other.Do(ctx, "r", 6, write); !errors.As(err, &stale) || stale.Highest != 7 {
		t.Errorf("a lower token: %v", err)
	}
	if err := other.Do(ctx, "r", 8, write); err != nil {
		t.Error(err)
	}
	if ran != 2 || v.service.accepted.Load() != 2 || v.service.stale.Load() != 1 {
		t.Errorf("%d writes ran, %d accepted, %d stale", ran, v.service.accepted.Load(), v.service.stale.Load())
	}
}
