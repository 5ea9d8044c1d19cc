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
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
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
	u := c.absent.nodes[g]
	if u == nil {
		u = &unseen{since: c.Now, owes: mad.Never}
		c.absent.nodes[g] = u
	}
	return u
}

// silent notes that a node was asked in vain.
func (u *unseen) silent(now mad.Time) { u.asked, u.heard = now, false }

// sendsNothing reports whether an item is about an unseen node, which is not asked.
func (c *Core) sendsNothing(it work.Item) bool {
	n := it.Node()
	if n < 0 || c.Fabric.Nodes[n].Flags&topo.NodeUnseen == 0 {
		return false
	}
	switch it.Op() {
	case work.OpSetSwitch, work.OpSetPort, work.OpPKeys, work.OpSetPKeys, work.OpGetVPKeys, work.OpSetVPKeys, work.OpArm, work.OpActive, work.OpDown, work.OpGetLFT, work.OpSetLFT, work.OpGetMFT, work.OpSetMFT,
		work.OpGetSL, work.OpSetSL, work.OpGetArb, work.OpSetArb, work.OpPortAgain, work.OpLightSwitch, work.OpLightDesc:
		return true
	}
	return false
}

// keeps reports whether nodes of the last fabric stand for those that do not answer.
func (c *Core) keeps() bool {
	return !c.Region && c.State == subnet.Master && c.Last != nil && c.Last != c.Fabric && c.Last.Graph != nil && !c.Config.PlanOnly
}

// wasBehind is the port of the last fabric that r, of this one, was linked to. The link is
// the same one: it has not come up anew since.
func (c *Core) wasBehind(r ref) (ref, bool) {
	if !c.keeps() {
		return subnet.NoRef(), false
	}
	if r.Node < 0 {
		return c.Last.Self, true
	}
	n := &c.Fabric.Nodes[r.Node]
	i, ok := c.Last.Find(n.Info.NodeGUID)
	if !ok || r.Port > c.Last.Nodes[i].Info.NumPorts || c.Last.Nodes[i].Info.NodeType != n.Info.NodeType {
		return subnet.NoRef(), false
	}
	was, now := c.Last.PortOf(i, r.Port), c.Fabric.Port(r)
	if was.Peer.Node < 0 || !now.Has(topo.PortKnown) || !now.LinkUp() || now.Info.PortState < min(was.Info.PortState, ib.StateActive) {
		return subnet.NoRef(), false
	}
	// A port of a switch that was left out has no link of the subnet, but a cable.
	return was.Peer, was.Has(topo.PortLinked) || !c.Last.Nodes[was.Peer.Node].OK() || !c.Last.Nodes[i].OK()
}

