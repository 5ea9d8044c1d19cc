package sim

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// Change is a change of a device.
type Change struct {
	At   mad.Time
	Kind ChangeKind
	Node int
	Port uint8
	// Attr and AttrMod of a ChangeSet.
	Attr    ib.AttrID
	AttrMod uint32
	// Data is the attribute of a ChangeSet as requested, 64 bytes. It is valid only during the call.
	Data []byte
	// From is the node that sent the request of a ChangeSet, -1 if no program did.
	From int
	// VPort of a ChangeVPort.
	VPort uint16
	// Old and New state of a ChangeState or ChangeVPort.
	Old, New ib.PortState
}

// ChangeKind says what a Change is.
type ChangeKind uint8

const (
	ChangeSet   ChangeKind = iota // an SMA carried out a Set
	ChangeState                   // a port changed its logical state
	ChangeReset                   // a node came up with empty tables
	ChangeVPort                   // a VPort changed its state
)

func (s *Subnet) setState(p int32, st ib.PortState) {
	pt := &s.ports[p]
	old := pt.state
	if old == st {
		return
	}
	pt.state = st
	s.dataChanged(pt.dev)
	s.stats.PortTransitions++
	if s.OnChange != nil {
		s.OnChange(Change{At: s.k.now, Kind: ChangeState, Node: int(pt.dev), Port: pt.num, Old: old, New: st})
	}
}

// ready reports whether port p would take part in training.
func (s *Subnet) ready(p int32) bool {
	pt := &s.ports[p]
	return pt.peer >= 0 && !s.devs[pt.dev].down && pt.phys != ib.PhysDisabled && pt.phys != ib.PhysSleep
}

// kick starts training the link at p if both ends are ready. quiet is a port
// that will not report the change, because a manager requested it there; -1:
// none.
func (s *Subnet) kick(p, quiet int32) {
	if !s.ready(p) || s.ports[p].phys == ib.PhysLinkUp {
		return
	}
	q := s.ports[p].peer
	if !s.ready(q) || s.ports[q].phys == ib.PhysLinkUp {
		return
	}
	if s.cfg.TrainDelay == 0 {
		s.trainNow(p, quiet)
		return
	}
	ep, eq := s.ports[p].epoch, s.ports[q].epoch
	s.After(s.cfg.TrainDelay, func() {
		if s.ports[p].epoch == ep && s.ports[q].epoch == eq && s.ports[p].peer == q {
			s.trainNow(p, quiet)
		}
	})
}

// everyone as the quiet port of trainNow: no port reports.
const everyone = -2

// trainNow brings the link at p up if both ends are ready and have a width and
// a speed that both enable.
func (s *Subnet) trainNow(p, quiet int32) {
	if !s.ready(p) || s.ports[p].phys == ib.PhysLinkUp {
		return
	}
	q := s.ports[p].peer
	if !s.ready(q) || s.ports[q].phys == ib.PhysLinkUp || !s.negotiate(p, q) {
		return
	}
	for _, x := range [2]int32{p, q} {
		pt := &s.ports[x]
		pt.phys = ib.PhysLinkUp
		pt.epoch++
		s.setState(x, ib.StateInit)
		s.refreshFilter(x)
	}
	s.reportChange(p, quiet)
	s.reportChange(q, quiet)
}

// fall takes the link at p down at both ends.
func (s *Subnet) fall(p, quiet int32) {
	fell := false
	for _, x := range [2]int32{p, s.ports[p].peer} {
		if x < 0 {
			continue
		}
		pt := &s.ports[x]
		pt.epoch++
		if pt.phys != ib.PhysLinkUp {
			continue
		}
		fell = true
		pt.phys = ib.PhysPolling
		if s.infos[x].LinkDownDefaultState == ib.PhysSleep {
			pt.phys = ib.PhysSleep
		}
		s.countDowned(x)
		s.setState(x, ib.StateDown)
	}
	if fell {
		if s.data != nil {
			s.refreshData() // what is on the wire is lost, even if the link trains at once
		}
		q := s.ports[p].peer
		s.reportChange(p, quiet)
		s.reportChange(q, quiet)
	}
}

// reportChange sets PortStateChange of a switch and sends trap 128 (IBA
// §14.2.5.4), unless a Set to this port caused the change.
func (s *Subnet) reportChange(p, quiet int32) {
	d := &s.devs[s.ports[p].dev]
	if d.sw == nil || d.down || quiet == p || quiet == everyone {
		return
	}
	d.sw.info.PortStateChange = true
	s.trap128(d)
}

// negotiate sets the active width and speed of both ends to the best that
// both have enabled, and reports whether there is one.
func (s *Subnet) negotiate(p, q int32) bool {
	a, b := &s.infos[p], &s.infos[q]
	w := (a.LinkWidthEnabled & b.LinkWidthEnabled).Widest()
	sp := enabledSpeeds(a, s.fdr10(p)) & enabledSpeeds(b, s.fdr10(q))
	if w == 0 || sp == 0 {
		return false
	}
	best := ib.SpeedSDR
	for v := ib.SpeedSDR; v <= ib.SpeedXDR; v++ {
		if sp&(1<<v) != 0 {
			best = v
		}
	}
	s.setActive(p, w, best)
	s.setActive(q, w, best)
	return true
}

// setActive writes the fields that describe the link. The legacy field gets the
// fastest value it can express, for readers that know no other.
func (s *Subnet) setActive(p int32, w ib.LinkWidth, v ib.LinkSpeed) {
	pi := &s.infos[p]
	pi.LinkWidthActive = w
	leg, ext, ext2, fdr10 := v.Bits()
	if leg == 0 {
		leg = ib.SpeedBitQDR
	}
	pi.LinkSpeedActive, pi.LinkSpeedExtActive, pi.LinkSpeedExtActive2 = leg, ext, ext2
	c := s.ports[p].cold
	if fdr10 {
		c = s.coldOf(p)
	}
	if c != nil {
		c.fdr10Active = fdr10
	}
}

// speedSet is a set of ib.LinkSpeed values, bit v for speed v.
type speedSet uint16

// enabledSpeeds is the set of speeds that a port may train at.
func enabledSpeeds(pi *smp.PortInfo, fdr10 bool) (set speedSet) {
	for v := ib.SpeedSDR; v <= ib.SpeedXDR; v++ {
		leg, ext, ext2, f10 := v.Bits()
		on := pi.LinkSpeedEnabled&leg != 0 || pi.LinkSpeedExtEnabled2&ext2 != 0 || f10 && fdr10
		on = on || pi.LinkSpeedExtEnabled != ib.SpeedExtBitNone && pi.LinkSpeedExtEnabled&ext != 0
		if on {
			set |= 1 << v
		}
	}
	return set
}

// setSpeeds makes a port support and enable all speeds up to v.
func setSpeeds(pi *smp.PortInfo, v ib.LinkSpeed) {
	for u := ib.SpeedSDR; u <= v; u++ {
		leg, ext, ext2, _ := u.Bits()
		pi.LinkSpeedSupported |= leg
		pi.LinkSpeedExtSupported |= ext
		pi.LinkSpeedExtSupported2 |= ext2
	}
	pi.LinkSpeedEnabled = pi.LinkSpeedSupported
	pi.LinkSpeedExtEnabled = pi.LinkSpeedExtSupported
	pi.LinkSpeedExtEnabled2 = pi.LinkSpeedExtSupported2
}

// fdr10 reports whether port p may train at FDR10.
func (s *Subnet) fdr10(p int32) bool {
	c := s.ports[p].cold
	return c != nil && c.fdr10Enabled
}
