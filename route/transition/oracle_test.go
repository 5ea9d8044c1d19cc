package transition_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/transition"
)

// seeds are those of a campaign: HEDDLE_SEED alone, HEDDLE_SEEDS of them, or
// so many, more in the long run.
func seeds(short, long uint64) (first, n uint64) {
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEED"), 10, 64); err == nil {
		return v, 1
	}
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEEDS"), 10, 64); err == nil {
		return 1, v
	}
	if os.Getenv("HEDDLE_LONG") != "" {
		return 1, long
	}
	return 1, short
}

// wire is what switches and hosts did since the network was last known to be
// empty of older packets: the oracle of plans, slow and simple, with nothing of the
// planner in it.
type wire struct {
	g       *fabric.Graph
	now     [][]byte            // entries in force
	entries []map[ib.LID][]span // by switch: every entry that was in force, and when
	stage   int                 // the clock: writes of one stage have no order
	lanes   []*route.Tables     // whose SL-to-VL tables were in force, some or all of them
	levels  func(src int32, l ib.LID) map[ib.SL]bool
	masks   map[ib.LID]map[int32][4]uint64  // multicast ports in force, by group, switch
	used    map[ib.LID]map[int32][]maskSpan // every mask that was, and until when
	mlanes  func(mlid ib.LID) map[ib.SL]bool
	top     ib.LID
}

func newWire(g *fabric.Graph, installed *route.Tables, top ib.LID) *wire {
	w := &wire{g: g, top: top, lanes: []*route.Tables{installed}, masks: map[ib.LID]map[int32][4]uint64{}}
	for s := range g.Switches {
		row := make([]byte, route.RowLen(top))
		for l := range row {
			row[l] = installed.Entry(int32(s), ib.LID(l))
		}
		w.now = append(w.now, row)
	}
	w.group(installed)
	for mlid, m := range w.masks {
		for i := range installed.Multicast.Trees {
			if t := &installed.Multicast.Trees[i]; t.MLID == mlid {
				for j, s := range t.Switches {
					m[s] = t.Ports[j]
				}
			}
		}
	}
	w.drained()
	return w
}

// group makes room for the groups of tables.
func (w *wire) group(t *route.Tables) {
	if t.Multicast == nil {
		return
	}
	for _, tree := range t.Multicast.Trees {
		if w.masks[tree.MLID] == nil {
			w.masks[tree.MLID] = map[int32][4]uint64{}
		}
	}
}

// drained: packets that met anything older have left.
func (w *wire) drained() {
	w.lanes = w.lanes[len(w.lanes)-1:]
	w.entries = make([]map[ib.LID][]span, len(w.now))
	for s, row := range w.now {
		w.entries[s] = map[ib.LID][]span{}
		for l, e := range row {
			w.entries[s][ib.LID(l)] = []span{{e, -1, always}}
		}
	}
	w.used = map[ib.LID]map[int32][]maskSpan{}
	for mlid, m := range w.masks {
		w.used[mlid] = map[int32][]maskSpan{}
		for s, p := range m {
			w.used[mlid][s] = []maskSpan{{p, always}}
		}
	}
}

func (w *wire) write(s int32, block uint16, data *[route.BlockLen]byte) {
	for i, e := range data {
		l := ib.LID(block)*route.BlockLen + ib.LID(i)
		if l > w.top {
			break
		}
		if w.now[s][l] != e {
			list := w.entries[s][l]
			list[len(list)-1].until = w.stage + 1
			w.entries[s][l] = append(list, span{e, w.stage, always})
			w.now[s][l] = e
		}
	}
}

func (w *wire) writeGroup(b transition.McastBlock, data *[32]uint16) {
	for i, m := range data {
		l := 0xC000 + ib.LID(b.Block)*32 + ib.LID(i)
		if w.masks[l] == nil {
			continue
		}
		p := w.masks[l][b.Switch]
		sh := b.Position % 4 * 16
		p[b.Position/4] = p[b.Position/4]&^(0xFFFF<<sh) | uint64(m)<<sh
		w.masks[l][b.Switch] = p
		list := w.used[l][b.Switch]
		if len(list) > 0 {
			list[len(list)-1].until = w.stage + 1
		}
		w.used[l][b.Switch] = append(list, maskSpan{p, always})
	}
}

