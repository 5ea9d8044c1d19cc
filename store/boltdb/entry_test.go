package boltdb

import (
	"bytes"
	"encoding/binary"
	"testing"

	"heddle/store"
)

// FuzzEntry: a decoded entry encodes to the same bytes; a failed decode leaves no
// state; every single-bit error is detected.
func FuzzEntry(f *testing.F) {
	seed := func(kind uint8, k, v []byte) {
		f.Add(kind, k, binary.BigEndian.AppendUint32(bytes.Clone(v), sum(k, v)))
	}
	g := []byte{0, 2, 0xC9, 3, 0, 0xA1, 0xB2, 0xC3}
	seed(0, g, []byte{0, 1, 0})
	seed(0, g, []byte{0xBF, 0x80, 7})
	seed(0, g, []byte{0xC0, 0, 0})
	seed(1, g, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	seed(2, append(bytes.Clone(g), 36), g)
	seed(3, []byte{1, 2, 3}, []byte("value"))
	seed(3, []byte{6, 0}, nil)
	seed(3, []byte{9, 0}, nil)
	f.Add(uint8(1), []byte{}, []byte{})
	f.Add(uint8(3), []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, kind uint8, k, v []byte) {
		e := &entryKinds[int(kind)%len(entryKinds)]
		var st store.State
		if err := e.decode(&st, k, v); err != nil {
			if len(st.Ops()) != 0 {
				t.Fatalf("%v, but %+v was taken", err, st)
			}
			n := len(v) - 4
			if n < 0 || e.klen >= 0 && (len(k) != e.klen || n != e.vlen) {
				return
			}
			// With the right checksum only the values can be wrong.
			v = binary.BigEndian.AppendUint32(bytes.Clone(v[:n]), sum(k, v[:n]))
			if err := e.decode(&st, k, v); err != nil {
				return
			}
		}
		if bk, bv := encode(e, &st); !bytes.Equal(bk, k) || !bytes.Equal(bv, v) {
			t.Fatalf("%x %x became %x %x", k, v, bk, bv)
		}
		for i := range 8 * (len(k) + len(v)) {
			ck, cv := bytes.Clone(k), bytes.Clone(v)
			if i < 8*len(k) {
				ck[i/8] ^= 1 << (i % 8)
			} else {
				cv[i/8-len(k)] ^= 1 << (i % 8)
			}
			if e.decode(&store.State{}, ck, cv) == nil {
				t.Fatalf("bit %d changed and nobody saw it", i)
			}
		}
	})
}

// encode is the twin of decode, apart from Apply.
func encode(e *entryKind, st *store.State) (k, v []byte) {
	be := binary.BigEndian
	switch {
	case len(st.LIDs) == 1:
		k = be.AppendUint64(nil, uint64(st.LIDs[0].GUID))
		v = append(be.AppendUint16(nil, uint16(st.LIDs[0].LID)), st.LIDs[0].LMC)
	case len(st.MKeys) == 1:
		k, v = be.AppendUint64(nil, uint64(st.MKeys[0].GUID)), be.AppendUint64(nil, uint64(st.MKeys[0].MKey))
	case len(st.Neighbors) == 1:
		k = append(be.AppendUint64(nil, uint64(st.Neighbors[0].Node)), st.Neighbors[0].Port)
		v = be.AppendUint64(nil, uint64(st.Neighbors[0].Peer))
	case len(st.Records) == 1:
		k, v = recordEntry(&st.Records[0]), bytes.Clone(st.Records[0].Value)
	}
	return k, be.AppendUint32(v, sum(k, v))
}
