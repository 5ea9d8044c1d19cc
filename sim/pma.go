package sim

import (
	"encoding/binary"

	"heddle/ib"
	"heddle/ib/pm"
)

// pmaCaps of every device; capMask2Valid comes with CapabilityMask2.
const (
	pmaCaps       = pm.CapExtendedWidth | pm.CapXmitWait | pm.CapQP1Dropped
	capMask2Valid = 1 << 2
)

// pma is the performance management agent (IBA §16.1).
func (s *Subnet) pma(f *flight, d *device) {
	m := &f.mad
	if m.ClassVersion() != pm.ClassVersion {
		s.reply(f, d, ib.StatusBadVersion)
		return
	}
	s.stats.GMPs++
	set := m.Method() == ib.MethodSet
	at := d
	d = s.proxied(f, d)
	if d.pma != nil && d.pma.Silent {
		s.drop(f, DropNode)
		return
	}
	data := pm.Data(m)
	st, other := s.pmaRefuses(f, d)
	switch attr := m.AttrID(); {
	case other:
	case m.AttrMod() != 0:
		st = ib.StatusInvalidField
	case attr == pm.AttrClassPortInfo:
		st = s.pmaClassPortInfo(f, d, data)
	case attr == pm.AttrPortCounters:
		st = s.pmaPorts(f, d, data, set, s.pmaCounters)
	case attr == pm.AttrPortCountersExtended:
		st = s.pmaPorts(f, d, data, set, s.pmaExtended)
	case attr == pm.AttrVPortCountersExtended:
		st = s.pmaVPort(s.ports[f.port].hv, data, set)
	case attr == pm.AttrPortSamplesControl:
		st = s.pmaPorts(f, d, data, set, s.pmaSamplesControl)
	case attr == pm.AttrPortSamplesResult && !set:
		st = s.pmaSamplesResult(f, data)
	case attr == pm.AttrPortExtendedSpeedsCounters:
		st = s.pmaPorts(f, d, data, set, s.pmaExtendedSpeeds)
	default:
		st = s.pmaDetails(f, d, attr, data, set)
	}
	if st == ib.StatusBadMethodAttr && d.pma != nil && d.pma.Drops {
		s.drop(f, DropNode)
		return
	}
	s.reply(f, at, st)
}

func (s *Subnet) pmaClassPortInfo(f *flight, d *device, data []byte) ib.Status {
	c := s.classPortInfo(f, d)
	clear(data)
	c.Put(data)
	return ib.StatusOK
}

// classPortInfo is what the agent of a node says about itself.
func (s *Subnet) classPortInfo(f *flight, d *device) ib.ClassPortInfo {
	c := ib.ClassPortInfo{
		BaseVersion: 1, ClassVersion: pm.ClassVersion, CapabilityMask: pmaCaps,
		RespTimeValue: defaultRespTime,
	}
	if s.cfg.ExtendedErrorCounters {
		c.CapabilityMask |= capMask2Valid
		c.CapabilityMask2 = pm.Cap2ExtendedCounters
	}
	if h := s.ports[f.port].hv; h != nil && h.Model != SharedPort {
		c.CapabilityMask |= capMask2Valid
		c.CapabilityMask2 |= pm.Cap2Virtualization
	}
	if d.isSwitch() {
		c.CapabilityMask |= pm.CapAllPortSelect
	}
	if p := d.pma; p != nil {
		switch {
		case p.NoExtended:
			c.CapabilityMask &^= pm.CapExtendedWidth
		case p.NoIETF:
			c.CapabilityMask ^= pm.CapExtendedWidth | pm.CapExtendedWidthNoIETF
		}
		if p.FullExtended {
			c.CapabilityMask |= capMask2Valid
			c.CapabilityMask2 |= pm.Cap2ExtendedCounters
		}
	}
	return c
}

// pmaPorts finds the ports that PortSelect names and calls fn with them:
// one port, or all external ports of a switch.
func (s *Subnet) pmaPorts(f *flight, d *device, data []byte, set bool,
	fn func(first, last int32, data []byte, set bool) ib.Status,
) ib.Status {
	sel := data[1]
	first, last := d.first+int32(sel), d.first+int32(sel)
	switch {
	case d.isSwitch() && sel == pm.AllPorts:
		first, last = d.first+1, d.first+int32(d.nports)
	case sel > d.nports, !d.isSwitch() && sel != s.ports[f.port].num:
		return ib.StatusInvalidField
	}
	if s.data != nil {
		for p := first; p <= last; p++ {
			s.countData(p)
		}
	}
	return fn(first, last, data, set)
}

