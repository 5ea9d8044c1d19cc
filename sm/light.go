package sm

import (
	"bytes"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sm/forward"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// startLight asks every switch for its PortStateChange bit, silent far ends
// whether they answer now, nodes without a description for it, and other
// managers for their state. Whatever differs leads to a full sweep.
func (c *Core) startLight() {
	f := c.Fabric
	if f == nil || f.Graph == nil {
		c.AskFullSweep("nothing is known of the subnet")
		return
	}
	c.enter(notice.PhaseLight)
	c.lightSwitches()
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Flags&(topo.NodeDesc|topo.NodeGone) == 0 {
			c.Add(work.Make(work.OpLightDesc, int32(i), n.Info.LocalPortNum, 0))
		}
	}
	for i := range f.Ports {
		p := &f.Ports[i]
		if p.Has(topo.PortSilent) && p.Has(topo.PortKnown) && !p.Has(topo.PortBadPeer) && len(f.AgentPath(p.Node, p.Num)) < smp.MaxHops {
			c.Add(work.Make(work.OpLightProbe, p.Node, p.Num, 0))
		}
	}
	c.vports.LightSweep()
	c.mastership.AskAll()
}

// lightSwitches asks our own port and every switch that does not owe an answer
// already. The nearest are asked first: of the switches on the path to one that
// died the last that answers says so, before requests into the void hold its
// request up.
func (c *Core) lightSwitches() {
	f := c.Fabric
	if own := f.Self; f.Nodes[own.Node].Flags&topo.NodeUnseen != 0 {
		c.Add(work.Make(work.OpLightProbe, -1, 0, 0))
	} else if !f.Nodes[own.Node].IsSwitch() {
		c.Add(work.Make(work.OpLightPort, own.Node, own.Port, 0))
	}
	farthest := 0
	for hops := 0; hops <= farthest; hops++ {
		for i := range f.Nodes {
			n := &f.Nodes[i]
			if !n.IsSwitch() || !n.OK() || !n.Path.Set || n.Flags&topo.NodeUnseen != 0 {
				continue
			}
			farthest = max(farthest, int(n.Path.N))
			if int(n.Path.N) == hops && n.Flags&topo.NodeLight == 0 {
				n.Flags |= topo.NodeLight
				c.Add(work.Make(work.OpLightSwitch, int32(i), 0, 0))
			}
		}
	}
	c.lightState.auditing = false
	c.lightState.at = mad.Never
	if c.Config.SweepInterval > 0 {
		c.lightState.at = c.Now.Add(c.Config.SweepInterval)
	}
}

func (c *Core) lightDone() bool {
	c.enter(notice.PhaseIdle)
	c.lightState.count++
	if !c.lightState.auditing {
		c.watched()
	}
	if c.lightState.descRead {
		c.lightState.descRead = false
		c.Publish()
	}
	if !c.next.wanted && !c.lightState.auditing {
		c.armLight()
	}
	c.lightState.auditing = false
	return c.next.wanted
}

// stopLight ends a light sweep, or an audit, because a sweep is due. What has no
// answer yet is asked soon after that sweep: one of the switches may be mute, or
// have died at the same time.
func (c *Core) stopLight() {
	c.unanswered(func(it work.Item, _ bool) {
		switch it.Op() {
		case work.OpLightSwitch:
			n := &c.Fabric.Nodes[it.Node()]
			n.Flags &^= topo.NodeLight
			c.lightState.missed = append(c.lightState.missed, n.Info.NodeGUID)
		case work.OpLightProbe: // what was silent before may still be
		case work.OpGetLFT:
			if l := c.Fabric.Nodes[it.Node()].LFT; l != nil {
				forward.BitSet(&l.Suspect, int(it.Extra()))
			}
			c.lightState.auditAt = c.Now
		default:
			c.lightState.now = true
		}
	})
	c.lightState.auditing = false
	c.enter(notice.PhaseIdle)
}

func (c *Core) onLightSwitch(it work.Item, comp *mad.Completion) {
	n := &c.Fabric.Nodes[it.Node()]
	n.Flags &^= topo.NodeLight
	var sw smp.SwitchInfo
	err := work.Answer(comp)
	if err == nil {
		err = sw.Decode(smp.Data(comp.MAD))
	}
	w := func() string { return c.Fabric.Where(it.Node(), -1).String() }
	switch {
	case err != nil:
		c.askAround(it.Node(), "a light sweep got no answer from "+w())
	case sw.PortStateChange:
		c.askRegion(it.Node(), "a port changed state at "+w())
	case n.LFT != nil && sw.LinearFDBTop != n.LFT.Top:
		c.AskFullSweep("LinearFDBTop changed at " + w())
	}
}

// maxSilent is up to how many switches may be silent at a time for a sweep of
// what is around them; with more a full one is as cheap.
const maxSilent = 8

