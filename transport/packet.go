package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// PacketOverhead is what the Mux adds to each packet, in bytes: two of magic, a version, a zero, and four of a hash
// of the cell's name.
const PacketOverhead = 8

const packetVersion = 1

// packetMark is what the packets of a cell begin with.
type packetMark [PacketOverhead]byte

func newPacketMark(cell string) packetMark {
	mark := packetMark{0xc0, 'p', packetVersion, 0}
	h := fnv.New32a()
	h.Write([]byte(cell))
	binary.BigEndian.PutUint32(mark[4:], h.Sum32())
	return mark
}

// WritePacket sends b as one packet to the Mux at addr. It may be lost, doubled or overtaken.
func (m *Mux) WritePacket(b []byte, addr string) error {
	packet := make([]byte, 0, PacketOverhead+len(b))
	packet = append(packet, m.mark[:]...)
	return m.ep.WritePacket(append(packet, b...), addr)
}

// ReadPacket waits for the next packet of this cell and says where it came from. b needs room for PacketOverhead
// more than the longest packet. Others are dropped and counted. After Close it returns net.ErrClosed.
func (m *Mux) ReadPacket(b []byte) (n int, from string, err error) {
	if len(b) < PacketOverhead {
		return 0, "", fmt.Errorf("read packet: a buffer of %d bytes; it needs more than %d", len(b), PacketOverhead)
	}
	for {
		n, from, err := m.ep.ReadPacket(b)
		if err != nil {
			return 0, "", err
		}
		if !bytes.HasPrefix(b[:n], m.mark[:]) {
			m.foreign.Add(1)
			continue
		}
		return copy(b, b[PacketOverhead:n]), from, nil
	}
}
