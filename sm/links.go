package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/store"
)

// configure gives out LIDs and sets every port's parameters, without moving
// any port's state. It runs after a discovery of which we are the master.
func (c *Core) configure() bool {
	c.enter(notice.PhaseAssign)
	var ops []store.Op
	if c.Region {
		var fits bool
		if ops, fits = c.assignRegion(); !fits {
			return c.explored()
		}
		c.placements.AssignFloating()
		c.graphRegion()
	} else {
		ops = c.assignLIDs()
		c.placements.AssignFloating()
		c.listGraph()
		c.buildGraph()
		c.routing.changed = true
	}
	c.takeLFTs()
	c.guids.Discovered(!c.Region)
	c.vports.Discovered(!c.Region)
	c.takeLanes()
	ops = append(ops, c.mkeys.Ops(!c.Region)...)
	if c.Config.PlanOnly {
		return c.startReadback()
	}
	if len(ops)+len(c.Unsaved) > 0 {
		c.persist(ops)
		return false
	}
	c.startSets()
	return true
}

// startSets puts the Sets that move no port's state on the list: our own port
// first, then switches, end ports and external switch ports.
func (c *Core) startSets() {
	f := c.Fabric
	c.setPortIfDiffers(f.Self.Node, f.AgentPort(f.Self.Node, f.Self.Port))
	c.ScopeNodes(func(ni int32, n *topo.Node) {
		if n.IsSwitch() && n.OK() && (n.Switch.PortStateChange || n.Switch.LifeTimeValue != c.Config.PacketLife) {
			c.Add(work.Make(work.OpSetSwitch, ni, 0, 1))
		}
	})
	c.Scope(c.pkeys.Sweep)
	own := f.AgentPort(f.Self.Node, f.Self.Port)
	for _, ends := range [2]bool{true, false} {
		c.Scope(func(p *topo.Port) {
			if p != own && p.Has(topo.PortEnd) == ends {
				c.setPortIfDiffers(p.Node, p)
			}
		})
	}
	// Routing can be computed while the ports are being set up, unless it has
	// to wait for what switches hold.
	if c.routing.changed && !c.needReadback() {
		c.startJob()
	}
}

func (c *Core) setPortIfDiffers(n int32, p *topo.Port) {
	if !c.Fabric.Nodes[n].OK() || !p.Has(topo.PortKnown) {
		return
	}
	if w, ext, ok := c.portWanted(n, p.Num); ok && c.differs(&w, &p.Info, ext) {
		c.Report.PortSets++
		if p.Has(topo.PortEnd) && w.LID != p.Info.LID {
			c.Report.LIDsSet++
		}
		c.Add(work.Make(work.OpSetPort, n, p.Num, 0))
	}
}

