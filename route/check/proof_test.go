package check_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
)

// testbed is a fabric whose links and hosts fail and return, with tables.
type testbed struct {
	f    *fabric.Fabric
	draw func(int) int
	down map[fabric.Ref]bool
	vls  uint8
	// plain is the graph without LIDs of VMs, g has them: a VM that moves leaves
	// everything else of the graph shared.
	plain, g *fabric.Graph
	vms      []vm
	t        *route.Tables
}

// vm is a LID that a port has beside its own.
type vm struct {
	lid  ib.LID
	port ib.GUID
}

var testbeds = []string{
	"xgft 2 3,4 1,3", "xgft 3 2,3,3 1,2,2", "kary 2 3", "mport 4 3", "torus 3x3", "mesh 3x2", "hypercube 3",
	"irregular 6", "irregular 9", "dragonfly 2 2 1", "xgft 2 4,4 1,2",
}

func newTestbed(tb testing.TB, seed uint64) *testbed {
	w := &testbed{draw: routetest.Draws(seed, 77), down: map[fabric.Ref]bool{}, vls: 1}
	words := strings.Fields(testbeds[w.draw(len(testbeds))])
	f, err := fabrictest.Generate(words[0], words[1:], seed)
	if err != nil {
		tb.Fatal(err)
	}
	if err := fabric.AssignLIDs(f, 1+w.draw(2)); err != nil {
		tb.Fatal(err)
	}
	w.f = f
	if w.draw(3) == 0 {
		w.vls = uint8(1 + w.draw(3))
	}
	w.graph(tb)
	w.route(tb)
	w.lanes()
	w.multicast()
	return w
}

func (w *testbed) graph(tb testing.TB) {
	g, err := w.f.Graph(fabric.GraphOptions{VLs: w.vls, Up: func(r fabric.Ref) bool { return !w.down[r] }})
	if err != nil {
		tb.Fatal(err)
	}
	w.plain = g
	w.grant()
}

// grant gives the VMs' LIDs to their ports, as far as they can have them.
func (w *testbed) grant() {
	w.g = w.plain
	for _, v := range w.vms {
		e := slices.IndexFunc(w.g.EndPorts, func(e fabric.EndPort) bool { return e.GUID == v.port })
		if g, err := w.g.WithLIDs([]fabric.LIDGrant{{LID: v.lid, EndPort: int32(e)}}); err == nil {
			w.g = g
		}
	}
}

// moveVM starts a VM, or lets one go to another host or leave, with or without the
// entries that it needs there.
func (w *testbed) moveVM(tb testing.TB) {
	var hosts []*fabric.EndPort
	for e := range w.g.EndPorts {
		if p := &w.g.EndPorts[e]; p.Type == ib.NodeCA && p.LID != 0 {
			hosts = append(hosts, p)
		}
	}
	if len(hosts) == 0 {
		return
	}
	to := hosts[w.draw(len(hosts))]
	w.vms = slices.Clone(w.vms)
	i := w.draw(len(w.vms) + 1)
	switch {
	case i == len(w.vms):
		w.vms = append(w.vms, vm{w.plain.TopLID + ib.LID(1+w.draw(100)), to.GUID})
	case w.draw(5) == 0:
		w.vms = slices.Delete(w.vms, i, i+1)
		w.grant()
		return
	default:
		w.vms[i].port = to.GUID
	}
	w.grant()
	l := w.vms[i].lid
	switch w.draw(4) {
	case 0:
	case 1:
		w.route(tb)
	default:
		if l > w.t.TopLID {
			w.route(tb)
			return
		}
		for s := range w.g.Switches {
			if e := w.t.Entry(int32(s), to.LID); e != w.t.Entry(int32(s), l) {
				w.mutable(s)[l] = e
			}
		}
	}
}

