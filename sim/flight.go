package sim

import (
	"time"

	"heddle/ib"
	"heddle/mad"
)

// flight is one MAD in flight, with the relevant parts of its local route
// header. Flights are recycled.
type flight struct {
	mad    ib.MAD
	origin *Endpoint // gets a notice if it is lost; nil: an agent's own trap
	wait   time.Duration
	id     int32
	port   int32 // the port from which it leaves or at which it arrived
	dqp    uint32
	sqp    uint32
	slid   ib.LID
	dlid   ib.LID
	pkey   ib.PKey
	epoch  uint16
	hops   uint16
	sl     ib.SL
	stage  stage
	smp    bool // VL15
	hasGRH bool
	local  bool // never left its port; nor will the response
	noloss bool // random loss is already decided
	queued bool // waits for an agent
	grh    mad.GRH
	dgid   ib.GID    // with hasGRH: destination GID; grh.GID is the sender's
	svp    *vport    // the virtual function that sent it, nil: the port
	dvp    *vport    // the destination virtual function, once known
	except *Endpoint // sender of a copy that loops back
	probe  *Probe

	pkeyIdx uint16
	why     DropReason // with stLost
}

type stage uint8

const (
	stSend    stage = iota // at the port that sends: loss, duplication, delay
	stLaunch               // at the port that sends: routing
	stArrive               // has crossed a link
	stDeliver              // at its destination
	stServe                // the agent has done its work
	stRide                 // on a data lane of the data plane
	stLand                 // has left the data plane at an end port
	stLost                 // was lost in the data plane
	stDone
)

// DropReason says why a packet was lost.
type DropReason uint8

const (
	DropRandom    DropReason = iota // Config.Drop or a port's error rate
	DropLink                        // no cable, link not up, or lost in flight
	DropState                       // port state does not let data packets pass
	DropNode                        // node is down
	DropRoute                       // illegal directed route
	DropNoLID                       // no forwarding entry, or no port has the LID
	DropLoop                        // hop limit
	DropKey                         // M_Key or P_Key refused
	DropVersion                     // BaseVersion is not 1
	DropMute                        // SMA does not answer
	DropQueue                       // SMA queue full
	DropNobody                      // no endpoint accepts it
	DropUnmatched                   // response to an endpoint that is gone
	DropSL                          // SL mapped to VL15
	DropLife                        // head of queue life, stalled lane, or lifetime in a switch
	DropVPort                       // virtual function: SMP, SL outside its mask, or no GRH where it needs one
	DropStopped                     // the VM is stopped, or on its way to this function
	numDropReasons
)

var dropNames = [numDropReasons]string{
	"random", "link", "state", "node", "route", "no-lid", "loop", "key",
	"version", "mute", "queue", "nobody", "unmatched", "sl", "lifetime", "vport", "stopped",
}

func (r DropReason) String() string {
	if r < numDropReasons {
		return dropNames[r]
	}
	return "?"
}

// madWords is what a MAD adds to the data counters, in 4-byte words: 288
// bytes with its headers.
const madWords = 72

func (s *Subnet) newFlight() *flight {
	if n := len(s.idle); n > 0 {
		f := s.idle[n-1]
		s.idle = s.idle[:n-1]
		f.hops, f.wait, f.local, f.noloss, f.origin, f.pkey, f.hasGRH, f.sl = 0, 0, false, false, nil, 0, false, 0
		f.svp, f.dvp, f.except, f.probe = nil, nil, nil, nil
		return f
	}
	f := &flight{id: int32(len(s.flights))}
	s.flights = append(s.flights, f)
	return f
}

func (s *Subnet) cloneFlight(f *flight) *flight {
	g := s.newFlight()
	id := g.id
	*g = *f
	g.id = id
	return g
}

// start runs f as far as it gets at this moment, and then the packets sent
// meanwhile; inside another packet's run it only queues f.
func (s *Subnet) start(f *flight) {
	if s.busy {
		if len(s.work) == cap(s.work) && s.head > len(s.work)/2 {
			s.work = s.work[:copy(s.work, s.work[s.head:])]
			s.head = 0
		}
		s.work = append(s.work, f)
		return
	}
	s.busy = true
	s.run(f)
	for s.head < len(s.work) {
		g := s.work[s.head]
		s.head++
		if s.head == len(s.work) {
			s.work, s.head = s.work[:0], 0
		}
		s.run(g)
	}
	s.busy = false
}

func (s *Subnet) run(f *flight) {
	for {
		if f.wait > 0 {
			at := s.k.now.Add(f.wait)
			f.wait = 0
			s.k.push(at, evFlight, f.id)
			return
		}
		switch f.stage {
		case stSend:
			s.send(f)
		case stLaunch:
			s.launch(f)
		case stArrive:
			s.arrive(f)
		case stDeliver:
			s.deliver(f)
		case stServe:
			s.serve(f)
		case stLand:
			s.land(f)
		case stLost:
			s.lose(f)
		case stRide:
			return // until carried or strand
		case stDone:
			f.origin = nil
			s.idle = append(s.idle, f)
			return
		}
	}
}

