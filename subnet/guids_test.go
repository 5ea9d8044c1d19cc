package subnet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
	"heddle/internal/pages"
)

// row is a snapshot of CAs with the given port GUIDs, in ascending order.
func row(guids ...ib.GUID) *Snapshot {
	s := &Snapshot{}
	slices.Sort(guids)
	for i, g := range guids {
		add(s, ib.NodeCA, g-1, 1)
		p := s.at(int32(i), 1)
		p.EndPort, p.LID = int32(i), ib.LID(i+1)
	}
	s.Finish()
	return s
}

func TestDiffEndPorts(t *testing.T) {
	diff := func(a, b *Snapshot) string {
		out := ""
		DiffEndPorts(a, b,
			func(i int32) { out += fmt.Sprintf("-%d", uint64(a.Ports[i].GUID)) },
			func(i int32) { out += fmt.Sprintf("+%d", uint64(b.Ports[i].GUID)) })
		return out
	}
	a, b := row(11, 21, 31), row(11, 26, 31, 41)
	b.Ports[1].Aliases = []ib.GUID{0, 21, 5}
	b.Ports[3].Aliases = []ib.GUID{0, 99}
	b.Finish()
	for _, x := range []struct {
		a, b *Snapshot
		want string
	}{{a, b, "-21+26+41"}, {b, a, "+21-26-41"}, {a, a, ""}, {nil, a, "+11+21+31"}, {a, nil, "-11-21-31"}, {nil, nil, ""}, {a, row(11, 21, 31), ""}} {
		if got := diff(x.a, x.b); got != x.want {
			t.Errorf("got %s, want %s", got, x.want)
		}
	}
	c := *b
	c.Carry(b, nil)
	if n := testing.AllocsPerRun(10, func() { DiffEndPorts(b, &c, nil, nil) }); n != 0 {
		t.Errorf("%v allocations for snapshots that share", n)
	}
}

// TestCarryAliases: the lookups of a snapshot that was carried are those of one
// that was finished from scratch.
func TestCarryAliases(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var guids []ib.GUID
	for i := range 20 {
		guids = append(guids, ib.GUID(100*i+11))
	}
	old := row(guids...)
	for range 200 {
		s := &Snapshot{}
		*s = *old
		s.Ports = copies(old.Ports)
		var nodes []int32
		for range rng.IntN(4) {
			n := int32(rng.IntN(20))
			if slices.Contains(nodes, n) {
				continue
			}
			nodes = append(nodes, n)
			var l []ib.GUID
			for i := range rng.IntN(5) {
				// Some of them are also port GUIDs, or at two ports.
				l = append(l, ib.GUID(min(i, 1)*rng.IntN(30)*50+11*min(i, 1)))
			}
			s.at(n, 1).Aliases = l
		}
		s.Carry(old, nodes)
		want := *s
		want.guidPort = pages.List[guidRef]{}
		want.Finish()
		if !slices.Equal(s.guidPort.Values(), want.guidPort.Values()) {
			t.Fatalf("carried %v, want %v", s.guidPort.Values(), want.guidPort.Values())
		}
		for i, g := range guids {
			if s.PortByGUID(g) != s.Nodes[i].First+1 || s.PortByPortGUID(g) != s.Nodes[i].First+1 {
				t.Fatalf("the port GUID %v leads elsewhere", g)
			}
		}
		old = s
	}
}

func BenchmarkDiffEndPorts(b *testing.B) {
	var guids []ib.GUID
	for i := range 13000 {
		guids = append(guids, ib.GUID(100*i+11))
	}
	x, y := row(guids...), row(guids[1:]...)
	n := 0
	for b.Loop() {
		DiffEndPorts(x, y, func(int32) { n++ }, func(int32) { n++ })
	}
	if n == 0 {
		b.Fatal("no difference")
	}
}
