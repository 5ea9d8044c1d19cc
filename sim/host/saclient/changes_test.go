package saclient

import (
	"errors"
	"testing"

	"heddle/agent/generation"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// table is the answer to the last request as a message of RMPP, in one segment.
func table(w *wireOf, size int, put ...func(b []byte)) *mad.Packet {
	q := answer(&w.sent[len(w.sent)-1], 0, nil)
	copy(q.Data[24:], []byte{1, 1, 7 | 0xF<<3, 0, 0, 0, 0, 1, 0, 0, 0, byte(20 + len(put)*size)}) // data, active, first, last
	q.Data[44], q.Data[45] = 0, byte(size/8)
	for i, f := range put {
		f(q.Data[wire.HeaderLen+i*size:])
	}
	return q
}

// TestShortTables: a table may be shorter than a MAD.
func TestShortTables(t *testing.T) {
	k, w := newClient()
	var got []wire.PathRecord
	k.Paths(0, &wire.PathRecord{}, 0, false, func(_ mad.Time, list []wire.PathRecord, err error) {
		got = list
		if err != nil {
			t.Error(err)
		}
	})
	want := wire.PathRecord{DLID: 9, SLID: 4, SL: 2, MTU: 4}
	k.Receive(1, table(w, 64, want.Put))
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
	head := wire.PathChangeRecord{Generation: 1<<32 | 5, Head: true}
	one := wire.PathChangeRecord{Generation: 1<<32 | 5, Lost: true, Path: want}
	for _, list := range [][]wire.PathChangeRecord{{head}, {head, one}} {
		var changed []wire.PathChangeRecord
		k.Changes(2, ib.MakeGID(1, 2), 1<<32|4, func(_ mad.Time, l []wire.PathChangeRecord, err error) {
			changed = l
			if err != nil {
				t.Error(err)
			}
		})
		var asked wire.PathChangeRecord
		if q := w.sent[len(w.sent)-1].Data; asked.Decode(q[wire.HeaderLen:]) != nil || asked.Generation != 1<<32|4 || asked.Path.SGID != ib.MakeGID(1, 2) {
			t.Errorf("asked for %+v", asked)
		}
		var put []func([]byte)
		for i := range list {
			put = append(put, list[i].Put)
		}
		k.Receive(3, table(w, 80, put...))
		if len(changed) != len(list) || changed[0] != head || len(list) > 1 && changed[1] != one {
			t.Errorf("%+v", changed)
		}
	}
}

// TestBadChanges: what is no answer to a query for changes is an error.
func TestBadChanges(t *testing.T) {
	head := wire.PathChangeRecord{Generation: 1<<32 | 5, Head: true}
	for _, c := range []struct {
		size int
		put  []func([]byte)
	}{{80, nil}, {64, []func([]byte){func([]byte) {}}}, {0, nil}, {80, []func([]byte){func([]byte) {}}}, {80, []func([]byte){head.Put, head.Put}}} {
		k, w := newClient()
		var got error
		k.Changes(0, ib.GID{}, 0, func(_ mad.Time, _ []wire.PathChangeRecord, err error) { got = err })
		k.Receive(1, table(w, c.size, c.put...))
		if !errors.Is(got, generation.ErrFormat) {
			t.Errorf("%+v: %v", c.size, got)
		}
	}
}

// FuzzAnswers: no packet upsets a client that waits for answers of all kinds.
func FuzzAnswers(f *testing.F) {
	k, w := newClient()
	k.Paths(0, &wire.PathRecord{}, 0, false, func(mad.Time, []wire.PathRecord, error) {})
	f.Add(table(w, 64, func([]byte) {}).Data)
	k.Changes(0, ib.GID{}, 0, func(mad.Time, []wire.PathChangeRecord, error) {})
	f.Add(table(w, 80, (&wire.PathChangeRecord{Head: true}).Put).Data)
	f.Add(w.sent[0].Data)
	f.Fuzz(func(t *testing.T, b []byte) {
		k, w := newClient()
		k.OnReport = func(*Report) {}
		for _, one := range []bool{true, false} {
			k.Paths(0, &wire.PathRecord{}, 0, one, func(mad.Time, []wire.PathRecord, error) {})
		}
		k.Changes(0, ib.GID{}, 0, func(mad.Time, []wire.PathChangeRecord, error) {})
		k.Subscribe(0, 69, func(mad.Time, error) {})
		for i := range w.sent {
			d := append([]byte(nil), b...)
			if len(d) >= 24 {
				copy(d[8:16], w.sent[i].Data[8:16]) // its transaction
			}
			k.Receive(1, &mad.Packet{Addr: mad.Addr{LID: 5, QP: 1}, LocalQP: 1, Data: d})
		}
		for k.NextTimer() != mad.Never {
			k.Expire(k.NextTimer())
		}
	})
}