// portWanted is the PortInfo that a Set without a change of state carries.
// ext says that the extended-speed bit goes with it; ok is false for ports
// that nothing is set on. Pitfalls: IBA §14.2.5.6 and smp.md §6.4.
func (c *Core) portWanted(n int32, num uint8) (w smp.PortInfo, ext, ok bool) {
	f := c.Fabric
	nd := &f.Nodes[n]
	p := f.PortOf(n, num)
	w = p.Info
	c.keepForState(&w)
	w.LinkDownDefaultState = ib.PhysPolling
	cfg := &c.Config
	if p.Has(topo.PortEnd) {
		if p.LID == 0 {
			return w, false, false
		}
		w.LID, w.LMC = p.LID, p.LMC
		w.MasterSMLID = c.smLID()
		w.GidPrefix = cfg.Prefix
		w.MKey = cfg.MKey
		w.MKeyLeasePeriod = cfg.MKeyLease
		w.MKeyProtectBits = cfg.MKeyProtect
		w.MasterSMSL = cfg.MasterSMSL
		w.SubnetTimeOut = cfg.SubnetTimeOut
		w.LocalPhyErrors, w.OverrunErrors = cfg.LocalPhyErr, cfg.OverrunErr
		// A port that the last snapshot has not, or not as an end of the subnet,
		// has lost its groups and subscriptions: its node may well have been there
		// by another port.
		isNew := c.FirstSweep || nd.Flags&topo.NodeNew != 0 || p.Info.MasterSMLID != w.MasterSMLID || p.Info.LID != w.LID ||
			p.Has(topo.PortLinked) && c.Snapshot != nil && c.Snapshot.PortByPortGUID(p.GUID) < 0
		w.ClientReregister = isNew && !cfg.NoReregister && !nd.IsSwitch() &&
			p.Info.CapabilityMask.Has(ib.CapIsClientReregistrationSupported)
	}
	wire := num != 0
	if wire {
		if !p.Has(topo.PortLinked) {
			return w, false, p.Has(topo.PortEnd)
		}
		q := f.Port(p.Peer)
		// A change of MTU or lanes under traffic needs the link bounced, so a
		// link that is in use keeps what it has if that is at all possible.
		mtu := min(mtuCap(p), mtuCap(q), cfg.MaxMTU)
		if p.Info.PortState < ib.StateArmed || p.Info.NeighborMTU == 0 || p.Info.NeighborMTU > min(mtuCap(p), mtuCap(q)) {
			w.NeighborMTU = mtu
		}
		if p.Info.PortState < ib.StateArmed || p.Info.OperationalVLs == 0 {
			if vls := min(max(p.Info.VLCap, 1), max(q.Info.VLCap, 1), cfg.MaxOpVLs); vls != p.Info.OperationalVLs {
				w.OperationalVLs = vls
			}
		}
		if nd.IsSwitch() {
			w.VLStallCount, w.HOQLife = cfg.VLStallCount, cfg.HOQLife
			if !f.Nodes[p.Peer.Node].IsSwitch() {
				w.VLStallCount, w.HOQLife = cfg.LeafVLStallCount, cfg.LeafHOQLife
			}
			w.PartitionEnforcementInbound, w.PartitionEnforcementOutbound = c.pkeys.EnforceNow(p)
		}
		if v := enabled(cfg.LinkWidth, p.Info.LinkWidthSupported, q.Info.LinkWidthSupported); v != p.Info.LinkWidthEnabled {
			w.LinkWidthEnabled = v
		}
		if v := enabled(cfg.LinkSpeed, p.Info.LinkSpeedSupported, q.Info.LinkSpeedSupported); v != 0 {
			if v |= ib.SpeedBitSDR; v != p.Info.LinkSpeedEnabled { // masks without SDR are reserved (IBA §14.2.5.6)
				w.LinkSpeedEnabled = v
			}
		}
		capMask := f.AgentPort(n, num).Info.CapabilityMask
		peerMask := f.AgentPort(p.Peer.Node, p.Peer.Port).Info.CapabilityMask
		if capMask.Has(ib.CapIsExtendedSpeedsSupported) && peerMask.Has(ib.CapIsExtendedSpeedsSupported) {
			w.LinkSpeedExtEnabled = extSpeeds(cfg.LinkSpeedExt, &p.Info, &q.Info)
			ext = w.LinkSpeedExtEnabled != 0
		}
	}
	return w, ext, true
}

// enabled is what a Set puts into the mask of enabled widths or speeds of a port, where
// 0 is no change: what is wanted of those that it supports, as agents refuse a Set
// with others. A mask that leaves the two ends of a link nothing in common would take
// it down for good.
func enabled[T ~uint8](want, own, peer T) T {
	if want&own&peer == 0 {
		return 0
	}
	return want & own
}

// extSpeeds is enabled for extended speeds, which can be turned off, too.
func extSpeeds(want ib.SpeedExtBits, own, peer *smp.PortInfo) ib.SpeedExtBits {
	if want == ib.SpeedExtBitNone {
		if own.LinkSpeedExtEnabled == 0 || own.LinkSpeedExtEnabled == ib.SpeedExtBitNone {
			return 0
		}
		return want
	}
	v := enabled(want, own.LinkSpeedExtSupported, peer.LinkSpeedExtSupported)
	if v == own.LinkSpeedExtEnabled {
		return 0
	}
	return v
}

func mtuCap(p *topo.Port) ib.MTU {
	if p.Info.MTUCap < 1 || p.Info.MTUCap > 5 {
		return 5 // a reserved code says nothing
	}
	return p.Info.MTUCap
}

