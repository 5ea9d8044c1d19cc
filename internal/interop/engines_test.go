package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/dnup"
	"heddle/route/engine/dor"
	"heddle/route/engine/file"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
	"heddle/route/mcast"
	"heddle/route/osmdump"
)

// judged are the engines that promise freedom from deadlock. Each must route
// the nets whose kind is in on, and may refuse the others.
var judged = []struct {
	engine route.Engine
	on     string // kinds of nets, "all" for every net
}{
	{updn.Engine{}, "all"},
	{dnup.Engine{}, "xgft"},
	{ftree.Engine{}, "xgft fattree mport kary"},
	{vftree.Engine{}, "xgft fattree mport kary"},
	{dor.Engine{}, "torus mesh hypercube hyperx"},
	{torus.Engine{}, "torus mesh"},
	{sssp.DFEngine{}, "all"},
	{lash.Engine{}, "all"},
	{nue.Engine{}, "all"},
}

// judgeNets are nets that ibdmchk reads in little time. The long ones are for
// make test-long.
var judgeNets = []struct {
	name string
	long bool
}{
	{"xgft 3 3,3,3 1,3,3", false},
	{"torus 5x5", false},
	{"irregular 16", false},
	{"mesh 4x5", false},
	{"hypercube 4", false},
	{"fattree 324", false},
	{"xgft 2 6,6 1,3", false},
	{"mport 4 3", false},
	{"torus 8x8", true},
	{"torus 4x4x4", false},
	{"torus 3x5x6", true},
	{"mesh 3x4x4", false},
	{"hypercube 6", false},
	{"hyperx 4x4 trunk=2", false},
	{"dragonfly 4 2 2", false},
	{"dragonfly+ 4 4 4 4", true},
	{"irregular 32", false},
	{"irregular 48", false},
}

// ibdmchkReport is ibdmchk's result.
type ibdmchkReport struct {
	out      string
	reached  bool // every CA reaches every other one
	loops    bool // credit loops
	complain string
}

// runIbdmchk writes the dump files of tables and lets ibdmchk walk them. With
// lanes it is given the files of path levels and SL-to-VL tables as well.
func runIbdmchk(t *testing.T, f *fabric.Fabric, g *fabric.Graph, tb *route.Tables, lanes bool, more ...string) ibdmchkReport {
	t.Helper()
	tool := need.Tool(t, "ibdmchk")
	dir := t.TempDir()
	write := func(name string, fn func(b *bytes.Buffer) error) {
		t.Helper()
		var b bytes.Buffer
		if err := fn(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("opensm-subnet.lst", func(b *bytes.Buffer) error { return osmdump.WriteSubnet(b, f, osmdump.SubnetOptions{SM: -1}) })
	write("opensm.fdbs", func(b *bytes.Buffer) error { return osmdump.WriteFDBs(b, g, tb) })
	write("opensm.mcfdbs", func(b *bytes.Buffer) error { return osmdump.WriteMCFDBs(b, g, osmdump.Groups(g, tb.Multicast)) })
	args := []string{"-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m", "opensm.mcfdbs"}
	if lanes {
		write("opensm-path-sl.dump", func(b *bytes.Buffer) error { return osmdump.WritePathSL(b, g, tb) })
		write("opensm-sl2vl.dump", func(b *bytes.Buffer) error { return osmdump.WriteSL2VL(b, g, tb) })
		args = append(args, "-c", "opensm-path-sl.dump", "-d", "opensm-sl2vl.dump")
	}
	return ibdmchk(t, tool, dir, append(args, more...), g)
}

func ibdmchk(t *testing.T, tool, dir string, args []string, g *fabric.Graph) ibdmchkReport {
	t.Helper()
	// The exit status says nothing: Debian's build crashes while cleaning up.
	out, _ := run(t, upTime, dir, nil, tool, args...)
	j := ibdmchkReport{out: out}
	cas := 0
	for i := range g.EndPorts {
		if g.EndPorts[i].Type == ib.NodeCA && g.EndPorts[i].LID != 0 {
			cas++
		}
	}
	j.reached = strings.Contains(out, fmt.Sprintf("Scanned:%d CA to CA paths", cas*(cas-1)))
	none := strings.Contains(out, "no credit loops found")
	j.loops = strings.Contains(out, "credit loops in routing")
	if none == j.loops {
		t.Fatalf("ibdmchk came to no verdict on credit loops:\n%s", tail(out))
	}
	for l := range strings.SplitSeq(out, "\n") {
		if strings.Contains(l, "-E-") && !strings.Contains(l, "credit loops in routing") && j.complain == "" {
			j.complain = l
		}
	}
	return j
}

// judgeNet generates a net with LIDs and its graph.
func judgeNet(t *testing.T, name string, lids int) (*fabric.Fabric, *fabric.Graph) {
	t.Helper()
	words := strings.Fields(name)
	f, err := fabrictest.Generate(words[0], words[1:], 11)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, lids); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 15})
	if err != nil {
		t.Fatal(err)
	}
	return f, g
}

