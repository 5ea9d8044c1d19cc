package sim

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/sim/dataplane"
)

// Carriage is what management datagrams share with packets while a data plane
// runs (Subnet.StartData). Without one it means nothing.
type Carriage uint8

const (
	// OnLanes: SMPs take the links on VL15, and GMPs are packets on the data lane
	// that their SL maps to, with credits. Real links carry them like this: VL15 is
	// for SMPs alone (IBA §3.5.7), so an SA answer waits where data waits. The
	// default.
	OnLanes Carriage = iota
	// OnVL15: SMPs take the links; GMPs wait for nothing.
	OnVL15
	// Apart: datagrams and packets share tables and counters only.
	Apart
)

var carriages = [...]string{"lanes", "vl15", "apart"}

// String prints "lanes".
func (c Carriage) String() string { return carriages[c] }

// ParseCarriage reads what String prints.
func ParseCarriage(text string) (Carriage, error) {
	for c, name := range carriages {
		if name == text {
			return Carriage(c), nil
		}
	}
	return 0, fmt.Errorf("sim: carriage %q: lanes, vl15 or apart are possible", text)
}

// defaultVL15 is how many SMPs wait in the VL15 buffer of a port. IBA §7.6.3
// requires room for one; parts do not say what they have.
const defaultVL15 = 32

// carriage is the state of management datagrams on the links of a data plane.
type carriage struct {
	wired  []int32   // by port: the far end of its cable in the data plane
	held   [][]psEnd // by port: SMPs in its VL15 buffer
	ends   []int32   // by port: its end port in the data plane, -1
	ports  []int32   // by end port
	moved  bool      // a cable was moved: routes may use what the data plane has not
	riding int       // datagrams on data lanes
	chased mad.Time  // when the kernel looks next
	target mad.Time  // catchUp runs to it
}

// psEnd is when an SMP leaves a buffer.
type psEnd = dataplane.Time

func (s *Subnet) newCarriage(e *dataplane.Engine) carriage {
	c := carriage{wired: make([]int32, len(s.ports)), held: make([][]psEnd, len(s.ports)), ends: make([]int32, len(s.ports))}
	for p := range s.ports {
		c.wired[p], c.ends[p] = -1, -1
	}
	for a, b := range s.f.Links {
		p, q := s.portAt(a), s.portAt(b)
		c.wired[p], c.wired[q] = q, p
	}
	for p := range s.ports {
		c.moved = c.moved || s.ports[p].peer >= 0 && s.ports[p].peer != c.wired[p]
	}
	for i := range e.NumEnds() {
		p := s.portAt(e.HostPort(i))
		c.ends[p] = int32(i)
		c.ports = append(c.ports, p)
	}
	e.OnCarried(s.carried)
	return c
}

// overLink gives SMP f, which leaves by port out now, the link when VL15 has it,
// and sets how long f is on its way.
func (s *Subnet) overLink(f *flight, out int32) {
	d := s.data
	if s.cfg.Carriage == Apart || d.carry.wired[out] != s.ports[out].peer {
		return
	}
	s.catchUp(s.k.now)
	now := d.engine.Now()
	start, in := d.engine.Urgent(s.portRef(out), dataplane.BytesMAD)
	if start > now && f.port != out && s.ports[f.port].num != 0 {
		d.carry.held[f.port] = append(d.carry.held[f.port], start)
	}
	// HopLatency is what the link takes; the wire may take longer.
	wire := max(in-start, dataplane.FromDuration(s.cfg.HopLatency))
	f.wait = nanoseconds(start - now + wire)
}

// nanoseconds is t, rounded up.
func nanoseconds(t dataplane.Time) time.Duration {
	return (t + dataplane.Nanosecond - 1).Duration()
}

// vl15Full reports whether the VL15 buffer of port p has no room: the SMPs in it
// wait for their output.
func (s *Subnet) vl15Full(p int32) bool {
	d := s.data
	l := d.carry.held[p]
	if len(l) == 0 {
		return false
	}
	now := dataplane.FromDuration(s.k.now.Sub(d.began))
	n := 0
	for _, t := range l {
		if t > now {
			l[n] = t
			n++
		}
	}
	d.carry.held[p] = l[:n]
	return n >= s.cfg.VL15Buffer
}

// rides reports whether f is for a data lane of the data plane.
func (s *Subnet) rides(f *flight) bool {
	return !f.smp && s.cfg.Carriage == OnLanes && f.probe == nil && !f.dlid.IsMulticast() && f.dlid != ib.LIDPermissive &&
		!s.data.carry.moved && s.data.carry.ends[f.port] >= 0
}