// route computes tables and shares the rows that are as before.
func (w *testbed) route(tb testing.TB) {
	var e route.Engine = minhop.Engine{}
	if w.draw(2) == 0 {
		e = updn.Engine{}
	}
	o := route.Options{}
	if w.t != nil && w.draw(4) > 0 {
		o.Previous = w.t
	}
	t, err := e.Compute(w.g, o)
	if err != nil {
		tb.Fatal(err)
	}
	if was := w.t; was != nil {
		for s := range t.LFT {
			if slices.Equal(t.LFT[s], was.LFT[s]) {
				t.LFT[s] = was.LFT[s]
			}
		}
		t.SL, t.Class, t.NumClasses, t.Lanes, t.NumVLs, t.Multicast = was.SL, was.Class, was.NumClasses, was.Lanes, was.NumVLs, was.Multicast
		if t.SL != nil && len(t.Class) <= int(t.TopLID) {
			t.SL, t.Class = nil, nil
		}
	}
	w.t = t
}

func (w *testbed) lanes() {
	kind := w.draw(5)
	if w.vls == 1 || kind < 2 {
		return
	}
	w.t.NumVLs = int(w.vls)
	if kind > 2 {
		w.t.NumClasses = 1 + w.draw(4)
		w.t.Class = make([]int32, int(w.t.TopLID)+1)
		for l := range w.t.Class {
			w.t.Class[l] = int32(w.draw(w.t.NumClasses+1)) - 1
		}
		w.t.SL = make([]ib.SL, len(w.g.Switches)*w.t.NumClasses)
		for i := range w.t.SL {
			w.t.SL[i] = ib.SL(w.draw(4))
		}
	}
	if kind < 4 {
		w.t.Lanes = drawSLToVL(w.g, false, w.draw)
	}
}

func (w *testbed) multicast() {
	if w.draw(3) > 0 {
		return
	}
	w.t.Multicast = &route.Multicast{}
	for k := range 1 + w.draw(2) {
		grp := route.Group{MLID: ib.LID(0xC000 + k)}
		for e := range w.g.EndPorts {
			if w.draw(3) == 0 {
				grp.Members = append(grp.Members, int32(e))
			}
		}
		tr := grow(w.g, &grp, w.draw)
		if w.vls == 1 {
			tr.SL = 0
		}
		w.t.Multicast.Trees = append(w.t.Multicast.Trees, tr)
	}
}

// mutable returns a copy of the tables with a row of its own for switch s.
func (w *testbed) mutable(s int) []byte {
	t := *w.t
	t.LFT = slices.Clone(t.LFT)
	t.LFT[s] = slices.Clone(t.LFT[s])
	w.t = &t
	return t.LFT[s]
}

