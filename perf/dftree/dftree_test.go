package dftree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/snaptest"
	"heddle/partition"
	"heddle/perf/hotspot"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
	"heddle/subnet"
)

// ring is a ring of n switches with a host at each, on which minhop deadlocks.
func ring(t testing.TB, n int) *fabric.Fabric {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	for i := range n {
		b.AddCA(fmt.Sprintf("host-%d", i), 1)
	}
	for i := range n {
		b.AddSwitch(fmt.Sprintf("sw-%d", i), 3)
		b.Connect(n+i, 1, i, 1)
	}
	for i := range n {
		b.Connect(n+i, 2, n+(i+1)%n, 3)
	}
	return build(t, b)
}

// tree is three leaves with two hosts each under a root.
func tree(t testing.TB) *fabric.Fabric {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	for i := range 6 {
		b.AddCA(fmt.Sprintf("host-%d", i), 1)
	}
	root := b.AddSwitch("root", 3)
	for i := range 3 {
		leaf := b.AddSwitch(fmt.Sprintf("leaf-%d", i), 3)
		b.Connect(2*i, 1, leaf, 1)
		b.Connect(2*i+1, 1, leaf, 2)
		b.Connect(leaf, 3, root, i+1)
	}
	return build(t, b)
}

func build(t testing.TB, b *fabric.Builder) *fabric.Fabric {
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func end(s *subnet.Snapshot, name string) hotspot.End {
	for i := range s.Nodes {
		if s.Nodes[i].Desc == name {
			p := s.Ports[s.Nodes[i].First+1]
			return hotspot.End{Node: s.Nodes[i].Info.NodeGUID, Port: 1, Desc: name, GUID: p.GUID, LID: p.LID}
		}
	}
	panic(name)
}

// spot is a hot spot at a host, fed by others.
func spot(s *subnet.Snapshot, id uint64, at string, from ...string) hotspot.HotSpot {
	x := hotspot.HotSpot{ID: id, Host: end(s, at)}
	for _, f := range from {
		x.Contributors = append(x.Contributors, hotspot.Contributor{Host: end(s, f)})
	}
	return x
}

// TestLevel: the slow lane is the highest one that nothing uses, and there is a reason where there is
// none.
func TestLevel(t *testing.T) {
	for _, x := range []struct {
		e      route.Engine
		vls    uint8
		qos    bool
		change func(s *subnet.Snapshot)
		sl     ib.SL
		why    string
	}{
		{minhop.Engine{}, 8, false, nil, 7, ""},
		{minhop.Engine{}, 2, false, nil, 1, ""},
		{minhop.Engine{}, 1, false, nil, 0, "links have one lane"},
		{minhop.Engine{}, 8, true, nil, 0, "with QoS"},
		{vftree.Engine{Lanes: 2}, 4, false, nil, 3, ""},
		{vftree.Engine{Lanes: 2}, 2, false, nil, 0, "vftree uses all 2 lanes"},
		{minhop.Engine{}, 4, false, func(s *subnet.Snapshot) {
			s.Self = subnet.Ref{Node: s.Ports[1].Node, Port: 1}
			s.Port(s.Self).Info.MasterSMSL = 3
		}, 2, ""},
		{minhop.Engine{}, 4, false, func(s *subnet.Snapshot) {
			s.Partitions = &partition.Policy{Partitions: []partition.Partition{{PKey: 0x8001, SL: 7, HasSL: true}}}
		}, 2, ""},
		{minhop.Engine{}, 4, false, func(s *subnet.Snapshot) {
			s.Tables = s.Tables.Clone()
			s.Tables.Multicast = &route.Multicast{Trees: []route.Tree{{SL: 3}, {SL: 2}, {SL: 1}}}
		}, 0, "the free lanes are those of"},
		{minhop.Engine{}, 4, false, func(s *subnet.Snapshot) {
			s.Tables, s.Engine = s.Tables.Clone(), "torus"
			s.Tables.Lanes = &route.Lanes{}
		}, 0, "torus has SL-to-VL tables of its own"},
	} {
		s := snaptest.New(t, tree(t), x.e, x.vls)
		s.Engine = x.e.Name()
		if x.change != nil {
			x.change(s)
		}
		p := New(Config{Mode: Act, QoS: x.qos}).Step(s, &hotspot.Report{})
		if p.SL != x.sl || (p.Why == "") != (x.why == "") || !strings.HasPrefix(p.Why, x.why) {
			t.Errorf("%s, %d lanes: level %d, %q; want %d, %q", x.e.Name(), x.vls, p.SL, p.Why, x.sl, x.why)
		}
	}
}

// TestModes: observe says what act does, and moves nothing; off says nothing.
func TestModes(t *testing.T) {
	s := snaptest.New(t, tree(t), minhop.Engine{}, 4)
	r := &hotspot.Report{Open: []hotspot.HotSpot{spot(s, 1, "host-4", "host-0", "host-2"), spot(s, 2, "host-1", "host-5")}}
	act := New(Config{Mode: Act}).Step(s, r)
	if act.Paths.Len() != 3 || act.Paths.SL != 3 || !act.Paths.Has(end(s, "host-0").GUID, end(s, "host-4").GUID) || act.Paths.Has(end(s, "host-4").GUID, end(s, "host-0").GUID) {
		t.Errorf("%+v", act)
	}
	look := New(Config{}).Step(s, r)
	if look.Paths.Len() != 0 || !slices.Equal(look.Spots, act.Spots) || look.Spots[0].Paths != 2 || look.Spots[1].Paths != 1 {
		t.Errorf("%+v", look)
	}
	if off := New(Config{Mode: Off}).Step(s, r); off.Paths.Len() != 0 || len(off.Spots) != 0 {
		t.Errorf("%+v", off)
	}
	for i, name := range Modes() {
		if m, ok := ParseMode(name); !ok || m != Mode(i) || m.String() != name {
			t.Errorf("%s is %v", name, m)
		}
	}
}

// TestMostPaths: the paths of hot spots that all hosts feed move while they are no more than two of
// them have, and those of the others do not.
func TestMostPaths(t *testing.T) {
	s := snaptest.New(t, tree(t), minhop.Engine{}, 4)
	r := &hotspot.Report{}
	for i := range 3 {
		x := spot(s, uint64(i+1), fmt.Sprintf("host-%d", i))
		x.Contributors = make([]hotspot.Contributor, 4000)
		for k := range x.Contributors {
			x.Contributors[k].Host = end(s, fmt.Sprintf("host-%d", 3+k%3))
		}
		r.Open = append(r.Open, x)
	}
	r.Open = append(r.Open, spot(s, 4, "host-4", "host-0"))
	p := New(Config{Mode: Act}).Step(s, r)
	if p.Spots[0].Refused != "" || p.Spots[1].Refused != "" || p.Spots[3].Refused != "" || p.Spots[3].Paths != 1 {
		t.Errorf("%+v", p.Spots)
	}
	if x := p.Spots[2]; x.Paths != 0 || x.Refused != "8000 paths move, and with its 4000 they were more than 8192" {
		t.Errorf("%+v", x)
	}
	if p.Paths.Has(end(s, "host-3").GUID, end(s, "host-2").GUID) {
		t.Error("its paths move")
	}
}

// TestCycle: paths that would wait for each other round a ring are refused, and those of the hot
// spots before them stay.
func TestCycle(t *testing.T) {
	f := ring(t, 6)
	s := snaptest.New(t, f, lash.Engine{}, 8)
	r := &hotspot.Report{}
	for i := range 6 { // clockwise, two hops each
		r.Open = append(r.Open, spot(s, uint64(i+1), fmt.Sprintf("host-%d", (i+2)%6), fmt.Sprintf("host-%d", i)))
	}
	p := New(Config{Mode: Act}).Step(s, r)
	refused := 0
	for _, x := range p.Spots {
		if x.Refused != "" {
			refused++
			if !strings.Contains(x.Refused, "close a cycle on lane 7") {
				t.Error(x.Refused)
			}
		}
	}
	if refused == 0 || refused == 6 || p.Paths.Len() != 6-refused || p.Spots[0].Refused != "" {
		t.Errorf("%+v", p)
	}
}

// TestAgainstVerifier: whatever hot spots there are, the verifier, which shares no code with this
// package, accepts tables with the levels of the plan; and where it would accept them all, nothing
// is refused.
func TestAgainstVerifier(t *testing.T) {
	refused, accepted := 0, 0
	for _, seed := range need.Seeds(60, 3000) {
		r := rand.New(rand.NewPCG(seed, 15))
		var f *fabric.Fabric
		var e route.Engine = lash.Engine{}
		switch r.IntN(3) {
		case 0:
			f = ring(t, 4+r.IntN(5))
		case 1:
			f = mesh(t, 3+r.IntN(2), 3)
		default:
			f, e = tree(t), ftree.Engine{}
		}
		s := snaptest.New(t, f, e, 8)
		var hosts []string
		for i := range f.Nodes {
			if !f.Nodes[i].IsSwitch() {
				hosts = append(hosts, f.Nodes[i].ID)
			}
		}
		rep := &hotspot.Report{}
		for i := range 1 + r.IntN(5) {
			r.Shuffle(len(hosts), func(a, b int) { hosts[a], hosts[b] = hosts[b], hosts[a] })
			rep.Open = append(rep.Open, spot(s, uint64(i+1), hosts[0], hosts[1:2+r.IntN(len(hosts)-1)]...))
		}
		p := New(Config{Mode: Act}).Step(s, rep)
		if p.Why != "" {
			t.Fatal(p.Why)
		}
		if err := check.Verify(s.Graph, leveled(s, p.SL, p.Paths), check.Options{Workers: 1}).Err(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var all []subnet.PortPair
		var spots int
		for i := range p.Spots {
			if p.Spots[i].Refused == "" {
				continue
			}
			spots++
			for _, x := range rep.Open[i].Contributors {
				all = append(all, subnet.PortPair{From: x.Host.GUID, To: rep.Open[i].Host.GUID})
			}
		}
		if refused += spots; spots == 0 {
			accepted++
			continue
		}
		all = slices.AppendSeq(all, p.Paths.All())
		if check.Verify(s.Graph, leveled(s, p.SL, subnet.NewSlowPaths(p.SL, all)), check.Options{Workers: 1}).OK() {
			t.Fatalf("seed %d: %d hot spots are refused, and their paths have no cycle", seed, spots)
		}
	}
	if refused == 0 || accepted == 0 {
		t.Errorf("%d hot spots refused, %d reports accepted", refused, accepted)
	}
}

// TestLeavingPaths: paths that would close a cycle with those of a hot spot that has just ended move
// only when no host can use these any more.
func TestLeavingPaths(t *testing.T) {
	s := snaptest.New(t, ring(t, 6), lash.Engine{}, 8)
	both := &hotspot.Report{}
	for i := range 6 { // clockwise, two hops each
		both.Open = append(both.Open, spot(s, uint64(i+1), fmt.Sprintf("host-%d", (i+2)%6), fmt.Sprintf("host-%d", i)))
	}
	first, second := &hotspot.Report{}, &hotspot.Report{}
	for i, x := range New(Config{Mode: Act}).Step(s, both).Spots {
		r := first
		if x.Refused != "" {
			r = second
		}
		r.Open = append(r.Open, both.Open[i])
	}
	for pause := range 6 {
		c := New(Config{Mode: Act})
		a := c.Step(s, first)
		for range pause {
			c.Step(s, &hotspot.Report{})
		}
		b := c.Step(s, second)
		if a.Paths.Len() != len(first.Open) || (b.Paths.Len() > 0) != (pause >= leaveRounds) {
			t.Errorf("%d paths, and %d after %d rounds: %+v", a.Paths.Len(), b.Paths.Len(), pause, b.Spots)
		}
		all := slices.AppendSeq(slices.Collect(a.Paths.All()), b.Paths.All())
		if err := check.Verify(s.Graph, leveled(s, a.SL, subnet.NewSlowPaths(a.SL, all)), check.Options{Workers: 1}).Err(); err != nil && pause < leaveRounds {
			t.Errorf("after %d rounds: %v", pause, err)
		}
	}
}

// TestLeavingCampaign: while hot spots come and go, and routes change, the verifier accepts tables
// with the levels of all paths of the last plans together, or nothing moves; what may stay stays.
func TestLeavingCampaign(t *testing.T) {
	refused, moved := 0, 0
	for _, seed := range need.Seeds(40, 2000) {
		r := rand.New(rand.NewPCG(seed, 4))
		f := ring(t, 4+r.IntN(5))
		if r.IntN(2) == 0 {
			f = mesh(t, 3, 3)
		}
		tables := []*subnet.Snapshot{snaptest.New(t, f, lash.Engine{}, 8), snaptest.New(t, f, updn.Engine{}, 8)}
		var hosts []string
		for i := range f.Nodes {
			if !f.Nodes[i].IsSwitch() {
				hosts = append(hosts, f.Nodes[i].ID)
			}
		}
		c, s, rep := New(Config{Mode: Act}), tables[0], &hotspot.Report{}
		var last []*subnet.SlowPaths // of the last rounds
		for round := range 40 {
			same := r.IntN(12) > 0
			if !same {
				s = tables[r.IntN(2)]
			}
			if n := len(rep.Open); n > 0 && r.IntN(3) == 0 {
				rep.Open = slices.Delete(slices.Clone(rep.Open), 0, 1)
			}
			stay := len(rep.Open)
			for range r.IntN(2) {
				r.Shuffle(len(hosts), func(a, b int) { hosts[a], hosts[b] = hosts[b], hosts[a] })
				rep.Open = append(rep.Open, spot(s, uint64(round+1), hosts[0], hosts[1:2+r.IntN(3)]...))
			}
			p := c.Step(s, rep)
			if last = append(last, p.Paths); len(last) > leaveRounds+1 {
				last = last[1:]
			}
			for i, x := range p.Spots {
				if x.Refused != "" {
					refused++
				}
				if n := len(last); same && n > 1 && i < stay && x.Refused != "" && hasAll(last[n-2], &rep.Open[i]) {
					t.Fatalf("seed %d, round %d: paths come back without an end: %s", seed, round, x.Refused)
				}
			}
			if moved += p.Paths.Len(); p.Paths.Len() == 0 {
				continue
			}
			var all []subnet.PortPair
			for _, x := range last {
				all = slices.AppendSeq(all, x.All())
			}
			if err := check.Verify(s.Graph, leveled(s, p.SL, subnet.NewSlowPaths(p.SL, all)), check.Options{Workers: 1}).Err(); err != nil {
				t.Fatalf("seed %d, round %d: %v", seed, round, err)
			}
		}
	}
	if refused == 0 || moved == 0 {
		t.Errorf("%d hot spots refused, %d paths moved", refused, moved)
	}
}

// hasAll reports whether the paths of a hot spot are slow ones.
func hasAll(p *subnet.SlowPaths, x *hotspot.HotSpot) bool {
	return !slices.ContainsFunc(x.Contributors, func(c hotspot.Contributor) bool { return !p.Has(c.Host.GUID, x.Host.GUID) })
}

// leveled are the tables of s with a level for each pair of ports and its reverse. Each switch has
// one host here, or the tables are those of a tree.
func leveled(s *subnet.Snapshot, sl ib.SL, p *subnet.SlowPaths) *route.Tables {
	t := s.Tables.Clone()
	g := s.Graph
	n := int(t.TopLID) + 1
	was := *s.Tables
	t.NumClasses, t.Class, t.SL = n, make([]int32, n), make([]ib.SL, len(g.Switches)*n)
	for l := range n {
		t.Class[l] = int32(l)
		for sw := range g.Switches {
			t.SL[sw*n+l] = was.PathSL(int32(sw), ib.LID(l))
		}
	}
	for x := range p.All() {
		for _, y := range [...]subnet.PortPair{x, {From: x.To, To: x.From}} {
			from, to := s.Ports[s.PortByGUID(y.From)], s.Ports[s.PortByGUID(y.To)]
			t.SL[int(g.EndPorts[from.EndPort].Switch)*n+int(to.LID)] = sl
		}
	}
	t.NumVLs = int(sl) + 1
	return t
}

// mesh is a mesh with a host at each switch.
func mesh(t testing.TB, w, h int) *fabric.Fabric {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	for i := range w * h {
		b.AddCA(fmt.Sprintf("host-%d", i), 1)
	}
	for i := range w * h {
		b.AddSwitch(fmt.Sprintf("sw-%d", i), 5)
		b.Connect(w*h+i, 1, i, 1)
	}
	for i := range w * h {
		if i%w < w-1 {
			b.Connect(w*h+i, 2, w*h+i+1, 3)
		}
		if i/w < h-1 {
			b.Connect(w*h+i, 4, w*h+i+w, 5)
		}
	}
	return build(t, b)
}
