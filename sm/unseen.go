package sm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/subnet"
)

// A node that does not answer has not left the subnet: its agent may be busy, locked with
// somebody else's M_Key, or behind a flood, while its links carry data. What hosts own (LIDs,
// memberships, services) ends on evidence about them, never because we could not see them.
//
//   - Evidence that a node left: its last link is down, came up anew (Init), leads to another
//     node, or nothing is left that joins it with us.
//   - No evidence: a link that stayed up since the node was last read, with silence or
//     nonsense behind it.
//
// A discovery therefore keeps every node of the last fabric for which there is no evidence,
// as it was last read. It is *unseen*: it is routed to and through as before, and sent
// nothing but a probe in each light sweep. Our own node is no exception. Agents behind an
// unseen switch are asked through it, because an agent that is locked or busy does not keep
// SMPs from passing.
//
// Routing around an unseen switch costs the hosts behind it their paths, so it is done only
// where keeping the switch costs others theirs: it owes tables for longer than owesTime. Then
// it is left out, as one is that was never read. Its nodes remain in the fabric without LIDs
// in use, and what their hosts own remains too (subnet.Snapshot.Unsure).

// owesTime is how long an unseen switch may need new tables before it is left out.
const owesTime = 10 * time.Second

// unseen is what is known about a node that does not answer.
type unseen struct {
	since mad.Time // first silence
	asked mad.Time // last silence
	heard bool     // it answers: the next sweep asks it
	kept  bool     // it was put into a fabric
	over  bool     // it answers, or left
	owes  mad.Time // since when it needs new tables; mad.Never: it does not
}

// unseenAs is what is known about an unseen node.
func (c *Core) unseenAs(g ib.GUID) *unseen {
	u := c.unseen[g]
	if u == nil {
		u = &unseen{since: c.now, owes: mad.Never}
		c.unseen[g] = u
	}
	return u
}

// silent notes that a node was asked in vain.
func (u *unseen) silent(now mad.Time) { u.asked, u.heard = now, false }

// sendsNothing reports whether an item is about an unseen node, which is not asked.
func (c *Core) sendsNothing(it item) bool {
	n := it.node()
	if n < 0 || c.f.nodes[n].flags&nUnseen == 0 {
		return false
	}
	switch it.op() {
	case opSetSwitch, opSetPort, opPKeys, opSetPKeys, opGetVPKeys, opSetVPKeys, opArm, opActive, opDown, opGetLFT, opSetLFT, opGetMFT, opSetMFT,
		opGetSL, opSetSL, opGetArb, opSetArb, opPortAgain, opLightSwitch, opLightDesc:
		return true
	}
	return false
}

// keeps reports whether nodes of the last fabric stand for those that do not answer.
func (c *Core) keeps() bool {
	return !c.reg.on && c.state == subnet.Master && c.last != nil && c.last != c.f && c.last.graph != nil && !c.cfg.PlanOnly
}

// wasBehind is the port of the last fabric that r, of this one, was linked to. The link is
// the same one: it has not come up anew since.
func (c *Core) wasBehind(r ref) (ref, bool) {
	if !c.keeps() {
		return subnet.NoRef, false
	}
	if r.Node < 0 {
		return c.last.self, true
	}
	n := &c.f.nodes[r.Node]
	i, ok := c.last.find(n.info.NodeGUID)
	if !ok || r.Port > c.last.nodes[i].info.NumPorts || c.last.nodes[i].info.NodeType != n.info.NodeType {
		return subnet.NoRef, false
	}
	was, now := c.last.portOf(i, r.Port), c.f.port(r)
	if was.peer.Node < 0 || !now.has(pKnown) || !now.upPhys() || now.info.PortState < min(was.info.PortState, ib.StateActive) {
		return subnet.NoRef, false
	}
	// A port of a switch that was left out has no link of the subnet, but a cable.
	return was.peer, was.has(pLinked) || !c.last.nodes[was.peer.Node].ok() || !c.last.nodes[i].ok()
}

// ledTo reports whether the link at a port has led to another one since before.
func (c *Core) ledTo(from, to ref) bool {
	was, ok := c.wasBehind(from)
	return ok && was.Port == to.Port && c.last.nodes[was.Node].info.NodeGUID == c.f.nodes[to.Node].info.NodeGUID
}

// errNature: what a port or switch can do does not change while it runs.
var errNature = errors.New("its capabilities are other ones than before")

