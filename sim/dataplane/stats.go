package dataplane

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/sim/dataplane/histogram"
	"heddle/sim/dataplane/random"
)

// Cause is why a packet was lost.
type Cause uint8

// The causes. The comments name the counter of the port where the packet was
// lost (IBA §16.1.3.5 and §16.1.4).
const (
	SourceFull   Cause = iota // its queue at the source was full; no counter
	LostOnWire                // the cable failed before it was in (PortRcvErrors)
	BadEnd                    // the cable failed while a switch was passing it on (PortRcvRemotePhysicalErrors)
	NotReceiving              // the input is in Init or down (no counter)
	NoRoute                   // no LFT or MFT entry, or back through the input (PortRcvSwitchRelayErrors)
	NoLane                    // its service level has no lane at the output (PortRcvSwitchRelayErrors)
	TooLong                   // longer than the MTU of the next port (PortXmitDiscards, NeighborMTU)
	Inactive                  // the output is not Active (PortXmitDiscards, Inactive)
	HeadOfQueue               // head of queue life (PortXmitDiscards, HOQLife)
	Stalled                   // the output lane is stalled (PortXmitDiscards, HOQLife)
	Expired                   // lifetime in the switch (PortXmitDiscards, SwLifetime)
	FilteredIn                // partition filter (PortRcvConstraintErrors)
	FilteredOut               // partition filter (PortXmitConstraintErrors)
	WrongHost                 // came to a port that does not have its LID (no counter)
	NodeFailed                // in the buffer of a switch that failed
	numCauses

	// NumCauses is how many there are.
	NumCauses = int(numCauses)
)

var causeNames = [numCauses]string{
	"queue full at the source", "on a cable that failed", "bad end", "input not receiving", "no route", "no lane", "longer than the MTU", "output inactive",
	"head of queue life", "lane stalled", "packet lifetime", "partition filter of the input", "partition filter of the output", "wrong host",
	"in a switch that failed",
}

// String prints "head of queue life".
func (c Cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return "unknown"
}

// Stats counts since New or ResetStats. Of packets that were made before, only
// the end is counted.
type Stats struct {
	Since     Time
	Created   uint64 // packets that streams made, those lost at the source included
	Copies    uint64 // made of multicast packets on their way
	Delivered uint64
	Bytes     uint64 // delivered, headers included
	Dropped   [NumCauses]uint64
	// Latency is from creation to the last byte at the host; Network from the start
	// at the source.
	Latency, Network histogram.Histogram[Time]
	// Hash is a sum over all deliveries of (time, end port, stream, number): equal
	// for equal histories, whatever the order in which they were computed.
	Hash uint64

	live       uint64 // packets at sources, on wires and in buffers
	made, gone uint64 // before Since
}

// Drops is the number of packets lost, SourceFull included.
func (s *Stats) Drops() (n uint64) {
	for _, d := range s.Dropped {
		n += d
	}
	return n
}

// FlowStats counts the packets of a stream.
type FlowStats struct {
	Created, Delivered, Dropped uint64
	Bytes                       uint64 // delivered
	Latest                      Time   // last delivery
}

// Delivery is a packet at its destination.
type Delivery struct {
	At, Created, Injected Time
	Stream, Host          int
	Seq                   uint32 // its number in the stream
	Bytes                 int
	SL                    ib.SL
	Lane                  ib.VL
}

// Drop is a packet that was lost.
type Drop struct {
	At, Created Time
	Stream      int
	Seq         uint32
	Cause       Cause
	Port        fabric.Ref // where
	DLID        ib.LID
}

// SetHooks sets what is called for packets.
func (e *Engine) SetHooks(h Hooks) {
	for _, p := range e.parts {
		p.hooks = h
	}
}

// Stats returns the counts so far.
func (e *Engine) Stats() *Stats {
	c := *e.stat
	for _, p := range e.parts[1:] {
		c.add(p.stat)
	}
	return &c
}

// add adds the counts of another part.
func (s *Stats) add(x *Stats) {
	s.Created += x.Created
	s.Copies += x.Copies
	s.Delivered += x.Delivered
	s.Bytes += x.Bytes
	for i, n := range x.Dropped {
		s.Dropped[i] += n
	}
	s.Latency.Merge(&x.Latency)
	s.Network.Merge(&x.Network)
	s.Hash += x.Hash
	s.live += x.live
	s.made += x.made
	s.gone += x.gone
}

// Live is the number of packets at sources, on wires and in buffers.
func (e *Engine) Live() (n uint64) {
	for _, p := range e.parts {
		n += p.stat.live // of a part alone it may be negative: modulo 2^64
	}
	return n
}

// Flow returns the counts of a stream.
func (e *Engine) Flow(stream int) FlowStats {
	f := e.flows[stream]
	for _, p := range e.parts[1:] {
		x := &p.flows[stream]
		f.Created += x.Created
		f.Delivered += x.Delivered
		f.Dropped += x.Dropped
		f.Bytes += x.Bytes
		f.Latest = max(f.Latest, x.Latest)
	}
	return f
}

// NumStreams is the number of streams.
func (e *Engine) NumStreams() int { return len(e.streams) }

// ResetStats begins to count anew, at the end of a warm-up. The counters of ports
// go on, as those of devices do.
func (e *Engine) ResetStats() {
	for _, p := range e.parts {
		s := p.stat
		*s = Stats{Since: e.now, live: s.live, made: s.made + s.Created + s.Copies, gone: s.gone + s.Delivered + s.Drops()}
		clear(p.flows)
	}
}