// smLID is the LID that every port is told to send its traps to.
func (c *Core) smLID() ib.LID {
	return c.Fabric.AgentPort(c.Fabric.Self.Node, c.Fabric.Self.Port).LID
}

// keepForState makes a PortInfo that was read fit to be written back
// unchanged: where 0 means no change it is 0, and nothing that is invalid in a
// Set stays in.
func (c *Core) keepForState(w *smp.PortInfo) {
	w.ClearForSet()
	if w.NeighborMTU < 1 || w.NeighborMTU > 5 {
		w.NeighborMTU = max(min(w.MTUCap, 5), 1)
	}
}

// differs reports whether a Set of w would change what was read in p.
func (c *Core) differs(w, p *smp.PortInfo, ext bool) bool {
	return w.LID != p.LID || w.MasterSMLID != p.MasterSMLID || w.LMC != p.LMC || w.GidPrefix != p.GidPrefix ||
		w.MKey != p.MKey || w.MKeyLeasePeriod != p.MKeyLeasePeriod || w.MKeyProtectBits != p.MKeyProtectBits ||
		w.MasterSMSL != p.MasterSMSL || w.SubnetTimeOut != p.SubnetTimeOut ||
		w.LocalPhyErrors != p.LocalPhyErrors || w.OverrunErrors != p.OverrunErrors ||
		w.ClientReregister || ext ||
		w.NeighborMTU != p.NeighborMTU || w.OperationalVLs != 0 ||
		w.VLStallCount != p.VLStallCount || w.HOQLife != p.HOQLife ||
		w.PartitionEnforcementInbound != p.PartitionEnforcementInbound ||
		w.PartitionEnforcementOutbound != p.PartitionEnforcementOutbound ||
		w.LinkWidthEnabled != 0 || w.LinkSpeedEnabled != 0
}

func (c *Core) onSetPort(it work.Item, comp *mad.Completion) {
	f := c.Fabric
	n, num := it.Node(), it.Port()
	p := f.PortOf(n, num)
	if comp.Err != nil {
		c.SetFailed(n, int(num), "Set(PortInfo)", comp.Err)
		return
	}
	var pi smp.PortInfo
	if err := pi.Decode(smp.Data(comp.MAD)); err != nil {
		c.SetFailed(n, int(num), "Set(PortInfo)", err)
		return
	}
	if num != 0 && pi.PortState == ib.StateNoChange {
		c.SetFailed(n, int(num), "Set(PortInfo)", work.Unchanged(comp)) // refused whole: the answer is what we sent
		return
	}
	if err := c.absent.Plausible(p, &pi); err != nil {
		c.SetFailed(n, int(num), "Set(PortInfo)", err)
		return
	}
	pi.ClientReregister = false
	before := p.Info
	p.Info = pi
	if num != 0 && (pi.PortState < before.PortState || before.PortState == ib.StateDown && pi.PortState != ib.StateDown) {
		// The PortStateChange that told of it may be cleared already.
		c.askRegion(n, "port changed state during the sweep: "+f.Where(n, int(num)).String())
	}
	if f.AgentPort(n, num) == p {
		p.MKey = pi.MKey
		if pi.MKey == 0 && pi.MKeyProtectBits == 1 {
			p.MKey = c.Config.MKey
		}
	}
	if p.Has(topo.PortEnd) && (pi.LID != p.LID || pi.LMC != p.LMC) {
		c.SetFailed(n, int(num), "giving LID "+p.LID.String(), work.Unchanged(comp))
		return
	}
	// Part of a Set may be applied under an error status; parameters that an
	// agent does not keep are not worth another sweep.
	if st := smp.StatusOf(comp.MAD); st != 0 && before.PortState == pi.PortState {
		c.Notify(notice.Notice{
			Kind: notice.KindSetFailed, Level: notice.Debug, Where: f.Where(n, int(num)), Err: &work.StatusError{Status: st},
			Text: "Set(PortInfo) was answered with an error; what the port now shows is taken",
		})
	}
}

