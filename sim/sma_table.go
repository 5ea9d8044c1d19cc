package sim

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
)

// linearCap is the size of d's linear table in LIDs.
func (s *Subnet) linearCap(d *device) uint16 {
	if d.quirk != nil && d.quirk.LinearFDBCap != 0 {
		return d.quirk.LinearFDBCap
	}
	return d.sw.info.LinearFDBCap
}

// smaLFT is Get and Set of a block of 64 unicast entries (IBA §14.2.5.10).
func (s *Subnet) smaLFT(r *smaRequest) ib.Status {
	w := r.d.sw
	if w == nil {
		return ib.StatusBadMethodAttr
	}
	if r.am*smp.LFTBlockLIDs >= uint32(s.linearCap(r.d)) || r.am >= smp.LFTBlocks {
		return ib.StatusInvalidField
	}
	first := int(r.am) * smp.LFTBlockLIDs
	if r.set {
		s.stats.LFTSets++
		w.growLFT(first + smp.LFTBlockLIDs)
		copy(w.lft[first:first+smp.LFTBlockLIDs], r.data)
		return ib.StatusOK
	}
	n := 0
	if first < len(w.lft) {
		n = copy(r.data[:smp.LFTBlockLIDs], w.lft[first:])
	}
	for i := n; i < smp.LFTBlockLIDs; i++ {
		r.data[i] = noRoute
	}
	return ib.StatusOK
}

// growLFT extends the table to n entries; new ones drop.
func (w *switchState) growLFT(n int) {
	if n <= len(w.lft) {
		return
	}
	if n > cap(w.lft) {
		// An eighth more than requested: tables are written in ascending order.
		t := make([]byte, len(w.lft), min((n+n/8+smp.LFTBlockLIDs-1)&^(smp.LFTBlockLIDs-1), 0xC000))
		copy(t, w.lft)
		w.lft = t
	}
	old := len(w.lft)
	w.lft = w.lft[:n]
	for i := old; i < n; i++ {
		w.lft[i] = noRoute
	}
}

// portMask is a set of ports of a switch.
type portMask [4]uint64

func (m *portMask) has(p uint8) bool { return m[p>>6]&(1<<(p&63)) != 0 }
func (m *portMask) add(p uint8)      { m[p>>6] |= 1 << (p & 63) }
func (m *portMask) empty() bool      { return *m == portMask{} }

// multicastPorts is where d sends a packet for group l from port in: the
// table's mask, or the default ports of SwitchInfo.
func (d *device) multicastPorts(l ib.LID, in uint8) (m portMask) {
	i := &d.sw.info
	if i.MulticastFDBTop == 0 || l <= i.MulticastFDBTop {
		b, k := smp.MFTBlockOf(l)
		for pos := range uint32(d.nports)/16 + 1 {
			if row := d.sw.mft[pos<<16|uint32(b)]; row != nil {
				m[pos/4] |= uint64(row[k]) << (pos % 4 * 16)
			}
		}
	}
	if m.empty() {
		out := i.DefaultMulticastPrimaryPort
		if in == out {
			out = i.DefaultMulticastNotPrimaryPort
		}
		if out <= d.nports && out != in {
			m.add(out)
		}
		return m
	}
	m[in>>6] &^= 1 << (in & 63)
	return m
}

// smaMFT is Get and Set of a block of 32 multicast masks (IBA §14.2.5.12).
func (s *Subnet) smaMFT(r *smaRequest) ib.Status {
	w := r.d.sw
	if w == nil {
		return ib.StatusBadMethodAttr
	}
	b, pos := smp.SplitMFTMod(r.am)
	if r.am&^0xF00001FF != 0 || uint32(b)*smp.MFTBlockMLIDs >= uint32(w.info.MulticastFDBCap) || pos > r.d.nports/16 {
		return ib.StatusInvalidField
	}
	key := uint32(pos)<<16 | uint32(b)
	var t smp.MFT
	if r.set {
		_ = t.Decode(r.data)
		s.stats.MFTSets++
		row := w.mft[key]
		if row == nil {
			if t == (smp.MFT{}) {
				return ib.StatusOK
			}
			if w.mft == nil {
				w.mft = make(map[uint32]*smp.MFT)
			}
			row = new(smp.MFT)
			w.mft[key] = row
		}
		*row = t
		return ib.StatusOK
	}
	if row := w.mft[key]; row != nil {
		t = *row
	}
	t.Put(r.data)
	return ib.StatusOK
}

// pkeyCap is the number of P_Key entries of port p.
func (s *Subnet) pkeyCap(p int32) int {
	if s.endPort(p) == p {
		return int(s.cfg.PartitionCap)
	}
	return int(s.cfg.ExternalPartitionCap)
}

