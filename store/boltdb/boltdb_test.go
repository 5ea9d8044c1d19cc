package boltdb_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"heddle/internal/storetest"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

func TestBolt(t *testing.T) {
	dir := t.TempDir()
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := boltdb.Open(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_")))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// some makes a file with one entry of each kind and returns its path.
func some(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), boltdb.FileName)
	s, err := boltdb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply([]store.Op{
		{Kind: store.PutLID, GUID: 0x0002C90300A1B2C3, LID: 0x1234, LMC: 2},
		{Kind: store.PutMKey, GUID: 0x0002C90300A1B2C3, MKey: 0x8877665544332211},
		{Kind: store.PutNeighbor, GUID: 0x0002C90200000001, Port: 36, Peer: 0x0002C90300A1B2C3},
		{Kind: store.PutRecord, Record: store.Record{Table: store.TableServices, Key: []byte("key"), Value: []byte("value")}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// crc32c is CRC-32C bit by bit, apart from the table that the store uses.
func crc32c(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			c = c>>1 ^ 0x82F63B78&-(c&1)
		}
	}
	return ^c
}

// TestFormat compares the file with docs/format/store.md, bucket by bucket.
func TestFormat(t *testing.T) {
	if crc32c([]byte("123456789")) != 0xE3069283 { // RFC 3720, B.4
		t.Fatal("the test's own CRC-32C is wrong")
	}
	path := some(t)
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := map[string]string{}
	if err := db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				switch string(name) {
				case "meta":
					got["meta "+string(k)] = hex.EncodeToString(v)
					return nil
				case "journal":
					got["journal "+hex.EncodeToString(k)] = hex.EncodeToString(v[:8])
					return nil
				}
				n := len(v) - 4
				if crc32c(append(bytes.Clone(k), v[:n]...)) != binary.BigEndian.Uint32(v[n:]) {
					t.Errorf("%s %x: checksum %x", name, k, v[n:])
				}
				got[string(name)+" "+hex.EncodeToString(k)] = hex.EncodeToString(v[:n])
				return nil
			})
		})
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"meta version":                 "03",
		"journal 0000000000000001":     "010000000000006b", // journal.Append, of 107 bytes
		"guid2lid 0002c90300a1b2c3":    "1234" + "02",      // LID, LMC
		"guid2mkey 0002c90300a1b2c3":   "8877665544332211", // M_Key
		"neighbors 0002c9020000000124": "0002c90300a1b2c3", // port 36 = 0x24: port GUID behind it
		"records 036b6579":             "76616c7565",       // table 3, "key": "value"
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the file holds\n%v, not\n%v", got, want)
	}
	doc, err := os.ReadFile("../../docs/format/store.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{boltdb.FileName, "`meta`", "`guid2lid`", "`guid2mkey`", "`neighbors`", "mode 0600", "`records`", "CRC-32C", "1 byte: 3", "`journal`", "`begin`", "`note`"} {
		if !bytes.Contains(doc, []byte(w)) {
			t.Errorf("docs/format/store.md does not say %q", w)
		}
	}
}

func TestMode(t *testing.T) {
	path := some(t)
	fi, err := os.Stat(path)
	if err != nil || fi.Mode() != 0o600 {
		t.Fatalf("mode %v, %v", fi.Mode(), err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o602, 0o601, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		refused(t, path, "chmod 600")
	}
	if err := os.Chmod(path, 0o400); err != nil { // stricter is fine, for whoever may read it
		t.Fatal(err)
	}
	if s, err := boltdb.Open(path); err == nil {
		s.Close()
	}
	refused(t, t.TempDir(), "not a regular file")
}

// TestOtherKind: the error of a file of another kind says so, whatever its mode and its length are.
func TestOtherKind(t *testing.T) {
	for _, text := range []string{"Default=0x7fff : ALL=full;\n", strings.Repeat("# partitions of the racks\n", 100)} {
		path := filepath.Join(t.TempDir(), "p.conf")
		for _, mode := range []os.FileMode{0o644, 0o600} {
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			err := refused(t, path, path+" is not a Heddle store")
			if c := (*boltdb.CorruptError)(nil); !errors.As(err, &c) || !c.Foreign || strings.Contains(err.Error(), "chmod") {
				t.Errorf("mode %v: %v", mode, err)
			}
		}
	}
}

// refused opens path, wants an error that contains what, and the file left
// as it was.
func refused(t *testing.T, path, what string) error {
	t.Helper()
	before, _ := os.ReadFile(path)
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := boltdb.Open(path)
	if err == nil {
		_, err = s.Load()
		s.Close()
	}
	switch {
	case err == nil:
		t.Fatalf("%s was accepted; want an error with %q", path, what)
	case !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), path):
		t.Errorf("the error %q does not say %q and the file", err, what)
	}
	after, _ := os.ReadFile(path)
	if fi2, err := os.Stat(path); err != nil || fi2.Mode() != fi.Mode() || !bytes.Equal(before, after) {
		t.Errorf("the refused file was changed (%v)", err)
	}
	return err
}