// nature is who a node is, or what a port or switch can do, as numbers that are equal if it is.
type nature [3]uint32

// claim is another nature than the one known, and how often it was told in a row.
type claim struct {
	nature nature
	times  int
}

// claimTimes is how often another nature is told before it is believed.
const claimTimes = 3

// believed reports whether a port or switch, port 255, that was of one nature says for the
// third time that it is of another. Random bytes never do.
func (c *Core) believed(at nodePort, was, now nature) bool {
	if was == now {
		delete(c.asOther, at)
		return true
	}
	x := c.asOther[at]
	if x.nature != now {
		x = claim{nature: now}
	}
	x.times++
	c.asOther[at] = x
	return x.times >= claimTimes
}

// changedNature reports whether a PortInfo cannot be that of p, which was read before.
func (c *Core) changedNature(p *port, pi *smp.PortInfo) bool {
	of := func(i *smp.PortInfo) nature {
		return nature{uint32(i.MTUCap)<<8 | uint32(i.VLCap), uint32(i.LinkWidthSupported)<<8 | uint32(i.LinkSpeedSupported), 0}
	}
	return !c.believed(nodePort{p.guid, p.num}, of(&p.info), of(pi))
}

// changedSwitch is changedNature for a switch.
func (c *Core) changedSwitch(n *node, was, now *smp.SwitchInfo) bool {
	of := func(i *smp.SwitchInfo) nature {
		return nature{uint32(i.LinearFDBCap), uint32(i.MulticastFDBCap), 0}
	}
	return !c.believed(nodePort{n.info.NodeGUID, 255}, of(was), of(now))
}

// lastNode is a node as it was in the last fabric, nil if it was not there.
func (c *Core) lastNode(n int32) *node {
	if !c.keeps() {
		return nil
	}
	i, ok := c.last.find(c.f.nodes[n].info.NodeGUID)
	if !ok || c.last.nodes[i].info.NumPorts != c.f.nodes[n].info.NumPorts || c.last.nodes[i].info.NodeType != c.f.nodes[n].info.NodeType {
		return nil
	}
	return &c.last.nodes[i]
}

// lastPort is a port as it was in the last fabric, nil if it was not read then.
func (c *Core) lastPort(n int32, num uint8) *port {
	o := c.lastNode(n)
	if o == nil {
		return nil
	}
	if p := &c.last.ports[int(o.first)+int(num)]; p.has(pKnown) {
		return p
	}
	return nil
}

// sameAsBefore refuses what the node behind from says about itself if the link has been up
// since it said something else: a node does not become another one, nor do cables move, while
// a link is up. One that says the same three times is believed: what it said before may have
// been wrong.
func (c *Core) sameAsBefore(from ref, ni *smp.NodeInfo) error {
	was, ok := c.wasBehind(from)
	if !ok {
		return nil
	}
	if from.Node >= 0 {
		i, _ := c.last.find(c.f.nodes[from.Node].info.NodeGUID)
		if c.last.portOf(i, from.Port).info.PortState < ib.StateArmed {
			return nil
		}
	}
	o := &c.last.nodes[was.Node]
	of := func(g ib.GUID, i *smp.NodeInfo, num uint8) nature {
		if from.Node < 0 {
			num = 0
		}
		return nature{uint32(g >> 32), uint32(g), uint32(i.NodeType)<<16 | uint32(i.NumPorts)<<8 | uint32(num)}
	}
	at := nodePort{c.cfg.PortGUID, 254}
	if from.Node >= 0 {
		at = nodePort{^c.f.nodes[from.Node].info.NodeGUID, from.Port} // not as of its own ports
	}
	if c.believed(at, of(o.info.NodeGUID, &o.info, was.Port), of(ni.NodeGUID, ni, ni.LocalPortNum)) {
		return nil
	}
	return fmt.Errorf("it says that it is node %v, and has been node %v since its link came up", ni.NodeGUID, o.info.NodeGUID)
}

// lateNode is a node that says that it is one which was elsewhere.
type lateNode struct {
	from ref
	ni   smp.NodeInfo
	used ib.MKey
}

