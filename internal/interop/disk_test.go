package interop

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"heddle/ib"
	"heddle/internal/faultdisk"
	"heddle/internal/need"
	"heddle/sim"
	"heddle/store"
	"heddle/store/backup"
	"heddle/store/boltdb"
)

// imageState is what a crash would leave of the state on a disk, as text, or why it cannot be read.
// The text has no term and no entry: each import begins a term of its own.
func imageState(t *testing.T, d *faultdisk.Disk, tear faultdisk.Tear) (*store.State, string) {
	b := d.Image("state/"+boltdb.FileName, tear)
	if b == nil {
		return &store.State{}, "no file"
	}
	path := filepath.Join(t.TempDir(), boltdb.FileName)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return nil, err.Error()
	}
	s, _, err := boltdb.ReadContents(path)
	if err != nil {
		return nil, err.Error()
	}
	if err := boltdb.Check(path); err != nil {
		return nil, err.Error()
	}
	var text bytes.Buffer
	if err := (&backup.Backup{State: s}).Write(&text); err != nil {
		return nil, err.Error()
	}
	return s, text.String()
}

// TestImportOnBadDisks: 'heddle store import --replace' leaves the old state or the new one, whenever
// the power ends, and the old one if a request to the disk fails or the disk is full.
func TestImportOnBadDisks(t *testing.T) {
	var texts [2]string
	var files [2]string
	for i := range texts {
		s := &store.State{}
		for n := range 300 * (i + 1) {
			s.LIDs = append(s.LIDs, store.LIDEntry{GUID: ib.GUID(n + 1), LID: ib.LID(1000*i + n + 1)})
		}
		var b bytes.Buffer
		if err := (&backup.Backup{State: s}).Write(&b); err != nil {
			t.Fatal(err)
		}
		texts[i], files[i] = b.String(), filepath.Join(t.TempDir(), "backup")
		if err := os.WriteFile(files[i], b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := faultdisk.New(1)
	load := func(i int) error {
		p := faultdisk.Run(t, d, heddle, "store", "import", files[i], "DIR/state", "--replace")
		_, _ = io.Copy(io.Discard, p.Out)
		return p.Wait()
	}
	if err := load(0); err != nil {
		t.Fatal(err)
	}
	images, requests := 0, 0
	d.Hook(func() {
		requests++
		for tear := range faultdisk.Tears {
			images++
			if _, got := imageState(t, d, tear); got != texts[0] && got != texts[1] {
				t.Errorf("request %d: a crash (tear %d) leaves %.300s", requests, tear, got)
			}
		}
	})
	if err := load(1); err != nil {
		t.Fatal(err)
	}
	d.Hook(nil)
	if _, got := imageState(t, d, faultdisk.TearAll); got != texts[1] {
		t.Errorf("after the import the disk holds %.300s", got)
	}
	t.Logf("%d requests, %d images", requests, images)

	if err := load(0); err != nil {
		t.Fatal(err)
	}
	d.Space(d.Used() + 8<<10)
	if err := load(1); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("on a full disk: %v", err)
	}
	d.Space(-1)
	for k := 0; ; k++ {
		if _, got := imageState(t, d, faultdisk.TearAll); got != texts[0] {
			t.Fatalf("request %d failed: the disk holds %.300s", k-1, got)
		}
		d.Fail(faultdisk.Fault{Op: faultdisk.OpAny, Skip: k, Count: 1, Errno: syscall.EIO})
		err := load(1)
		d.Heal()
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("request %d failed: %v", k, err)
		}
		if _, got := imageState(t, d, faultdisk.TearNone); got == texts[1] {
			// The last request syncs the directory: the import is done, and may not last.
			if err := load(0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestManagerOnBadDisks: a manager that is killed at any request to its disk, which then loses what
// was not synced, has stored every LID that a device has, and the next one keeps it.
func TestManagerOnBadDisks(t *testing.T) {
	for _, seed := range need.Seeds(1, 20) {
		b := newUpgradeBench(t, nil)
		d := faultdisk.New(seed)
		lids := map[ib.GUID]ib.LID{} // that devices have or had
		look := func() {
			b.d.Do(func(s *sim.Subnet) {
				for _, e := range s.LIDs() {
					if old := lids[e.GUID]; e.LID != 0 {
						if old != 0 && old != e.LID {
							t.Errorf("seed %d: port %v had LID %d and has %d", seed, e.GUID, old, e.LID)
						}
						lids[e.GUID] = e.LID
					}
				}
			})
		}
		var mu sync.Mutex // of what follows, for the hook
		var p *faultdisk.Process
		left, images, checks := 0, 0, 0
		crashes := func() {
			look()
			for _, tear := range []faultdisk.Tear{faultdisk.TearAll, faultdisk.Tear4K, faultdisk.Tear512} {
				images++
				s, text := imageState(t, d, tear)
				if s == nil {
					t.Errorf("seed %d: a crash (tear %d) leaves %s", seed, tear, text)
					continue
				}
				stored := map[ib.GUID]ib.LID{}
				for _, e := range s.LIDs {
					stored[e.GUID] = e.LID
				}
				checks += len(lids)
				for g, l := range lids {
					if stored[g] != l {
						t.Errorf("seed %d: port %v has LID %d, and a crash (tear %d) leaves %d in the store", seed, g, l, tear, stored[g])
					}
				}
			}
		}
		d.Hook(func() {
			mu.Lock()
			defer mu.Unlock()
			crashes()
			if left--; left < 0 {
				p.Stop()
			}
		})
		kills := 0
		for k := 0; ; k++ {
			mu.Lock()
			left = k
			p = faultdisk.Run(t, d, heddle, "sm", "--port", "ibsim:H-1@"+b.sock, "--api", "", "--state", "DIR/state")
			mu.Unlock()
			up := false
			for r := bufio.NewScanner(p.Out); !up && r.Scan(); {
				up = r.Text() == "SUBNET UP"
			}
			p.Kill()
			if t.Failed() {
				return
			}
			crashes()
			if up {
				break
			}
			kills++
			d.Crash(faultdisk.Tear(uint64(k)+seed) % faultdisk.Tears)
		}
		if len(lids) != 11 {
			t.Errorf("seed %d: the fabric has %d LIDs", seed, len(lids))
		}
		t.Logf("seed %d: %d kills, %d images of crashes with %d LIDs of devices", seed, kills, images, checks)
	}
}