type laneOf struct{ c, v int32 }

// span is an entry and the stages in which it was in force, the last excluded.
type span struct {
	e           byte
	from, until int
}

const always = 1 << 30

// maskSpan is a mask, and the first stage in which it was not in force.
type maskSpan struct {
	ports [4]uint64
	until int
}

func (m *maskSpan) has(port uint8) bool { return m.ports[port/64]>>(port%64)&1 != 0 }

// verify looks for a loop or a cycle in all that packets could have done.
func (w *wire) verify() error {
	deps := map[laneOf]map[laneOf]bool{}
	g := w.g
	vls := func(t *route.Tables, s int32, in uint8, c int32, sl ib.SL) int32 {
		return int32(t.VL(s, in, g.Channels[c].OutPort, sl, g.Channels[c].VLs))
	}
	dep := func(a, b laneOf) {
		if deps[a] == nil {
			deps[a] = map[laneOf]bool{}
		}
		deps[a][b] = true
	}
	hosts := make([][]uint8, len(g.Switches))
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 {
			hosts[e.Switch] = append(hosts[e.Switch], e.Port)
		}
	}
	// next are the channels that packets at s since time t may leave by, and
	// since when.
	type way struct {
		c int32
		t int
	}
	next := func(s int32, l ib.LID, t int) (out []way) {
		for _, e := range w.entries[s][l] {
			if e.until > t && int(e.e) < len(g.PortChannel[s]) && g.PortChannel[s][e.e] >= 0 {
				out = append(out, way{g.PortChannel[s][e.e], max(t, e.from)})
			}
		}
		return out
	}
	for l := ib.LID(1); l <= w.top; l++ {
		// Loops, of any packets.
		reach := make([][]bool, len(g.Switches))
		for s := range reach {
			reach[s] = make([]bool, len(g.Switches))
			for _, c := range next(int32(s), l, w.stage) {
				reach[s][g.Channels[c.c].To] = true
			}
		}
		if selfReach(reach) {
			return fmt.Errorf("LID %d loops", l)
		}
		toSwitch := int(l) < len(g.LIDOwner) && g.LIDOwner[l] != fabric.NoLID && g.EndPorts[g.LIDOwner[l]].Type == ib.NodeSwitch
		type at struct {
			laneOf
			sl ib.SL
			t  int
		}
		seen := map[at]bool{}
		var go_ func(x at)
		go_ = func(x at) {
			if seen[x] {
				return
			}
			seen[x] = true
			s := g.Channels[x.c].To
			for _, c := range next(s, l, x.t) {
				for _, t := range w.lanes {
					if v := vls(t, s, g.Channels[x.c].InPort, c.c, x.sl); v < 15 {
						dep(x.laneOf, laneOf{c.c, v})
						go_(at{laneOf{c.c, v}, x.sl, c.t})
					}
				}
			}
		}
		for s := range int32(len(g.Switches)) {
			ports := slices.Clone(hosts[s])
			if !toSwitch {
				ports = append(ports, 0)
			}
			for _, p := range ports {
				for sl := range w.levels(s, l) {
					for _, c := range next(s, l, -1) {
						for _, t := range w.lanes {
							if v := vls(t, s, p, c.c, sl); v < 15 {
								go_(at{laneOf{c.c, v}, sl, c.t})
							}
						}
					}
				}
			}
		}
	}
	for mlid, m := range w.used {
		type cable struct{ a, b int32 }
		cables := map[cable]bool{}
		var chans []int32
		for s, list := range m {
			for _, c := range g.PortChannel[s] {
				if c < 0 {
					continue
				}
				p := g.Channels[c].OutPort
				if slices.ContainsFunc(list, func(q maskSpan) bool { return q.has(p) }) {
					chans = append(chans, c)
				}
				if slices.ContainsFunc(list, func(q maskSpan) bool { return q.has(p) && q.until > w.stage }) { // in force in this stage
					cables[cable{min(c, g.Channels[c].Rev), max(c, g.Channels[c].Rev)}] = true
				}
			}
		}
		// A forest has no ring: peel leaves.
		for peeled := true; peeled; {
			peeled = false
			deg := map[int32]int{}
			for c := range cables {
				deg[g.Channels[c.a].From]++
				deg[g.Channels[c.a].To]++
			}
			for c := range cables {
				if deg[g.Channels[c.a].From] == 1 || deg[g.Channels[c.a].To] == 1 {
					delete(cables, c)
					peeled = true
					break
				}
			}
		}
		if len(cables) > 0 {
			return fmt.Errorf("group %v: packets can go round", mlid)
		}
		for sl := range w.mlanes(mlid) {
			for _, c1 := range chans {
				for _, c2 := range chans {
					if g.Channels[c1].To != g.Channels[c2].From || g.Channels[c1].Rev == c2 {
						continue
					}
					from, s := map[int32]bool{}, g.Channels[c1].From
					for in, c := range g.PortChannel[s] {
						if in > 0 && c < 0 && !slices.Contains(hosts[s], uint8(in)) {
							continue // no cable
						}
						for _, t := range w.lanes {
							from[vls(t, s, uint8(in), c1, sl)] = true
						}
					}
					for v1 := range from {
						for _, t := range w.lanes {
							v2 := vls(t, g.Channels[c2].From, g.Channels[c1].InPort, c2, sl)
							if v1 < 15 && v2 < 15 {
								dep(laneOf{c1, v1}, laneOf{c2, v2})
							}
						}
					}
				}
			}
		}
	}
	state := map[laneOf]int{}
	var cyclic func(x laneOf) bool
	cyclic = func(x laneOf) bool {
		switch state[x] {
		case 1:
			return true
		case 2:
			return false
		}
		state[x] = 1
		for y := range deps[x] {
			if cyclic(y) {
				return true
			}
		}
		state[x] = 2
		return false
	}
	for x := range deps {
		if cyclic(x) {
			return fmt.Errorf("credit cycle through port %d of switch %d lane %d", g.Channels[x.c].OutPort, g.Channels[x.c].From, x.v)
		}
	}
	return nil
}

