package engine_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine"
	"heddle/route/engine/dnup"
	"heddle/route/engine/dor"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
)

// subject is an engine and what it promises on any fabric.
type subject struct {
	route.Engine
	loops   bool // deadlock freedom is not promised
	refuses bool // for other reasons than a lack of lanes
}

var subjects = []subject{
	{Engine: minhop.Engine{}, loops: true},
	{Engine: updn.Engine{}},
	{Engine: dnup.Engine{}},
	{Engine: nue.Engine{}},
	{Engine: sssp.Engine{}, loops: true},
	{Engine: sssp.DFEngine{}},
	{Engine: lash.Engine{}},
	{Engine: ftree.Engine{}, refuses: true},
	{Engine: vftree.Engine{}, refuses: true},
	{Engine: dor.Engine{}, refuses: true},
	{Engine: torus.Engine{}, refuses: true},
}

// hostile is a fabric that nobody would build: parts that nothing joins,
// switches without hosts, several cables between two switches and from a
// switch to itself, hosts on many ports or on no switch, routers, LIDs
// scattered up to 0xBFFF with any LMC, ports without a LID, tables too short.
// GUIDs come from a small pool, so that two such fabrics have much in common.
func hostile(t testing.TB, draw func(k int) int, short bool) *fabric.Graph {
	t.Helper()
	b := &fabric.Builder{}
	n := draw(14)
	var free [][2]int // node, port
	guids := make([]bool, 64)
	guid := func(base int) ib.GUID {
		for {
			if x := draw(len(guids)); !guids[x] {
				guids[x] = true
				return ib.GUID(base + 16*x)
			}
		}
	}
	take := func(i int) [2]int {
		e := free[i]
		free[i] = free[len(free)-1]
		free = free[:len(free)-1]
		return e
	}
	for i := range n {
		ports := 3 + draw(8)
		if draw(12) == 0 {
			ports = 254
		}
		s := b.AddSwitch(fmt.Sprintf("s%d", i), ports)
		b.SetGUID(s, guid(0x1000))
		b.Node(s).EnhancedPort0 = draw(2) == 0
		if draw(5) > 0 && len(free) > 0 { // joined to what is there
			e := take(draw(len(free)))
			b.Connect(s, 1, e[0], e[1])
			for p := 2; p <= min(ports, 20); p++ {
				free = append(free, [2]int{s, p})
			}
			if ports == 254 {
				free = append(free, [2]int{s, 254})
			}
			continue
		}
		for p := 1; p <= min(ports, 20); p++ {
			free = append(free, [2]int{s, p})
		}
	}
	for range draw(2*n + 1) {
		if len(free) > 1 {
			x, y := take(draw(len(free))), take(draw(len(free)))
			b.Connect(x[0], x[1], y[0], y[1]) // may be the same switch
		}
	}
	for i := range draw(3 * max(n, 1)) {
		ports := 1 + draw(3)
		var h int
		if draw(8) == 0 {
			h = b.Add(ib.NodeRouter, fmt.Sprintf("r%d", i), ports)
		} else {
			h = b.AddCA(fmt.Sprintf("h%d", i), ports)
		}
		b.SetGUID(h, guid(0x100000))
		for p := 1; p <= ports; p++ {
			if len(free) > 0 && draw(6) > 0 {
				e := take(draw(len(free)))
				b.Connect(h, p, e[0], e[1])
			} else if draw(2) == 0 {
				free = append(free, [2]int{h, p}) // for another host
			}
		}
	}
	used := make([]bool, 0xC000)
	lids := func(node, port int) {
		lmc := uint8(0)
		if draw(4) == 0 {
			lmc = uint8(draw(8))
		}
		span := 1 << lmc
		for range 20 {
			base := 1 + draw(400)
			if draw(10) == 0 {
				base = 0xBFFF - draw(500)
			}
			if base &^= span - 1; base == 0 || slices.Contains(used[base:base+span], true) {
				continue
			}
			for l := range span {
				used[base+l] = true
			}
			b.SetLID(node, port, ib.LID(base), lmc)
			return
		}
	}
	for i := range b.Len() {
		nd := b.Node(i)
		if nd.IsSwitch() {
			if draw(10) > 0 {
				lids(i, 0)
			}
			continue
		}
		for p := 1; p <= nd.NumPorts; p++ {
			if nd.Ports[p].Cabled() && draw(10) > 0 {
				lids(i, p)
			}
		}
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	o := fabric.GraphOptions{VLs: uint8(1 + draw(8))}
	if short {
		o.FDBCap = func(int) uint16 { return uint16([]int{0xC000, 0xC000, 1, 64, 256, 512}[draw(6)]) }
	}
	g, err := f.Graph(o)
	if err != nil {
		t.Fatal(err)
	}
	if draw(3) == 0 {
		for c := range g.Channels {
			g.Channels[c].VLs = uint8(1 + draw(8))
			g.Channels[g.Channels[c].Rev].VLs = g.Channels[c].VLs
		}
	}
	return g
}

// wish are options as odd as the fabric.
func wish(g *fabric.Graph, draw func(k int) int) route.Options {
	o := route.Options{Workers: 1 + draw(4), Seed: uint64(draw(3)), MaxVLs: draw(5), ConnectRoots: draw(2) == 0, SpreadLanes: draw(2) == 0}
	any := func() (list []ib.GUID) {
		for range draw(5) {
			switch {
			case draw(3) == 0 && len(g.Switches) > 0:
				list = append(list, g.Switches[draw(len(g.Switches))].GUID)
			case draw(3) == 0 && len(list) > 0:
				list = append(list, list[0])
			case draw(2) == 0 && len(g.EndPorts) > 0:
				list = append(list, g.EndPorts[draw(len(g.EndPorts))].GUID)
			default:
				list = append(list, ib.GUID(draw(1<<20)))
			}
		}
		return list
	}
	if draw(2) == 0 {
		o.Roots = any()
	}
	if draw(3) == 0 {
		o.RoutingOrder, o.Unbalanced = any(), any()
		o.IONodes, o.MaxReverseHops = any(), draw(3)
		if draw(2) == 0 {
			o.ComputeNodes = any()
		}
	}
	if draw(3) == 0 {
		o.IDs, o.PortOrder = map[ib.GUID]uint64{}, map[ib.GUID][]uint8{}
		for _, x := range any() {
			o.IDs[x] = uint64(draw(3))
			o.PortOrder[x] = []uint8{uint8(draw(256)), uint8(draw(5)), uint8(draw(5)), 255, 0}
		}
		for _, x := range any() {
			o.HopWeights = append(o.HopWeights, route.HopWeight{Switch: x, Port: uint8(draw(8)), Weight: uint8([]int{0, 1, 2, 255}[draw(4)])})
		}
	}
	return o
}

// judged fails unless tables are what the engine promises; a switch whose
// table is too short excuses what is not delivered.
func (s subject) verified(t *testing.T, what string, g *fabric.Graph, tb *route.Tables, err error, short bool) bool {
	t.Helper()
	if err != nil {
		text := err.Error()
		if !strings.HasPrefix(text, s.Name()+": ") || strings.Contains(text, "\n") || !s.refuses && !strings.Contains(text, "lane") {
			t.Errorf("%s: refused with %q", what, text)
		}
		return false
	}
	r := check.Verify(g, tb, check.Options{})
	switch {
	case r.Malformed != "" || r.Loops > 0 || r.UnreachablePairs > 0 && !short:
		t.Errorf("%s: %v", what, r.Err())
	case r.CreditCycles > 0 && !s.loops:
		t.Errorf("%s: %v", what, r.Err())
	}
	return true
}

func alike(a, b *route.Tables) bool {
	return a.Equal(b) && a.Note == b.Note && a.NumVLs == b.NumVLs && a.NumClasses == b.NumClasses &&
		slices.EqualFunc(a.LFT, b.LFT, bytes.Equal) && (a.Lanes == nil) == (b.Lanes == nil)
}

func compute(s subject, g *fabric.Graph, o route.Options) (tb *route.Tables, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v", x)
		}
	}()
	return s.Compute(g, o)
}

