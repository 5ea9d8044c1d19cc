package sim

import (
	"fmt"
	"time"

	"heddle/ib"
)

// Quirks are faults of a node; the zero value has none.
type Quirks struct {
	// Mute: the SMA and PMA answer nothing. SMPs still pass through a switch.
	Mute bool
	// Slow is added to Config.SMALatency for each request of the agents; later
	// requests wait.
	Slow time.Duration
	// Garbage: the data of every answer is random.
	Garbage bool
	// WrongTID: responses carry a wrong transaction ID, except for the bits that
	// identify the endpoint.
	WrongTID bool
	// WrongAttr: answers carry another attribute id.
	WrongAttr bool
	// BusyTimes answers the next so many requests with status busy.
	BusyTimes int
	// LinearFDBCap, if not 0, is the true capacity of the linear table.
	LinearFDBCap uint16
	// NodeGUID, if not 0, is the GUID that the node claims; port GUIDs follow it.
	NodeGUID ib.GUID
	// LocalPort, if not nil, replaces the port number in NodeInfo: the two ends of
	// a link disagree.
	LocalPort func(port uint8) uint8
	// NoExtendedSpeeds: the device knows no extended speeds and refuses
	// PortInfo with modifier bit 31.
	NoExtendedSpeeds bool
	// NoPKeys: the node reports no P_Key table, and refuses to read one.
	NoPKeys bool
	// KeepPKeys: every Set of a P_Key table is refused.
	KeepPKeys bool
	// HideExtendedSpeeds: see Config.HideExtendedSpeeds.
	HideExtendedSpeeds bool
}

// SetQuirks sets the faults of a node; nil removes them.
func (s *Subnet) SetQuirks(node string, q *Quirks) error {
	i, err := s.Node(node)
	if err != nil {
		return err
	}
	d := &s.devs[i]
	d.quirk = nil
	d.muted = false
	if q != nil {
		c := *q
		d.quirk = &c
		d.muted = q.Mute
	}
	return nil
}

// MuteSMA makes the agents of a node stop or start answering.
func (s *Subnet) MuteSMA(node string, on bool) error {
	i, err := s.Node(node)
	if err != nil {
		return err
	}
	s.devs[i].muted = on
	return nil
}

// applyQuirkReply corrupts the response f.
func (s *Subnet) applyQuirkReply(f *flight, d *device) {
	q, m := d.quirk, &f.mad
	if q.BusyTimes > 0 {
		q.BusyTimes--
		m.SetStatus(m.Status()&drDirection | ib.StatusBusy)
	}
	if q.Garbage {
		b := m[64:128]
		if !f.smp {
			b = m[64:]
		}
		for i := range b {
			b[i] = byte(d.rng.next() >> 56)
		}
	}
	if q.WrongTID {
		m.SetTID(m.TID() ^ 0x5A5A5A5A)
	}
	if q.WrongAttr {
		m.SetAttrID(m.AttrID() ^ 0x4000)
	}
}

// LinkDown pulls the cable out of a port: both ends go Down, and their
// switches report it.
func (s *Subnet) LinkDown(node string, port int) error {
	p, err := s.cabledPort(node, port)
	if err != nil {
		return err
	}
	s.unplug(p)
	return nil
}

// LinkUp reconnects the cable that the port had when it was last unplugged.
func (s *Subnet) LinkUp(node string, port int) error {
	p, err := s.cabledPort(node, port)
	if err != nil {
		return err
	}
	return s.plug(p, s.cables[p])
}

// cabledPort is a port that has, or had, a cable.
func (s *Subnet) cabledPort(node string, port int) (int32, error) {
	p, err := s.portIndex(node, port)
	if err == nil && s.cables[p] < 0 {
		err = fmt.Errorf("sim: %s never had a cable", s.portName(p))
	}
	return p, err
}

// unplug removes the cable of p and remembers its far end.
func (s *Subnet) unplug(p int32) {
	q := s.ports[p].peer
	if q < 0 {
		return
	}
	s.fall(p, -1)
	s.ports[p].peer, s.ports[q].peer = -1, -1
}

// plug puts a cable between p and q.
func (s *Subnet) plug(p, q int32) error {
	switch {
	case p == q:
		return fmt.Errorf("sim: %s cannot be cabled to itself", s.portName(p))
	case s.ports[p].peer == q:
		return nil
	case s.ports[p].peer >= 0:
		return fmt.Errorf("sim: %s already has a cable", s.portName(p))
	case s.ports[q].peer >= 0:
		return fmt.Errorf("sim: %s already has a cable", s.portName(q))
	}
	s.ports[p].peer, s.ports[q].peer = q, p
	s.cables[p], s.cables[q] = q, p
	if d := s.data; d != nil && d.carry.wired[p] != q {
		d.carry.moved = true
	}
	s.kick(p, -1)
	return nil
}

