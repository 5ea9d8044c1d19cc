package fabric_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
)

// drawKind draws parameters of a small fabric of any kind, with what the
// literature says about it: hosts, and most cables between switches.
func drawKind(t *rapid.T) (args []string, hosts, links int) {
	n := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	join := func(v []int, sep string) string {
		s := make([]string, len(v))
		for i := range v {
			s[i] = fmt.Sprint(v[i])
		}
		return strings.Join(s, sep)
	}
	dims := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 3).Draw(t, "dims")
	nodes := 1
	for _, d := range dims {
		nodes *= d
	}
	per := n("hosts", 0, 3)
	grid := []string{join(dims, "x"), fmt.Sprintf("hosts=%d", per)}
	switch k := rapid.SampledFrom([]string{"xgft", "kary", "mport", "torus", "mesh", "hypercube", "hyperx", "dragonfly", "dragonfly+", "irregular"}).Draw(t, "kind"); k {
	case "xgft":
		m := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 3).Draw(t, "m")
		w := rapid.SliceOfN(rapid.IntRange(1, 3), len(m), len(m)).Draw(t, "w")
		hosts = 1
		for _, c := range m {
			hosts *= c
		}
		// Cables between level l and l+1: nodes of level l times parents.
		for l := 1; l < len(m); l++ {
			c := w[l]
			for i := range m {
				if i < l {
					c *= w[i]
				} else {
					c *= m[i]
				}
			}
			links += c
		}
		return []string{k, fmt.Sprintf("%d;%s;%s", len(m), join(m, ","), join(w, ","))}, hosts, links
	case "kary":
		a, b := n("k", 1, 4), n("n", 1, 3)
		return []string{k, fmt.Sprint(a), fmt.Sprint(b)}, pow(a, b), (b - 1) * pow(a, b)
	case "mport":
		h, b := n("m", 1, 3), n("n", 1, 3)
		return []string{k, fmt.Sprint(2 * h), fmt.Sprint(b)}, 2 * pow(h, b), (b - 1) * 2 * pow(h, b)
	case "torus", "mesh":
		for _, d := range dims {
			in := d - 1 // cables of a row
			if k == "torus" && d > 2 {
				in = d
			}
			links += nodes / d * in
		}
		return append([]string{k}, grid...), nodes * per, links
	case "hypercube":
		d := n("n", 1, 5)
		return []string{k, fmt.Sprint(d), grid[1]}, per << d, d << d / 2
	case "hyperx":
		trunk := n("trunk", 1, 2)
		for _, d := range dims {
			links += nodes / d * (d * (d - 1) / 2) * trunk
		}
		if links == 0 {
			grid[1], per = "hosts=1", 1 // a switch without any port is refused
		}
		return append([]string{k, fmt.Sprintf("trunk=%d", trunk)}, grid...), nodes * per, links
	case "dragonfly":
		a, p, h := n("a", 1, 4), n("p", 1, 2), n("h", 1, 2)
		g := n("g", 1, a*h+1)
		links = g * a * (a - 1) / 2
		if g > 1 {
			links += g * (g - 1) / 2 * (a * h / (g - 1))
		}
		return []string{k, fmt.Sprint(a), fmt.Sprint(p), fmt.Sprint(h), fmt.Sprint(g)}, a * g * p, links
	case "dragonfly+":
		l, s, p, h := n("l", 1, 3), n("s", 1, 3), n("p", 1, 2), n("h", 1, 2)
		g := n("g", 1, s*h+1)
		links = g * l * s
		if g > 1 {
			links += g * (g - 1) / 2 * (s * h / (g - 1))
		}
		return []string{k, fmt.Sprint(l), fmt.Sprint(s), fmt.Sprint(p), fmt.Sprint(h), fmt.Sprint(g)}, l * g * p, links
	default:
		return []string{k, fmt.Sprint(n("switches", 1, 40))}, -1, -1
	}
}

func pow(b, e int) int {
	p := 1
	for range e {
		p *= b
	}
	return p
}

