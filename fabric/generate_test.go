package fabric_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
)

func generate(t testing.TB, kind string, params ...string) *fabric.Fabric {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, 1)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestSizes pins the numbers that papers and the design give.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		args                   string
		switches, hosts, links int
		diameter               int
		tree                   bool
	}{
		{"fattree 324", 36, 324, 648, 2, true},
		{"fattree 648", 54, 648, 1296, 2, true},
		{"fattree 5832", 972, 5832, 17496, 4, true},
		{"fattree 11664", 1620, 11664, 34992, 4, true},
		{"xgft 2 4,4 1,2", 6, 16, 24, 2, true},
		{"xgft 3 18,18,9 1,18,18", 162 + 162 + 324, 2916, 2916 * 3, 4, true},
		{"kary 4 3", 48, 64, 192, 4, true},
		{"mport 4 3", 20, 16, 48, 4, true},
		{"torus 8x8", 64, 64, 64 + 128, 8, false},
		{"torus 4x4x4 hosts=2", 64, 128, 128 + 192, 6, false},
		{"mesh 3x4", 12, 12, 12 + 17, 5, false},
		{"hypercube 4", 16, 16, 16 + 32, 4, false},
		{"hyperx 3x4", 12, 12, 12 + 3*6 + 4*3, 2, false},
		{"dragonfly 4 2 2", 36, 72, 72 + 9*6 + 36, 3, false},
		{"irregular 8", 8, -1, -1, -1, false},
		{"irregular 32", 32, -1, -1, -1, false},
	} {
		a := strings.Fields(c.args)
		in := generate(t, a[0], a[1:]...).Info()
		if in.Switches != c.switches || c.hosts >= 0 && in.CAs != c.hosts || c.links >= 0 && in.Links != c.links ||
			c.diameter >= 0 && in.Diameter != c.diameter || in.FatTree != c.tree || in.Components != 1 {
			t.Errorf("%s: %+v, want %+v", c.args, in, c)
		}
	}
}

// TestIrregularIsOfTheReportsKind: 4-port switches, one host each where a
// port is free, connected, no cable from a switch to itself.
func TestIrregularIsOfTheReportsKind(t *testing.T) {
	for _, n := range []string{"8", "16", "24", "32"} {
		for seed := range uint64(50) {
			f, err := fabrictest.Generate("irregular", []string{n}, seed)
			if err != nil {
				t.Fatal(err)
			}
			if in := f.Info(); in.Components != 1 || in.MaxDegree > 4 || fmt.Sprint(in.Switches) != n || in.CAs == 0 || in.CAs > in.Switches {
				t.Errorf("%s switches, seed %d: %+v", n, seed, in)
			}
			for i := range f.Nodes {
				nd := &f.Nodes[i]
				if nd.IsSwitch() && nd.NumPorts != 4 {
					t.Fatalf("%s has %d ports", nd.ID, nd.NumPorts)
				}
			}
			for a, b := range f.Links {
				if a.Node == b.Node {
					t.Fatalf("seed %d: a cable from %s to itself", seed, f.Nodes[a.Node].ID)
				}
			}
		}
	}
}