// buildSetSwitch fills Set(SwitchInfo): what 1 clears PortStateChange and sets
// the packet lifetime, what 2 and 3 set LinearFDBTop and leave an unseen
// PortStateChange alone.
func (c *Core) buildSetSwitch(n int32, what uint32, b []byte) {
	sw := c.Fabric.Nodes[n].Switch
	sw.LifeTimeValue = c.Config.PacketLife
	if what != 1 {
		sw.PortStateChange = false
		sw.LinearFDBTop = c.install.Top()
		sw.MulticastFDBTop = c.install.MulticastTop(n)
	}
	sw.Put(b)
}

func (c *Core) onSetSwitch(it work.Item, comp *mad.Completion) {
	n := &c.Fabric.Nodes[it.Node()]
	var sw smp.SwitchInfo
	err := work.Answer(comp)
	if err == nil {
		err = sw.Decode(smp.Data(comp.MAD))
	}
	if err == nil {
		err = c.absent.PlausibleSwitch(n, &n.Switch, &sw)
	}
	if it.Extra() == 1 {
		if err != nil {
			c.SetFailed(it.Node(), -1, "Set(SwitchInfo)", err)
			return
		}
		if n.Switch.PortStateChange {
			c.readAgain(it.Node())
		}
		n.Switch = sw
		return
	}
	if err == nil && sw.LinearFDBTop != c.install.Top() {
		err = &work.StatusError{Status: ib.StatusInvalidField}
	}
	if err != nil {
		c.install.NotTaken()
		c.SetFailed(it.Node(), -1, "Set(SwitchInfo) of LinearFDBTop", err)
		return
	}
	n.Switch = sw
	c.install.TopSet(n, &sw)
	if sw.PortStateChange {
		c.askRegion(it.Node(), "a port of "+c.Fabric.Where(it.Node(), -1).String()+" changed state during the sweep")
	}
}

// readAgain looks once more at the ports of a switch whose PortStateChange was
// cleared: what happened between reading a port and clearing the bit would be
// seen by nobody. Ports in Init need no second look, because the answers to
// the Sets that move them show their state. Port 0 needs one in a full sweep if
// its LID is not set after this: a switch that was reset has none, and where no
// link was Armed before, startArm does not ask. Bringing up a fresh fabric so
// costs one more Get for each port without a cable.
func (c *Core) readAgain(n int32) {
	for i := range c.Fabric.NodePorts(n) {
		p := c.Fabric.PortOf(n, uint8(i))
		if p.Has(topo.PortKnown) && (p.Num != 0 && p.Info.PortState != ib.StateInit || p.Num == 0 && !c.Region && p.LID != 0 && p.Info.LID == p.LID) {
			c.Add(work.Make(work.OpPortAgain, n, p.Num, 0))
		}
	}
}

func (c *Core) onPortAgain(it work.Item, comp *mad.Completion) {
	var pi smp.PortInfo
	if err := work.Answer(comp); err != nil || pi.Decode(smp.Data(comp.MAD)) != nil {
		c.Errs++
		return
	}
	if p := c.Fabric.PortOf(it.Node(), it.Port()); pi.PortState != p.Info.PortState || p.Num == 0 && pi.LID != p.Info.LID {
		c.askRegion(it.Node(), "port changed state during the sweep: "+c.Fabric.Where(it.Node(), int(it.Port())).String())
	}
}

// assigned ends the phase of Sets.
func (c *Core) assigned() bool {
	if c.sweep.persistWait {
		return false
	}
	if own := c.Fabric.AgentPort(c.Fabric.Self.Node, c.Fabric.Self.Port); own.LID == 0 || own.Info.LID != own.LID {
		c.endSweep() // without a LID of our own nothing can reach us; it was reported
		return true
	}
	if c.needReadback() {
		return c.startReadback()
	}
	c.enter(notice.PhaseRoute)
	return true
}