// Link puts a new cable between two free ports.
func (s *Subnet) Link(a string, ap int, b string, bp int) error {
	p, err := s.portIndex(a, ap)
	if err != nil {
		return err
	}
	q, err := s.portIndex(b, bp)
	if err != nil {
		return err
	}
	if s.ports[p].num == 0 || s.ports[q].num == 0 {
		return fmt.Errorf("sim: port 0 of a switch takes no cable")
	}
	return s.plug(p, q)
}

// NodeDown turns a node off: its links fall, its agents and endpoints are
// silent.
func (s *Subnet) NodeDown(node string) error {
	i, err := s.Node(node)
	if err != nil {
		return err
	}
	d := &s.devs[i]
	if d.down {
		return nil
	}
	d.down = true // first, so that it reports nothing
	s.setState(d.first, ib.StateDown)
	for p := d.first + 1; p <= d.first+int32(d.nports); p++ {
		s.fall(p, -1)
	}
	if s.data != nil {
		s.data.engine.FailNode(int32(i))
	}
	return nil
}

// NodeUp turns a node on, or reboots it: it starts with power-on values,
// without LIDs and with empty tables, and its links train.
func (s *Subnet) NodeUp(node string) error {
	i, err := s.Node(node)
	if err != nil {
		return err
	}
	d := &s.devs[i]
	if !d.down {
		if err := s.NodeDown(node); err != nil {
			return err
		}
	}
	d.down = false
	s.reset(int32(i), false)
	if s.data != nil {
		s.restoreData(int32(i))
	}
	for p := d.first + 1; p <= d.first+int32(d.nports); p++ {
		s.kick(p, -1)
	}
	return nil
}

// SetDrop sets the probability that a MAD is lost, 0–1; see Config.Drop.
func (s *Subnet) SetDrop(p float64) { s.cfg.Drop = min(max(p, 0), 1) }

// SetDuplicate and SetReorder set the probabilities of Config.
func (s *Subnet) SetDuplicate(p float64) { s.cfg.Duplicate = min(max(p, 0), 1) }

// SetReorder sets the probability that a MAD is held back; see Config.
func (s *Subnet) SetReorder(p float64) { s.cfg.Reorder = min(max(p, 0), 1) }

// SetPortError makes a port lose a share of the MADs that cross its link, in
// either direction: percent 0–100, of one attribute or (0) of all. Each loss
// counts as a symbol error.
func (s *Subnet) SetPortError(node string, port int, percent float64, attr ib.AttrID) error {
	p, err := s.portIndex(node, port)
	if err != nil {
		return err
	}
	s.ports[p].errPct = float32(min(max(percent, 0), 100))
	s.ports[p].errAt = attr
	return nil
}

// portError decides whether port p loses f.
func (s *Subnet) portError(p int32, f *flight) bool {
	pt := &s.ports[p]
	if pt.errAt != 0 && pt.errAt != f.mad.AttrID() || !s.devs[pt.dev].rng.chance(float64(pt.errPct)/100) {
		return false
	}
	s.countError(p, errSymbol)
	return true
}

// SetLocalWidth changes LinkWidthEnabled of a port as the node's own
// administrator would: trap 144 announces it, the link trains again.
func (s *Subnet) SetLocalWidth(node string, port int, w ib.LinkWidth) error {
	p, err := s.portIndex(node, port)
	if err != nil {
		return err
	}
	pi := &s.infos[p]
	if w == 0 || w&^pi.LinkWidthSupported != 0 {
		return fmt.Errorf("sim: %s supports widths %v, not %v", s.portName(p), pi.LinkWidthSupported, w)
	}
	pi.LinkWidthEnabled = w
	s.trap144(s.endPort(p), ChangeLinkWidthEnabled)
	s.fall(p, -1)
	s.kick(p, -1)
	return nil
}

// SetLocalSpeed limits the enabled speeds of a port to those up to v in the
// same way.
func (s *Subnet) SetLocalSpeed(node string, port int, v ib.LinkSpeed) error {
	p, err := s.portIndex(node, port)
	if err != nil {
		return err
	}
	pi := &s.infos[p]
	var leg ib.SpeedBits
	var ext ib.SpeedExtBits
	var ext2 ib.SpeedExt2Bits
	for u := ib.SpeedSDR; u <= v; u++ {
		a, b, c, _ := u.Bits()
		leg, ext, ext2 = leg|a, ext|b, ext2|c
	}
	leg, ext, ext2 = leg&pi.LinkSpeedSupported, ext&pi.LinkSpeedExtSupported, ext2&pi.LinkSpeedExtSupported2
	if leg == 0 {
		return fmt.Errorf("sim: %s cannot do %v", s.portName(p), v)
	}
	if ext == 0 {
		ext = ib.SpeedExtBitNone
	}
	pi.LinkSpeedEnabled, pi.LinkSpeedExtEnabled, pi.LinkSpeedExtEnabled2 = leg, ext, ext2
	s.trap144(s.endPort(p), ChangeLinkSpeedEnabled)
	s.fall(p, -1)
	s.kick(p, -1)
	return nil
}
