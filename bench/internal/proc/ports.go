package proc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

// FreeAddrs are n addresses of loopback that nobody listens on. They lie below the ports that the kernel gives to
// connections, so that a server that was killed finds its own free again.
func FreeAddrs(n int) ([]string, error) {
	var addrs []string
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		defer l.Close() // when all have been picked: they differ
		if addrs = append(addrs, addr); len(addrs) == n {
			return addrs, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports between 20000 and 30000", n)
}

// Serve is the command line of this program as a server of a backend.
func Serve(backend string, args ...string) ([]string, error) {
	self, err := os.Executable()
	return append([]string{self, "serve", backend}, args...), err
}

// Until repeats try, each time for at most two seconds, until it succeeds; for at most the given time, and while ctx lasts.
// It returns the last error.
func Until(ctx context.Context, limit time.Duration, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		once, done := context.WithTimeout(ctx, 2*time.Second)
		err := try(once)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
