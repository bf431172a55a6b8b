package gossip

import (
	"bufio"
	"bytes"
	"fmt"
)

const (
	maxString  = 1024    // bytes of one field
	maxMessage = 1 << 20 // bytes of one message on a stream
	maxFields  = 32      // of one map
)

// scanner reads the little of msgpack that memberlist's messages consist of, and keeps what it has read.
type scanner struct {
	in   *bufio.Reader
	seen bytes.Buffer
}

func (s *scanner) scanMessage() error {
	kind, err := s.take(1)
	if err != nil {
		return err
	}
	switch kind[0] {
	case msgPing, msgAck, msgErr:
		return s.scanMap(func(string, scalar) error { return nil })
	case msgPushPull:
		return s.scanPushPull()
	}
	return fmt.Errorf("%w: type %d", errMalformed, kind[0])
}

// scanPushPull checks a header and the nodes that it announces.
func (s *scanner) scanPushPull() error {
	var nodes uint64
	err := s.scanMap(func(key string, v scalar) error {
		switch {
		case key == "Nodes" && v.number <= maxNodes:
			nodes = v.number
		case key == "Nodes":
			return fmt.Errorf("%w: %d nodes, at most %d", errMalformed, v.number, maxNodes)
		case key == "UserStateLen" && v.number != 0:
			return fmt.Errorf("%w: user state", errMalformed)
		}
		return nil
	})
	for ; err == nil && nodes > 0; nodes-- {
		err = s.scanMap(func(key string, v scalar) error {
			if key == "Vsn" && v.length != 0 && v.length < vsnLen {
				return fmt.Errorf("%w: version vector of %d bytes", errMalformed, v.length)
			}
			return nil
		})
	}
	return err
}

// scalar is a msgpack value that is no container: nil, a boolean, a number that is not negative, or a string.
type scalar struct {
	number uint64
	length int
}

// scanMap reads one msgpack map of strings to scalars and shows each pair to field.
func (s *scanner) scanMap(field func(key string, v scalar) error) error {
	head, err := s.take(1)
	if err != nil {
		return err
	}
	var n uint64
	switch b := head[0]; {
	case b&0xf0 == 0x80:
		n = uint64(b & 0x0f)
	case b == 0xde:
		if n, err = s.takeUint(2); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: no map but %#x", errMalformed, b)
	}
	if n > maxFields {
		return fmt.Errorf("%w: %d fields", errMalformed, n)
	}
	for ; n > 0; n-- {
		start := s.seen.Len()
		key, err := s.scanScalar()
		if err != nil {
			return err
		}
		name := string(s.seen.Bytes()[max(start, s.seen.Len()-key.length):])
		v, err := s.scanScalar()
		if err != nil {
			return err
		}
		if err := field(name, v); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) scanScalar() (scalar, error) {
	head, err := s.take(1)
	if err != nil {
		return scalar{}, err
	}
	switch b := head[0]; {
	case b < 0x80: // positive fixint
		return scalar{number: uint64(b)}, nil
	case b >= 0xa0 && b <= 0xbf: // fixstr
		return s.takeString(uint64(b & 0x1f))
	case b == 0xc0, b == 0xc2, b == 0xc3: // nil, false, true
		return scalar{}, nil
	case b >= 0xc4 && b <= 0xc6: // bin8, 16, 32
		return s.takeSized(1 << (b - 0xc4))
	case b >= 0xd9 && b <= 0xdb: // str8, 16, 32
		return s.takeSized(1 << (b - 0xd9))
	case b >= 0xcc && b <= 0xcf: // uint8, 16, 32, 64
		n, err := s.takeUint(1 << (b - 0xcc))
		return scalar{number: n}, err
	case b >= 0xd0 && b <= 0xd3: // int8, 16, 32, 64
		size := 1 << (b - 0xd0)
		n, err := s.takeUint(size)
		if err == nil && n>>(8*size-1) != 0 {
			err = fmt.Errorf("%w: negative number", errMalformed)
		}
		return scalar{number: n}, err
	default:
		return scalar{}, fmt.Errorf("%w: value %#x", errMalformed, b)
	}
}

func (s *scanner) takeSized(lengthBytes int) (scalar, error) {
	n, err := s.takeUint(lengthBytes)
	if err != nil {
		return scalar{}, err
	}
	return s.takeString(n)
}

func (s *scanner) takeString(n uint64) (scalar, error) {
	if n > maxString {
		return scalar{}, fmt.Errorf("%w: field of %d bytes, at most %d", errMalformed, n, maxString)
	}
	_, err := s.take(int(n))
	return scalar{length: int(n)}, err
}

func (s *scanner) takeUint(size int) (uint64, error) {
	b, err := s.take(size)
	var n uint64
	for _, d := range b {
		n = n<<8 | uint64(d)
	}
	return n, err
}

// take moves n bytes from the stream into the message. The slice is good until the next call.
func (s *scanner) take(n int) ([]byte, error) {
	if s.seen.Len()+n > maxMessage {
		return nil, fmt.Errorf("%w: more than %d bytes", errMalformed, maxMessage)
	}
	start := s.seen.Len()
	for range n {
		b, err := s.in.ReadByte()
		if err != nil {
			return nil, err
		}
		s.seen.WriteByte(b)
	}
	return s.seen.Bytes()[start:], nil
}