// play carries a plan out on the wire, in random order within each stage,
// and verifies each stage when it is written (before its wait is over): what can
// have happened by then contains all that could at any moment of the stage.
func play(g *fabric.Graph, a, b *route.Tables, held *transition.Held, p *transition.Plan, rng *rand.Rand) error {
	top := max(a.TopLID, b.TopLID)
	w := newWire(g, a, top)
	told := false
	w.levels = func(s int32, l ib.LID) map[ib.SL]bool {
		m := map[ib.SL]bool{b.PathSL(s, l): true}
		if !told {
			m[a.PathSL(s, l)] = true
			for v := range ib.SL(16) {
				if held.Levels(s, l)>>v&1 != 0 {
					m[v] = true
				}
			}
		}
		return m
	}
	w.mlanes = func(mlid ib.LID) map[ib.SL]bool {
		m := treeLevels(b, mlid)
		if !told {
			maps.Copy(m, treeLevels(a, mlid))
		}
		return m
	}
	usual, usualTrees := w.levels, w.mlanes
	w.group(b)
	for mlid := range w.masks {
		if w.used[mlid] == nil {
			w.used[mlid] = map[int32][]maskSpan{}
		}
	}
	for k := range p.Stages {
		st := &p.Stages[k]
		w.stage = k
		w.levels, w.mlanes = usual, usualTrees
		if len(p.Stages) > 1 && k < len(p.Stages)-1 && st.Discards {
			// New levels are not told before the last stage.
			w.mlanes = func(mlid ib.LID) map[ib.SL]bool { return treeLevels(a, mlid) }
			w.levels = func(s int32, l ib.LID) map[ib.SL]bool {
				m := map[ib.SL]bool{a.PathSL(s, l): true}
				for v := range ib.SL(16) {
					if held.Levels(s, l)>>v&1 != 0 {
						m[v] = true
					}
				}
				return m
			}
		}
		if len(st.SL2VL) > 0 && a.Lanes != b.Lanes {
			w.lanes = append(w.lanes, b)
		}
		for _, i := range rng.Perm(len(st.LFT)) {
			var data [route.BlockLen]byte
			p.Block(k, st.LFT[i], &data)
			w.write(st.LFT[i].Switch, st.LFT[i].Block, &data)
		}
		for _, i := range rng.Perm(len(st.MFT)) {
			var data [32]uint16
			p.McastBlock(k, st.MFT[i], &data)
			w.writeGroup(st.MFT[i], &data)
		}
		if err := w.verify(); err != nil {
			return fmt.Errorf("stage %d of %d: %w", k, len(p.Stages), err)
		}
		if st.Repath > 0 {
			told = true
		}
		if st.Drain > 0 {
			w.drained()
		}
	}
	w.levels, w.mlanes = usual, usualTrees
	w.drained()
	if err := w.verify(); err != nil {
		return fmt.Errorf("afterward: %w", err)
	}
	for s := range w.now {
		for l := ib.LID(1); l <= b.TopLID; l++ {
			if w.now[s][l] != b.Entry(int32(s), l) {
				return fmt.Errorf("switch %d holds %d for LID %d, want %d", s, w.now[s][l], l, b.Entry(int32(s), l))
			}
		}
	}
	for mlid, m := range w.masks {
		for s := range int32(len(g.Switches)) {
			var want [4]uint64
			for i := 0; b.Multicast != nil && i < len(b.Multicast.Trees); i++ {
				if t := &b.Multicast.Trees[i]; t.MLID == mlid {
					if j, ok := slices.BinarySearch(t.Switches, s); ok {
						want = t.Ports[j]
					}
				}
			}
			if m[s] != want {
				return fmt.Errorf("group %v at switch %d: ports %x, want %x", mlid, s, m[s], want)
			}
		}
	}
	return nil
}