func TestFileInUse(t *testing.T) {
	path := some(t)
	s, err := boltdb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, path, "in use by another process")
	if _, err := s.Load(); err != nil {
		t.Fatalf("the first holder: %v", err)
	}
	s.Close()
	if s, err = boltdb.Open(path); err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// edit changes a file with bbolt itself.
func edit(t *testing.T, path string, f func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(f); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// entry is a value with its checksum right.
func entry(k, v []byte) []byte {
	return binary.BigEndian.AppendUint32(v, crc32c(append(bytes.Clone(k), v...)))
}

func TestDamagedEntry(t *testing.T) {
	g := []byte{0, 2, 0xC9, 3, 0, 0xA1, 0xB2, 0xC3}
	for _, c := range []struct {
		name, bucket string
		key, val     []byte
		want         string
	}{
		{"LID 0", "guid2lid", g, entry(g, []byte{0, 0, 0}), "no unicast range"},
		{"LID multicast", "guid2lid", g, entry(g, []byte{0xC0, 0, 0}), "no unicast range"},
		{"LMC 8", "guid2lid", g, entry(g, []byte{0, 1, 8}), "no unicast range"},
		{"LMC range", "guid2lid", g, entry(g, []byte{0xBF, 0xFF, 1}), "no unicast range"},
		{"short", "guid2lid", g, entry(g, []byte{0, 1}), "8+6 bytes instead of 8+7"},
		{"long", "guid2lid", g, entry(g, []byte{0, 1, 0, 0}), "8+8 bytes"},
		{"empty", "guid2lid", g, nil, "8+0 bytes"},
		{"short key", "guid2lid", g[:7], entry(g[:7], []byte{0, 1, 0}), "7+7 bytes"},
		{"checksum", "guid2lid", g, append(entry(g, []byte{0, 1, 0})[:6], 0xFF), "checksum"},
		{"moved", "guid2mkey", g, entry(g[:7], make([]byte, 8)), "checksum"},
		{"key length", "guid2mkey", g, entry(g, make([]byte, 7)), "8+11 bytes"},
		{"no port", "neighbors", g, entry(g, make([]byte, 8)), "8+12 bytes"},
		{"record checksum", "records", []byte{1, 2}, append(entry([]byte{1, 2}, []byte{9})[:4], 0), "checksum"},
		{"record short", "records", []byte{1, 2}, []byte{0, 0, 0}, "too few"},
		{"record table 0", "records", []byte{0, 2}, entry([]byte{0, 2}, nil), "table 0"},
		{"record table 200", "records", []byte{200, 2}, entry([]byte{200, 2}, nil), "table 200"},
		{"record no key", "records", []byte{1}, entry([]byte{1}, nil), "key of 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := some(t)
			edit(t, path, func(tx *bolt.Tx) error { return tx.Bucket([]byte(c.bucket)).Put(c.key, c.val) })
			err := refused(t, path, c.want)
			var ce *boltdb.CorruptError
			if !errors.As(err, &ce) || ce.Path != path || !strings.Contains(ce.What, hex.EncodeToString(c.key)) {
				t.Errorf("%#v does not name the entry", err)
			}
			for _, w := range []string{"damaged", c.bucket, "restore a copy"} {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

func TestOtherVersion(t *testing.T) {
	for v, want := range map[string]string{"\x05": "format 5", "\x00": "format 0", "": "no format version", "\x01\x01": "no format version"} {
		path := some(t)
		edit(t, path, func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("version"), []byte(v)) })
		refused(t, path, want)
	}
	for _, b := range []string{"meta", "guid2lid", "guid2mkey", "neighbors", "records", "journal"} {
		path := some(t)
		edit(t, path, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(b)) })
		refused(t, path, "no bucket "+b)
	}
}

// version1 makes a file as the first format was.
func version1(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), boltdb.FileName)
	g := []byte{0, 2, 0xC9, 3, 0, 0xA1, 0xB2, 0xC3}
	sw := append(bytes.Clone(g), 36)
	edit(t, path, func(tx *bolt.Tx) error {
		for _, e := range []struct {
			bucket string
			key    []byte
			val    []byte
		}{
			{"meta", []byte("version"), []byte{1}},
			{"guid2lid", g, entry(g, []byte{0x12, 0x34, 2})},
			{"guid2mkey", g, entry(g, []byte{8, 7, 6, 5, 4, 3, 2, 1})},
			{"neighbors", sw, entry(sw, g)},
		} {
			b, err := tx.CreateBucket([]byte(e.bucket))
			if err != nil {
				return err
			}
			if err := b.Put(e.key, e.val); err != nil {
				return err
			}
		}
		return nil
	})
	return path
}

