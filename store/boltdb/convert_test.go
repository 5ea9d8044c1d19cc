package boltdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"heddle/ib"
	"heddle/internal/faultdisk"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

// olderState is what a file of format 2 may hold: several pages.
func olderState(n int) *store.State {
	s := &store.State{}
	for i := range n {
		s.LIDs = append(s.LIDs, store.LIDEntry{GUID: ib.GUID(i + 1), LID: ib.LID(i + 1)})
		s.Records = append(s.Records, store.Record{Table: store.TableGroups, Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{byte(i)}, 500)})
	}
	return s
}

func older(t *testing.T, path string, s *store.State, format uint8) []byte {
	t.Helper()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := boltdb.WriteOlder(path, s, format); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestConversionKeepsCopy: before a file of an older format is converted there is a copy of it beside
// it, byte for byte and with its mode; of each format the newest.
func TestConversionKeepsCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), boltdb.FileName)
	convert := func(s *store.State, format uint8) {
		t.Helper()
		was := older(t, path, s, format)
		if err := os.Chmod(path, 0o600&^0o100); err != nil {
			t.Fatal(err)
		}
		db, err := boltdb.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		c := db.Converted()
		if want := fmt.Sprintf("%s.format%d", path, format); c == nil || c.From != format || c.To != boltdb.Format || c.Copy != want || c.NoCopy != nil {
			t.Fatalf("format %d: converted %+v", format, c)
		}
		if !bytes.Equal(read(t, c.Copy), was) {
			t.Errorf("format %d: the copy is another file", format)
		}
		if fi, err := os.Stat(c.Copy); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("format %d: the copy has mode %v, %v", format, fi.Mode(), err)
		}
		if s, err := boltdb.Read(c.Copy); err != nil || len(s.LIDs) == 0 {
			t.Errorf("format %d: the copy: %v", format, err)
		}
	}
	convert(&store.State{LIDs: olderState(1).LIDs}, 1)
	convert(olderState(3), 2)
	convert(olderState(5), 2)
	db, err := boltdb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if c := db.Converted(); c != nil {
		t.Errorf("converted again: %+v", c)
	}
	db.Close()
	for _, name := range []string{".format2.new", ".format", ".format02", ".format300", ".formatx"} {
		if err := os.WriteFile(path+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := boltdb.Copies(path)
	if err != nil || len(list) != 2 || list[0].Path != path+".format1" || list[0].Format != 1 || list[1].Format != 2 || list[1].Made.IsZero() {
		t.Errorf("copies %+v, %v", list, err)
	}
	if s, err := boltdb.Read(path + ".format2"); err != nil || len(s.LIDs) != 5 {
		t.Errorf("the copy is not the newest: %v", err)
	}
	if _, err := boltdb.Copies(filepath.Join(path, "x")); err == nil {
		t.Error("copies beside a file whose directory is none")
	}
}

// TestConversionOfDamage: an older file with damage stays as it is, without a copy.
func TestConversionOfDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), boltdb.FileName)
	older(t, path, olderState(3), 2)
	edit(t, path, func(tx *bolt.Tx) error { return tx.Bucket([]byte("guid2lid")).Put([]byte("12345678"), []byte("short")) })
	was := read(t, path)
	_, err := boltdb.Open(path)
	if damaged := (*boltdb.CorruptError)(nil); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "guid2lid") {
		t.Errorf("opened: %v", err)
	}
	if !bytes.Equal(read(t, path), was) {
		t.Error("the file was changed")
	}
	if list, err := boltdb.Copies(path); err != nil || len(list) != 0 {
		t.Errorf("copies %v, %v", list, err)
	}
}

// TestNewerFormat: the refusal of a file of a newer format names the newest copy that this program
// reads, and the command that goes back to it.
func TestNewerFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "it's here", boltdb.FileName)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	older(t, path, olderState(1), 2)
	edit(t, path, func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("version"), []byte{5}) })
	refusal := func() string {
		t.Helper()
		_, err := boltdb.Open(path)
		if f := (*boltdb.FormatError)(nil); !errors.As(err, &f) || f.Format != 5 {
			t.Fatalf("opened: %v", err)
		}
		return err.Error()
	}
	if s := refusal(); !strings.HasSuffix(s, "has format 5, this program writes format 4: use the version of heddle that wrote it, or move the file away") {
		t.Error(s)
	}
	for _, format := range []string{"2", "4", "5"} {
		if err := os.WriteFile(path+".format"+format, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	word := strings.ReplaceAll(path, "'", `'\''`)
	if s := refusal(); !strings.HasSuffix(s, "without what changed since: heddle store import '"+word+".format4' '"+word+"' --replace") {
		t.Error(s)
	}
	if s := boltdb.GoBack("-a", "/var/lib/heddle/mlx5_0:1/heddle.db"); s != "heddle store import './-a' /var/lib/heddle/mlx5_0:1/heddle.db --replace" {
		t.Error(s)
	}
}

// converting has a disk with a file of format 2 that is whole and durable.
func converting(t *testing.T, seed uint64) (c *campaign, file []byte) {
	t.Helper()
	s := olderState(40)
	c = newCampaign(t, seed)
	c.disk.Hook(nil)
	if r, ok := c.do(command{Kind: "older", State: *s}); !ok || r.Err != "" {
		t.Fatal(r.Err)
	}
	c.p.Kill()
	c.disk.Crash(faultdisk.TearNone)
	c.run()
	// The contents of the campaign's model: the converted file has them without a journal.
	c.done = []command{{Kind: "replace", State: *s, Mark: journal.Mark{}}}
	c.allow(false)
	c.disk.Hook(c.hook)
	return c, c.disk.Read(boltdb.FileName)
}

// holds is the format of a file, 0 if there is none, and whether it holds what the campaign's model does.
func holds(c *campaign, file []byte) (format uint8, right bool) {
	c.t.Helper()
	if len(file) == 0 {
		return 0, false
	}
	path := filepath.Join(c.dir, "image")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		c.t.Fatal(err)
	}
	st, at, err := boltdb.ReadContents(path)
	if err != nil {
		return 0, false
	}
	edit(c.t, path, func(tx *bolt.Tx) error {
		format = tx.Bucket([]byte("meta")).Get([]byte("version"))[0]
		return nil
	})
	short, _ := text(c.t, c.model())
	return format, contents(st, at) == short
}

