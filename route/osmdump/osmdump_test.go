package osmdump_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/route/osmdump"
)

// build makes a fabric, its graph and its tables.
func build(t *testing.T, e route.Engine, lids int, kind string, params ...string) (*fabric.Fabric, *fabric.Graph, *route.Tables) {
	t.Helper()
	f, err := fabrictest.Generate(kind, params, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, lids); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tb, err := e.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f, g, tb
}

// ibdmchk runs the ibutils checker on the dump files and returns what it says.
// Its exit status means nothing: Debian's crashes when it cleans up.
func ibdmchk(t *testing.T, f *fabric.Fabric, g *fabric.Graph, tb *route.Tables) string {
	t.Helper()
	tool := need.Tool(t, "ibdmchk")
	dir := t.TempDir()
	write := func(name string, fn func(b *bytes.Buffer) error) string {
		var b bytes.Buffer
		if err := fn(&b); err != nil {
			t.Fatal(err)
		}
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	sub := write("opensm-subnet.lst", func(b *bytes.Buffer) error {
		return osmdump.WriteSubnet(b, f, osmdump.SubnetOptions{SM: 0})
	})
	fdb := write("opensm.fdbs", func(b *bytes.Buffer) error { return osmdump.WriteFDBs(b, g, tb) })
	mc := write("opensm.mcfdbs", func(b *bytes.Buffer) error { return osmdump.WriteMCFDBs(b, g, nil) })
	cmd := exec.Command(tool, "-s", sub, "-f", fdb, "-m", mc)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if len(out) == 0 {
		t.Fatalf("ibdmchk said nothing: %v", err)
	}
	return string(out)
}

func TestIbdmchkAgrees(t *testing.T) {
	for _, c := range []struct {
		name   string
		engine route.Engine
		lids   int
		kind   string
		params []string
		cycles bool
	}{
		{"tree minhop", minhop.Engine{}, 1, "xgft", []string{"2", "4,4", "1,2"}, false},
		{"tree updn", updn.Engine{}, 1, "xgft", []string{"3", "3,3,3", "1,3,3"}, false},
		{"tree lmc", updn.Engine{}, 4, "xgft", []string{"2", "4,4", "1,2"}, false},
		{"torus updn", updn.Engine{}, 1, "torus", []string{"8x8"}, false},
		{"torus minhop", minhop.Engine{}, 1, "torus", []string{"8x8"}, true},
		{"irregular updn", updn.Engine{}, 1, "irregular", []string{"32"}, false},
		{"hypercube updn", updn.Engine{}, 1, "hypercube", []string{"4"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, g, tb := build(t, c.engine, c.lids, c.kind, c.params...)
			r := check.Verify(g, tb, check.Options{})
			if r.UnreachablePairs != 0 || r.Loops != 0 || (r.CreditCycles > 0) != c.cycles {
				t.Errorf("Verify: %+v", r)
			}
			if c.cycles {
				if len(r.Cycles) == 0 || r.Cycles[0].Edges[0].Src < 0 {
					t.Errorf("no example of a cycle: %+v", r.Cycles)
				}
			}
			out := ibdmchk(t, f, g, tb)
			if !strings.Contains(out, "CA to CA paths") {
				t.Errorf("not all paths were walked:\n%s", out)
			}
			for _, bad := range []string{"Unassigned LFT", "Fail to find a path", "Aborting after"} {
				if strings.Contains(out, bad) {
					t.Errorf("ibdmchk: %s:\n%s", bad, out)
				}
			}
			none := strings.Contains(out, "no credit loops found")
			found := strings.Contains(out, "credit loop") && !none
			if none == c.cycles || found != c.cycles {
				t.Errorf("credit loops: ibdmchk found %v, want %v:\n%s", found, c.cycles, out)
			}
		})
	}
}

// TestIbdmchkFindsMissingEntry shows that the files are really read.
func TestIbdmchkFindsMissingEntry(t *testing.T) {
	f, g, tb := build(t, minhop.Engine{}, 1, "xgft", "2", "4,4", "1,2")
	var victim ib.LID
	for _, e := range g.EndPorts {
		if e.Type == ib.NodeCA {
			victim = e.LID
		}
	}
	for s := range tb.LFT {
		tb.LFT[s][victim] = route.Drop
	}
	if out := ibdmchk(t, f, g, tb); !strings.Contains(out, "Unassigned LFT") && !strings.Contains(out, "-E-") {
		t.Errorf("a destination that everybody drops goes unseen:\n%s", out)
	}
}

// pair is two switches joined by two cables with a CA each: LIDs 1 and 2 are
// the CAs', 3 and 4 the switches'.
func pair(t *testing.T) (*fabric.Fabric, *fabric.Graph) {
	t.Helper()
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedNDR}
	h0, h1 := b.AddCA("h0", 1), b.AddCA("h1", 1)
	s0, s1 := b.AddSwitch("s0", 10), b.AddSwitch("s1", 3)
	b.Node(h0).Desc = "bad } name\n"
	b.Connect(h0, 1, s0, 10)
	b.Connect(h1, 1, s1, 3)
	b.Connect(s0, 1, s1, 1)
	b.Connect(s0, 2, s1, 2)
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f, g
}