func TestSameArgumentsSameFabric(t *testing.T) {
	for _, k := range []string{"irregular 24", "torus 4x5", "dragonfly+ 4 4 4 2"} {
		a := strings.Fields(k)
		one, two := generate(t, a[0], a[1:]...), generate(t, a[0], a[1:]...)
		if d := one.Diff(two); d != "" {
			t.Errorf("%s twice: %s", k, d)
		}
	}
	a, _ := fabrictest.Generate("irregular", []string{"24"}, 1)
	b, _ := fabrictest.Generate("irregular", []string{"24"}, 2)
	if a.Diff(b) == "" {
		t.Error("the seed makes no difference")
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, args := range []string{
		"", "klein 4", "fattree", "fattree 7", "fattree many", "xgft 2 4 1,2", "xgft 2 4,0 1,2", "xgft 99 1 1", "kary 4", "kary 0 3", "kary 1000 9",
		"torus", "torus 0x4", "torus 100000x100000", "torus 4x4 hosts=-1", "torus 4x4 speed=WARP", "torus 4x4 colour=red", "hypercube 60",
		"dragonfly 4 2", "dragonfly 4 2 2 99", "irregular 0", "irregular 8 ports=1", "mport 5 2", "hyperx 3x4 trunk=200",
	} {
		kind, params, _ := strings.Cut(args, " ")
		f, err := fabrictest.Generate(kind, strings.Fields(params), 1)
		if err == nil {
			t.Errorf("%q gives a fabric of %d nodes", args, len(f.Nodes))
			continue
		}
		var ge *fabric.GenerateError
		if !asError(err, &ge) || len(err.Error()) < 20 {
			t.Errorf("%q: %v (%T)", args, err, err)
		}
	}
}

// TestParseTopology: the words of a command line are these values.
func TestParseTopology(t *testing.T) {
	for _, c := range []struct {
		words string
		want  fabric.Topology
		o     fabric.GenerateOptions
	}{
		{"fattree 648 total=600", fabric.FatTree{Hosts: 648}, fabric.GenerateOptions{MaxHosts: 600}},
		{"XGFT XGFT(2;4,6;1,4)", fabric.XGFT{Children: []int{4, 6}, Parents: []int{1, 4}}, fabric.GenerateOptions{}},
		{"kary 4 3", fabric.KAry{K: 4, N: 3}, fabric.GenerateOptions{}},
		{"mport 4 3", fabric.MPort{M: 4, N: 3}, fabric.GenerateOptions{}},
		{"torus 4x5 speed=NDR width=12x", fabric.Torus{Dims: []int{4, 5}, Hosts: 1}, fabric.GenerateOptions{Speed: ib.SpeedNDR, Width: ib.Width12x}},
		{"mesh 4,5 hosts=0", fabric.Mesh{Dims: []int{4, 5}}, fabric.GenerateOptions{}},
		{"hypercube 3 hosts=2", fabric.Hypercube{Dims: 3, Hosts: 2}, fabric.GenerateOptions{}},
		{"hyperx 3x4 trunk=2", fabric.HyperX{Dims: []int{3, 4}, Hosts: 1, Trunk: 2}, fabric.GenerateOptions{}},
		{"dragonfly 4 2 1", fabric.Dragonfly{Switches: 4, Hosts: 2, Global: 1}, fabric.GenerateOptions{}},
		{"dragonfly+ 4 3 2 1 2", fabric.DragonflyPlus{Leaves: 4, Spines: 3, Hosts: 2, Global: 1, Groups: 2}, fabric.GenerateOptions{}},
		{"irregular 9 links=12", fabric.Irregular{Switches: 9, Ports: 4, Hosts: 1, Links: 12, Seed: 7}, fabric.GenerateOptions{}},
	} {
		w := strings.Fields(c.words)
		got, o, err := fabric.ParseTopology(w[0], w[1:], 7)
		if err != nil || !reflect.DeepEqual(got, c.want) || o != c.o {
			t.Errorf("%s: %#v %+v, %v; want %#v %+v", c.words, got, o, err, c.want, c.o)
		}
		if got.Kind() != strings.ToLower(w[0]) {
			t.Errorf("%s is of the kind %s", c.words, got.Kind())
		}
	}
	// What may be left out has the value of the usage line.
	for _, c := range [][2]fabric.Topology{
		{fabric.Irregular{Switches: 9, Hosts: 1}, fabric.Irregular{Switches: 9, Ports: 4, Hosts: 1, Links: 13}},
		{fabric.HyperX{Dims: []int{3}, Hosts: 1}, fabric.HyperX{Dims: []int{3}, Hosts: 1, Trunk: 1}},
		{fabric.Dragonfly{Switches: 2, Hosts: 1, Global: 1}, fabric.Dragonfly{Switches: 2, Hosts: 1, Global: 1, Groups: 3}},
	} {
		a, err := fabric.Generate(c[0], fabric.GenerateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := fabric.Generate(c[1], fabric.GenerateOptions{Speed: ib.SpeedEDR, Width: ib.Width4x})
		if err != nil {
			t.Fatal(err)
		}
		if d := a.Diff(b); d != "" {
			t.Errorf("%#v is not %#v: %s", c[0], c[1], d)
		}
	}
}

// TestTopologyRefuses: a program is told which field is wrong.
func TestTopologyRefuses(t *testing.T) {
	for _, c := range []struct {
		topology fabric.Topology
		o        fabric.GenerateOptions
		field    string
	}{
		{fabric.FatTree{Hosts: 7}, fabric.GenerateOptions{}, "Hosts"},
		{fabric.XGFT{}, fabric.GenerateOptions{}, ""},
		{fabric.XGFT{Children: []int{2, 0}, Parents: []int{1, 2}}, fabric.GenerateOptions{}, "Children"},
		{fabric.XGFT{Children: []int{2, 2}, Parents: []int{1}}, fabric.GenerateOptions{}, ""},
		{fabric.KAry{K: 2, N: 17}, fabric.GenerateOptions{}, "N"},
		{fabric.MPort{M: 5, N: 2}, fabric.GenerateOptions{}, "M"},
		{fabric.MPort{M: -2, N: 2}, fabric.GenerateOptions{}, "M"},
		{fabric.Torus{}, fabric.GenerateOptions{}, "Dims"},
		{fabric.Torus{Dims: []int{4, -1}}, fabric.GenerateOptions{}, "Dims"},
		{fabric.Mesh{Dims: []int{4}, Hosts: -1}, fabric.GenerateOptions{}, "Hosts"},
		{fabric.Hypercube{Dims: 60}, fabric.GenerateOptions{}, "Dims"},
		{fabric.HyperX{Dims: []int{3}, Trunk: -1}, fabric.GenerateOptions{}, "Trunk"},
		{fabric.Dragonfly{Switches: 4, Global: 2}, fabric.GenerateOptions{}, "Hosts"},
		{fabric.Dragonfly{Switches: 4, Hosts: 1, Global: 2, Groups: -1}, fabric.GenerateOptions{}, "Groups"},
		{fabric.DragonflyPlus{Leaves: 4, Hosts: 1, Global: 2}, fabric.GenerateOptions{}, "Spines"},
		{fabric.Irregular{Switches: 4, Ports: 1}, fabric.GenerateOptions{}, "Ports"},
		{fabric.Irregular{Switches: 9, Links: 2}, fabric.GenerateOptions{}, ""},
		{fabric.Torus{Dims: []int{4}}, fabric.GenerateOptions{MaxHosts: -1}, "MaxHosts"},
		{fabric.Torus{Dims: []int{4}}, fabric.GenerateOptions{Width: 3}, "Width"},
		{fabric.Torus{Dims: []int{4}}, fabric.GenerateOptions{Speed: 99}, "Speed"},
	} {
		f, err := fabric.Generate(c.topology, c.o)
		var ge *fabric.GenerateError
		if f != nil || !asError(err, &ge) || ge.Kind != c.topology.Kind() || ge.Param != c.field || ge.Usage != "" {
			t.Errorf("%#v %+v: %v, want field %q", c.topology, c.o, err, c.field)
		}
	}
}

// TestGraph checks what every algorithm relies on.
func TestGraph(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f, err := fabrictest.Generate("irregular", []string{fmt.Sprint(rapid.IntRange(2, 40).Draw(rt, "switches")), "ports=6", "hosts=2"},
			rapid.Uint64().Draw(rt, "seed"))
		if err != nil {
			rt.Fatal(err)
		}
		if err := fabric.AssignLIDs(f, rapid.SampledFrom([]int{1, 2, 3, 8}).Draw(rt, "lids")); err != nil {
			rt.Fatal(err)
		}
		down := map[fabric.Ref]bool{} // some cables are down
		for a, b := range f.Links {
			if rapid.IntRange(0, 9).Draw(rt, "down") == 0 {
				down[a], down[b] = true, true
			}
		}
		g, err := f.Graph(fabric.GraphOptions{Up: func(r fabric.Ref) bool { return !down[r] }})
		if err != nil {
			rt.Fatal(err)
		}
		checkGraph(rt, f, g)
	})
}