// TestConversionPowerLoss: a conversion is killed at each of its requests, and the power may end at
// each moment. What is left opens and holds what it held; as soon as it may have the new format, the
// copy is there, and no part of one in the end.
func TestConversionPowerLoss(t *testing.T) {
	const copied = boltdb.FileName + ".format2"
	for k, ended := 0, false; !ended; k++ {
		c, file := converting(t, uint64(k))
		hook, newer := c.hook, 0
		c.disk.Hook(func() {
			hook()
			for tear := range faultdisk.Tears {
				now := c.disk.Image(boltdb.FileName, tear)
				if bytes.Equal(now, file) {
					continue
				}
				if format, right := holds(c, now); !right {
					t.Errorf("request %d: the file holds something else", k)
				} else if format == boltdb.Format {
					newer++
					if format, right := holds(c, c.disk.Image(copied, faultdisk.TearAll)); format != 2 || !right {
						t.Errorf("request %d: the file is converted, and the copy has format %d (%v)", k, format, right)
					}
				}
			}
		})
		c.setLeft(k)
		r, ok := c.do(command{Kind: "open"})
		if ok && r.Err != "" {
			t.Fatalf("request %d: %s", k, r.Err)
		}
		c.setLeft(-1)
		if ended = ok; ended && newer == 0 {
			t.Error("no crash would have left a converted file")
		}
		c.crash()
		c.p.Kill()
		if format, right := holds(c, c.disk.Read(copied)); format != 2 || !right {
			t.Errorf("request %d: in the end the copy has format %d (%v)", k, format, right)
		}
		if b := c.disk.Read(copied + ".new"); b != nil {
			t.Errorf("request %d: a part of a copy is left", k)
		}
		if t.Failed() {
			return
		}
	}
}

// TestConversionOnBadDisk: where no copy can be kept the file stays as it is, and the error says what
// to do. On request it is converted all the same.
func TestConversionOnBadDisk(t *testing.T) {
	for name, bad := range map[string]func(d *faultdisk.Disk){
		"full": func(d *faultdisk.Disk) { d.Space(d.Used() + 100_000) },
		"write": func(d *faultdisk.Disk) {
			d.Fail(faultdisk.Fault{Op: faultdisk.OpWrite, Skip: 2, Count: 1, Errno: syscall.EIO})
		},
		"sync": func(d *faultdisk.Disk) {
			d.Fail(faultdisk.Fault{Op: faultdisk.OpSync, Skip: 1, Count: 1, Errno: syscall.EIO})
		},
		"name": func(d *faultdisk.Disk) {
			d.Fail(faultdisk.Fault{Op: faultdisk.OpName, Count: 1, Errno: syscall.ENOSPC})
		},
		"directory": func(d *faultdisk.Disk) {
			d.Fail(faultdisk.Fault{Op: faultdisk.OpSyncDir, Count: 1, Errno: syscall.EIO})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, file := converting(t, 1)
			bad(c.disk)
			r, ok := c.do(command{Kind: "open"})
			if !ok || !strings.Contains(r.Err, "heddle.db has format 2, and no copy of it can be kept before it is converted to format 3: ") ||
				!strings.Contains(r.Err, "; the file was left as it is: make room for ") || !strings.HasSuffix(r.Err, "heddle.db.format2, or copy it elsewhere and start once with --convert-without-copy") {
				t.Fatalf("%v: %s", ok, r.Err)
			}
			if b := c.disk.Read(boltdb.FileName); !bytes.Equal(b, file) {
				t.Fatal("the file was changed")
			}
			if name == "full" && !strings.Contains(r.Err, " KiB free; ") {
				t.Error(r.Err)
			}
			if c.disk.Heal(); name != "full" {
				bad(c.disk)
			}
			if r, ok := c.do(command{Kind: "open without copy"}); !ok || r.Err != "" {
				t.Fatalf("without a copy: %s", r.Err)
			}
			r, ok = c.do(command{Kind: "read"})
			if _, all := text(t, c.model()); !ok || r.Err != "" || r.All != all {
				t.Errorf("it holds %.500s %s", r.All, r.Err)
			}
			if b := c.disk.Read(boltdb.FileName); bytes.Equal(b, file) {
				t.Error("it was not converted")
			}
			if b := c.disk.Read(boltdb.FileName + ".format2.new"); b != nil {
				t.Error("a part of a copy is left")
			}
		})
	}
}
