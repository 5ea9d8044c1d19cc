package experiment

import (
	"fmt"
	"math/rand/v2"
	"time"

	"heddle/ib"
	"heddle/report"
	"heddle/route"
	"heddle/route/move"
	"heddle/subnet"
)

// VSwitchReconfiguration repeats the analysis of E. Tasoulas, E. G. Gran,
// B. D. Johnsen, K. Begnum and T. Skeie, "Towards the InfiniBand SR-IOV vSwitch
// Architecture" (2015), §V-A and §VI, on the paper's four fat trees: how many
// SMPs a full reconfiguration takes, and how many the migration of a VM that
// keeps its LID, by swap and by copy; how long that is by the paper's equation 3
// and in virtual time; how many VMs a subnet has LIDs for, and what it costs to
// boot it with all of them or with none.
//
// What is counted are Sets of LinearForwardingTable that the simulated switches
// carried out. Means over many more pairs of hosts than migrate on the wire are
// computed from the tables that the switches hold, by the function that also
// predicts each migration on the wire.
func VSwitchReconfiguration(o Options) (*report.Report, error) {
	sizes := o.Sizes
	full := len(sizes) == 0
	if full {
		sizes = []int{324, 648, 5832, 11664}
	}
	var results []*vswitchSize
	for _, hosts := range sizes {
		if hosts == fullSubnetHosts {
			full = true
			continue
		}
		r, err := vswitchAt(&o, hosts)
		if err != nil {
			return nil, fmt.Errorf("%d hosts: %w", hosts, err)
		}
		results = append(results, r)
	}
	rep := &report.Report{
		Name: "vswitch-reconfiguration", Title: "Migrating VMs with their LIDs", Seed: o.Seed,
		Source: "E. Tasoulas, E. G. Gran, B. D. Johnsen, K. Begnum, T. Skeie: Towards the InfiniBand SR-IOV vSwitch Architecture, CLUSTER 2015, §V-A and §VI",
		Intro: fmt.Sprintf("Fat trees of 36-port switches with vSwitch adapters, routed by ftree. 'Dynamic': a VM's LID comes with it and its entries are copied from those of the physical function at the destination. "+
			"'Prepopulated': every virtual function has a LID from boot, and two LIDs are swapped. 'Balanced' changes every switch where the two entries differ, as published; 'minimal' the fewest with which the LID is delivered. "+
			"SMPs are Sets of LinearForwardingTable that the simulated switches carried out; those to hypervisors and those that only drop entries for a while are listed apart, as the paper does not count them. "+
			"A cable takes %v, an agent %v. Directed routes are as fast as LID routes, so r is 0, but where r is measured.", hopLatency, smaLatency),
	}
	rep.Sections = append(rep.Sections, settingsSection(append(deviations(wireConfig(&wireOptions{kind: move.Swap, window: 1}), map[string]string{
		"SweepInterval":      "nothing goes on but what is counted",
		"VSwitchPrepopulate": "where LIDs are 'prepopulated'",
		"Window":             "where it says 'one at a time'; else the product's",
		"MaxWindow":          "where it says 'one at a time'; else the product's",
	}), setting{"a cable's latency", hopLatency.String(), "-", "of the simulator; none at all for the full subnet"},
		setting{"an agent's work on an SMP", smaLatency.String(), "-", "of the simulator; none at all for the full subnet"})))
	if len(results) > 0 {
		rep.Sections = append(rep.Sections, fullSection(results), migrationSection(results), timeSection(results))
		rep.Sections = append(rep.Sections, directedSection(results)...)
		more, err := smallSections(&o, results)
		if err != nil {
			return nil, err
		}
		rep.Sections = append(rep.Sections, more...)
	}
	c, err := capacitySections(&o, full)
	if err != nil {
		return nil, err
	}
	rep.Sections = append(rep.Sections, c...)
	return rep, nil
}

// smallSections are computed, or measured under traffic, where fabrics are small.
func smallSections(o *Options, results []*vswitchSize) (list []report.Section, err error) {
	var sizes []int
	for _, r := range results {
		if r.hosts < 1000 {
			sizes = append(sizes, r.hosts)
		}
	}
	if len(sizes) == 0 {
		return nil, nil
	}
	t, err := trafficSection(o, sizes[0])
	if err != nil {
		return nil, fmt.Errorf("packets to VMs that migrate: %w", err)
	}
	c, err := computeSection(o, sizes)
	return []report.Section{t, c}, err
}

