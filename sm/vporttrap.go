package sm

import (
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// How a change of virtual ports is noticed: by trap 1146 or 1144, and where it was
// lost, or is ignored because too many came, by VPortStateChange in the next light
// sweep. Neither leads to a sweep: the port is looked at as upkeep.

// lightVirtuals asks adapters in a light sweep whether a VPort changed state.
func (c *Core) lightVirtuals() {
	for _, a := range c.virt.list {
		if a.step == adapterKnown && a.model != subnet.SharedPort && c.adapterReady(a) {
			c.Add(work.Make(work.OpLightVirt, a.at.Node, a.at.Port, 0))
		}
	}
}

// onLightVirt looks at an adapter again that says that something changed, or was
// reset without its link going down. One that does not answer is the light sweep's
// other concern.
func (c *Core) onLightVirt(a *adapter, comp *mad.Completion) {
	var i smp.VirtualizationInfo
	if work.Answer(comp) != nil || i.Decode(smp.Data(comp.MAD)) != nil {
		return
	}
	switch {
	case !i.VirtualizationEnable:
		c.freshAdapter(a)
		c.lookAdapter(a)
	case i.VPortStateChange, min(i.VPortIndexTop, i.VPortCap) != a.info.VPortIndexTop:
		c.lookAdapter(a)
	}
}

// adapterByLID finds the adapter whose port, or one of whose VPorts, has a LID.
func (c *Core) adapterByLID(lid ib.LID) *adapter {
	if c.Snapshot == nil {
		return nil
	}
	i := c.Snapshot.PortByLID(lid)
	if i < 0 {
		return nil
	}
	if v := c.Snapshot.Ports[i].Virtual; v != nil {
		i = v.Port
	}
	return c.virt.byPort[c.Snapshot.Ports[i].GUID]
}

// onVirtualTrap takes a trap about virtual ports, in either form. It reports
// whether it was one. 1144 and 1146 stand for all VPorts of the port; the index
// that 1144 has is a hint.
func (c *Core) onVirtualTrap(n *smp.Notice, issuer ib.LID) bool {
	trap, ok := n.Trap()
	if !ok {
		return false
	}
	switch trap {
	case smp.TrapVPortState, smp.TrapVPortChange:
	case smp.TrapVPortBadPKey, smp.TrapVPortBadQKey:
		var d smp.DetailVPortKey
		d.Get(&n.DataDetails)
		c.trapNotice(notice.KindSecurity, notice.Warn, issuer, 0, "trap "+strconv.Itoa(int(trap))+": somebody used a wrong key at VPort "+strconv.Itoa(int(d.VPortIndex)))
		return true
	default:
		return false
	}
	a := c.adapterByLID(issuer)
	if a == nil || a.at.Node < 0 || a.model == subnet.SharedPort {
		return true // the sweep that finds the port reads it; or they are not managed
	}
	if trap == smp.TrapVPortChange {
		for _, v := range a.vports {
			if v != nil && v.state > ib.StateDown {
				v.known &^= knowInfo | knowDesc
				c.lookVPort(vportRef{a, v.index})
			}
		}
	}
	c.lookAdapter(a)
	return true
}
