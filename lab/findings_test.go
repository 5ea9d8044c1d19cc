package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/perf"
	"heddle/perf/findings"
	"heddle/sim"
	"heddle/subnet"
)

// findingsBed is a subnet with faults, and a core that is to name them.
type findingsBed struct {
	*perfBed
	r     *rand.Rand
	core  *findings.Core
	rep   *findings.Report
	all   []findings.Finding // opened since the last reset
	ended []findings.Finding
	each  func() // is called every half second
}

func newFindingsBed(t testing.TB, seed uint64) *findingsBed {
	r := rand.New(rand.NewPCG(seed, 17))
	shapes := [][]string{{"mport", "4", "2"}, {"mport", "4", "3"}, {"torus", "3", "3"}, {"mesh", "3", "4"}}
	shape := shapes[r.IntN(len(shapes))]
	f := gen(t, shape[0], shape[1:]...)
	for i := range f.Nodes {
		f.Nodes[i].Desc = fmt.Sprintf("node %d", i)
	}
	cfg := perf.Defaults()
	cfg.FirstTID = r.Uint32()
	sc := sim.Config{
		Seed: seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, ExtendedErrorCounters: r.IntN(2) == 0,
	}
	b := &findingsBed{perfBed: newPerfBed(t, f, sc, cfg), r: r, each: func() {}}
	b.quiet = true
	b.m.OnRound(func(r *perf.Round) {
		if b.core != nil {
			out := b.core.Step(r)
			b.rep, b.all, b.ended = out.Report, append(b.all, out.Opened...), append(b.ended, out.Closed...)
		}
	})
	b.start()
	return b
}

// run passes time with the fault.
func (b *findingsBed) run(d time.Duration) {
	for ; d > 0; d -= 500 * time.Millisecond {
		b.each()
		b.c.Run(500 * time.Millisecond)
	}
}

func (b *findingsBed) reset() {
	b.each, b.core, b.all, b.ended = func() {}, nil, nil, nil
	b.clear()
	b.run(40 * time.Second)
	rules := findings.Rules()
	for i := range rules {
		rules[i].Quiet = min(rules[i].Quiet, 2*time.Minute) // so that a trial ends soon
	}
	b.core = findings.New(rules)
	b.run(30 * time.Second)
}

// link draws a link that is not the manager's.
func (b *findingsBed) link(between bool) (x, y fabric.Ref) {
	var all [][2]fabric.Ref
	for a, z := range b.f.Links {
		if b.f.Nodes[a.Node].ID == b.m.Node || b.f.Nodes[z.Node].ID == b.m.Node {
			continue
		}
		if !between || b.f.Nodes[a.Node].IsSwitch() && b.f.Nodes[z.Node].IsSwitch() {
			all = append(all, [2]fabric.Ref{a, z})
		}
	}
	l := all[b.r.IntN(len(all))]
	if b.r.IntN(2) == 0 {
		return l[1], l[0]
	}
	return l[0], l[1]
}

// node draws a switch that is not the manager's, and does not cut the subnet in two when it is gone
// but for its own hosts.
func (b *findingsBed) node() int {
	var all []int
	for i := range b.f.Nodes {
		if b.f.Nodes[i].IsSwitch() && !b.isOwn(i) {
			all = append(all, i)
		}
	}
	return all[b.r.IntN(len(all))]
}

func (b *findingsBed) isOwn(node int) bool {
	for a, z := range b.f.Links {
		if int(a.Node) == node && b.f.Nodes[z.Node].ID == b.m.Node || int(z.Node) == node && b.f.Nodes[a.Node].ID == b.m.Node {
			return true
		}
	}
	return false
}

// id is what the simulator calls a node.
func (b *findingsBed) id(node int32) string { return b.f.Nodes[node].ID }

