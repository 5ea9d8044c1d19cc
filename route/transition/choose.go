package transition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"heddle/ib"
	"heddle/internal/plural"
)

// builder makes a plan.
type builder struct {
	p  *Plan
	x  *mixer
	ch *change
	o  *Options
}

// choose decides mode and reason and fills the stages.
func (b *builder) choose() {
	p, o := b.p, b.o
	if o.Quiet && (o.Force == ModeAuto || o.Force == ModeDynamic || o.Force == ModeStaged) {
		p.Mode, p.Reason = ModeDynamic, "no data traffic can be in the subnet: any order is safe"
		p.Forced = o.Force != ModeAuto
		b.dynamic()
		return
	}
	if o.LanesUnknown {
		b.allLanes()
		return
	}
	recent := b.alive()
	quick, settled, rooted := false, len(recent) == 0, []stagedCell(nil)
	if o.Force == ModeAuto || o.Force == ModeDynamic || o.Force == ModeStaged {
		quick, settled, rooted = b.x.quickly(b.ch, o, recent, b.drain(1))
	}
	if len(recent) > 0 && !settled {
		defer func() {
			if len(p.Stages) > 0 {
				b.waitForRecent(recent)
			}
		}()
	}
	if len(rooted) > 0 && o.Force != ModeDynamic {
		p.Mode, p.Forced = ModeStaged, o.Force == ModeStaged
		b.rootedStages(rooted, "a loop or a credit cycle")
		return
	}
	v := &verdict{clean: true}
	if !quick || len(rooted) > 0 {
		b.x.build()
		v = b.x.analyze(b.ch, o.Workers)
	}
	if v.clean && p.UnknownRows == 0 {
		b.mixes(v)
		return
	}
	if o.Force == ModeDynamic {
		p.Reason = "old and new entries do not mix: " + b.trouble(v)
		b.forced("discard or staged")
		p.Mode = ModeDynamic
		b.dynamic()
		return
	}
	b.separate(v)
}

// mixes fills the plan where old and new entries may meet in any order.
func (b *builder) mixes(v *verdict) {
	p, o := b.p, b.o
	p.Mode, p.Reason = ModeDynamic, "old and new entries mix without a cycle or a loop"
	if len(b.ch.lids) > 0 && len(b.ch.diff) == 0 && len(b.ch.lanes) == 0 {
		p.Reason = "only service levels change; old and new ones mix without a cycle"
	}
	switch o.Force {
	case ModeAuto, ModeDynamic, ModeStaged:
		p.Forced = o.Force != ModeAuto
		b.dynamic()
	case ModeDiscard:
		b.forced("dynamic")
		p.Mode = ModeDiscard
		b.dynamic() // nothing has to be discarded
	default:
		b.forced("dynamic")
		b.static(v)
	}
}

// separate fills the plan where old and new entries must not meet: in stages, or
// with entries that are dropped for a time.
func (b *builder) separate(v *verdict) {
	p, o := b.p, b.o
	order := o.Force == ModeAuto || o.Force == ModeStaged
	d := &discards{}
	if !v.clean {
		d = b.x.search(b.ch, v, order)
	}
	limited := o.SwitchLifetime > 0 && o.HOQLife > 0
	switch {
	case d.gaveUp != "":
		p.Mode, p.Reason = ModeStatic, d.gaveUp
	case v.clean:
		p.Mode = ModeDiscard
		p.Reason = fmt.Sprintf("tables of %d switches are not known and are cleared first", p.UnknownRows)
	case order && d.nothing() && p.UnknownRows == 0:
		p.Mode, p.Forced = ModeStaged, o.Force == ModeStaged
		b.rootedStages(d.rooted, b.trouble(v))
		return
	default:
		p.Mode = ModeDiscard
		p.Reason = b.why(d)
	}
	if order && p.UnknownRows == 0 && limited && !v.clean {
		if st := b.x.inOrder(b.ch, v, o.Workers); st != nil {
			p.Mode, p.Forced = ModeStaged, o.Force == ModeStaged
			p.Reason = fmt.Sprintf("mixing old and new entries in one stage would close cycles or loops (%s); in %d stages with a drain between them it does not", b.trouble(v), st.stages)
			b.staged(st)
			return
		}
	}
	if o.Force == ModeStatic && p.Mode != ModeStatic || o.Force == ModeDiscard && p.Mode != ModeDiscard {
		b.forced(p.Mode.String())
		p.Mode = o.Force
	} else {
		p.Forced = o.Force == p.Mode
	}
	if p.Mode == ModeStatic {
		d.lids, d.trees = b.ch.lids, nil
		for i := range b.ch.trees {
			if !slices.Contains(d.heldTrees, i) {
				d.trees = append(d.trees, i)
			}
		}
	}
	b.discard(d)
	if d.waits() && o.RepathTime <= 0 {
		b.refuse("; but hosts may permanently keep service levels that can deadlock on the wanted tables")
		return
	}
	b.limited()
}