// ledTo reports whether the link at a port has led to another one since before.
func (c *Core) ledTo(from, to ref) bool {
	was, ok := c.wasBehind(from)
	return ok && was.Port == to.Port && c.Last.Nodes[was.Node].Info.NodeGUID == c.Fabric.Nodes[to.Node].Info.NodeGUID
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
func (c *Core) believed(at topo.PortID, was, now nature) bool {
	if was == now {
		delete(c.absent.asOther, at)
		return true
	}
	x := c.absent.asOther[at]
	if x.nature != now {
		x = claim{nature: now}
	}
	x.times++
	c.absent.asOther[at] = x
	return x.times >= claimTimes
}

// changedNature reports whether a PortInfo cannot be that of p, which was read before.
func (c *Core) changedNature(p *topo.Port, pi *smp.PortInfo) bool {
	of := func(i *smp.PortInfo) nature {
		return nature{uint32(i.MTUCap)<<8 | uint32(i.VLCap), uint32(i.LinkWidthSupported)<<8 | uint32(i.LinkSpeedSupported), 0}
	}
	return !c.believed(topo.PortID{Node: p.GUID, Port: p.Num}, of(&p.Info), of(pi))
}

// changedSwitch is changedNature for a switch.
func (c *Core) changedSwitch(n *topo.Node, was, now *smp.SwitchInfo) bool {
	of := func(i *smp.SwitchInfo) nature {
		return nature{uint32(i.LinearFDBCap), uint32(i.MulticastFDBCap), 0}
	}
	return !c.believed(topo.PortID{Node: n.Info.NodeGUID, Port: 255}, of(was), of(now))
}

// lastNode is a node as it was in the last fabric, nil if it was not there.
func (c *Core) lastNode(n int32) *topo.Node {
	if !c.keeps() {
		return nil
	}
	i, ok := c.Last.Find(c.Fabric.Nodes[n].Info.NodeGUID)
	if !ok || c.Last.Nodes[i].Info.NumPorts != c.Fabric.Nodes[n].Info.NumPorts || c.Last.Nodes[i].Info.NodeType != c.Fabric.Nodes[n].Info.NodeType {
		return nil
	}
	return &c.Last.Nodes[i]
}

// lastPort is a port as it was in the last fabric, nil if it was not read then.
func (c *Core) lastPort(n int32, num uint8) *topo.Port {
	o := c.lastNode(n)
	if o == nil {
		return nil
	}
	if p := &c.Last.Ports[int(o.First)+int(num)]; p.Has(topo.PortKnown) {
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
		i, _ := c.Last.Find(c.Fabric.Nodes[from.Node].Info.NodeGUID)
		if c.Last.PortOf(i, from.Port).Info.PortState < ib.StateArmed {
			return nil
		}
	}
	o := &c.Last.Nodes[was.Node]
	of := func(g ib.GUID, i *smp.NodeInfo, num uint8) nature {
		if from.Node < 0 {
			num = 0
		}
		return nature{uint32(g >> 32), uint32(g), uint32(i.NodeType)<<16 | uint32(i.NumPorts)<<8 | uint32(num)}
	}
	at := topo.PortID{Node: c.Config.PortGUID, Port: 254}
	if from.Node >= 0 {
		at = topo.PortID{Node: ^c.Fabric.Nodes[from.Node].Info.NodeGUID, Port: from.Port} // not as of its own ports
	}
	if c.believed(at, of(o.Info.NodeGUID, &o.Info, was.Port), of(ni.NodeGUID, ni, ni.LocalPortNum)) {
		return nil
	}
	return fmt.Errorf("it says that it is node %v, and has been node %v since its link came up", ni.NodeGUID, o.Info.NodeGUID)
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
	if _, found := c.Fabric.Find(g); found {
		return false
	}
	if _, ok := c.Last.Find(g); !ok {
		return false
	}
	n := &c.Fabric.Nodes[from.Node]
	i, ok := c.Last.Find(n.Info.NodeGUID)
	if !ok || from.Port > c.Last.Nodes[i].Info.NumPorts {
		return true
	}
	p := c.Last.PortOf(i, from.Port)
	return p.Peer.Node < 0 || p.Has(topo.PortBadPeer) || c.Last.Nodes[p.Peer.Node].Info.NodeGUID != g
}

// lateFound takes the nodes that say that they are one which was elsewhere, now that this
// place was looked at. It reports whether there is more to ask.
func (c *Core) lateFound() bool {
	list := c.absent.late
	c.absent.late = nil
	for i := range list {
		c.found(list[i].from, &list[i].ni, list[i].used)
	}
	return c.Pending > 0
}

// askedBefore reports whether nobody answered behind r a short while ago, and the light
// sweeps will tell when somebody does. Sweeps that are about something else do not wait for
// the same silence again.
func (c *Core) askedBefore(r ref) bool {
	b, ok := c.wasBehind(r)
	if !ok || c.Config.SweepInterval <= 0 {
		return false
	}
	u := c.absent.nodes[c.Last.Nodes[b.Node].Info.NodeGUID]
	return u != nil && !u.heard && c.Now < u.asked.Add(c.Config.SweepInterval+c.Config.SweepInterval/2)
}

// silentBehind notes silence behind r, of a node that was there.
func (c *Core) silentBehind(r ref) {
	if b, ok := c.wasBehind(r); ok {
		c.unseenAs(c.Last.Nodes[b.Node].Info.NodeGUID).silent(c.Now)
	}
}

// keepUnseen puts the nodes into the fabric that do not answer and about which there is no
// evidence. It reports whether that led to further questions.
func (c *Core) keepUnseen() bool {
	if !c.keeps() {
		return false
	}
	f, own := c.Fabric, c.Last.Self
	if len(f.Nodes) == 0 {
		if own.Node < 0 {
			return false
		}
		n := c.keepNode(own, f.AddPath(nil), subnet.NoRef())
		f.Self = ref{Node: n, Port: own.Port}
		c.askThrough(n)
		if c.Pending > 0 {
			return true
		}
	}
	if c.keepParts() {
		return true
	}
	for more := true; more && c.Pending == 0; {
		more = c.keepSilent()
	}
	return c.Pending > 0
}

// keepSilent keeps what is behind ports where nobody answers, one step farther. It reports
// whether that brought nodes.
func (c *Core) keepSilent() bool {
	f := c.Fabric
	type link struct{ at, was ref }
	var silent []link
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortSilent) || p.Has(topo.PortBadPeer) || p.Peer != subnet.NoRef() {
			continue
		}
		at := ref{Node: p.Node, Port: p.Num}
		if was, ok := c.wasBehind(at); ok {
			silent = append(silent, link{at, was})
			if f.Nodes[p.Node].Flags&topo.NodeUnseen == 0 && !p.Has(topo.PortAsked) {
				p.Flags |= topo.PortAsked // the link may have gone down after its port was read
				c.Add(work.Make(work.OpPortInfo, p.Node, p.Num, 0))
			}
		}
	}
	if c.Pending > 0 {
		return false
	}
	before := len(f.Nodes)
	for _, l := range silent {
		c.keepBehind(l.at, l.was)
	}
	return len(f.Nodes) > before
}