func (b *findingsBed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// counts has a port count n events of x every half second.
func (b *findingsBed) counts(at fabric.Ref, x perf.Counter, n uint64) {
	before := b.each
	b.each = func() {
		before()
		var t sim.Tally
		t.Errors[x-perf.SymbolErrors] = n
		b.c.Sim.Count(int(at.Node), int(at.Port), &t)
	}
}

// waits has a port wait for a share of the time.
func (b *findingsBed) waits(at fabric.Ref, share float64) {
	last := b.m.Round()
	n := last.Snap.NodeByGUID(b.f.Nodes[at.Node].GUID)
	if n < 0 {
		b.Fatal("the port is not in the snapshot")
	}
	tick := last.WaitTick(last.Snap.PortIndex(subnet.Ref{Node: n, Port: at.Port}))
	if tick == 0 {
		b.Fatal("the port does not tell its tick")
	}
	b.counts(at, perf.XmitWait, uint64(share*0.5/tick.Seconds()))
}

// clear has another tool clear all error counters, as those of few bits stop at their end.
func (b *findingsBed) clear() {
	for i := range b.f.Nodes {
		for p := range b.f.Nodes[i].Ports {
			b.c.Sim.ClearCounters(i, p, false, true)
		}
	}
}

// fault is a fault, the rule that is to name it, and what is to be named.
type fault struct {
	name, rule string
	// make makes the fault for a while and returns the nodes and ports that are to be named. mend, if
	// not nil, ends it; a fault of counters ends by itself.
	make func(b *findingsBed) (ends []fabric.Ref, mend func())
	long bool // takes five minutes to be sure
}

// onLink is a fault that consists of counters at one end of a link.
func onLink(rule string, x perf.Counter, n uint64) fault {
	return fault{name: x.String(), rule: rule, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		a, z := b.link(false)
		b.counts(a, x, n)
		return []fabric.Ref{a, z}, b.clear
	}}
}

var faultsToFind = []fault{
	onLink(findings.BadCable, perf.SymbolErrors, 3),
	onLink(findings.BadCable, perf.RcvErrors, 2),
	onLink(findings.BadCable, perf.LocalLinkIntegrity, 1),
	onLink(findings.BadCable, perf.LinkErrorRecovery, 1),
	onLink(findings.BadCable, perf.ExcessiveBufOverrun, 1),
	onLink("discards", perf.XmitDiscards, 20),
	onLink("remote_errors", perf.RcvRemotePhysErrors, 20),
	onLink("relay_errors", perf.RcvSwitchRelayErrors, 20),
	onLink("constraint_errors", perf.RcvConstraintErrors, 5),
	onLink("constraint_errors", perf.XmitConstraintErrors, 5),
	onLink("vl15_dropped", perf.VL15Dropped, 20),
	onLink("qp1_dropped", perf.QP1Dropped, 20),
	{name: "bad cable with all that follows", rule: findings.BadCable, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		a, z := b.link(false)
		for _, x := range []perf.Counter{perf.SymbolErrors, perf.RcvErrors, perf.LocalLinkIntegrity, perf.LinkErrorRecovery} {
			b.counts(a, x, 2)
			b.counts(z, x, 1)
		}
		b.counts(z, perf.XmitDiscards, 30)
		for range 4 {
			far, _ := b.link(false)
			b.counts(far, perf.RcvRemotePhysErrors, 30)
		}
		return []fabric.Ref{a, z}, b.clear
	}},
	{name: "flap", rule: findings.LinkFlap, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		a, z := b.link(false)
		b.must(b.c.Sim.LinkDown(b.id(a.Node), int(a.Port)))
		b.c.Run(time.Duration(b.r.Int64N(int64(3 * time.Second))))
		b.must(b.c.Sim.LinkUp(b.id(a.Node), int(a.Port)))
		return []fabric.Ref{a, z}, nil
	}},
	{name: "cable pulled", rule: findings.LinkLost, long: true, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		a, z := b.link(false)
		b.must(b.c.Sim.LinkDown(b.id(a.Node), int(a.Port)))
		return []fabric.Ref{a, z}, func() { b.must(b.c.Sim.LinkUp(b.id(a.Node), int(a.Port))) }
	}},
	{name: "switch off", rule: findings.NodeLost, long: true, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		n := b.node()
		b.must(b.c.Sim.NodeDown(b.id(int32(n))))
		return []fabric.Ref{{Node: int32(n)}}, func() { b.must(b.c.Sim.NodeUp(b.id(int32(n)))) }
	}},
	{name: "switch restarts", rule: findings.NodeRestart, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		n := b.node()
		b.must(b.c.Sim.NodeUp(b.id(int32(n))))
		return []fabric.Ref{{Node: int32(n)}}, nil
	}},
	{name: "narrow", rule: findings.Degraded, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		a, z := b.link(false)
		was := b.c.Sim.PortInfo(int(a.Node), int(a.Port)).LinkWidthEnabled
		b.must(b.c.Sim.SetLocalWidth(b.id(a.Node), int(a.Port), ib.Width1x))
		return []fabric.Ref{a, z}, func() { b.must(b.c.Sim.SetLocalWidth(b.id(a.Node), int(a.Port), was)) }
	}},
	{name: "slow", rule: findings.Degraded, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		a, z := b.link(false)
		b.must(b.c.Sim.SetLocalSpeed(b.id(a.Node), int(a.Port), ib.SpeedSDR))
		return []fabric.Ref{a, z}, func() { b.must(b.c.Sim.SetLocalSpeed(b.id(a.Node), int(a.Port), ib.SpeedXDR)) }
	}},
	{name: "congestion", rule: findings.Congestion, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		var root fabric.Ref
		for far := root; !b.f.Nodes[root.Node].IsSwitch() || b.f.Nodes[far.Node].IsSwitch() || root == far; {
			root, far = b.link(false)
		}
		var far fabric.Ref
		for a, z := range b.f.Links { // all that feed it wait, too, and discard
			for _, l := range [2][2]fabric.Ref{{a, z}, {z, a}} {
				if l[0] == root {
					far = l[1]
				} else if l[1].Node == root.Node && l[1] != root {
					b.waits(l[0], 0.2+0.6*b.r.Float64())
					b.counts(l[0], perf.XmitDiscards, 30)
				}
			}
		}
		b.waits(root, 0.35+0.5*b.r.Float64())
		return []fabric.Ref{root, far}, nil
	}},
	{name: "description removed", rule: findings.NoDescription, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		n := b.node()
		was := b.f.Nodes[n].Desc
		b.must(b.c.Sim.SetNodeDescription(b.id(int32(n)), ""))
		return []fabric.Ref{{Node: int32(n)}}, func() { b.must(b.c.Sim.SetNodeDescription(b.id(int32(n)), was)) }
	}},
	{name: "description copied", rule: findings.SameDesc, make: func(b *findingsBed) ([]fabric.Ref, func()) {
		n, m := b.node(), b.node()
		for m == n {
			m = b.node()
		}
		was := b.f.Nodes[n].Desc
		b.must(b.c.Sim.SetNodeDescription(b.id(int32(n)), b.f.Nodes[m].Desc))
		return []fabric.Ref{{Node: int32(n)}, {Node: int32(m)}}, func() { b.must(b.c.Sim.SetNodeDescription(b.id(int32(n)), was)) }
	}},
}

