package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"heddle/ib"
	"heddle/store"
)

// Sizes of the encoding in bytes.
const (
	// MaxEntry is the largest encoding of an entry. Apply of more operations is refused.
	MaxEntry = 256 << 20

	version    = 1
	flagBegin  = 1 << 0
	headerLen  = 40 // version, flags, 2 reserved, length, term (number, owner), number, wall
	trailerLen = 4  // CRC-32C of all before
	markLen    = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends the encoding of e to b. It fails if e has an operation that no correct
// manager makes, or is larger than MaxEntry.
func Append(b []byte, e *Entry) ([]byte, error) {
	start := len(b)
	flags := byte(0)
	if e.Begin != nil {
		flags |= flagBegin
	}
	b = append(b, version, flags, 0, 0, 0, 0, 0, 0)
	b = AppendMark(b, e.Mark)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Wall))
	if e.Begin != nil {
		if len(e.Begin.Reason) > MaxReason {
			return nil, fmt.Errorf("journal: a reason of %d bytes is longer than %d", len(e.Begin.Reason), MaxReason)
		}
		b = AppendMark(b, e.Begin.Had)
		b = binary.BigEndian.AppendUint16(b, uint16(len(e.Begin.Reason)))
		b = append(b, e.Begin.Reason...)
	}
	for i := range e.Ops {
		if err := e.Ops[i].Check(); err != nil {
			return nil, err
		}
		b = appendOp(b, &e.Ops[i])
	}
	n := len(b) - start + trailerLen
	if n > MaxEntry {
		return nil, fmt.Errorf("journal: an entry of %d bytes is larger than %d", n, MaxEntry)
	}
	binary.BigEndian.PutUint32(b[start+4:], uint32(n))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli)), nil
}

// AppendMark appends the 24 bytes of a mark: term number, owner, entry number.
func AppendMark(b []byte, m Mark) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Term.Number)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Term.Owner))
	return binary.BigEndian.AppendUint64(b, m.Number)
}

// DecodeMark reads the mark at the beginning of b.
func DecodeMark(b []byte) (Mark, error) {
	if len(b) < markLen {
		return Mark{}, fmt.Errorf("journal: a mark has %d bytes, not %d", markLen, len(b))
	}
	return Mark{
		Term:   Term{binary.BigEndian.Uint64(b), ib.GUID(binary.BigEndian.Uint64(b[8:]))},
		Number: binary.BigEndian.Uint64(b[16:]),
	}, nil
}

func appendOp(b []byte, o *store.Op) []byte {
	b = append(b, byte(o.Kind))
	switch o.Kind {
	case store.PutLID:
		b = binary.BigEndian.AppendUint64(b, uint64(o.GUID))
		b = append(binary.BigEndian.AppendUint16(b, uint16(o.LID)), o.LMC)
	case store.DeleteLID, store.DeleteMKey:
		b = binary.BigEndian.AppendUint64(b, uint64(o.GUID))
	case store.PutMKey:
		b = binary.BigEndian.AppendUint64(b, uint64(o.GUID))
		b = binary.BigEndian.AppendUint64(b, uint64(o.MKey))
	case store.PutNeighbor:
		b = append(binary.BigEndian.AppendUint64(b, uint64(o.GUID)), o.Port)
		b = binary.BigEndian.AppendUint64(b, uint64(o.Peer))
	case store.DeleteNeighbor:
		b = append(binary.BigEndian.AppendUint64(b, uint64(o.GUID)), o.Port)
	case store.PutRecord:
		b = append(b, byte(o.Record.Table))
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.Record.Key)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(o.Record.Value)))
		b = append(append(b, o.Record.Key...), o.Record.Value...)
	case store.DeleteRecord:
		b = append(b, byte(o.Record.Table))
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.Record.Key)))
		b = append(b, o.Record.Key...)
	}
	return b
}

// Errors of Decode.
var (
	// ErrShort: b ends before the entry does.
	ErrShort = errors.New("journal: the entry is cut off")
	// ErrChecksum: the entry was damaged.
	ErrChecksum = errors.New("journal: the entry fails its checksum")
)