// TestEnginesVerified: ibdmchk, an independent program, agrees with route/check on
// every engine and net.
func TestEnginesVerified(t *testing.T) {
	need.Tool(t, "ibdmchk")
	for _, n := range judgeNets {
		t.Run(n.name, func(t *testing.T) {
			if n.long {
				need.Long(t)
			}
			kind := strings.Fields(n.name)[0]
			f, g := judgeNet(t, n.name, 1)
			for _, e := range judged {
				tb, err := e.engine.Compute(g, route.Options{Workers: 2})
				if err != nil {
					if e.on == "all" || slices.Contains(strings.Fields(e.on), kind) {
						t.Errorf("%s: %v", e.engine.Name(), err)
					}
					continue
				}
				r := check.Verify(g, tb, check.Options{Workers: 2})
				if !r.OK() {
					t.Errorf("%s: %v", e.engine.Name(), r.Err())
				}
				lanes := tb.SL != nil || tb.Lanes != nil
				j := runIbdmchk(t, f, g, tb, lanes)
				if !j.reached || j.loops || j.complain != "" {
					t.Errorf("%s (%d lanes): ibdmchk: reached %v, credit loops %v, %s\n%s", e.engine.Name(), tb.NumVLs, j.reached, j.loops, j.complain, tail(j.out))
				}
			}
		})
	}
}

// TestVerifiersSeeLanes: without the files of levels and lanes the same tables have
// credit loops, so ibdmchk does read them; and ibdmchk finds a cycle where route/check
// does.
func TestVerifiersSeeLanes(t *testing.T) {
	need.Tool(t, "ibdmchk")
	f, g := judgeNet(t, "torus 5x5", 1)
	for _, e := range []route.Engine{dor.Engine{}, torus.Engine{}} {
		tb, err := e.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if tb.NumVLs < 2 {
			t.Errorf("%s: %d lanes", e.Name(), tb.NumVLs)
		}
		plain := *tb
		plain.SL, plain.Class, plain.NumClasses, plain.Lanes, plain.NumVLs = nil, nil, 0, nil, 1
		if j := runIbdmchk(t, f, g, &plain, false); !j.loops || !j.reached {
			t.Errorf("%s on one lane: ibdmchk finds no credit loop\n%s", e.Name(), tail(j.out))
		}
		if r := check.Verify(g, &plain, check.Options{}); r.CreditCycles == 0 {
			t.Errorf("%s on one lane: our proof finds no cycle", e.Name())
		}
		// The levels alone, all on one lane, do not help either.
		flat := *tb
		flat.Lanes = &route.Lanes{Rows: make([][16]ib.VL, 1), Stride: tb.Lanes.Stride}
		for _, x := range tb.Lanes.Index {
			flat.Lanes.Index = append(flat.Lanes.Index, make([]uint8, len(x)))
		}
		if j := runIbdmchk(t, f, g, &flat, true); !j.loops {
			t.Errorf("%s with all levels on lane 0: ibdmchk finds no credit loop\n%s", e.Name(), tail(j.out))
		}
	}
}