func (e *part) delivered(hi, id int32) {
	p := &e.packets[id]
	e.stat.live--
	if p.carried() {
		e.ended(p, hi, -1, 0)
		return
	}
	st, f := e.stat, &e.flows[p.stream]
	st.Delivered++
	st.Bytes += uint64(p.bytes)
	st.Latency.Add(e.now - p.created)
	st.Network.Add(e.now - p.injected)
	f.Delivered++
	f.Bytes += uint64(p.bytes)
	f.Latest = e.now
	x := random.Stream(uint64(e.now)) ^ random.Stream(uint64(hi)<<32|uint64(p.stream)) ^ random.Stream(uint64(p.seq)<<40)
	st.Hash += x.Next()
	if e.hooks.OnDeliver != nil {
		e.tellDelivery(&Delivery{
			At: e.now, Created: p.created, Injected: p.injected, Stream: int(p.stream), Host: int(hi), Seq: p.seq,
			Bytes: int(p.bytes), SL: p.sl, Lane: ib.VL(p.lane),
		})
	}
	if p.flags&flagClosed != 0 {
		e.acknowledge(p.stream)
	}
	if p.flags&flagProgram != 0 {
		e.toProgram(hi, id)
	}
}

// acknowledge tells the source of a closed loop that a packet is gone.
func (e *part) acknowledge(stream int32) {
	s := &e.streams[stream]
	at := e.now + s.AckDelay
	if e.owner != nil {
		if to := e.owner[e.hosts[s.Src].port]; to != e.id {
			e.mailAck(to, ackMail{at, stream})
			return
		}
	}
	e.push(at, evAck, stream, 0)
}

// dropped counts a lost packet and releases it.
func (e *part) dropped(port, id int32, why Cause) {
	p := &e.packets[id]
	e.stat.live--
	e.countDrop(port, p, why)
	if p.flags&flagClosed != 0 {
		e.acknowledge(p.stream)
	}
	e.release(id)
}

func (e *part) countDrop(port int32, p *packet, why Cause) {
	e.faults[port].drops[why]++
	if e.details != nil && (why == HeadOfQueue || why == Stalled || why == Expired) {
		e.details[port].Congested[p.vl]++
	}
	if p.carried() {
		e.ended(p, -1, port, why)
		return
	}
	e.stat.Dropped[why]++
	e.flows[p.stream].Dropped++
	if e.hooks.OnDrop != nil {
		e.tellDrop(&Drop{At: e.now, Created: p.created, Stream: int(p.stream), Seq: p.seq, Cause: why, Port: e.ref(port), DLID: p.dlid})
	}
}

// dropAt loses a packet at input i; its blocks come free at once.
func (e *part) dropAt(i, id int32, why Cause) { e.dropFor(i, i, id, why) }

// dropFor loses a packet that is in the buffer of input i, and counts it at a
// port.
func (e *part) dropFor(port, i, id int32, why Cause) {
	p := &e.packets[id]
	e.giveBack(&e.in[i], p.lane, e.now, e.now, Rate{1, 1}, p.blocks)
	e.dropped(port, id, why)
}

// dropRead loses a packet whose blocks come free anyway.
func (e *part) dropRead(port, id int32, why Cause) { e.dropped(port, id, why) }

// dropHead loses the head of a queue for the output that it waits for.
func (e *part) dropHead(qi int32, why Cause) {
	e.dropHeadFor(qi, e.packets[e.inLanes[qi].head].out, why)
}

// dropNew loses a packet before it has a record.
func (e *part) dropNew(si int32, why Cause) {
	s := &e.streams[si]
	e.stat.Dropped[why]++
	e.flows[si].Dropped++
	e.faults[e.hosts[s.Src].port].drops[why]++
	if e.hooks.OnDrop != nil {
		e.tellDrop(&Drop{At: e.now, Created: e.now, Stream: int(si), Seq: s.seq - 1, Cause: why, Port: e.hosts[s.Src].ref})
	}
}

// PortCounters are the counters of a port since New (IBA §16.1.3.5): never
// cleared, so readers subtract.
type PortCounters struct {
	XmitWords, XmitPackets uint64 // 4-byte words, LRH to ICRC
	RcvWords, RcvPackets   uint64
	XmitWait               Time // a packet waited and none was sent
	Dropped                [NumCauses]uint64
}

// Port returns the counters of a port; port 0 of a switch is its management port.
func (e *Engine) Port(r fabric.Ref) PortCounters {
	p := e.port(r)
	o, in := &e.out[p], &e.in[p]
	c := PortCounters{
		XmitWords: o.words, XmitPackets: o.packets, RcvWords: in.words, RcvPackets: in.packets, XmitWait: o.waited, Dropped: e.faults[p].drops,
	}
	if o.reqs > 0 {
		c.XmitWait += max(0, e.now-o.waitFrom)
	}
	return c
}

// Lane returns what a lane of a port has sent, and how long packets waited for it
// while it sent none.
func (e *Engine) Lane(r fabric.Ref, vl ib.VL) (packets uint64, wait Time) {
	l := &e.outLanes[e.port(r)*e.stride+int32(vl)]
	wait = l.waited
	if l.reqs > 0 {
		wait += max(0, e.now-l.waitFrom)
	}
	return uint64(l.packets), wait
}