func checkGraph(t interface{ Fatalf(string, ...any) }, f *fabric.Fabric, g *fabric.Graph) {
	if !slices.IsSortedFunc(g.Switches, func(a, b fabric.SwitchNode) int { return cmp(a.GUID, b.GUID) }) ||
		!slices.IsSortedFunc(g.EndPorts, func(a, b fabric.EndPort) int { return cmp(a.GUID, b.GUID) }) {
		t.Fatalf("switches or end ports are not in GUID order")
	}
	if len(g.Off) != len(g.Switches)+1 || int(g.Off[len(g.Switches)]) != len(g.Channels) {
		t.Fatalf("Off %d for %d switches, %d channels", len(g.Off), len(g.Switches), len(g.Channels))
	}
	for s := range g.Switches {
		last := -1
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			ch := g.Channels[c]
			rev := g.Channels[ch.Rev]
			if int(ch.From) != s || ch.From == ch.To || rev.Rev != c || rev.From != ch.To || rev.To != ch.From || rev.OutPort != ch.InPort || rev.InPort != ch.OutPort {
				t.Fatalf("channel %d %+v, reverse %+v", c, ch, rev)
			}
			if int(ch.OutPort) <= last || g.PortChannel[s][ch.OutPort] != c || ch.VLs < 1 || ch.Gbps <= 0 {
				t.Fatalf("channel %d %+v after port %d", c, ch, last)
			}
			last = int(ch.OutPort)
		}
		if e := g.EndPorts[g.Switches[s].EndPort]; int(e.Switch) != s || e.Port != 0 || e.PortNum != 0 {
			t.Fatalf("switch %d has end port %+v", s, e)
		}
	}
	if len(g.LIDOwner) != int(g.TopLID)+1 {
		t.Fatalf("LIDOwner has %d entries, the top LID is %d", len(g.LIDOwner), g.TopLID)
	}
	owned := map[int32]int{}
	for l, e := range g.LIDOwner {
		if e != fabric.NoLID {
			owned[e]++
			if ep := g.EndPorts[e]; l < int(ep.LID) {
				t.Fatalf("LID %d belongs to %+v", l, ep)
			}
		}
	}
	for e := range g.EndPorts {
		if g.EndPorts[e].LID != 0 && owned[int32(e)] == 0 {
			t.Fatalf("end port %+v owns no LID", g.EndPorts[e])
		}
	}
}

