package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordcell/coord/transport"
)

func TestMemoryTakesTime(t *testing.T) {
	inLab(t, func(l lab) {
		start := time.Now()
		near, far := l.stream(l.a, l.b)
		if passed := time.Since(start); passed != 2*time.Millisecond {
			l.Errorf("a dial took %v, want a round trip of 2 ms", passed)
		}
		l.write(near, "one")
		l.read(far, "one", time.Millisecond)

		l.SetLatency(5 * time.Millisecond)
		l.write(far, "two")
		l.read(near, "two", 5*time.Millisecond)

		l.SetLatency(0)
		l.write(far, "three")
		l.read(near, "three", time.Millisecond)
	})
}

func TestMemoryDelay(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.SetDelay(addrA, addrB, time.Second)
		l.write(near, "slow")
		l.SetDelay(addrA, addrB, 0)
		l.write(near, "fast")
		l.read(far, "slowfast", time.Second) // a stream keeps its order
		l.write(far, "not affected")
		l.read(near, "not affected", time.Millisecond)

		l.SetDelay("10.0.0.1", "10.0.0.2", 30*time.Millisecond)
		l.write(near, "between hosts")
		l.read(far, "between hosts", 30*time.Millisecond)
		l.SetDelay(addrA, addrB, 7*time.Millisecond)
		l.write(near, "between addresses")
		l.read(far, "between addresses", 7*time.Millisecond)

		l.HealAll()
		l.write(near, "healed")
		l.read(far, "healed", time.Millisecond)
	})
}

func TestMemoryCut(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.write(near, "in flight, ")
		l.Cut(addrA, addrB)
		l.write(near, "written while cut")
		l.write(far, "both ways")
		l.sendPackets(l.a, l.b, 10)
		l.silence(near, 10*time.Minute)
		l.silence(far, time.Minute)
		l.cannotDial(l.a, l.b)
		l.cannotDial(l.b, l.a)
		l.stream(l.a, l.c) // others are not affected

		l.Heal(addrB, addrA)
		l.read(far, "in flight, written while cut", time.Millisecond)
		l.read(near, "both ways", 0)
		if n := l.packets(l.b, time.Second); n != 0 {
			l.Errorf("%d packets survived a cut", n)
		}
		l.stream(l.a, l.b)
	})
}

func TestMemoryCutDuringADial(t *testing.T) {
	inLab(t, func(l lab) {
		l.Cut(addrA, addrB)
		time.AfterFunc(time.Minute, func() { l.Heal(addrA, addrB) })
		start := time.Now()
		l.stream(l.a, l.b)
		if passed := time.Since(start); passed != time.Minute+2*time.Millisecond {
			l.Errorf("the dial took %v", passed)
		}
	})
}

func TestMemoryCutOneWay(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.CutOneWay(addrA, addrB)
		l.write(near, "held")
		l.write(far, "passes")
		l.read(near, "passes", time.Millisecond)
		l.silence(far, time.Minute)
		l.sendPackets(l.a, l.b, 1)
		l.sendPackets(l.b, l.a, 1)
		if n := l.packets(l.a, time.Second); n != 1 {
			l.Errorf("%d packets the open way, want 1", n)
		}
		if n := l.packets(l.b, time.Second); n != 0 {
			l.Errorf("%d packets the cut way, want 0", n)
		}
		l.cannotDial(l.a, l.b)
		l.cannotDial(l.b, l.a) // nobody hears the answer
		l.Heal(addrA, addrB)
		l.read(far, "held", time.Millisecond)
	})
}

// The way there is cut when the other end has answered already.
func TestMemoryCutBehindADial(t *testing.T) {
	inLab(t, func(l lab) {
		time.AfterFunc(1500*time.Microsecond, func() { l.CutOneWay(addrA, addrB) })
		near, far := l.stream(l.a, l.b)
		l.write(near, "held")
		l.silence(far, time.Minute)
		l.Heal(addrA, addrB)
		l.read(far, "held", time.Millisecond)
	})
}

func TestMemoryPacketInFlightIsCutToo(t *testing.T) {
	inLab(t, func(l lab) {
		l.SetLatency(time.Second)
		l.sendPackets(l.a, l.b, 1)
		time.Sleep(time.Second / 2)
		l.Cut(addrA, addrB)
		if n := l.packets(l.b, 3*time.Second); n != 0 {
			l.Errorf("%d packets arrived over a cut link", n)
		}
		l.sendPackets(l.a, l.b, 1)
		time.Sleep(time.Second / 2)
		l.Heal(addrA, addrB)
		if n := l.packets(l.b, 3*time.Second); n != 0 {
			l.Errorf("%d packets arrived that were sent over a cut link", n)
		}
	})
}

