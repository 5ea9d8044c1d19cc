package placement

import (
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/sm/lid"
	"heddle/store"
	"heddle/subnet"
)

// withLIDs is a stage of four ports, with LIDs 1 to 4 of those below limit, and placements.
func withLIDs(limit int, guids ...ib.GUID) *stage {
	b := newStage()
	b.lids.SetLimit(limit)
	for _, g := range guids {
		b.m.add(g)
	}
	return b
}

// assign gives the placements that have none LIDs, in order.
func (b *stage) assign(top bool) (got []ib.LID) {
	for _, l := range b.m.list {
		if b.m.lidOf(l) == 0 && l.state != Ended {
			if free, _ := b.m.takeLID(top, nil); free != 0 {
				b.lids.Give(l.GUID, free)
			}
		}
		got = append(got, b.m.lidOf(l))
	}
	return got
}

// TestLIDOrder: placements get the lowest LIDs that ports leave, floating ones the highest; none is
// given twice.
func TestLIDOrder(t *testing.T) {
	b := withLIDs(10, 0x1000, 0x1001)
	if got := b.assign(false); !slices.Equal(got, []ib.LID{5, 6}) {
		t.Errorf("LIDs %v, want 5 and 6", got)
	}
	b.m.add(0x1002)
	if got := b.assign(true); got[2] != 9 {
		t.Errorf("a floating LID is %v, want 9", got[2])
	}
	b.m.add(0x1003)
	b.m.add(0x1004)
	b.m.add(0x1005)
	if got := b.assign(false); !slices.Equal(got[3:], []ib.LID{7, 8, 0}) {
		t.Errorf("LIDs %v, want 7, 8 and none", got[3:])
	}
	if n := b.m.Status().LIDs; n != (lid.Count{Limit: 9, Ports: 4, Placements: 5}) {
		t.Errorf("%+v", n)
	}
	if ops := b.m.loseLID(b.m.list[3]); len(ops) != 1 || ops[0].Kind != store.DeleteLID || ops[0].GUID != 0x1003 {
		t.Errorf("%+v", ops)
	}
	b.m.list[3].state = Ended
	if got := b.assign(false); got[5] != 7 {
		t.Errorf("LIDs %v: 7 was given back", got)
	}
}

// TestReserve: the LIDs of placements are taken before ports get theirs; those beyond a smaller
// table are lost.
func TestReserve(t *testing.T) {
	b := withLIDs(20, 0x1000, 0x1001)
	b.assign(false)
	sp := &lid.Space{Limit: 20}
	if ops := b.m.Reserve(sp); len(ops) != 0 || sp.Free(lid.One(5)) || sp.Free(lid.One(6)) || !sp.Free(lid.One(7)) {
		t.Errorf("%+v; 5, 6 and 7 are free: %v %v %v", ops, sp.Free(lid.One(5)), sp.Free(lid.One(6)), sp.Free(lid.One(7)))
	}
	b.Record()
	ops := b.m.Reserve(&lid.Space{Limit: 6})
	if want := "LID 6 of GUID 0x0000000000001001 cannot be kept: the smallest forwarding table holds LIDs below 6; assigning a new LID\n"; !strings.HasSuffix(b.Record(), want) {
		t.Errorf("the notice does not end with %q", want)
	}
	if l := b.m.list; b.m.lidOf(l[0]) != 5 || b.m.lidOf(l[1]) != 0 {
		t.Errorf("LIDs %v and %v with tables of 6", b.m.lidOf(l[0]), b.m.lidOf(l[1]))
	}
	if len(ops) != 1 || ops[0].Kind != store.DeleteLID || ops[0].GUID != 0x1001 {
		t.Errorf("%+v", ops)
	}
	sp = &lid.Space{Limit: 20}
	sp.Take(lid.One(5))
	b.m.Reserve(sp)
	if said := b.Record(); !strings.Contains(said, "LID 5 of GUID 0x0000000000001000 cannot be kept: another function or placement has it") {
		t.Error(said)
	}
}

// TestSetBeforeLoad: placements are set before the store was read, and have the LIDs that it held.
func TestSetBeforeLoad(t *testing.T) {
	b := newStage()
	b.m.Set(Change{All: true, Put: []subnet.Placement{{GUID: 5, LIDKind: subnet.OwnLID, Place: subnet.Place{Port: 9, Function: 1}}, {GUID: 6}}})
	b.lids.Load([]store.LIDEntry{{GUID: 5, LID: 23}})
	b.m.Load(nil)
	if l := b.m.byGUID[5]; l == nil || b.m.lidOf(l) != 23 || b.m.withLID(23) != l || l.port != 9 {
		t.Errorf("%+v", l)
	}
	if l := b.m.byGUID[6]; l == nil || b.m.lidOf(l) != 0 {
		t.Errorf("%+v", l)
	}
}
