package backup_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"heddle/ib/sa"
	"heddle/internal/storetest"
	"heddle/store"
	"heddle/store/backup"
	"heddle/store/journal"
)

// state is any state.
func state(t testing.TB, r *rand.Rand, n int) *store.State {
	t.Helper()
	m := store.NewMemory()
	for range n {
		if err := m.Apply([]store.Op{storetest.Op(r)}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := m.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func text(t testing.TB, s *store.State, at journal.Mark) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (&backup.Backup{State: s, At: at}).Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var at = journal.Mark{Term: journal.Term{Number: 3, Owner: 0x0002C90300A1B2C3}, Number: 77}

// TestBackup: what was written is read, and no bit of it can change, nor a byte be missing.
func TestBackup(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		s := state(t, r, 3*i)
		b := text(t, s, at)
		got, err := backup.Read(bytes.NewReader(b))
		if err != nil || !reflect.DeepEqual(got, &backup.Backup{State: s, At: at}) {
			t.Fatalf("%+v became %+v, %v", s, got, err)
		}
		for range 40 {
			if cut := b[:r.IntN(len(b))]; cut != nil {
				if _, err := backup.Read(bytes.NewReader(cut)); err == nil {
					t.Fatalf("%d of %d bytes were accepted", len(cut), len(b))
				}
			}
			damaged := bytes.Clone(b)
			damaged[r.IntN(len(b))] ^= 1 << r.IntN(8)
			if _, err := backup.Read(bytes.NewReader(damaged)); err == nil {
				t.Fatalf("%q was accepted", damaged)
			}
		}
	}
}

// TestBackupText is the example that people read; docs/format/backup.md names its fields.
func TestBackupText(t *testing.T) {
	s := &store.State{
		LIDs:      []store.LIDEntry{{GUID: 0x11, LID: 5, LMC: 2}},
		MKeys:     []store.MKeyEntry{{GUID: 0x11, MKey: 0xAB}},
		Neighbors: []store.NeighborEntry{{Node: 0x21, Port: 36, Peer: 0x11}},
		Records:   []store.Record{{Table: store.TableFunctionGUIDs, Key: []byte{1, 2}, Value: []byte("v")}},
	}
	want := `{"heddle":"state","version":1,"term":3,"owner":"0x0002c90300a1b2c3","entry":77,"lids":1,"m_keys":1,"neighbors":1,"records":1,"lines":4}
{"lid":{"guid":"0x0000000000000011","lid":5,"lmc":2}}
{"m_key":{"guid":"0x0000000000000011","key":"0x00000000000000ab"}}
{"neighbor":{"node":"0x0000000000000021","port":36,"peer":"0x0000000000000011"}}
{"record":{"table":"function_guids","key":"0102","value":"76"}}
{"crc32c":"`
	got := string(text(t, s, at))
	if !strings.HasPrefix(got, want) || len(got) != len(want)+len("12345678\"}\n") {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "format", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i := store.Table(1); ; i++ {
		name := i.String()
		if _, is := store.TableNamed(name); !is {
			break
		}
		if !bytes.Contains(doc, []byte("`"+name+"`")) {
			t.Errorf("docs/format/backup.md does not name table %s", name)
		}
	}
}

func TestBackupRefuses(t *testing.T) {
	head := `{"heddle":"state","version":1,"term":0,"owner":"0x0000000000000000","entry":0,"lids":1,"m_keys":0,"neighbors":0,"records":0,"lines":1}` + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "line 1: the backup is cut off"},
		{"\n", "line 1: this is no backup"},
		{`{"other":1}` + "\n", "line 1: this is no backup"},
		{strings.Replace(head, `"version":1`, `"version":2`, 1), "version 2"},
		{head, "line 2: the backup is cut off"},
		{strings.Replace(head, "}", `,"without":{}}`, 1), "line 1: it counts nothing"},
		{strings.Replace(head, "}", `,"without":{"tokens":-1}}`, 1), "line 1: it counts nothing"},
		{strings.Replace(head, "}", `,"without":{"cats":1}}`, 1), "line 1: this is no backup"},
		{head + `{"lid":{"guid":"0x0000000000000001","lid":0,"lmc":0}}` + "\n", "line 2: store: port"},
		{head + `{"lid":{"guid":"1","lid":1,"lmc":0}}` + "\n", `line 2: "1" is no number`},
		{head + `{"lid":{"guid":"0x0000000000000001","lid":1,"lmc":0},"m_key":{"guid":"0x0000000000000001","key":"0x0000000000000001"}}` + "\n", "more than one"},
		{head + `{}` + "\n", "no entry"},
		{head + `{"record":{"table":"x","key":"00","value":""}}` + "\n", `no table "x"`},
		{head + `{"record":{"table":"groups","key":"0","value":""}}` + "\n", "line 2"},
		{head + `{"crc32c":"00000000"}` + "\n", "changed or damaged"},
	} {
		_, err := backup.Read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	b := text(t, state(t, rand.New(rand.NewPCG(1, 2)), 5), at)
	if _, err := backup.Read(bytes.NewReader(append(b, 'x'))); err == nil || !strings.Contains(err.Error(), "comes more") {
		t.Errorf("%v", err)
	}
}

// FuzzBackup: what is accepted is written as the same entries.
func FuzzBackup(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 6 {
		f.Add(text(f, state(f, r, 4*i), at))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for x, err := backup.Read(bytes.NewReader(b)); err == nil && x != nil; x = x.WithoutKeys() {
			var out bytes.Buffer
			if err := x.Write(&out); err != nil {
				t.Fatal(err)
			}
			again, err := backup.Read(&out)
			if err != nil || !reflect.DeepEqual(again, x) {
				t.Fatalf("%+v became %+v, %v", x, again, err)
			}
			if reflect.DeepEqual(x, x.WithoutKeys()) {
				break
			}
		}
	})
}

// TestWithoutKeys: what has keys is left out and counted, the rest stays, and so does the backup that
// it was made of.
func TestWithoutKeys(t *testing.T) {
	service := func(id byte, key ...byte) store.Record {
		r := sa.ServiceRecord{ServiceID: uint64(id)}
		copy(r.ServiceKey[:], key)
		v := make([]byte, 17+sa.ServiceRecordLen)
		r.Put(v[17:])
		return store.Record{Table: store.TableServices, Key: []byte{id}, Value: v}
	}
	open, keyed, odd := service(1), service(2, 0, 0xC5, 0xC5), service(3)
	odd.Value = odd.Value[1:]
	token := store.Record{Table: store.TableTokens, Key: []byte("t"), Value: []byte("hash")}
	b := &backup.Backup{At: at, State: &store.State{
		LIDs:    []store.LIDEntry{{GUID: 0x11, LID: 5}},
		MKeys:   []store.MKeyEntry{{GUID: 0x11, MKey: 0xC5C5}, {GUID: 0x12, MKey: 0xC5C5}},
		Records: []store.Record{open, keyed, odd, token},
	}}
	got := b.WithoutKeys()
	want := &backup.Backup{At: at, Without: backup.Withheld{MKeys: 2, Tokens: 1, Services: 2}, State: &store.State{
		LIDs: b.State.LIDs, Records: []store.Record{open},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v with %+v, want %+v with %+v", got, got.State, want, want.State)
	}
	if len(b.State.MKeys) != 2 || len(b.State.Records) != 4 || !bytes.Equal(b.State.Records[3].Value, []byte("hash")) {
		t.Errorf("the backup became %+v", b.State)
	}
	if again := got.WithoutKeys(); !reflect.DeepEqual(again, want) {
		t.Errorf("twice: %+v", again)
	}
	var out bytes.Buffer
	if err := got.Write(&out); err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	if !strings.HasSuffix(line, `,"lines":2,"without":{"m_keys":2,"tokens":1,"services":2}}`) || strings.Contains(out.String(), "c5c5") {
		t.Errorf("%s", out.String())
	}
}
