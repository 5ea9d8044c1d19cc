package mirror

import (
	"encoding/binary"
	"errors"

	"heddle/ib"
)

// errShort and errValue are the defects that a reader meets.
var (
	errShort = errors.New("the message ends too early")
	errValue = errors.New("a value is out of range")
)

// writer appends the parts of a message.
type writer struct{ b []byte }

func (w *writer) byte(v byte)      { w.b = append(w.b, v) }
func (w *writer) uint(v uint64)    { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) guid(g ib.GUID)   { w.b = binary.BigEndian.AppendUint64(w.b, uint64(g)) }
func (w *writer) u16(v uint16)     { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *writer) bytes(p []byte)   { w.uint(uint64(len(p))); w.b = append(w.b, p...) }
func (w *writer) string(s string)  { w.uint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) raw(n int) []byte { w.b = append(w.b, make([]byte, n)...); return w.b[len(w.b)-n:] }

// flags packs up to eight facts, the first in bit 0.
func (w *writer) flags(list ...bool) {
	v := byte(0)
	for i, on := range list {
		if on {
			v |= 1 << i
		}
	}
	w.byte(v)
}

// reader takes a message apart. After the first defect all that it returns is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// raw returns the next n bytes, which are those of the message, nil after a defect.
func (r *reader) raw(n int) []byte {
	if n > len(r.b) {
		r.fail(errShort)
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) byte() byte {
	if p := r.raw(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if p := r.raw(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

func (r *reader) guid() ib.GUID {
	if p := r.raw(8); p != nil {
		return ib.GUID(binary.BigEndian.Uint64(p))
	}
	return 0
}

// uint returns a number of at most limit.
func (r *reader) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	switch {
	case n <= 0:
		r.fail(errShort)
		return 0
	case v > limit:
		r.fail(errValue)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count returns how many items follow, each of which has at least size bytes, so that no more
// memory is taken than the message has bytes for.
func (r *reader) count(size int) int {
	n := r.uint(1 << 31)
	if n > uint64(len(r.b)/size) {
		r.fail(errShort)
		return 0
	}
	return int(n)
}

func (r *reader) bytes() []byte  { return r.raw(r.count(1)) }
func (r *reader) string() string { return string(r.bytes()) }

// flags unpacks n facts; other bits are a defect.
func (r *reader) flags(n int) (list [8]bool) {
	v := r.byte()
	if n < 8 && v>>n != 0 {
		r.fail(errValue)
		return list
	}
	for i := range list {
		list[i] = v&(1<<i) != 0
	}
	return list
}