func TestFDBs(t *testing.T) {
	_, g := pair(t)
	tb := route.New("x", 2, 5) // LID 5 is nobody's
	tb.LFT[0][1], tb.LFT[0][2], tb.LFT[0][3], tb.LFT[0][4] = 10, 2, 0, 1
	tb.LFT[1][1], tb.LFT[1][2], tb.LFT[1][4], tb.LFT[1][3] = 1, 1, 0, 3
	want := `dump_ucast_routes: Switch 0x0000000000200000
LID    : Port : Hops : Optimal
0x0001 : 010  : 00   : yes
0x0002 : 002  : HOPS UNKNOWN
0x0003 : 000  : 00   : yes
0x0004 : 001  : 01   : yes
0x0005 : UNREACHABLE
dump_ucast_routes: Switch 0x0000000000200001
LID    : Port : Hops : Optimal
0x0001 : 001  : 01   : yes
0x0002 : 001  : HOPS UNKNOWN
0x0003 : 003  : HOPS UNKNOWN
0x0004 : 000  : 00   : yes
0x0005 : UNREACHABLE
`
	var b bytes.Buffer
	if err := osmdump.WriteFDBs(&b, g, tb); err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestNotOptimal(t *testing.T) {
	f, err := fabrictest.Generate("torus", []string{"3"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tb, err := minhop.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range g.Channels { // to LID 1, on switch 0, from 1 by way of 2
		if c.From == 1 && c.To == 2 {
			tb.LFT[1][1] = c.OutPort
		}
	}
	var b bytes.Buffer
	if err := osmdump.WriteFDBs(&b, g, tb); err != nil || !strings.Contains(b.String(), " : 02   : No 1 hop path possible via port ") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestMCFDBs(t *testing.T) {
	_, g := pair(t)
	var b bytes.Buffer
	if err := osmdump.WriteMCFDBs(&b, g, nil); err != nil || b.Len() != 0 {
		t.Errorf("no groups: %q", b.String())
	}
	groups := []osmdump.Multicast{
		{MLID: 0xC000, Ports: [][]uint8{{1, 10}, nil}},
		{MLID: 0xC001, Ports: [][]uint8{{0, 2}, {2}}},
	}
	want := "\nSwitch 0x0000000000200000\nLID    : Out Port(s)\n0xC000 : 0x001  0x00A \n0xC001 : 0x000  0x002 \n" +
		"\nSwitch 0x0000000000200001\nLID    : Out Port(s)\n0xC001 : 0x002 \n"
	if err := osmdump.WriteMCFDBs(&b, g, groups); err != nil || b.String() != want {
		t.Errorf("%v %q", err, b.String())
	}
}

func TestSubnet(t *testing.T) {
	f, _ := pair(t)
	var b bytes.Buffer
	err := osmdump.WriteSubnet(&b, f, osmdump.SubnetOptions{SM: 2, State: func(r fabric.Ref) ib.PortState {
		switch {
		case r == fabric.Ref{Node: 2, Port: 2} || r == fabric.Ref{Node: 3, Port: 2}:
			return ib.StateDown
		case r.Node == 1 || r.Node == 3 && r.Port == 3:
			return ib.StateInit
		}
		return ib.StateActive
	}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines, want 6:\n%s", len(lines), b.String())
	}
	n := f.Nodes[0]
	sys := func(i int) string { return strings.ToUpper(f.Nodes[i].SystemImageGUID.String()[2:]) }
	hex := func(v uint64, w int) string { return fmt.Sprintf("%0*X", w, v) }
	want := "{ CA Ports:01 SystemGUID:" + sys(0) + " NodeGUID:0000000000100000 PortGUID:0000000000100001 VenID:" + hex(uint64(n.VendorID), 6) +
		" DevID:" + hex(uint64(n.DeviceID), 4) + " Rev:" + hex(uint64(n.Revision), 8) + " {bad _ name_} LID:0001 PN:01 } " +
		"{ SW-SM Ports:0A SystemGUID:" + sys(2) + " NodeGUID:0000000000200000 PortGUID:0000000000200000 VenID:" + hex(uint64(f.Nodes[2].VendorID), 8) +
		" DevID:" + hex(uint64(f.Nodes[2].DeviceID), 4) + " Rev:" + hex(uint64(f.Nodes[2].Revision), 8) + " {s0} LID:0003 PN:0A } PHY=4x LOG=ACT SPD=100"
	if lines[0] != want {
		t.Errorf("got  %s\nwant %s", lines[0], want)
	}
	if !strings.HasSuffix(lines[1], " LOG=INI SPD=100") {
		t.Error(lines[1])
	}
}
