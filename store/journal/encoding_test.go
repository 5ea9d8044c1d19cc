package journal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/internal/storetest"
	"heddle/store"
	"heddle/store/journal"
)

func entry(r *rand.Rand) journal.Entry {
	e := journal.Entry{
		Mark: journal.Mark{Term: journal.Term{Number: r.Uint64N(9), Owner: ib.GUID(r.Uint64())}, Number: r.Uint64()},
		Wall: r.Int64(),
	}
	if r.IntN(3) == 0 {
		e.Begin = &journal.Begin{Had: journal.Mark{Number: r.Uint64()}, Reason: strings.Repeat("x", r.IntN(journal.MaxReason+1))}
	}
	for range r.IntN(6) {
		e.Ops = append(e.Ops, storetest.Op(r))
	}
	return e
}

// TestEncoding: what was encoded is decoded, alone and with more behind it.
func TestEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		e := entry(r)
		b, err := journal.Append([]byte("before"), &e)
		if err != nil {
			t.Fatal(err)
		}
		got, n, err := journal.Decode(append(b[6:], "behind"...))
		if err != nil || n != len(b)-6 || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v became %+v (%d of %d bytes), %v", e, got, n, len(b)-6, err)
		}
		// Cut off anywhere, or with any bit flipped, it is no entry.
		if _, _, err := journal.Decode(b[6 : 6+r.IntN(n)]); !errors.Is(err, journal.ErrShort) {
			t.Fatalf("cut off: %v", err)
		}
		b[6+r.IntN(n)] ^= 1 << r.IntN(8)
		if got, _, err := journal.Decode(b[6:]); err == nil {
			t.Fatalf("damaged: %+v", got)
		}
	}
}

// TestEncodingBytes compares with docs/format/journal.md, byte by byte.
func TestEncodingBytes(t *testing.T) {
	e := journal.Entry{
		Mark:  journal.Mark{Term: journal.Term{Number: 3, Owner: 0x0002C90300A1B2C3}, Number: 0x1F},
		Wall:  0x0102030405060708,
		Begin: &journal.Begin{Had: journal.Mark{Term: journal.Term{Number: 2, Owner: 9}, Number: 0x1E}, Reason: "ok"},
		Ops: []store.Op{
			{Kind: store.PutLID, GUID: 0x11, LID: 0x1234, LMC: 2},
			{Kind: store.PutRecord, Record: store.Record{Table: store.TableServices, Key: []byte("k"), Value: []byte("value")}},
		},
	}
	b, err := journal.Append(nil, &e)
	if err != nil {
		t.Fatal(err)
	}
	want := "01" + "01" + "0000" + "00000062" + // version, flags, reserved, length
		"0000000000000003" + "0002c90300a1b2c3" + "000000000000001f" + // term, owner, number
		"0102030405060708" + // wall
		"0000000000000002" + "0000000000000009" + "000000000000001e" + "0002" + "6f6b" + // had, reason
		"01" + "0000000000000011" + "1234" + "02" + // PutLID
		"07" + "03" + "0001" + "00000005" + "6b" + "76616c7565" // PutRecord
	if got := hex.EncodeToString(b[:len(b)-4]); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestEncodingRefuses(t *testing.T) {
	long := journal.Entry{Begin: &journal.Begin{Reason: strings.Repeat("x", journal.MaxReason+1)}}
	if _, err := journal.Append(nil, &long); err == nil {
		t.Error("a reason that is too long")
	}
	bad := journal.Entry{Ops: []store.Op{{Kind: store.PutLID, LID: 0xC000}}}
	if _, err := journal.Append(nil, &bad); err == nil {
		t.Error("a multicast LID")
	}
}

func TestOrder(t *testing.T) {
	mark := func(term uint64, owner ib.GUID, n uint64) journal.Mark {
		return journal.Mark{Term: journal.Term{Number: term, Owner: owner}, Number: n}
	}
	list := []journal.Mark{{}, mark(0, 0, 1), mark(0, 1, 1), mark(1, 0, 1), mark(1, 5, 9), mark(1, 6, 2), mark(2, 1, 1)}
	for i, a := range list {
		for j, b := range list {
			if got, want := a.Compare(b), min(max(i-j, -1), 1); got != want {
				t.Errorf("%v and %v: %d, want %d", a, b, got, want)
			}
		}
	}
	last := mark(2, 5, 10)
	for _, c := range []struct {
		next journal.Mark
		want error
	}{
		{mark(2, 5, 11), nil},
		{mark(2, 6, 11), nil},
		{mark(3, 1, 11), nil},
		{mark(2, 4, 11), journal.ErrOldTerm},
		{mark(1, 9, 11), journal.ErrOldTerm},
		{mark(2, 5, 12), journal.ErrGap},
		{mark(2, 5, 10), journal.ErrGap},
	} {
		if err := journal.Follows(last, c.next); !errors.Is(err, c.want) {
			t.Errorf("%v after %v: %v, want %v", c.next, last, err, c.want)
		}
	}
	if next := last.Term.Next(1); next.Compare(last.Term) <= 0 {
		t.Errorf("%v is not after %v", next, last.Term)
	}
}

func TestMemory(t *testing.T) {
	stores := map[string]*journal.Memory{}
	open := func(t *testing.T) journal.Store {
		m := stores[t.Name()]
		if m == nil {
			m = journal.NewMemory(storetest.KeepAtLeast)
		} else {
			m = m.Reopen()
		}
		stores[t.Name()] = m
		return m
	}
	storetest.Run(t, func(t *testing.T) store.Store { return open(t) })
	storetest.RunJournal(t, open)
}

// FuzzDecode: no bytes make the decoder fail in another way than with an error, and what it
// accepts is encoded to the same bytes.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		e := entry(r)
		b, err := journal.Append(nil, &e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, n, err := journal.Decode(b)
		if err != nil {
			return
		}
		again, err := journal.Append(nil, &e)
		if err != nil || !bytes.Equal(again, b[:n]) {
			t.Fatalf("%x became %x, %v", b[:n], again, err)
		}
	})
}

