package sa_test

import (
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
)

// TestUnsavedHasRoom: with MustSave a change is refused before there is no place to keep it, because
// a change that is forgotten is found by the request that repeats it.
func TestUnsavedHasRoom(t *testing.T) {
	core := sa.NewCore(usual(sa.Config{SAKey: saKey, MustSave: true}))
	var out sa.Output
	step := func(ev sa.Event) {
		out.Reset()
		core.Step(0, ev, &out)
	}
	step(sa.Start{})
	for ev := sa.Event(sa.Published{Snap: up(4)}); ev != nil; {
		step(ev)
		if ev = nil; len(out.Persist) > 0 {
			ev = sa.Persisted{Gen: out.PersistGen}
		}
	}
	core.FillUnsaved()
	r := joining(mgidOf("1"), 2, wire.JoinFull)
	join := sa.Request{From: mad.Addr{LID: 2, QP: 1}, Data: ask(ib.MethodSet, wire.AttrMCMemberRecord, maskCreate, &r)}
	step(sa.Requests{List: []sa.Request{join}})
	if len(out.Notices) > 0 {
		t.Errorf("the join had an effect: %v", out.Notices)
	}
	step(sa.Persisted{Gen: out.PersistGen})
	if len(out.Replies) != 1 || status(out.Replies[0].Data) != ib.StatusBusy {
		t.Fatalf("%d replies: %+v", len(out.Replies), out.Replies)
	}
	step(sa.Requests{List: []sa.Request{join}}) // all is stored
	step(sa.Persisted{Gen: out.PersistGen})
	if len(out.Replies) != 1 || status(out.Replies[0].Data) != 0 {
		t.Fatalf("%d replies when all was stored: %+v", len(out.Replies), out.Replies)
	}
}

// TestBusyTable: the answer BUSY takes the place of an answer of any length.
func TestBusyTable(t *testing.T) {
	for _, n := range []int{wire.HeaderLen, ib.MADLen, 10 * ib.MADLen} {
		b := make([]byte, n)
		var m ib.MAD
		wire.New(&m, ib.MethodGetTableResp, wire.AttrMCMemberRecord, 0, 0)
		copy(b, m[:])
		got := sa.BusyInstead(b)
		if h := (*ib.MAD)(got); len(got) != ib.MADLen || h.Status() != ib.StatusBusy || h.Method() != ib.MethodGetTableResp {
			t.Errorf("of %d bytes: %x", n, got[:24])
		}
	}
}
