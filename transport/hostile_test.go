package transport

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// attacks are what a hostile or broken peer may do with a stream. Each ends when the stream does.
func attacks() map[string]func(c net.Conn) {
	hello := appendHello([]byte{byte(KindRaft)}, Hello{Version: 1, Cell: "cell", Node: "evil", Group: 7})
	header := func(version, code byte, length uint16) []byte {
		b := append([]byte{byte(KindCalls)}, magic...)
		return binary.BigEndian.AppendUint16(append(b, version, code), length)
	}
	say := func(b []byte) func(net.Conn) {
		return func(c net.Conn) {
			c.Write(b)
			io.Copy(io.Discard, c)
		}
	}
	slowly := func(b []byte, pause time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			for _, x := range b {
				if _, err := c.Write([]byte{x}); err != nil {
					return
				}
				time.Sleep(pause)
			}
			io.Copy(io.Discard, c)
		}
	}
	return map[string]func(net.Conn){
		"silence":         say(nil),
		"random bytes":    say(randomBytes(100_000)),
		"zeros":           say(make([]byte, 100_000)),
		"http":            say([]byte("GET / HTTP/1.1\r\nHost: cell\r\n\r\n")),
		"tls":             say([]byte{0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3}),
		"huge length":     say(append(header(1, codeHello, 0xffff), make([]byte, 0xffff)...)),
		"length unfilled": say(header(1, codeHello, maxMessage-headerSize)),
		"newer version":   say(append(header(99, codeHello, 10), make([]byte, 10)...)),
		"unknown message": say(append(header(1, 77, 10), make([]byte, 10)...)),
		"empty hello":     say(header(1, codeHello, 0)),
		"unknown kind":    say(append([]byte{31}, hello[1:]...)),
		"not formed":      say(hello),
		"cut short":       func(c net.Conn) { c.Write(hello[:len(hello)-1]) },
		"slow-loris":      slowly(hello, time.Second),
		"never reads": func(c net.Conn) {
			for {
				if _, err := c.Write(randomBytes(1000)); err != nil {
					return
				}
			}
		},
	}
}

func randomBytes(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// attack runs an attack on a stream of its own, and tells when the Mux has ended it.
func attack(t *testing.T, from Endpoint, victim *Mux, how func(net.Conn)) (ended chan struct{}) {
	c, err := from.Dial(context.Background(), victim.Addr())
	if err != nil {
		t.Error(err)
		return nil
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		how(c)
		c.Close()
	}()
	return ended
}

func TestHostilePeerCostsOnlyItsOwnStream(t *testing.T) {
	for name, how := range attacks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := NewMemory()
				evil := openEndpoint(t, network)
				a, b := openMux(t, network, inCell("a")), openMux(t, network, inCell("b"))
				near, far := dial(t, a, KindRaft, b), accept(t, b, KindRaft)
				start := time.Now()
				ended := attack(t, evil, b, how)
				for range 100 {
					talk(t, near, far)
				}
				talk(t, dial(t, a, KindCalls, b), accept(t, b, KindCalls))
				<-ended
				if passed := time.Since(start); passed > 7*time.Second {
					t.Errorf("it held its stream for %v", passed)
				}
				talk(t, near, far)
				synctest.Wait()
				if n := b.unfinished.Len(); n != 0 {
					t.Errorf("%d handshakes are still under way", n)
				}
				if n := b.Stats().Refused; n != 1 {
					t.Errorf("%d streams were refused, want 1", n)
				}
				for kind := KindGossip; kind < kindEnd; kind++ {
					if n := len(b.queues[kind]); n != 0 {
						t.Errorf("%d %v streams were handed over", n, kind)
					}
				}
			})
		})
	}
}

// All of them at once, on real sockets.
func TestHostilePeersOnTCP(t *testing.T) {
	config := inCell("b")
	config.HandshakeTimeout = 500 * time.Millisecond
	evil := openEndpoint(t, TCP())
	a, b := openMux(t, TCP(), inCell("a")), openMux(t, TCP(), config)
	near, far := dial(t, a, KindRaft, b), accept(t, b, KindRaft)
	var all []chan struct{}
	for _, how := range attacks() {
		all = append(all, attack(t, evil, b, how))
	}
	for range 100 {
		talk(t, near, far)
		c := dial(t, a, KindCalls, b)
		talk(t, c, accept(t, b, KindCalls))
		c.Close()
	}
	evil.WritePacket(randomBytes(1000), b.Addr())
	a.WritePacket([]byte("honest"), b.Addr())
	buf := make([]byte, 2000)
	if n, from, err := b.ReadPacket(buf); string(buf[:n]) != "honest" || from != a.Addr() || err != nil {
		t.Errorf("ReadPacket: %.20q from %s, %v", buf[:n], from, err)
	}
	for _, ended := range all {
		<-ended
	}
}

// However many streams stall in their handshakes, an honest one gets through and no more than the limit are kept.
func TestStalledHandshakesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := NewMemory()
		evil := openEndpoint(t, network)
		a, b := openMux(t, network, inCell("a")), openMux(t, network, inCell("b"))
		for range maxHandshakes + 50 {
			attack(t, evil, b, func(c net.Conn) { io.Copy(io.Discard, c) })
		}
		synctest.Wait()
		if n := b.unfinished.Len(); n != maxHandshakes {
			t.Errorf("%d handshakes are kept, the limit is %d", n, maxHandshakes)
		}
		start := time.Now()
		talk(t, dial(t, a, KindRaft, b), accept(t, b, KindRaft))
		if passed := time.Since(start); passed > 10*time.Millisecond {
			t.Errorf("an honest stream took %v", passed)
		}
		network.SetDelay(a.Addr(), b.Addr(), 20*time.Millisecond) // its hello comes 20 ms after its stream
		time.AfterFunc(30*time.Millisecond, func() {
			for range 50 {
				go attack(t, evil, b, func(c net.Conn) { io.Copy(io.Discard, c) })
			}
		})
		talk(t, dial(t, a, KindCalls, b), accept(t, b, KindCalls))
		if n := b.Stats().Evicted; n < 100 {
			t.Errorf("%d gave way, want at least 100", n)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if n := b.unfinished.Len(); n != 0 {
			t.Errorf("%d handshakes outlived their time", n)
		}
	})
}
