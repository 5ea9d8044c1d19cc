package dataplane

import (
	"fmt"

	"heddle/ib"
	"heddle/sim/dataplane/random"
)

// Stream is a source of packets at an end port.
type Stream struct {
	Src  int // end port
	To   Destination
	SL   ib.SL // if Config.SL is nil
	PKey ib.PKey
	// Bytes is the length of its packets on the wire, headers included.
	Bytes int
	// Start and End bound when packets are made; End 0: no end.
	Start, End Time
	// Packets is how many are made in all; 0: no limit, but see Post.
	Packets uint64

	Arrival Arrival
	// Gap is the mean time between packets of Constant and Poisson, and within
	// On of OnOff. With Saturated it is the least time between two starts (a
	// static rate), 0: none.
	Gap Time
	// On and Off are the mean lengths of a burst and of the silence after it, both
	// exponentially distributed.
	On, Off Time
	// Window is the number of packets of Closed that may be unacknowledged, and
	// AckDelay the time from a delivery until the source knows.
	Window   int
	AckDelay Time

	// Queue says with whom its packets wait at the source.
	Queue Sharing
}

// Arrival says when a stream makes packets.
type Arrival uint8

const (
	Saturated Arrival = iota // one is always ready
	Constant                 // every Gap, the first one at a random time within it
	Poisson                  // exponential gaps
	OnOff                    // every Gap in bursts
	Closed                   // one is ready while less than Window are under way
	Posted                   // what Engine.Post orders
	driven                   // what a Program sends
)

// String prints "saturated".
func (a Arrival) String() string {
	return [...]string{"saturated", "constant rate", "Poisson", "on/off", "closed loop", "posted", "program"}[a]
}

// Sharing is the source model: which packets wait behind each other at a host.
// OwnQueue has no limit; in the others a packet that finds its queue full
// (Config.SourceQueue) is lost, and counted as SourceFull.
type Sharing uint8

const (
	OwnQueue  Sharing = iota // each stream has a queue; its first packet blocks the rest of the stream
	LaneQueue                // a queue for each lane of the host
	HostQueue                // one queue for the whole host: its first packet blocks all lanes
	DestQueue                // a queue for each destination
)

// String prints "a queue for each lane, excess lost".
func (s Sharing) String() string {
	return [...]string{
		"a queue for each stream, blocking", "a queue for each lane, excess lost", "one queue for all lanes, excess lost",
		"a queue for each destination, excess lost",
	}[s]
}

// Destination says where the packets of a stream go.
type Destination struct {
	kind  destKind
	one   int32
	among []int32
	share uint32 // of the packets that go to one, in 2⁻³²
	group ib.LID
}

type destKind uint8

const (
	toOne destKind = iota
	toAny
	toGroup
)

// To is one end port.
func To(host int) Destination { return Destination{kind: toOne, one: int32(host)} }

// ToAny draws one of all hosts but the source for each packet.
func ToAny() Destination { return Destination{kind: toAny} }

// ToAmong draws one of hosts, the source left out.
func ToAmong(hosts []int) Destination {
	d := Destination{kind: toAny, among: make([]int32, len(hosts))}
	for i, h := range hosts {
		d.among[i] = int32(h)
	}
	return d
}

// ToGroup is a multicast group.
func ToGroup(mlid ib.LID) Destination { return Destination{kind: toGroup, group: mlid, one: -1} }

// Mixed sends the given share of the packets of d to one host.
func (d Destination) Mixed(share float64, hot int) Destination {
	d.one, d.share = int32(hot), uint32(min(share, 1)*(1<<32-1))
	return d
}

// stream is the state of a Stream.
type stream struct {
	Stream
	queue  int32 // its own, -1
	rng    random.Stream
	seq    uint32
	made   uint64
	posted uint64 // packets ordered by Post
	away   int32  // packets not yet acknowledged
	pkey   ib.PKey
	until  Time // end of the present burst
	last   Time // start of its last packet
	timed  bool // an event will come
}

// AddStream adds a stream and returns its number. Streams cannot be removed; one
// whose End is past costs nothing.
func (e *Engine) AddStream(s Stream) (int, error) {
	if err := e.checkStream(&s); err != nil {
		return 0, err
	}
	n := len(e.streams)
	if s.End == 0 {
		s.End = Never
	}
	x := stream{Stream: s, queue: -1, pkey: s.PKey, rng: random.New(e.cfg.Seed, uint64(n)<<32|uint64(s.Src))}
	if s.Packets == 0 {
		x.Packets = 1<<64 - 1
	}
	if x.pkey == 0 {
		x.pkey = ib.PKeyDefaultFull
	}
	if s.Queue == OwnQueue {
		x.queue = e.partOfHost(s.Src).newSendQueue(int32(s.Src), 0)
	}
	e.streams = append(e.streams, x)
	for _, p := range e.parts {
		p.flows = append(p.flows, FlowStats{})
	}
	e.workers.note(&s)
	e.share()
	at := max(s.Start, e.now)
	st := &e.streams[n]
	switch s.Arrival {
	case Constant:
		// A random phase, or all sources would be in step.
		at += Time(uint64(st.rng.Next()>>32) * uint64(s.Gap) >> 32)
	case Poisson:
		at += Time(st.rng.Exp(int64(s.Gap)))
	case OnOff:
		st.until = at + Time(st.rng.Exp(int64(s.On)))
	}
	if st.pulls() {
		e.partOfHost(s.Src).sendq[st.queue].stream = int32(n)
	}
	if s.Arrival == Posted && s.Start <= e.now {
		return n, nil
	}
	st.timed = true
	e.partOfHost(s.Src).push(at, evSource, int32(n), 0)
	return n, nil
}

