package wiring

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"

	"heddle/ib"
)

// version is the first byte of a record.
const version = 1

// Bounds of what is decoded.
const (
	maxPlain  = 64 << 20 // bytes of a record when it is not compressed
	maxThings = 1 << 20  // of each list
	maxName   = 255
)

// Bits of the second byte of a record.
const (
	kindWhole    = 1
	kindDeflated = 2
)

// leastDeflated is the length from which records are compressed.
const leastDeflated = 1024

var errRecord = errors.New("wiring: a record that is cut off, damaged or of a later version")

// Encode is the bytes of a change, with the number of the published state that it led to. whole: the
// change is one from nothing, so that no earlier record is needed.
func Encode(c *Change, gen uint64, whole bool) []byte {
	var plain []byte
	plain = binary.AppendUvarint(plain, gen)
	plain = appendNodes(plain, c.Nodes)
	plain = appendCables(plain, c.Cables)
	plain = appendNodes(plain, c.NoNodes)
	plain = appendCables(plain, c.NoCables)
	kind := byte(0)
	if whole {
		kind = kindWhole
	}
	if len(plain) < leastDeflated {
		return append([]byte{version, kind}, plain...)
	}
	var out bytes.Buffer
	out.Write([]byte{version, kind | kindDeflated})
	z, _ := flate.NewWriter(&out, flate.BestSpeed) // the level is right
	_, _ = z.Write(plain)                          // a buffer takes all
	_ = z.Close()
	return out.Bytes()
}

func appendNodes(b []byte, list []Node) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	last := uint64(0)
	for i := range list {
		n := &list[i]
		b = binary.AppendUvarint(b, uint64(n.GUID)-last)
		last = uint64(n.GUID)
		name := n.Name[:min(len(n.Name), maxName)]
		b = append(b, byte(n.Type), n.Ports, byte(n.State), byte(len(name)))
		b = append(b, name...)
		b = binary.AppendVarint(b, n.Since)
	}
	return b
}

func appendCables(b []byte, list []Cable) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	last := uint64(0)
	for i := range list {
		c := &list[i]
		b = binary.AppendUvarint(b, uint64(c.A.GUID)-last)
		last = uint64(c.A.GUID)
		b = append(b, c.A.Port)
		b = binary.AppendUvarint(b, uint64(c.B.GUID)-last)
		b = append(b, c.B.Port, byte(c.State))
		b = binary.AppendVarint(b, c.Since)
	}
	return b
}

// Whole reports whether a record needs no earlier one.
func Whole(b []byte) bool { return len(b) > 1 && b[0] == version && b[1]&kindWhole != 0 }

// Decode reads what Encode has written. A change that Diff cannot have made is an error.
func Decode(b []byte) (c *Change, gen uint64, err error) {
	if len(b) < 2 || b[0] != version || b[1] > kindWhole|kindDeflated {
		return nil, 0, errRecord
	}
	plain := b[2:]
	if b[1]&kindDeflated != 0 {
		plain, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(plain)), maxPlain+1))
		if err != nil || len(plain) > maxPlain {
			return nil, 0, errRecord
		}
	}
	r := reader{b: plain}
	gen = r.uvarint()
	c = &Change{Nodes: r.nodes(), Cables: r.cables(), NoNodes: r.nodes(), NoCables: r.cables()}
	if r.bad || len(r.b) != 0 {
		return nil, 0, errRecord
	}
	return c, gen, nil
}

// reader takes values off its bytes until something is wrong.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, n)
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

// count is the length of a list whose elements have at least so many bytes.
func (r *reader) count(least int) int {
	n := r.uvarint()
	if n > maxThings || n > uint64(len(r.b)/least) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) nodes() (list []Node) {
	last := uint64(0)
	for i := range r.count(6) {
		step := r.uvarint()
		h := r.take(4)
		n := Node{GUID: ib.GUID(last + step), Type: ib.NodeType(h[0]), Ports: h[1], State: State(h[2])}
		n.Name = string(r.take(int(h[3])))
		n.Since = r.varint()
		r.bad = r.bad || n.State >= states || last+step < last || i > 0 && step == 0
		last = uint64(n.GUID)
		list = append(list, n)
		if r.bad {
			return nil
		}
	}
	return list
}

func (r *reader) cables() (list []Cable) {
	last := uint64(0)
	for i := range r.count(6) {
		step := r.uvarint()
		a := End{ib.GUID(last + step), r.take(1)[0]}
		wide := r.uvarint()
		h := r.take(2)
		c := Cable{A: a, B: End{ib.GUID(uint64(a.GUID) + wide), h[0]}, State: State(h[1]), Since: r.varint()}
		r.bad = r.bad || c.State >= states || uint64(a.GUID) < last || c.A.compare(c.B) >= 0 || i > 0 && list[i-1].compare(&c) >= 0
		last = uint64(a.GUID)
		list = append(list, c)
		if r.bad {
			return nil
		}
	}
	return list
}
