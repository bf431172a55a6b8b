package transporttest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// pattern returns n bytes that show when some are lost or out of order.
func pattern(n int, salt byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ byte(i>>16)*17 ^ salt
	}
	return b
}

// send writes b at one end and checks that it arrives at the other. It may run beside others.
func send(t *testing.T, from, to net.Conn, b []byte) {
	t.Helper()
	failed := make(chan error, 1)
	go func() {
		_, err := from.Write(b)
		failed <- err
	}()
	got := make([]byte, len(b))
	if _, err := io.ReadFull(to, got); err != nil {
		t.Errorf("reading: %v", err)
		return
	}
	if err := <-failed; err != nil {
		t.Errorf("writing: %v", err)
	}
	if !bytes.Equal(got, b) {
		t.Errorf("%d bytes did not arrive as they were sent", len(b))
	}
}

func manyBytesBothWays(t *testing.T, b bed) {
	dialled, accepted := b.stream(t)
	var both sync.WaitGroup
	both.Go(func() { send(t, dialled, accepted, pattern(3<<20, 1)) })
	both.Go(func() { send(t, accepted, dialled, pattern(3<<20+17, 2)) })
	both.Wait()
}

func closeEndsAfterWhatWasWritten(t *testing.T, b bed) {
	dialled, accepted := b.stream(t)
	want := pattern(100_000, 3)
	if _, err := dialled.Write(want); err != nil {
		t.Fatal(err)
	}
	dialled.Close()
	got, err := io.ReadAll(accepted)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d of %d bytes, then %v", len(got), len(want), err)
	}
	if _, err := accepted.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("Read after the end: %v, want io.EOF", err)
	}
}

func writesToAClosedPeerFail(t *testing.T, b bed) {
	dialled, accepted := b.stream(t)
	accepted.Close()
	if _, err := dialled.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("Read from a closed peer: %v, want io.EOF", err)
	}
	for {
		if _, err := dialled.Write([]byte("is anybody there?")); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func ownCloseEndsReadAndWrite(t *testing.T, b bed) {
	dialled, _ := b.stream(t)
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := dialled.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read during Close: %v, want net.ErrClosed", err)
		}
	})
	both.Go(func() {
		for {
			if _, err := dialled.Write(make([]byte, 1<<16)); err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("Write during Close: %v, want net.ErrClosed", err)
				}
				return
			}
		}
	})
	time.Sleep(5 * time.Millisecond)
	dialled.Close()
	both.Wait()
	if err := dialled.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetDeadline after Close: %v, want net.ErrClosed", err)
	}
	if err := dialled.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second Close: %v, want net.ErrClosed", err)
	}
}

func backPressure(t *testing.T, b bed) {
	dialled, accepted := b.stream(t)
	dialled.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	const far = 256 << 20
	written := 0
	for written < far {
		n, err := dialled.Write(pattern(64<<10, 0))
		written += n
		if err != nil {
			timedOut(t, err)
			break
		}
	}
	if written >= far {
		t.Fatalf("%d bytes were taken though nobody reads", written)
	}
	dialled.Close()
	got, err := io.Copy(io.Discard, accepted)
	if got != int64(written) || err != nil {
		t.Errorf("%d bytes written, %d read, %v", written, got, err)
	}
}

func concurrentUse(t *testing.T, b bed) {
	dialled, accepted := b.stream(t)
	var all sync.WaitGroup
	for _, c := range []net.Conn{dialled, accepted} {
		for range 4 {
			all.Go(func() {
				for range 50 {
					c.SetDeadline(time.Now().Add(time.Second))
					if _, err := c.Write(make([]byte, 1000)); err != nil {
						return
					}
				}
			})
			all.Go(func() {
				buf := make([]byte, 999)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
				}
			})
		}
	}
	time.Sleep(20 * time.Millisecond)
	dialled.Close()
	all.Wait()
}

// timedOut checks that err is what a passed deadline gives.
func timedOut(t *testing.T, err error) {
	t.Helper()
	var netErr net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &netErr) || !netErr.Timeout() {
		t.Errorf("after the deadline: %v, want os.ErrDeadlineExceeded as a net.Error that is a timeout", err)
	}
}

func deadlinePast(t *testing.T, b bed) {
	dialled, accepted := b.stream(t)
	send(t, dialled, accepted, []byte("x"))
	dialled.SetDeadline(time.Now().Add(-time.Second))
	_, err := dialled.Write([]byte("y"))
	timedOut(t, err)
	_, err = dialled.Read(make([]byte, 1))
	timedOut(t, err)
	dialled.SetDeadline(time.Time{})
	send(t, dialled, accepted, []byte("works again"))
	send(t, accepted, dialled, []byte("both ways"))
}

func deadlineEndsAWaitingRead(t *testing.T, b bed) {
	dialled, _ := b.stream(t)
	start := time.Now()
	dialled.SetReadDeadline(start.Add(20 * time.Millisecond))
	_, err := dialled.Read(make([]byte, 1))
	timedOut(t, err)
	if passed := time.Since(start); passed < 20*time.Millisecond {
		t.Errorf("Read ended after %v, its deadline was at 20 ms", passed)
	}
}

func deadlineMovedWhileWaiting(t *testing.T, b bed) {
	dialled, accepted := b.stream(t)
	dialled.SetReadDeadline(time.Now().Add(time.Hour))
	ended := make(chan error)
	read := func() {
		_, err := dialled.Read(make([]byte, 1))
		ended <- err
	}
	go read()
	time.Sleep(5 * time.Millisecond)
	dialled.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	timedOut(t, <-ended)

	dialled.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	go read()
	dialled.SetReadDeadline(time.Time{})
	time.Sleep(250 * time.Millisecond)
	accepted.Write([]byte("x"))
	if err := <-ended; err != nil {
		t.Errorf("the deadline was taken away, Read: %v", err)
	}
}

func deadlinesAreSeparate(t *testing.T, b bed) {
	dialled, accepted := b.stream(t)
	dialled.SetReadDeadline(time.Now().Add(-time.Second))
	send(t, dialled, accepted, []byte("writing is not affected"))
	dialled.SetReadDeadline(time.Time{})
	dialled.SetWriteDeadline(time.Now().Add(-time.Second))
	send(t, accepted, dialled, []byte("nor is reading"))
}
