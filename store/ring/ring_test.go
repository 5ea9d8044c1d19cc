package ring

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func open(t testing.TB, dir string) *Ring {
	t.Helper()
	r, err := Open(dir, "log", LeastBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func add(t testing.TB, r *Ring, data string) uint64 {
	t.Helper()
	n, err := r.Append(time.Unix(1, 2), []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// read returns the records after a number as number:data.
func read(t testing.TB, r *Ring, after uint64) (list []string) {
	t.Helper()
	if err := r.Read(after, func(rec Record) bool {
		list = append(list, fmt.Sprintf("%d:%s", rec.Number, rec.Data))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestNumbers: records come back in order with their numbers, in memory and from files that were
// closed, or not, and opened again; an old record is gone when there are too many.
func TestNumbers(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		r := open(t, dir)
		var want []string
		for i := range 3000 {
			text := fmt.Sprint("record ", i, strings.Repeat(".", i%100))
			n := add(t, r, text)
			if n != uint64(i+1) {
				t.Fatalf("record %d has number %d", i, n)
			}
			want = append(want, fmt.Sprintf("%d:%s", n, text))
			if dir != "" && i%100 == 50 {
				if i%200 == 50 {
					if err := r.Close(); err != nil {
						t.Fatal(err)
					}
				}
				r = open(t, dir)
			}
		}
		got := read(t, r, 0)
		if n := len(got); n < 500 || n > 2000 || strings.Join(got, " ") != strings.Join(want[3000-n:], " ") {
			t.Fatalf("%q: %d records: %v", dir, len(got), got)
		}
		if got := read(t, r, 2998); len(got) != 2 || got[1] != want[2999] {
			t.Errorf("%q: after 2998: %v", dir, got)
		}
		if r.Last() != 3000 {
			t.Errorf("the last number is %d", r.Last())
		}
		stopped := 0
		if err := r.Read(0, func(Record) bool { stopped++; return stopped < 3 }); err != nil || stopped != 3 {
			t.Errorf("reading went on: %d, %v", stopped, err)
		}
		if dir == "" {
			continue
		}
		size := int64(0)
		names, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, n := range names {
			fi, err := os.Stat(n)
			if err != nil || fi.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", n, fi.Mode(), err)
			}
			size += fi.Size()
		}
		if size > LeastBytes+LeastBytes/segments || size < LeastBytes/2 {
			t.Errorf("%d bytes in %d files", size, len(names))
		}
	}
}

// TestTorn: whatever a crash leaves of the end of the last file, the whole records are there, and no
// number is used twice.
func TestTorn(t *testing.T) {
	whole := t.TempDir()
	r := open(t, whole)
	for _, s := range []string{"one", "", "three"} {
		add(t, r, s)
	}
	name := filepath.Join(whole, "log.00000000000000000001.ring")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{headerLen + 3, 2*headerLen + 3, 3*headerLen + 8}
	rng := rand.New(rand.NewPCG(1, 2))
	for cut := range len(b) + 1 {
		for _, tail := range []string{"", "zero", "noise"} {
			torn := bytes.Clone(b[:cut])
			switch tail {
			case "zero":
				torn = append(torn, make([]byte, len(b)-cut)...)
			case "noise":
				for len(torn) < len(b) {
					torn = append(torn, byte(rng.Uint32()))
				}
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			r := open(t, dir)
			kept := 0
			for kept < len(ends) && ends[kept] <= cut {
				kept++
			}
			if got := read(t, r, 0); len(got) != kept {
				t.Fatalf("cut at %d (%s): %v, want %d records", cut, tail, got, kept)
			}
			used := uint64(kept)
			if tail != "" || cut > 0 && (kept == 0 || cut > ends[kept-1]) {
				used++ // a number that was begun
			}
			n := add(t, r, "next")
			if tail == "" && n < used || n <= uint64(kept) || n > 3+4 {
				t.Errorf("cut at %d (%s): the next number is %d", cut, tail, n)
			}
			if got := read(t, open(t, dir), 0); len(got) != kept+1 || got[kept] != fmt.Sprint(n, ":next") {
				t.Fatalf("cut at %d (%s), opened again: %v", cut, tail, got)
			}
			r.Close()
		}
	}
}

// TestDamage: a damaged record in the middle hides those after it in its file, and no others.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	for i := range 400 {
		add(t, r, fmt.Sprint(i, strings.Repeat("x", 60)))
	}
	r.Close()
	all := len(read(t, r, 0))
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) < 4 {
		t.Fatalf("%d files", len(names))
	}
	b, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(names[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	got := read(t, again, 0)
	if len(got) >= all || len(got) < all/2 || !strings.HasPrefix(got[len(got)-1], "400:") {
		t.Errorf("%d records of %d, the last is %.10s", len(got), all, got[len(got)-1])
	}
	if n := add(t, again, "new"); n != 401 {
		t.Errorf("the next number is %d", n)
	}
}

// TestErrors: a record that cannot be written is not there, and the ring goes on when it can.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	add(t, r, "one")
	if _, err := r.Append(time.Time{}, make([]byte, MaxData+1)); err == nil {
		t.Error("a record of any size is accepted")
	}
	r.file.Close() // as a device that went away
	if _, err := r.Append(time.Unix(0, 0), []byte("lost")); err == nil {
		t.Error("no error from a closed file")
	}
	if n := add(t, r, "two"); n != 3 {
		t.Errorf("after an error: number %d", n)
	}
	if err := r.Sync(); err != nil {
		t.Error(err)
	}
	add(t, r, "three")
	r.file.Close()
	if r.Sync() == nil {
		t.Error("no error from the sync of a closed file")
	}
	add(t, r, "four")
	if err := r.Sync(); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(read(t, r, 0)); got != "[1:one 3:two 4:three 5:four]" {
		t.Error(got)
	}
	select {
	case <-r.More():
		t.Error("there is no more")
	default:
	}
	more := r.More()
	add(t, r, "five")
	select {
	case <-more:
	default:
		t.Error("a reader that waits is not woken")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "x"), "log", 0); err == nil {
		t.Error("a ring below a file")
	}
}

// FuzzDecode: decode reads what encode wrote, and refuses everything else without a panic.
func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, &Record{Number: 7, Time: time.Unix(5, 6), Data: []byte("data")}))
	f.Add([]byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, n, err := decode(b)
		if err != nil {
			return
		}
		if again := encode(nil, &rec); !bytes.Equal(again, b[:n]) {
			t.Errorf("%x is read as %+v, which is %x", b[:n], rec, again)
		}
	})
}