func incremental(s subject, from route.Solution, g *fabric.Graph, o route.Options) (tb *route.Tables, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v", x)
		}
	}()
	return s.Engine.(route.Updater).Update(from, g, fabric.Diff(from.Graph, g), o)
}

// TestHostile: for any fabric and options, tables are right or refused with a reason,
// and the same for any number of workers; also when they are updated to a very
// different fabric.
func TestHostile(t *testing.T) {
	for _, seed := range need.Seeds(12, 1000) {
		for k, s := range subjects {
			draw := routetest.Draws(seed, 77)
			g := hostile(t, draw, seed%4 == 3)
			o := wish(g, draw)
			what := fmt.Sprintf("%s, HEDDLE_SEED=%d", s.Name(), seed)
			tb, err := compute(s, g, o)
			if !s.verified(t, what, g, tb, err, seed%4 == 3) {
				continue
			}
			for _, workers := range []int{1, 3, 8} {
				p := o
				p.Workers = workers
				if again, err := compute(s, g, p); err != nil || !alike(tb, again) {
					t.Errorf("%s: other tables with %d workers: %v", what, workers, err)
				}
			}
			if _, ok := s.Engine.(route.Updater); !ok {
				continue
			}
			foreign, err := compute(subjects[(k+1)%4], g, o)
			if err != nil {
				t.Fatal(err)
			}
			bare := tb.Remap(g, g)
			for i, from := range []*route.Tables{tb, foreign, bare} {
				s.everywhere(t, fmt.Sprintf("%s, updated from tables %d", what, i), g, from, hostile(t, draw, seed%8 == 7), o, seed%8 == 7)
			}
			w := routetest.NewWear(g)
			if len(g.Switches) == 0 {
				continue
			}
			for step := range 6 {
				said := w.Step(draw)
				h := w.Graph()
				next := s.everywhere(t, fmt.Sprintf("%s, step %d, %s", what, step, said), g, tb, h, o, seed%4 == 3)
				if next == nil {
					break
				}
				g, tb = h, next
			}
		}
	}
}