func cmp(a, b ib.GUID) int {
	if a < b {
		return -1
	}
	return int(min(a-b, 1))
}

// TestLIDErrors: what cannot be a subnet is refused, naming both ports.
func TestLIDErrors(t *testing.T) {
	f := generate(t, "xgft", "1", "4", "1")
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	a, b := fabric.Ref{Node: 0, Port: 1}, fabric.Ref{Node: 1, Port: 1}
	f.Port(b).LID = f.Port(a).LID
	_, err := f.Graph(fabric.GraphOptions{})
	var le *fabric.LIDError
	if !asError(err, &le) || le.LID != f.Port(a).LID || le.A == "" || le.B == "" || le.A == le.B {
		t.Errorf("one LID at two ports: %v", err)
	}
	big := generate(t, "fattree", "2916")
	before := big.Clone()
	if err := fabric.AssignLIDs(big, 64); err == nil {
		t.Error("186,624 LIDs were given")
	}
	if !reflect.DeepEqual(big, before) {
		t.Error("an assignment that failed left something behind")
	}
	// The full subnet of the design: 2,853 hosts with 17 LIDs each.
	full := generate(t, "fattree", "2853")
	if err := fabric.AssignLIDs(full, 17); err != nil {
		t.Fatal(err)
	}
	g, err := full.Graph(fabric.GraphOptions{})
	if err != nil || g.TopLID != 49149 || len(g.Switches) != 648 {
		t.Errorf("full subnet: top LID %v, %v", g.TopLID, err)
	}
}

func BenchmarkGraph(b *testing.B) {
	f := generate(b, "fattree", "11664")
	if err := fabric.AssignLIDs(f, 1); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Graph(fabric.GraphOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
