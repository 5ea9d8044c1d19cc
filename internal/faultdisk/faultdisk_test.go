package faultdisk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"heddle/internal/faultdisk"
)

func TestMain(m *testing.M) {
	faultdisk.Main(m, map[string]func([]string) int{"steps": steps})
}

// steps runs functions by name in the mount, and prints what they return.
func steps(args []string) int {
	for _, name := range args[1:] {
		if err := step[name](args[0]); err != nil {
			fmt.Println(name+":", err)
			return 1
		}
	}
	return 0
}

func pattern(x byte, n int) []byte { return bytes.Repeat([]byte{x}, n) }

var step = map[string]func(dir string) error{
	// write: a synced file of a, with b written over it and not synced.
	"write": func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "f"))
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Write(pattern('a', 64<<10)); err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), syncDir(dir)); err != nil {
			return err
		}
		_, err = f.WriteAt(pattern('b', 64<<10), 0)
		return err
	},
	// mmap: a mapping shows what is written, truncated and written by another descriptor.
	"mmap": func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, "m"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Truncate(16 << 10); err != nil {
			return err
		}
		m, err := unix.Mmap(int(f.Fd()), 0, 16<<10, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		for i := range 200 {
			off := int64(i * 77 % (15 << 10))
			g, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = g.WriteAt(pattern(byte(i+1), 600), off)
			if err := errors.Join(err, g.Close()); err != nil {
				return err
			}
			if !bytes.Equal(m[off:off+600], pattern(byte(i+1), 600)) {
				return fmt.Errorf("write %d is not in the mapping", i)
			}
		}
		return nil
	},
	"mmaperr": func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt(pattern('c', 4096), 0)
		if !errors.Is(err, syscall.EIO) {
			return fmt.Errorf("the write: %v", err)
		}
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			return fmt.Errorf("the sync: %v", err)
		}
		return f.Sync()
	},
	"full": func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "big"))
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := f.Write(pattern('x', 1<<20))
		if !errors.Is(err, syscall.ENOSPC) || n != 40<<10 {
			return fmt.Errorf("%d bytes, %v", n, err)
		}
		return os.Remove(f.Name())
	},
	"names": func(dir string) error {
		for _, n := range []string{"1", "2", "3"} {
			if err := os.WriteFile(filepath.Join(dir, n), []byte(n), 0o640); err != nil {
				return err
			}
		}
		if err := syncDir(dir); err != nil {
			return err
		}
		return errors.Join(
			os.Link(filepath.Join(dir, "1"), filepath.Join(dir, "link")),
			os.Rename(filepath.Join(dir, "2"), filepath.Join(dir, "1")),
			os.Remove(filepath.Join(dir, "3")),
			os.Mkdir(filepath.Join(dir, "d"), 0o700))
	},
	"list": func(dir string) error {
		list, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var out []string
		for _, e := range list {
			b, _ := os.ReadFile(filepath.Join(dir, e.Name()))
			out = append(out, e.Name()+"="+string(b))
		}
		fmt.Println(strings.Join(out, " "))
		return nil
	},
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func run(t *testing.T, d *faultdisk.Disk, names ...string) string {
	t.Helper()
	p := faultdisk.Run(t, d, "steps", append([]string{"DIR"}, names...)...)
	out, _ := io.ReadAll(p.Out)
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestTears: what was synced survives every crash; of what was not, what the tear says.
func TestTears(t *testing.T) {
	for tear := range faultdisk.Tears {
		seen := map[string]bool{}
		for seed := range uint64(20) {
			d := faultdisk.New(seed)
			run(t, d, "write")
			for range 20 {
				image := d.Image("f", tear)
				if len(image) != 64<<10 {
					t.Fatalf("tear %d: %d bytes are left", tear, len(image))
				}
				n := 0
				for s := 0; s < len(image); s += faultdisk.Sector {
					c := image[s : s+faultdisk.Sector]
					if !bytes.Equal(c, pattern(c[0], faultdisk.Sector)) || c[0] != 'a' && c[0] != 'b' {
						t.Fatalf("tear %d: sector %d is %q", tear, s, c[:8])
					}
					if c[0] == 'b' {
						n++
					}
				}
				switch {
				case n == 0:
					seen["old"] = true
				case n == 128:
					seen["new"] = true
				default:
					seen["torn"] = true
				}
			}
			if seed == 0 && tear < faultdisk.Tear4K {
				continue
			}
			if seed > 0 {
				break
			}
		}
		want := [faultdisk.Tears]string{"old", "new", "new old", "torn", "torn"}[tear]
		var got []string
		for k := range seen {
			got = append(got, k)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("tear %d leaves %v, want %s", tear, got, want)
		}
	}
}

// TestCoherent: bbolt reads by mmap what it writes by pwrite.
func TestCoherent(t *testing.T) { run(t, faultdisk.New(1), "mmap") }

// TestFailedSync: what a failed sync had is read, but a later sync does not make it durable.
func TestFailedSync(t *testing.T) {
	d := faultdisk.New(1)
	run(t, d, "write")
	d.Fail(faultdisk.Fault{Op: faultdisk.OpWrite, Count: 1, Errno: syscall.EIO})
	d.Fail(faultdisk.Fault{Op: faultdisk.OpSync, Count: 1, Errno: syscall.EIO})
	run(t, d, "mmaperr")
	if b := d.Read("f"); b[len(b)-1] != 'b' {
		t.Errorf("it reads %q", b[:1])
	}
	if b := d.Image("f", faultdisk.TearAll); b[len(b)-1] != 'a' {
		t.Errorf("after the second sync %q is durable", b[:1])
	}
}

// TestFull: a write takes the space that is there, and a removed file gives it back.
func TestFull(t *testing.T) {
	d := faultdisk.New(1)
	d.Space(40 << 10)
	run(t, d, "full", "full")
	if d.Used() != 0 {
		t.Errorf("%d bytes are in use", d.Used())
	}
}

// TestNames: names that were not synced survive in order.
func TestNames(t *testing.T) {
	states := []string{"1= 2= 3=", "1= 2= 3= link=", "1= 3= link=", "1= link=", "1= d= link="}
	seen := map[string]bool{}
	for seed := range uint64(12) {
		d := faultdisk.New(seed)
		run(t, d, "names")
		d.Crash(faultdisk.TearOrder)
		seen[strings.NewReplacer("1=1", "1=", "1=2", "1=", "2=2", "2=", "3=3", "3=", "link=1", "link=").Replace(strings.TrimSpace(run(t, d, "list")))] = true
	}
	for s := range seen {
		if !slices.Contains(states, s) {
			t.Errorf("a crash left %q", s)
		}
	}
	if len(seen) < 3 {
		t.Errorf("12 crashes left %v", seen)
	}
	d := faultdisk.New(1)
	run(t, d, "names")
	d.Crash(faultdisk.TearNone)
	if got := run(t, d, "list"); got != "1=2 d= link=1\n" {
		t.Errorf("without a crash it is %q", got)
	}
}