// vswitchSize is what was found at one size.
type vswitchSize struct {
	hosts, switches int
	trip            time.Duration // k: of one SMP to a switch and back, the mean over all
	links           float64       // of that way, the mean over all switches
	directed        time.Duration // boot[1].took where directed routes are slower by smiLatency; 0: not measured
	top             ib.LID
	boot            [2]boot // with the manager's own window, one SMP at a time
	moves           []*vswitchMoves
}

// boot is the full reconfiguration that a bring-up contains.
type boot struct {
	sets    int
	took    time.Duration // virtual, with a Set of LinearForwardingTable under way
	compute time.Duration // real, to find and prove tables
}

// vswitchMoves are the migrations of one kind and mode.
type vswitchMoves struct {
	kind    move.Kind
	mode    move.Mode
	blind   int           // migrations that took other SMPs than had been computed
	more    int           // minimal ones that took more, because the fewest would have closed a credit cycle
	uneven  int           // balanced ones that wrote another block than those that differ, one twice, or more of a switch than published
	strange int           // balanced ones after which some entry is not the model's
	leaf    wireCost      // inside a leaf
	far     [2][]wireCost // between random hosts: with the manager's own window, one SMP at a time
	paper   []int         // SMPs by the paper's count, of the first of these
	all     move.Survey   // computed, over many pairs
}

// most is the published bound: n by copy, 2n by swap.
func (m *vswitchMoves) most(n int) int {
	if m.kind == move.Swap {
		return 2 * n
	}
	return n
}

// pairsComputed is over how many pairs the computed means are.
const pairsComputed = 2000

// vswitchAt measures one size.
func vswitchAt(o *Options, hosts int) (*vswitchSize, error) {
	r := &vswitchSize{hosts: hosts}
	modes := []move.Mode{move.Balanced, move.Minimal}
	for _, kind := range []move.Kind{move.Copy, move.Swap} {
		for _, mode := range modes {
			r.moves = append(r.moves, &vswitchMoves{kind: kind, mode: mode})
		}
		for k, window := range []int{0, 1} {
			o.say("%d hosts, %s, %s", hosts, lidsAre[kind], [...]string{"many SMPs at a time", "one SMP at a time"}[k])
			wo := wireOptions{hosts: hosts, kind: kind, modes: modes, pairs: vswitchPairs(o, hosts), vfs: 1, every: kind == move.Swap, window: window, seed: o.Seed}
			if err := r.on(k, wo); err != nil {
				return nil, fmt.Errorf("%s, window %d: %w", lidsAre[kind], window, err)
			}
		}
	}
	if hosts < 1000 {
		w, err := newWire(wireOptions{hosts: hosts, modes: modes, pairs: 1, vfs: 1, window: 1, seed: o.Seed, smi: smiLatency})
		if err != nil {
			return nil, fmt.Errorf("directed routes: %w", err)
		}
		r.directed = w.cost.busy
	}
	return r, nil
}

// byDirected is n·m·r of equation 2: what the SMPs of a bring-up take more by directed routes.
func (r *vswitchSize) byDirected() time.Duration {
	return time.Duration(float64(r.boot[1].sets) * r.links * float64(smiLatency))
}

// vswitchPairs is how many pairs of each mode migrate on the wire.
func vswitchPairs(o *Options, hosts int) int {
	switch {
	case o.Runs > 0:
		return o.Runs
	case hosts < 1000:
		return 40
	}
	return 20
}

var lidsAre = [...]string{move.Copy: "dynamic", move.Swap: "prepopulated"}

