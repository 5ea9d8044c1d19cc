package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
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
	if c.Fabric == nil || c.Fabric.Graph == nil || c.State != subnet.Master {
		return
	}
	if nodes == nil {
		for i := range c.Fabric.Nodes {
			c.wantTables(int32(i))
		}
	}
	for _, g := range nodes {
		if ni, ok := c.Fabric.Find(g); ok {
			if l := c.laneState.laneTabs[g]; l != nil {
				l.tries = 0
			}
			c.wantTables(ni)
		}
	}
}

func (c *Core) wantTables(ni int32) {
	n := &c.Fabric.Nodes[ni]
	if l := c.laneState.laneTabs[n.Info.NodeGUID]; !n.OK() || n.Flags&topo.NodeGone != 0 || l != nil && (l.complete || l.tries >= readTries) {
		return
	}
	if c.laneState.reading == nil {
		c.laneState.reading = map[ib.GUID]bool{}
	}
	if !c.laneState.reading[n.Info.NodeGUID] {
		c.laneState.reading[n.Info.NodeGUID] = true
		c.laneState.reads = append(c.laneState.reads, tableRead{guid: n.Info.NodeGUID})
	}
}

// readSmall has the tables of a small subnet read, or what is not known of them.
func (c *Core) readSmall() {
	if c.Config.ReadLanes > 0 && c.Up && c.Fabric.Graph != nil && len(c.Fabric.SwitchNode) <= c.Config.ReadLanes {
		c.ScopeNodes(func(ni int32, _ *topo.Node) { c.wantTables(ni) })
	}
}

// upkeepReads asks for the next tables until most requests are made.
func (c *Core) upkeepReads(most int) {
	// Those that wait are at the end, in no order of time.
	for len(c.laneState.reads) > 0 && c.Pending < most {
		r := &c.laneState.reads[0]
		if r.after > c.Now {
			k := slices.IndexFunc(c.laneState.reads, func(r tableRead) bool { return r.after <= c.Now })
			if k < 0 {
				return
			}
			c.laneState.reads[0], c.laneState.reads[k] = c.laneState.reads[k], c.laneState.reads[0]
		}
		ni, ok := c.Fabric.Find(r.guid)
		if ok && c.readNext(ni, r, most) {
			return
		}
		if ok {
			l := c.lanesOfNode(ni)
			if l.complete = true; !l.listed {
				l.listed = true
				c.laneState.tablesShown = append(c.laneState.tablesShown, ni)
			}
			c.laneState.readDone = true
		}
		delete(c.laneState.reading, r.guid)
		c.laneState.reads = c.laneState.reads[1:]
	}
}

// readDue is when there is something to read.
func (c *Core) readDue() mad.Time {
	t := mad.Never
	for i := range c.laneState.reads {
		if t = min(t, c.laneState.reads[i].after); t <= c.Now {
			break
		}
	}
	return t
}

// readNext asks for the tables of a node that are not known, from where it
// left off. It reports whether it stopped before the last.
func (c *Core) readNext(ni int32, r *tableRead, most int) bool {
	n := &c.Fabric.Nodes[ni]
	if !n.OK() {
		return false
	}
	l := c.lanesOfNode(ni)
	ports := int(n.Info.NumPorts) + 1
	for ; r.at < len(l.sl)+len(l.arb); r.at++ {
		if c.Pending >= most {
			return true
		}
		if i := r.at; i < len(l.sl) {
			in, out := i/ports, uint8(i%ports)
			if l.sl[i] == 0 && c.readable(n, ni, out) && c.Fabric.AgentPort(ni, out).Info.CapabilityMask.Has(ib.CapIsSLMappingSupported) {
				c.Add(work.Make(work.OpReadSL, ni, out, uint32(in)))
			}
			continue
		}
		i := r.at - len(l.sl)
		num, block := uint8(i/4), uint8(i%4+1)
		if l.arb[i] == 0 && c.readable(n, ni, num) && subnet.HasVLArb(&c.Fabric.PortOf(ni, num).Info, block) {
			c.Add(work.Make(work.OpReadArb, ni, num, uint32(block)))
		}
	}
	return false
}

// readable reports whether a port is one that can be asked for its tables: of
// a CA only those with a link.
func (c *Core) readable(n *topo.Node, ni int32, num uint8) bool {
	return n.IsSwitch() || num != 0 && c.Fabric.PortOf(ni, num).Has(topo.PortKnown)
}

// onReadLane takes a table that upkeep asked for. A node that does not answer
// is asked again later, and a few times only: who wants to know asks again.
func (c *Core) onReadLane(it work.Item, comp *mad.Completion) {
	c.holdLane(it, comp)
	if !mad.Unanswered(comp.Err) {
		return
	}
	g := c.Fabric.Nodes[it.Node()].Info.NodeGUID
	l := c.lanesOfNode(it.Node())
	l.complete = false
	i := slices.IndexFunc(c.laneState.reads, func(r tableRead) bool { return r.guid == g })
	if i < 0 { // it failed with the last of them
		i = len(c.laneState.reads)
		c.laneState.reads = append(c.laneState.reads, tableRead{guid: g})
		c.laneState.reading[g] = true
	}
	r := &c.laneState.reads[i]
	if r.after > c.Now {
		return // so did another request of the portion
	}
	r.at = 0
	r.after = c.Now.Add(c.Config.RetryInterval << l.tries)
	if l.tries++; l.tries < readTries {
		return
	}
	delete(c.laneState.reading, g)
	c.laneState.reads = slices.Delete(c.laneState.reads, i, i+1)
	c.Notify(notice.Notice{
		Kind: notice.KindNodeSilent, Level: notice.Info, Where: c.Fabric.Where(it.Node(), int(it.Port())), Err: comp.Err,
		Text: "reading its lane tables is given up; they are read when somebody asks for them again",
	})
}

func (c *Core) buildRead(it work.Item, get func(attr ib.AttrID, mod uint32)) {
	n := &c.Fabric.Nodes[it.Node()]
	if it.Op() == work.OpReadSL {
		get(smp.AttrSLtoVL, slMod(n, uint8(it.Extra()), it.Port()))
		return
	}
	get(smp.AttrVLArb, smp.VLArbMod(uint16(it.Extra()), arbPort(n, it.Port())))
}