// startArm moves every link of the subnet that is in Init to Armed.
func (c *Core) startArm() {
	c.enter(notice.PhaseArm)
	c.reg.wide = c.reg.wide || c.sweep.armAll && c.Region
	c.sweep.armAll = false
	c.bothEnds()
	running := !c.install.Quiet()
	last := int32(-1) // the switch whose port 0 was asked for
	c.Scope(func(p *topo.Port) {
		if c.moves(p) && p.Info.PortState == ib.StateInit {
			c.Report.Armed++
			c.Add(work.Make(work.OpArm, p.Node, p.Num, 0))
			if p.Num == 0 {
				return
			}
			if running && p.Node != last && c.Fabric.Nodes[p.Node].IsSwitch() {
				// The switch may have been reset since its LID was read or set, and
				// a Set that came late have cleared its PortStateChange.
				last = p.Node
				c.Add(work.Make(work.OpPortAgain, p.Node, 0, 0))
			}
			// Both ends of a link that comes up begin in Init: if the far one was
			// read as more it was read before the link failed.
			if q := c.Fabric.Port(p.Peer); q.Info.PortState >= ib.StateArmed {
				c.Add(work.Make(work.OpPortAgain, q.Node, q.Num, 0))
			}
		}
	})
}

// bothEnds makes the far end of each link of a region that is not Active a part of it: a sweep
// before may have moved that end alone.
func (c *Core) bothEnds() {
	if !c.Region || c.reg.wide {
		return
	}
	for _, n := range c.reg.nodes[:len(c.reg.nodes):len(c.reg.nodes)] {
		ports := c.Fabric.NodePorts(n)
		for i := range ports {
			if p := &ports[i]; p.Num != 0 && c.moves(p) {
				if q := c.Fabric.Port(p.Peer); p.Info.PortState < ib.StateActive || q.Info.PortState < ib.StateActive {
					c.touch(q.Node)
				}
			}
		}
	}
}

// moves reports whether a port's state is ours to move: a link of the subnet
// whose two ends were set up, or an enhanced port 0.
func (c *Core) moves(p *topo.Port) bool {
	f := c.Fabric
	n := &f.Nodes[p.Node]
	if !p.Has(topo.PortKnown) || !n.OK() || p.Has(topo.PortFailed) {
		return false
	}
	if p.Num == 0 {
		return n.IsSwitch() && n.Switch.EnhancedPort0 && p.LID != 0
	}
	if !p.Has(topo.PortLinked) || p.Has(topo.PortEnd) && p.LID == 0 {
		return false
	}
	q := f.Port(p.Peer)
	return !q.Has(topo.PortFailed) && !(q.Has(topo.PortEnd) && q.LID == 0)
}

func (c *Core) armed() bool {
	c.enter(notice.PhaseActivate)
	c.Scope(func(p *topo.Port) {
		if !c.moves(p) || p.Info.PortState != ib.StateArmed {
			return
		}
		if p.Num != 0 {
			if q := c.Fabric.Port(p.Peer); q.Info.PortState < ib.StateArmed {
				return // the far end did not come along
			}
		}
		c.Report.Activated++
		c.Add(work.Make(work.OpActive, p.Node, p.Num, 0))
	})
	return true
}

// onSetState takes the answer to a change of state. The state in the answer
// counts, not the status: agents answer 0x001C when a port got there by
// itself, and success when it did not move.
func (c *Core) onSetState(it work.Item, comp *mad.Completion) {
	f := c.Fabric
	n, num := it.Node(), it.Port()
	p := f.PortOf(n, num)
	want, what := ib.StateArmed, "moving the port to Armed"
	if it.Op() == work.OpActive {
		want, what = ib.StateActive, "moving the port to Active"
	}
	if comp.Err != nil {
		c.SetFailed(n, int(num), what, comp.Err)
		return
	}
	var pi smp.PortInfo
	if err := pi.Decode(smp.Data(comp.MAD)); err != nil {
		c.SetFailed(n, int(num), what, err)
		return
	}
	if err := c.absent.Plausible(p, &pi); err != nil {
		c.SetFailed(n, int(num), what, err)
		return
	}
	pi.ClientReregister = false
	p.Info = pi
	if pi.PortState < want {
		if p.Num == 0 {
			return // port 0 of a switch that has no states after all
		}
		c.SetFailed(n, int(num), what, work.Unchanged(comp))
	}
}

// activated ends the configuring part of a sweep.
func (c *Core) activated() bool {
	c.endSweep()
	return true
}