func TestMemoryCutBreaksStreamsInTheEnd(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.Cut(addrA, addrB)
		time.Sleep(15*time.Minute - time.Second)
		l.Heal(addrA, addrB)
		l.write(near, "alive")
		l.read(far, "alive", time.Millisecond)

		l.CutOneWay("10.0.0.2", addrA)
		l.silence(near, 14*time.Minute) // the first cut is over, and its time does not count
		start := time.Now()
		l.broken(near, syscall.ETIMEDOUT)
		if passed := time.Since(start); passed != time.Minute {
			l.Errorf("the stream broke %v later, want a minute", passed)
		}
		l.broken(far, syscall.ETIMEDOUT)
	})
}

func TestMemoryPartition(t *testing.T) {
	inLab(t, func(l lab) {
		ab, _ := l.stream(l.a, l.b)
		_, ca := l.stream(l.c, l.a)
		l.Partition([]string{addrC}) // isolated from the rest
		l.write(ab, "x")
		l.stream(l.a, l.b)
		l.cannotDial(l.a, l.c)
		l.cannotDial(l.c, l.b)
		l.write(ca, "held")

		l.Partition([]string{addrA, "10.0.0.3"}, []string{addrB})
		l.stream(l.c, l.a)
		l.cannotDial(l.a, l.b)
		d := l.listen("10.0.0.4:1") // in no group
		l.cannotDial(l.a, d)
		l.cannotDial(d, l.b)

		l.HealAll()
		l.stream(l.a, l.b)
		l.stream(d, l.c)
	})
}

func TestMemoryDropsPackets(t *testing.T) {
	inLab(t, func(l lab) {
		l.SetDrop(addrA, addrB, 1)
		l.sendPackets(l.a, l.b, 100)
		l.sendPackets(l.b, l.a, 100)
		if n := l.packets(l.b, time.Second); n != 0 {
			l.Errorf("%d of 100 packets arrived, all should be lost", n)
		}
		if n := l.packets(l.a, time.Second); n != 100 {
			l.Errorf("%d of 100 packets arrived the other way", n)
		}
		l.SetDrop(addrA, addrB, 0.5)
		var arrived [2]int
		for i := range arrived {
			l.Seed(42)
			l.sendPackets(l.a, l.b, 1000)
			arrived[i] = l.packets(l.b, time.Second)
		}
		if arrived[0] != arrived[1] || arrived[0] < 400 || arrived[0] > 600 {
			l.Errorf("%d of 1000 packets arrived twice from the same seed, want about 500, the same ones", arrived)
		}
	})
}

func TestMemoryDropBreaksStreams(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.write(near, "before")
		l.read(far, "before", time.Millisecond)
		l.SetDrop(addrA, addrB, 1)
		l.write(far, "the other way")
		l.read(near, "the other way", time.Millisecond)
		l.write(near, "lost")
		l.write(near, "and so is this, before the end has heard of the reset")
		l.SetDrop(addrB, addrA, 1)
		l.write(far, "and this")
		l.broken(far, syscall.ECONNRESET)
		l.broken(near, syscall.ECONNRESET)
	})
}

func TestMemoryDuplicatesPackets(t *testing.T) {
	inLab(t, func(l lab) {
		l.SetDuplicate("10.0.0.1", addrB, 1)
		l.sendPackets(l.a, l.b, 10)
		if n := l.packets(l.b, time.Second); n != 20 {
			l.Errorf("10 packets became %d, want 20", n)
		}
	})
}

func TestMemoryLosesReplies(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		dialled, other := l.stream(l.b, l.a) // dialled by b: a's replies
		l.LoseReplies(addrB)
		l.write(near, "request")
		l.read(far, "request", time.Millisecond)
		l.write(far, "reply")
		l.broken(near, syscall.ECONNRESET)
		l.broken(far, syscall.ECONNRESET)
		l.write(other, "not affected")
		l.read(dialled, "not affected", time.Millisecond)

		near, far = l.stream(l.a, l.b)
		l.write(near, "again")
		l.read(far, "again", time.Millisecond)
		l.write(far, "reply")
		l.read(near, "reply", time.Millisecond)
	})
}