// everywhere carries tables over with one and with many workers.
func (s subject) everywhere(t *testing.T, what string, g *fabric.Graph, from *route.Tables, h *fabric.Graph, o route.Options, short bool) *route.Tables {
	t.Helper()
	next, err := incremental(s, route.Solution{Graph: g, Tables: from}, h, o)
	if !s.verified(t, what, h, next, err, short) {
		return nil
	}
	o.Workers = 5
	if again, err := incremental(s, route.Solution{Graph: g, Tables: from}, h, o); err != nil || !alike(next, again) {
		t.Errorf("%s: other tables with 5 workers: %v", what, err)
	}
	return next
}

// lengths are the costs of all paths, by LID and switch, -1 where there is none.
func lengths(g *fabric.Graph, tb *route.Tables, o route.Options) (all []int) {
	weights, _ := engine.Weights(g, o)
	for l := 1; l <= int(g.TopLID); l++ {
		for s := range g.Switches {
			cost, u := 0, int32(s)
			for cost >= 0 {
				p := tb.Entry(u, ib.LID(l))
				if int(p) >= len(g.PortChannel[u]) {
					cost = -1
					break
				}
				c := g.PortChannel[u][p]
				if c < 0 {
					break
				}
				w := 1
				if weights != nil {
					w = int(weights[c])
				}
				cost, u = cost+w, g.Channels[c].To
			}
			all = append(all, cost)
		}
	}
	return all
}

