package sim

import (
	"encoding/binary"
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// pendingTrap is a trap that is sent again until it is repressed.
type pendingTrap struct {
	notice smp.Notice
	tid    uint64
	ep     int32
	due    mad.Time
	sent   int
}

// trapsPending bounds the pending traps of a node; further ones are lost.
const trapsPending = 32

// trap queues a notice of end port ep. A notice equal to a pending one is not
// queued again. The first copy leaves as soon as the minimum interval since the
// node's last trap permits.
func (s *Subnet) trap(ep int32, n smp.Notice) {
	d := &s.devs[s.ports[ep].dev]
	if !s.infos[ep].CapabilityMask.Has(ib.CapIsTrapSupported) || d.down || d.muted {
		return
	}
	if n.Producer == 0 { // not a vendor's
		n.IsGeneric = true
		n.Producer = uint32(d.typ)
	}
	n.IssuerLID = s.ports[ep].lid
	for _, t := range d.traps {
		if t.ep == ep && t.notice == n {
			return
		}
	}
	if !s.canTrap(ep) || len(d.traps) >= trapsPending {
		return
	}
	s.trapTID++
	d.traps = append(d.traps, &pendingTrap{notice: n, tid: s.trapTID & (1<<48 - 1), ep: ep, due: s.k.now})
	s.pumpTraps(d)
}

// canTrap: LID and SM LID known, port Active (IBA §14.2.5.1).
func (s *Subnet) canTrap(ep int32) bool {
	pt := &s.ports[ep]
	return pt.lid != 0 && s.infos[ep].MasterSMLID != 0 && pt.state == ib.StateActive
}

// pumpTraps sends the trap that is due, if the node may send one now, and
// schedules the next. The trap that has waited longest goes first, so an
// unrepressed trap does not delay the others.
func (s *Subnet) pumpTraps(d *device) {
	if d.down || len(d.traps) == 0 {
		return
	}
	t := d.traps[0]
	for _, u := range d.traps[1:] {
		if u.due < t.due {
			t = u
		}
	}
	if at := max(t.due, d.trapAt); at > s.k.now {
		s.armTraps(d, at)
		return
	}
	if s.canTrap(t.ep) {
		if t.sent == 0 {
			s.stats.Traps++
		} else {
			s.stats.TrapRepeats++
		}
		t.sent++
		d.trapAt = s.k.now + s.trapGap(t.ep)
		s.sendTrap(t)
	}
	t.due = s.k.now + max(s.trapGap(t.ep), mad.Time(s.cfg.TrapMinInterval))
	if m := s.cfg.TrapMax; m > 0 && t.sent > m {
		s.forget(t)
	}
	s.pumpTraps(d)
}

// armTraps schedules the next check of d's traps, unless an earlier one is
// scheduled.
func (s *Subnet) armTraps(d *device, at mad.Time) {
	if d.trapTimer != 0 && d.trapTimer <= at {
		return
	}
	d.trapTimer = at
	boots := d.boots
	s.At(at, func() {
		if d.boots == boots && d.trapTimer == at {
			d.trapTimer = 0
			s.pumpTraps(d)
		}
	})
}

func (s *Subnet) sendTrap(t *pendingTrap) {
	pt, pi := &s.ports[t.ep], &s.infos[t.ep]
	f := s.newFlight()
	m := &f.mad
	smp.NewLID(m, ib.MethodTrap, smp.AttrNotice, 0, 0)
	m.SetTID(t.tid)
	t.notice.Put(smp.Data(m))
	f.smp = true
	f.port = t.ep
	f.slid, f.dlid, f.sl = pt.lid, pi.MasterSMLID, pi.MasterSMSL
	f.dqp, f.sqp = 0, 0
	f.stage = stSend
	s.start(f)
}

// forget ends the repetition of t.
func (s *Subnet) forget(t *pendingTrap) {
	d := &s.devs[s.ports[t.ep].dev]
	if i := slices.Index(d.traps, t); i >= 0 {
		d.traps = slices.Delete(d.traps, i, i+1)
	}
}

// repress processes a TrapRepress whose key was right.
func (s *Subnet) repress(d *device, ep int32, tid uint64) {
	for _, t := range d.traps {
		if t.tid == tid && t.ep == ep {
			s.stats.TrapsRepressed++
			s.forget(t)
			return
		}
	}
}

// detail returns a Notice with the 54 bytes of details to fill in.
func putLID(n *smp.Notice, off int, l ib.LID) {
	binary.BigEndian.PutUint16(n.DataDetails[off:], uint16(l))
}

// trap128: a port of switch d changed state.
func (s *Subnet) trap128(d *device) {
	n := smp.Notice{Type: smp.NoticeUrgent, TrapNumber: smp.TrapPortStateChange}
	putLID(&n, 0, s.ports[d.first].lid)
	s.trap(d.first, n)
}

// Flags of trap 144.
const (
	ChangeNodeDescription  uint16 = 1 << 0
	ChangeLinkWidthEnabled uint16 = 1 << 1
	ChangeLinkSpeedEnabled uint16 = 1 << 2
	ChangeSMPriority       uint16 = 1 << 3
)

// trap144: a capability (flags 0) or something else changed locally.
func (s *Subnet) trap144(ep int32, flags uint16) {
	pi := &s.infos[ep]
	n := smp.Notice{Type: smp.NoticeInformational, TrapNumber: smp.TrapLocalChange}
	putLID(&n, 2, s.ports[ep].lid)
	if flags != 0 {
		n.DataDetails[5] = 1
	}
	be := binary.BigEndian
	be.PutUint32(n.DataDetails[6:], uint32(pi.CapabilityMask))
	be.PutUint16(n.DataDetails[10:], flags)
	be.PutUint16(n.DataDetails[12:], uint16(pi.CapabilityMask2))
	s.trap(ep, n)
}

// setCapMask changes the capability mask of an end port, which sends a trap.
func (s *Subnet) setCapMask(ep int32, m ib.CapMask) {
	pi := &s.infos[ep]
	if pi.CapabilityMask == m {
		return
	}
	pi.CapabilityMask = m
	if m.Has(ib.CapIsCapabilityMaskNoticeSupported) {
		s.trap144(ep, 0)
	}
}

// trap256: a wrong M_Key, with the details of the SMP that had it.
func (s *Subnet) trap256(ep int32, m *ib.MAD, slid ib.LID) {
	n := smp.Notice{Type: smp.NoticeSecurity, TrapNumber: smp.TrapBadMKey}
	d := &n.DataDetails
	be := binary.BigEndian
	putLID(&n, 2, s.ports[ep].lid)
	d[6] = byte(m.Method())
	be.PutUint16(d[8:], uint16(m.AttrID()))
	be.PutUint32(d[10:], m.AttrMod())
	be.PutUint64(d[14:], uint64(smp.MKey(m)))
	if m.Class() == ib.ClassSubnDR {
		putLID(&n, 4, smp.DrSLID(m))
		hops := min(smp.HopCount(m), smp.MaxHops)
		d[23] = 0x80
		if hops > 30 {
			d[23] |= 0x40
			hops = 30
		}
		d[23] |= hops
		copy(d[24:24+hops], smp.ReturnPath(m)[1:])
	}
	s.trap(ep, n)
}

// trap257: a packet for ep had a P_Key that its table does not have.
func (s *Subnet) trap257(ep int32, f *flight) {
	n := smp.Notice{Type: smp.NoticeSecurity, TrapNumber: smp.TrapBadPKey}
	putLID(&n, 2, f.slid)
	putLID(&n, 4, f.dlid)
	d := &n.DataDetails
	be := binary.BigEndian
	be.PutUint32(d[6:], uint32(f.pkey))
	be.PutUint32(d[10:], uint32(f.sl)<<28|f.sqp&0xFFFFFF)
	be.PutUint32(d[14:], f.dqp&0xFFFFFF)
	s.trap(ep, n)
}

// trap259: external port p of a switch dropped a packet for its P_Key.
func (s *Subnet) trap259(p int32, f *flight) {
	sw := s.endPort(p)
	if !s.infos[sw].CapabilityMask.Has(ib.CapIsPKeySwitchExternalPortTrap) {
		return
	}
	n := smp.Notice{Type: smp.NoticeSecurity, TrapNumber: smp.TrapBadPKeySwitchPort}
	d := &n.DataDetails
	be := binary.BigEndian
	be.PutUint16(d[0:], 0x3F) // LIDs, P_Key, SL and QPs are valid
	putLID(&n, 2, f.slid)
	putLID(&n, 4, f.dlid)
	be.PutUint16(d[6:], uint16(f.pkey))
	be.PutUint32(d[8:], uint32(f.sl)<<28|f.sqp&0xFFFFFF)
	be.PutUint32(d[12:], f.dqp&0xFFFFFF)
	putLID(&n, 48, s.ports[sw].lid)
	d[50] = s.ports[p].num
	s.trap(sw, n)
}

// InjectTrap makes a node send one of the traps 128 to 131, 144, 145 or 256 to
// 259 without a cause; port is the port it is about.
func (s *Subnet) InjectTrap(node string, port int, number uint16) error {
	p, err := s.portIndex(node, port)
	if err != nil {
		return err
	}
	ep := s.endPort(p)
	d := &s.devs[s.ports[p].dev]
	n := smp.Notice{TrapNumber: number}
	putLID(&n, 2, s.ports[ep].lid)
	switch number {
	case smp.TrapPortStateChange:
		if !d.isSwitch() {
			return fmt.Errorf("sim: %s: trap 128 comes from switches only", s.portName(p))
		}
		d.sw.info.PortStateChange = true
		s.trap128(d)
		return nil
	case smp.TrapLocalPhyErrors, smp.TrapBufferOverrun, smp.TrapFlowCtlWatchdog:
		n.Type = smp.NoticeUrgent
		n.DataDetails[4] = uint8(port)
	case smp.TrapLocalChange:
		s.trap144(ep, ChangeNodeDescription)
		return nil
	case smp.TrapSystemImageGUID:
		n.Type = smp.NoticeInformational
		binary.BigEndian.PutUint64(n.DataDetails[6:], uint64(d.sysimg))
	case smp.TrapBadMKey, smp.TrapBadPKey, smp.TrapBadQKey:
		n.Type = smp.NoticeSecurity
	case smp.TrapBadPKeySwitchPort:
		n.Type = smp.NoticeSecurity
		putLID(&n, 48, s.ports[ep].lid)
		n.DataDetails[50] = uint8(port)
	default:
		return fmt.Errorf("sim: trap %d is not one that devices send", number)
	}
	s.trap(ep, n)
	return nil
}

// SetNodeDescription changes a node's description locally, which it announces
// with trap 144.
func (s *Subnet) SetNodeDescription(node, desc string) error {
	i, err := s.Node(node)
	if err != nil {
		return err
	}
	d := &s.devs[i]
	d.desc.Set(desc)
	ep := d.first
	if !d.isSwitch() {
		ep++
	}
	s.trap144(ep, ChangeNodeDescription)
	return nil
}

// SetSystemImageGUID changes a node's SystemImageGUID, which it announces with
// trap 145.
func (s *Subnet) SetSystemImageGUID(node string, g ib.GUID) error {
	i, err := s.Node(node)
	if err != nil {
		return err
	}
	d := &s.devs[i]
	d.sysimg = g
	port := 0
	if !d.isSwitch() {
		port = 1
	}
	return s.InjectTrap(node, port, smp.TrapSystemImageGUID)
}