// TestEveryKind: whatever the parameters, a generated fabric is connected
// (trees with w1 > 1 but one component all the same), has the numbers of its
// kind, cables with two ends and nothing with itself, survives being written
// and read, and makes a sound Graph.
func TestEveryKind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		args, hosts, links := drawKind(rt)
		f, err := fabrictest.Generate(args[0], args[1:], rapid.Uint64().Draw(rt, "seed"))
		if err != nil {
			rt.Fatalf("%v: %v", args, err)
		}
		in := f.Info()
		if in.Components != 1 {
			rt.Errorf("%v: %d parts", args, in.Components)
		}
		if hosts >= 0 && in.CAs != hosts || links >= 0 && in.SwitchLink != links {
			rt.Errorf("%v: %d hosts, %d cables between switches, want %d and %d", args, in.CAs, in.SwitchLink, hosts, links)
		}
		if c := f.Count(ib.NodeCA) + f.Count(ib.NodeSwitch); c != len(f.Nodes) {
			rt.Errorf("%v: %d of %d nodes are CAs and switches", args, c, len(f.Nodes))
		}
		if n := f.NumLinks(); n != in.Links {
			rt.Errorf("%v: %d and %d cables", args, n, in.Links)
		}
		for i := range f.Nodes {
			n := &f.Nodes[i]
			for p := 1; p <= n.NumPorts; p++ {
				if q := n.Ports[p].Peer; q.Valid() && (f.Port(q).Peer != fabric.Ref{Node: int32(i), Port: uint8(p)} || int(q.Node) == i) {
					rt.Fatalf("%v: %s leads to %s, that to %s", args, f.PortName(fabric.Ref{Node: int32(i), Port: uint8(p)}), f.PortName(q), f.PortName(f.Port(q).Peer))
				}
				if !n.IsSwitch() && !n.Ports[p].Cabled() {
					rt.Fatalf("%v: %s port %d has no cable", args, n.ID, p)
				}
			}
		}
		if err := fabric.AssignLIDs(f, rapid.SampledFrom([]int{1, 2, 8}).Draw(rt, "lids")); err != nil {
			rt.Fatal(err)
		}
		var b bytes.Buffer
		if err := fabric.WriteNetlist(&b, f); err != nil {
			rt.Fatal(err)
		}
		g, err := fabric.ReadNetlist(&b, fabric.NetlistOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		if d := f.Diff(g); d != "" {
			rt.Fatalf("%v, written and read: %s", args, d)
		}
		gr, err := f.Graph(fabric.GraphOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		checkGraph(rt, f, gr)
		if len(gr.Channels) != 2*in.SwitchLink || len(gr.EndPorts) != in.EndPorts {
			rt.Errorf("%v: %d channels and %d end ports", args, len(gr.Channels), len(gr.EndPorts))
		}
	})
}

// TestTreesAreTrees: in every XGFT with hosts of one port the levels are
// found again, and shortest ways between leaves go up and down once.
func TestTreesAreTrees(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.SliceOfN(rapid.IntRange(2, 4), 1, 3).Draw(rt, "m")
		w := rapid.SliceOfN(rapid.IntRange(1, 3), len(m), len(m)).Draw(rt, "w")
		w[0] = 1
		args := []string{fmt.Sprint(len(m)), strings.Trim(fmt.Sprint(m), "[]"), strings.Trim(fmt.Sprint(w), "[]")}
		f, err := fabrictest.Generate("xgft", args, 0)
		if err != nil {
			rt.Fatal(err)
		}
		in := f.Info()
		if !in.FatTree || len(in.Levels) != len(m) || in.Diameter != 2*(len(m)-1) {
			rt.Errorf("%v: %+v", args, in)
		}
		for l := range m {
			want := 1
			for i := range m {
				if i <= l {
					want *= w[i]
				} else {
					want *= m[i]
				}
			}
			if in.Levels[l] != want {
				rt.Errorf("%v: %v switches by level, want %d on level %d", args, in.Levels, want, l+1)
			}
		}
	})
}