// TestPlansAgainstOracle plans changes between random tables and verifies each stage of
// the plan with the oracle: single-lane tables, service levels, SL-to-VL tables, links
// with different numbers of lanes, held levels, multicast trees.
func TestPlansAgainstOracle(t *testing.T) {
	first, n := seeds(1200, 60_000)
	modes := map[transition.Mode]int{}
	needless, rooted, vms := 0, 0, 0
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 0x7472))
		nsw := 3 + rng.IntN(6)
		net := routetest.Random(nsw, rng.IntN(2*nsw), 1, 1, rng.IntN)
		if rng.IntN(3) == 0 { // rings, of which a cable may be cut
			net = &routetest.Net{}
			net.Switches(nsw)
			for i := range nsw {
				net.Host(i, 1)
				if i > 0 || rng.IntN(2) == 0 {
					net.Link(i, (i+1)%nsw)
				}
			}
		}
		whole := net.Graph()
		g := routetest.Damaged(net, rng.IntN(3), rng.IntN).Graph()
		if rng.IntN(3) == 0 {
			unlike(whole, g, rng)
		}
		if rng.IntN(4) == 0 { // LIDs of VMs beside those of ports
			whole, g = withVMs(whole, g, rng)
			vms++
		}
		levels, trees := rng.IntN(2) == 0, rng.IntN(4) == 0
		lanes := levels && rng.IntN(3) == 0
		a, b := randomTables(whole, rng, levels, lanes, trees), randomTables(g, rng, levels, lanes && rng.IntN(3) > 0, trees)
		if lanes && rng.IntN(3) == 0 {
			b.Lanes = a.Lanes
		}
		if rng.IntN(3) == 0 { // a smaller change
			keep := rng.IntN(4)
			for s := range a.LFT {
				if rng.IntN(4) <= keep {
					copy(b.LFT[s], a.LFT[s])
				}
			}
			if lanes {
				b.Lanes = a.Lanes
			}
		}
		var held *transition.Held
		if levels && rng.IntN(3) == 0 {
			held = (*transition.Held)(nil).Next(randomTables(g, rng, true, false, false), nil, nsw)
		}
		o := limited
		o.Workers, o.Held, o.RepathTime = 1+rng.IntN(4), held, time.Second
		if newWire(g, a, a.TopLID).alone(a, held) != nil || newWire(g, b, b.TopLID).alone(b, nil) != nil {
			continue // damaged above: nothing to keep
		}
		if rng.IntN(2) == 0 {
			o.Proved, o.ProvedOrder = check.Prove(g, b, check.Options{}).Dependencies()
		}
		p := transition.New(g, a, b, o)
		modes[p.Mode]++
		if p.Mode == transition.ModeStaged && p.Drain == 0 {
			rooted++
		}
		if p.Mode == transition.ModeRefused {
			t.Fatalf("seed %d: %s", seed, p.Reason)
		}
		if err := play(g, a, b, held, p, rng); err != nil {
			t.Fatalf("seed %d: %v (%s): %v", seed, p.Mode, p.Reason, err)
		}
		if p.Mode == transition.ModeDynamic || p.Mode == transition.ModeNone {
			continue
		}
		q := transition.New(g, a, b, transition.Options{Workers: 1, Force: transition.ModeDynamic, Held: held})
		if play(g, a, b, held, q, rng) == nil {
			needless++
			if held == nil && waits(p) {
				t.Errorf("seed %d: %v (%s) although everything can mix", seed, p.Mode, p.Reason)
			}
		}
	}
	t.Logf("%v, %d needless, %d staged without a drain, %d with VMs", modes, needless, rooted, vms)
	if n > 100 && (modes[transition.ModeDynamic] == 0 || modes[transition.ModeStaged] == 0 || modes[transition.ModeDiscard] == 0) {
		t.Errorf("not every mode was met: %v", modes)
	}
}