// elsewhere reports whether the node with a GUID was in the last fabric and not behind
// from. Where it was is looked at first: a stranger that comes with the GUID of a node that
// is there gets neither its LIDs nor its P_Keys.
func (c *Core) elsewhere(from ref, g ib.GUID) bool {
	if !c.keeps() || from.Node < 0 {
		return false
	}
	if _, found := c.f.find(g); found {
		return false
	}
	if _, ok := c.last.find(g); !ok {
		return false
	}
	n := &c.f.nodes[from.Node]
	i, ok := c.last.find(n.info.NodeGUID)
	if !ok || from.Port > c.last.nodes[i].info.NumPorts {
		return true
	}
	p := c.last.portOf(i, from.Port)
	return p.peer.Node < 0 || p.has(pBadPeer) || c.last.nodes[p.peer.Node].info.NodeGUID != g
}

// lateFound takes the nodes that say that they are one which was elsewhere, now that this
// place was looked at. It reports whether there is more to ask.
func (c *Core) lateFound() bool {
	list := c.late
	c.late = nil
	for i := range list {
		c.found(list[i].from, &list[i].ni, list[i].used)
	}
	return c.pend > 0
}

// askedBefore reports whether nobody answered behind r a short while ago, and the light
// sweeps will tell when somebody does. Sweeps that are about something else do not wait for
// the same silence again.
func (c *Core) askedBefore(r ref) bool {
	b, ok := c.wasBehind(r)
	if !ok || c.cfg.SweepInterval <= 0 {
		return false
	}
	u := c.unseen[c.last.nodes[b.Node].info.NodeGUID]
	return u != nil && !u.heard && c.now < u.asked.Add(c.cfg.SweepInterval+c.cfg.SweepInterval/2)
}

// silentBehind notes silence behind r, of a node that was there.
func (c *Core) silentBehind(r ref) {
	if b, ok := c.wasBehind(r); ok {
		c.unseenAs(c.last.nodes[b.Node].info.NodeGUID).silent(c.now)
	}
}

// keepUnseen puts the nodes into the fabric that do not answer and about which there is no
// evidence. It reports whether that led to further questions.
func (c *Core) keepUnseen() bool {
	if !c.keeps() {
		return false
	}
	f, own := c.f, c.last.self
	if len(f.nodes) == 0 {
		if own.Node < 0 {
			return false
		}
		n := c.keepNode(own, f.addPath(nil), subnet.NoRef)
		f.self = ref{Node: n, Port: own.Port}
		c.askThrough(n)
		if c.pend > 0 {
			return true
		}
	}
	if c.keepParts() {
		return true
	}
	for more := true; more && c.pend == 0; {
		more = c.keepSilent()
	}
	return c.pend > 0
}

// keepSilent keeps what is behind ports where nobody answers, one step farther. It reports
// whether that brought nodes.
func (c *Core) keepSilent() bool {
	f := c.f
	type link struct{ at, was ref }
	var silent []link
	for i := range f.ports {
		p := &f.ports[i]
		if !p.has(pSilent) || p.has(pBadPeer) || p.peer != subnet.NoRef {
			continue
		}
		at := ref{Node: p.node, Port: p.num}
		if was, ok := c.wasBehind(at); ok {
			silent = append(silent, link{at, was})
			if f.nodes[p.node].flags&nUnseen == 0 && !p.has(pAsked) {
				p.flags |= pAsked // the link may have gone down after its port was read
				c.add(mk(opPortInfo, p.node, p.num, 0))
			}
		}
	}
	if c.pend > 0 {
		return false
	}
	before := len(f.nodes)
	for _, l := range silent {
		c.keepBehind(l.at, l.was)
	}
	return len(f.nodes) > before
}

// keepBehind keeps the node behind a silent port.
func (c *Core) keepBehind(at, was ref) {
	f := c.f
	o := &c.last.nodes[was.Node]
	n, found := f.find(o.info.NodeGUID)
	switch {
	case !found:
		n = c.keepNode(was, f.addPath(c.hop(at)), at)
		c.join(at, ref{Node: n, Port: was.Port})
		c.askThrough(n)
		return
	case !o.isSwitch() && !f.portOf(n, was.Port).has(pKnown): // reached by another port of it
		q := f.portOf(n, was.Port)
		q.keep(c.last.port(was))
		q.path = f.addPath(c.hop(at))
	case f.nodes[n].flags&nUnseen == 0:
		return // it answers elsewhere: it is this cable that does not carry SMPs
	}
	c.join(at, ref{Node: n, Port: was.Port})
}