// change does one thing to the fabric or the tables.
func (w *testbed) change(tb testing.TB) {
	switch k := w.draw(25); {
	case k >= 20:
		w.moveVM(tb)
	case k < 6: // a cable goes or comes
		for range 50 {
			n := w.draw(len(w.f.Nodes))
			p := 1 + w.draw(len(w.f.Nodes[n].Ports))
			r := fabric.Ref{Node: int32(n), Port: uint8(p)}
			if p >= len(w.f.Nodes[n].Ports) || w.f.Nodes[n].Ports[p].Peer.Node < 0 {
				continue
			}
			w.down[r] = !w.down[r]
			break
		}
		w.graph(tb)
		if w.draw(8) > 0 {
			w.route(tb)
		}
		if w.t.Multicast != nil && w.draw(4) > 0 {
			t := *w.t
			w.t = &t
			w.t.Multicast = nil
			w.multicast()
		}
	case k < 8: // two end ports change their LIDs
		refs := w.f.EndPortRefs(fabric.GraphOptions{})
		a, b := w.f.Port(refs[w.draw(len(refs))]), w.f.Port(refs[w.draw(len(refs))])
		if a.LMC == b.LMC {
			a.LID, b.LID = b.LID, a.LID
		}
		w.graph(tb)
		if w.draw(8) > 0 {
			w.route(tb)
		}
	case k < 9: // a port loses its LID or gets a new one
		refs := w.f.EndPortRefs(fabric.GraphOptions{})
		a := w.f.Port(refs[w.draw(len(refs))])
		if a.LMC == 0 && a.LID != 0 {
			top := ib.LID(0)
			for _, r := range refs {
				top = max(top, w.f.Port(r).LID+3)
			}
			a.LID = []ib.LID{0, top + 1, top + ib.LID(w.draw(90))}[w.draw(3)]
		}
		w.graph(tb)
		w.route(tb)
	case k < 13: // entries by hand
		for range 1 + w.draw(3) {
			s := w.draw(len(w.g.Switches))
			row := w.mutable(s)
			row[1+w.draw(int(w.t.TopLID))] = byte(w.draw(int(w.g.Switches[s].NumPorts)+3) - 1)
		}
	case k < 17: // another path, sound or not
		s := w.draw(len(w.g.Switches))
		row := w.mutable(s)
		for range 1 + w.draw(4) {
			l := 1 + w.draw(int(w.t.TopLID))
			if out := w.g.Channels[w.g.Off[s]:w.g.Off[s+1]]; len(out) > 0 {
				if next := out[w.draw(len(out))]; int(w.t.LFT[next.To][l]) != int(next.InPort) && int(row[l]) < len(w.g.PortChannel[s]) && w.g.PortChannel[s][row[l]] >= 0 {
					row[l] = next.OutPort
				}
			}
		}
	case k < 18 && w.t.SL != nil: // other service levels
		t := *w.t
		t.SL = slices.Clone(t.SL)
		for range 3 {
			t.SL[w.draw(len(t.SL))] = ib.SL(w.draw(4))
		}
		w.t = &t
	case k < 19:
		t := *w.t
		w.t = &t
		w.t.Multicast = nil
		w.multicast()
	default:
		w.route(tb)
	}
}

// campaign updates proofs over random changes and compares each to a full
// verification, and now and then goes back to an old proof.
func campaign(tb testing.TB, seed uint64, steps int) (incremental, sound int) {
	w := newTestbed(tb, seed)
	type kept struct {
		p *check.Proof
		w testbed
	}
	o := check.Options{Workers: 1 + w.draw(3)}
	p := check.Prove(w.g, w.t, o)
	old := kept{p, *w}
	for step := range steps {
		g := w.g
		w.change(tb)
		if w.draw(4) == 0 {
			w.change(tb)
		}
		p = p.Update(w.g, fabric.Diff(g, w.g), w.t, o)
		want := check.Verify(w.g, w.t, check.Options{})
		got := *p.Report()
		if p.Incremental() {
			incremental++
			got.Cycles, want.Cycles = nil, nil
		}
		if want.OK() {
			sound++
		}
		compare(tb, seed, step, &got, want)
		if tb.Failed() {
			return incremental, sound
		}
		if !want.OK() && w.draw(2) == 0 {
			w.t = nil
			w.route(tb)
			p = check.Prove(w.g, w.t, o)
		}
		switch w.draw(12) {
		case 0:
			old = kept{p, *w}
		case 1: // another line of proofs from an old one
			g, t := w.g, w.t
			q := old.p.Update(g, fabric.Diff(old.w.g, g), t, o)
			compare(tb, seed, step, q.Report(), check.Verify(g, t, check.Options{}))
			compare(tb, seed, step, old.p.Report(), check.Verify(old.w.g, old.w.t, check.Options{}))
		}
	}
	return incremental, sound
}

