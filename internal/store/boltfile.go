package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
)

// The file format of bbolt, version 2: pages of one size, in the byte order of the machine. The first two are metas, of
// which the valid one with the higher transaction counts; it names the root page of a B+ tree whose leaves hold keys and
// buckets, which are trees of their own.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	boltHeader  = 16 // id u64, flags u16, count u16, overflow u32
	boltElement = 16 // branch: pos u32, key size u32, page u64; leaf: flags u32, pos u32, key size u32, value size u32
	boltMeta    = 64 // magic, version, page size, flags u32; root, sequence, freelist, pages, transaction, checksum u64
	boltBucket  = 16 // root page u64, 0 if its only page follows; sequence u64

	boltBranch = 0x01
	boltLeaf   = 0x02

	boltMaxPage = 64 << 10
)

// boltFile reads a bbolt file to see that its pages make a tree. bbolt itself would find out while it opens the file, and
// panic about some faults on a goroutine of its own, where nobody can recover.
type boltFile struct {
	f        *os.File
	pageSize uint64
	pages    uint64 // in use
	seen     []bool
}

// checkBolt returns nil for a file that bbolt can open, and that it would make or initialise itself.
func checkBolt(path string) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	b := &boltFile{f: f}
	root, err := b.readMeta(uint64(info.Size()))
	if err != nil {
		return err
	}
	return b.checkTree(root, nil, nil)
}

// readMeta finds the meta that bbolt would choose.
func (b *boltFile) readMeta(size uint64) (root uint64, err error) {
	var newest []byte
	offsets := []uint64{0}
	for ps := uint64(1024); ps <= boltMaxPage; ps *= 2 {
		offsets = append(offsets, ps) // the second page, if pages have that size
	}
	for _, at := range offsets {
		meta := make([]byte, boltMeta)
		if _, err := b.f.ReadAt(meta, int64(at+boltHeader)); err != nil {
			break // the end of the file
		}
		if !validMeta(meta) || at != 0 && uint64(word32(meta, 8)) != at {
			continue
		}
		if newest == nil || word64(meta, 48) > word64(newest, 48) {
			newest = meta
		}
	}
	if newest == nil {
		return 0, fmt.Errorf("%w: neither of bbolt's two meta pages is valid", ErrDamaged)
	}
	b.pageSize, b.pages = uint64(word32(newest, 8)), word64(newest, 40)
	if b.pageSize < 1024 || b.pageSize > boltMaxPage || b.pages > size/b.pageSize {
		return 0, fmt.Errorf("%w: %d pages of %d bytes are in use, but the file has %d bytes", ErrDamaged, b.pages, b.pageSize, size)
	}
	b.seen = make([]bool, b.pages)
	return word64(newest, 16), nil
}

func validMeta(m []byte) bool {
	sum := fnv.New64a()
	sum.Write(m[:boltMeta-8])
	return word32(m, 0) == boltMagic && word32(m, 4) == boltVersion && word64(m, boltMeta-8) == sum.Sum64()
}

// checkTree checks the page id and all below it, whose keys must be from low up to, but not including, high. nil is no
// bound. It ends, because no page may be seen twice.
func (b *boltFile) checkTree(id uint64, low, high []byte) error {
	page, err := b.page(id)
	if err != nil {
		return err
	}
	flags, keys, err := pageKeys(page, id)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if low != nil && bytes.Compare(key, low) < 0 || i > 0 && bytes.Compare(key, keys[i-1]) <= 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return fmt.Errorf("%w: key %d of page %d is out of order", ErrDamaged, i, id)
		}
	}
	for i := range keys {
		element := page[boltHeader+i*boltElement:]
		if flags == boltBranch {
			next := high
			if i+1 < len(keys) {
				next = keys[i+1]
			}
			err = b.checkTree(word64(element, 8), keys[i], next)
		} else if word32(element, 0) != 0 {
			err = b.checkBucket(leafValue(element), id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *boltFile) checkBucket(value []byte, id uint64) error {
	if len(value) < boltBucket {
		return fmt.Errorf("%w: a bucket in page %d has %d bytes", ErrDamaged, id, len(value))
	}
	if root := word64(value, 0); root != 0 {
		return b.checkTree(root, nil, nil)
	}
	flags, _, err := pageKeys(value[boltBucket:], id)
	if err == nil && flags != boltLeaf {
		err = fmt.Errorf("%w: a bucket in page %d has pages of its own", ErrDamaged, id)
	}
	return err
}

// page reads a page with those that continue it.
func (b *boltFile) page(id uint64) ([]byte, error) {
	header := make([]byte, boltHeader)
	if id < 2 || id >= b.pages {
		return nil, fmt.Errorf("%w: page %d is not among the %d pages", ErrDamaged, id, b.pages)
	}
	if _, err := b.f.ReadAt(header, int64(id*b.pageSize)); err != nil {
		return nil, err
	}
	more := uint64(word32(header, 12))
	if word64(header, 0) != id || more >= b.pages-id {
		return nil, fmt.Errorf("%w: page %d says it is page %d and %d more", ErrDamaged, id, word64(header, 0), more)
	}
	for i := id; i <= id+more; i++ {
		if b.seen[i] {
			return nil, fmt.Errorf("%w: page %d is used twice", ErrDamaged, i)
		}
		b.seen[i] = true
	}
	page := make([]byte, (more+1)*b.pageSize)
	_, err := b.f.ReadAt(page, int64(id*b.pageSize))
	return page, err
}

// pageKeys returns the keys of a page, having checked that they and the values are inside it.
func pageKeys(page []byte, id uint64) (flags uint16, keys [][]byte, err error) {
	if len(page) < boltHeader {
		return 0, nil, fmt.Errorf("%w: page %d ends in its header", ErrDamaged, id)
	}
	flags = binary.NativeEndian.Uint16(page[8:])
	count := int(binary.NativeEndian.Uint16(page[10:]))
	if flags != boltBranch && flags != boltLeaf || flags == boltBranch && count == 0 || boltHeader+count*boltElement > len(page) {
		return 0, nil, fmt.Errorf("%w: page %d has flags %#x and %d elements", ErrDamaged, id, flags, count)
	}
	keys = make([][]byte, count)
	for i := range keys {
		at := uint64(boltHeader + i*boltElement)
		element := page[at:]
		pos, size, value := uint64(word32(element, 0)), uint64(word32(element, 4)), uint64(0)
		if flags == boltLeaf {
			pos, size, value = uint64(word32(element, 4)), uint64(word32(element, 8)), uint64(word32(element, 12))
		}
		if at+pos+size+value > uint64(len(page)) || pos < boltElement || flags == boltLeaf && word32(element, 0) > 1 {
			return 0, nil, fmt.Errorf("%w: element %d of page %d reaches out of it", ErrDamaged, i, id)
		}
		keys[i] = page[at+pos : at+pos+size]
	}
	return flags, keys, nil
}

// leafValue is the value of an element of a leaf, which pageKeys has checked.
func leafValue(element []byte) []byte {
	start := uint64(word32(element, 4)) + uint64(word32(element, 8))
	return element[start : start+uint64(word32(element, 12))]
}

func word32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
func word64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