// keepBehind keeps the node behind a silent port.
func (c *Core) keepBehind(at, was ref) {
	f := c.Fabric
	o := &c.Last.Nodes[was.Node]
	n, found := f.Find(o.Info.NodeGUID)
	switch {
	case !found:
		n = c.keepNode(was, f.AddPath(c.Fabric.Hop(at)), at)
		c.Fabric.Join(at, ref{Node: n, Port: was.Port})
		c.askThrough(n)
		return
	case !o.IsSwitch() && !f.PortOf(n, was.Port).Has(topo.PortKnown): // reached by another port of it
		q := f.PortOf(n, was.Port)
		q.Keep(c.Last.Port(was))
		q.Path = f.AddPath(c.Fabric.Hop(at))
	case f.Nodes[n].Flags&topo.NodeUnseen == 0:
		return // it answers elsewhere: it is this cable that does not carry SMPs
	}
	c.Fabric.Join(at, ref{Node: n, Port: was.Port})
}

// keepNode puts a node of the last fabric into this one, as it was last read.
func (c *Core) keepNode(was ref, path topo.PathRef, via ref) int32 {
	f := c.Fabric
	o := &c.Last.Nodes[was.Node]
	u := c.unseenAs(o.Info.NodeGUID)
	i := f.AddNode(&o.Info, path)
	n := &f.Nodes[i]
	n.Via, n.Switch, n.Desc = via, o.Switch, o.Desc
	n.Info.LocalPortNum = was.Port
	n.Flags = o.Flags&(topo.NodeSwitchInfo|topo.NodeDesc) | topo.NodeUnseen
	if !o.IsSwitch() {
		f.PortOf(i, was.Port).Keep(c.Last.Port(was))
		f.PortOf(i, was.Port).Path = path
		n.Info.PortGUID = f.PortOf(i, was.Port).GUID
		return i
	}
	for k := range c.Last.NodePorts(was.Node) {
		f.PortOf(i, uint8(k)).Keep(c.Last.PortOf(was.Node, uint8(k)))
	}
	f.PortOf(i, 0).Path = path
	// Our first switch stays: without it there is no subnet.
	near := via.Node < 0 || via.Node == f.Self.Node
	if !o.OK() || u.owes != mad.Never && c.Now >= u.owes.Add(owesTime) && !near {
		c.Fabric.Exclude(i, "it does not answer, and needs other tables than it has")
	}
	return i
}

