package checkpoint

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/route/engine/minhop"
	"heddle/store/journal"
	"heddle/subnet"
	"heddle/subnet/mirror"
)

// published is what the manager on port 0xA1 publishes.
func published(tb testing.TB) *subnet.Snapshot {
	tb.Helper()
	f, err := fabrictest.Generate("xgft", []string{"1", "4", "1"}, 1)
	if err != nil {
		tb.Fatal(err)
	}
	s := snaptest.New(tb, f, minhop.Engine{}, 1)
	s.PortGUID = 0xA1
	return s
}

// later is s with a link that is down.
func later(s *subnet.Snapshot) *subnet.Snapshot {
	n := &subnet.Snapshot{}
	*n = *s
	n.Gen++
	p := n.Edit(s, 5)
	p.Info.PortState = ib.StateDown
	n.Carry(s, []int32{p.Node})
	return n
}

var ours = Identity{Last: journal.Mark{Term: journal.Term{Number: 7, Owner: 0xA1}, Number: 42}, Port: 0xA1, Prefix: ib.DefaultSubnetPrefix, LMC: 1}

// written is a directory with a checkpoint of s, that of an earlier snapshot and what changed since.
func written(tb testing.TB, s *subnet.Snapshot) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	w, err := Begin(dir, s)
	if err != nil {
		tb.Fatal(err)
	}
	if f, err := Read(dir); f != nil || err != nil {
		tb.Errorf("before it is complete: %v, %v", f, err)
	}
	if err := w.Commit(later(s), ours); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func message(s *subnet.Snapshot) []byte { return mirror.NewEncoder(1).Next(s) }

// TestCheckpoint: what was written is read, whole, and is gone when it is removed.
func TestCheckpoint(t *testing.T) {
	s := published(t)
	dir := written(t, s)
	f, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if f.Identity != ours {
		t.Errorf("it is of %+v", f.Identity)
	}
	if !bytes.Equal(message(f.Snapshot), message(later(s))) {
		t.Error("it has another snapshot")
	}
	if err := f.Snapshot.Check(); err != nil {
		t.Error(err)
	}
	if fi, err := os.Stat(filepath.Join(dir, FileName)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	left, err := Begin(dir, s) // by a manager that died
	if err != nil {
		t.Fatal(err)
	}
	defer left.f.Close()
	for range 2 {
		if err := Remove(dir); err != nil {
			t.Fatal(err)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
			t.Errorf("after Remove the directory has %v, %v", list, err)
		}
		if f, err := Read(dir); f != nil || err != nil {
			t.Errorf("after Remove: %v, %v", f, err)
		}
	}
}

// TestDiscard: a checkpoint that is given up leaves nothing, and one that cannot be made says so.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	w, err := Begin(dir, published(t))
	if err != nil {
		t.Fatal(err)
	}
	w.Discard()
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("the directory has %v, %v", list, err)
	}
	if _, err := Begin(filepath.Join(dir, "none"), published(t)); err == nil {
		t.Error("a checkpoint in no directory")
	}
	// Where a link or another file is in the way, what it names stays as it is.
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, newName)); err != nil {
		t.Fatal(err)
	}
	if w, err = Begin(dir, published(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(published(t), ours); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "mine" {
		t.Errorf("another file has %q, %v", b, err)
	}
}

// TestFits: a checkpoint fits the moment and the manager that it was made for, and no other.
func TestFits(t *testing.T) {
	f, err := Read(written(t, published(t)))
	if err != nil {
		t.Fatal(err)
	}
	newer, prefix, port, lmc := ours, ours, ours, ours
	newer.Last.Number++
	prefix.Prefix++
	port.Port++
	lmc.LMC = 0
	term := ours
	term.Last.Term.Number++
	for _, x := range []struct {
		want Identity
		age  time.Duration
		why  string
	}{
		{ours, 0, ""},
		{ours, MaxAge, ""},
		{ours, MaxAge + 1, "old"},
		{ours, -1, "clock"},
		{newer, 0, "store"},
		{term, 0, "store"},
		{prefix, 0, "prefix"},
		{port, 0, "port"},
		{lmc, 0, "LMC"},
	} {
		err := f.Fits(x.want, f.Written.Add(x.age))
		if (err == nil) != (x.why == "") || err != nil && !strings.Contains(err.Error(), x.why) {
			t.Errorf("%+v after %v: %v", x.want, x.age, err)
		}
	}
}

// TestDamaged: every damage of a file is found, wherever it is and however little is left.
func TestDamaged(t *testing.T) {
	path := filepath.Join(written(t, published(t)), FileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(whole); err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x10
		if _, err := Decode(bad); err == nil {
			t.Errorf("byte %d is damaged, and the file is read", at)
		}
		if _, err := Decode(whole[:at]); err == nil {
			t.Errorf("%d bytes of %d are read", at, len(whole))
		}
	}
	if _, err := Decode(append(bytes.Clone(whole), 0)); err == nil {
		t.Error("a file with another byte at its end is read")
	}
	newer := bytes.Clone(whole)
	newer[3]++
	if _, err := Decode(newer); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a newer version: %v", err)
	}
}

