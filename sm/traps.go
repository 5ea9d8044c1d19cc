package sm

import (
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/trap"
	"heddle/sm/work"
	"heddle/subnet"
)

// Traps are repressed first and thought about afterwards, so that a noisy
// agent stops. What they ask for is throttled by source, trap and port: a
// flapping link costs a few sweeps, not one for each flap, and the light sweep
// sees what an ignored trap would have said. Subscribers hear of a trap, also
// one of a vendor, under the same throttle: each is in Output.Traps until its
// source has become noisy, and again when it was quiet for trap.Window. One that
// an agent repeats because our answer was lost is told again, for agents do not
// number their traps in any way that could be relied on.

// onTrap takes a trap. Only a master answers: to a standby's silence the
// agent keeps repeating until the master hears it. But a manager that announced
// itself to us while we handed the subnet over to it has no other master to
// tell, and OpenSM waits for the answer before it does anything else.
func (c *Core) onTrap(p *mad.Packet, m *ib.MAD) {
	var n smp.Notice
	if c.Config.PlanOnly || n.Decode(smp.Data(m)) != nil {
		return
	}
	if c.State != subnet.Master {
		if c.State == subnet.Standby && announces(&n) {
			c.repress(p, m)
		}
		return
	}
	c.trapping.count++
	c.repress(p, m)
	kind := trap.Kind(&n)
	lids, port := trap.Claims(&n)
	issuer := p.Addr.LID
	if issuer == 0 {
		issuer = c.ownLID()
	}
	if c.Snapshot == nil || !c.Up {
		// There is nothing yet to hold it against. The sweep that goes on may have passed.
		if kind == smp.TrapPortStateChange || kind == smp.TrapLocalChange {
			c.sweepOnTrap(c.suspectLID(issuer, kind == smp.TrapPortStateChange), "trap "+trapName(&n)+" from LID "+issuer.String())
		}
		return
	}
	from, honest := c.trapOrigin(p, lids)
	if !honest {
		claimed := lids[0]
		if claimed == 0 {
			claimed = lids[1]
		}
		c.falseTrap(&n, from, claimed)
		return
	}
	issuer = c.Snapshot.Ports[from].LID
	src := trap.Source{LID: issuer, Trap: kind, Port: port}
	if c.Snapshot.Nodes[c.Snapshot.Ports[from].Node].Info.NodeType != ib.NodeSwitch {
		src.Port, port = 0, 0 // it can only be the one that sends
	}
	k := c.trapping.table.Count(c.Now, src)
	if k < trap.Noisy {
		c.out.Traps = append(c.out.Traps, Trap{Notice: n, From: p.Addr})
	}
	switch {
	case k == trap.Noisy:
		c.trapNotice(notice.KindTrapStorm, notice.Warn, issuer, port, "trap "+trapName(&n)+" keeps coming and is ignored until it stops: look at the cable and the device")
		fallthrough
	case k > trap.Noisy:
		if c.Phase == notice.PhaseIdle { // also where light sweeps are off
			c.light.Within(trap.Window)
		}
		return
	}
	if nd := &c.Snapshot.Nodes[c.Snapshot.Ports[from].Node].Info; nd.NodeType == ib.NodeSwitch {
		c.holdsTraps(nd.NodeGUID)
	}
	if c.onVirtualTrap(&n, issuer) {
		return
	}
	if kind == trap.Vendor {
		c.trapNotice(notice.KindTrap, notice.Info, issuer, 0, "vendor trap of "+strconv.Itoa(int(n.Producer)))
		return
	}
	switch n.TrapNumber {
	case smp.TrapPortStateChange:
		c.sweepOnTrap(c.suspectLID(issuer, true), "trap 128: a port changed state at LID "+issuer.String())
	case smp.TrapLocalChange:
		c.onTrap144(&n, issuer)
	case smp.TrapSystemImageGUID:
		c.askImage(from)
	case smp.TrapLocalPhyErrors, smp.TrapBufferOverrun, smp.TrapFlowCtlWatchdog:
		c.trapNotice(notice.KindPortUnhealthy, notice.Warn, issuer, port, "trap "+trapName(&n)+": errors on the link pass the threshold")
		c.lightSoon()
	case smp.TrapBadMKey, smp.TrapBadPKey, smp.TrapBadQKey, smp.TrapBadPKeySwitchPort:
		c.trapNotice(notice.KindSecurity, notice.Warn, issuer, 0, "trap "+trapName(&n)+": somebody used a wrong key")
		c.lightSoon()
	default:
		c.trapNotice(notice.KindTrap, notice.Info, issuer, 0, "trap "+trapName(&n))
		c.lightSoon()
	}
}

// onVirtualTrap takes a trap about virtual ports, in either form. It reports whether it was one.
func (c *Core) onVirtualTrap(n *smp.Notice, issuer ib.LID) bool {
	trap, ok := n.Trap()
	if !ok {
		return false
	}
	switch trap {
	case smp.TrapVPortState, smp.TrapVPortChange:
		c.vports.Trapped(trap, issuer)
	case smp.TrapVPortBadPKey, smp.TrapVPortBadQKey:
		var d smp.DetailVPortKey
		d.Get(&n.DataDetails)
		text := "trap " + strconv.Itoa(int(trap)) + ": somebody used a wrong key at VPort " + strconv.Itoa(int(d.VPortIndex))
		c.trapNotice(notice.KindSecurity, notice.Warn, issuer, 0, text)
	default:
		return false
	}
	return true
}

// trapName is the number of a trap for messages.
func trapName(n *smp.Notice) string {
	if t, ok := n.Trap(); ok {
		return strconv.Itoa(int(t))
	}
	return strconv.Itoa(int(n.TrapNumber))
}

