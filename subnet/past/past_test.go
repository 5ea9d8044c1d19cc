package past

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/store/ring"
	"heddle/subnet/wiring"
)

// state is a wiring with some cables of a mesh of 12 switches.
func state(rng *rand.Rand) *wiring.Wiring {
	w := &wiring.Wiring{}
	for g := range ib.GUID(12) {
		w.Nodes = append(w.Nodes, wiring.Node{GUID: g + 1, Name: "sw", Type: ib.NodeSwitch, Ports: 12})
		for h := range g {
			if rng.IntN(4) > 0 {
				w.Cables = append(w.Cables, wiring.NewCable(wiring.End{GUID: g + 1, Port: uint8(h + 1)}, wiring.End{GUID: h + 1, Port: uint8(g + 1)}, wiring.OK))
			}
		}
	}
	wiring.Sort(w)
	return w
}

func open(t *testing.T, dir string) *Past {
	t.Helper()
	r, err := ring.Open(dir, "history", Bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	p, err := Open(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func equal(a, b *wiring.Wiring) bool { d := wiring.Diff(a, b); return d.Empty() }

// TestPast: every moment comes back as it was, from this process and from the next, which knows what had
// gone.
func TestPast(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	began := time.Unix(1_700_000_000, 0)
	want := map[uint64]*wiring.Wiring{}
	for life := range 3 {
		p := open(t, dir)
		for i := range 600 {
			s := state(rng)
			at := began.Add(time.Duration(life*1000+i) * time.Second)
			if ok, err := p.Add(s, uint64(i), at); err != nil || !ok {
				t.Fatal(ok, err)
			}
			if ok, err := p.Add(s, uint64(i), at); err != nil || ok {
				t.Fatalf("an equal state was stored: %v", err)
			}
			last, n := p.Last()
			want[n] = last
		}
		p = open(t, dir)
		last, n := p.Last()
		if n == 0 || !equal(last, want[n]) {
			t.Fatalf("the last state after a restart is another one")
		}
		for n, w := range want {
			if rng.IntN(20) > 0 {
				continue
			}
			if got, m, err := p.At(n); err != nil || !equal(got, w) || m.Number != n {
				t.Fatalf("state %d: %v", n, err)
			}
		}
	}
	p := open(t, dir)
	list, more := p.List(0, 10)
	if len(list) != 10 || !more || list[0].Time.Before(list[9].Time) || list[0].Gone+list[0].New == 0 || list[0].Text == "" {
		t.Errorf("%v %+v", more, list)
	}
	older, _ := p.List(list[9].Number, 1)
	if len(older) != 1 || older[0].Number >= list[9].Number {
		t.Errorf("before %d: %+v", list[9].Number, older)
	}
	if all, more := p.List(0, 10_000); len(all) != 1800 || more {
		t.Errorf("%d moments, more %v", len(all), more)
	}
	if _, _, err := p.At(99_999); err == nil || !strings.Contains(err.Error(), "99999") {
		t.Errorf("a state that never was: %v", err)
	}
}

// TestDamage: records after a damaged one are not shown until the next whole state.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 20 {
		if _, err := p.Add(state(rng), 1, time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.ring"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	p = open(t, dir)
	list, _ := p.List(0, 100)
	if len(list) == 0 || len(list) >= 20 {
		t.Fatalf("%d moments", len(list))
	}
	for _, m := range list {
		if _, _, err := p.At(m.Number); err != nil {
			t.Errorf("%d: %v", m.Number, err)
		}
	}
	if _, err := p.Add(state(rng), 1, time.Unix(2000, 0)); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	now, _ := again.List(0, 100)
	if len(now) != len(list)+1 || !now[0].Whole || !slices.Equal(now[1:], list) {
		t.Errorf("after the damage: %d moments, before %d", len(now), len(list))
	}
}

// TestOldestGo: a ring that is full forgets the oldest, and all that is listed can be read.
func TestOldestGo(t *testing.T) {
	dir := t.TempDir()
	r, err := ring.Open(dir, "history", ring.LeastBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Open(r)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 2000 {
		if _, err := p.Add(state(rng), uint64(i), time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	p, err = Open(r)
	if err != nil {
		t.Fatal(err)
	}
	list, more := p.List(0, 5000)
	if len(list) < 100 || len(list) > 1990 || more {
		t.Fatalf("%d moments", len(list))
	}
	for _, m := range []Moment{list[0], list[len(list)/2], list[len(list)-1]} {
		if _, _, err := p.At(m.Number); err != nil {
			t.Error(err)
		}
	}
}
