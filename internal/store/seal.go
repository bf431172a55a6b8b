package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A stored log entry ends its Extensions with a seal: one byte of version, and the CRC-32C of everything else in it.
const (
	sealVersion = 1
	sealSize    = 1 + 4
)

// sealed returns copies of entries with their seals. They share Data with the originals.
func sealed(entries []*raft.Log) []*raft.Log {
	size := 0
	for _, e := range entries {
		size += len(e.Extensions) + sealSize
	}
	seals := make([]byte, 0, size)
	copies := make([]raft.Log, len(entries))
	out := make([]*raft.Log, len(entries))
	for i, e := range entries {
		start := len(seals)
		seals = append(seals, e.Extensions...)
		seals = append(seals, sealVersion)
		seals = binary.BigEndian.AppendUint32(seals, checksum(e, e.Extensions))
		copies[i] = *e
		copies[i].Extensions = seals[start:len(seals):len(seals)]
		out[i] = &copies[i]
	}
	return out
}

// unseal checks that e is the entry that was stored at index, and removes the seal.
func unseal(e *raft.Log, index uint64) error {
	n := len(e.Extensions) - sealSize
	if n < 0 {
		return fmt.Errorf("%w: log entry %d has no checksum", ErrDamaged, index)
	}
	if v := e.Extensions[n]; v > sealVersion {
		return fmt.Errorf("%w: log entry %d has version %d, this program reads up to %d", ErrNewer, index, v, sealVersion)
	} else if v != sealVersion {
		return fmt.Errorf("%w: log entry %d has version %d", ErrDamaged, index, v)
	}
	stored := binary.BigEndian.Uint32(e.Extensions[n+1:])
	if computed := checksum(e, e.Extensions[:n]); computed != stored {
		return fmt.Errorf("%w: log entry %d has checksum %08x, not %08x", ErrDamaged, index, computed, stored)
	}
	if e.Index != index {
		return fmt.Errorf("%w: log entry %d is stored as %d", ErrDamaged, e.Index, index)
	}
	e.Extensions = e.Extensions[:n:n]
	if n == 0 {
		e.Extensions = nil
	}
	return nil
}

// checksum covers all that raft relies on; AppendedAt is for operators only, and does not keep its time zone.
func checksum(e *raft.Log, extensions []byte) uint32 {
	var head [1 + 8 + 8 + 1 + 8]byte
	head[0] = sealVersion
	binary.BigEndian.PutUint64(head[1:], e.Index)
	binary.BigEndian.PutUint64(head[9:], e.Term)
	head[17] = byte(e.Type)
	binary.BigEndian.PutUint64(head[18:], uint64(len(extensions)))
	sum := crc32.Update(0, castagnoli, head[:])
	sum = crc32.Update(sum, castagnoli, extensions)
	return crc32.Update(sum, castagnoli, e.Data)
}