// send applies random loss, duplication and delay to a MAD that leaves its
// port.
func (s *Subnet) send(f *flight) {
	s.stats.Sent++
	f.stage = stLaunch
	if s.cfg.TraceHash {
		s.mix(1, f)
	}
	c := &s.cfg
	if f.noloss || c.Drop == 0 && c.Duplicate == 0 && c.Reorder == 0 {
		return
	}
	r := &s.devs[s.ports[f.port].dev].rng
	if r.chance(c.Duplicate) {
		g := s.cloneFlight(f)
		g.stage, g.noloss = stSend, true
		g.wait = time.Duration(r.below(uint64(c.ReorderMax) + 1))
		s.start(g)
	}
	if r.chance(c.Drop) {
		s.drop(f, DropRandom)
		return
	}
	if r.chance(c.Reorder) {
		f.wait = time.Duration(r.below(uint64(c.ReorderMax) + 1))
	}
}

// drop ends f and notifies its origin.
func (s *Subnet) drop(f *flight, why DropReason) {
	f.stage = stDone
	f.wait = 0
	s.stats.Drops[why]++
	if s.cfg.TraceHash {
		s.mix(uint64(why)<<8|2, f)
	}
	if s.OnDrop != nil {
		pt := &s.ports[f.port]
		s.OnDrop(why, int(pt.dev), pt.num, s.packet(f, s.endPort(f.port)))
	}
	if f.probe != nil {
		s.probeLost(f, why)
	}
	if e := f.origin; e != nil && !e.gone && e.OnUndeliverable != nil {
		p := s.packet(f, e.port)
		p.Status = mad.Failed
		e.OnUndeliverable(p)
	}
}

// launch routes a MAD out of the end port that sends it.
func (s *Subnet) launch(f *flight) {
	d := &s.devs[s.ports[f.port].dev]
	if d.down {
		s.drop(f, DropNode)
		return
	}
	if f.mad.Class() == ib.ClassSubnDR && drStartsHere(&f.mad) {
		s.drOriginate(f, d)
		return
	}
	if f.svp != nil && !s.mayLeave(f) {
		return
	}
	if f.local && f.mad.Method().IsResponse() {
		f.stage = stDeliver
		return
	}
	s.lidOriginate(f, d)
}

// lidOriginate routes f by its DLID out of end port f.port.
func (s *Subnet) lidOriginate(f *flight, d *device) {
	p := &s.ports[f.port]
	switch {
	case f.dlid == 0:
		s.drop(f, DropNoLID)
	case p.ownsLID(f.dlid):
		// Packets between functions of one port need no link.
		if !f.smp && p.state != ib.StateActive && f.svp == nil {
			s.drop(f, DropState)
			return
		}
		if f.mad.Class() == ib.ClassSubnDR {
			s.drArriveLID(f, d) // a mixed route whose LID part is empty
			return
		}
		f.local = true
		f.stage = stDeliver
	case s.data != nil && s.rides(f):
		s.ride(f, d)
	case d.isSwitch():
		if f.dlid == ib.LIDPermissive {
			f.local = true
			f.stage = stDeliver
			return
		}
		s.forward(f, d)
	default:
		if p.hv != nil && f.dlid.IsMulticast() && !f.smp {
			s.loopMulticast(f)
		}
		s.cross(f, f.port)
	}
}

// ownsLID reports whether l is one of the port's LIDs: those of its LMC, or
// those of its virtual functions.
func (p *port) ownsLID(l ib.LID) bool {
	if p.baseLID(l) {
		return true
	}
	if p.hv == nil {
		return false
	}
	_, ok := p.hv.owner(l)
	return ok
}

// baseLID reports whether l is the base LID or one that follows from it.
func (p *port) baseLID(l ib.LID) bool {
	return p.lid != 0 && (l>>p.lmc == p.lid>>p.lmc || uint16(l-p.lid) <= p.extra)
}

// lids is how many LIDs the port has from its base on.
func (p *port) lids() int { return max(1<<p.lmc, int(p.extra)+1) }

// cross sends f out of port out, over the link.
func (s *Subnet) cross(f *flight, out int32) {
	o := &s.ports[out]
	if o.peer < 0 || o.phys != ib.PhysLinkUp {
		f.port = out
		s.countDiscard(out)
		s.drop(f, DropLink)
		return
	}
	if !f.smp {
		if o.state != ib.StateActive {
			f.port = out
			s.countDiscard(out)
			s.drop(f, DropState)
			return
		}
		if o.check&filterOut != 0 && !s.filterPKey(out, f, false) {
			f.port = out
			s.drop(f, DropKey)
			return
		}
	}
	in := &s.ports[o.peer]
	if o.errPct != 0 && s.portError(out, f) || in.errPct != 0 && s.portError(o.peer, f) {
		f.port = out
		s.drop(f, DropRandom)
		return
	}
	s.stats.Hops++
	o.cnt.sent(f.dlid, o.wraps)
	if o.hv != nil {
		o.hv.sent(f)
	}
	if c := o.cold; c != nil {
		c.pm.sentSL(f)
	}
	f.wait = s.cfg.HopLatency
	if s.data != nil && f.smp {
		s.overLink(f, out)
	}
	f.port = o.peer
	f.epoch = in.epoch
	f.stage = stArrive
	if s.cfg.SMILatency != 0 && f.mad.Class() == ib.ClassSubnDR {
		f.wait += s.cfg.SMILatency
	}
	if s.cfg.Jitter != 0 {
		f.wait += time.Duration(s.devs[o.dev].rng.below(uint64(s.cfg.Jitter) + 1))
	}
}