// TestFindings: in random fabrics, each fault gives one finding, of the rule that is for it, which names
// the ends, has evidence, and closes after the fault has ended. The long form is 50 fabrics.
func TestFindings(t *testing.T) {
	if len(faultsToFind) < 20 {
		t.Fatalf("%d faults", len(faultsToFind))
	}
	for _, seed := range need.Seeds(2, 50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := newFindingsBed(t, seed)
			for _, f := range faultsToFind {
				b.find(t, f)
			}
		})
	}
}

func (b *findingsBed) find(t *testing.T, f fault) {
	b.reset()
	if len(b.all) > 0 {
		t.Errorf("before %q: %+v", f.name, b.all)
	}
	ends, mend := f.make(b)
	wait := 100 * time.Second
	if f.long {
		wait += 4 * time.Minute
	}
	b.run(wait)
	if len(b.all) != 1 || b.all[0].Rule != f.rule || len(b.ended) != 0 {
		t.Errorf("%s gives %+v, ended %+v; want one finding of %s", f.name, b.all, b.ended, f.rule)
	} else {
		var got, want []string
		for _, e := range b.all[0].Ends {
			got = append(got, fmt.Sprint(e.GUID, " ", e.Port))
		}
		for _, e := range ends {
			want = append(want, fmt.Sprint(b.f.Nodes[e.Node].GUID, " ", e.Port))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(b.all[0].Evidence) == 0 || b.all[0].Since > b.all[0].Opened {
			t.Errorf("%s: %+v names %v, want %v", f.name, b.all[0], got, want)
		}
	}
	b.each = func() {}
	if mend != nil {
		mend()
	}
	b.run(5 * time.Minute)
	if len(b.rep.Open) != 0 {
		t.Errorf("after %s: still open: %+v", f.name, b.rep.Open)
	}
}