// errSel is the CounterSelect bit of PortCounters for each error counter.
var errSel = [numErrs]uint16{
	pm.SelSymbolError, pm.SelLinkErrorRecovery, pm.SelLinkDowned, pm.SelRcvErrors,
	pm.SelRcvRemotePhysErrors, pm.SelRcvSwitchRelayErrors, pm.SelXmitDiscards, pm.SelXmitConstraintErrors,
	pm.SelRcvConstraintErrors, pm.SelLocalLinkIntegrity, pm.SelExcessiveBufOverrun, pm.SelVL15Dropped,
}

func (s *Subnet) pmaCounters(first, last int32, data []byte, set bool) ib.Status {
	var in pm.PortCounters
	_ = in.Decode(data)
	if set {
		val := errsOf32(&in)
		for p := first; p <= last; p++ {
			c := &s.ports[p].cnt
			for _, w := range [...]struct {
				sel uint16
				dst *uint32
				val uint32
			}{
				{pm.SelXmitData, &c.xmitData32, in.PortXmitData},
				{pm.SelRcvData, &c.rcvData32, in.PortRcvData},
				{pm.SelXmitPkts, &c.xmitPkts32, in.PortXmitPkts},
				{pm.SelRcvPkts, &c.rcvPkts32, in.PortRcvPkts},
			} {
				if in.CounterSelect&w.sel != 0 {
					*w.dst = w.val
				}
			}
			for i, v := range val {
				on := in.CounterSelect&errSel[i] != 0 || i == errXmitWait && in.CounterSelect2&pm.Sel2XmitWait != 0
				if on && (v != 0 || s.ports[p].cold != nil) {
					s.coldOf(p).pm.err[i] = v
				}
			}
		}
	}
	out := pm.PortCounters{PortSelect: in.PortSelect, CounterSelect: in.CounterSelect, CounterSelect2: in.CounterSelect2}
	var sum [numErrs]uint64
	for p := first; p <= last; p++ {
		c := &s.ports[p].cnt
		sat32(&out.PortXmitData, c.xmitData32)
		sat32(&out.PortRcvData, c.rcvData32)
		sat32(&out.PortXmitPkts, c.xmitPkts32)
		sat32(&out.PortRcvPkts, c.rcvPkts32)
		if c := s.ports[p].cold; c != nil {
			for i, v := range c.pm.err {
				sum[i] += v
			}
		}
	}
	setErrs32(&out, &sum)
	clear(data)
	out.Put(data)
	return ib.StatusOK
}

func errsOf32(p *pm.PortCounters) [numErrs]uint64 {
	return [numErrs]uint64{
		uint64(p.SymbolErrorCounter), uint64(p.LinkErrorRecoveryCounter), uint64(p.LinkDownedCounter),
		uint64(p.PortRcvErrors), uint64(p.PortRcvRemotePhysicalErrors), uint64(p.PortRcvSwitchRelayErrors),
		uint64(p.PortXmitDiscards), uint64(p.PortXmitConstraintErrors), uint64(p.PortRcvConstraintErrors),
		uint64(p.LocalLinkIntegrityErrors), uint64(p.ExcessiveBufferOverrunErrors), uint64(p.VL15Dropped),
		uint64(p.PortXmitWait), uint64(p.QP1Dropped),
	}
}

func setErrs32(p *pm.PortCounters, sum *[numErrs]uint64) {
	v := func(i int) uint64 { return min(sum[i], errMax32[i]) }
	p.SymbolErrorCounter, p.LinkErrorRecoveryCounter = uint16(v(errSymbol)), uint8(v(errRecovery))
	p.LinkDownedCounter, p.PortRcvErrors = uint8(v(errDowned)), uint16(v(errRcv))
	p.PortRcvRemotePhysicalErrors, p.PortRcvSwitchRelayErrors = uint16(v(errRcvRemPhys)), uint16(v(errRelay))
	p.PortXmitDiscards, p.PortXmitConstraintErrors = uint16(v(errDiscard)), uint8(v(errXmitConstraint))
	p.PortRcvConstraintErrors, p.LocalLinkIntegrityErrors = uint8(v(errRcvConstraint)), uint8(v(errIntegrity))
	p.ExcessiveBufferOverrunErrors, p.VL15Dropped = uint8(v(errOverrun)), uint16(v(errVL15Dropped))
	p.PortXmitWait, p.QP1Dropped = uint32(v(errXmitWait)), uint16(v(errQP1Dropped))
}