// TestMigration: a reader sees the contents of a version 1 file without changing it;
// opening it upgrades it to version 3.
func TestMigration(t *testing.T) {
	path := version1(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const g = 0x0002C90300A1B2C3
	want := &store.State{
		LIDs:      []store.LIDEntry{{GUID: g, LID: 0x1234, LMC: 2}},
		MKeys:     []store.MKeyEntry{{GUID: g, MKey: 0x0807060504030201}},
		Neighbors: []store.NeighborEntry{{Node: g, Port: 36, Peer: g}},
	}
	if st, err := boltdb.Read(path); err != nil || !reflect.DeepEqual(st, want) {
		t.Errorf("read %+v, %v", st, err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("Read changed the file")
	}
	for i := range 2 {
		s, err := boltdb.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := s.Load(); err != nil || !reflect.DeepEqual(st, want) {
			t.Fatalf("opened %d times: %+v, %v", i+1, st, err)
		}
		r := store.Record{Table: store.TableGroups, Key: []byte("k"), Value: []byte("v")}
		if err := s.Apply([]store.Op{{Kind: store.PutRecord, Record: r}}); err != nil {
			t.Fatal(err)
		}
		want.Records = []store.Record{r}
		s.Close()
	}
	if st, err := boltdb.Read(path); err != nil || !reflect.DeepEqual(st, want) {
		t.Errorf("read %+v, %v", st, err)
	}
	edit(t, path, func(tx *bolt.Tx) error {
		if v := tx.Bucket([]byte("meta")).Get([]byte("version")); !bytes.Equal(v, []byte{3}) {
			t.Errorf("the version is %x", v)
		}
		return nil
	})
	broken := version1(t)
	edit(t, broken, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("neighbors")) })
	refused(t, broken, "no bucket neighbors")
}