// ride puts f, which leaves end port f.port, on a data lane.
func (s *Subnet) ride(f *flight, d *device) {
	p := &s.ports[f.port]
	if !d.isSwitch() {
		why := numDropReasons
		switch {
		case p.peer < 0 || p.phys != ib.PhysLinkUp:
			why = DropLink
		case p.state != ib.StateActive:
			why = DropState
		}
		if why != numDropReasons {
			s.countDiscard(f.port)
			s.drop(f, why)
			return
		}
		if p.errPct != 0 && s.portError(f.port, f) {
			s.drop(f, DropRandom)
			return
		}
		if p.hv != nil {
			p.hv.sent(f)
		}
	}
	bytes := dataplane.BytesMAD
	if f.hasGRH {
		bytes += grhBytes
	}
	s.catchUp(s.k.now)
	c := &s.data.carry
	f.stage = stRide
	c.riding++
	if why, ok := s.data.engine.Carry(&dataplane.Datagram{
		Src: int(c.ends[f.port]), DLID: f.dlid, SL: f.sl, PKey: f.pkey, Bytes: bytes, ID: uint32(f.id),
	}); !ok {
		c.riding--
		s.drop(f, rideLosses[why])
	}
}

// grhBytes is the length of a global route header.
const grhBytes = 40

// sent counts f at the virtual function that sends it.
func (h *hyper) sent(f *flight) {
	v := &h.vps[0]
	if f.svp != nil {
		v = f.svp
	}
	v.cnt.sent(f.dlid, false)
}

// rideLosses is what the loss of a datagram on a data lane is called here.
var rideLosses = [dataplane.NumCauses]DropReason{
	dataplane.LostOnWire: DropLink, dataplane.BadEnd: DropLink, dataplane.NotReceiving: DropState, dataplane.NoRoute: DropNoLID,
	dataplane.NoLane: DropSL, dataplane.TooLong: DropState, dataplane.Inactive: DropState, dataplane.HeadOfQueue: DropLife,
	dataplane.Stalled: DropLife, dataplane.Expired: DropLife, dataplane.FilteredIn: DropKey, dataplane.FilteredOut: DropKey,
	dataplane.NodeFailed: DropNode,
}

// carried takes a datagram off the data lanes: what it does next is an event of
// its time.
func (s *Subnet) carried(c *dataplane.Carried) {
	f, x := s.flights[c.ID], &s.data.carry
	x.riding--
	if c.Host >= 0 {
		f.port, f.stage = x.ports[c.Host], stLand
	} else {
		f.port, f.stage, f.why = s.portAt(c.Port), stLost, rideLosses[c.Cause]
	}
	s.k.push(max(s.data.began.Add(nanoseconds(c.At)), x.target), evFlight, f.id)
}

// land takes a datagram from a data lane to its end port.
func (s *Subnet) land(f *flight) {
	p := &s.ports[f.port]
	switch {
	case !p.ownsLID(f.dlid):
		s.drop(f, DropNoLID)
		return
	case p.errPct != 0 && s.portError(f.port, f):
		s.drop(f, DropRandom)
		return
	case p.state == ib.StateArmed && s.cfg.AutoActive:
		s.setState(f.port, ib.StateActive)
	}
	f.stage = stDeliver
}

// lose ends a datagram that the data plane has lost.
func (s *Subnet) lose(f *flight) {
	if f.why == DropKey {
		s.pkeyViolation(f.port, f)
	}
	s.drop(f, f.why)
}

// settle has the kernel look when the data plane may next bring a datagram to its
// end: within the nanosecond of the engine's next event. It is called before the
// next event is chosen, so the engine never runs past such an end.
func (s *Subnet) settle() {
	d := s.data
	if d.carry.riding == 0 {
		return
	}
	s.refreshData()
	next := d.engine.Next()
	if next == dataplane.Never {
		return // nothing moves until something else happens
	}
	at := d.began.Add(next.Duration()) + 1
	if at < d.carry.chased || d.carry.chased <= s.k.now {
		d.carry.chased = at
		s.k.push(at, evData, 0)
	}
}

// portAt is the port that portRef names.
func (s *Subnet) portAt(r fabric.Ref) int32 { return s.devs[r.Node].first + int32(r.Port) }

// strand loses the datagrams on the data lanes of a data plane that ends.
func (s *Subnet) strand() {
	for _, f := range s.flights {
		if f.stage == stRide {
			f.stage, f.why = stLost, DropLink
			s.k.push(s.k.now, evFlight, f.id)
		}
	}
}
