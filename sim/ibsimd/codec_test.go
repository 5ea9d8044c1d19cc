package ibsimd

import (
	"testing"

	"heddle/ib"
	"heddle/mad"
)

func TestCtlCodec(t *testing.T) {
	in := clientInfo{ID: 11680, QP: 1, IsSM: true, NodeID: "Switch1", InFlight: 77}
	m := ctlMsg{Client: 3, Op: opConnect, Len: 44}
	in.Put(&m.Data)
	var b [ctlLen]byte
	m.Put(&b)
	var got ctlMsg
	if err := got.Decode(b[:]); err != nil || got != m {
		t.Fatalf("%v: %+v, want %+v", err, got, m)
	}
	var info clientInfo
	info.Decode(&got.Data)
	if info != in {
		t.Fatalf("%+v, want %+v", info, in)
	}
	for _, n := range []int{0, 1, ctlLen - 1} {
		if got.Decode(b[:n]) == nil {
			t.Errorf("%d bytes were taken", n)
		}
	}
	if got.Decode(append(b[:], 0)) == nil {
		t.Error("81 bytes were taken")
	}
	b[0]++
	if got.Decode(b[:]) == nil {
		t.Error("a wrong magic number was taken")
	}
}

// A connect request as libumad2sim of Debian sent it (little endian).
func TestCtlVector(t *testing.T) {
	var b [ctlLen]byte
	copy(b[:], []byte{0xef, 0xbe, 0xad, 0xde, 0, 0, 0, 0, 1, 0, 0, 0, 44, 0, 0, 0, 0xa0, 0x2d, 0, 0})
	var m ctlMsg
	if err := m.Decode(b[:]); err != nil {
		return // the order of a big-endian machine
	}
	var info clientInfo
	info.Decode(&m.Data)
	if m.Op != opConnect || m.Len != 44 || info.ID != 11680 || info.NodeID != "" || info.IsSM {
		t.Errorf("%+v %+v", m, info)
	}
}

func FuzzCtl(f *testing.F) {
	var b [ctlLen]byte
	(&ctlMsg{Op: opConnect, Len: 44}).Put(&b)
	f.Add(b[:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		var m, again ctlMsg
		if m.Decode(in) != nil {
			if m != (ctlMsg{}) {
				t.Fatalf("an error left %+v", m)
			}
			return
		}
		var out [ctlLen]byte
		m.Put(&out)
		if again.Decode(out[:]) != nil || again != m {
			t.Fatalf("%+v became %+v", m, again)
		}
		var a, c clientInfo
		a.Decode(&m.Data)
		var d [ctlPayload]byte
		a.Put(&d)
		c.Decode(&d)
		if a != c {
			t.Fatalf("%+v became %+v", a, c)
		}
	})
}

func FuzzData(f *testing.F) {
	f.Add(make([]byte, dataLen))
	f.Fuzz(func(t *testing.T, in []byte) {
		var d, e dataMsg
		copy(d[:], in)
		if n := d.Length(); n < 0 || n > ib.MADLen {
			t.Fatalf("length %d", n)
		}
		e.PutHeader(d.DLID(), d.SLID(), d.DQP(), d.SQP(), d.Status(), d.Length())
		*e.MAD() = *d.MAD()
		if e.DLID() != d.DLID() || e.SLID() != d.SLID() || e.DQP() != d.DQP() || e.SQP() != d.SQP() ||
			e.Status() != d.Status() || e.Length() != d.Length() || *e.MAD() != *d.MAD() {
			t.Fatal("header changed")
		}
	})
}

// The list of open requests against a plain map, over a script of operations.
func FuzzPending(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0x81, 1, 0x42, 7, 0x83})
	f.Fuzz(func(t *testing.T, script []byte) {
		var p pending
		p.init()
		want := map[uint64]mad.Time{}
		var now mad.Time
		for _, op := range script {
			now++
			tid := uint64(op&0x3f) * 0x10001
			i := p.find(tid)
			if _, ok := want[tid]; ok != (i >= 0) {
				t.Fatalf("find(%#x) = %d", tid, i)
			}
			switch {
			case op&0xc0 == 0x80:
				if i >= 0 {
					p.remove(i)
					delete(want, tid)
				}
			case op&0xc0 == 0x40:
				if i >= 0 {
					p.renew(i, now)
					want[tid] = now
				}
			default:
				p.add(tid, now)
				want[tid] = now
			}
			if p.n != len(want) {
				t.Fatalf("%d entries, want %d", p.n, len(want))
			}
			last := mad.Time(0)
			k := 0
			for e := p.first; e >= 0; e = p.ents[e].next {
				if p.ents[e].deadline < last || want[p.ents[e].tid] != p.ents[e].deadline {
					t.Fatalf("entry %#x at %d", p.ents[e].tid, p.ents[e].deadline)
				}
				last = p.ents[e].deadline
				k++
			}
			if k != p.n {
				t.Fatalf("%d in the list, %d counted", k, p.n)
			}
		}
	})
}