// join notes a link between two ports that are not known to lead elsewhere.
func (c *Core) join(a, b ref) {
	p, q := c.f.port(a), c.f.port(b)
	if p.peer == subnet.NoRef && q.peer == subnet.NoRef {
		p.peer, q.peer = b, a
	}
}

// keepNode puts a node of the last fabric into this one, as it was last read.
func (c *Core) keepNode(was ref, path pathRef, via ref) int32 {
	f := c.f
	o := &c.last.nodes[was.Node]
	u := c.unseenAs(o.info.NodeGUID)
	i := f.addNode(&o.info, path)
	n := &f.nodes[i]
	n.via, n.sw, n.desc = via, o.sw, o.desc
	n.info.LocalPortNum = was.Port
	n.flags = o.flags&(nSwitchInfo|nDesc) | nUnseen
	if !o.isSwitch() {
		f.portOf(i, was.Port).keep(c.last.port(was))
		f.portOf(i, was.Port).path = path
		n.info.PortGUID = f.portOf(i, was.Port).guid
		return i
	}
	for k := range c.last.nodePorts(was.Node) {
		f.portOf(i, uint8(k)).keep(c.last.portOf(was.Node, uint8(k)))
	}
	f.portOf(i, 0).path = path
	// Our first switch stays: without it there is no subnet.
	near := via.Node < 0 || via.Node == f.self.Node
	if !o.ok() || u.owes != mad.Never && c.now >= u.owes.Add(owesTime) && !near {
		c.leaveOut(i, "it does not answer, and needs other tables than it has")
	}
	return i
}

// keep has a port be as it was last read.
func (p *port) keep(o *port) {
	p.info, p.guid, p.mkey, p.pk = o.info, o.guid, o.mkey, o.pk
	p.flags = o.flags & (pKnown | pNoExt | pEnd | pLoop)
}

// askThrough asks the nodes that are behind an unseen one, of those not found yet.
func (c *Core) askThrough(n int32) {
	f := c.f
	for k := 1; k <= int(f.nodes[n].info.NumPorts); k++ {
		at := ref{Node: n, Port: uint8(k)}
		if p := f.port(at); !p.has(pKnown) || !p.upPhys() || p.peer != subnet.NoRef || at == f.nodes[n].via {
			continue
		}
		was, ok := c.wasBehind(at)
		if !ok && (at == f.self || c.veiled) { // somebody may be there who has not answered yet
			c.askBehind(n, uint8(k))
			continue
		}
		if !ok {
			switch {
			case at == f.self: // whoever is there may just have fallen silent too
				c.askBehind(n, uint8(k))
			case !f.port(at).has(pLoop):
				f.port(at).info.PortState = ib.StateDown // nothing that we know of is there
			}
			continue
		}
		m, found := f.find(c.last.nodes[was.Node].info.NodeGUID)
		if !found {
			c.askBehind(n, uint8(k))
			continue
		}
		to := ref{Node: m, Port: was.Port}
		switch q := f.port(to); {
		case !q.has(pKnown) && f.nodes[m].info.NodeType != ib.NodeSwitch:
			c.askBehind(n, uint8(k))
		case q.peer == subnet.NoRef && c.ledTo(to, at):
			c.join(at, to)
		default: // the far end says that the link is down, or leads elsewhere
			f.port(at).info.PortState = ib.StateDown
		}
	}
}

// keepParts restores what could not be read of nodes that say who they are: they were here
// before. It reports whether there is more to ask.
func (c *Core) keepParts() bool {
	f := c.f
	for i := range f.nodes {
		n := &f.nodes[i]
		j, ok := c.last.find(n.info.NodeGUID)
		if !ok || n.flags&nUnseen != 0 {
			continue
		}
		o := &c.last.nodes[j]
		if o.info.NumPorts != n.info.NumPorts || o.info.NodeType != n.info.NodeType {
			continue
		}
		if n.flags&nNonsense != 0 {
			c.disbelieve(int32(i))
		}
		if n.isSwitch() && n.flags&nSwitchInfo == 0 && o.flags&nSwitchInfo != 0 {
			n.sw = o.sw
			n.flags |= nSwitchInfo
		}
		for k := range f.nodePorts(int32(i)) {
			p := f.portOf(int32(i), uint8(k))
			if p.has(pKnown) || !n.isSwitch() && !p.path.set {
				continue
			}
			was := c.last.portOf(j, uint8(k))
			if !was.has(pKnown) {
				continue
			}
			mkey := p.mkey
			p.keep(was)
			if mkey != 0 {
				p.mkey = mkey
			}
			at := ref{Node: int32(i), Port: uint8(k)}
			if p.num != 0 && p.upPhys() && p.peer == subnet.NoRef && (n.isSwitch() || at == f.self) {
				c.askBehind(at.Node, at.Port)
			}
		}
	}
	return c.pend > 0
}