// askAround wants the neighbours of a silent switch to be looked at: if it is
// dead they say that their links to it are down, and no more needs to be read.
func (c *Core) askAround(n int32, why string) {
	f := c.Fabric
	g := f.Nodes[n].Info.NodeGUID
	around := 0
	for i := range f.NodePorts(n) {
		if q := f.PortOf(n, uint8(i)).Peer; i > 0 && q.Node >= 0 && q.Node != n && f.Nodes[q.Node].IsSwitch() {
			c.suspect(f.Nodes[q.Node].Info.NodeGUID, wholeSwitch)
			around++
		}
	}
	if around == 0 || len(c.lightState.mute) >= maxSilent {
		c.AskFullSweep(why)
		return
	}
	c.lightState.mute = append(c.lightState.mute, muteSwitch{g, slices.Clone(f.Path(f.Nodes[n].Path))})
	c.AskSweep(why)
}

// muteSwitch is a switch that a light sweep got no answer from.
type muteSwitch struct {
	guid ib.GUID
	path []byte // by which it was asked
}

// settleMute decides about the switches that did not answer, after their
// neighbours were looked at. One that is gone is no matter. One that is now
// reached by another way was perhaps only behind a dead one: the next light
// sweep, at once, will tell. Any other needs a full sweep.
func (c *Core) settleMute() {
	f := c.Fabric
	for _, m := range c.lightState.mute {
		n, ok := f.Find(m.guid)
		switch {
		case !ok || f.Nodes[n].Flags&topo.NodeGone != 0:
		case bytes.Equal(m.path, f.Path(f.Nodes[n].Path)):
			c.giveUp(f.Where(n, -1).String() + " is linked and did not answer")
		default:
			c.lightState.now = true
		}
	}
	c.lightState.mute = c.lightState.mute[:0]
}

func (c *Core) onLightProbe(it work.Item, comp *mad.Completion) {
	f, at := c.Fabric, ref{Node: it.Node(), Port: it.Port()}
	known := f.Self.Node
	if at.Node >= 0 {
		known = f.Port(at).Peer.Node
	}
	var ni smp.NodeInfo
	err := work.Answer(comp)
	if err == nil {
		if err = ni.Decode(smp.Data(comp.MAD)); err == nil {
			err = saneNodeInfo(&ni, at.Node < 0)
		}
	}
	switch {
	case err == nil:
		if known >= 0 {
			c.absent.Heard(f.Nodes[known].Info.NodeGUID)
		}
		c.AskFullSweep("what did not answer before does now: " + f.Behind(at).String())
	case known >= 0 && f.Nodes[known].Flags&topo.NodeUnseen != 0:
		c.absent.Silent(f.Nodes[known].Info.NodeGUID)
		if _, more := c.mkeys.Guess(at, it.Extra()+1); more {
			c.Add(work.Make(work.OpLightProbe, at.Node, at.Port, it.Extra()+1))
		}
	}
}

// onLightPort looks at our own port, which no switch reports when its cable
// is gone.
func (c *Core) onLightPort(it work.Item, comp *mad.Completion) {
	var pi smp.PortInfo
	p := c.Fabric.PortOf(it.Node(), it.Port())
	if work.Answer(comp) != nil || pi.Decode(smp.Data(comp.MAD)) != nil {
		c.AskFullSweep("our own port does not answer")
		return
	}
	if pi.PortState != p.Info.PortState || pi.LID != p.Info.LID || pi.MasterSMLID != p.Info.MasterSMLID {
		c.AskFullSweep("our own port changed")
	}
}

// startAudit reads the blocks again of which an older copy may have been
// delivered late.
func (c *Core) startAudit() {
	if c.Fabric == nil || c.Fabric.Graph == nil {
		return
	}
	c.enter(notice.PhaseLight)
	c.lightState.auditing = true
	for _, ni := range c.Fabric.SwitchNode {
		l := c.Fabric.Nodes[ni].LFT
		if l == nil || c.Fabric.Nodes[ni].Flags&topo.NodeUnseen != 0 {
			continue
		}
		for b := 0; b < len(l.Suspect)*64; b++ {
			if forward.BitGet(l.Suspect, b) && forward.BitGet(l.Known, b) {
				c.Add(work.Make(work.OpGetLFT, ni, 0, uint32(b)))
			}
		}
		l.Suspect = nil
	}
}

func (c *Core) audited(n int32, b int, data *[route.BlockLen]byte) {
	l := c.Fabric.Nodes[n].LFT
	if at := b * route.BlockLen; at+route.BlockLen <= len(l.Row) && [route.BlockLen]byte(l.Row[at:at+route.BlockLen]) == *data {
		return
	}
	l.Set(b, data, nil)
	c.Notify(notice.Notice{
		Kind: notice.KindForeignChange, Level: notice.Warn, Where: c.Fabric.Where(n, -1),
		Text: "a block of its forwarding table is not what was written; it is written again",
	})
	c.AskFullSweep("a forwarding table is not what was written")
}