func (b *builder) refuse(why string) {
	b.p.Mode, b.p.Discard, b.p.Groups, b.p.Held, b.p.Stages = ModeRefused, nil, nil, 0, nil
	b.p.Reason += why
}

func (b *builder) forced(chosen string) {
	b.p.Forced = true
	b.p.Reason = fmt.Sprintf("%v forced (%s would be chosen: %s)", b.o.Force, chosen, b.p.Reason)
}

// rootedStages fills the stages of a plan that discards nothing and needs no
// drain.
func (b *builder) rootedStages(rooted []stagedCell, trouble string) {
	b.discard(&discards{rooted: rooted})
	n := 0
	for i := range rooted {
		if i == 0 || rooted[i].lid != rooted[i-1].lid {
			n++
		}
	}
	b.p.Reason = fmt.Sprintf("mixing old and new entries in one stage would close cycles or loops (%s): %d of %d changed destinations are written from the root outwards, in %d stages",
		trouble, n, len(b.ch.lids), len(b.p.Stages))
}

// allLanes plans for unknown SL-to-VL tables: it drops every destination
// everywhere, then writes all tables, then the entries.
func (b *builder) allLanes() {
	p, x, ch := b.p, b.x, b.ch
	x.build()
	ch.lids, ch.trees, ch.free = nil, nil, nil
	ch.lanes = x.everyLane()
	for l := 1; l < len(ch.touched); l++ {
		ch.lids = append(ch.lids, ib.LID(l))
	}
	x.compareTrees(ch)
	p.Mode, p.Reason = ModeStatic, "SL-to-VL tables of switches are not known: they are written while nothing is forwarded"
	p.Forced = b.o.Force == ModeStatic
	d := &discards{lids: ch.lids, levels: ch.levels != nil}
	for i := range ch.trees {
		d.trees = append(d.trees, i)
	}
	b.discard(d)
	if d.waits() && b.o.RepathTime <= 0 {
		b.refuse("; but hosts may permanently keep service levels that can deadlock on the wanted tables")
		return
	}
	b.limited()
}

// everyLane lists the SL-to-VL tables of all links between switches.
func (x *mixer) everyLane() (list []LaneTable) {
	x.build()
	for s := range int32(x.managed) {
		for _, c := range x.outs[x.outOff[s]:x.outOff[s+1]] {
			for in := range int(x.g.Switches[s].NumPorts) + 1 {
				if in != int(x.outPort[c]) {
					list = append(list, LaneTable{s, uint8(in), x.outPort[c]})
				}
			}
		}
	}
	return list
}

// limited refuses a plan that waits without limit.
func (b *builder) limited() {
	for i := range b.p.Stages {
		if b.p.Stages[i].Drain < 0 {
			b.refuse("; but switch or head-of-queue lifetimes are unlimited, so packets in flight may never drain")
			return
		}
	}
}

// static discards everything that changes, although nothing requires it.
func (b *builder) static(v *verdict) {
	b.p.Mode = ModeStatic
	d := &discards{lids: b.ch.lids}
	for i := range b.ch.trees {
		d.trees = append(d.trees, i)
	}
	b.discard(d)
	b.limited()
}