// askThrough asks the nodes that are behind an unseen one, of those not found yet.
func (c *Core) askThrough(n int32) {
	f := c.Fabric
	for k := 1; k <= int(f.Nodes[n].Info.NumPorts); k++ {
		at := ref{Node: n, Port: uint8(k)}
		if p := f.Port(at); !p.Has(topo.PortKnown) || !p.LinkUp() || p.Peer != subnet.NoRef() || at == f.Nodes[n].Via {
			continue
		}
		was, ok := c.wasBehind(at)
		if !ok && (at == f.Self || c.absent.veiled) { // somebody may be there who has not answered yet
			c.askBehind(n, uint8(k))
			continue
		}
		if !ok {
			switch {
			case at == f.Self: // whoever is there may just have fallen silent too
				c.askBehind(n, uint8(k))
			case !f.Port(at).Has(topo.PortLoop):
				f.Port(at).Info.PortState = ib.StateDown // nothing that we know of is there
			}
			continue
		}
		m, found := f.Find(c.Last.Nodes[was.Node].Info.NodeGUID)
		if !found {
			c.askBehind(n, uint8(k))
			continue
		}
		to := ref{Node: m, Port: was.Port}
		switch q := f.Port(to); {
		case !q.Has(topo.PortKnown) && f.Nodes[m].Info.NodeType != ib.NodeSwitch:
			c.askBehind(n, uint8(k))
		case q.Peer == subnet.NoRef() && c.ledTo(to, at):
			c.Fabric.Join(at, to)
		default: // the far end says that the link is down, or leads elsewhere
			f.Port(at).Info.PortState = ib.StateDown
		}
	}
}

// keepParts restores what could not be read of nodes that say who they are: they were here
// before. It reports whether there is more to ask.
func (c *Core) keepParts() bool {
	f := c.Fabric
	for i := range f.Nodes {
		n := &f.Nodes[i]
		j, ok := c.Last.Find(n.Info.NodeGUID)
		if !ok || n.Flags&topo.NodeUnseen != 0 {
			continue
		}
		o := &c.Last.Nodes[j]
		if o.Info.NumPorts != n.Info.NumPorts || o.Info.NodeType != n.Info.NodeType {
			continue
		}
		if n.Flags&topo.NodeNonsense != 0 {
			c.disbelieve(int32(i))
		}
		if n.IsSwitch() && n.Flags&topo.NodeSwitchInfo == 0 && o.Flags&topo.NodeSwitchInfo != 0 {
			n.Switch = o.Switch
			n.Flags |= topo.NodeSwitchInfo
		}
		for k := range f.NodePorts(int32(i)) {
			p := f.PortOf(int32(i), uint8(k))
			if p.Has(topo.PortKnown) || !n.IsSwitch() && !p.Path.Set {
				continue
			}
			was := c.Last.PortOf(j, uint8(k))
			if !was.Has(topo.PortKnown) {
				continue
			}
			mkey := p.MKey
			p.Keep(was)
			if mkey != 0 {
				p.MKey = mkey
			}
			at := ref{Node: int32(i), Port: uint8(k)}
			if p.Num != 0 && p.LinkUp() && p.Peer == subnet.NoRef() && (n.IsSwitch() || at == f.Self) {
				c.askBehind(at.Node, at.Port)
			}
		}
	}
	return c.Pending > 0
}

