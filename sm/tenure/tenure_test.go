package tenure

import (
	"testing"

	"heddle/ib"
	"heddle/sm/env/envtest"
	"heddle/store"
	"heddle/subnet"
)

// board is the tenure of a manager with port GUID 0xa1, whose store has LID 1 for it and LID 7 for
// manager 0xb7.
type board struct {
	*envtest.Board
	*Tenure
}

func has(port ib.GUID, l ib.LID) bool { return port == 0xa1 && l == 1 || port == 0xb7 && l == 7 }

func newBoard(st *store.State) *board {
	b := &board{Board: envtest.New(1)}
	b.Board.Env.Config.PortGUID = 0xa1
	b.Tenure = New(&b.Board.Env)
	b.Tenure.Load(st)
	return b
}

// stored is what a store holds after the saves of a tenure, with a LID, as that of a master has.
func (b *board) stored() *store.State {
	st := &store.State{LIDs: []store.LIDEntry{{GUID: 0xa1, LID: 1}}}
	for _, o := range b.Board.Env.Unsaved {
		st.Records = []store.Record{o.Record}
	}
	return st
}

// TestCriterion: a manager keeps what its store cannot know, and nothing else.
func TestCriterion(t *testing.T) {
	used := func(rec record) *store.State {
		x := newBoard(nil)
		x.rec = rec
		return &store.State{LIDs: []store.LIDEntry{{GUID: 0xa1, LID: 1}}, Records: []store.Record{x.op().Record}}
	}
	for _, c := range []struct {
		name    string
		st      *store.State
		masters []ib.LID
		other   bool
		want    bool
	}{
		{"no store", nil, nil, false, true},
		{"an empty store", &store.State{}, nil, false, true},
		{"a store of an earlier version", &store.State{LIDs: []store.LIDEntry{{GUID: 0xa1, LID: 1}}}, []ib.LID{1, 0, 1}, false, false},
		{"the same, and another master is seen", &store.State{LIDs: []store.LIDEntry{{GUID: 0xa1, LID: 1}}}, []ib.LID{1}, true, true},
		{"a restart", used(record{Manager: 0xa1}), []ib.LID{1, 0, 1}, false, false},
		{"another master while it was down", used(record{Manager: 0xa1}), []ib.LID{1, 5}, false, true},
		{"a store that moved", used(record{Manager: 0xb7}), []ib.LID{7, 7}, false, false},
		{"a store that moved, and a third master since", used(record{Manager: 0xb7}), []ib.LID{5}, false, true},
		{"a copy on a standby", used(record{Manager: 0xb7}), []ib.LID{7}, true, true},
		{"a restart before all was adopted", used(record{Manager: 0xa1, Keep: true}), []ib.LID{1}, false, true},
		{"a record that cannot be read", &store.State{LIDs: []store.LIDEntry{{GUID: 0xa1, LID: 1}}, Records: []store.Record{
			{Table: store.TablePartitions, Key: []byte(recordKey), Value: []byte(`{"Version":9}`)},
		}}, []ib.LID{1}, false, true},
	} {
		b := newBoard(c.st)
		if c.other {
			b.Other(0xc9)
		}
		b.Begin(c.masters, has)
		if b.Keeps() != c.want {
			t.Errorf("%s: keeps %v, want %v (%s)", c.name, b.Keeps(), c.want, b.Why())
		}
		if (b.Why() != "") != c.want {
			t.Errorf("%s: why: %q", c.name, b.Why())
		}
		// What it knows outlasts a restart.
		again := newBoard(b.stored())
		if len(b.Board.Env.Unsaved) == 0 {
			again = newBoard(c.st)
		}
		if again.Begin([]ib.LID{1}, has); again.Keeps() != c.want {
			t.Errorf("%s: after a restart keeps %v, want %v", c.name, again.Keeps(), c.want)
		}
		b.Board.Env.Config.StrictPartitions = true
		if b.Keeps() {
			t.Errorf("%s: keeps although it is strict", c.name)
		}
	}
}

