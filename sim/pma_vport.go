package sim

import (
	"heddle/ib"
	"heddle/ib/pm"
)

// vportPMA is the PMA behind QP1 of a VPort. It has the counters of its own
// VPort only, and none of physical ports.
func (s *Subnet) vportPMA(f *flight, d *device) {
	m := &f.mad
	v := f.dvp
	s.stats.GMPs++
	data := pm.Data(m)
	var in pm.VPortCountersExtended
	st := ib.StatusBadMethodAttr
	switch set := m.Method() == ib.MethodSet; {
	case m.ClassVersion() != pm.ClassVersion:
		st = ib.StatusBadVersion
	case m.AttrMod() != 0:
		st = ib.StatusInvalidField
	case m.AttrID() == pm.AttrClassPortInfo:
		st = s.pmaClassPortInfo(f, d, data)
	case m.AttrID() == pm.AttrVPortCountersExtended:
		_ = in.Decode(data[:pm.VPortCountersExtendedLen])
		if in.VPortIndex != v.idx {
			st = ib.StatusInvalidField
		} else {
			st = s.pmaVPort(v.h, data, set)
		}
	}
	s.reply(f, d, st)
}

// pmaVPort is Get and Set of the counters of one VPort of h (nil: the port has
// none). VPort 0 counts the port's own traffic.
func (s *Subnet) pmaVPort(h *hyper, data []byte, set bool) ib.Status {
	if h == nil || h.Model == SharedPort {
		return ib.StatusBadMethodAttr
	}
	var in pm.VPortCountersExtended
	_ = in.Decode(data[:pm.VPortCountersExtendedLen])
	if in.PortSelect != s.ports[h.port].num || in.VPortIndex > h.top {
		return ib.StatusInvalidField
	}
	v := &h.vps[in.VPortIndex]
	traffic := v.cnt.traffic64()
	own := append(traffic[:], &v.relay)
	if set {
		for i, w := range vportCounters(&in) {
			if in.CounterSelect>>i&1 != 0 {
				*own[i] = *w
			}
		}
	}
	out := pm.VPortCountersExtended{PortSelect: in.PortSelect, CounterSelect: in.CounterSelect, VPortIndex: in.VPortIndex}
	for i, w := range vportCounters(&out) {
		*w = *own[i]
	}
	clear(data)
	out.Put(data)
	return ib.StatusOK
}

// vportCounters are the counters of c in the order of CounterSelect.
func vportCounters(c *pm.VPortCountersExtended) [9]*uint64 {
	return [9]*uint64{
		&c.PortXmitData, &c.PortRcvData, &c.PortXmitPkts, &c.PortRcvPkts, &c.PortUnicastXmitPkts,
		&c.PortUnicastRcvPkts, &c.PortMulticastXmitPkts, &c.PortMulticastRcvPkts, &c.PortRelayErrors,
	}
}