// TestRead: the state as operations makes an equal store; what is not there is
// not made.
func TestRead(t *testing.T) {
	st, err := boltdb.Read(some(t))
	if err != nil || len(st.Records) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	m := store.NewMemory()
	if err := m.Apply(st.Ops()); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Load(); err != nil || !reflect.DeepEqual(got, st) {
		t.Errorf("%+v, %v; want %+v", got, err, st)
	}
	path := filepath.Join(t.TempDir(), boltdb.FileName)
	if _, err := boltdb.Read(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("Read made a file")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err := boltdb.Read(path); err != nil || len(st.Ops()) != 0 {
		t.Errorf("an empty file: %+v, %v", st, err)
	}
}

// TestNoFirstCommit: a process that died between creating the file and its first
// transaction lost nothing.
func TestNoFirstCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), boltdb.FileName)
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	for range 2 {
		s, err := boltdb.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := s.Load(); err != nil || len(st.LIDs) != 0 {
			t.Fatalf("%+v, %v", st, err)
		}
		s.Close()
	}
	empty := filepath.Join(t.TempDir(), boltdb.FileName)
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := boltdb.Open(empty)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// TestDamagedFile: a file with damaged bytes gives an error or stored entries when
// opened and loaded, never a crash or other values, and stays unchanged. Entries
// missing because a page header is damaged are a limit of bbolt, which
// docs/format/store.md describes.
func TestDamagedFile(t *testing.T) {
	defer boltdb.NoSync()()
	path := some(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := boltdb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	dir := t.TempDir()
	var tries, loaded, fewer, corrupt, checked int
	try := func(name string, b []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := boltdb.Open(path)
		var st *store.State
		if err == nil {
			st, err = s.Load()
			s.Close()
		}
		if err == nil {
			loaded++
			if !partOf(st.LIDs, want.LIDs) || !partOf(st.MKeys, want.MKeys) || !partOf(st.Neighbors, want.Neighbors) ||
				len(st.Records) > 0 && !reflect.DeepEqual(st.Records, want.Records) {
				t.Errorf("%s: loaded %+v", name, st)
			}
			if !reflect.DeepEqual(st, want) {
				fewer++
			}
		}
		if tries++; err != nil && errors.As(err, new(*boltdb.CorruptError)) {
			corrupt++
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v does not name the file", name, err)
		}
		// Another file: bbolt keeps the lock of one on which it panics.
		second := path + ".check"
		if err := os.WriteFile(second, b, 0o600); err != nil {
			t.Fatal(err)
		}
		found := boltdb.Check(second)
		// Of an inline bucket that is cut off bbolt reads the bytes behind its own copy, which may by
		// chance be those that belong there.
		for i := 0; i < 20 && found == nil && err != nil; i++ {
			found = boltdb.Check(second)
		}
		if found == nil && err != nil {
			t.Errorf("%s: Check found nothing, and Open %v", name, err)
		} else if found != nil && !errors.As(found, new(*boltdb.CorruptError)) {
			t.Errorf("%s: Check: %v", name, found)
		} else if found != nil && err == nil {
			checked++
		}
		os.Remove(second)
		if after, _ := os.ReadFile(path); !bytes.Equal(after, b) {
			t.Errorf("%s: the file was changed", name)
		}
		os.Remove(path)
	}
	for _, n := range []int{1, 16, 31, 32, 100, 4095, 4096, 5000, 8192, 12288, 16384, 20480, len(whole) - 1} {
		if n < len(whole) {
			try("cut", whole[:n])
		}
	}
	text := bytes.Repeat([]byte("not a database\n"), 4000)
	try("text", text)
	try("zeros", make([]byte, len(whole)))
	page := os.Getpagesize()
	for at := 0; at+page <= len(whole); at += page {
		b := bytes.Clone(whole)
		clear(b[at : at+page])
		try("zero page", b)
		b = bytes.Clone(whole)
		for i := at; i < at+page; i++ {
			b[i] = 0xFF
		}
		try("ones", b)
	}
	// Single bytes, in the used part of each page.
	for at := 0; at+page <= len(whole); at += page {
		for off := range 200 {
			b := bytes.Clone(whole)
			b[at+off] ^= 0x01
			try(fmt.Sprintf("byte %d.%d", at/page, off), b)
		}
	}
	t.Logf("%d files: %d loaded (%d with fewer entries, %d called damaged by Check), %d called damaged", tries, loaded, fewer, checked, corrupt)
	if loaded+corrupt != tries {
		t.Errorf("%d files were refused without being called damaged", tries-loaded-corrupt)
	}
}

func partOf[T comparable](part, whole []T) bool {
	for _, e := range part {
		if !slices.Contains(whole, e) {
			return false
		}
	}
	return true
}

// TestNewerTable: a file has the format of before tokens until something needs a newer one, so that an older program
// can go on with it; then that program refuses it by the number of its format.
func TestNewerTable(t *testing.T) {
	put := store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableTokens, Key: []byte("a"), Value: []byte{1}}}
	gone := store.Op{Kind: store.DeleteRecord, Record: store.Record{Table: store.TablePortActions, Key: []byte("a")}}
	old := store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableMembers, Key: []byte("a"), Value: []byte{1}}}
	for _, c := range []struct {
		name string
		do   func(db *boltdb.DB) error
		want byte
	}{
		{"older tables", func(db *boltdb.DB) error { return db.Apply([]store.Op{old}) }, 3},
		{"a record", func(db *boltdb.DB) error { return db.Apply([]store.Op{old, put, old}) }, 4},
		{"an operation in the journal", func(db *boltdb.DB) error { return db.Apply([]store.Op{gone}) }, 4},
		{"an entry of another manager", func(db *boltdb.DB) error {
			last, err := db.Last()
			if err != nil {
				return err
			}
			return db.Append(&journal.Entry{Mark: journal.Mark{Term: last.Term, Number: last.Number + 1}, Ops: []store.Op{put}})
		}, 4},
		{"a state with one", func(db *boltdb.DB) error {
			return db.Replace(&store.State{Records: []store.Record{put.Record}}, journal.Mark{Number: 9})
		}, 4},
		{"a state without one", func(db *boltdb.DB) error {
			return errors.Join(db.Apply([]store.Op{put}), db.Replace(&store.State{Records: []store.Record{old.Record}}, journal.Mark{Number: 9}))
		}, 3},
	} {
		path := some(t)
		db, err := boltdb.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.do(db), db.Close()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []byte
		edit(t, path, func(tx *bolt.Tx) error {
			got = bytes.Clone(tx.Bucket([]byte("meta")).Get([]byte("version")))
			return nil
		})
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: format %v, want %d", c.name, got, c.want)
		}
		if err := boltdb.Check(path); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if db, err = boltdb.Open(path); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else {
			db.Close()
		}
	}
}
