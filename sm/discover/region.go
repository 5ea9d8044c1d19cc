package discover

import (
	"heddle/ib/smp"
	"heddle/sm/agenda"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// region is the state of the discovery of a region.
type region struct {
	give  string  // why everything must be read instead
	nodes []int32 // of the region, in the order found
	cut   [][2]ref
	born  bool // nodes or end ports joined
	died  bool // nodes or end ports left
	gone  int  // nodes that left, to bound the notices
	told  bool
	moved bool // some directed routes are new
	wide  bool // the sweep sets up all ports
}

// Carry is what a region discovery takes over from a sweep that was broken off.
type Carry struct {
	Nodes []int32 // what they hold is in doubt, or they are not set up
	Moved bool    // the last snapshot does not show all that changed
	Wide  bool    // the whole subnet is to be set up
}

// Explorable reports whether the topology is good enough for a region discovery of suspects.
func (d *Discovery) Explorable(suspects []agenda.Suspect) bool {
	f := d.Fabric
	if f == nil || f.Graph == nil || f.Gone > 64+len(f.Nodes)/8 {
		return false
	}
	for _, s := range suspects {
		if n, ok := f.Find(s.GUID); !ok || !d.plain(n) {
			return false
		}
	}
	return !d.absent.AnyExcluded()
}

// plain reports whether nothing was wrong with a node or its ports in the last sweep.
func (d *Discovery) plain(n int32) bool {
	return d.Fabric.Nodes[n].Path.Set && d.plainButRoute(n)
}

// plainButRoute is plain for a node that may have lost its route.
func (d *Discovery) plainButRoute(n int32) bool {
	nd := &d.Fabric.Nodes[n]
	if !nd.OK() || nd.Flags&topo.NodeUnseen != 0 {
		return false
	}
	for i := range d.Fabric.NodePorts(n) {
		if d.Fabric.PortOf(n, uint8(i)).Has(topo.PortFailed | topo.PortBadPeer | topo.PortLeftOut | topo.PortLoop) {
			return false
		}
	}
	return true
}

// Explore starts to read the region of suspects, in the phase of discovery.
func (d *Discovery) Explore(suspects []agenda.Suspect, carry Carry) {
	f := d.Fabric
	d.rechecked = false
	d.Region = true
	d.r = region{nodes: d.r.nodes[:0], cut: d.r.cut[:0]}
	d.needs.Keys.Collect()
	for _, s := range suspects {
		n, _ := f.Find(s.GUID)
		d.Touch(n)
		if s.Port == agenda.WholeSwitch {
			f.Nodes[n].Flags |= topo.NodeSuspect
		} else {
			d.Add(work.Make(work.OpReread, n, s.Port, 0))
		}
	}
	for _, n := range carry.Nodes {
		if f.Nodes[n].Flags&topo.NodeGone == 0 {
			d.Touch(n)
		}
	}
	d.r.moved, d.r.wide = carry.Moved, carry.Wide
}

// exploring reports whether a region is being read and nothing has made that fail.
func (d *Discovery) exploring() bool {
	return d.Phase == notice.PhaseDiscover && d.Region && d.r.give == ""
}

// Join adds suspects to the region that is being read. It reports whether that is possible.
func (d *Discovery) Join(suspects []agenda.Suspect) bool {
	f := d.Fabric
	if !d.exploring() {
		return false
	}
	for _, s := range suspects {
		if n, ok := f.Find(s.GUID); !ok || !d.plainButRoute(n) {
			return false
		}
	}
	for _, s := range suspects {
		n, _ := f.Find(s.GUID)
		d.Touch(n)
		switch nd := &f.Nodes[n]; {
		case s.Port != agenda.WholeSwitch:
			d.Add(work.Make(work.OpReread, n, s.Port, 0))
		case nd.Flags&(topo.NodeNew|topo.NodeSuspect|topo.NodeRead) == topo.NodeSuspect: // a later wave reads it
		default: // what was read of it may be older than the suspicion
			nd.Flags = nd.Flags&^topo.NodeRead | topo.NodeSuspect
			if nd.Path.Set {
				d.readSwitch(n)
			}
		}
	}
	return true
}

// LookAt reads a port once more because answers from behind it are missing, unless its read is
// among those under way. It reports whether a region is being read; otherwise it does nothing.
func (d *Discovery) LookAt(at ref, asked bool) bool {
	if !d.Region || d.Phase != notice.PhaseDiscover {
		return false
	}
	if !asked {
		d.Fabric.Port(at).Flags |= topo.PortAsked
		d.Touch(at.Node)
		d.Add(work.Make(work.OpReread, at.Node, at.Port, work.RereadPath))
	}
	return true
}

// Touch makes a node part of the region.
func (d *Discovery) Touch(n int32) {
	if nd := &d.Fabric.Nodes[n]; nd.Flags&topo.NodeTouched == 0 {
		nd.Flags |= topo.NodeTouched
		d.r.nodes = append(d.r.nodes, n)
	}
}

// Widen has the sweep of a region set up all ports.
func (d *Discovery) Widen() { d.r.wide = d.Region }

// Wide reports whether the sweep of a region sets up all ports.
func (d *Discovery) Wide() bool { return d.r.wide }

// Nodes are the nodes of the region. The caller does not change the list.
func (d *Discovery) Nodes() []int32 { return d.r.nodes }

// Cut are the links that a region discovery found to be down, by their ends. Some may have come
// back since.
func (d *Discovery) Cut() [][2]subnet.Ref { return d.r.cut }

// Joined reports whether nodes or end ports of the region joined the subnet, Left whether some
// left, Moved whether directed routes have changed.
func (d *Discovery) Joined() bool { return d.r.born }

// Left reports whether nodes or end ports left.
func (d *Discovery) Left() bool { return d.r.died }

// Moved reports whether directed routes have changed since the last snapshot.
func (d *Discovery) Moved() bool { return d.r.moved }

// EndRegion forgets which nodes belong to the region.
func (d *Discovery) EndRegion() {
	if !d.Region {
		return
	}
	for _, n := range d.r.nodes {
		d.Fabric.Nodes[n].Flags &^= topo.NodeTouched | topo.NodeSuspect | topo.NodeRead | topo.NodeNew | topo.NodeMoved | topo.NodeReset | topo.NodeSeen | topo.NodeAgain
		ports := d.Fabric.NodePorts(n)
		for i := range ports {
			ports[i].Flags &^= topo.PortAsked
		}
	}
	d.Region = false
}

// LostLinks reports whether the region lost a link between switches. Then traps about other
// faults may have been on paths that were broken, so all switches are asked immediately, before
// their agents repeat the traps.
func (d *Discovery) LostLinks() bool {
	if !d.Region {
		return false
	}
	for _, x := range d.r.cut {
		if !d.Fabric.Port(x[0]).Has(topo.PortLinked) && d.Fabric.Nodes[x[0].Node].IsSwitch() && d.Fabric.Nodes[x[1].Node].IsSwitch() {
			return true
		}
	}
	return false
}

// GiveUp has everything read instead of the region, for the reason why.
func (d *Discovery) GiveUp(why string) {
	if d.r.give == "" {
		d.r.give = why
	}
}

// Scope calls fn with each port that the sweep sets up: those of the region, or all.
func (d *Discovery) Scope(fn func(p *topo.Port)) {
	f := d.Fabric
	if !d.Region || d.r.wide {
		for i := range f.Ports {
			fn(&f.Ports[i])
		}
		return
	}
	for _, n := range d.r.nodes {
		ports := f.NodePorts(n)
		for i := range ports {
			fn(&ports[i])
		}
	}
}

// ScopeNodes is Scope for nodes.
func (d *Discovery) ScopeNodes(fn func(n int32, nd *topo.Node)) {
	f := d.Fabric
	if !d.Region || d.r.wide {
		for i := range f.Nodes {
			fn(int32(i), &f.Nodes[i])
		}
		return
	}
	for _, n := range d.r.nodes {
		fn(n, &f.Nodes[n])
	}
}

// waveDone is called when the answers of a wave are in. It starts the next one, or ends the
// discovery of the region.
func (d *Discovery) waveDone() Outcome {
	f, r := d.Fabric, &d.r
	if r.give == "" {
		d.relink()
		r.moved = f.Repath(r.cut, r.nodes) || r.moved
	}
	if r.give != "" {
		d.Report.Reason += "; " + r.give + ", so everything is read"
		d.Report.Region = false
		d.reportRegion()
		d.EndRegion()
		d.restart()
		return More
	}
	// The nearest suspects that can be reached now.
	waits := func(n int32) bool {
		nd := &f.Nodes[n]
		return nd.Flags&(topo.NodeSuspect|topo.NodeRead) == topo.NodeSuspect && nd.Path.Set
	}
	best := smp.MaxHops + 1
	for _, n := range r.nodes {
		if waits(n) {
			best = min(best, int(f.Nodes[n].Path.N))
		}
	}
	if best <= smp.MaxHops {
		for i := 0; i < len(r.nodes); i++ { // the list may grow
			if n := r.nodes[i]; waits(n) && int(f.Nodes[n].Path.N) == best {
				d.readSwitch(n)
			}
		}
		return More
	}
	if d.readFarEnds() {
		return More
	}
	return d.regionRead()
}

// readFarEnds reads the far ends of switches that report a change of a port's state while none of
// their ports shows one, and of switches that were reset: a late copy of one of our own Sets may
// have moved a port on after its link had come back. It reports whether it asked anything.
func (d *Discovery) readFarEnds() bool {
	f := d.Fabric
	asked := false
	for i := 0; i < len(d.r.nodes); i++ {
		n := d.r.nodes[i]
		nd := &f.Nodes[n]
		if nd.Flags&(topo.NodeRead|topo.NodeReset|topo.NodeAgain) == topo.NodeRead && nd.Path.Set && d.Fabric.AllInit(n) {
			// It may have been reset after its port 0 was read.
			nd.Flags |= topo.NodeAgain
			d.Add(work.Make(work.OpSwitchInfo, n, 0, 0))
			d.Add(work.Make(work.OpReread, n, 0, 0))
			asked = true
		}
		if nd.Flags&(topo.NodeRead|topo.NodeSeen) != topo.NodeRead || nd.Flags&(topo.NodeMoved|topo.NodeReset) == topo.NodeMoved || !nd.Switch.PortStateChange || !nd.Path.Set {
			continue
		}
		nd.Flags |= topo.NodeSeen
		for k := range f.NodePorts(n) {
			p := f.PortOf(n, uint8(k))
			if p.Has(topo.PortLinked) && p.Num != 0 && f.Nodes[p.Peer.Node].Flags&topo.NodeRead == 0 {
				d.Touch(p.Peer.Node)
				d.Add(work.Make(work.OpReread, p.Peer.Node, p.Peer.Port, 0))
				asked = true
			}
		}
	}
	return asked
}

// readSwitch reads everything of a switch that may have changed. If its route leads over a port
// that was not read in this discovery, it reads that port first: its link may be the one that is
// down.
func (d *Discovery) readSwitch(n int32) {
	f := d.Fabric
	nd := &f.Nodes[n]
	if v := nd.Via; v.Node >= 0 && nd.Flags&topo.NodeNew == 0 && f.Nodes[v.Node].Flags&(topo.NodeRead|topo.NodeNew) == 0 && !f.Port(v).Has(topo.PortAsked) {
		f.Port(v).Flags |= topo.PortAsked
		d.Touch(v.Node)
		d.Add(work.Make(work.OpReread, v.Node, v.Port, 0))
		return
	}
	nd.Flags |= topo.NodeRead
	d.Report.Read++
	d.Add(work.Make(work.OpSwitchInfo, n, 0, 0))
	for p := range f.NodePorts(n) {
		d.Add(work.Make(work.OpReread, n, uint8(p), 0))
	}
}