// TestUpdatesAtOnce: several goroutines update one proof over different changes,
// with any number of workers.
func TestUpdatesAtOnce(t *testing.T) {
	w := newTestbed(t, 4)
	p := check.Prove(w.g, w.t, check.Options{})
	if !p.OK() {
		t.Fatal(p.Err())
	}
	g := w.g
	type next struct {
		g *fabric.Graph
		t *route.Tables
	}
	var list []next
	for range 12 {
		w.change(t)
		list = append(list, next{w.g, w.t})
	}
	var wg sync.WaitGroup
	for i, x := range list {
		want := check.Verify(x.g, x.t, check.Options{})
		for _, workers := range []int{1, 2, 3, 8} {
			wg.Go(func() {
				q := p.Update(x.g, fabric.Diff(g, x.g), x.t, check.Options{Workers: workers})
				compare(t, 4, i, q.Report(), want)
			})
		}
	}
	wg.Wait()
	compare(t, 4, -1, p.Report(), check.Verify(p.Graph(), p.Tables(), check.Options{}))
}

// TestFullSizeUpdates updates the proof of a large tree over cables and hosts
// that fail and return.
func TestFullSizeUpdates(t *testing.T) {
	need.Long(t)
	f, err := fabrictest.Generate("fattree", []string{"11664"}, 1)
	if err == nil {
		err = fabric.AssignLIDs(f, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &testbed{f: f, draw: routetest.Draws(5), down: map[fabric.Ref]bool{}, vls: 1}
	w.graph(t)
	w.big(t)
	o := check.Options{Workers: 2}
	p := check.Prove(w.g, w.t, o)
	var cables []fabric.Ref
	for a, b := range f.Links {
		if f.Nodes[a.Node].IsSwitch() || f.Nodes[b.Node].IsSwitch() {
			cables = append(cables, a)
		}
	}
	incremental := 0
	for step := range 30 {
		g := w.g
		for range 1 + w.draw(3) {
			r := cables[w.draw(len(cables))]
			w.down[r] = !w.down[r]
		}
		w.graph(t)
		w.big(t)
		p = p.Update(w.g, fabric.Diff(g, w.g), w.t, o)
		if p.Incremental() {
			incremental++
		}
		got := *p.Report()
		compare(t, 5, step, &got, check.Verify(w.g, w.t, o))
	}
	if incremental < 25 {
		t.Errorf("%d of 30 changes updated incrementally", incremental)
	}
}

// big computes tables as route does, by one engine.
func (w *testbed) big(tb testing.TB) {
	t, err := updn.Engine{}.Compute(w.g, route.Options{Workers: 2, Previous: w.t})
	if err != nil {
		tb.Fatal(err)
	}
	for s := range t.LFT {
		if w.t != nil && slices.Equal(t.LFT[s], w.t.LFT[s]) {
			t.LFT[s] = w.t.LFT[s]
		}
	}
	w.t = t
}

func compare(tb testing.TB, seed uint64, step int, got, want *check.Report) {
	a, b := *got, *want
	a.Failures, a.Cycles, a.Multicast, b.Failures, b.Cycles, b.Multicast = nil, nil, nil, nil, nil, nil
	a.Malformed, b.Malformed = "", ""
	if (got.Malformed == "") != (want.Malformed == "") || !same(&a, &b) {
		tb.Helper()
		tb.Errorf("replay with HEDDLE_SEED=%d; step %d:\nUpdate %+v\nVerify %+v", seed, step, a, b)
	}
}

func same(a, b *check.Report) bool {
	return equal(a, b) && a.AvgHops == b.AvgHops && a.AvgChannelLoad == b.AvgChannelLoad
}

// TestUpdateEqualsVerify: over random changes, Update gives the report of a full
// verification.
func TestUpdateEqualsVerify(t *testing.T) {
	seeds := need.Seeds(150, 5000)
	var mu sync.Mutex
	var incremental, sound, steps int
	for _, seed := range seeds {
		c, s := campaign(t, seed, 12)
		mu.Lock()
		incremental, sound, steps = incremental+c, sound+s, steps+12
		mu.Unlock()
	}
	if len(seeds) > 50 && (incremental*3 < sound || sound*4 < steps) {
		t.Errorf("%d of %d changes updated incrementally, %d sound: the test shows little", incremental, steps, sound)
	}
	t.Logf("%d changes, %d sound, %d updated incrementally", steps, sound, incremental)
}