// disbelieve forgets all that a node said in this discovery of which a part cannot be true.
func (c *Core) disbelieve(n int32) {
	nd := &c.Fabric.Nodes[n]
	nd.Flags &^= topo.NodeNonsense | topo.NodeSwitchInfo
	for k := range c.Fabric.NodePorts(n) {
		p := c.Fabric.PortOf(n, uint8(k))
		if o := c.lastPort(n, uint8(k)); o != nil && p.Has(topo.PortKnown) {
			p.Flags &^= topo.PortKnown
		}
	}
}

// settleUnseen forgets what is known of silences that are over, and tells of them.
func (c *Core) settleUnseen() {
	var over []int32
	for g, u := range c.absent.nodes {
		n, ok := c.Fabric.Find(g)
		if ok && c.Fabric.Nodes[n].Flags&topo.NodeUnseen != 0 {
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
		u := c.absent.nodes[c.Fabric.Nodes[n].Info.NodeGUID]
		c.Notify(notice.Notice{
			Kind: notice.KindNodeAnswers, Level: notice.Info, Where: c.Fabric.Where(n, -1), Dur: c.Now.Sub(u.since),
			Text: "answers again; it stayed in the subnet as it was last read",
		})
	}
	maps.DeleteFunc(c.absent.nodes, func(_ ib.GUID, u *unseen) bool { return u.over })
}

// unsure lists the end ports that have no LID because they, or the switch before them, do
// not answer, or not as they should, and the virtual ports that were behind them.
func (c *Core) unsure() (list []ib.GUID) {
	f := c.Fabric
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortEnd) || p.LID != 0 {
			continue
		}
		if f.Nodes[p.Node].Flags&(topo.NodeUnseen|topo.NodeOut) != 0 || p.Peer.Node >= 0 && f.Nodes[p.Peer.Node].Flags&(topo.NodeUnseen|topo.NodeOut) != 0 {
			list = append(list, p.GUID)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	list = append(list, c.vports.Unsure(list)...)
	slices.Sort(list)
	return slices.Compact(list)
}

// silence is what Status tells of nodes that do not answer.
func (c *Core) silence() (n int, own bool) {
	if c.Fabric == nil {
		return 0, false
	}
	for i := range c.Fabric.Nodes {
		if c.Fabric.Nodes[i].Flags&(topo.NodeUnseen|topo.NodeGone) == topo.NodeUnseen {
			n++
			own = own || c.Fabric.Self.Node == int32(i)
		}
	}
	return n, own
}

// skip finishes an item about a node that is not asked, because it does not answer. What it
// is to have is compared again when it is read. A switch that needs tables owes them.
func (c *Core) skip(it work.Item) {
	n := &c.Fabric.Nodes[it.Node()]
	c.Finish()
	switch it.Op() {
	case work.OpGetLFT, work.OpSetLFT, work.OpGetMFT, work.OpSetMFT, work.OpGetSL, work.OpSetSL, work.OpGetArb, work.OpSetArb:
	case work.OpSetSwitch:
		if it.Extra() == 1 {
			return
		}
	case work.OpPKeys, work.OpSetPKeys, work.OpGetVPKeys, work.OpSetVPKeys:
		c.pkeys.Skipped(it)
		return
	default:
		return
	}
	if u := c.unseenAs(n.Info.NodeGUID); u.owes == mad.Never {
		u.owes = c.Now
	}
	c.Errs++
	c.install.NotTaken()
	p0 := c.Fabric.PortOf(it.Node(), 0)
	if p0.Has(topo.PortFailed) {
		return // it is told
	}
	p0.Flags |= topo.PortFailed
	c.Problem(notice.Where{}, notice.Notice{
		Kind: notice.KindSetFailed, Level: notice.Warn, Where: c.Fabric.Where(it.Node(), -1),
		Text: "it needs other tables and does not answer; if that lasts for " + owesTime.String() + " it is left out of the routing",
	})
}