func (b *builder) trouble(v *verdict) string {
	switch {
	case v.clean:
		return fmt.Sprintf("tables of %d switches are not known", b.p.UnknownRows)
	case v.loops > 0:
		return plural.Of(v.loops, "destination") + " could loop"
	}
	return "a credit cycle"
}

func (b *builder) why(d *discards) string {
	var parts []string
	if len(d.lids) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d changed destinations are discarded first (%d for loops, %d for credit cycles)",
			len(d.lids), len(b.ch.lids), d.loops, len(d.lids)-d.loops))
	}
	if len(d.hold) > 0 {
		parts = append(parts, fmt.Sprintf("%d entries stay discarded until hosts use new service levels", len(d.hold)))
	}
	if k := len(d.trees) + len(d.heldTrees); k > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d multicast trees are cut first", k, len(b.ch.trees)))
	}
	if b.p.UnknownRows > 0 {
		parts = append(parts, fmt.Sprintf("tables of %d switches are not known and are cleared first", b.p.UnknownRows))
	}
	if len(parts) == 0 { // only entries that are discarded for a moment anyway
		parts = append(parts, "what changes is written last")
	}
	return "mixing old and new entries would close cycles: " + strings.Join(parts, ", ")
}

// dynamic writes everything in one stage.
func (b *builder) dynamic() {
	b.p.content = content{p: b.p, trees: b.ch.trees, treeAt: make([]uint8, len(b.ch.trees)), treeCut: make([]uint8, len(b.ch.trees))}
	b.p.Stages = []Stage{{LFT: b.ch.diff, SL2VL: b.ch.lanes}}
	b.p.content.groups(&b.p.Stages[0], 0)
}

// drain is how long packets take to leave a path of so many switches. A packet
// leaves each switch when its lifetime has passed, plus the head-of-queue limit
// if it has just reached the head of a queue. Negative: without limit.
func (b *builder) drain(hops int) time.Duration {
	if b.o.SwitchLifetime <= 0 || b.o.HOQLife <= 0 {
		return Unlimited
	}
	return time.Duration(hops) * (b.o.SwitchLifetime + b.o.HOQLife)
}

// staged fills the stages of an order of updates.
func (b *builder) staged(st *staged) {
	p, ch := b.p, b.ch
	c := &p.content
	*c = content{p: p, trees: ch.trees, treeAt: st.trees, treeCut: make([]uint8, len(ch.trees))}
	c.kind, c.stage = make([]uint8, len(ch.touched)), make([]uint8, len(ch.touched))
	for i, l := range ch.lids {
		c.kind[l], c.stage[l] = inStage, st.at[i]
		if st.at[i] == split {
			c.kind[l] = inStages
		}
	}
	c.cells = st.cells
	p.Stages = make([]Stage, st.stages)
	p.Stages[st.lanes].SL2VL = ch.lanes
	b.blocks()
	for k := range p.Stages {
		c.groups(&p.Stages[k], k)
	}
	for k := range p.Stages[:len(p.Stages)-1] {
		s := &p.Stages[k]
		if len(ch.lanes) > 0 { // anything may have been on a lane by the older state
			s.DrainHops = b.x.longest(ch.lids, oldEntries|newEntries, b.o.Workers)
		} else {
			s.DrainHops = int(st.hops[k])
		}
		for i := range ch.trees {
			if int(st.trees[i]) == k || len(ch.lanes) > 0 {
				s.DrainHops = max(s.DrainHops, b.x.treeHops(ch.trees[i], oldEntries|newEntries))
			}
		}
		s.Drain = b.drain(s.DrainHops)
	}
	// A stage that writes nothing needs no wait.
	p.content.compact(false)
}

