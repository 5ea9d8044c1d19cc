package vm

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/store"
	"heddle/subnet"
)

// samples are interfaces in every state that is stored.
func samples() []*entry {
	base := Interface{
		Name: "web", GUID: 0x0200000000000007, GUIDKind: PoolGUID, LIDKind: subnet.OwnLID, LID: 77, Pinned: true, Mode: subnet.MoveBalanced,
		Aliases: []ib.GUID{8, 9}, Keys: []Membership{{1, false}, {0x7FFF, true}},
	}
	with := func(st State, doing string, place, dest subnet.Place, f func(*entry)) *entry {
		e := &entry{Interface: base}
		e.State, e.Doing, e.Place, e.Dest = st, doing, place, dest
		if f != nil {
			f(e)
		}
		return e
	}
	a, b, no := at(hyperA, 1), at(hyperB, 2), subnet.Place{}
	return []*entry{
		{Interface: Interface{Name: "x", GUID: 1}},
		with(Created, "", no, no, nil),
		with(Created, "", no, no, func(e *entry) { e.Mode = subnet.MoveMinimal }),
		with(Created, "", no, no, func(e *entry) { e.Mode = subnet.MoveAuto }),
		with(Created, "", no, no, func(e *entry) { e.why = "not attached: ü" }),
		with(Attached, DoingAttach, a, no, func(e *entry) { e.before = Detached }),
		with(Attached, DoingAttach, at(hyperA, 0), no, func(e *entry) { e.anyFunction = true }),
		with(Attached, "", a, no, func(e *entry) { e.last, e.why = rolledBack, strings.Repeat("x", maxReason) }),
		with(Attached, DoingRollBack, a, no, func(e *entry) { e.last = rolledBack }),
		with(Attached, DoingDetach, a, no, nil),
		with(Migrating, "", a, b, func(e *entry) { e.anyFunction = true }),
		with(Migrating, DoingFinish, a, b, nil),
		with(Detached, "", no, no, func(e *entry) { e.Keys, e.Aliases = nil, nil }),
		{Interface: Interface{Name: "f", GUIDKind: FunctionGUID}},
		{Interface: Interface{Name: "f", GUIDKind: FunctionGUID, LID: 9, State: Migrating, Place: a, Dest: b, Doing: DoingFinish}},
		{Interface: Interface{Name: "f", GUIDKind: FunctionGUID, State: Attached, Place: a, Doing: DoingAttach}, before: Detached},
	}
}

// TestInterfaceRecord: records survive decoding and encoding byte for byte; truncated records
// are refused.
func TestInterfaceRecord(t *testing.T) {
	for _, e := range samples() {
		v := e.encode()
		got, err := decodeInterface([]byte(e.Name), v)
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		want := *e
		want.Reason = want.why
		if !reflect.DeepEqual(got, &want) || !got.storedAs(e) {
			t.Fatalf("%+v became %+v", want, got)
		}
		if again := got.encode(); !bytes.Equal(again, v) {
			t.Fatalf("% x became % x", v, again)
		}
		for n := range v {
			if _, err := decodeInterface([]byte(e.Name), v[:n]); err == nil {
				t.Fatalf("%d of %d bytes are an interface", n, len(v))
			}
		}
		if _, err := decodeInterface([]byte("a b"), v); err == nil {
			t.Fatal("a name with a space")
		}
	}
}

// TestWireOfRecord fixes the layout that docs/format/store.md describes.
func TestWireOfRecord(t *testing.T) {
	e := &entry{Interface: Interface{
		Name: "web", GUID: 0x0102030405060708, GUIDKind: PoolGUID, LIDKind: subnet.OwnLID, LID: 0x1234, Mode: subnet.MoveBalanced, State: Migrating,
		Place: subnet.Place{Port: 0xA1, Function: 2}, Dest: subnet.Place{Port: 0xB1, Function: 3}, Doing: DoingFinish,
		Aliases: []ib.GUID{0x11}, Keys: []Membership{{0x10, true}, {0x11, false}},
	}}
	want := []byte{
		1, 5, 2, 2, 0, 0, 1, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8,
		0, 0, 0, 0, 0, 0, 0, 0xA1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0xB1, 0, 3,
		0, 1, 0, 0, 0, 0, 0, 0, 0, 0x11, 0, 2, 0x80, 0x10, 0, 0x11, 0, 0,
	}
	if op := putInterface(e); !bytes.Equal(op.Record.Value, want) || string(op.Record.Key) != "web" || op.Record.Table != store.TableInterfaces {
		t.Errorf("%s: % x\nwant % x", op.Record.Key, op.Record.Value, want)
	}
	e.Mode, want[1] = subnet.MoveMinimal, 0x11
	if v := e.encode(); !bytes.Equal(v, want) {
		t.Errorf("% x\nwant % x", v, want)
	}
	want[1] = 0x15
	if got, err := decodeInterface([]byte("web"), want); err == nil {
		t.Errorf("both balanced and minimal: %+v", got)
	}
	if op := putPartition(0x123, true, false); !bytes.Equal(op.Record.Key, []byte{1, 0x23}) || !bytes.Equal(op.Record.Value, []byte{1, 1}) {
		t.Errorf("%+v", op)
	}
	if op := putMember(0x123, 0xA1, true); !bytes.Equal(op.Record.Key, []byte{1, 0x23, 0, 0, 0, 0, 0, 0, 0, 0xA1}) || !bytes.Equal(op.Record.Value, []byte{1, 1}) {
		t.Errorf("%+v", op)
	}
}

