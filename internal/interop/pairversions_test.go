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
	"heddle/internal/need"
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

// TestPairOfVersions downgrades and upgrades a pair under load by the steps of docs/upgrade.md: the standby, a
// handover, the other one. Versions that overlap are a pair, whichever of them is active; what the older one cannot
// store is refused meanwhile. Others are none, and the older one says so, also of a journal on its disk that it
// cannot read. Nothing that was acknowledged is lost, and no change waits longer than for any handover. With
// HEDDLE_OLD the older version is the first one that had pairs (tools/upgrade.sh).
func TestPairOfVersions(t *testing.T) {
	need.Long(t)
	older, next, after := otherVersion(t, "1-2", "1-1"), otherVersion(t, "1-5", "1-2"), otherVersion(t, "5-5", "1-2")
	if dir := os.Getenv("HEDDLE_OLD"); dir != "" {
		older = filepath.Join(dir, "11-never-down")
	}
	p, r := newFaultyPair(t)
	change := func(i int, to string) {
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
	drain := func(i int) (string, error) {
		return run(t, upTime, p.b.dir, nil, heddle, "ctl", "port", "drain", "sw-1-1:5", "--apply", "--api", p.addr[i])
	}
	newer := p.paired()
	old := 1 - newer
	change(old, older)
	handover(newer) // the older one is active, and the newer one copies from it
	handover(old)
	if out, err := drain(newer); err == nil || !strings.Contains(out, "has an older version, which cannot store this: upgrade it first") {
		t.Errorf("draining a link, which the older one cannot store: %v\n%s", err, out)
	}
	if active := p.paired(); active != newer {
		t.Fatal("after the refusal the older one is active")
	}
	// The newer one dies: the older one has all.
	p.prog[newer].stop(syscall.SIGKILL)
	p.serves(old)
	p.start(newer)
	p.paired()
	r.after(time.Now(), 20)
	handover(old)

	// Without the older one it is stored, and then that one is no partner any more.
	if err := p.prog[old].stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.until(newer, "alone", func(h api.HA) bool { return h.Active && h.State == "alone" })
	if out, err := drain(newer); err != nil {
		t.Fatalf("draining a link: %v\n%s", err, out)
	}
	p.start(old)
	p.until(newer, "alone, and says why", func(h api.HA) bool {
		return h.Active && h.State == "alone" && strings.Contains(h.Pair.StreamError, "what is stored here needs version 2; that one is older: upgrade it")
	})
	r.after(time.Now(), 20)
	if err := p.prog[old].stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.bin[old] = ""
	p.start(old)
	if active := p.paired(); active != newer {
		t.Fatal("the one that was upgraded is active")
	}
	r.after(time.Now(), 20)

	// Its disk has what the older program does not know: that one refuses it, and says so.
	if err := p.prog[old].stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.bin[old] = older
	p.prog[old] = p.run(old)
	p.prog[old].await("has format 4, this program writes format 3: use the version of heddle that wrote it", 0, upTime)
	<-p.prog[old].Done()
	if p.prog[old].Err() == nil {
		t.Error("the older program runs on with a journal that it cannot read")
	}
	p.bin[old] = ""
	p.start(old)
	p.paired()
	r.after(time.Now(), 20)

	// Both have a newer version, and then one that shares nothing with this one.
	change(old, next)
	handover(newer)
	change(newer, next)
	handover(old)
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
		return !h.Active && strings.Contains(h.Pair.StreamError, "version 5 of the stream, this one version 1 to 4; this one is older: upgrade it")
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
	p.bin[1-old] = after
	p.start(1 - old)
	p.paired()
	p.stored(r)
}