// pkeyAt is entry i of the P_Key table of p. Until the first write it has only
// the default partition.
func (s *Subnet) pkeyAt(p int32, i int) ib.PKey {
	if c := s.ports[p].cold; c != nil && c.pkeys != nil {
		if i < len(c.pkeys) {
			return c.pkeys[i]
		}
		return 0
	}
	if i == 0 {
		return ib.PKeyDefaultFull
	}
	return 0
}

// smaPKeyTable is Get and Set of a block of 32 partition keys (IBA §14.2.5.7).
func (s *Subnet) smaPKeyTable(r *smaRequest) ib.Status {
	port, block := smp.SplitPKeyMod(r.am)
	p := r.ep
	if q := r.d.quirk; q != nil && (q.NoPKeys || q.KeepPKeys && r.set) {
		return ib.StatusBadMethodAttr
	}
	// Only a switch names the port. The agent of a CA or router has one table, that of
	// the receiving port, and ignores the port number, as in ibsim and in hardware.
	if port != 0 && r.d.isSwitch() {
		if port > uint16(r.d.nports) {
			return ib.StatusInvalidField
		}
		p = r.d.first + int32(port)
	}
	capacity := s.pkeyCap(p)
	first := int(block) * smp.PKeyBlockLen
	if first >= capacity {
		return ib.StatusInvalidField
	}
	var t smp.PKeyTable
	if r.set {
		_ = t.Decode(r.data)
		c := s.coldOf(p)
		if c.pkeys == nil {
			c.pkeys = make([]ib.PKey, capacity)
			c.pkeys[0] = ib.PKeyDefaultFull
		}
		copy(c.pkeys[first:], t[:])
	}
	for i := range t {
		t[i] = s.pkeyAt(p, first+i)
	}
	t.Put(r.data)
	return ib.StatusOK
}

// Enforcement at an external port, as port.check keeps it.
const (
	filterIn  = 1
	filterOut = 2
)

func (s *Subnet) refreshFilter(p int32) {
	pi := &s.infos[p]
	s.ports[p].check = 0
	if pi.PartitionEnforcementInbound {
		s.ports[p].check |= filterIn
	}
	if pi.PartitionEnforcementOutbound {
		s.ports[p].check |= filterOut
	}
}

// pkeyMatch finds a key of p's table with the same 15 bits as k, if it or k has
// full membership (IBA §10.9.3).
func (s *Subnet) pkeyMatch(p int32, k ib.PKey) (index int, ok bool) {
	if k&0x7FFF == 0 {
		return 0, false
	}
	c := s.ports[p].cold
	if c == nil || c.pkeys == nil {
		return 0, k&0x7FFF == 0x7FFF
	}
	for i, t := range c.pkeys {
		if (t^k)&0x7FFF == 0 && (t|k)&0x8000 != 0 {
			return i, true
		}
	}
	return 0, false
}

// checkPKey is the partition check of end port ep on a packet for it.
func (s *Subnet) checkPKey(ep int32, f *flight) bool {
	i, ok := s.pkeyMatch(ep, f.pkey)
	if ok {
		f.pkeyIdx = uint16(i)
		return true
	}
	if pi := &s.infos[ep]; pi.PKeyViolations != 0xFFFF {
		pi.PKeyViolations++
	}
	s.trap257(ep, f)
	return false
}

// pkeyMayEnter reports whether a packet with key k may enter a switch at external
// port p. The table there lists the keys of the attached port, so a packet must not
// claim more: full membership needs a full entry, limited membership any entry with
// the same 15 bits (IBA o18-14). The receivers' rule does not apply, because by it
// a limited member could not send through its own limited entry.
func (s *Subnet) pkeyMayEnter(p int32, k ib.PKey) bool {
	if k&0x7FFF == 0 {
		return false
	}
	c := s.ports[p].cold
	if c == nil || c.pkeys == nil {
		return k&0x7FFF == 0x7FFF
	}
	return slices.ContainsFunc(c.pkeys, func(t ib.PKey) bool { return t == k || t == k|0x8000 })
}

// filterPKey is the partition check of external port p of a switch on packets
// that enter or leave there. An outgoing packet is checked as its receiver will
// check it.
func (s *Subnet) filterPKey(p int32, f *flight, in bool) bool {
	ok := false
	if in {
		ok = s.pkeyMayEnter(p, f.pkey)
	} else {
		_, ok = s.pkeyMatch(p, f.pkey)
	}
	if ok {
		return true
	}
	s.countConstraint(p, in)
	s.pkeyViolation(p, f)
	return false
}

// pkeyViolation notes and reports that external port p of a switch has filtered f.
func (s *Subnet) pkeyViolation(p int32, f *flight) {
	if pi := &s.infos[p]; pi.PKeyViolations != 0xFFFF {
		pi.PKeyViolations++
	}
	s.trap259(p, f)
}