// TestWrongState: a file that is in order, and does not show a subnet that its manager had brought up, is
// refused.
func TestWrongState(t *testing.T) {
	for name, change := range map[string]func(*subnet.Snapshot){
		"not up": func(s *subnet.Snapshot) { s.Up = false }, "standby": func(s *subnet.Snapshot) { s.State = subnet.Standby },
		"no tables": func(s *subnet.Snapshot) { s.Tables = nil }, "another manager": func(s *subnet.Snapshot) { s.PortGUID++ },
		"another subnet": func(s *subnet.Snapshot) { s.Prefix++ },
	} {
		s := published(t)
		change(s)
		msg := message(s)
		if _, err := Decode(append(header(ours, time.Now(), len(msg), 0), msg...)); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// TestForeignFiles: what is not a file of the manager alone, or longer than any, is refused without
// being read.
func TestForeignFiles(t *testing.T) {
	dir := written(t, published(t))
	path := filepath.Join(dir, FileName)
	refused := func(why string) {
		t.Helper()
		if f, err := Read(dir); f != nil || err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, %v; want an error with %q", f, err, why)
		}
	}
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	refused("others")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(maxFile)+1); err != nil { // with a hole
		t.Fatal(err)
	}
	refused("bytes")
	if err := os.Rename(path, path+".there"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".there", path); err != nil {
		t.Fatal(err)
	}
	refused("not a file")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("not a file")
}

// FuzzDecode: any bytes, and any messages with correct checksums, are refused or lead to a snapshot that
// is in order and can answer.
func FuzzDecode(f *testing.F) {
	s := published(f)
	b, err := os.ReadFile(filepath.Join(written(f, s), FileName))
	if err != nil {
		f.Fatal(err)
	}
	e := mirror.NewEncoder(1)
	first := bytes.Clone(e.Next(s))
	f.Add(b, first[:len(first)-4], []byte(nil))
	second := bytes.Clone(e.Next(later(s)))
	f.Add([]byte(nil), first[:len(first)-4], second[:len(second)-4])
	f.Fuzz(func(t *testing.T, raw, first, second []byte) {
		use := func(b []byte) {
			x, err := Decode(b)
			if err != nil {
				return
			}
			if err := x.Fits(x.Identity, x.Written); err != nil {
				t.Errorf("it does not fit itself: %v", err)
			}
			for i := range x.Snapshot.Ports[:min(4, len(x.Snapshot.Ports))] {
				for l := range min(x.Snapshot.TopLID(), 8) {
					x.Snapshot.Path(int32(i), l)
				}
			}
		}
		use(raw)
		if len(raw) >= headerLen { // with a header that is right
			sealed := bytes.Clone(raw)
			binary.BigEndian.PutUint32(sealed[headerLen-4:], crc32.Checksum(sealed[:headerLen-4], castagnoli))
			use(sealed)
		}
		first = sealed(first)
		if len(second) > 0 {
			second = sealed(second)
		}
		use(append(append(header(ours, time.Unix(0, 1), len(first), len(second)), first...), second...))
	})
}

// sealed is a message with its checksum.
func sealed(msg []byte) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(msg), crc32.Checksum(msg, castagnoli))
}