// openReserved opens a ring that keeps the newest 80 records and reserves 100 numbers.
func openReserved(t testing.TB, dir string) *Ring {
	t.Helper()
	r, err := OpenLimits(dir, "log", Limits{Bytes: 1 << 20, Records: 80, Age: 8 * time.Hour, Reserve: 100})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLimits: the newest records are kept, at most an eighth more, none much older than the age, and they
// are read backward from any number.
func TestLimits(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		r := openReserved(t, dir)
		at := time.Unix(1e9, 0)
		rng := rand.New(rand.NewPCG(3, 4))
		for n := uint64(1); n < 3000; {
			list := make([]Record, rng.IntN(4))
			for i := range list {
				list[i] = Record{Time: at, Data: fmt.Append(nil, n+uint64(i))}
				if dir != "" && rng.IntN(30) == 0 {
					at = at.Add(time.Minute)
				}
			}
			first, err := r.AppendAll(list)
			if err != nil || first != n || len(list) > 0 && list[len(list)-1].Number != n+uint64(len(list))-1 {
				t.Fatalf("the first of %d is %d, want %d: %v", len(list), first, n, err)
			}
			n += uint64(len(list))
			if dir != "" && rng.IntN(300) == 0 {
				if rng.IntN(2) == 0 {
					r.Close()
				}
				r = openReserved(t, dir)
			}
		}
		last := r.Last()
		all := read(t, r, 0)
		if len(all) < 80 || len(all) > 80+80/4 || r.First() != last+1-uint64(len(all)) {
			t.Fatalf("%q: %d records are kept, from %d of %d", dir, len(all), r.First(), last)
		}
		for _, before := range []uint64{0, last + 1, last, last - 37} {
			var back []string
			if err := r.ReadBack(before, func(rec Record) bool {
				back = append(back, fmt.Sprintf("%d:%s", rec.Number, rec.Data))
				return len(back) < 50
			}); err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(all)
			if before > 0 {
				want = want[:len(want)-int(last+1-before)]
			}
			slices.Reverse(want)
			if want = want[:min(50, len(want))]; !slices.Equal(back, want) {
				t.Fatalf("before %d: %v, want %v", before, back, want)
			}
		}
		if dir == "" {
			continue
		}
		for range 3 { // files that are begun because of the age
			at = at.Add(9 * time.Hour)
			if _, err := r.Append(at, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(read(t, r, 0)); n > 2 {
			t.Errorf("%d records, most of them too old", n)
		}
	}
}

// TestNumbersReserved: no number is used twice, whatever of the files a crash leaves, and after the
// process alone has ended there is no gap.
func TestNumbersReserved(t *testing.T) {
	dir := t.TempDir()
	r := openReserved(t, dir)
	id := r.ID()
	add(t, r, "one")
	add(t, r, "two")
	r = openReserved(t, dir) // as after kill -9
	if n := add(t, r, "three"); n != 3 || r.ID() != id || len(id) != 16 {
		t.Errorf("after the process was killed: number %d, %q and %q", n, id, r.ID())
	}
	r.Close()
	r = openReserved(t, dir)
	if n := add(t, r, "four"); n != 4 {
		t.Errorf("after it ended: number %d", n)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*.ring"))
	if err := os.Truncate(names[0], headerLen+3); err != nil { // the power failed: nothing else was synced
		t.Fatal(err)
	}
	defer func(was func() [16]byte) { bootID = was }(bootID)
	bootID = func() [16]byte { return [16]byte{1} }
	r = openReserved(t, dir)
	if n := add(t, r, "five"); n <= 4 || n > 4+200 {
		t.Errorf("after the power failed: number %d", n)
	} else if got := read(t, r, 0); len(got) != 2 {
		t.Errorf("%v", got)
	}
	last := r.Last()
	r.file.Close() // as a disk that is full: these are numbered, and in no file
	for i := range 5 {
		if _, err := r.AppendAll([]Record{{Data: []byte("lost")}}); (err == nil) != (i > 0) {
			t.Fatal(err)
		}
	}
	lost := r.Last()
	if err := os.Remove(r.path(last + 2)); err != nil { // they never were in it
		t.Fatal(err)
	}
	r = openReserved(t, dir)
	if n := r.Next(); n <= lost {
		t.Errorf("number %d again, up to %d were used", n, lost)
	}
	for _, b := range [][]byte{nil, []byte("nonsense")} {
		last = add(t, r, "more")
		if err := os.WriteFile(r.markPath(), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if r = openReserved(t, dir); r.Next() <= last || r.ID() == id {
			t.Errorf("without the mark: number %d, up to %d were used; %s", r.Next(), last, r.ID())
		}
	}
	if err := os.Remove(r.markPath()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.markPath(), 0o700); err != nil { // it cannot be written
		t.Fatal(err)
	}
	last = r.Last()
	if r = openReserved(t, dir); r.Next() <= last {
		t.Errorf("number %d again", r.Next())
	}
	if n := add(t, r, "on"); n <= last {
		t.Errorf("number %d again", n)
	}
}

// FuzzMark: a mark that is accepted is the one that was written.
func FuzzMark(f *testing.F) {
	f.Add((&mark{ID: newID(), base: 3, next: 9, boot: [16]byte{1}}).encode())
	f.Add([]byte(markMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := decodeMark(b); ok && !bytes.Equal(m.encode(), b) {
			t.Errorf("%x is read as %+v", b, m)
		}
	})
}