// TestFunctionRecord: the same for the GUID of a function.
func TestFunctionRecord(t *testing.T) {
	op := putFunction(subnet.Place{Port: 0x0102030405060708, Function: 0x0304}, 0xA1)
	key, v := []byte{1, 2, 3, 4, 5, 6, 7, 8, 3, 4}, []byte{1, 0, 0, 0, 0, 0, 0, 0, 0xA1}
	if !bytes.Equal(op.Record.Key, key) || !bytes.Equal(op.Record.Value, v) || op.Record.Table != store.TableFunctionGUIDs {
		t.Errorf("%+v", op)
	}
	for _, bad := range [][2][]byte{
		{key[:9], v},
		{key, v[:8]},
		{key, append(v[:9:9], 0)},
		{key, nil},
		{key, append([]byte{2}, v[1:]...)},
		{make([]byte, 10), v},
		{append(key[:8:8], 0, 0), v},
		{key, append([]byte{1}, make([]byte, 8)...)},
		{key, []byte{1, 2, 0, 0, 0, 0, 0, 0, 2}},
	} {
		if a, err := decodeFunction(bad[0], bad[1]); err == nil {
			t.Errorf("% x % x is taken: %+v", bad[0], bad[1], a)
		}
	}
	// One that cannot be read is told, and its function gets no other; nobody is where
	// the GUID is not known.
	fs := []store.Record{
		{Table: store.TableFunctionGUIDs, Key: functionKey(at(hyperA, 1)), Value: []byte{2}},
		putFunction(at(hyperA, 2), defaultFirst).Record,
		putFunction(at(hyperA, 3), defaultFirst).Record,
		putInterface(&entry{Interface: Interface{Name: "a", GUIDKind: FunctionGUID, State: Attached, Place: at(hyperA, 1)}}).Record,
		putInterface(&entry{Interface: Interface{Name: "b", GUIDKind: FunctionGUID, State: Attached, Place: at(hyperA, 2)}}).Record,
		putInterface(&entry{Interface: Interface{Name: "c", GUID: defaultFirst}}).Record,
	}
	r := newRig(t)
	r.c = New(Config{})
	r.step(Start{Records: fs})
	r.up()
	if n := len(r.notices); r.view.Len() != 1 || r.view.Interface("b").GUID != defaultFirst || n != 4 || len(r.view.Functions) != 1 || r.view.Pools.GUIDsUsed != 1 {
		t.Fatalf("%v %v %+v", r.notices, r.view.Functions, r.view.Pools)
	}
	r.ok(Create{Interface{Name: "d", GUIDKind: FunctionGUID}})
	r.fails(Attach{"d", at(hyperA, 1)}, ErrConflict, "cannot read")
}

// TestRecordsThatCannotBe: states that no core stores are refused.
func TestRecordsThatCannotBe(t *testing.T) {
	a, b := at(hyperA, 1), at(hyperB, 2)
	for what, f := range map[string]func(*entry){
		"no GUID":                    func(e *entry) { e.GUID = 0 },
		"created with a place":       func(e *entry) { e.Place = a },
		"attached without one":       func(e *entry) { e.State = Attached },
		"attached to function 0":     func(e *entry) { e.State, e.Place = Attached, at(hyperA, 0) },
		"a function without a port":  func(e *entry) { e.Place.Function = 1 },
		"migrating to nowhere":       func(e *entry) { e.State, e.Place = Migrating, a },
		"migrating to where it is":   func(e *entry) { e.State, e.Place, e.Dest = Migrating, a, a },
		"finishing, not migrating":   func(e *entry) { e.State, e.Place, e.Doing = Attached, a, DoingFinish },
		"attaching what is attached": func(e *entry) { e.State, e.Place, e.Doing, e.before = Attached, a, DoingAttach, Attached },
		"rolling back, migrating":    func(e *entry) { e.State, e.Place, e.Dest, e.Doing = Migrating, a, b, DoingRollBack },
		"a pinned LID of 0":          func(e *entry) { e.Pinned = true },
		"a multicast LID":            func(e *entry) { e.LID = 0xC000 },
		"P_Keys out of order":        func(e *entry) { e.Keys = []Membership{{2, true}, {1, true}} },
		"P_Key 0":                    func(e *entry) { e.Keys = []Membership{{0, true}} },
		"its GUID twice":             func(e *entry) { e.Aliases = []ib.GUID{e.GUID} },
		"a reason that is no text":   func(e *entry) { e.why = "\xFF" },
	} {
		e := &entry{Interface: Interface{Name: "web", GUID: 5, LIDKind: subnet.OwnLID}}
		f(e)
		if got, err := decodeInterface([]byte("web"), e.encode()); err == nil {
			t.Errorf("%s is taken: %+v", what, got)
		}
	}
}

