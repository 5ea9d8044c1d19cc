package file_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/file"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/osmdump"
)

func net(t testing.TB, kind, params string, lids int) (*fabric.Fabric, *fabric.Graph) {
	t.Helper()
	f, err := fabrictest.Generate(kind, strings.Fields(params), 9)
	if err != nil {
		t.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, lids); err != nil {
		t.Fatal(err)
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 4})
	if err != nil {
		t.Fatal(err)
	}
	return f, g
}

func routes(t testing.TB, write func(b *bytes.Buffer) error) *osmdump.Routes {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	d, err := osmdump.ReadRoutes(&b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func lfts(t testing.TB, g *fabric.Graph, tb *route.Tables) *osmdump.Routes {
	return routes(t, func(b *bytes.Buffer) error { return routetest.WriteLFTs(b, g, tb) })
}

func fdbs(t testing.TB, g *fabric.Graph, tb *route.Tables) *osmdump.Routes {
	return routes(t, func(b *bytes.Buffer) error { return osmdump.WriteFDBs(b, g, tb) })
}

// engine is a file engine with everything that tables have.
func engine(t testing.TB, g *fabric.Graph, tb *route.Tables) file.Engine {
	t.Helper()
	var sl, vl bytes.Buffer
	if err := osmdump.WritePathSL(&sl, g, tb); err != nil {
		t.Fatal(err)
	}
	if err := osmdump.WriteSL2VL(&vl, g, tb); err != nil {
		t.Fatal(err)
	}
	e := file.Engine{Dump: lfts(t, g, tb)}
	var err error
	if e.SLs, err = osmdump.ReadPathSL(&sl); err != nil {
		t.Fatal(err)
	}
	if e.SL2VL, err = osmdump.ReadSL2VL(&vl); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestRoundTrip: dumped tables are read back equal, lanes and levels included.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		e            route.Engine
		kind, params string
		lids         int
	}{
		{updn.Engine{}, "irregular", "16", 1},
		{updn.Engine{}, "irregular", "8", 4},
		{updn.Engine{}, "xgft", "3 3,3,3 1,3,3", 1},
		{torus.Engine{}, "torus", "5x6", 1},
		{torus.Engine{}, "torus", "4x4x4", 2},
	} {
		_, g := net(t, c.kind, c.params, c.lids)
		if c.kind == "torus" {
			g = routetest.Without(g, []int32{3}, []int32{40})
		}
		want, err := c.e.Compute(g, route.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := engine(t, g, want).Compute(g, route.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		if !slices.EqualFunc(got.LFT, want.LFT, bytes.Equal) || got.TopLID != want.TopLID {
			t.Errorf("%s: other tables", c.kind)
		}
		for s := range g.Switches {
			for l, e := range g.LIDOwner {
				if e != fabric.NoLID && got.PathSL(int32(s), ib.LID(l)) != want.PathSL(int32(s), ib.LID(l)) {
					t.Fatalf("%s: other levels", c.kind)
				}
			}
			for in := range int(g.Switches[s].NumPorts) + 1 {
				for _, ch := range g.Channels[g.Off[s]:g.Off[s+1]] {
					for sl := range ib.SL(16) {
						if a, b := got.VL(int32(s), uint8(in), ch.OutPort, sl, ch.VLs), want.VL(int32(s), uint8(in), ch.OutPort, sl, ch.VLs); a != b {
							t.Fatalf("%s: lane %d, want %d", c.kind, a, b)
						}
					}
				}
			}
		}
		if r := check.Verify(g, got, check.Options{}); !r.OK() || r.VLsUsed > got.NumVLs {
			t.Errorf("%s: %v, %d lanes used, %d said", c.kind, r.Err(), r.VLsUsed, got.NumVLs)
		}
		if got, err = (file.Engine{Dump: fdbs(t, g, want)}).Compute(g, route.Options{}); err != nil || !slices.EqualFunc(got.LFT, want.LFT, bytes.Equal) {
			t.Errorf("%s: opensm.fdbs: %v", c.kind, err)
		}
	}
}

// TestOtherLIDs: routes follow the ports to their LIDs of now, where the dump
// names them.
func TestOtherLIDs(t *testing.T) {
	f, old := net(t, "torus", "5x5", 2)
	tb, err := torus.Engine{}.Compute(old, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, old, tb)
	plain := fdbs(t, old, tb)
	// Turn the LIDs round: the first pair becomes the last.
	var top ib.LID
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			top = max(top, f.Nodes[i].Ports[p].LID)
		}
	}
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if l := &f.Nodes[i].Ports[p].LID; *l != 0 {
				*l = top + 2 - *l
				if *l%2 == 1 && f.Nodes[i].Ports[p].LMC > 0 {
					*l--
				}
			}
		}
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 4})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := check.Verify(g, got, check.Options{}); !r.OK() {
		t.Error(r.Err())
	}
	for i := range g.EndPorts {
		for s := range g.Switches {
			if a, b := got.LFT[s][g.EndPorts[i].LID], tb.LFT[s][old.EndPorts[i].LID]; a != b {
				t.Fatalf("switch %d to port %v: %d, was %d", s, g.EndPorts[i].GUID, a, b)
			}
		}
	}
	_, err = file.Engine{Dump: plain}.Compute(g, route.Options{})
	if err == nil || !strings.Contains(err.Error(), "the dump was made for other LIDs and names no ports; use one that names them (opensm-lfts.dump)") || strings.Contains(err.Error(), "\n") {
		t.Errorf("opensm.fdbs of other LIDs: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	_, g := net(t, "torus", "5x5", 1)
	tb, err := torus.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, g, tb)
	edit := func(fn func(e *file.Engine)) file.Engine {
		c := e
		d := *e.Dump
		d.Switches = slices.Clone(d.Switches)
		for i := range d.Switches {
			d.Switches[i].Routes = slices.Clone(d.Switches[i].Routes)
		}
		c.Dump, c.SLs, c.SL2VL = &d, slices.Clone(e.SLs), slices.Clone(e.SL2VL)
		fn(&c)
		return c
	}
	for _, c := range []struct {
		e    file.Engine
		o    route.Options
		want string
	}{
		{file.Engine{}, route.Options{}, "file: no dump is given"},
		{edit(func(e *file.Engine) { e.Dump.Switches = e.Dump.Switches[1:] }), route.Options{}, "file: the dump has no table for switch 0x0000000000200000"},
		{edit(func(e *file.Engine) { e.Dump.Switches[2].Routes[1].Port = 77 }), route.Options{}, "file: the dump sends LID 2 out of port 77 of switch 0x0000000000200002, which has 5 ports"},
		{edit(func(e *file.Engine) {
			for i := range e.Dump.Switches {
				e.Dump.Switches[i].Routes = e.Dump.Switches[i].Routes[1:]
			}
		}), route.Options{}, "file: the dump has no route to LID 1 of port 0x0000000000100001"},
		{edit(func(e *file.Engine) { e.Dump.Switches[0].Routes[0].Port = 1 }), route.Options{}, "file: the dump routes LID 1 to port 1 of switch 0x0000000000200000, but port 0x0000000000100001 is at its port 5"},
		{edit(func(e *file.Engine) {
			e.SLs = append(e.SLs, osmdump.SourceSLs{GUID: e.SLs[0].GUID, SLs: []osmdump.PathSL{{LID: 3, SL: 9}}})
		}), route.Options{}, "file: ports on switch 0x0000000000200000 have service levels 0 and 9 to LID 3; all ports of a switch must have the same"},
		{edit(func(e *file.Engine) {
			e.SL2VL = append(e.SL2VL, osmdump.PortLanes{GUID: 0x200000, Switch: true, Rows: []osmdump.LaneRow{{In: 1, Out: 6}}})
		}), route.Options{}, "file: the dump has an SL-to-VL table for ports 1 and 6 of switch 0x0000000000200000, which has 5 ports"},
		{e, route.Options{MaxVLs: 1}, "file: the dump needs 2 lanes, 1 is allowed"},
	} {
		if _, err := c.e.Compute(g, c.o); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// TestRemovedPorts: ports and switches of the dump that no longer exist are ignored.
func TestRemovedPorts(t *testing.T) {
	_, g := net(t, "torus", "5x5", 1)
	tb, err := torus.Engine{}.Compute(g, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := routetest.Without(g, []int32{24}, nil)
	got, err := engine(t, g, tb).Compute(d, route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range g.EndPorts {
		if e.Switch == 24 && got.LFT[0][e.LID] != route.Drop {
			t.Errorf("LID %d of a port that is gone has a route", e.LID)
		}
	}
}

// TestVirtualFunctions: LIDs that a port got after the dump get the port's routes and
// levels; those in the dump keep theirs.
func TestVirtualFunctions(t *testing.T) {
	_, g := net(t, "torus", "4x4 hosts=2", 1)
	e := torus.Engine{}
	with := func(g *fabric.Graph, more ...fabric.LIDGrant) *fabric.Graph {
		h, err := g.WithLIDs(more)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	host := int32(slices.IndexFunc(g.EndPorts, func(e fabric.EndPort) bool { return e.Type == ib.NodeCA }))
	old := g.TopLID + 3
	g = with(g, fabric.LIDGrant{LID: old, EndPort: host})
	tb, err := e.Compute(g, route.Options{MaxVLs: 4})
	if err != nil {
		t.Fatal(err)
	}
	h := with(g, fabric.LIDGrant{LID: old - 1, EndPort: host}, fabric.LIDGrant{LID: old + 70, EndPort: host + 1})
	for name, eng := range map[string]file.Engine{"lfts": engine(t, g, tb), "fdbs": {Dump: fdbs(t, g, tb)}} {
		got, err := eng.Compute(h, route.Options{MaxVLs: 4})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for s := range int32(len(h.Switches)) {
			for l, like := range map[ib.LID]ib.LID{old: old, old - 1: h.EndPorts[host].LID, old + 70: h.EndPorts[host+1].LID} {
				if a, b := got.Entry(s, l), tb.Entry(s, like); a != b {
					t.Errorf("%s: switch %d sends LID %d out of port %d, want %d", name, s, l, a, b)
				}
				if a, b := got.PathSL(s, l), tb.PathSL(s, like); name == "lfts" && a != b {
					t.Errorf("%s: switch %d: level %d to LID %d, want %d", name, s, a, l, b)
				}
			}
		}
		if r := check.Verify(h, got, check.Options{}); name == "lfts" && !r.OK() {
			t.Errorf("%s: %v", name, r.Err())
		}
	}
}