// on measures with a window: k is 0 for the manager's own, 1 for one at a time.
func (r *vswitchSize) on(k int, wo wireOptions) error {
	w, err := newWire(wo)
	if err != nil {
		return err
	}
	if wo.kind == move.Copy {
		r.switches, r.top = len(w.m.Snap.Graph.Switches), w.m.Snap.Graph.TopLID
		r.links = w.links()
		r.trip = smaLatency + time.Duration(float64(hopLatency)*r.links)
		r.boot[k] = boot{int(w.c.Sim.Stats().LFTSets), w.cost.busy, w.m.JobCPU}
	}
	if _, err := w.create(); err != nil {
		return fmt.Errorf("creating VMs: %w", err)
	}
	var mine []*vswitchMoves
	for _, m := range r.moves {
		if m.kind == wo.kind {
			mine = append(mine, m)
		}
	}
	if k == 0 {
		if err := w.survey(mine); err != nil {
			return err
		}
	}
	for i, v := range w.vms {
		told, err := w.predicted(v)
		if err != nil {
			return err
		}
		with, err := w.partner(v)
		if err != nil {
			return err
		}
		before := w.m.Snap
		cost, reports, err := w.migrate(v)
		if err != nil {
			return fmt.Errorf("migration %d of %d: %w", i+1, len(w.vms), err)
		}
		m := mine[v.mode]
		if v.mode == move.Balanced {
			m.compare(before, w.m.Snap, v.lid, with, cost.sets)
		}
		switch paper := reports[0].SMPs; {
		case cost.sets < paper, paper < told.Max, paper > told.Max && v.mode == move.Balanced:
			m.blind++
		case paper > told.Max:
			m.more++
		}
		switch {
		case !v.leaf:
			m.far[k] = append(m.far[k], cost)
			if k == 0 {
				m.paper = append(m.paper, reports[0].SMPs)
			}
		case k == 0:
			m.leaf = cost
		}
	}
	return w.c.Check(w.m)
}

// compare holds a balanced migration of lid against algorithm 1: each block that differs was written
// once, at most one of a switch by copy and two by swap, and all entries are the model's.
func (m *vswitchMoves) compare(before, after *subnet.Snapshot, lid, with ib.LID, sets int) {
	was, is := before.Tables, after.Tables
	differ, most, copied := 0, 0, true
	for s := range int32(len(before.Graph.Switches)) {
		changed := func(l ib.LID) bool { return was.Entry(s, l) != is.Entry(s, l) }
		n := 0
		if changed(lid) {
			n++
		}
		if changed(with) && (n == 0 || lid/route.BlockLen != with/route.BlockLen) {
			n++
		}
		differ += n
		most = max(most, n)
		copied = copied && is.Entry(s, lid) == was.Entry(s, with) && (m.kind == move.Copy || is.Entry(s, with) == was.Entry(s, lid))
	}
	if differ != sets || most > m.most(1) {
		m.uneven++
	}
	if !copied {
		m.strange++
	}
}

// survey computes what migrations between random hosts cost, by the LIDs that they have on this wire.
func (w *wire) survey(moves []*vswitchMoves) error {
	s := w.m.Snap
	var lids []ib.LID
	if w.kind == move.Copy { // a VM that has not moved has the entries of its physical function
		for i := range s.Graph.EndPorts {
			if e := &s.Graph.EndPorts[i]; e.Type == ib.NodeCA {
				lids = append(lids, e.LID)
			}
		}
	} else {
		for l, e := range s.Graph.LIDOwner {
			if e >= 0 && s.Graph.EndPorts[e].Type == ib.NodeCA && s.Graph.EndPorts[e].LID != ib.LID(l) {
				lids = append(lids, ib.LID(l))
			}
		}
	}
	for _, m := range moves {
		rng := rand.New(rand.NewPCG(w.seed, uint64(m.kind)))
		var err error
		m.all, err = move.Sample(s.Graph, s.Tables, m.kind, m.mode, pairsComputed, func() (ib.LID, ib.LID) {
			a, b := rng.IntN(len(lids)), rng.IntN(len(lids)-1)
			if b >= a {
				b++
			}
			return lids[a], lids[b]
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// links is how many links an SMP takes to a switch and back, the mean over all switches.
func (w *wire) links() float64 {
	f := w.c.Fabric
	dist := make([]int, len(f.Nodes))
	for i := range dist {
		dist[i] = -1
	}
	own := f.Find(w.m.Node)
	dist[own] = 0
	sum, n := 0, 0
	for queue := []int{own}; len(queue) > 0; queue = queue[1:] {
		at := &f.Nodes[queue[0]]
		if at.IsSwitch() {
			sum += dist[queue[0]]
			n++
		}
		for p := 1; p <= at.NumPorts; p++ {
			q := at.Ports[p].Peer
			if q.Valid() && dist[q.Node] < 0 {
				dist[q.Node] = dist[queue[0]] + 1
				queue = append(queue, int(q.Node))
			}
		}
	}
	return 2 * float64(sum) / float64(max(n, 1))
}

// blocks is m of equation 2.
func (r *vswitchSize) blocks() int { return int(r.top)/route.BlockLen + 1 }

// equation is the time of so many SMPs by equation 3, without that of computing.
func (r *vswitchSize) equation(smps float64) time.Duration {
	return time.Duration(smps * float64(r.trip))
}