// defaultSLtoVL spreads the SLs over the VLs that a port has.
func (s *Subnet) defaultSLtoVL() (t smp.SLtoVL) {
	n := ib.VLsOf(s.cfg.VLCap)
	for i := range t {
		t[i] = ib.VL(i % n)
	}
	return t
}

// vl is the VL that a packet of service level sl takes from in to out.
func (w *switchState) vl(in, out uint8, sl ib.SL) ib.VL {
	if row := w.sl2vl[out]; row != nil {
		return row[in][sl]
	}
	return 0
}

// smaSLtoVL is Get and Set of the SL to VL mapping of one (input, output) pair
// (IBA §14.2.5.8), or, on a switch with that capability, of all pairs of a
// kind.
func (s *Subnet) smaSLtoVL(r *smaRequest) ib.Status {
	in, out, allIn, allOut := smp.SplitSLtoVLMod(r.am)
	wild := allIn || allOut
	switch {
	case r.am>>18 != 0:
		return ib.StatusInvalidField
	case !r.d.isSwitch():
		if r.am != 0 {
			return ib.StatusInvalidField
		}
		in, out = 0, s.ports[r.in].num
	case in > r.d.nports || out > r.d.nports:
		return ib.StatusInvalidField
	case wild && (!r.set || r.d.sw.info.OptimizedSLtoVLMappingProgramming&1 == 0):
		return ib.StatusInvalidField
	}
	var t smp.SLtoVL
	if r.set {
		_ = t.Decode(r.data)
		if !r.d.isSwitch() {
			c := s.coldOf(r.in)
			if c.sl2vl == nil {
				c.sl2vl = new(smp.SLtoVL)
			}
			*c.sl2vl = t
		} else {
			ins, outs := [2]uint8{in, in}, [2]uint8{out, out}
			if allIn {
				ins = [2]uint8{0, r.d.nports}
			}
			if allOut {
				outs = [2]uint8{0, r.d.nports}
			}
			s.writeSLtoVL(r.d, ins, outs, &t)
		}
		clear(r.data[smp.SLtoVLLen:])
		t.Put(r.data)
		return ib.StatusOK
	}
	switch {
	case !r.d.isSwitch():
		if c := s.ports[r.in].cold; c != nil && c.sl2vl != nil {
			t = *c.sl2vl
		} else {
			t = s.defaultSLtoVL()
		}
	case r.d.sw.sl2vl != nil && r.d.sw.sl2vl[out] != nil:
		t = r.d.sw.sl2vl[out][in]
	default:
		t = s.defaultSLtoVL()
	}
	clear(r.data[smp.SLtoVLLen:])
	t.Put(r.data)
	return ib.StatusOK
}

// writeSLtoVL stores t for all pairs of two ranges of ports, bounds included.
func (s *Subnet) writeSLtoVL(d *device, ins, outs [2]uint8, t *smp.SLtoVL) {
	w := d.sw
	if w.sl2vl == nil {
		w.sl2vl = make([][]smp.SLtoVL, int(d.nports)+1)
	}
	for o := int(outs[0]); o <= int(outs[1]); o++ {
		if w.sl2vl[o] == nil {
			row := make([]smp.SLtoVL, int(d.nports)+1)
			def := s.defaultSLtoVL()
			for i := range row {
				row[i] = def
			}
			w.sl2vl[o] = row
		}
		for i := int(ins[0]); i <= int(ins[1]); i++ {
			w.sl2vl[o][i] = *t
		}
	}
}

// smaVLArb is Get and Set of a part of a VL arbitration table (IBA §14.2.5.9).
func (s *Subnet) smaVLArb(r *smaRequest) ib.Status {
	part, port := smp.SplitVLArbMod(r.am)
	p := r.in
	if r.d.isSwitch() {
		p = r.d.first + int32(port)
	}
	if part < smp.VLArbLow0 || part > smp.VLArbHigh1 || uint16(r.am) > uint16(r.d.nports) || !r.d.isSwitch() && port != 0 && port != s.ports[r.in].num {
		return ib.StatusInvalidField
	}
	if s.infos[p].VLCap <= 1 {
		return ib.StatusBadMethod // with one VL there is nothing to arbitrate
	}
	var t smp.VLArb
	if r.set {
		_ = t.Decode(r.data)
		c := s.coldOf(p)
		if c.vlarb == nil {
			c.vlarb = new([4]smp.VLArb)
		}
		c.vlarb[part-1] = t
	} else if c := s.ports[p].cold; c != nil && c.vlarb != nil {
		t = c.vlarb[part-1]
	}
	t.Put(r.data)
	return ib.StatusOK
}
