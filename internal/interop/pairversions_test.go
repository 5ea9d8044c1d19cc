package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/api"
)

// otherVersion builds a program of another version: with ranges of versions of the stream and of the
// journal that differ from those in the code.
func otherVersion(t *testing.T, stream, journal string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "heddle")
	build := exec.Command("go", "build", "-o", name, "-ldflags",
		fmt.Sprintf("-X heddle/replica/wire.linked=%s -X heddle/store/journal.linked=%s", stream, journal), "heddle/cmd/heddle")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		t.Fatalf("building heddle: %v", err)
	}
	return name
}

// TestPairOfVersions upgrades a pair under load by the steps of docs/upgrade.md: the standby, a handover,
// the other one. Versions that overlap are a pair, whichever of them is active; others are none, and
// the older one says so, also of a journal on its disk that it cannot read. Nothing that was
// acknowledged is lost, and no change waits longer than for any handover.
func TestPairOfVersions(t *testing.T) {
	next, after := otherVersion(t, "1-4", "1-2"), otherVersion(t, "4-4", "1-2")
	p, r := newFaultyPair(t)
	upgrade := func(i int, to string) {
		t.Helper()
		if err := p.prog[i].stop(syscall.SIGTERM); err != nil {
			t.Fatalf("manager %d: %v\n%s", i, err, tail(p.prog[i].Output()))
		}
		p.bin[i] = to
		p.start(i)
		if active := p.paired(); active == i {
			t.Fatalf("manager %d is active after its upgrade", i)
		}
		r.after(time.Now(), 20)
	}
	handover := func(from int) {
		t.Helper()
		if out, err := p.ctl(from, "handover"); err != nil {
			t.Fatalf("handover: %v\n%s", err, out)
		}
		p.serves(1 - from)
		if active := p.paired(); active == from {
			t.Fatal("it is active again")
		}
		r.after(time.Now(), 20)
	}
	old := p.paired()
	upgrade(1-old, next)
	handover(old) // the newer one is active, and the older one copies from it
	handover(1 - old)
	handover(old)
	// The newer one dies: the older one has all.
	p.prog[1-old].stop(syscall.SIGKILL)
	p.serves(old)
	p.start(1 - old)
	p.paired()
	r.after(time.Now(), 20)
	handover(old)
	upgrade(old, next)
	r.after(time.Now(), 20)

	// Its disk has entries of the newer version now: the older program refuses them, and says so.
	if err := p.prog[old].stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.bin[old] = ""
	p.prog[old] = p.run(old)
	p.prog[old].await("entry of version 2, this program knows version 1: use the version of heddle that wrote it", 0, upTime)
	<-p.prog[old].Done()
	if p.prog[old].Err() == nil {
		t.Error("the older program runs on with a journal that it cannot read")
	}
	// With its state moved away it copies what the newer one has.
	if err := os.Rename(filepath.Join(p.b.dir, fmt.Sprint("state", old)), filepath.Join(p.b.dir, "moved")); err != nil {
		t.Fatal(err)
	}
	p.start(old)
	p.paired()
	r.after(time.Now(), 20)

	// A version that shares nothing with it.
	p.prog[old].stop(syscall.SIGTERM)
	p.bin[old] = after
	p.start(old)
	p.paired()
	handover(1 - old)
	p.prog[1-old].stop(syscall.SIGTERM)
	p.bin[1-old] = ""
	if err := os.RemoveAll(filepath.Join(p.b.dir, fmt.Sprint("state", 1-old))); err != nil {
		t.Fatal(err)
	}
	p.start(1 - old)
	p.until(1-old, "refused", func(h api.HA) bool {
		return !h.Active && strings.Contains(h.Pair.StreamError, "version 4 of the stream, this one version 1 to 3; this one is older: upgrade it")
	})
	p.until(old, "alone, and says why", func(h api.HA) bool {
		return h.Active && h.State == "alone" && strings.Contains(h.Pair.StreamError, "that one is older: upgrade it")
	})
	out := must(t, upTime, p.b.dir, nil, heddle, "ctl", "ha", "status", "--api", p.addr[1-old])
	if !strings.Contains(out, "this one is older: upgrade it") {
		t.Errorf("the status does not say it:\n%s", out)
	}
	var events []api.Event
	getJSON(t, "http://"+p.addr[1-old]+"/v1/events", &events)
	if !slices.ContainsFunc(events, func(e api.Event) bool { return e.Kind == "ha_versions" }) {
		t.Errorf("no event says it: %+v", events)
	}
	p.prog[1-old].stop(syscall.SIGTERM)
	p.bin[1-old] = next
	p.start(1 - old)
	p.paired()
	p.stored(r)
}
