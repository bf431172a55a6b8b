package gossip

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net"
)

// memberlist's message types, as far as this package lets them in. What we never send is refused: user messages,
// compression (a small message may unpack to gigabytes) and encryption.
const (
	msgPing         = 0
	msgIndirectPing = 1
	msgAck          = 2
	msgSuspect      = 3
	msgAlive        = 4
	msgDead         = 5
	msgPushPull     = 6
	msgCompound     = 7
	msgNack         = 11
	msgCRC          = 12
	msgErr          = 13
)

const (
	maxNodes = 1024 // in one exchange of state
	vsnLen   = 6    // memberlist indexes up to Vsn[5] without looking
)

var errMalformed = errors.New("gossip: malformed message")

// packetOK says whether memberlist may see a packet.
func packetOK(b []byte) bool {
	if len(b) > 5 && b[0] == msgCRC {
		b = b[5:]
	}
	if len(b) > 1 && b[0] == msgCompound {
		return compoundOK(b[1:])
	}
	return simpleOK(b)
}

func simpleOK(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	switch b[0] {
	case msgPing, msgIndirectPing, msgAck, msgSuspect, msgAlive, msgDead, msgNack:
		return true
	}
	return false
}

// compoundOK checks every part: a count, that many 16-bit lengths, the parts. They do not nest.
func compoundOK(b []byte) bool {
	count := int(b[0])
	if len(b) < 1+2*count {
		return false
	}
	lengths, parts := b[1:1+2*count], b[1+2*count:]
	for ; len(lengths) > 0; lengths = lengths[2:] {
		n := int(binary.BigEndian.Uint16(lengths))
		if n > len(parts) || !simpleOK(parts[:n]) {
			return false
		}
		parts = parts[n:]
	}
	return true
}

// guarded is a stream of which memberlist reads one message, once all of it has arrived and has the right shape.
type guarded struct {
	net.Conn
	closed func()
	scan   *scanner
	err    error // of the check, once made
}

func (c *guarded) Read(p []byte) (int, error) {
	if c.scan == nil {
		c.scan = &scanner{in: bufio.NewReader(c.Conn)}
		c.err = c.scan.scanMessage()
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.scan.seen.Len() > 0 {
		return c.scan.seen.Read(p)
	}
	return c.scan.in.Read(p)
}

func (c *guarded) Close() error {
	c.closed()
	return c.Conn.Close()
}

// pingSeq finds the sequence number in a packet that carries a ping, which comes first if there are several messages.
func pingSeq(b []byte) (seq uint32, ok bool) {
	if len(b) > 5 && b[0] == msgCRC {
		b = b[5:]
	}
	if len(b) > 1 && b[0] == msgCompound {
		b = b[min(2+2*int(b[1]), len(b)):]
	}
	if len(b) == 0 || b[0] != msgPing {
		return 0, false
	}
	s := scanner{in: bufio.NewReader(bytes.NewReader(b[1:]))}
	err := s.scanMap(func(key string, v scalar) error {
		if key == "SeqNo" {
			seq, ok = uint32(v.number), true
		}
		return nil
	})
	return seq, ok && err == nil
}

// ackPacket is the answer to the ping of that number.
func ackPacket(seq uint32) []byte {
	b := append([]byte{msgAck, 0x82, 0xa5}, "SeqNo"...)
	b = binary.BigEndian.AppendUint32(append(b, 0xce), seq)
	return append(append(b, 0xa7), "Payload\xc0"...)
}
