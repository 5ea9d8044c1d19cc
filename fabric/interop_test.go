package fabric_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/ibtools"
	"heddle/internal/need"
)

// oddFabric has all that a netlist can hold: modules, a router, a CA with two
// ports, an enhanced port 0, LMCs, links of several kinds, and descriptions
// with quotes, '=', '#', control and other characters. width and slow are
// those of the router's link, fast is the speed of two more.
func oddFabric(t testing.TB, width ib.LinkWidth, slow, fast ib.LinkSpeed) *fabric.Fabric {
	t.Helper()
	b := fabric.Builder{Speed: ib.SpeedQDR}
	m := b.AddSwitch("mod#leaf", 4)
	m2 := b.AddSwitch("mod2#leaf", 4)
	s := b.AddSwitch("root", 6)
	h1 := b.AddCA("mod#h", 2)
	h2 := b.AddCA("mod2#h with space", 1)
	h3 := b.AddCA("h3", 2)
	r := b.Add(ib.NodeRouter, "router", 2)
	b.SetGUID(m, 0x200001)
	b.SetGUID(m2, 0x200002)
	b.SetGUID(s, 0x200000)
	b.SetGUID(r, 0x900000)
	b.Node(s).Desc = `odd "quoted" lid 99 = x # y`
	b.Node(s).EnhancedPort0 = true
	b.Node(h1).Desc = strings.Repeat("é", 32)
	b.Node(h2).Desc = ""
	b.Node(h3).Desc = "host=3 \x01"
	b.Node(h3).DeviceID = 0x1017
	b.Node(h3).SystemImageGUID = 0x77
	b.Connect(s, 1, m, 1)
	b.Connect(s, 2, m2, 1)
	b.Connect(m, 2, m2, 2)
	b.Connect(m, 3, h1, 1)
	b.Connect(m2, 3, h2, 1)
	b.Connect(s, 3, h3, 2)
	b.Width, b.Speed = width, slow
	b.Connect(s, 4, r, 1)
	b.Width, b.Speed = ib.Width4x, fast
	b.Connect(h1, 2, m2, 4)
	b.Connect(s, 5, m, 4)
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 2); err != nil {
		t.Fatal(err)
	}
	return f
}

// sameSubnet says how g, found in a subnet, differs from f, which it was made
// of. Nodes go by GUID; what is not told by management datagrams is left out.
func sameSubnet(f, g *fabric.Fabric, lids bool) string {
	if len(f.Nodes) != len(g.Nodes) {
		return fmt.Sprintf("%d nodes, want %d", len(g.Nodes), len(f.Nodes))
	}
	for i := range f.Nodes {
		a := &f.Nodes[i]
		k := g.FindGUID(a.GUID)
		if k < 0 {
			return "no " + a.ID
		}
		b := &g.Nodes[k]
		if a.Type != b.Type || a.NumPorts != b.NumPorts || a.VendorID != b.VendorID || a.DeviceID != b.DeviceID ||
			a.SystemImageGUID != b.SystemImageGUID || a.EnhancedPort0 != b.EnhancedPort0 {
			return fmt.Sprintf("%s is %+v", a.ID, b)
		}
		for p := range a.Ports {
			u, v := a.Ports[p], b.Ports[p]
			switch {
			case u.Cabled() != v.Cabled():
				return fmt.Sprintf("%s port %d: cabled %v", a.ID, p, v.Cabled())
			case u.Cabled() && (f.Nodes[u.Peer.Node].GUID != g.Nodes[v.Peer.Node].GUID || u.Peer.Port != v.Peer.Port):
				return fmt.Sprintf("%s port %d leads to %s", a.ID, p, g.PortName(v.Peer))
			case u.Width != v.Width || u.Speed != v.Speed:
				return fmt.Sprintf("%s port %d: %v %v", a.ID, p, v.Width, v.Speed)
			case lids && (u.LID != v.LID || u.LMC != v.LMC) || (p > 0 || a.IsSwitch()) && u.GUID != v.GUID:
				return fmt.Sprintf("%s port %d: %+v, want %+v", a.ID, p, v, u)
			}
		}
	}
	return ""
}

