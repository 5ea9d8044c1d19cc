package wiring

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/snaptest"
	"heddle/route/engine/minhop"
	"heddle/subnet"
)

func snapshot(t testing.TB, kind string, params ...string) *subnet.Snapshot {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		t.Fatal(err)
	}
	return snaptest.New(t, f, minhop.Engine{}, 1)
}

// TestOf: nodes and cables of a published state, each once, with what is wrong with them.
func TestOf(t *testing.T) {
	s := snapshot(t, "xgft", "2", "3", "4", "1", "2")
	w := Of(s)
	f := s.Fabric()
	if len(w.Nodes) != len(f.Nodes) || len(w.Cables) != f.NumLinks() {
		t.Fatalf("%d nodes, %d cables of %d, %d", len(w.Nodes), len(w.Cables), len(f.Nodes), f.NumLinks())
	}
	if !slices.IsSortedFunc(w.Cables, func(a, b Cable) int { return a.compare(&b) }) {
		t.Error("cables are not in order")
	}
	if c := Diff(w, Of(s)); !c.Empty() {
		t.Errorf("a state differs from itself: %+v", c)
	}
	q := *s.Ports[1]
	q.Info.PortState = ib.StateArmed
	s.Ports[1] = &q
	s.Nodes[3].Unseen = true
	s.Nodes[4].OK = false
	c := Diff(w, Of(s))
	if len(c.Nodes) != 2 || c.Nodes[0].State != Silent || c.Nodes[1].State != LeftOut || len(c.Cables) != 1 || c.Cables[0].State != NotActive || len(c.NoNodes)+len(c.NoCables) != 0 {
		t.Errorf("change %+v", c)
	}
	if got := Of(nil); len(got.Nodes) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

// random is a wiring with random cables between some nodes.
func random(rng *rand.Rand) *Wiring {
	w := &Wiring{}
	for g := range ib.GUID(12) {
		if rng.IntN(4) > 0 {
			w.Nodes = append(w.Nodes, Node{GUID: 100 + g*g, Name: strings.Repeat("n", rng.IntN(3)), Type: ib.NodeSwitch, Ports: 9, State: State(rng.IntN(int(Gone)))})
		}
	}
	used := map[End]bool{}
	for range 20 {
		if len(w.Nodes) < 2 {
			break
		}
		a := End{w.Nodes[rng.IntN(len(w.Nodes))].GUID, uint8(1 + rng.IntN(9))}
		b := End{w.Nodes[rng.IntN(len(w.Nodes))].GUID, uint8(1 + rng.IntN(9))}
		if a.GUID == b.GUID || used[a] || used[b] {
			continue
		}
		used[a], used[b] = true, true
		w.Cables = append(w.Cables, NewCable(a, b, State(rng.IntN(int(Held)+1))))
	}
	Sort(w)
	return w
}

// TestApply: a difference leads from one state to the other, also after it was stored; and what Carry
// remembers obeys its rules.
func TestApply(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	w, all := &Wiring{}, []*Change{}
	for step := range int64(200) {
		now := random(rng)
		next := Carry(w, now, 1000*step)
		c := Diff(w, next)
		b := Encode(c, uint64(step), false)
		got, gen, err := Decode(b)
		if err != nil || gen != uint64(step) || !reflect.DeepEqual(got, c) {
			t.Fatalf("step %d: %v, %d\n%+v\n%+v", step, err, gen, got, c)
		}
		if Whole(b) || !Whole(Encode(c, 1, true)) {
			t.Fatal("whole or not")
		}
		if x := Apply(w, got); !x.equal(next) {
			t.Fatalf("step %d: applied\n%+v\nwant\n%+v", step, x, next)
		}
		check(t, next, now, 1000*step)
		if all = append(all, c); !Apply(&Wiring{}, Compose(all)).equal(next) {
			t.Fatalf("step %d: the changes together lead to another state", step)
		}
		w = next
	}
}

func (w *Wiring) equal(x *Wiring) bool {
	return slices.Equal(w.Nodes, x.Nodes) && slices.Equal(w.Cables, x.Cables)
}

// check: a state that remembers has all that is there, and of what is not only what went lately and whose
// ports are free.
func check(t *testing.T, w, now *Wiring, at int64) {
	t.Helper()
	used := map[End]bool{}
	for i := range now.Cables {
		used[now.Cables[i].A], used[now.Cables[i].B] = true, true
	}
	there := 0
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if n.State != Gone {
			there++
		} else if n.Since <= at-KeepGone || n.Since > at || now.Find(n.GUID) >= 0 {
			t.Fatalf("%+v is remembered at %d", n, at)
		}
	}
	cables := 0
	for i := range w.Cables {
		c := &w.Cables[i]
		if c.State != Gone {
			cables++
		} else if c.Since <= at-KeepGone || used[c.A] || used[c.B] || w.Find(c.A.GUID) < 0 || w.Find(c.B.GUID) < 0 {
			t.Fatalf("%+v is remembered at %d", c, at)
		}
	}
	if there != len(now.Nodes) || cables != len(now.Cables) {
		t.Fatalf("%d nodes, %d cables of %d, %d", there, cables, len(now.Nodes), len(now.Cables))
	}
}

