package torus_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/torus"
)

// example is the one of torus-2QoS.conf(5), for a generated 4x5 torus: its
// switch (y,z) has node GUID 0x200000 + 5y + z.
const example = `
# Look for a 2D (since x radix is one) 4x5 torus.
torus 1 4 5
yp_link 0x200000 0x200005  # sw @ y=0,z=0 -> sw @ y=1,z=0
ym_link 0x200000 0x20000f
	zp_link 0x200000 0x200001
next_seed
yp_link 0x20000b 0x200010
ym_link 0x20000b 0x200006
zp_link 0x20000b 0x20000c
y_dateline -2
z_dateline -1
port_order 7 10 8 7 11
portgroup_max_ports 20
max_changes 5
`

func parse(t testing.TB, s string) *torus.Config {
	t.Helper()
	c, err := torus.ParseConfig(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParse(t *testing.T) {
	want := &torus.Config{
		Size: [3]int{1, 4, 5}, Open: [3]bool{true, false, false},
		Seeds: []torus.Seed{
			{From: 0x200000, Plus: [3]ib.GUID{0, 0x200005, 0x200001}, Minus: [3]ib.GUID{0, 0x20000f}},
			{From: 0x20000b, Plus: [3]ib.GUID{0, 0x200010, 0x20000c}, Minus: [3]ib.GUID{0, 0x200006}, Dateline: [3]int{0, -2, -1}},
		},
		PortOrder: []uint8{7, 10, 8, 11}, MaxPorts: 20, MaxChanges: 5,
	}
	if got := parse(t, example); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := parse(t, "mesh 3T 4 2t\n"); got.Size != [3]int{3, 4, 2} || got.Open != [3]bool{false, true, true} || got.MaxPorts != 16 || got.MaxChanges != 32 {
		t.Errorf("%+v", got)
	}
	if got := parse(t, "torus 0x3 4M 5m and more\r\n"); got.Size != [3]int{3, 4, 5} || got.Open != [3]bool{false, true, true} {
		t.Errorf("%+v", got)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range [][2]string{
		{"", `line 1: the file ends without saying how large the torus is; begin it with a line such as "torus 4 4 4"`},
		{"# nothing\n", `line 1: the file ends without`},
		{"xp_link 1 2\n", `line 1: "xp_link" comes before the size of the torus`},
		{"torus 4 4\n", `line 1: torus needs three sizes, such as "torus 4 4 1" (1 for a missing dimension), got 2`},
		{"torus 4 x 4\n", `line 1: torus needs sizes from 1 to 49151, each followed by t or m if it differs, got "x"`},
		{"torus 0 4 4\n", `line 1: torus needs sizes from 1`},
		{"torus t 4 4\n", `line 1: torus needs sizes from 1`},
		{"torus 300 300 300\n", `line 1: the torus would have more than 49151 switches; make it smaller`},
		{"torus 4 4 4\n\nmesh 4 4 4\n", `line 3: a second "mesh" line; remove one`},
		{"torus 4 4 4\nwibble\n", `line 2: unknown keyword "wibble"; known keywords are torus,`},
		{"torus 4 4 4\nxp_link 0x1\n", `line 2: xp_link needs the node GUIDs of two switches, got 1 words`},
		{"torus 4 4 4\nxp_link 0x1 zwei\n", `line 2: xp_link needs the node GUIDs of two switches, such as 0x200000, got "zwei"`},
		{"torus 4 4 4\nxp_link 7 7\n", `line 2: xp_link joins switch 0x0000000000000007 with itself; name two switches`},
		{"torus 4 4 1\nzp_link 1 2\n", `line 2: zp_link, but the size of z is 1; take the line out or make the size larger`},
		{"torus 4 4 4\nxp_link 1 2\nyp_link 2 1", `line 3: yp_link begins at switch 0x0000000000000002, the seed's other links at 0x0000000000000001; all must begin at the same switch (next_seed begins another seed)`},
		{"torus 4 4 4\ny_dateline 4\n", `line 2: y_dateline needs a whole number from -3 to 3, got "4"`},
		{"torus 4 4 4\ny_dateline\n", `line 2: y_dateline needs a whole number from -3 to 3`},
		{"torus 4 4 4\ny_dateline 2\n", `line 2: seed 1 has a date line but no link; add one such as "xp_link FROM TO"`},
		{"torus 4 4 4\nport_order\n", `line 2: port_order needs at least one port number`},
		{"torus 4 4 4\nport_order 1 256\n", `line 2: port_order needs port numbers from 0 to 255, got "256"`},
		{"torus 4 4 4\nmax_changes -1\n", `line 2: max_changes needs a whole number from 0`},
		{"torus 4 4 4\n" + strings.Repeat("next_seed\n", 300), `line 258: more than 256 seeds; leave some out`},
		{strings.Repeat("\n", 10001), `line 10001: more than 10000 lines; this is not a torus-2QoS.conf`},
		{"torus 4 4 4\n" + strings.Repeat("a", 5000) + "\n", `line 2: longer than 4096 bytes; this is not a torus-2QoS.conf`},
		{"torus 4 4 4\n" + strings.Repeat("b", 100) + "\n", `line 2: unknown keyword "` + strings.Repeat("b", 40) + `…"; known`},
	} {
		_, err := torus.ParseConfig(strings.NewReader(c[0]))
		if err == nil || !strings.HasPrefix(err.Error(), c[1]) {
			t.Errorf("%.40q: got  %v\nwant %s", c[0], err, c[1])
		}
		if line, ok := errors.AsType[*torus.ConfigError](err); !ok || !strings.HasPrefix(c[1], fmt.Sprintf("line %d: ", line.Line)) {
			t.Errorf("%.40q: %#v", c[0], err)
		}
	}
}

// TestLevelsStay: with a configuration no failure changes a path's service
// level, whichever seed it is found from (torus-2QoS(8)).
func TestLevelsStay(t *testing.T) {
	c := parse(t, example)
	e := torus.Engine{Config: c}
	g := graph(t, 8, "torus 4x5")
	whole, _ := right(t, e, g, route.Options{MaxVLs: 8})
	levels := func(g *fabric.Graph, tb *route.Tables) map[[2]ib.GUID]ib.SL {
		m := map[[2]ib.GUID]ib.SL{}
		for s := range g.Switches {
			for l, e := range g.LIDOwner {
				if e != fabric.NoLID {
					m[[2]ib.GUID{g.Switches[s].GUID, g.EndPorts[e].GUID}] = tb.PathSL(int32(s), ib.LID(l))
				}
			}
		}
		return m
	}
	want := levels(g, whole)
	used := map[ib.SL]bool{}
	for _, sl := range want {
		used[sl] = true
	}
	if !used[0] || !used[2] || !used[4] || !used[6] || len(used) != 4 {
		t.Errorf("levels %v, want those of the date lines of y and z", used)
	}
	for s := range g.Switches {
		d := routetest.Without(g, []int32{int32(s)}, nil)
		tb, _ := right(t, e, d, route.Options{MaxVLs: 8})
		for pair, sl := range levels(d, tb) {
			if want[pair] != sl {
				t.Fatalf("without switch %v the level of %v is %d, it was %d", g.Switches[s].GUID, pair, sl, want[pair])
			}
		}
	}
	for ch := range g.Channels {
		d := routetest.Without(g, nil, []int32{int32(ch)})
		tb, _ := right(t, e, d, route.Options{MaxVLs: 2})
		for pair, sl := range levels(d, tb) {
			if want[pair] != sl {
				t.Fatalf("without channel %d the level of %v is %d, it was %d", ch, pair, sl, want[pair])
			}
		}
	}
	// A switch of each seed is gone.
	_, err := e.Compute(routetest.Without(g, []int32{0, 11}, nil), route.Options{})
	if err == nil || err.Error() != "torus: seed 1: switch 0x0000000000200000 is not there" {
		t.Error(err)
	}
}

// TestManualPage: the routes that torus-2QoS(8) draws.
func TestManualPage(t *testing.T) {
	config := func(x, y int) torus.Engine {
		return torus.Engine{Config: parse(t, fmt.Sprintf("torus %d %d 1\nxp_link 0x200000 %#x\nyp_link 0x200000 0x200001\n", x, y, 0x200000+y))}
	}
	at := func(y int) func(int, int) int32 { return func(i, j int) int32 { return int32(i*y + j) } }
	trace := func(g *fabric.Graph, tb *route.Tables, from, to ib.GUID) (s string) {
		var src, dst int32
		for i := range g.Switches {
			if g.Switches[i].GUID == from {
				src = int32(i)
			}
			if g.Switches[i].GUID == to {
				dst = int32(i)
			}
		}
		lid := g.EndPorts[g.Switches[dst].EndPort].LID
		for range 20 {
			s += fmt.Sprintf(" %x", uint64(g.Switches[src].GUID)-0x200000)
			if src == dst {
				return s
			}
			src = g.Channels[g.PortChannel[src][tb.LFT[src][lid]]].To
		}
		return s
	}
	path := func(y int, cells ...int) (s string) {
		for i := 0; i < len(cells); i += 2 {
			s += fmt.Sprintf(" %x", cells[i]*y+cells[i+1])
		}
		return s
	}
	guid := func(s int32) ib.GUID { return ib.GUID(0x200000 + int(s)) }

	g := graph(t, 8, "torus 6x5")
	sw := at(5)
	S, D := guid(sw(1, 1)), guid(sw(3, 3))
	tb, _ := right(t, config(6, 5), g, route.Options{})
	if got, want := trace(g, tb, S, D), path(5, 1, 1, 2, 1, 3, 1, 3, 2, 3, 3); got != want {
		t.Errorf("whole: %s, want %s", got, want)
	}
	for _, cut := range [][2]int{{1, 2}, {2, 3}} {
		var link int32
		for c := range g.Channels {
			if g.Channels[c].From == sw(cut[0], 1) && g.Channels[c].To == sw(cut[1], 1) {
				link = int32(c)
			}
		}
		d := routetest.Without(g, nil, []int32{link})
		tb, r := right(t, config(6, 5), d, route.Options{})
		if got, want := trace(d, tb, S, D), path(5, 1, 1, 0, 1, 5, 1, 4, 1, 3, 1, 3, 2, 3, 3); got != want {
			t.Errorf("link %v failed: %s, want %s", cut, got, want)
		}
		if r.VLsUsed > 2 {
			t.Errorf("link %v failed: %d lanes", cut, r.VLsUsed)
		}
	}
	d := routetest.Without(g, []int32{sw(3, 1)}, nil)
	tb, r := right(t, config(6, 5), d, route.Options{})
	if got, want := trace(d, tb, S, D), path(5, 1, 1, 2, 1, 2, 2, 3, 2, 3, 3); got != want {
		t.Errorf("T failed: %s, want %s", got, want)
	}
	if r.VLsUsed > 4 {
		t.Errorf("T failed: %d lanes", r.VLsUsed)
	}

	g = graph(t, 8, "torus 6x6")
	sw = at(6)
	S, D = guid(sw(1, 1)), guid(sw(3, 3)) // u of the page: to D both ways round y are short
	d = routetest.Without(g, []int32{sw(3, 1), sw(3, 2)}, nil)
	tb, _ = right(t, config(6, 6), d, route.Options{})
	if got, want := trace(d, tb, S, D), path(6, 1, 1, 2, 1, 2, 2, 2, 3, 3, 3); got != want {
		t.Errorf("T and R failed: %s, want %s", got, want)
	}
	// What torus-2QoS refuses, two neighbors along x: right or refused.
	d = routetest.Without(g, []int32{sw(3, 1), sw(4, 1)}, nil)
	if tb, err := config(6, 6).Compute(d, route.Options{}); err == nil {
		if r := check.Verify(d, tb, check.Options{}); !r.OK() {
			t.Error(r.Err())
		}
	}
}

// TestConfigured: the configuration must match the links.
func TestConfigured(t *testing.T) {
	g := graph(t, 8, "torus 4x5")
	m := graph(t, 8, "mesh 3x4")
	for _, c := range []struct {
		g         *fabric.Graph
		conf, err string
	}{
		{g, "torus 4 5 1", ""},
		{g, "torus 1 4 5\nyp_link 0x200000 0x200005\nzp_link 0x200000 0x200001\ny_dateline 3", ""},
		{g, "torus 5 4 1", ""},
		{g, "torus 4 6 1", ""}, // could be one with switches missing
		{g, "mesh 4 5 1", "torus: a 4x5 mesh has 20 switches and 31 links, the net 20 and 40"},
		{g, "torus 3 5 1", "torus: a 3x5 torus has 15 switches and 30 links, the net 20 and 40"},
		{g, "torus 2 10 1", "torus: a 2x10 grid has 20 switches and 30 links, the net 20 and 40"},
		{g, "torus 4 5 1\nxp_link 0x200000 0x200009", "torus: seed 1: the links between the switches are not those of a 4x5 torus"},
		{g, "torus 4 5 1\nxp_link 0x200000 0x200005\nxm_link 0x200000 0x200005", "torus: seed 1: the links between the switches are not those of a 4x5 torus"},
		{g, "torus 4 5 1\nxp_link 0x900000 0x200009", "torus: seed 1: switch 0x0000000000900000 is not there"},
		{m, "mesh 3 4 1\nxp_link 0x200000 0x200004\nyp_link 0x200000 0x200001", ""},
		{m, "mesh 3 4 1\nxm_link 0x200004 0x200000\nyp_link 0x200004 0x200005", "torus: seed 1: the link from 0x0000000000200004 to 0x0000000000200000 leaves the mesh; move the origin with x_dateline"},
		{m, "mesh 3 4 1\nxm_link 0x200004 0x200000\nyp_link 0x200004 0x200005\nx_dateline -1", ""},
	} {
		tb, err := torus.Engine{Config: parse(t, c.conf)}.Compute(c.g, route.Options{})
		switch {
		case err == nil && c.err == "":
			if r := check.Verify(c.g, tb, check.Options{}); !r.OK() {
				t.Errorf("%q: %v", c.conf, r.Err())
			}
		case err == nil || c.err == "" && c.conf != "torus 4 6 1" || !strings.HasPrefix(err.Error(), c.err):
			t.Errorf("%q: got  %v\nwant %s", c.conf, err, c.err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(example)
	f.Add("mesh 3T 4 2t\n")
	f.Add("torus 4 4 4\ny_dateline 2\n")
	f.Add("torus 4 4 4\nport_order 1 256\nmax_changes 0x7fffffff\nnext_seed\nnext_seed")
	g := graph(f, 8, "torus 4x5")
	f.Fuzz(func(t *testing.T, in string) {
		c, err := torus.ParseConfig(strings.NewReader(in))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		if c.Size[0]*c.Size[1]*c.Size[2] > 200 {
			return
		}
		if tb, err := (torus.Engine{Config: c}).Compute(g, route.Options{}); err == nil {
			if r := check.Verify(g, tb, check.Options{}); !r.OK() {
				t.Errorf("%v", r.Err())
			}
		}
	})
}