// announces reports whether a trap is that of a manager about itself.
func announces(n *smp.Notice) bool {
	if !n.IsGeneric || n.TrapNumber != smp.TrapLocalChange {
		return false
	}
	var d smp.DetailChange
	d.Get(&n.DataDetails)
	return d.CapabilityMask.Has(ib.CapIsSM)
}

// repress answers with TrapRepress: same transaction and notice, the key of
// the port, LID routed to where the trap came from (IBA §13.4.9).
func (c *Core) repress(p *mad.Packet, m *ib.MAD) {
	var r ib.MAD
	key := c.Config.MKey
	if n, num, ok := c.portByLID(p.Addr.LID); ok {
		key = c.Fabric.AgentPort(n, num).MKey
	}
	smp.NewLID(&r, ib.MethodTrapRepress, smp.AttrNotice, 0, key)
	r.SetTID(m.TID())
	copy(smp.Data(&r), smp.Data(m))
	a := mad.Addr{LID: p.Addr.LID, SL: p.Addr.SL}
	if a.LID == 0 {
		if a.LID = c.ownLID(); a.LID == 0 {
			return
		}
	}
	q := mad.Packet{Addr: a, Data: r[:]}
	c.Send(&q)
}

func (c *Core) trapNotice(k notice.Kind, lv notice.Level, lid ib.LID, port uint8, text string) {
	n := notice.Notice{Kind: k, Level: lv, Text: text}
	if c.Snapshot != nil {
		if i := c.Snapshot.PortByLID(lid); i >= 0 {
			q := &c.Snapshot.Ports[i]
			nd := &c.Snapshot.Nodes[q.Node]
			n.Where = notice.Where{Node: nd.Info.NodeGUID, Desc: nd.Desc, Port: int(q.Num), LID: lid, Path: nd.Path, Known: true}
			if port != 0 {
				n.Where.Port = int(port)
			}
		}
	}
	if !n.Where.Known {
		n.Text += " from LID " + lid.String() + ", which nobody has"
	}
	c.Notify(n)
}

// sweepOnTrap asks for a sweep after a short wait for more of the same;
// sweeps that keep being asked for are made less often. issuer is the switch that says
// that a port changed state, or 0.
func (c *Core) sweepOnTrap(issuer ib.GUID, why string) {
	if !c.BetweenSweeps() {
		if !c.joinRegion() {
			c.peekAt(issuer)
			c.AskSweep(why)
		}
		return
	}
	c.router.Sign()
	if c.trapping.sweepAt == mad.Never {
		c.planTrapSweep(why)
	}
	if c.trapping.sweepAt > c.Now.Add(c.Config.TrapSettle) {
		c.peekAt(issuer) // a link that is down does not wait
	}
}

// planTrapSweep sets the time of a sweep that a trap asks for.
func (c *Core) planTrapSweep(why string) {
	if c.Now.Sub(c.trapping.lastSweep) > 10*c.Config.TrapMinGap {
		c.trapping.sweeps = 0
	}
	c.trapping.sweeps++
	c.trapping.sweepAt = c.Now.Add(c.Config.TrapSettle)
	if c.trapping.sweeps > maxAttempts {
		c.trapping.sweepAt = max(c.trapping.sweepAt, c.trapping.lastSweep.Add(c.Config.TrapMinGap))
	}
	c.next.why = why
}

// lightSoon brings the next light sweep forward.
func (c *Core) lightSoon() {
	if c.Phase == notice.PhaseIdle && c.State == subnet.Master && c.Up {
		c.light.Within(c.Config.TrapSettle)
	}
}

// onTrap144 is about capabilities and other local changes. When only the
// description changed it is read again; else the subnet is.
func (c *Core) onTrap144(n *smp.Notice, issuer ib.LID) {
	var d smp.DetailChange
	d.Get(&n.DataDetails)
	if d.OtherLocalChanges && d.ChangeFlags == smp.ChangeNodeDescription {
		i, p, ok := c.portByLID(issuer)
		switch {
		case !ok: // nor do we know whether it was read before or after
			c.next.full = true
			c.sweepOnTrap(0, "trap 144: the description of LID "+issuer.String()+" changed")
		default:
			c.Fabric.Nodes[i].Flags &^= topo.NodeDesc // until it is read the light sweeps ask for it
			if c.Phase == notice.PhaseIdle {
				r := mad.Request{Token: uint64(work.Make(work.OpDescNow, i, p, 0)), Addr: mad.Addr{LID: ib.LIDPermissive}}
				smp.NewDR(&r.MAD, ib.MethodGet, smp.AttrNodeDescription, 0, c.Fabric.AgentPort(i, p).MKey, c.Fabric.AgentPath(i, p))
				_ = c.Engine.Submit(&r)
			}
		}
		return
	}
	c.suspectLID(issuer, false)
	c.sweepOnTrap(0, "trap 144: capabilities or local settings changed at LID "+issuer.String())
}

// portByLID finds an end port of the fabric at hand.
func (c *Core) portByLID(lid ib.LID) (n int32, p uint8, ok bool) {
	if c.Fabric == nil || c.Fabric.Graph == nil || int(lid) >= len(c.Fabric.Graph.LIDOwner) {
		return 0, 0, false
	}
	e := c.Fabric.Graph.LIDOwner[lid]
	if e < 0 {
		return 0, 0, false
	}
	q := &c.Fabric.Ports[c.Fabric.EndPort[e]]
	return q.Node, q.Num, true
}

func (c *Core) onDescNow(it work.Item, comp *mad.Completion) {
	if c.Phase != notice.PhaseIdle || c.Fabric == nil || int(it.Node()) >= len(c.Fabric.Nodes) {
		return
	}
	c.TakeDescription(it, comp)
	c.Publish()
}