// TestDamagedStore: records that cannot be read are reported and kept, and their names stay
// reserved. If two records have the same address, the first one counts.
func TestDamagedStore(t *testing.T) {
	one := &entry{Interface: Interface{Name: "one", GUID: 5, State: Attached, Place: at(hyperA, 1)}}
	two := &entry{Interface: Interface{Name: "two", GUID: 6, State: Attached, Place: at(hyperA, 1)}}
	future := store.Record{Table: store.TableInterfaces, Key: []byte("zzz"), Value: []byte{2, 0}}
	c := New(Config{})
	var out Output
	c.Step(0, Start{[]store.Record{
		putInterface(one).Record, putInterface(two).Record, future,
		{Table: store.TableMemberships, Key: []byte{0x80, 1}, Value: []byte{1, 0}},
		putMember(7, 9, true).Record,
	}}, &out)
	if out.Publish.Len() != 1 || len(out.Put) != 1 || len(out.Notices) != 3 || len(out.Persist) != 0 {
		t.Fatalf("%d interfaces, %+v", out.Publish.Len(), out)
	}
	if p := out.Publish.Partitions; len(p) != 1 || p[0].PKey != 7 || len(p[0].Full) != 1 {
		t.Fatalf("%+v", p)
	}
	out.Reset()
	c.Step(0, Requests{[]Request{{1, Create{Interface{Name: "zzz", GUID: 77}}}}}, &out)
	if len(out.Replies) != 1 || out.Replies[0].Err == nil {
		t.Fatalf("%+v", out)
	}
}

// FuzzInterfaceRecord: a record that decodes encodes to the same bytes.
func FuzzInterfaceRecord(f *testing.F) {
	for _, e := range samples() {
		f.Add([]byte(e.Name), e.encode())
	}
	f.Add([]byte("x"), []byte{})
	f.Fuzz(func(t *testing.T, key, v []byte) {
		e, err := decodeInterface(key, v)
		if err != nil {
			return
		}
		if op := putInterface(e); !bytes.Equal(op.Record.Key, key) || !bytes.Equal(op.Record.Value, v) {
			t.Fatalf("%q % x became %q % x", key, v, op.Record.Key, op.Record.Value)
		}
		var out Output
		c := New(Config{})
		records := []store.Record{{Table: store.TableInterfaces, Key: key, Value: v}}
		if e.GUIDKind == FunctionGUID {
			for i, p := range slices.Collect(e.places) {
				records = append(records, putFunction(p, defaultFirst+2+ib.GUID(i)).Record)
			}
		}
		c.Step(0, Start{records}, &out)
		if out.Publish.Len() != 1 {
			t.Fatalf("%+v is not there: %v", e, out.Notices)
		}
		out.Reset()
		c.Step(0, Published{snapshot(nil)}, &out)
	})
}

// FuzzFunctionRecord: a record that decodes encodes to the same bytes.
func FuzzFunctionRecord(f *testing.F) {
	for _, op := range []store.Op{putFunction(at(hyperA, 1), defaultFirst), putFunction(at(^ib.GUID(0), 0xFFFF), ^ib.GUID(0))} {
		f.Add(op.Record.Key, op.Record.Value)
	}
	f.Fuzz(func(t *testing.T, key, v []byte) {
		a, err := decodeFunction(key, v)
		if err != nil {
			return
		}
		if op := putFunction(a.Place, a.GUID); !bytes.Equal(op.Record.Key, key) || !bytes.Equal(op.Record.Value, v) {
			t.Fatalf("% x % x became % x % x", key, v, op.Record.Key, op.Record.Value)
		}
	})
}

// FuzzMembershipRecord: a record that decodes encodes to the same bytes.
func FuzzMembershipRecord(f *testing.F) {
	for _, op := range []store.Op{putPartition(5, true, false), putPartition(0x7FFF, false, true), putMember(5, 1, true), putMember(5, ^ib.GUID(0), false)} {
		f.Add(op.Record.Key, op.Record.Value)
	}
	f.Fuzz(func(t *testing.T, key, v []byte) {
		m, err := decodeMembership(key, v)
		if err != nil {
			return
		}
		op := putPartition(m.pkey, m.index0, m.ipoib)
		if m.guid != 0 {
			op = putMember(m.pkey, m.guid, m.full)
		}
		if !bytes.Equal(op.Record.Key, key) || !bytes.Equal(op.Record.Value, v) {
			t.Fatalf("% x % x became % x % x", key, v, op.Record.Key, op.Record.Value)
		}
	})
}