// TestMulticastVerified: ibdmchk finds every member of every group in its tree
// and, counting the trees as traffic, no credit loop.
func TestMulticastVerified(t *testing.T) {
	need.Tool(t, "ibdmchk")
	for _, name := range []string{"xgft 3 3,3,3 1,3,3", "torus 5x5", "irregular 16", "mesh 4x5"} {
		f, g := judgeNet(t, name, 1)
		// One group of all CAs, others of some of them.
		groups := make([]route.Group, 4)
		for i := range groups {
			groups[i].MLID = ib.LID(0xC000 + i)
			for e := range g.EndPorts {
				if g.EndPorts[e].Type == ib.NodeCA && (i == 0 || e%(i+1) == 0) {
					groups[i].Members = append(groups[i].Members, int32(e))
				}
			}
		}
		for _, e := range judged {
			tb, err := e.engine.Compute(g, route.Options{Workers: 2})
			if err != nil {
				continue // TestEnginesVerified tells
			}
			with := mcast.Join(g, tb, mcast.Build(g, tb, groups, mcast.Options{}))
			if r := check.Verify(g, with, check.Options{Workers: 2}); !r.OK() {
				t.Errorf("%s on %s: %v", e.engine.Name(), name, r.Err())
			}
			if len(with.Multicast.Trees) == 0 {
				t.Errorf("%s on %s: no group has a tree: %v", e.engine.Name(), name, with.Multicast.Refused)
			}
			// With -M ibdmchk takes all trees for traffic of level 0.
			var args []string
			if !slices.ContainsFunc(with.Multicast.Trees, func(t route.Tree) bool { return t.SL != 0 }) {
				args = append(args, "-M")
			}
			j := runIbdmchk(t, f, g, with, tb.SL != nil || tb.Lanes != nil, args...)
			if !j.reached || j.loops || j.complain != "" {
				t.Errorf("%s on %s: ibdmchk %v: reached %v, credit loops %v, %s\n%s", e.engine.Name(), name, args, j.reached, j.loops, j.complain, tail(j.out))
			}
			for _, tree := range with.Multicast.Trees {
				hcas := fmt.Sprintf("and:%d HCAs", len(groups[tree.MLID-0xC000].Members))
				if !strings.Contains(j.out, fmt.Sprintf("Multicast Group:0x%X has:%d switches %s", uint16(tree.MLID), len(tree.Switches), hcas)) {
					t.Errorf("%s on %s: ibdmchk does not find group %#x with %d switches %s\n%s", e.engine.Name(), name, uint16(tree.MLID), len(tree.Switches), hcas, tail(j.out))
				}
			}
		}
	}
}

// TestSeveralLIDsVerified: ports with two LIDs each. ibdmchk's own option for that
// needs LIDs that no subnet has, so it gets one LID of each port after the other.
func TestSeveralLIDsVerified(t *testing.T) {
	need.Tool(t, "ibdmchk")
	for _, name := range []string{"torus 5x5", "irregular 16"} {
		f, g := judgeNet(t, name, 2)
		tables := make([]*route.Tables, len(judged))
		for i, e := range judged {
			var err error
			if tables[i], err = e.engine.Compute(g, route.Options{}); err != nil && e.on == "all" {
				t.Errorf("%s: %v", e.engine.Name(), err)
			}
		}
		for k := range 2 {
			for i := range f.Nodes {
				for p := range f.Nodes[i].Ports {
					port := &f.Nodes[i].Ports[p]
					if port.LMC > 0 || k > 0 && port.LID != 0 && !f.Nodes[i].IsSwitch() {
						port.LMC = 0
						port.LID += ib.LID(k)
					}
				}
			}
			one, err := f.Graph(fabric.GraphOptions{VLs: 15})
			if err != nil {
				t.Fatal(err)
			}
			for i, tb := range tables {
				if tb == nil {
					continue
				}
				j := runIbdmchk(t, f, one, tb, tb.SL != nil || tb.Lanes != nil)
				if !j.reached || j.loops || j.complain != "" {
					t.Errorf("%s on %s, LIDs %d: ibdmchk: reached %v, credit loops %v, %s\n%s", judged[i].engine.Name(), name, k, j.reached, j.loops, j.complain, tail(j.out))
				}
			}
		}
	}
}