// TestMaxGone: the first to go are forgotten first.
func TestMaxGone(t *testing.T) {
	w := &Wiring{}
	for i := range ib.GUID(MaxGone + 500) {
		w.Nodes = append(w.Nodes, Node{GUID: i + 1, State: Gone, Since: int64(i)})
	}
	got := Carry(w, &Wiring{}, MaxGone)
	if len(got.Nodes) != MaxGone || got.Nodes[0].GUID != 501 {
		t.Errorf("%d nodes, the first %v", len(got.Nodes), got.Nodes[0].GUID)
	}
}

// TestSizes: the largest subnet that the manager is tested with fits in a record, and the difference that
// one cable makes is small.
func TestSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("a subnet of 11,664 hosts")
	}
	f, err := fabrictest.Generate("fattree", []string{"11664"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &Wiring{}
	for i := range f.Nodes {
		w.Nodes = append(w.Nodes, Node{GUID: f.Nodes[i].GUID, Name: f.Nodes[i].ID, Type: f.Nodes[i].Type, Ports: uint8(f.Nodes[i].NumPorts)})
	}
	for a, b := range f.Links {
		w.Cables = append(w.Cables, NewCable(End{f.Nodes[a.Node].GUID, a.Port}, End{f.Nodes[b.Node].GUID, b.Port}, OK))
	}
	Sort(w)
	all := Encode(Diff(&Wiring{}, w), 1, true)
	less := &Wiring{Nodes: w.Nodes, Cables: slices.Delete(slices.Clone(w.Cables), 1000, 1001)}
	one := Encode(Diff(w, Carry(w, less, 1_700_000_000)), 2, false)
	if len(all) > 400_000 || len(one) > 80 {
		t.Errorf("%d bytes, and %d for one cable", len(all), len(one))
	}
	t.Logf("%d nodes, %d cables: %d bytes; one cable: %d", len(w.Nodes), len(w.Cables), len(all), len(one))
}

// FuzzDecode: any bytes give a change or an error, and a change comes back as it was stored.
func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 8))
	a, b := random(rng), random(rng)
	f.Add(Encode(Diff(a, b), 7, false))
	f.Add(Encode(Diff(&Wiring{}, Carry(a, b, 99)), 8, true))
	f.Add([]byte{version, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, gen, err := Decode(data)
		if err != nil {
			return
		}
		again, n, err := Decode(Encode(c, gen, Whole(data)))
		if err != nil || n != gen || !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v came back as %+v, %v", c, again, err)
		}
		Apply(Apply(&Wiring{}, c), c)
	})
}

// TestDamaged: a record that is cut off or changed is an error or another change, and never more than was
// in it.
func TestDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	whole := Encode(Diff(random(rng), random(rng)), 3, false)
	for n := range whole {
		if _, _, err := Decode(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a record", n, len(whole))
		}
	}
	other := bytes.Clone(whole)
	other[0] = version + 1
	if _, _, err := Decode(other); err == nil {
		t.Error("a record of a later version was read")
	}
}