// traffic64 lists the 64-bit traffic counters in the order of CounterSelect.
func (c *counters) traffic64() [8]*uint64 {
	return [8]*uint64{&c.xmitData, &c.rcvData, &c.xmitPkts, &c.rcvPkts, &c.uxmit, &c.urcv, &c.mxmit, &c.mrcv}
}

func (s *Subnet) pmaExtended(first, last int32, data []byte, set bool) ib.Status {
	be := binary.BigEndian
	sel, sel2 := be.Uint16(data[2:]), be.Uint32(data[4:])
	// 8 traffic counters at byte 8, then the error counters at 72.
	if set {
		for p := first; p <= last; p++ {
			for i, c := range s.ports[p].cnt.traffic64() {
				if sel&(1<<i) != 0 {
					*c = be.Uint64(data[8+8*i:])
				}
			}
			for i := range numErrs {
				v := be.Uint64(data[72+8*i:])
				if sel2&(1<<i) != 0 && (v != 0 || s.ports[p].cold != nil) {
					s.coldOf(p).pm.err[i] = v
				}
			}
		}
	}
	var traffic [8]uint64
	var errs [numErrs]uint64
	for p := first; p <= last; p++ {
		for i, c := range s.ports[p].cnt.traffic64() {
			traffic[i] += *c
		}
		if c := s.ports[p].cold; c != nil {
			for i, v := range c.pm.err {
				errs[i] += v
			}
		}
	}
	clear(data[8:])
	for i, v := range traffic {
		be.PutUint64(data[8+8*i:], v)
	}
	for i, v := range errs {
		be.PutUint64(data[72+8*i:], v)
	}
	return ib.StatusOK
}

// pmaExtendedSpeeds is PortExtendedSpeedsCounters: errors of the line code, of which
// the links of the simulation have none.
func (s *Subnet) pmaExtendedSpeeds(_, _ int32, data []byte, _ bool) ib.Status {
	clear(data[2:]) // what is left is PortSelect
	return ib.StatusOK
}

// pmaDetails answers the attributes that consist of similar counters.
func (s *Subnet) pmaDetails(f *flight, d *device, attr ib.AttrID, data []byte, set bool) ib.Status {
	for k := range details {
		if details[k].attr == attr {
			return s.pmaPorts(f, d, data, set, func(first, last int32, data []byte, set bool) ib.Status {
				return s.pmaRow(k, first, last, data, set)
			})
		}
	}
	return ib.StatusBadMethodAttr
}

func (s *Subnet) pmaRow(k int, first, last int32, data []byte, set bool) ib.Status {
	a := &details[k]
	sel := binary.BigEndian.Uint16(data[2:])
	var sum [16]uint64
	for p := first; p <= last; p++ {
		row := &s.coldOf(p).pm.rows()[k]
		for i := range int(a.n) {
			if set && sel&(1<<i) != 0 {
				row[i] = getBits(data[4:], i, int(a.bits))
			}
			sum[i] += row[i]
		}
	}
	clear(data[4:])
	for i := range int(a.n) {
		putBits(data[4:], i, int(a.bits), sum[i])
	}
	return ib.StatusOK
}

// getBits reads the i-th field of a row of fields of 2, 16 or 32 bits.
func getBits(b []byte, i, bits int) uint64 {
	switch bits {
	case 2:
		return uint64(b[i/4]>>(6-i%4*2)) & 3
	case 16:
		return uint64(binary.BigEndian.Uint16(b[2*i:]))
	}
	return uint64(binary.BigEndian.Uint32(b[4*i:]))
}

// putBits writes the field and saturates it at all ones.
func putBits(b []byte, i, bits int, v uint64) {
	v = min(v, 1<<bits-1)
	switch bits {
	case 2:
		b[i/4] |= byte(v) << (6 - i%4*2)
	case 16:
		binary.BigEndian.PutUint16(b[2*i:], uint16(v))
	default:
		binary.BigEndian.PutUint32(b[4*i:], uint32(v))
	}
}
