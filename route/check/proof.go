package check

import (
	"math/bits"
	"slices"
	"sync"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// Proof is a result of verification that can be updated after a change of the
// fabric or the tables. It is immutable: Update makes a new one, so several can
// derive from one, and any number of goroutines may use it.
//
// It stores how many destinations cause each dependency between channels, an
// order of the channels with which all dependencies agree, the paths over each
// channel and the paths of each length: about 20 MiB for 11,664 hosts and
// single-lane tables. Proofs that derive from one another share the common
// parts.
type Proof struct {
	g      *fabric.Graph
	t      *route.Tables
	report *Report
	once   *sync.Once // for the report's CreditCyclesSwitch
	lazy   bool
	st     *state // nil if the report is not OK
}

// state is what a Proof of sound tables stores.
type state struct {
	j     *verifier
	shape *cdg.Shape
	ca    *cdg.Graph // of traffic with a CA at one end, and multicast
	sw    *cdg.Graph // of traffic between switches
	order *cdg.Order // of ca
	load  []int64    // by channel
	hist  []int64    // paths by links between switches
	used  []uint16   // by LID: lanes of delivered paths with a CA at one end
	// Groups for which the trees were verified, ascending MLID; nil: unknown.
	groups []route.Group
}

// Prove verifies t for g as Verify does, and stores what Update needs.
func Prove(g *fabric.Graph, t *route.Tables, o Options) *Proof {
	r, j, w := verify(g, t, o, true)
	p := &Proof{g: g, t: t, report: r, once: &sync.Once{}}
	if !r.OK() {
		return p
	}
	st := &state{j: j, shape: cdg.NewShape(g), load: w.load, hist: w.hist, used: j.usedBy, groups: byMLID(o.Groups)}
	var made [2]*cdg.Graph
	route.ForEach(o.Workers, 2, func(_, i int) {
		made[i] = j.graph(st.shape, []counts{w.caCount, w.swCount}[i])
	})
	st.ca, st.sw = made[0], made[1]
	if t.Multicast != nil {
		tj := j.newTreeVerifier(nil)
		for i := range t.Multicast.Trees {
			tj.each(&t.Multicast.Trees[i], func(d cdg.Dep) { st.ca.Add(d, 1) })
		}
	}
	st.order = st.ca.Order()
	j.keepCounts, j.quiet = false, true
	p.st = st
	return p
}

// Report is the report that Verify would give. The caller must not change it.
// An OK report of Update only counts the cycles of traffic between switches;
// the first call of Report describes them, in a few milliseconds at 11,664
// hosts.
func (p *Proof) Report() *Report {
	if p.lazy {
		p.once.Do(func() { p.report.CreditCyclesSwitch = p.st.ca.Tangles(p.st.sw) })
	}
	return p.report
}

// Err is nil if the tables may be installed; otherwise it gives the reason.
func (p *Proof) Err() error { return p.report.Err() }

// OK reports whether the tables may be installed.
func (p *Proof) OK() bool { return p.report.OK() }

// MaxHops is that of Report, without the cost of describing cycles.
func (p *Proof) MaxHops() int { return p.report.MaxHops }

// Tables are the proved tables, Graph is their fabric.
func (p *Proof) Tables() *route.Tables { return p.t }

// Graph is the graph that the tables were proved for.
func (p *Proof) Graph() *fabric.Graph { return p.g }

// For returns the proof for t, which must have the same entries, levels and trees as the proved
// tables: only their memory may be another (route.Tables.Flat).
func (p *Proof) For(t *route.Tables) *Proof {
	q := *p
	if q.t = t; p.st != nil {
		st := *p.st
		j := *st.j
		j.t, st.j = t, &j
		q.st = &st
	}
	return &q
}

// Update verifies t for g, given that p holds for the previous graph and
// tables; d is fabric.Diff of the two graphs. The report is the one that Verify
// would give. Rows that both tables share are skipped, others are compared
// block by block. Only LIDs with changed entries, with entries over an added or
// removed link, or with a changed end port are verified again: for single-lane
// tables only the switches upstream of a change and the paths from there.
//
// If that is impossible (switches were added or removed, lanes of links or
// SL-to-VL tables changed, too much differs) or the tables turn out to be
// unsound, Update does what Prove does.
func (p *Proof) Update(g *fabric.Graph, d *fabric.Delta, t *route.Tables, o Options) *Proof {
	if p.st == nil || !d.SameSwitches || malformed(g, t) != "" {
		return Prove(g, t, o)
	}
	u := newUpdate(p, g, d, t, o)
	if u == nil {
		return Prove(g, t, o)
	}
	defer u.done()
	if !u.run() {
		return Prove(g, t, o)
	}
	return u.proof()
}

// done keeps the scratch memory of the workers, which no Proof refers to.
func (u *update) done() {
	for _, c := range u.ws {
		if c != nil {
			c.done()
		}
	}
}

// update is the state of one call of Update.
type update struct {
	p        *Proof
	d        *fabric.Delta
	old, now *verifier
	shape    *cdg.Shape
	o        Options
	top      int
	weights  []int32 // switches whose number of CAs changed
	ws       []*updater
	wires    bool   // switches and channels are those of the old graph
	todo     []item // LIDs to verify, ascending
	ops      [][]op
	used     []uint16 // by LID, as state has it; that of the proof before until a LID's lanes differ

	ca, sw *cdg.Graph
	order  *cdg.Order
}

// item is a LID to verify.
type item struct {
	lid   int32
	whole bool    // at all switches
	at    []int32 // switches whose entries changed
}

// op changes the counts of a dependency.
type op struct {
	d      cdg.Dep
	ca, sw int32
}

// newUpdate prepares an update; nil if only a full proof will do.
func newUpdate(p *Proof, g *fabric.Graph, d *fabric.Delta, t *route.Tables, o Options) *update {
	old := p.st.j
	wires := fabric.SameWires(g, p.g)
	u := &update{p: p, d: d, old: old, o: o, wires: wires}
	if wires {
		u.now, u.shape = old.with(g, t, d.LIDs), p.st.shape
	} else {
		route.ForEach(o.Workers, 2, func(_, i int) {
			if i == 0 {
				u.now = newVerifier(g, t, o)
			} else {
				u.shape = cdg.NewShape(g)
			}
		})
	}
	u.now.quiet = true
	now := u.now
	if now.mode == single && old.mode == single { // trees may be on other lanes
		now.lanes = max(now.lanes, old.lanes)
	}
	if now.mode != single && t.NumVLs != old.t.NumVLs {
		return nil
	}
	if now.mode != old.mode || now.mode != single && now.lanes != old.lanes || !u.shape.Alike(p.st.shape) || !sameLanes(old.t.Lanes, t.Lanes) {
		return nil
	}
	if !wires && !u.sameCables() {
		return nil
	}
	for s := range now.casAt {
		if now.casAt[s] != old.casAt[s] {
			if now.mode != single && (now.mode == general && t.Lanes != nil || (now.casAt[s] > 0) != (old.casAt[s] > 0)) {
				return nil // other packets are injected
			}
			u.weights = append(u.weights, int32(s))
		}
	}
	u.top = max(old.top, now.top)
	u.used = p.st.used
	if len(u.used) != u.top+1 {
		u.used = make([]uint16, u.top+1)
		copy(u.used, p.st.used)
	}
	return u
}

// sameCables reports whether links were only added or removed, without joining
// components.
func (u *update) sameCables() bool {
	for c := range u.now.to {
		k := &u.now.g.Channels[c]
		was := u.d.Channel[c]
		if was >= 0 {
			if u.now.vls[c] != u.old.vls[was] && u.now.lanes > 1 {
				return false
			}
			continue
		}
		if u.old.channelAt(k.From, int(k.OutPort)) >= 0 || u.old.comp[k.From] != u.old.comp[k.To] {
			return false
		}
	}
	return true
}

func sameLanes(a, b *route.Lanes) bool {
	if a == b {
		return true
	}
	return a != nil && b != nil && slices.Equal(a.Rows, b.Rows) && slices.Equal(a.Stride, b.Stride) &&
		slices.EqualFunc(a.Index, b.Index, func(x, y []uint8) bool { return slices.Equal(x, y) })
}

// with is j for other tables, and a graph with the same channels in which LIDs have other owners.
func (j *verifier) with(g *fabric.Graph, t *route.Tables, lids []ib.LID) *verifier {
	k := *j
	k.g, k.t = g, t
	k.top = int(max(g.TopLID, t.TopLID))
	k.lanes = 1
	switch {
	case g == j.g:
	case len(g.EndPorts) == len(j.g.EndPorts) && len(lids) < len(g.EndPorts)/16 && sameEnds(g, j.g):
		k.moveLIDs(j, lids)
	default:
		k.settleLIDs()
	}
	k.chooseMode()
	return &k
}

// run verifies what changed; false: Prove is needed.
func (u *update) run() bool {
	if !u.changes() {
		return false
	}
	workers := min(max(u.o.Workers, 1), max(len(u.todo)/8, 1))
	u.ws = make([]*updater, workers)
	const chunk = 32
	chunks := (len(u.todo) + chunk - 1) / chunk
	u.ops = make([][]op, chunks)
	route.ForEach(workers, chunks, func(w, i int) {
		c := u.ws[w]
		if c == nil {
			c = newUpdater(u)
			u.ws[w] = c
		}
		c.ops, c.spare = c.spare, nil
		for _, l := range u.todo[i*chunk : min((i+1)*chunk, len(u.todo))] {
			if c.bad {
				return
			}
			c.verify(l)
		}
		u.ops[i] = c.ops
	})
	for _, c := range u.ws {
		if c != nil && c.bad {
			return false
		}
	}
	own := false
	for _, c := range u.ws {
		if c == nil {
			continue
		}
		for _, x := range c.others {
			if !own {
				u.used, own = slices.Clone(u.used), true
			}
			u.used[x.lid] = x.used
		}
	}
	return u.settle()
}

// settle changes the counts and sees that the order still holds.
func (u *update) settle() bool {
	st := u.p.st
	u.ca, u.sw, u.order = st.ca.Clone(), st.sw.Clone(), st.order.Clone()
	if !u.trees() {
		return false
	}
	wider := u.now.lanes > u.old.lanes
	if wider {
		u.ca.Widen(u.now.lanes)
		u.sw.Widen(u.now.lanes)
	}
	var fresh []cdg.Dep
	// Additions first, so that nothing disappears in between.
	for _, list := range u.ops {
		for i := range list {
			if x := &list[i]; x.ca > 0 && u.ca.Add(x.d, int(x.ca)) > 0 {
				fresh = append(fresh, x.d)
			}
			if x := &list[i]; x.sw > 0 {
				u.sw.Add(x.d, int(x.sw))
			}
		}
	}
	for _, list := range u.ops {
		for i := range list {
			if x := &list[i]; x.ca < 0 {
				u.ca.Add(x.d, int(x.ca))
			}
			if x := &list[i]; x.sw < 0 {
				u.sw.Add(x.d, int(x.sw))
			}
		}
	}
	u.ca.Move(u.shape)
	u.sw.Move(u.shape)
	if wider {
		u.order = u.ca.Order()
		return u.order != nil
	}
	fresh = slices.DeleteFunc(fresh, func(d cdg.Dep) bool { return u.ca.Count(d) == 0 })
	return u.order.InsertAll(u.ca, fresh)
}

// trees verifies the multicast trees and updates their dependencies.
func (u *update) trees() bool {
	was, now := u.p.t.Multicast, u.now.t.Multicast
	if was == nil && now == nil && u.o.Groups == nil {
		return true
	}
	ws := make([]*scratch, max(u.o.Workers, 1))
	if n, _ := u.now.trees(ws, u.o, u.verified()); n > 0 {
		return false
	}
	for _, w := range ws {
		if w != nil && u.now.t.NumVLs > 0 && w.lanes>>u.now.t.NumVLs != 0 {
			return false
		}
	}
	var from, to []route.Tree
	if was != nil {
		from = was.Trees
	}
	if now != nil {
		to = now.Trees
	}
	keep := u.now.g == u.old.g || u.now.t.Lanes == nil // lanes of a tree that is the same are
	var oldJudge, nowJudge *treeVerifier
	var list []op
	each := func(tj **treeVerifier, j *verifier, tr *route.Tree, n int32) {
		if *tj == nil {
			*tj = j.newTreeVerifier(nil)
		}
		(*tj).each(tr, func(d cdg.Dep) { list = append(list, op{d: d, ca: n}) })
	}
	for i, k := 0, 0; i < len(from) || k < len(to); {
		switch {
		case k == len(to) || i < len(from) && from[i].MLID < to[k].MLID:
			each(&oldJudge, u.old, &from[i], -1)
			i++
		case i == len(from) || to[k].MLID < from[i].MLID:
			each(&nowJudge, u.now, &to[k], 1)
			k++
		default:
			if !keep || !sameTree(&from[i], &to[k]) {
				each(&oldJudge, u.old, &from[i], -1)
				each(&nowJudge, u.now, &to[k], 1)
			}
			i++
			k++
		}
	}
	u.ops = append(u.ops, list)
	return true
}

// proof puts the new Proof together.
func (u *update) proof() *Proof {
	st := &state{
		j: u.now, shape: u.shape, ca: u.ca, sw: u.sw, order: u.order,
		load: u.loads(), hist: slices.Clone(u.p.st.hist), used: u.used,
		groups: byMLID(u.o.Groups),
	}
	r := &Report{}
	for _, w := range u.ws {
		if w == nil {
			continue
		}
		for h := range st.hist {
			st.hist[h] += w.now.hist[h] - w.old.hist[h]
		}
	}
	var hops int64
	for h, k := range st.hist {
		r.Paths += k
		hops += int64(h) * k
		if k > 0 {
			r.MaxHops = h
		}
	}
	if r.Paths > 0 {
		r.AvgHops = float64(hops) / float64(r.Paths)
	}
	r.balance(st.load)
	r.DisconnectedPairs = u.now.disconnected()
	if r.VLsUsed = u.p.report.VLsUsed; !sameSlice(u.used, u.p.st.used) {
		all := uint16(0)
		for _, m := range u.used {
			all |= m
		}
		r.VLsUsed = max(bits.OnesCount16(all), 1)
	}
	return &Proof{g: u.now.g, t: u.now.t, report: r, once: &sync.Once{}, lazy: true, st: st}
}

// loads are the paths by channel.
func (u *update) loads() []int64 {
	var load []int64
	for _, w := range u.ws {
		switch {
		case w == nil || !u.wires:
		case load == nil:
			load = w.now.load // nobody else needs it
		default:
			for c, v := range w.now.load {
				load[c] += v
			}
		}
	}
	if load == nil {
		load = make([]int64, len(u.now.to))
	}
	if u.wires {
		for c, v := range u.p.st.load {
			load[c] += v
		}
		return load
	}
	for c := range load {
		was := u.d.Channel[c]
		if was >= 0 {
			load[c] = u.p.st.load[was]
		}
		for _, w := range u.ws {
			if w == nil {
				continue
			}
			if load[c] += w.now.load[c]; was >= 0 {
				load[c] += w.old.load[was]
			}
		}
	}
	return load
}

// disconnected counts the pairs without a physical path.
func (j *verifier) disconnected() (n int64) {
	for s, k := range j.lidsAt {
		n += k * (j.total - j.inComp[j.comp[s]])
	}
	for e, k := range j.lidsOf {
		if j.g.EndPorts[e].Switch < 0 {
			n += k * (j.total - k)
		}
	}
	return n
}

// effective is the entry of switch s for l as the switch acts on it.
func (j *verifier) effective(s int32, l int) byte {
	if limit := int(j.g.Switches[s].LinearFDBCap); limit > 0 && l >= limit {
		return route.Drop
	}
	return j.t.Entry(s, ib.LID(l))
}

// destination is where packets to l are to arrive; switch -1: nowhere.
func (j *verifier) destination(l int) (s int32, port uint8, isCA bool) {
	if l >= len(j.g.LIDOwner) || j.g.LIDOwner[l] == fabric.NoLID {
		return -1, 0, false
	}
	e := &j.g.EndPorts[j.g.LIDOwner[l]]
	return e.Switch, e.Port, e.Type != ib.NodeSwitch
}
