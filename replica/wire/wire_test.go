package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"

	"heddle/ib"
	"heddle/replica"
	"heddle/store"
	"heddle/store/journal"
)

var (
	term = journal.Term{Number: 7, Owner: 0xa1}
	mark = journal.Mark{Term: term, Number: 900}
	sign = replica.Sign{
		Boot: 1, Seq: 2, EchoBoot: 3, Echo: 4, Term: term, Last: mark, Active: true, Was: true, Yield: true,
		Pair: 5, Left: 6,
	}
)

func state(size int) *store.State {
	s := &store.State{
		LIDs:      []store.LIDEntry{{GUID: 1, LID: 5, LMC: 2}},
		MKeys:     []store.MKeyEntry{{GUID: 1, MKey: 9}},
		Neighbors: []store.NeighborEntry{{Node: 4, Port: 1, Peer: 2}},
	}
	for i := range 5 {
		s.Records = append(s.Records, store.Record{Table: store.TableGroups, Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{byte(i)}, size)})
	}
	return s
}

func messages() []any {
	entry := journal.Entry{Mark: mark, Wall: 12, Begin: &journal.Begin{Had: mark, Reason: "why"}}
	next := journal.Entry{
		Mark: journal.Mark{Term: term, Number: 901}, Wall: 13,
		Ops: []store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TableServices, Key: []byte("k"), Value: []byte("v")}}, {Kind: store.DeleteLID, GUID: 3}},
	}
	return []any{
		replica.Hello{Boot: 1, Conn: 2, Last: mark, Term: term},
		replica.Refused{Term: term},
		replica.Entries{Term: term, List: []journal.Entry{entry, next}},
		replica.Snapshot{Term: term, At: mark, State: state(10)},
		replica.Snapshot{Term: term, At: mark, State: state(700_000)}, // several pieces and frames
		replica.Snapshot{Term: term, At: mark, State: &store.State{}},
		replica.Ack{Term: term, Number: 900},
		replica.Pair{Term: term, ID: 4, Mark: 900},
		replica.Over{Term: term, ID: 4},
		&Sign{sign},
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if g, ok := got.(replica.Snapshot); ok { // lists without elements may be nil or not
		w := want.(replica.Snapshot)
		if !reflect.DeepEqual(g.State.Ops(), w.State.Ops()) {
			t.Fatalf("another state: %d operations, not %d", len(g.State.Ops()), len(w.State.Ops()))
		}
		g.State, w.State = nil, nil
		got, want = g, w
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
}

func TestMessages(t *testing.T) {
	for _, m := range messages() {
		b, err := Append([]byte("before"), m)
		if err != nil {
			t.Fatal(err)
		}
		b = b[len("before"):]
		got, err := Decode(b)
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		same(t, got, m)
		cut := []int{0, 1, len(b) / 2, len(b) - 1}
		if _, ok := m.(replica.Snapshot); ok {
			cut = cut[:2] // its pieces may end at any number
		}
		for _, n := range cut {
			if got, err := Decode(b[:n]); err == nil {
				t.Fatalf("%T of %d bytes cut to %d: %+v", m, len(b), n, got)
			}
		}
	}
	if _, err := Append(nil, 17); err == nil {
		t.Error("a number is a message")
	}
	if _, err := Append(nil, replica.Entries{List: []journal.Entry{{Ops: []store.Op{{Kind: 99}}}}}); err == nil {
		t.Error("an entry that the journal refuses is sent")
	}
}

// A state has only what a store has, and one mark.
func TestForeignState(t *testing.T) {
	for name, e := range map[string]journal.Entry{
		"deletion":   {Mark: mark, Ops: []store.Op{{Kind: store.DeleteLID, GUID: 1}}},
		"other mark": {Mark: journal.Mark{Term: term, Number: 1}, Ops: []store.Op{{Kind: store.PutMKey, GUID: 1}}},
		"beginning":  {Mark: mark, Begin: &journal.Begin{}},
	} {
		b := journal.AppendMark(appendTerm([]byte{byte(kindSnapshot)}, term), mark)
		b, err := journal.Append(b, &e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestStream sends all messages with a sign before each frame, through a reader that returns one
// byte at a time.
func TestStream(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	signs := 0
	for _, m := range messages() {
		if err := w.Write(m, func() *Sign { signs++; return &Sign{sign} }); err != nil {
			t.Fatal(err)
		}
	}
	if want := len(messages()) + 3_500_000/MaxFrame; signs < want {
		t.Errorf("%d chances for a sign, want %d: a sign waits for a large message", signs, want)
	}
	r := NewReader(iotest.OneByteReader(&b))
	alive := 0
	next := func() any {
		m, err := r.Next(func() { alive++ })
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, want := range messages() {
		m := next()
		for ; signs > 0; m = next() {
			s, ok := m.(*Sign)
			if !ok {
				break
			}
			same(t, s, &Sign{sign})
			signs--
			if _, ok := want.(*Sign); ok && signs == 0 {
				break
			}
		}
		if _, ok := want.(*Sign); ok && signs == 0 {
			m = next()
		}
		same(t, m, want)
	}
	if _, err := r.Next(func() {}); err != io.EOF {
		t.Errorf("after the last message: %v", err)
	}
	if alive == 0 {
		t.Error("no frame was told of")
	}
}

func TestBadFrames(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":       {0, 0, 0, 0},
		"too large":   binary.BigEndian.AppendUint32(nil, MaxFrame+1),
		"both flags":  {3, 0, 0, 1, 8},
		"other flags": {4, 0, 0, 1, 8},
		"cut off":     {0, 0, 0, 9, 1},
		"aside":       {2, 0, 0, 1 + 16, byte(kindRefused), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1},
	} {
		if m, err := NewReader(bytes.NewReader(b)).Next(func() {}); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestGreeting(t *testing.T) {
	g := Greeting{From: 1, To: 2, LID: 3}
	b := g.Put(nil)
	var got Greeting
	if err := got.Read(bytes.NewReader(b)); err != nil || got != g {
		t.Fatal(got, err)
	}
	for i := range b[:8] {
		bad := bytes.Clone(b)
		bad[i] ^= 0x40
		if err := got.Read(bytes.NewReader(bad)); err == nil {
			t.Errorf("byte %d does not count", i)
		}
	}
	if err := got.Read(bytes.NewReader(b[:31])); err == nil {
		t.Error("cut off")
	}
}

func key(t testing.TB, secret string) *Key {
	t.Helper()
	k, err := NewKey([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return &k
}

func TestDatagram(t *testing.T) {
	k := key(t, "0123456789abcdef")
	d := Datagram{From: 0xa1, To: 0xa2, Nonce: 11, Echo: 12, Sign: sign}
	var m ib.MAD
	d.Put(&m, k)
	var got Datagram
	if err := got.Decode(&m, k); err != nil || got != d {
		t.Fatalf("%+v, %v", got, err)
	}
	// Every byte of the sign counts, and so does every byte of the code.
	for i := offData; i < offData+datagramLen+32; i++ {
		bad := m
		bad[i] ^= 1
		if err := got.Decode(&bad, k); !errors.Is(err, ErrForged) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	if err := got.Decode(&m, key(t, "0123456789abcdeF")); !errors.Is(err, ErrForged) {
		t.Errorf("another secret: %v", err)
	}
	m[offOUI]++
	if err := got.Decode(&m, k); !errors.Is(err, ErrNoSign) {
		t.Errorf("another vendor: %v", err)
	}
	if _, err := NewKey([]byte("0123456789abcde")); err == nil {
		t.Error("a short secret")
	}
}

// FuzzDecode: what decodes has an encoding that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		b, err := Append(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 10_000 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, m)
	})
}

func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, m := range messages()[:3] {
		if err := w.Write(m, func() *Sign { return &Sign{sign} }); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		total := 0
		for {
			m, err := r.Next(func() { total++ })
			if err != nil {
				break
			}
			if m == nil {
				t.Fatal("no message and no error")
			}
		}
		if total > len(b)/5 {
			t.Fatalf("%d frames in %d bytes", total, len(b))
		}
	})
}

func FuzzGreeting(f *testing.F) {
	f.Add((&Greeting{From: 1, To: 2, LID: 3}).Put(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var g, again Greeting
		if g.Read(bytes.NewReader(b)) == nil && (again.Read(bytes.NewReader(g.Put(nil))) != nil || again != g) {
			t.Fatalf("%+v, %+v", g, again)
		}
	})
}

// FuzzDatagram: without the key nothing is accepted; the sign inside is decoded without panic.
func FuzzDatagram(f *testing.F) {
	k := key(f, "0123456789abcdef")
	var m ib.MAD
	(&Datagram{From: 1, To: 2, Sign: sign}).Put(&m, k)
	f.Add(m[:], false)
	f.Add(m[:], true)
	f.Fuzz(func(t *testing.T, b []byte, authentic bool) {
		var m ib.MAD
		copy(m[:], b)
		if authentic {
			copy(m[offData+datagramLen:], k.code(m[offData:offData+datagramLen]))
		}
		var d Datagram
		if d.Decode(&m, k) != nil {
			return
		}
		var again ib.MAD
		d.Put(&again, k)
		if !bytes.Equal(again[offData:offData+datagramLen+32], m[offData:offData+datagramLen+32]) {
			t.Fatalf("% x\n% x", again, m)
		}
	})
}