// TestOtherOptions: an engine's memory is not used if the options have changed: paths
// are as long as when computed from scratch.
func TestOtherOptions(t *testing.T) {
	for _, s := range []route.Updater{minhop.Engine{}, updn.Engine{}, dnup.Engine{}, sssp.Engine{}, sssp.DFEngine{}} {
		for _, seed := range need.Seeds(10, 300) {
			draw := routetest.Draws(seed, 3)
			g := routetest.Random(5+draw(10), 4+draw(10), 2, 1, draw).Graph()
			for c := range g.Channels {
				g.Channels[c].VLs = 8
			}
			base, err := s.Compute(g, route.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o := route.Options{Roots: []ib.GUID{g.Switches[draw(len(g.Switches))].GUID}}
			for range 4 {
				c := &g.Channels[draw(len(g.Channels))]
				o.HopWeights = append(o.HopWeights, route.HopWeight{Switch: g.Switches[c.From].GUID, Port: c.OutPort, Weight: uint8(2 + draw(4))})
			}
			now, err := s.Update(route.Solution{Graph: g, Tables: base}, g, fabric.Diff(g, g), o)
			if err != nil {
				t.Fatal(err)
			}
			full, err := s.Compute(g, o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(lengths(g, now, o), lengths(g, full, o)) {
				t.Errorf("%s, HEDDLE_SEED=%d: paths are of the old options", s.Name(), seed)
			}
		}
	}
}

// TestConcurrentUpdates: concurrent updates of one base affect neither each other nor
// the base (for the race detector).
func TestConcurrentUpdates(t *testing.T) {
	for _, seed := range need.Seeds(3, 100) {
		draw := routetest.Draws(seed, 9)
		g := routetest.Random(16, 12, 2, 2, draw).Graph()
		for c := range g.Channels {
			g.Channels[c].VLs = 8
		}
		for _, s := range subjects {
			if _, ok := s.Engine.(route.Updater); !ok {
				continue
			}
			o := route.Options{Workers: 2}
			base, err := compute(s, g, o)
			if err != nil {
				continue // no tree
			}
			before := base.Clone()
			var graphs []*fabric.Graph
			var alone []*route.Tables
			for range 4 {
				w := routetest.NewWear(g)
				w.Cable(draw(w.Cables()), false)
				w.Step(draw)
				h := w.Graph()
				tb, err := incremental(s, route.Solution{Graph: g, Tables: base}, h, o)
				if err != nil {
					tb = nil
				}
				graphs, alone = append(graphs, h), append(alone, tb)
			}
			together := make([]*route.Tables, len(graphs))
			route.ForEach(len(graphs), len(graphs), func(_, i int) {
				together[i], _ = incremental(s, route.Solution{Graph: g, Tables: base}, graphs[i], o)
			})
			for i, tb := range together {
				if (tb == nil) != (alone[i] == nil) || tb != nil && !alike(tb, alone[i]) {
					t.Errorf("%s, HEDDLE_SEED=%d: other tables than alone", s.Name(), seed)
				}
			}
			if !alike(base, before) {
				t.Errorf("%s, HEDDLE_SEED=%d: the base has changed", s.Name(), seed)
			}
		}
	}
}

// TestUnknownRows: a base with a complete memory but unknown rows is computed from
// scratch.
func TestUnknownRows(t *testing.T) {
	for _, s := range subjects {
		e, ok := s.Engine.(route.Updater)
		if !ok {
			continue
		}
		g := routetest.Tree(4, 4).Graph()
		base, err := e.Compute(g, route.Options{})
		if err != nil {
			continue // no fabric for this engine
		}
		lost := *base
		lost.LFT = make([][]byte, len(base.LFT))
		now, err := e.Update(route.Solution{Graph: g, Tables: &lost}, g, fabric.Diff(g, g), route.Options{})
		if err != nil {
			t.Errorf("%s: %v", s.Name(), err)
			continue
		}
		if r := check.Verify(g, now, check.Options{}); r.UnreachablePairs > 0 || r.Loops > 0 {
			t.Errorf("%s: %v", s.Name(), r.Err())
		}
	}
}
