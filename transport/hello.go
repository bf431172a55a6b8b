package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Version is the protocol version that this code speaks. It reads every older one. What it may read of a newer one
// is only that it is newer.
const Version = 1

// What can be wrong with a peer. Dial's error wraps one of them, whichever end found it.
var (
	ErrHandshake = errors.New("not a valid handshake")          // the other end speaks something else
	ErrVersion   = errors.New("protocol version too new")       // one end must be upgraded
	ErrCell      = errors.New("wrong cell")                     // name or id differ, or a raft stream before there is an id
	ErrGroup     = errors.New("wrong group")                    // of the same cell
	ErrIdentity  = errors.New("wrong node")                     // another node lives at that address now
	ErrKind      = errors.New("unknown kind of stream")         // the other end does not know it
	ErrBusy      = errors.New("too many streams not yet taken") // the other end's program is behind; try again later
)

// Kind says what a stream carries. It is the first byte on the wire. Values from 32 on, and 22, with which TLS
// begins, are never used.
type Kind byte

const (
	KindGossip Kind = 1 + iota
	KindRaft        // only between nodes of the same formed cell
	KindCalls

	kindEnd
)

func (k Kind) String() string {
	switch k {
	case KindGossip:
		return "gossip"
	case KindRaft:
		return "raft"
	case KindCalls:
		return "calls"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// Hello is how a node introduces itself.
type Hello struct {
	Version uint8    // of the protocol; 1 … Version
	Cell    string   // the cell's name, 1 to 255 bytes of UTF-8
	CellID  [16]byte // zero: the cell is not formed yet, or the node does not know
	Group   uint32   // raft group
	Node    string   // the node's id, 1 to 255 bytes of UTF-8
	Boot    uint64   // random for each start of the process
	Expect  string   // id that a dialler expects at the other end; "": any
}

// A message of the handshake: 4 bytes magic, version, code, length of the body as 2 bytes, body. This much is the
// same in every version, and so is the body of a refusal: a text for people. The body of a Hello may be longer in
// later versions; what follows the known fields is skipped.
//
//	dialler → accepter: kind (1 byte), Hello
//	accepter → dialler: Hello, or a refusal with the code of the error
const (
	magic          = "\xc0crd"
	headerSize     = 8
	maxMessage     = 1024 // bytes, header included
	maxName        = 255  // bytes: cell and node
	maxRefusalText = 255  // bytes
)

// Codes of messages; those of refusals are never changed either.
const (
	codeHello byte = iota
	codeHandshake
	codeVersion
	codeCell
	codeGroup
	codeIdentity
	codeKind
	codeBusy
)

// refusals pairs each refusal's code with its error.
func refusals() map[byte]error {
	return map[byte]error{
		codeHandshake: ErrHandshake,
		codeVersion:   ErrVersion,
		codeCell:      ErrCell,
		codeGroup:     ErrGroup,
		codeIdentity:  ErrIdentity,
		codeKind:      ErrKind,
		codeBusy:      ErrBusy,
	}
}

// appendHello appends the message that h is on the wire.
func appendHello(b []byte, h Hello) []byte {
	body := append([]byte(nil), h.CellID[:]...)
	body = binary.BigEndian.AppendUint32(body, h.Group)
	body = binary.BigEndian.AppendUint64(body, h.Boot)
	for _, s := range []string{h.Cell, h.Node, h.Expect} {
		body = append(body, byte(len(s)))
		body = append(body, s...)
	}
	return appendMessage(b, h.Version, codeHello, body)
}

// appendRefusal appends the message that tells a dialler why.
func appendRefusal(b []byte, reason error) []byte {
	code := codeHandshake
	for c, err := range refusals() {
		if errors.Is(reason, err) {
			code = c
		}
	}
	text := reason.Error()
	return appendMessage(b, Version, code, []byte(text[:min(len(text), maxRefusalText)]))
}

func appendMessage(b []byte, version, code byte, body []byte) []byte {
	b = append(b, magic...)
	b = append(b, version, code)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

// readHello reads one message and not a byte more. A refusal becomes its error.
func readHello(r io.Reader) (Hello, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Hello{}, fmt.Errorf("handshake: %w", err)
	}
	version, code := header[4], header[5]
	length := int(binary.BigEndian.Uint16(header[6:]))
	switch {
	case string(header[:4]) != magic:
		return Hello{}, fmt.Errorf("%w: it begins with %q", ErrHandshake, header[:4])
	case length > maxMessage-headerSize:
		return Hello{}, fmt.Errorf("%w: %d bytes, the most is %d", ErrHandshake, length, maxMessage-headerSize)
	case code == codeHello && version > Version:
		return Hello{}, fmt.Errorf("%w: the peer speaks version %d, this node up to %d", ErrVersion, version, Version)
	case version == 0:
		return Hello{}, fmt.Errorf("%w: version 0", ErrHandshake)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return Hello{}, fmt.Errorf("handshake: %w", err)
	}
	if code != codeHello {
		return Hello{}, refusal(code, body)
	}
	return decodeHello(version, body)
}

// refusal is the error for what the other end said; its text is quoted, since nobody knows who wrote it.
func refusal(code byte, text []byte) error {
	reason := refusals()[code]
	if reason == nil {
		return fmt.Errorf("%w: refused with unknown code %d: %.255q", ErrHandshake, code, text)
	}
	return fmt.Errorf("refused by the peer: %w: %.255q", reason, text)
}

func decodeHello(version byte, body []byte) (Hello, error) {
	h := Hello{Version: version}
	const fixed = 16 + 4 + 8
	if len(body) < fixed {
		return Hello{}, fmt.Errorf("%w: a hello of %d bytes", ErrHandshake, len(body))
	}
	copy(h.CellID[:], body)
	h.Group = binary.BigEndian.Uint32(body[16:])
	h.Boot = binary.BigEndian.Uint64(body[20:])
	body = body[fixed:]
	for _, s := range []*string{&h.Cell, &h.Node, &h.Expect} {
		if len(body) == 0 || len(body)-1 < int(body[0]) {
			return Hello{}, fmt.Errorf("%w: a hello cut short", ErrHandshake)
		}
		n := 1 + int(body[0])
		*s, body = string(body[1:n]), body[n:]
	}
	return h, h.check()
}

// check tells whether h can be sent and accepted at all.
func (h Hello) check() error {
	if err := checkName("cell name", h.Cell); err != nil {
		return err
	}
	if err := checkName("node id", h.Node); err != nil {
		return err
	}
	if h.Expect != "" {
		return checkName("expected node id", h.Expect)
	}
	return nil
}

func checkName(what, name string) error {
	if len(name) == 0 || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: %s %.40q must be 1 to %d bytes of UTF-8", ErrHandshake, what, name, maxName)
	}
	return nil
}

// admit tells whether a node that says own may talk with one that says peer. Both ends ask it.
func admit(kind Kind, own, peer Hello) error {
	switch {
	case own.Cell != peer.Cell:
		return fmt.Errorf("%w: this node is of cell %q, the peer of %q", ErrCell, own.Cell, peer.Cell)
	case own.Group != peer.Group:
		return fmt.Errorf("%w: this node is of group %d, the peer of %d", ErrGroup, own.Group, peer.Group)
	case peer.Expect != "" && peer.Expect != own.Node:
		return fmt.Errorf("%w: this is %q, the peer wants %q", ErrIdentity, own.Node, peer.Expect)
	case own.Expect != "" && own.Expect != peer.Node:
		return fmt.Errorf("%w: the peer is %q, this node wants %q", ErrIdentity, peer.Node, own.Expect)
	}
	return admitCellID(kind, own.CellID, peer.CellID)
}

// admitCellID is the part of admit that may change during the life of a stream.
func admitCellID(kind Kind, own, peer [16]byte) error {
	var none [16]byte
	switch {
	case own != none && peer != none && own != peer:
		return fmt.Errorf("%w: the cell id of this node is %x, that of the peer %x", ErrCell, own, peer)
	case kind == KindRaft && own == none:
		return fmt.Errorf("%w: this node's cell is not formed yet", ErrCell)
	case kind == KindRaft && peer == none:
		return fmt.Errorf("%w: the peer's cell is not formed yet", ErrCell)
	}
	return nil
}
