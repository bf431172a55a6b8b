package gossip

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pushPull is an exchange of state, with one node of the given version vector.
func pushPull(nodes byte, vsn []byte) []byte {
	b := append([]byte{msgPushPull, 0x83, 0xa5}, "Nodes"...)
	b = append(append(b, nodes, 0xac), "UserStateLen"...)
	b = append(append(b, 0, 0xa4), "Join\xc3"...)
	b = append(append(b, 0x82, 0xa4), "Name\xa1z"...)
	b = append(append(b, 0xa3), "Vsn"...)
	return append(append(b, 0xa0|byte(len(vsn))), vsn...)
}

func scan(b []byte) error {
	return (&scanner{in: bufio.NewReader(bytes.NewReader(b))}).scanMessage()
}

func TestShapeOfStreams(t *testing.T) {
	good := pushPull(1, []byte{1, 5, 2, 0, 0, 0})
	if err := scan(good); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"short version vector": pushPull(1, []byte{1, 5, 2}),
		"more nodes than sent": pushPull(2, []byte{1, 5, 2, 0, 0, 0}),
		"compressed":           append([]byte{9}, good[1:]...),
		"encrypted":            append([]byte{10}, good[1:]...),
		"user message":         append([]byte{8}, good[1:]...),
		"huge field":           append(append([]byte{msgPing, 0x81, 0xa5}, "SeqNo"...), 0xdb, 0xff, 0xff, 0xff, 0xff),
		"many nodes":           append(append([]byte{msgPushPull, 0x81, 0xa5}, "Nodes"...), 0xce, 0x7f, 0xff, 0xff, 0xff),
		"negative nodes":       append(append([]byte{msgPushPull, 0x81, 0xa5}, "Nodes"...), 0xff),
		"user state":           append(append([]byte{msgPushPull, 0x81, 0xac}, "UserStateLen"...), 5),
		"no map":               {msgPing, 0x93, 1, 2, 3},
		"nothing":              {},
	} {
		if scan(b) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestShapeOfPackets(t *testing.T) {
	ack := ackPacket(7)
	for name, b := range map[string][]byte{
		"ack":      ack,
		"crc":      append([]byte{msgCRC, 0, 0, 0, 0}, ack...),
		"compound": append([]byte{msgCompound, 1, 0, byte(len(ack))}, ack...),
	} {
		if !packetOK(b) {
			t.Errorf("%s: refused", name)
		}
	}
	for name, b := range map[string][]byte{
		"empty":           {},
		"compressed":      {9, 1, 2, 3},
		"user":            {8, 1, 2, 3},
		"label":           {244, 1, 2, 3},
		"nested":          {msgCompound, 1, 0, 4, msgCompound, 0, 0, 0},
		"hidden":          {msgCompound, 1, 0, 2, 9, 1},
		"short":           {msgCompound, 9, 0, 2, 0, 1},
		"crc around none": {msgCRC, 0, 0, 0, 0},
	} {
		if packetOK(b) {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPingSeq(t *testing.T) {
	ping := append([]byte{msgPing, 0x82, 0xa5}, "SeqNo\xcd\x01\x02\xa4Node\xa1b"...)
	compound := append([]byte{msgCompound, 2, 0, byte(len(ping)), 0, 1}, append(ping, msgAck)...)
	for _, b := range [][]byte{ping, compound} {
		if seq, ok := pingSeq(b); !ok || seq != 0x0102 {
			t.Errorf("%x: %d %v", b, seq, ok)
		}
	}
	if _, ok := pingSeq(ackPacket(1)); ok {
		t.Error("an ack is no ping")
	}
}

func FuzzGuard(f *testing.F) {
	f.Add(pushPull(1, []byte{1, 5, 2, 0, 0, 0}))
	f.Add(ackPacket(1))
	f.Add([]byte{msgCompound, 1, 0, 4, 0, 0, 0, 0})
	f.Fuzz(func(_ *testing.T, b []byte) {
		packetOK(b)
		pingSeq(b)
		_ = scan(b)
	})
}

// A broken peer costs its own connection. Without the guard the short version vector ends the process.
func TestBrokenPeerHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		a := server(t, n, "a", "h1:1")
		b := server(t, n, "b", "h2:1", "h1:1")
		hostile := n.listen(t, "evil:1", "evil")
		defer hostile.Close()
		say := func(message []byte) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			c, err := hostile.Dial(ctx, "h1:1", "")
			if err != nil {
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Second))
			_, _ = c.Write(message)
			_, _ = io.Copy(io.Discard, c)
		}
		say(pushPull(1, []byte{1, 5, 2}))
		say(pushPull(1, nil))
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			junk := make([]byte, 1+rnd.IntN(100))
			for i := range junk {
				junk[i] = byte(rnd.Uint32())
			}
			junk[0] = byte(rnd.IntN(14))
			say(junk)
			_ = hostile.WritePacket(junk, "h1:1")
		}
		time.Sleep(20 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1", a, b)
	})
}

// A stream that says nothing is given up, and more than a bounded number are not held.
func TestSilentStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet()
		a := server(t, n, "a", "h1:1")
		hostile := n.listen(t, "evil:1", "evil")
		defer hostile.Close()
		var open []net.Conn
		for range maxStreams + 20 {
			c, err := hostile.Dial(context.Background(), "h1:1", "")
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
		synctest.Wait()
		refused := 0
		for _, c := range open {
			_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
			if _, err := c.Read(make([]byte, 1)); err == io.EOF {
				refused++
			}
		}
		if refused != 20 {
			t.Errorf("%d of %d refused at once", refused, len(open))
		}
		time.Sleep(2 * tcpTimeout)
		b := server(t, n, "b", "h2:1", "h1:1")
		time.Sleep(2 * time.Second)
		wantAlive(t, "a@h1:1 b@h2:1", a, b)
		for _, c := range open {
			_ = c.Close()
		}
	})
}

func TestAckPacketIsWhatMemberlistReads(t *testing.T) {
	b := ackPacket(0x01020304)
	i := bytes.IndexByte(b, 0xce)
	if binary.BigEndian.Uint32(b[i+1:]) != 0x01020304 || b[len(b)-1] != 0xc0 {
		t.Errorf("%x", b)
	}
}