// EndStream has a stream make no more packets.
func (e *Engine) EndStream(n int) { e.streams[n].End = min(e.streams[n].End, e.now) }

// pulls reports whether a stream makes a packet when the port can take one.
func (s *stream) pulls() bool {
	return s.Arrival == Saturated || s.Arrival == Closed || s.Arrival == Posted
}

func (e *Engine) checkStream(s *Stream) error {
	if err := e.hostError(s.Src); err != nil {
		return err
	}
	switch {
	case s.Bytes < 1+OverheadRC || s.Bytes > 4096+maxOverhead+2:
		return fmt.Errorf("dataplane: packets of %d bytes; %d to %d are possible", s.Bytes, 1+OverheadRC, 4096+maxOverhead+2)
	case s.End != 0 && s.End <= s.Start:
		return fmt.Errorf("dataplane: a stream that ends at %v, before its start at %v", s.End, s.Start)
	case s.Gap <= 0 && (s.Arrival == Constant || s.Arrival == Poisson || s.Arrival == OnOff):
		return fmt.Errorf("dataplane: %v without a time between packets: the load is 0 or infinite", s.Arrival)
	case s.Arrival == OnOff && (s.On <= 0 || s.Off <= 0):
		return fmt.Errorf("dataplane: on/off with bursts of %v and silences of %v", s.On, s.Off)
	case s.Arrival == Closed && s.Window < 1:
		return fmt.Errorf("dataplane: a window of %d packets", s.Window)
	case s.Queue != OwnQueue && (s.Arrival == Saturated || s.Arrival == Closed || s.Arrival == Posted):
		return fmt.Errorf("dataplane: %v has a queue of its own; give a rate to share one", s.Arrival)
	}
	if err := e.checkDestination(s); err != nil {
		return err
	}
	if n := e.maxLane(s.Src); n < Blocks(s.Bytes) {
		return fmt.Errorf("dataplane: packets of %d bytes take %d blocks, and a lane of the next port holds %d: nothing could start",
			s.Bytes, Blocks(s.Bytes), n)
	}
	return nil
}

// checkDestination reports a destination that is nobody.
func (e *Engine) checkDestination(s *Stream) error {
	d := &s.To
	if d.kind == toOne || d.share > 0 {
		if err := e.hostError(int(d.one)); err != nil {
			return err
		}
	}
	switch {
	case d.kind == toOne && int(d.one) == s.Src:
		return fmt.Errorf("dataplane: host %d sends to itself", s.Src)
	case d.kind == toGroup && !d.group.IsMulticast():
		return fmt.Errorf("dataplane: %v is not a multicast LID", d.group)
	case d.kind != toAny:
		return nil
	}
	others := e.numHosts - 1
	if d.among != nil {
		others = 0
	}
	for _, h := range d.among {
		if err := e.hostError(int(h)); err != nil {
			return err
		}
		if int(h) != s.Src {
			others++
		}
	}
	if others < 1 {
		return fmt.Errorf("dataplane: host %d has nobody to send to", s.Src)
	}
	return nil
}

// maxLane is the largest lane that a host can send to.
func (e *Engine) maxLane(h int) (n int) {
	oi := e.hosts[h].port
	for v := range e.stride {
		n = max(n, int(e.outLanes[oi*e.stride+v].capacity))
	}
	return n
}

func (e *part) newSendQueue(h, limit int32) int32 {
	e.sendq = append(e.sendq, sendQueue{q: queue{-1, -1}, next: -1, host: h, limit: limit, stream: -1})
	return int32(len(e.sendq) - 1)
}

// Post orders n more packets of a stream whose Arrival is Posted.
func (e *Engine) Post(s int, n uint64) {
	e.streams[s].posted += n
	e.partOfHost(e.streams[s].Src).refill(int32(s))
	e.settle()
}