// TestPeerUpDn: on a random irregular net without given roots OpenSM's updn installs
// tables with credit loops, according to ibdmchk and to route/check on the dump.
// Heddle's tables have none.
func TestPeerUpDn(t *testing.T) {
	tool := need.Tool(t, "ibdmchk")
	b := testNet{name: "irregular-32", gen: []string{"irregular", "32"}}.build(t)
	dir, g, d := b.peerRoutes(t, "-R", "updn")
	theirs, err := file.Engine{Dump: d}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := check.Verify(g, theirs, check.Options{Workers: 2})
	if r.UnreachablePairs != 0 || r.CreditCycles == 0 {
		t.Errorf("our proof of OpenSM's tables: %d unreachable pairs, %d credit cycles; want 0 and some", r.UnreachablePairs, r.CreditCycles)
	}
	if j := ibdmchk(t, tool, dir, []string{"-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m", "opensm.mcfdbs"}, g); !j.loops {
		t.Errorf("ibdmchk finds no credit loop in OpenSM's tables\n%s", tail(j.out))
	}
	fdbs, err := os.Open(filepath.Join(dir, "opensm.fdbs"))
	if err != nil {
		t.Fatal(err)
	}
	defer fdbs.Close()
	if d, err = osmdump.ReadRoutes(fdbs); err != nil {
		t.Fatal(err)
	}
	if again, err := (file.Engine{Dump: d}).Compute(g, route.Options{}); err != nil || !slices.EqualFunc(again.LFT, theirs.LFT, bytes.Equal) {
		t.Errorf("opensm.fdbs and opensm-lfts.dump are not the same tables: %v", err)
	}
	// Our files of their tables say the same.
	if j := runIbdmchk(t, b.fab, g, theirs, false); !j.loops || !j.reached {
		t.Errorf("ibdmchk finds no credit loop in our dump of OpenSM's tables\n%s", tail(j.out))
	}
	ours, err := updn.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := check.Verify(g, ours, check.Options{Workers: 2}); !r.OK() {
		t.Error(r.Err())
	}
	if j := runIbdmchk(t, b.fab, g, ours, false); j.loops || !j.reached || j.complain != "" {
		t.Errorf("our updn: ibdmchk: %s\n%s", j.complain, tail(j.out))
	}
}

