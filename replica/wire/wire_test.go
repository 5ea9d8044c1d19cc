package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
	"heddle/replica"
	"heddle/store"
	"heddle/store/journal"
)

var (
	term = journal.Term{Number: 7, Owner: 0xa1}
	mark = journal.Mark{Term: term, Number: 900}
	sign = replica.Sign{
		Boot: 1, Seq: 2, EchoBoot: 3, Echo: 4, Term: term, Last: mark, Active: true, Was: true, Yield: true,
		Pair: 5, Left: 6, Wall: 1_700_000_000_123_456_789, Rank: 16,
	}
	agreed = Agreed{settingsVersion, 1}
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
		&Relayed{From: mad.Addr{LID: 5, PKeyIndex: 6, QP: 7, QKey: 8, SL: 9, PathBits: 10}, SingleMAD: true, Data: query},
		&Relayed{Answer: true, From: mad.Addr{LID: 5, QP: 1, HasGRH: true, GRH: mad.GRH{
			GID: ib.GID{1, 15: 2}, GIDIndex: 3, HopLimit: 4, TrafficClass: 5, FlowLabel: 6,
		}}, Data: query},
		&Digests{Salt: [16]byte{1, 15: 2}, List: []Digest{{"qos", [16]byte{3}}, {"engine", [16]byte{15: 4}}}},
		&Digests{},
		&Sign{sign},
		&Told{Data: []byte("events")},
	}
}

// query is as short as any.
var query = append([]byte{1, byte(ib.ClassSA), sa.ClassVersion, byte(ib.MethodGet)}, make([]byte, sa.HeaderLen-4)...)

// TestTold: managers of before are told nothing, and what is empty or too long is neither sent nor taken.
func TestTold(t *testing.T) {
	if old := (Agreed{toldVersion - 1, 1}); old.Tells() || !agreed.Tells() {
		t.Error("whether the other manager takes events is not known")
	} else if _, err := Append(nil, &Told{Data: []byte("x")}, old); err == nil {
		t.Error("they are sent to a manager that does not know them")
	}
	for _, data := range [][]byte{nil, make([]byte, MaxTold+1)} {
		if _, err := Append(nil, &Told{Data: data}, agreed); err == nil {
			t.Errorf("%d bytes are sent", len(data))
		}
		if _, err := Decode(append([]byte{byte(kindTold)}, data...)); err == nil {
			t.Errorf("%d bytes are taken", len(data))
		}
	}
}

// TestDigests: settings are compared by name without their values; the salt and the secret of a pair change all
// digests, and what only one manager knows differs in nothing.
func TestDigests(t *testing.T) {
	own := []Setting{{"qos", "true"}, {"engine", "ftree"}, {"sa-key", "0x1234"}, {"new", "1"}}
	other := []Setting{{"sa-key", "0x1235"}, {"qos", "true"}, {"engine", "minhop"}, {"old", "1"}}
	secret := []byte("a secret of a pair")
	for _, s := range [][]byte{nil, secret} {
		m := NewDigests(other, s)
		if got := m.Differ(own, s); !slices.Equal(got, []string{"engine", "sa-key"}) {
			t.Errorf("%q differ", got)
		}
		if got := NewDigests(own, s).Differ(own, s); got != nil {
			t.Errorf("%q differ from themselves", got)
		}
		b, err := Append(nil, m, agreed)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("0x1235")) || bytes.Contains(b, []byte("minhop")) {
			t.Errorf("the message has a value: %q", b)
		}
		if again := NewDigests(other, s); again.List[0] == m.List[0] {
			t.Error("two messages have the same digest")
		}
	}
	if got := NewDigests(own, secret).Differ(own, nil); len(got) != len(own) {
		t.Errorf("without the secret only %q differ", got)
	}
}