// arrival is the time of a stream's next packet.
func (e *part) arrival(si int32) {
	s := &e.streams[si]
	s.timed = false
	if s.pulls() {
		e.refill(si)
		return
	}
	if e.now >= s.End || s.made >= s.Packets {
		return
	}
	e.make(si)
	s = &e.streams[si]
	at := e.now + s.Gap
	if s.Arrival == Poisson {
		at = e.now + Time(s.rng.Exp(int64(s.Gap)))
	}
	if s.Arrival == OnOff && at >= s.until {
		at = max(e.now, s.until) + Time(s.rng.Exp(int64(s.Off)))
		s.until = at + Time(s.rng.Exp(int64(s.On)))
	}
	if at < s.End {
		s.timed = true
		e.push(at, evSource, si, 0)
	}
}

// refill makes the next packet of a stream that is asked for it, if it may.
func (e *part) refill(si int32) {
	s := &e.streams[si]
	if s.Arrival == driven {
		if e.residents != nil { // not in a clone
			e.residents[s.Src].program.Left(int(si))
		}
		return
	}
	if s.timed || e.now < s.Start || e.now >= s.End || s.made >= s.Packets || e.sendq[s.queue].n > 0 ||
		s.Arrival == Posted && s.made >= s.posted {
		return
	}
	if s.Arrival == Closed {
		if int(s.away) >= s.Window {
			return
		}
		s.away++
	}
	if s.Gap > 0 && s.made > 0 {
		if at := s.last + s.Gap; at > e.now && s.Arrival != Closed {
			s.timed = true
			e.push(at, evSource, si, 0)
			return
		}
	}
	s.last = e.now
	if e.make(si) {
		return
	}
	// There is no path, or no lane for it. The next one may go elsewhere, at the time
	// at which this one would have left.
	s = &e.streams[si]
	if s.Arrival == Closed {
		s.away--
	}
	s.timed = true
	e.push(e.now+max(1, e.out[e.hosts[s.Src].port].rate.Time(s.Bytes)), evSource, si, 0)
}

// acked is the end of a packet of a closed loop at its source.
func (e *part) acked(si int32) {
	e.streams[si].away--
	e.refill(si)
}

// make makes a packet and puts it into its queue; false: it was lost at once, or
// there is no path.
func (e *part) make(si int32) bool {
	s := &e.streams[si]
	s.made++
	dst := e.drawDest(s)
	sl, dlid := s.SL, s.To.group
	if dst >= 0 {
		dlid = e.hosts[dst].lid
		if e.cfg.SL != nil {
			sl = e.cfg.SL(s.Src, int(dst))
		}
	}
	if dlid == 0 {
		return false // the destination has no LID yet, so there is no path to it
	}
	h := &e.hosts[s.Src]
	vl := e.tables.Lane(h.ref.Node, 0, h.ref.Port, sl)
	e.stat.Created++
	e.flows[si].Created++
	seq := s.seq
	s.seq++
	if h.ref.Port == 0 {
		vl = 0 // the management port of a switch has one queue
	}
	if uint8(vl) >= e.out[h.port].vls {
		e.dropNew(si, NoLane)
		return false
	}
	if e.cfg.DiscardInactive && !e.out[h.port].active && !s.pulls() {
		e.dropNew(si, Inactive)
		return false
	}
	q := e.sendQueueOf(s, si, dst, int32(vl))
	if x := &e.sendq[q]; x.limit > 0 && x.n >= x.limit {
		e.dropNew(si, SourceFull)
		return false
	}
	id := e.newPacket()
	e.packets[id] = packet{
		created: e.now, next: -1, stream: si, dst: dst, seq: seq, mc: -1, dlid: dlid, bytes: uint16(s.Bytes),
		blocks: uint16(Blocks(s.Bytes)), lane: uint8(vl), sl: sl,
	}
	if s.Arrival == Closed {
		e.packets[id].flags = flagClosed
	}
	e.stat.live++
	e.enqueueSend(q, id)
	return true
}

// drawDest draws the end port that a packet is for, -1: a group.
func (e *part) drawDest(s *stream) int32 {
	d := &s.To
	if d.kind == toOne {
		return d.one
	}
	if d.kind == toGroup {
		return -1
	}
	if d.share > 0 && uint32(s.rng.Next()>>32) < d.share && int(d.one) != s.Src {
		return d.one
	}
	if d.among != nil {
		for {
			if h := d.among[s.rng.Below(uint32(len(d.among)))]; int(h) != s.Src {
				return h
			}
		}
	}
	if s.Src >= e.numHosts {
		return s.rng.Below(uint32(e.numHosts))
	}
	h := s.rng.Below(uint32(e.numHosts - 1))
	if int(h) >= s.Src {
		h++
	}
	return h
}

// sendQueueOf is the queue that a packet waits in.
func (e *part) sendQueueOf(s *stream, si, dst, vl int32) int32 {
	if s.queue >= 0 {
		return s.queue
	}
	k := sendKey{kind: s.Queue, host: int32(s.Src)}
	switch s.Queue {
	case LaneQueue:
		k.sub = vl
	case DestQueue:
		k.sub = dst
	}
	if q, ok := e.shared[k]; ok {
		return q
	}
	q := e.newSendQueue(k.host, int32(e.cfg.SourceQueue))
	e.shared[k] = q
	return q
}