// TestIbnetdiscoverOdd reads what ibnetdiscover 44.0 printed of the odd
// fabric, quotes in names and all.
func TestIbnetdiscoverOdd(t *testing.T) {
	text, err := os.ReadFile("testdata/ibnetdiscover-odd.txt")
	if err != nil {
		t.Fatal(err)
	}
	f := oddFabric(t, ib.Width12x, ib.SpeedHDR, ib.SpeedNDR)
	g := read(t, string(text), fabric.NetlistOptions{})
	if d := g.Nodes[g.FindGUID(0x200000)].Desc; d != `odd "quoted" lid 99 = x # y` {
		t.Errorf("description %q", d)
	}
	if d := sameSubnet(f, g, true); d != "" {
		t.Error(d)
	}
}

// TestIbsimReadsOurs: Debian's ibsim takes what we write, and ibnetdiscover
// finds the same subnet in it, preset LIDs included.
func TestIbsimReadsOurs(t *testing.T) {
	need.Tool(t, "ibsim")
	need.Tool(t, "ibnetdiscover")
	torus := generate(t, "torus", "3x3", "speed=FDR")
	if err := fabric.AssignLIDs(torus, 1); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*fabric.Fabric{
		"odd":       oddFabric(t, ib.Width4x, ib.SpeedSDR, ib.SpeedEDR),
		"torus":     torus,
		"dragonfly": generate(t, "dragonfly", "3", "1", "1", "speed=HDR"),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "net")
			if err := os.WriteFile(file, []byte(write(t, f)), 0o644); err != nil {
				t.Fatal(err)
			}
			bench, _ := ibtools.Ibsim(t, file, fmt.Sprintf("heddle-fabric-%s-%d", name, os.Getpid()))
			r := bench.Run(30*time.Second, f.Nodes[0].ID, "ibnetdiscover")
			if r.Err != nil || r.Code != 0 {
				t.Fatalf("ibnetdiscover: %v, exit %d\n%s", r.Err, r.Code, r.Out)
			}
			g := read(t, r.Out, fabric.NetlistOptions{Name: "ibnetdiscover"})
			// ibsim keeps neither LID nor speed of a router's port.
			if k := g.FindGUID(0x900000); k >= 0 {
				want := &f.Nodes[f.FindGUID(0x900000)].Ports[1]
				g.Nodes[k].Ports[1].LID, g.Nodes[k].Ports[1].LMC = want.LID, want.LMC
			}
			if d := sameSubnet(f, g, true); d != "" {
				t.Errorf("%s\n%s", d, r.Out)
			}

			// The same text, of what ibsim keeps of the fabric, in the fabric's own order.
			kept, mixed := read(t, r.Out, fabric.NetlistOptions{Name: "ibnetdiscover"}), &fabric.Fabric{}
			for i := range f.Nodes {
				n := kept.Nodes[kept.FindGUID(f.Nodes[i].GUID)]
				for p := range n.Ports {
					if peer := &n.Ports[p].Peer; peer.Valid() {
						peer.Node = int32(f.FindGUID(kept.Nodes[peer.Node].GUID))
					}
				}
				mixed.Nodes = append(mixed.Nodes, n)
			}
			head, _, _ := strings.Cut(r.Out, "\n\n")
			var ours strings.Builder
			if err := fabric.WriteDiscovered(&ours, mixed.Discovered(fabric.Ref{Node: 0, Port: 1})); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(strings.TrimPrefix(r.Out, head+"\n"), ours.String()); diff != "" {
				t.Errorf("ibnetdiscover's text (-) is not ours (+):\n%s", diff)
			}
		})
	}
}
