package discover

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// reread takes the PortInfo of a port that was read before, in a region discovery.
func (d *Discovery) reread(it work.Item, comp *mad.Completion) {
	f := d.Fabric
	n, num := it.Node(), it.Port()
	nd, p := &f.Nodes[n], f.PortOf(n, num)
	var pi smp.PortInfo
	err := work.Answer(comp)
	if err == nil {
		err = pi.Decode(smp.Data(comp.MAD))
	}
	if err != nil || pi.PortState > ib.StateActiveDefer || pi.PortState < ib.StateDown && !(nd.IsSwitch() && num == 0) {
		d.GiveUp("no valid answer from " + f.Where(n, int(num)).String())
		return
	}
	if p.Has(topo.PortKnown) && d.absent.Plausible(p, &pi) != nil {
		d.GiveUp("an invalid answer from " + f.Where(n, int(num)).String())
		return
	}
	old := p.Info
	p.Info = pi
	p.Flags |= topo.PortKnown
	p.Flags &^= topo.PortFailed
	if d.r.give != "" {
		return
	}
	if pi.PortState != old.PortState {
		nd.Flags |= topo.NodeMoved
	}
	if p.Has(topo.PortEnd) {
		d.managerChanged(n, p, &old)
	}
	if f.AgentPort(n, num) == p {
		if pi.MKey != 0 {
			p.MKey = pi.MKey
		}
		if pi.LID != old.LID || pi.MKey != old.MKey {
			d.relook(n)
			nd.Flags |= topo.NodeReset
		}
	}
	switch {
	case num == 0:
	case !p.Has(topo.PortSilent): // else the light sweeps ask it
		d.linkReread(p, old.PortState)
	case pi.PortState != old.PortState:
		d.GiveUp("an earlier sweep had a problem behind " + f.Where(n, int(num)).String())
	}
}

// linkReread looks for changes of the link at a port whose state was old before.
func (d *Discovery) linkReread(p *topo.Port, old ib.PortState) {
	f, at := d.Fabric, ref{Node: p.Node, Port: p.Num}
	was, now := p.Has(topo.PortLinked), p.Info.PortState
	switch {
	case !p.LinkUp():
		if was {
			d.unlink(at)
			d.cut = true
		}
		p.Peer = subnet.NoRef()
		p.Flags &^= topo.PortMeasured | topo.PortProved
		d.needs.Links.KeptOut(at, old != now)
		if at == f.Self {
			d.GiveUp("the link of the manager's port changed")
		}
	case was && now >= old && old >= ib.StateArmed: // a link that goes down comes back in Init
	default:
		peer := p.Peer
		if was && old >= ib.StateArmed {
			d.unlink(at)
		}
		if !d.needs.Links.KeptOut(at, old != now) && p.Peer == subnet.NoRef() { // else the far end found it already
			d.askFarEnd(at, peer)
		}
	}
}

// askFarEnd asks which node is behind a link that came up; peer was there before, if any.
func (d *Discovery) askFarEnd(at, peer ref) {
	f := d.Fabric
	switch {
	case f.Nodes[at.Node].IsSwitch():
		d.askBehind(at.Node, at.Port)
	case at == f.Self:
		d.GiveUp("the link of the manager's port changed")
	case peer.Node < 0:
	case f.Nodes[peer.Node].Flags&topo.NodeRead != 0:
		d.Add(work.Make(work.OpReread, peer.Node, peer.Port, 0))
	default:
		d.suspicious(peer.Node)
	}
}

// relook has a switch whose agent was reset read with all its ports.
func (d *Discovery) relook(n int32) {
	if d.Fabric.Nodes[n].IsSwitch() {
		d.suspicious(n)
	} else {
		d.Touch(n)
	}
}

// suspicious has a switch of the region read, unless it was read already.
func (d *Discovery) suspicious(n int32) {
	d.Touch(n)
	nd := &d.Fabric.Nodes[n]
	if !nd.IsSwitch() || nd.Flags&(topo.NodeSuspect|topo.NodeNew) != 0 {
		return
	}
	if !d.plainButRoute(n) {
		d.GiveUp("an earlier sweep had a problem with " + d.Fabric.Where(n, -1).String())
		return
	}
	nd.Flags |= topo.NodeSuspect
}

// unlink removes a link that is down, or was down, from the subnet.
func (d *Discovery) unlink(a ref) {
	f := d.Fabric
	b := f.Unlink(a)
	if a == f.Self || b == f.Self {
		d.GiveUp("the link of the manager's port changed")
		return
	}
	d.r.cut = append(d.r.cut, [2]ref{a, b})
	d.needs.Links.LinkFailed(a, b)
	d.suspicious(a.Node)
	d.suspicious(b.Node)
}

// managerChanged notes whether a port began or ceased to be that of a manager.
func (d *Discovery) managerChanged(n int32, p *topo.Port, old *smp.PortInfo) {
	at := ref{Node: n, Port: p.Num}
	if at == d.Fabric.Self {
		return
	}
	switch {
	case d.IsManager(p):
		d.Add(work.Make(work.OpSMInfo, n, p.Num, 0))
	case old.CapabilityMask.Has(ib.CapIsSM):
		d.needs.Managers.Gone(at)
	}
}

// linkUp takes the answer of a known node behind a link that came up.
func (d *Discovery) linkUp(from, to ref) {
	f := d.Fabric
	nd, q := &f.Nodes[to.Node], f.Port(to)
	d.Touch(to.Node)
	if q.Peer != subnet.NoRef() && q.Peer != from {
		d.GiveUp("two links lead to " + f.Where(to.Node, int(to.Port)).String())
		return
	}
	if !nd.IsSwitch() {
		if nd.Path.Set || q.Peer != subnet.NoRef() {
			return
		}
		nd.Path, nd.Via = f.AddPath(f.Hop(from)), from
		return
	}
	if !nd.Path.Set {
		nd.Path, nd.Via = f.AddPath(f.Hop(from)), from
	}
	if q.Peer == subnet.NoRef() {
		// The answer proves the far end as well, as in a full discovery, and
		// that end came up anew too.
		q.Peer = from
		q.Flags |= topo.PortProved
		q.Info.PortState = ib.StateInit
	}
	switch {
	case nd.Flags&topo.NodeNew != 0:
	case nd.Flags&topo.NodeSuspect == 0:
		d.suspicious(to.Node)
	case nd.Flags&topo.NodeRead != 0:
		d.Add(work.Make(work.OpReread, to.Node, to.Port, 0)) // the port may still have been down when it was read
	}
}

// relink marks the links of the region that both ends agree on.
func (d *Discovery) relink() {
	f := d.Fabric
	for i := 0; i < len(d.r.nodes); i++ {
		n := d.r.nodes[i]
		ports := f.NodePorts(n)
		for k := range ports {
			p := &ports[k]
			if p.Has(topo.PortLinked) || p.Peer == subnet.NoRef() || !f.Linkable(p) {
				continue
			}
			p.Flags |= topo.PortLinked
			f.Port(p.Peer).Flags |= topo.PortLinked
			d.Touch(p.Peer.Node)
		}
	}
}