// disbelieve forgets all that a node said in this discovery of which a part cannot be true.
func (c *Core) disbelieve(n int32) {
	nd := &c.f.nodes[n]
	nd.flags &^= nNonsense | nSwitchInfo
	for k := range c.f.nodePorts(n) {
		p := c.f.portOf(n, uint8(k))
		if o := c.lastPort(n, uint8(k)); o != nil && p.has(pKnown) {
			p.flags &^= pKnown
		}
	}
}

// settleUnseen forgets what is known of silences that are over, and tells of them.
func (c *Core) settleUnseen() {
	var over []int32
	for g, u := range c.unseen {
		n, ok := c.f.find(g)
		if ok && c.f.nodes[n].flags&nUnseen != 0 {
			u.kept = true
			continue
		}
		if ok && u.kept {
			over = append(over, n)
		}
		u.over = true
	}
	slices.Sort(over)
	for _, n := range over {
		u := c.unseen[c.f.nodes[n].info.NodeGUID]
		c.out.notify(Notice{
			Kind: KindNodeAnswers, Level: Info, Where: c.f.where(n, -1), Dur: c.now.Sub(u.since),
			Text: "answers again; it stayed in the subnet as it was last read",
		})
	}
	maps.DeleteFunc(c.unseen, func(_ ib.GUID, u *unseen) bool { return u.over })
}

// unsure lists the end ports that have no LID because they, or the switch before them, do
// not answer, or not as they should, and the virtual ports that were behind them.
func (c *Core) unsure() (list []ib.GUID) {
	f := c.f
	for i := range f.ports {
		p := &f.ports[i]
		if !p.has(pEnd) || p.lid != 0 {
			continue
		}
		if f.nodes[p.node].flags&(nUnseen|nOut) != 0 || p.peer.Node >= 0 && f.nodes[p.peer.Node].flags&(nUnseen|nOut) != 0 {
			list = append(list, p.guid)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	ports := list
	for _, a := range c.virt.list {
		if len(a.held) == 0 {
			continue
		}
		if _, ok := slices.BinarySearch(ports, a.port); ok || a.toBeMet() {
			list = append(list, a.held...)
		} else {
			a.held = nil
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// silence is what Status tells of nodes that do not answer.
func (c *Core) silence() (n int, own bool) {
	if c.f == nil {
		return 0, false
	}
	for i := range c.f.nodes {
		if c.f.nodes[i].flags&(nUnseen|nGone) == nUnseen {
			n++
			own = own || c.f.self.Node == int32(i)
		}
	}
	return n, own
}

// skip finishes an item about a node that is not asked, because it does not answer. What it
// is to have is compared again when it is read. A switch that needs tables owes them.
func (c *Core) skip(it item) {
	n := &c.f.nodes[it.node()]
	c.finishItem()
	switch it.op() {
	case opGetLFT, opSetLFT, opGetMFT, opSetMFT, opGetSL, opSetSL, opGetArb, opSetArb:
	case opSetSwitch:
		if it.extra() == 1 {
			return
		}
	case opPKeys, opSetPKeys, opGetVPKeys, opSetVPKeys:
		if h, _, ok := c.pkeyItem(it); ok {
			c.table(h).asked = false
			c.pkeyBackoff(h)
		}
		return
	default:
		return
	}
	if u := c.unseenAs(n.info.NodeGUID); u.owes == mad.Never {
		u.owes = c.now
	}
	c.errs++
	c.lftErrs++
	p0 := c.f.portOf(it.node(), 0)
	if p0.has(pFailed) {
		return // it is told
	}
	p0.flags |= pFailed
	c.problem(Where{}, Notice{
		Kind: KindSetFailed, Level: Warn, Where: c.f.where(it.node(), -1),
		Text: "it needs other tables and does not answer; if that lasts for " + owesTime.String() + " it is left out of the routing",
	})
}