func TestMemoryPause(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.write(near, "arrived before, ")
		time.Sleep(time.Second)
		l.Pause(addrB)
		l.write(near, "and during the pause")
		l.write(far, "from the frozen one")
		l.sendPackets(l.a, l.b, 5)
		l.sendPackets(l.b, l.a, 5)
		l.silence(far, time.Minute)
		l.silence(near, time.Minute)
		if n := l.packets(l.a, time.Second); n != 0 {
			l.Errorf("%d packets left a frozen process", n)
		}
		second, err := l.a.Dial(context.Background(), addrB) // the kernel takes it
		if err != nil {
			l.Fatal(err)
		}
		l.write(second, "dialled during the pause")
		l.cannotDial(l.b, l.a)
		var handed atomic.Int32
		accept := make(chan net.Conn, 1)
		go func() {
			c, _ := l.b.Accept()
			handed.Add(1)
			accept <- c
		}()
		go func() {
			l.b.ReadPacket(make([]byte, 10))
			handed.Add(1)
		}()
		time.Sleep(time.Minute)
		if handed.Load() != 0 {
			l.Error("a frozen process was handed a stream or a packet")
		}

		l.Resume(addrB)
		l.read(far, "arrived before, and during the pause", 0)
		l.read(near, "from the frozen one", time.Millisecond)
		l.read(<-accept, "dialled during the pause", 0)
		synctest.Wait() // one packet is taken by the goroutine above
		if n := l.packets(l.b, 0); n != 4 {
			l.Errorf("%d of 5 packets had gathered", n+1)
		}
		if n := l.packets(l.a, time.Second); n != 5 {
			l.Errorf("%d of 5 packets left after the pause", n)
		}
	})
}

func TestMemoryClosedWhilePaused(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.Pause(addrB)
		far.Close()
		l.silence(near, time.Minute)
		l.b.Close()
		l.broken(near, io.EOF)
	})
}

// A firewall that refuses what is new, and one that resets what there was as well.
func TestMemoryRefuse(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		other, _ := l.stream(l.b, l.a)
		l.Refuse(addrA, addrB)
		start := time.Now()
		if _, err := l.a.Dial(context.Background(), addrB); !errors.Is(err, syscall.ECONNREFUSED) {
			l.Errorf("a dial: %v", err)
		}
		if passed := time.Since(start); passed != 2*time.Millisecond {
			l.Errorf("it was refused after %v, want a round trip of 2 ms", passed)
		}
		l.stream(l.b, l.a) // the other way
		l.write(near, "open before")
		l.read(far, "open before", time.Millisecond)

		l.Reset("10.0.0.2", addrA)
		for _, c := range []net.Conn{near, far, other} {
			l.broken(c, syscall.ECONNRESET)
		}
		l.HealAll()
		l.stream(l.a, l.b)
	})
}

func TestMemoryKill(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		cut, _ := l.stream(l.c, l.b)
		l.Cut(addrB, addrC)
		l.Kill(addrB)
		l.broken(near, syscall.ECONNRESET)
		l.silence(cut, time.Minute) // it cannot know yet
		l.Heal(addrB, addrC)
		l.broken(cut, syscall.ECONNRESET)
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			l.Errorf("Read in the killed process: %v", err)
		}
		if _, err := l.b.Accept(); !errors.Is(err, net.ErrClosed) {
			l.Errorf("Accept in the killed process: %v", err)
		}
		if _, err := l.a.Dial(context.Background(), addrB); !errors.Is(err, syscall.ECONNREFUSED) {
			l.Errorf("Dial to the killed process: %v", err)
		}
		l.stream(l.a, l.listen(addrB))
	})
}

func TestMemoryClockRate(t *testing.T) {
	inLab(t, func(l lab) {
		l.SetClockRate("10.0.0.9:1", 2)
		fast, normal := l.listen("10.0.0.9:1"), l.a
		if fast.Now() == normal.Now() {
			l.Error("two clocks show the same")
		}
		passes := func(e transport.Endpoint, want time.Duration) {
			l.Helper()
			start := e.Now()
			time.Sleep(time.Minute)
			if passed := e.Now() - start; passed != want {
				l.Errorf("a minute took %v, want %v", passed, want)
			}
		}
		passes(normal, time.Minute)
		passes(fast, 2*time.Minute)
		before := fast.Now()
		l.SetClockRate("10.0.0.9:1", 0.5)
		if now := fast.Now(); now != before {
			l.Errorf("the clock jumped from %v to %v when its rate changed", before, now)
		}
		passes(fast, time.Minute/2)
		fast.Close()
		passes(l.listen("10.0.0.9:1"), time.Minute/2)
	})
}