// Decode reads the entry at the beginning of b and returns its length. The entry shares b's
// bytes. A version that this program does not know is an error that says so.
func Decode(b []byte) (e Entry, n int, err error) {
	if len(b) < headerLen+trailerLen {
		return Entry{}, 0, ErrShort
	}
	if b[0] != version {
		return Entry{}, 0, fmt.Errorf("journal: entry of version %d, this program knows version %d: use the version of heddle that wrote it", b[0], version)
	}
	n = int(binary.BigEndian.Uint32(b[4:]))
	switch {
	case n < headerLen+trailerLen || n > MaxEntry:
		return Entry{}, 0, fmt.Errorf("journal: an entry cannot have %d bytes", n)
	case n > len(b):
		return Entry{}, 0, ErrShort
	case crc32.Checksum(b[:n-trailerLen], castagnoli) != binary.BigEndian.Uint32(b[n-trailerLen:]):
		return Entry{}, 0, ErrChecksum
	case b[1]&^flagBegin != 0 || b[2] != 0 || b[3] != 0:
		return Entry{}, 0, fmt.Errorf("journal: unknown flags %x", b[1:4])
	}
	e.Mark, _ = DecodeMark(b[8:])
	e.Wall = int64(binary.BigEndian.Uint64(b[8+markLen:]))
	d := reader{b: b[headerLen : n-trailerLen]}
	if b[1]&flagBegin != 0 {
		had, _ := DecodeMark(d.take(markLen))
		e.Begin = &Begin{Had: had, Reason: string(d.take(int(d.uint16())))}
		if len(e.Begin.Reason) > MaxReason {
			return Entry{}, 0, fmt.Errorf("journal: a reason of %d bytes is longer than %d", len(e.Begin.Reason), MaxReason)
		}
	}
	for len(d.b) > 0 && !d.short {
		o := d.op()
		if d.short {
			break
		}
		if err := o.Check(); err != nil {
			return Entry{}, 0, fmt.Errorf("journal: entry %d: %w", e.Number, err)
		}
		e.Ops = append(e.Ops, o)
	}
	if d.short {
		return Entry{}, 0, fmt.Errorf("journal: entry %d: an operation is cut off", e.Number)
	}
	return e, n, nil
}

// reader takes values from the front of b. After the end all are zero, and short is set.
type reader struct {
	b     []byte
	short bool
}

func (d *reader) take(n int) []byte {
	if n > len(d.b) {
		d.short, d.b = true, nil
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *reader) uint8() uint8 {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *reader) uint16() uint16 {
	if v := d.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (d *reader) uint32() uint32 {
	if v := d.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (d *reader) uint64() uint64 {
	if v := d.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (d *reader) op() store.Op {
	o := store.Op{Kind: store.OpKind(d.uint8())}
	switch o.Kind {
	case store.PutLID:
		o.GUID, o.LID, o.LMC = ib.GUID(d.uint64()), ib.LID(d.uint16()), d.uint8()
	case store.DeleteLID, store.DeleteMKey:
		o.GUID = ib.GUID(d.uint64())
	case store.PutMKey:
		o.GUID, o.MKey = ib.GUID(d.uint64()), ib.MKey(d.uint64())
	case store.PutNeighbor:
		o.GUID, o.Port, o.Peer = ib.GUID(d.uint64()), d.uint8(), ib.GUID(d.uint64())
	case store.DeleteNeighbor:
		o.GUID, o.Port = ib.GUID(d.uint64()), d.uint8()
	case store.PutRecord:
		o.Record.Table = store.Table(d.uint8())
		k, v := int(d.uint16()), int(d.uint32())
		o.Record.Key, o.Record.Value = d.take(k), d.take(v)
	case store.DeleteRecord:
		o.Record.Table = store.Table(d.uint8())
		o.Record.Key = d.take(int(d.uint16()))
	}
	return o
}
