package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/subnet"
)

// tableRead is a node whose lane tables are being read, and how far that is.
type tableRead struct {
	guid  ib.GUID
	at    int
	after mad.Time // not before
}

// readTries is how often the tables of a node are tried to be read.
const readTries = 4

// readTables puts nodes on the list of those whose tables are read.
func (c *Core) readTables(nodes []ib.GUID) {
	if c.f == nil || c.f.Graph == nil || c.state != subnet.Master {
		return
	}
	if nodes == nil {
		for i := range c.f.Nodes {
			c.wantTables(int32(i))
		}
	}
	for _, g := range nodes {
		if ni, ok := c.f.Find(g); ok {
			if l := c.laneTabs[g]; l != nil {
				l.tries = 0
			}
			c.wantTables(ni)
		}
	}
}

func (c *Core) wantTables(ni int32) {
	n := &c.f.Nodes[ni]
	if l := c.laneTabs[n.Info.NodeGUID]; !n.OK() || n.Flags&topo.NodeGone != 0 || l != nil && (l.complete || l.tries >= readTries) {
		return
	}
	if c.reading == nil {
		c.reading = map[ib.GUID]bool{}
	}
	if !c.reading[n.Info.NodeGUID] {
		c.reading[n.Info.NodeGUID] = true
		c.reads = append(c.reads, tableRead{guid: n.Info.NodeGUID})
	}
}

// readSmall has the tables of a small subnet read, or what is not known of them.
func (c *Core) readSmall() {
	if c.cfg.ReadLanes > 0 && c.up && c.f.Graph != nil && len(c.f.SwitchNode) <= c.cfg.ReadLanes {
		c.scopeNodes(func(ni int32, _ *topo.Node) { c.wantTables(ni) })
	}
}

// upkeepReads asks for the next tables until most requests are made.
func (c *Core) upkeepReads(most int) {
	// Those that wait are at the end, in no order of time.
	for len(c.reads) > 0 && c.pend < most {
		r := &c.reads[0]
		if r.after > c.now {
			k := slices.IndexFunc(c.reads, func(r tableRead) bool { return r.after <= c.now })
			if k < 0 {
				return
			}
			c.reads[0], c.reads[k] = c.reads[k], c.reads[0]
		}
		ni, ok := c.f.Find(r.guid)
		if ok && c.readNext(ni, r, most) {
			return
		}
		if ok {
			l := c.lanesOfNode(ni)
			if l.complete = true; !l.listed {
				l.listed = true
				c.tablesShown = append(c.tablesShown, ni)
			}
			c.readDone = true
		}
		delete(c.reading, r.guid)
		c.reads = c.reads[1:]
	}
}

// readDue is when there is something to read.
func (c *Core) readDue() mad.Time {
	t := mad.Never
	for i := range c.reads {
		if t = min(t, c.reads[i].after); t <= c.now {
			break
		}
	}
	return t
}

// readNext asks for the tables of a node that are not known, from where it
// left off. It reports whether it stopped before the last.
func (c *Core) readNext(ni int32, r *tableRead, most int) bool {
	n := &c.f.Nodes[ni]
	if !n.OK() {
		return false
	}
	l := c.lanesOfNode(ni)
	ports := int(n.Info.NumPorts) + 1
	for ; r.at < len(l.sl)+len(l.arb); r.at++ {
		if c.pend >= most {
			return true
		}
		if i := r.at; i < len(l.sl) {
			in, out := i/ports, uint8(i%ports)
			if l.sl[i] == 0 && c.readable(n, ni, out) && c.f.AgentPort(ni, out).Info.CapabilityMask.Has(ib.CapIsSLMappingSupported) {
				c.add(mk(opReadSL, ni, out, uint32(in)))
			}
			continue
		}
		i := r.at - len(l.sl)
		num, block := uint8(i/4), uint8(i%4+1)
		if l.arb[i] == 0 && c.readable(n, ni, num) && subnet.HasVLArb(&c.f.PortOf(ni, num).Info, block) {
			c.add(mk(opReadArb, ni, num, uint32(block)))
		}
	}
	return false
}

// readable reports whether a port is one that can be asked for its tables: of
// a CA only those with a link.
func (c *Core) readable(n *topo.Node, ni int32, num uint8) bool {
	return n.IsSwitch() || num != 0 && c.f.PortOf(ni, num).Has(topo.PortKnown)
}

// onReadLane takes a table that upkeep asked for. A node that does not answer
// is asked again later, and a few times only: who wants to know asks again.
func (c *Core) onReadLane(it item, comp *mad.Completion) {
	c.holdLane(it, comp)
	if !mad.Unanswered(comp.Err) {
		return
	}
	g := c.f.Nodes[it.node()].Info.NodeGUID
	l := c.lanesOfNode(it.node())
	l.complete = false
	i := slices.IndexFunc(c.reads, func(r tableRead) bool { return r.guid == g })
	if i < 0 { // it failed with the last of them
		i = len(c.reads)
		c.reads = append(c.reads, tableRead{guid: g})
		c.reading[g] = true
	}
	r := &c.reads[i]
	if r.after > c.now {
		return // so did another request of the portion
	}
	r.at = 0
	r.after = c.now.Add(c.cfg.RetryInterval << l.tries)
	if l.tries++; l.tries < readTries {
		return
	}
	delete(c.reading, g)
	c.reads = slices.Delete(c.reads, i, i+1)
	c.out.notify(Notice{
		Kind: KindNodeSilent, Level: Info, Where: c.f.Where(it.node(), int(it.port())), Err: comp.Err,
		Text: "reading its lane tables is given up; they are read when somebody asks for them again",
	})
}

func (c *Core) buildRead(it item, get func(attr ib.AttrID, mod uint32)) {
	n := &c.f.Nodes[it.node()]
	if it.op() == opReadSL {
		get(smp.AttrSLtoVL, slMod(n, uint8(it.extra()), it.port()))
		return
	}
	get(smp.AttrVLArb, smp.VLArbMod(uint16(it.extra()), arbPort(n, it.port())))
}