func TestMemoryBoundsWhatItHolds(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.Cut(addrA, addrB)
		near.SetWriteDeadline(time.Now().Add(time.Minute))
		n, err := near.Write(make([]byte, 5<<20))
		if n != 1<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
			l.Errorf("Write over a cut link: %d, %v, want 1 MiB and the deadline", n, err)
		}
		l.Heal(addrA, addrB)
		l.read(far, string(make([]byte, 1<<20)), time.Millisecond)

		l.sendPackets(l.a, l.b, 2000)
		time.Sleep(time.Second)
		l.sendPackets(l.a, l.b, 2000)
		time.Sleep(time.Second)
		if n := l.packets(l.b, 0); n > 1024 {
			l.Errorf("%d packets were kept", n)
		}
		l.SetLatency(time.Minute)
		l.sendPackets(l.a, l.b, 1024)
		time.Sleep(time.Second)
		l.sendPackets(l.a, l.b, 1024)
		if n := l.packets(l.b, time.Hour); n != 1024 {
			l.Errorf("%d packets were in flight at once", n)
		}
	})
}

func TestMemoryFullBacklog(t *testing.T) {
	inLab(t, func(l lab) {
		for range 128 {
			if _, err := l.a.Dial(context.Background(), addrB); err != nil {
				l.Fatal(err)
			}
		}
		l.cannotDial(l.a, l.b)
		time.AfterFunc(10*time.Second, func() { l.b.Accept() })
		if _, err := l.a.Dial(context.Background(), addrB); err != nil {
			l.Errorf("Dial after there was room again: %v", err)
		}
	})
}

func TestMemoryCloseWithUnreadBytesResets(t *testing.T) {
	inLab(t, func(l lab) {
		near, far := l.stream(l.a, l.b)
		l.write(near, "never read")
		l.write(far, "bye")
		time.Sleep(time.Second)
		far.Close()
		l.read(near, "bye", 0)
		l.broken(near, syscall.ECONNRESET)
	})
}

func TestMemoryHostNames(t *testing.T) {
	inLab(t, func(l lab) {
		e := l.listen(":7000")
		if e.Addr() != "127.0.0.1:7000" {
			l.Errorf("Addr() = %q", e.Addr())
		}
		if _, err := l.a.Dial(context.Background(), "localhost:07000"); err != nil {
			l.Error(err)
		}
		l.Cut("localhost", addrA)
		l.cannotDial(e, l.a)
		named := l.listen("some-host:1")
		l.stream(l.a, named)
	})
}

// Everything at once, and nothing stays behind: the bubble fails if a goroutine does.
func TestMemoryStorm(t *testing.T) {
	inLab(t, func(l lab) {
		endpoints := []transport.Endpoint{l.a, l.b, l.c}
		for _, e := range endpoints {
			go echo(e)
			go func() {
				buf := make([]byte, 100)
				for {
					if _, _, err := e.ReadPacket(buf); err != nil {
						return
					}
				}
			}()
		}
		for i := range 30 {
			go client(endpoints[i%3], endpoints[(i+i/3)%3].Addr())
		}
		faults := []func(){
			func() { l.Cut(addrA, addrB) },
			func() { l.CutOneWay(addrB, addrC) },
			func() { l.SetDrop("10.0.0.1", "10.0.0.3", 0.1) },
			func() { l.SetDuplicate(addrA, addrC, 0.5) },
			func() { l.Pause(addrC) },
			func() { l.LoseReplies(addrA, addrB, addrC) },
			func() { l.SetDelay(addrC, addrA, 300*time.Millisecond) },
			func() { l.Resume(addrC) },
			func() { l.Partition([]string{addrB}) },
			func() { l.HealAll() },
		}
		for i := range 100 {
			faults[i*7%len(faults)]()
			time.Sleep(time.Duration(i%13) * 10 * time.Millisecond)
		}
		for _, e := range endpoints {
			e.Close()
		}
	})
}

// echo sends back what it gets, until its endpoint is closed.
func echo(e transport.Endpoint) {
	for {
		c, err := e.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
		}()
	}
}

// client talks with an echo until its endpoint is closed.
func client(e transport.Endpoint, addr string) {
	message := bytes.Repeat([]byte("0123456789"), 100)
	got := make([]byte, len(message))
	for {
		e.WritePacket([]byte("packet"), addr)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		c, err := e.Dial(ctx, addr)
		cancel()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		for range 10 {
			c.SetDeadline(time.Now().Add(time.Second))
			if _, err := c.Write(message); err != nil {
				break
			}
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, message) {
				break
			}
		}
		c.Close()
	}
}