// arrive takes f off the link at port f.port.
func (s *Subnet) arrive(f *flight) {
	in := &s.ports[f.port]
	if in.phys != ib.PhysLinkUp || in.epoch != f.epoch {
		s.drop(f, DropLink)
		return
	}
	d := &s.devs[in.dev]
	in.cnt.received(f.dlid, in.wraps)
	if c := in.cold; c != nil {
		s.receivedVL(&c.pm, f)
	}
	if f.smp {
		if s.data != nil && s.vl15Full(f.port) {
			s.countVL15Drop(f.port)
			s.drop(f, DropQueue)
			return
		}
		if f.dlid == ib.LIDPermissive && f.mad.Class() == ib.ClassSubnDR {
			s.drArrive(f, d)
			return
		}
	} else {
		if in.state != ib.StateActive {
			if in.state != ib.StateArmed {
				s.drop(f, DropState)
				return
			}
			if s.cfg.AutoActive {
				s.setState(f.port, ib.StateActive)
			}
		}
		if in.check&filterIn != 0 && !s.filterPKey(f.port, f, true) {
			s.drop(f, DropKey)
			return
		}
	}
	if f.hops++; int(f.hops) > s.cfg.HopLimit {
		s.countDiscard(f.port)
		s.drop(f, DropLoop)
		return
	}
	e := in
	if d.isSwitch() {
		e = &s.ports[d.first]
		if !e.ownsLID(f.dlid) && (f.dlid != ib.LIDPermissive || !f.smp) {
			s.forward(f, d)
			return
		}
	} else if !e.ownsLID(f.dlid) && !f.dlid.IsMulticast() && (f.dlid != ib.LIDPermissive || !f.smp) {
		s.drop(f, DropNoLID)
		return
	}
	if f.mad.Class() == ib.ClassSubnDR {
		s.drArriveLID(f, d)
		return
	}
	f.stage = stDeliver
}

// forward sends f on by the tables of switch d; f.port is the ingress port,
// port 0 for the switch's own packets.
func (s *Subnet) forward(f *flight, d *device) {
	w := d.sw
	if f.dlid.IsMulticast() {
		s.forwardMulticast(f, d)
		return
	}
	out := byte(noRoute)
	if f.dlid <= w.info.LinearFDBTop {
		out = w.route(f.dlid)
	}
	in := s.ports[f.port].num
	if out == 0 || out > d.nports {
		// An entry for port 0 with a foreign LID leads to an end port that does not
		// own the LID.
		s.countRelayError(f.port, relayDLID)
		s.drop(f, DropNoLID)
		return
	}
	if !f.smp && w.sl2vl != nil && w.vl(in, out, f.sl) == 15 {
		s.countRelayError(f.port, relayVL)
		s.drop(f, DropSL)
		return
	}
	s.cross(f, d.first+int32(out))
}

// forwardMulticast copies f to every port of its group but the ingress.
func (s *Subnet) forwardMulticast(f *flight, d *device) {
	in := s.ports[f.port].num
	mask := d.multicastPorts(f.dlid, in)
	if mask.empty() {
		s.countRelayError(f.port, relayDLID)
		s.drop(f, DropNoLID)
		return
	}
	for p := range int(d.nports) + 1 {
		if uint8(p) == in || !mask.has(uint8(p)) {
			continue
		}
		g := s.cloneFlight(f)
		g.origin = nil
		if p == 0 {
			g.stage = stDeliver
		} else {
			s.cross(g, d.first+int32(p))
		}
		s.start(g)
	}
	f.stage = stDone
}

// mix adds an event to the running hash.
func (s *Subnet) mix(what uint64, f *flight) {
	h := s.hash
	add := func(v uint64) {
		h = (h ^ v) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	add(what)
	add(uint64(s.k.now))
	add(uint64(uint32(f.port))<<32 | uint64(f.slid)<<16 | uint64(f.dlid))
	for i := 0; i < len(f.mad); i += 8 {
		var v uint64
		for _, b := range f.mad[i : i+8] {
			v = v<<8 | uint64(b)
		}
		add(v)
	}
	s.hash = h
}

// TraceHash is a hash over all packets sent, delivered and lost so far, with
// their times; 0 unless Config.TraceHash is set. Two runs with equal hashes had
// the same course.
func (s *Subnet) TraceHash() uint64 { return s.hash }