// withVMs gives ports of both graphs the same LIDs more.
func withVMs(whole, part *fabric.Graph, rng *rand.Rand) (_, _ *fabric.Graph) {
	more := routetest.VMs(whole, 2, rng.IntN)
	var list []fabric.LIDGrant
	for l, e := range more.LIDOwner {
		if e >= 0 && (l >= len(whole.LIDOwner) || whole.LIDOwner[l] != e) && part.EndPorts[e].LID != 0 {
			list = append(list, fabric.LIDGrant{LID: ib.LID(l), EndPort: e})
		}
	}
	whole, err := whole.WithLIDs(list)
	if err == nil {
		part, err = part.WithLIDs(list)
	}
	if err != nil {
		panic(err)
	}
	return whole, part
}

// unlike gives links different numbers of lanes, in both graphs the same.
func unlike(whole, part *fabric.Graph, rng *rand.Rand) {
	for i := range whole.Channels {
		whole.Channels[i].VLs = uint8(1 + rng.IntN(4))
	}
	for i := range whole.Channels {
		c := &whole.Channels[i]
		c.VLs = min(c.VLs, whole.Channels[c.Rev].VLs)
		if d := part.PortChannel[c.From][c.OutPort]; d >= 0 {
			part.Channels[d].VLs = c.VLs
		}
	}
}

// alone verifies one state by itself, with what hosts hold.
func (w *wire) alone(t *route.Tables, held *transition.Held) error {
	w.levels = func(s int32, l ib.LID) map[ib.SL]bool {
		m := map[ib.SL]bool{t.PathSL(s, l): true}
		for v := range ib.SL(16) {
			if held.Levels(s, l)>>v&1 != 0 {
				m[v] = true
			}
		}
		return m
	}
	w.mlanes = func(mlid ib.LID) map[ib.SL]bool { return treeLevels(t, mlid) }
	return w.verify()
}

// treeLevels is the service level of a group's tree, if it has one.
func treeLevels(t *route.Tables, mlid ib.LID) map[ib.SL]bool {
	m := map[ib.SL]bool{}
	for i := 0; t.Multicast != nil && i < len(t.Multicast.Trees); i++ {
		if t.Multicast.Trees[i].MLID == mlid {
			m[t.Multicast.Trees[i].SL] = true
		}
	}
	return m
}