// TestBuilderMistakes: each is told with the node it is about, and Build
// gives no fabric.
func TestBuilderMistakes(t *testing.T) {
	for _, c := range []struct {
		want string
		do   func(b *fabric.Builder)
	}{
		{"1 to 254", func(b *fabric.Builder) { b.AddSwitch("x", 255) }},
		{"unique", func(b *fabric.Builder) { b.AddSwitch("S", 4) }},
		{"empty", func(b *fabric.Builder) { b.AddCA("", 1) }},
		{"'#'", func(b *fabric.Builder) { b.AddCA("a#b#c", 1) }},
		{"netlist cannot hold", func(b *fabric.Builder) { b.AddCA("a\"b", 1) }},
		{"at most 64", func(b *fabric.Builder) { b.AddCA(strings.Repeat("x", 65), 1) }},
		{"at most 64", func(b *fabric.Builder) { b.Node(0).Desc = strings.Repeat("x", 65) }},
		{"GUIDs must be unique", func(b *fabric.Builder) { b.SetGUID(1, fabric.FirstSwitchGUID) }},
		{"no such node", func(b *fabric.Builder) { b.Connect(0, 1, 7, 1) }},
		{"ports 1 to 4", func(b *fabric.Builder) { b.Connect(0, 5, 1, 1) }},
		{"ports 1 to 4", func(b *fabric.Builder) { b.Connect(0, 0, 1, 1) }},
		{"to itself", func(b *fabric.Builder) { b.Connect(0, 1, 0, 1) }},
		{"already", func(b *fabric.Builder) { b.Connect(0, 1, 1, 1); b.Connect(0, 1, 1, 1) }},
		{"not a link", func(b *fabric.Builder) { b.Width = 3; b.Connect(0, 1, 1, 1) }},
		{"only port 0", func(b *fabric.Builder) { b.SetLID(0, 1, 5, 0) }},
		{"no cable", func(b *fabric.Builder) { b.SetLID(1, 1, 5, 0) }},
		{"outside", func(b *fabric.Builder) { b.SetLID(0, 0, 0xC000, 0) }},
		{"outside", func(b *fabric.Builder) { b.SetLID(0, 0, 0xBFFF, 1) }},
		{"24 bits", func(b *fabric.Builder) { b.Node(0).VendorID = 1 << 24 }},
	} {
		var b fabric.Builder
		b.AddSwitch("S", 4)
		b.AddCA("H", 1)
		c.do(&b)
		f, err := b.Build()
		var be *fabric.BuildError
		if f != nil || !asError(err, &be) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}

// TestKinds: help lists what Generate takes.
func TestKinds(t *testing.T) {
	var names []string
	for _, k := range fabric.Kinds() {
		names = append(names, k.Name)
		if k.Help == "" || !strings.HasPrefix(k.Usage(), k.Name+" "+k.Params) {
			t.Errorf("%q: usage %q, help %q", k.Name, k.Usage(), k.Help)
		}
	}
	for _, n := range []string{"fattree", "xgft", "mport", "torus", "mesh", "hypercube", "hyperx", "dragonfly", "dragonfly+", "irregular"} {
		if !slices.Contains(names, n) {
			t.Errorf("%s is not listed", n)
		}
	}
}

// TestGenerateAnything: no parameters make Generate panic, or run for long.
func TestGenerateAnything(t *testing.T) {
	var names []string
	for _, k := range fabric.Kinds() {
		names = append(names, k.Name)
	}
	value := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(-1, 9).Draw(t, "small")) }),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(-1<<40, 1<<40).Draw(t, "large")) }),
		rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"hosts", "ports", "links", "trunk", "total", "speed", "width", "x"}).Draw(t, "name") + "=" +
				rapid.SampledFrom([]string{"1", "0", "17", "254", "4096", "NDR", "12x", ""}).Draw(t, "value")
		}),
		rapid.StringMatching(`[0-9x,;() ]{0,8}`),
	)
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(names).Draw(rt, "kind")
		params := rapid.SliceOfN(value, 0, 5).Draw(rt, "params")
		f, err := fabrictest.Generate(kind, params, 1)
		if err == nil && len(f.Nodes) == 0 || err != nil && !strings.HasPrefix(err.Error(), "fabric: generate ") {
			rt.Errorf("%s %q: %v, %v", kind, params, f, err)
		}
	})
}
