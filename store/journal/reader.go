package journal

import (
	"encoding/binary"

	"heddle/ib"
)

// Reader takes values from the front of B, as entries and messages about them have them. After the
// end all are zero, and Short is set. What Take returns shares B's bytes.
type Reader struct {
	B     []byte
	Short bool
}

// Take takes n bytes; nil if there are less.
func (d *Reader) Take(n int) []byte {
	if n > len(d.B) {
		d.Short, d.B = true, nil
		return nil
	}
	v := d.B[:n:n]
	d.B = d.B[n:]
	return v
}

// Rest takes all bytes that are left.
func (d *Reader) Rest() []byte { return d.Take(len(d.B)) }

// Uint8 takes a byte.
func (d *Reader) Uint8() uint8 {
	if v := d.Take(1); v != nil {
		return v[0]
	}
	return 0
}

// Uint16 takes 2 bytes.
func (d *Reader) Uint16() uint16 {
	if v := d.Take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

// Uint32 takes 4 bytes.
func (d *Reader) Uint32() uint32 {
	if v := d.Take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

// Uint64 takes 8 bytes.
func (d *Reader) Uint64() uint64 {
	if v := d.Take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// Term takes the 16 bytes of a term.
func (d *Reader) Term() Term { return Term{Number: d.Uint64(), Owner: ib.GUID(d.Uint64())} }

// Mark takes the 24 bytes of a mark.
func (d *Reader) Mark() Mark { return Mark{Term: d.Term(), Number: d.Uint64()} }