// TestPartner: who takes over from the manager with the same state writes nothing, and keeps what a
// third manager may have given.
func TestPartner(t *testing.T) {
	for _, c := range []struct {
		last    ib.GUID
		masters []ib.LID
		writes  bool
		keeps   bool
	}{
		{0xb7, []ib.LID{7, 7}, false, false},
		{0xa1, []ib.LID{1, 7}, false, false},
		{0xb7, []ib.LID{7, 5}, true, true},
		{0xc9, []ib.LID{1}, true, false},
	} {
		x := newBoard(nil)
		x.rec = record{Manager: c.last}
		b := newBoard(&store.State{LIDs: []store.LIDEntry{{GUID: 0xa1, LID: 1}}, Records: []store.Record{x.op().Record}})
		b.Board.Env.Config.Partner = 0xb7
		b.Begin(c.masters, has)
		if wrote := len(b.Board.Env.Unsaved) > 0; wrote != c.writes || b.Keeps() != c.keeps {
			t.Errorf("%+v: writes %v, keeps %v", c, wrote, b.Keeps())
		}
	}
}

// TestSettled: when nothing is left the store knows all, also after a restart and until another
// manager is seen. Decisions count until then.
func TestSettled(t *testing.T) {
	b := newBoard(nil)
	b.Begin(nil, has)
	b.Board.Save(b.Decide([]ib.PKey{6, 5, 6}))
	if !b.Decided(0x8005) || !b.Decided(6) || b.Decided(7) {
		t.Error("decided about other keys")
	}
	early := newBoard(b.stored())
	if early.Begin([]ib.LID{1}, has); !early.Keeps() || !early.Decided(5) {
		t.Error("a decision is lost by a restart")
	}
	b.Settled()
	if b.Keeps() || b.Decided(5) || b.Decide([]ib.PKey{5}) != nil {
		t.Error("keeps after all was settled")
	}
	r := newBoard(b.stored())
	if !r.Begin([]ib.LID{1}, has) || r.Keeps() {
		t.Error("keeps after a restart")
	}
	if r.Begin([]ib.LID{1}, has) {
		t.Error("others may have given entries, and there was none")
	}
	r.Other(0xc9)
	if !r.Begin([]ib.LID{1}, has) || !r.Keeps() {
		t.Error("does not keep what another manager gave")
	}
}

// TestPair: a standby of a pair writes nothing. What it was told of a third manager is stored when
// it is master.
func TestPair(t *testing.T) {
	x := newBoard(nil)
	x.rec = record{Manager: 0xb7}
	for _, third := range []bool{false, true} {
		b := newBoard(&store.State{LIDs: []store.LIDEntry{{GUID: 0xa1, LID: 1}}, Records: []store.Record{x.op().Record}})
		b.Board.Env.Config.Partner = 0xb7
		b.Board.Env.State = subnet.Standby
		if third {
			b.Other(0xc9)
		}
		if n := len(b.Board.Env.Unsaved); n > 0 {
			t.Errorf("third %v: a standby writes %d entries", third, n)
		}
		if b.Begin([]ib.LID{7}, has); b.Keeps() != third {
			t.Errorf("third %v: keeps %v", third, b.Keeps())
		}
		again := newBoard(b.stored())
		if again.Begin([]ib.LID{1}, has); again.Keeps() != third {
			t.Errorf("third %v: after a restart keeps %v", third, again.Keeps())
		}
		b.Board.Env.State = subnet.Master
		n := len(b.Board.Env.Unsaved)
		b.Other(0xd1)
		if wrote := len(b.Board.Env.Unsaved) > n; wrote == third {
			t.Errorf("third %v: a master that sees another one writes: %v", third, wrote)
		}
	}
}

// FuzzRecord: a record is read as it is written, or refused.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"Version":1,"Manager":"0x00000000000000a1","Keep":true,"Decided":["0x0005"]}`))
	f.Add([]byte(`{"Version":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := decode(b)
		if err != nil {
			return
		}
		x := newBoard(nil)
		x.rec = rec
		again, err := decode(x.op().Record.Value)
		if err != nil || again.Keep != rec.Keep || again.Manager != rec.Manager || len(again.Decided) != len(rec.Decided) {
			t.Errorf("%+v is read as %+v, %v", rec, again, err)
		}
	})
}