// TestSettings: managers of before are sent no settings, and what is none is neither sent nor taken.
func TestSettings(t *testing.T) {
	if old := (Agreed{settingsVersion - 1, 1}); old.Compares() || !agreed.Compares() {
		t.Error("whether the other manager compares settings is not known")
	} else if _, err := Append(nil, &Digests{}, old); err == nil {
		t.Error("they are sent to a manager that does not know them")
	}
	many := make([]Digest, MaxDigests+1)
	for i := range many {
		many[i].Name = "name"
	}
	for what, list := range map[string][]Digest{"too many": many, "no name": {{}}, "a long name": {{Name: strings.Repeat("n", 256)}}} {
		if _, err := Append(nil, &Digests{List: list}, agreed); err == nil {
			t.Errorf("%s: it is sent", what)
		}
	}
	good, err := Append(nil, &Digests{List: many[1:]}, agreed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(good); err != nil {
		t.Error(err)
	}
	for what, b := range map[string][]byte{
		"no name": append(bytes.Clone(good[:17]), 0), "a part": good[:len(good)-1], "too many": append(bytes.Clone(good), good[17:38]...),
	} {
		if m, err := Decode(b); err == nil {
			t.Errorf("%s is taken: %+v", what, m)
		}
	}
}

// TestRelayed: managers of before are sent no queries, and what is none is neither sent nor taken.
func TestRelayed(t *testing.T) {
	if old := (Agreed{relayVersion - 1, 1}); old.Relays() || !agreed.Relays() {
		t.Error("whether the other manager takes queries is not known")
	} else if _, err := Append(nil, &Relayed{Data: query}, old); err == nil {
		t.Error("it is sent to a manager that does not know it")
	}
	smp := bytes.Clone(query)
	smp[1] = byte(ib.ClassSubnLID)
	for what, data := range map[string][]byte{
		"nothing": nil, "a part": query[:sa.HeaderLen-1], "an SMP": smp, "too much": append(bytes.Clone(query), make([]byte, MaxRelayed)...),
	} {
		if _, err := Append(nil, &Relayed{Data: data}, agreed); err == nil {
			t.Errorf("%s is sent", what)
		}
		good, err := Append(nil, &Relayed{Data: query}, agreed)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := Decode(append(good[:len(good)-len(query)], data...)); err == nil {
			t.Errorf("%s is taken: %+v", what, m)
		}
	}
	good, err := Append(nil, &Relayed{Data: query}, agreed)
	if err != nil {
		t.Fatal(err)
	}
	good[1] = 4
	if m, err := Decode(good); err == nil {
		t.Errorf("unknown flags are taken: %+v", m)
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
		b, err := Append([]byte("before"), m, agreed)
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
		switch m.(type) {
		case replica.Snapshot, *Told:
			cut = cut[:2] // its pieces, or what is told, may end at any number
		}
		for _, n := range cut {
			if got, err := Decode(b[:n]); err == nil {
				t.Fatalf("%T of %d bytes cut to %d: %+v", m, len(b), n, got)
			}
		}
	}
	if _, err := Append(nil, 17, agreed); err == nil {
		t.Error("a number is a message")
	}
	if _, err := Append(nil, replica.Entries{List: []journal.Entry{{Ops: []store.Op{{Kind: 99}}}}}, agreed); err == nil {
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
	w := NewWriter(&b, agreed)
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
	g := Greeting{From: 1, To: 2, LID: 3, Versions: Versions{journal.Range{Oldest: 2, Newest: 3}, journal.Range{Oldest: 4, Newest: 5}}}
	b := g.Put(nil)
	var got Greeting
	if err := got.Read(bytes.NewReader(b)); err != nil || got != g {
		t.Fatal(got, err)
	}
	for i := range b[:8] { // of the text, and a range that begins with 66
		bad := bytes.Clone(b)
		bad[i] ^= 0x40
		if err := got.Read(bytes.NewReader(bad)); err == nil {
			t.Errorf("byte %d does not count", i)
		}
	}
	if err := got.Read(bytes.NewReader(b[:31])); err == nil {
		t.Error("cut off")
	}
	early := bytes.Clone(b) // of a build that knew one version: people are told, as of any that does not fit
	clear(early[26:])
	if err := got.Read(bytes.NewReader(early)); !errors.Is(err, ErrVersions) {
		t.Errorf("a greeting without ranges: %v", err)
	}
	for i := 28; i < 32; i++ { // what later versions use is ignored
		b[i] ^= 0xFF
	}
	b[28] ^= 0xFF
	if err := got.Read(bytes.NewReader(b)); err != nil || got != g {
		t.Error(got, err)
	}
}

// TestAgree: managers of two versions use the newest that both have, and the one that cannot says
// which is the older one.
func TestAgree(t *testing.T) {
	r := func(a, b uint8) journal.Range { return journal.Range{Oldest: a, Newest: b} }
	for _, c := range []struct {
		own, peer Versions
		want      Agreed
		says      string
	}{
		{Versions{r(1, 1), r(1, 1)}, Versions{r(1, 1), r(1, 1)}, Agreed{1, 1}, ""},
		{Versions{r(1, 1), r(1, 2)}, Versions{r(1, 2), r(1, 3)}, Agreed{1, 2}, ""},
		{Versions{r(1, 1), r(1, 1)}, Versions{r(2, 3), r(1, 1)}, Agreed{}, "version 2 to 3 of the stream, this one version 1; this one is older"},
		{Versions{r(1, 1), r(2, 2)}, Versions{r(1, 1), r(1, 1)}, Agreed{}, "version 1 of the journal, this one version 2; that one is older"},
	} {
		got, err := c.own.Agree(&c.peer)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, ErrVersions) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v with %v: %v, %v", c.own, c.peer, got, err)
		}
		if back, err := c.peer.Agree(&c.own); back != c.want || (err == nil) != (c.says == "") {
			t.Errorf("%v with %v: %v, %v", c.peer, c.own, back, err)
		}
	}
	if _, err := Append(nil, replica.Entries{List: []journal.Entry{{Mark: mark}}}, Agreed{1, journal.Versions().Newest + 1}); err == nil {
		t.Error("an entry of a version that this program does not have is sent")
	}
}

// TestLaterSign: what a later version adds to a sign is ignored, because managers must hear each other
// that cannot be a pair.
func TestLaterSign(t *testing.T) {
	b := append(appendSign(nil, &sign), 1, 2, 3)
	b[0], b[3] = 7, 1
	b[1] |= 0xC0
	if got, err := decodeSign(b); err != nil || got != sign {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]byte{b[:signLen-1], append([]byte{0}, b[1:]...)} {
		if got, err := decodeSign(bad); err == nil {
			t.Errorf("%d bytes: %+v", len(bad), got)
		}
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
		b, err := Append(nil, m, agreed)
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
		again, err := Append(nil, m, agreed)
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
	w := NewWriter(&b, agreed)
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
	f.Add((&Greeting{From: 1, To: 2, LID: 3, Versions: Own()}).Put(nil))
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
		var got Datagram // flags of later versions are ignored
		d.Put(&m, k)
		if err := got.Decode(&m, k); err != nil || got != d {
			t.Fatalf("%+v\n%+v, %v", d, got, err)
		}
	})
}
