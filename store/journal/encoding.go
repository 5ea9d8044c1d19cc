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

	flagBegin  = 1 << 0
	headerLen  = 40 // version, flags, 2 reserved, length, term (number, owner), number, wall
	trailerLen = 4  // CRC-32C of all before
	markLen    = 24
)

// linked is the range of versions of a build for tests; see Linked.
var linked string

// Versions of the encoding. An entry is written in the oldest one that can have it, so that a program of an older
// version can go on with a state in which nothing is newer.
const (
	versionFirst  = 1
	versionTables = 2 // tokens of the API, and links that are out of use
)

var versions = Linked(linked, Range{Oldest: versionFirst, Newest: versionTables})

// Versions are the versions of the encoding that this program reads and writes.
func Versions() Range { return versions }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Needs is the oldest version whose programs can carry out an operation.
func Needs(o *store.Op) uint8 {
	switch o.Kind {
	case store.PutRecord, store.DeleteRecord:
		if o.Record.Table.Format() > 3 {
			return versionTables
		}
	}
	return versionFirst
}

// NeededBy is Needs for all of a list.
func NeededBy(ops []store.Op) uint8 {
	v := uint8(versionFirst)
	for i := range ops {
		v = max(v, Needs(&ops[i]))
	}
	return v
}

// ErrNewer: a program of the version asked for cannot carry out the entry.
var ErrNewer = errors.New("journal: the entry needs a newer version")

// Append appends the encoding of e to b, in the oldest version that can have it. It fails if e has an
// operation that no correct manager makes, or is larger than MaxEntry.
func Append(b []byte, e *Entry) ([]byte, error) { return AppendAs(b, e, versions.Newest) }

// AppendAs is Append for a program whose newest version is most, one of Versions. It fails with ErrNewer
// if that program cannot carry out the entry.
func AppendAs(b []byte, e *Entry, most uint8) ([]byte, error) {
	if !versions.Has(most) {
		return nil, fmt.Errorf("journal: this program writes no entry of version %d", most)
	}
	v := max(NeededBy(e.Ops), versions.Oldest)
	if v > most {
		return nil, fmt.Errorf("%w: %d, not %d", ErrNewer, v, most)
	}
	start := len(b)
	flags := byte(0)
	if e.Begin != nil {
		flags |= flagBegin
	}
	b = append(b, v, flags, 0, 0, 0, 0, 0, 0)
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
	d := Reader{B: b}
	m := d.Mark()
	if d.Short {
		return Mark{}, fmt.Errorf("journal: a mark has %d bytes, not %d", markLen, len(b))
	}
	return m, nil
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
	if !versions.Has(b[0]) {
		return Entry{}, 0, fmt.Errorf("journal: entry of version %d, this program knows version %v: use the version of heddle that wrote it", b[0], versions)
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
	d := Reader{B: b[headerLen : n-trailerLen]}
	if b[1]&flagBegin != 0 {
		e.Begin = &Begin{Had: d.Mark(), Reason: string(d.Take(int(d.Uint16())))}
		if len(e.Begin.Reason) > MaxReason {
			return Entry{}, 0, fmt.Errorf("journal: a reason of %d bytes is longer than %d", len(e.Begin.Reason), MaxReason)
		}
	}
	for len(d.B) > 0 && !d.Short {
		o := d.op()
		if d.Short {
			break
		}
		if err := o.Check(); err != nil {
			return Entry{}, 0, fmt.Errorf("journal: entry %d: %w", e.Number, err)
		}
		e.Ops = append(e.Ops, o)
	}
	if d.Short {
		return Entry{}, 0, fmt.Errorf("journal: entry %d: an operation is cut off", e.Number)
	}
	return e, n, nil
}

func (d *Reader) op() store.Op {
	o := store.Op{Kind: store.OpKind(d.Uint8())}
	switch o.Kind {
	case store.PutLID:
		o.GUID, o.LID, o.LMC = ib.GUID(d.Uint64()), ib.LID(d.Uint16()), d.Uint8()
	case store.DeleteLID, store.DeleteMKey:
		o.GUID = ib.GUID(d.Uint64())
	case store.PutMKey:
		o.GUID, o.MKey = ib.GUID(d.Uint64()), ib.MKey(d.Uint64())
	case store.PutNeighbor:
		o.GUID, o.Port, o.Peer = ib.GUID(d.Uint64()), d.Uint8(), ib.GUID(d.Uint64())
	case store.DeleteNeighbor:
		o.GUID, o.Port = ib.GUID(d.Uint64()), d.Uint8()
	case store.PutRecord:
		o.Record.Table = store.Table(d.Uint8())
		k, v := int(d.Uint16()), int(d.Uint32())
		o.Record.Key, o.Record.Value = d.Take(k), d.Take(v)
	case store.DeleteRecord:
		o.Record.Table = store.Table(d.Uint8())
		o.Record.Key = d.Take(int(d.Uint16()))
	}
	return o
}