// discard fills the stages: drop, write, and where they must wait, write the
// destinations dropped and the entries held.
func (b *builder) discard(d *discards) {
	p, ch := b.p, b.ch
	c := &p.content
	*c = content{
		p: p, trees: ch.trees, treeAt: make([]uint8, len(ch.trees)), treeCut: make([]uint8, len(ch.trees)),
		kind: make([]uint8, len(ch.touched)), main: 1, late: 1, hold: slices.Clone(d.hold), x: b.x,
	}
	for i := range c.treeAt {
		c.treeAt[i] = 1
	}
	for _, l := range d.lids {
		c.kind[l] = dropped
		if len(ch.lanes) > 0 {
			c.kind[l] = droppedAll
		}
	}
	n := 2
	if d.levels {
		for _, l := range ch.lids {
			if ch.levels[l] {
				c.kind[l] = droppedAll
			}
		}
	}
	if len(ch.lanes) > 0 && len(d.lids)+len(d.trees) > 0 || d.levels {
		// They must not meet old lanes or levels, on which they are not proved.
		c.late = 2
		n = 3
	}
	c.cells, c.rooted = slices.Clone(d.rooted), true
	for i := range c.cells {
		c.kind[c.cells[i].lid] = inStages
		c.cells[i].stage += c.main
		n = max(n, int(c.cells[i].stage)+1)
	}
	for _, i := range d.trees {
		c.treeCut[i] = cutShared
		if len(ch.lanes) > 0 {
			c.treeCut[i], c.treeAt[i] = cutAll, c.late
		}
		p.Groups = append(p.Groups, ch.trees[i].mlid())
	}
	if len(c.hold) > 0 || len(d.heldTrees) > 0 {
		c.last = uint8(n)
		n++
	}
	for _, i := range d.heldTrees {
		c.treeCut[i], c.treeAt[i] = cutAll, c.last
		p.Groups = append(p.Groups, ch.trees[i].mlid())
	}
	slices.Sort(p.Groups)
	p.Discard, p.Held = d.lids, len(d.hold)
	p.Stages = make([]Stage, n)
	first := &p.Stages[0]
	first.Discards = true
	p.Stages[1].SL2VL = ch.lanes
	b.blocks()
	for k := range p.Stages {
		c.groups(&p.Stages[k], k)
	}
	if len(first.LFT) > 0 || len(first.MFT) > 0 {
		first.DrainHops = b.discardHops(d)
		first.Drain = b.drain(first.DrainHops)
	}
	// Entries dropped until lanes or levels are new meet nothing old.
	if c.late > c.main {
		b.drainAll(&p.Stages[c.late-1])
	}
	if c.last > 0 {
		b.drainAll(&p.Stages[c.last-1])
	}
	if d.waits() {
		p.Stages[n-2].Repath = max(b.o.RepathTime, 0)
	}
	c.compact(b.x.newLevels(ch))
}

// discardHops is how far packets may still go that met an entry which the first
// stage drops.
func (b *builder) discardHops(d *discards) (hops int) {
	lids := slices.Clone(d.lids)
	for _, h := range d.hold {
		lids = append(lids, h.lid)
	}
	slices.Sort(lids)
	hops = b.x.longest(slices.Compact(lids), oldEntries, b.o.Workers)
	if b.p.UnknownRows > 0 {
		// Before an unknown table and after it a packet may go a longest path.
		all := make([]ib.LID, 0, int(b.x.old.TopLID))
		for l := ib.LID(1); l <= b.x.old.TopLID; l++ {
			all = append(all, l)
		}
		hops = max(hops, b.x.longest(all, oldEntries, b.o.Workers)) * 2
	}
	for _, i := range append(d.trees, d.heldTrees...) {
		hops = max(hops, b.x.treeHops(b.ch.trees[i], oldEntries))
	}
	return hops
}

// drainAll waits after a stage until all packets have left that met any
// old state.
func (b *builder) drainAll(st *Stage) {
	st.DrainHops = b.x.longest(b.ch.lids, mixed, b.o.Workers)
	st.Drain = b.drain(st.DrainHops)
}

// nothing reports whether nothing is discarded.
func (d *discards) nothing() bool {
	return d.gaveUp == "" && len(d.lids)+len(d.hold)+len(d.trees)+len(d.heldTrees) == 0
}

// waits reports whether hosts must use new levels before the last stage.
func (d *discards) waits() bool { return len(d.hold) > 0 || len(d.heldTrees) > 0 || d.levels }
