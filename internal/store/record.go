package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// maxRecord bounds the bytes of an identity or peers file that is read or written.
const maxRecord = 1 << 20

// frame puts a line before the JSON of v: "coord KIND VERSION CRC-32C", the checksum being over the kind, the version and
// the JSON. The line keeps this form in every later version.
func frame(kind string, version int, v any) ([]byte, error) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	data := append(fmt.Appendf(nil, "coord %s %d %08x\n", kind, version, frameSum(kind, version, body)), body...)
	if len(data) > maxRecord {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", kind, len(data), maxRecord)
	}
	return data, nil
}

// unframe checks the line and decodes the JSON into v. It reads the versions 1 to newest, which it returns.
func unframe(data []byte, kind string, newest int, v any) (version int, err error) {
	line, body, ok := bytes.Cut(data, []byte("\n"))
	var gotKind string
	var sum uint32
	if n, err := fmt.Sscanf(string(line[:min(len(line), 64)]), "coord %s %d %x", &gotKind, &version, &sum); n != 3 || err != nil || !ok {
		return 0, fmt.Errorf("%w: it does not begin with the line of a %s file", ErrDamaged, kind)
	}
	if computed := frameSum(gotKind, version, body); computed != sum {
		return 0, fmt.Errorf("%w: checksum %08x, not %08x", ErrDamaged, computed, sum)
	}
	if want := fmt.Sprintf("coord %s %d %08x", gotKind, version, sum); string(line) != want || gotKind != kind || version < 1 {
		return 0, fmt.Errorf("%w: it is not a %s file", ErrDamaged, kind)
	}
	if version > newest {
		return 0, fmt.Errorf("%w: version %d, this program reads up to %d", ErrNewer, version, newest)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if dec.More() {
		return 0, fmt.Errorf("%w: more than one JSON value", ErrDamaged)
	}
	return version, nil
}

func frameSum(kind string, version int, body []byte) uint32 {
	sum := crc32.Checksum(fmt.Appendf(nil, "%s %d\n", kind, version), castagnoli)
	return crc32.Update(sum, castagnoli, body)
}