// peerRoutes lets OpenSM bring up a fabric on our simulator and returns where
// its dumps are, the graph with the LIDs that it gave, and its tables.
func (b *built) peerRoutes(t *testing.T, options ...string) (dir string, g *fabric.Graph, d *osmdump.Routes) {
	t.Helper()
	tool := need.Tool(t, "opensm")
	_, env := b.simulate(t)
	dir, args := opensmFiles(t, 0)
	env = append(env, "SIM_HOST="+b.sm, "OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir)
	osm := start(t, dir, env, "ibsim-run", append(append([]string{tool, "-D", "0x43"}, options...), args...)...)
	osm.await("SUBNET UP", 0, upTime)
	osm.stop(syscall.SIGINT)
	dump, err := os.Open(filepath.Join(dir, "opensm-lfts.dump"))
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close()
	if d, err = osmdump.ReadRoutes(dump); err != nil {
		t.Fatalf("reading what OpenSM dumped: %v", err)
	}
	lid := map[ib.GUID]ib.LID{}
	for l, guid := range d.Owner {
		lid[guid] = l
	}
	for i := range b.fab.Nodes {
		for p := range b.fab.Nodes[i].Ports {
			n := &b.fab.Nodes[i]
			n.Ports[p].LID = 0
			if p == 0 || !n.IsSwitch() {
				n.Ports[p].LID = lid[n.Ports[p].GUID]
			}
		}
	}
	if g, err = b.fab.Graph(fabric.GraphOptions{VLs: 8}); err != nil {
		t.Fatal(err)
	}
	return dir, g, d
}

// TestPeerTorus: from one torus-2QoS.conf OpenSM and Heddle compute the same tables,
// lane tables included, also around a failed switch and a failed link.
func TestPeerTorus(t *testing.T) {
	need.Tool(t, "opensm")
	for _, c := range []struct {
		name   string
		failed func(b *built)
	}{
		{"whole", nil},
		{"without a switch", func(b *built) { b.fail(t, 0x200000+3*7+2, 0) }},
		{"without a cable", func(b *built) { b.fail(t, 0x200000+2*7+3, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := testNet{name: "torus-5x7", gen: []string{"torus", "5x7"}}.build(t) // odd: no two ways are as short
			if c.failed != nil {
				c.failed(&b)
			}
			peerTorus(t, &b)
		})
	}
}

// fail takes a switch, or the cable at one of its ports, out of the netlist.
func (b *built) fail(t *testing.T, guid ib.GUID, port uint8) {
	t.Helper()
	node := b.fab.FindGUID(guid)
	for p := range b.fab.Nodes[node].Ports {
		here := &b.fab.Nodes[node].Ports[p]
		if !here.Cabled() || port != 0 && p != int(port) {
			continue
		}
		there := b.fab.Port(here.Peer)
		here.Peer, there.Peer = fabric.NoRef(), fabric.NoRef()
	}
	var text bytes.Buffer
	if err := fabric.WriteNetlist(&text, b.fab); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func peerTorus(t *testing.T, b *built) {
	t.Helper()
	conf := "torus 5 7 1\nxp_link 0x200000 0x200007\nyp_link 0x200000 0x200001\n"
	path := filepath.Join(b.dir, "torus-2QoS.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, g, d := b.peerRoutes(t, "-R", "torus-2QoS,no_fallback", "-Q", "--torus_config", path)
	// A switch without cables is none that anybody sees.
	var gone []int32
	for s := range g.Switches {
		if g.Off[s] == g.Off[s+1] {
			gone = append(gone, int32(s))
		}
	}
	g = routetest.Without(g, gone, nil)
	theirs, err := file.Engine{Dump: d}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := torus.ParseConfig(strings.NewReader(conf))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := torus.Engine{Config: c}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	differ := 0
	for s := range g.Switches {
		for l, e := range g.LIDOwner {
			if e != fabric.NoLID && ours.LFT[s][l] != theirs.LFT[s][l] {
				differ++
			}
		}
	}
	if differ > 0 {
		t.Errorf("%d entries differ from OpenSM's", differ)
	}
	dump, err := os.Open(filepath.Join(dir, "opensm-sl2vl.dump"))
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close()
	lanes, err := osmdump.ReadSL2VL(dump)
	if err != nil {
		t.Fatalf("reading what OpenSM dumped: %v", err)
	}
	rows := 0
	for _, p := range lanes {
		if !p.Switch {
			continue
		}
		s := slices.IndexFunc(g.Switches, func(s fabric.SwitchNode) bool { return s.GUID == p.GUID })
		if s < 0 {
			t.Fatalf("OpenSM has a switch %v that we have not", p.GUID)
		}
		for _, r := range p.Rows {
			if r.In == 0 || g.PortChannel[s][r.Out] < 0 || r.In == r.Out || g.PortChannel[s][r.In] < 0 {
				continue
			}
			rows++
			for sl, vl := range r.VL {
				if own := ours.VL(int32(s), r.In, r.Out, ib.SL(sl), 8); own != vl {
					t.Fatalf("switch %v in %d out %d level %d: lane %d, OpenSM's %d", p.GUID, r.In, r.Out, sl, own, vl)
				}
			}
		}
	}
	if rows == 0 {
		t.Error("no lane table was compared")
	}
	// Their tables with our path levels are free of cycles.
	mixed := *ours
	mixed.LFT = theirs.LFT
	if r := check.Verify(g, &mixed, check.Options{}); !r.OK() {
		t.Error(r.Err())
	}
}