// TestStartTerm: who goes on from a copy of a journal does so in a term that no other copy has.
func TestStartTerm(t *testing.T) {
	const day = int64(86400e9)
	m := journal.NewMemory(10)
	if err := journal.StartTerm(m, 5, 100*day, "start"); err != nil {
		t.Fatal(err)
	}
	if err := m.Apply([]store.Op{{Kind: store.PutLID, GUID: 0x11, LID: 2}}); err != nil {
		t.Fatal(err)
	}
	had := journal.Mark{Term: journal.Term{Number: 100 * 86400, Owner: 5}, Number: 2}
	seen := map[journal.Term]bool{had.Term: true}
	for _, c := range []struct {
		owner ib.GUID
		wall  int64
	}{
		{5, 101 * day}, // the same machine, from an older copy
		{6, 101 * day}, // another machine, at the same time
		{5, 99 * day},  // its clock went back
		{0, -5 * day},  // an import, with a clock that is not set
		{7, 1<<63 - 1}, // or far ahead
		{8, 100 * day}, // within the second
		{5, 101*day + 1e9},
	} {
		x := m.Reopen()
		if err := journal.StartTerm(x, c.owner, c.wall, "start"); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		list, err := x.Entries(3, 1)
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v: %v, %v", c, list, err)
		}
		e := list[0]
		if e.Begin == nil || e.Begin.Had != had || e.Term.Compare(had.Term) <= 0 || e.Term.Owner != c.owner || seen[e.Term] {
			t.Errorf("%+v: %+v", c, e)
		}
		seen[e.Term] = true
	}
}

// TestNeeds: an entry has the oldest version that can have it, and is not written for a program that cannot carry it
// out.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		table store.Table
		want  uint8
	}{{store.TablePathHistory, 1}, {store.TableTokens, 2}, {store.TablePortActions, 2}} {
		for _, kind := range []store.OpKind{store.PutRecord, store.DeleteRecord} {
			op := store.Op{Kind: kind, Record: store.Record{Table: c.table, Key: []byte{1}}}
			e := journal.Entry{Mark: journal.Mark{Number: 1}, Ops: []store.Op{{Kind: store.PutLID, GUID: 1, LID: 2}, op}}
			if got := journal.Needs(&op); got != c.want {
				t.Errorf("%v: needs version %d, want %d", c.table, got, c.want)
			}
			b, err := journal.Append(nil, &e)
			if err != nil || b[0] != c.want {
				t.Errorf("%v: version %d, want %d (%v)", c.table, b[0], c.want, err)
			}
			if b, err = journal.AppendAs(nil, &e, 1); c.want == 1 && (err != nil || b[0] != 1) || c.want > 1 && !errors.Is(err, journal.ErrNewer) {
				t.Errorf("%v for a program of version 1: %v", c.table, err)
			}
		}
	}
}
