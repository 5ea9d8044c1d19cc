package dataplane

import (
	"fmt"
	"math/bits"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim/dataplane/wheel"
)

// Engine is a data plane in virtual time. It belongs to one goroutine.
type Engine struct {
	cfg    Config
	top    *Topology
	tables Tables
	now    Time
	q      *wheel.Queue
	voq    bool
	lazy   bool // an event at the end of a transmission only if something waits
	stride int32
	words  int32 // of a set of inputs

	nodes    []node
	out      []outPort
	in       []inPort
	outLanes []outLane  // by port and lane
	inLanes  []queue    // by port and lane, and output if voq
	voqOuts  []PortMask // by port and lane: outputs with packets, if voq
	requests []uint64   // inputs with a packet, by output and lane
	busyIn   []uint64   // inputs that cannot be read, by node
	noneBusy []uint64   // the empty set
	arbs     []arbTable

	packets    []packet
	freePacket int32
	reads      []read
	freeRead   int32
	touched    portSet

	hosts     []host
	numHosts  int
	hostLanes []queue // ready send queues, by end port and lane
	sendq     []sendQueue
	shared    map[sendKey]int32
	streams   []stream

	programs programs

	stat    *Stats
	flows   []FlowStats
	faults  []portFaults
	groups  groups
	limits  limits
	events  uint64
	det     detector
	running bool
	hooks   Hooks
}

// Hooks are called for packets; each may be nil. Of the Engine they may call
// Post, and what reads it.
type Hooks struct {
	OnDeliver func(d *Delivery)
	OnDrop    func(d *Drop)
}

// New builds the data plane of t. Buffers are empty and nothing is sent until
// streams are added.
func New(t *Topology, tables Tables, c Config) (*Engine, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: c, top: t, tables: tables, q: newWheel(t), freePacket: -1, freeRead: -1, groups: groups{free: -1},
		voq: c.Input == VOQ, lazy: c.Input == FIFO && c.Reads == 1, stride: int32(c.Lanes), shared: map[sendKey]int32{},
	}
	e.stat = &Stats{}
	e.addNodes()
	e.addLinks()
	for i := range e.nodes {
		e.refreshNode(int32(i))
	}
	if err := e.checkLanes(); err != nil {
		return nil, err
	}
	if c.DetectEvery >= 0 {
		e.startDetector()
	}
	return e, nil
}

// newWheel fits the buckets to the number of ports, which the number of events at
// full load is proportional to: some to a bucket. It spans 2 or 4 µs.
func newWheel(t *Topology) *wheel.Queue {
	switch n := len(t.Links); {
	case n < 300:
		return wheel.New(7, 14)
	case n < 5000:
		return wheel.New(6, 16)
	}
	return wheel.New(5, 17)
}

// addNodes lays out nodes and ports: those of the topology, then an end port for
// the management port of each switch.
func (e *Engine) addNodes() {
	ports, widest := int32(0), 0
	add := func(ref, n int, sw bool) {
		nd := node{first: ports, ref: int32(ref), ports: uint8(n), sw: sw, life: Never, radix: int32(n) + 1}
		if sw {
			nd.delay = e.cfg.SwitchDelay
			widest = max(widest, n+1)
		}
		ports += int32(n) + 1
		e.nodes = append(e.nodes, nd)
	}
	for i, n := range e.top.Nodes {
		add(i, n.Ports, n.Switch)
	}
	for i, n := range e.top.Nodes {
		if n.Switch {
			add(i, 0, false)
		}
	}
	e.words = int32((widest + 63) / 64)
	np, nl := int(ports), int(ports*e.stride)
	e.out, e.in = make([]outPort, np), make([]inPort, np)
	e.outLanes, e.requests = make([]outLane, nl), make([]uint64, nl*int(e.words))
	e.faults = make([]portFaults, np)
	e.touched = newPortSet(np)
	off, nq := int32(0), nl
	if e.voq {
		nq = nl * widest
		e.voqOuts = make([]PortMask, nl)
	}
	e.inLanes = make([]queue, nq)
	for i := range e.inLanes {
		e.inLanes[i] = queue{-1, -1}
	}
	for i := range e.outLanes {
		e.outLanes[i] = outLane{armedAt: Never, readHead: -1, readTail: -1}
	}
	for i := range e.nodes {
		nd := &e.nodes[i]
		nd.busyOff = off
		off += e.words
		for j := range nd.radix {
			p := nd.first + j
			e.out[p] = outPort{node: int32(i), num: uint8(j), peer: -1, reading: -1, sink: -1, source: -1, table: -1}
			e.in[p] = inPort{node: int32(i), num: uint8(j), up: -1, readBy: -1}
		}
	}
	e.busyIn, e.noneBusy = make([]uint64, off), make([]uint64, e.words)
	e.addHosts()
}

// radix is the number of VoQs of each (input, lane).
func (e *Engine) radix() int32 { return int32(len(e.inLanes)) / int32(len(e.outLanes)) }

// addHosts numbers the end ports: those of adapters, then those of switches.
func (e *Engine) addHosts() {
	for i := range e.nodes {
		nd := &e.nodes[i]
		if nd.sw {
			continue
		}
		lo, hi := int32(1), nd.radix
		if int(nd.ref) < i || e.top.Nodes[nd.ref].Switch {
			lo, hi = 0, 1
		} else {
			e.numHosts += int(nd.ports)
		}
		for j := lo; j < hi; j++ {
			p := nd.first + j
			e.out[p].source = int32(len(e.hosts))
			e.hosts = append(e.hosts, host{port: p, ref: fabric.Ref{Node: nd.ref, Port: uint8(j)}, held: queue{-1, -1}})
		}
	}
	e.hostLanes = make([]queue, len(e.hosts)*int(e.stride))
	for i := range e.hostLanes {
		e.hostLanes[i] = queue{-1, -1}
	}
}

// addLinks connects ports. The management port of a switch has a cable without
// delay, faster than the switch's fastest.
func (e *Engine) addLinks() {
	connect := func(a, b int32, r Rate, d Time) {
		for _, x := range [2][2]int32{{a, b}, {b, a}} {
			p, q := x[0], x[1]
			e.out[p].peer, e.out[p].rate, e.out[p].cable = q, r, d
			e.in[p].up, e.in[p].rate = q, r
			if far := &e.nodes[e.out[q].node]; !far.sw {
				e.out[p].sink = e.out[q].source
			}
		}
	}
	fast := Rate{1, 1}
	for _, l := range e.top.Links {
		connect(e.port(l.A), e.port(l.B), l.Rate, l.Delay)
	}
	for i := len(e.top.Nodes); i < len(e.nodes); i++ {
		nd := &e.nodes[i]
		connect(nd.first, e.nodes[nd.ref].first, fast, 0)
	}
}

// port is the index of a port of the topology.
func (e *Engine) port(r fabric.Ref) int32 { return e.nodes[r.Node].first + int32(r.Port) }

// ref is the name of a port: that of a switch's end port is port 0.
func (e *Engine) ref(p int32) fabric.Ref {
	o := &e.out[p]
	return fabric.Ref{Node: e.nodes[o.node].ref, Port: o.num}
}

// Refresh reads again what Tables says about the ports of a node: call it after
// a change of port states, rates, lanes, MTU, limits, LIDs or arbitration. What
// packets ask for (Route, Multicast, Lane, Admits) needs no call.
func (e *Engine) Refresh(n int32) {
	e.refreshNode(n)
	for i := len(e.top.Nodes); i < len(e.nodes); i++ {
		if e.nodes[i].ref == n {
			e.refreshNode(int32(i))
		}
	}
	e.arbitrateTouched()
}

func (e *Engine) refreshNode(n int32) {
	nd := &e.nodes[n]
	if nd.sw {
		nd.life = e.tables.Life(nd.ref)
	}
	for j := range nd.radix {
		p := nd.first + j
		if e.out[p].peer < 0 {
			continue
		}
		a := e.tables.Port(nd.ref, uint8(j))
		if j == 0 { // a switch's management port is Active whatever it says
			a.State, a.VLs, a.MTU, a.HOQLife, a.Rate = ib.StateActive, uint8(e.stride), 4096, Never, Rate{}
			a.FilterIn, a.FilterOut = false, false
		}
		e.setPort(p, &a)
		if j > 0 {
			e.out[p].table = e.arbTableOf(e.tables.Arbitration(nd.ref, uint8(j)))
		}
	}
}

// setPort carries out what PortInfo says.
func (e *Engine) setPort(p int32, a *PortAttr) {
	o, in := &e.out[p], &e.in[p]
	if h := o.source; h >= 0 {
		e.hosts[h].lid, e.hosts[h].lids = a.LID, max(a.LIDs, 1)
	}
	up := !e.faults[p].cut && a.State != ib.StateDown
	if e.in[p].up >= 0 && e.faults[p].linked && !up {
		e.linkDown(p)
	}
	e.faults[p].linked = up
	active := up && a.State == ib.StateActive
	in.active = up && (a.State == ib.StateActive || a.State == ib.StateArmed)
	in.filter = a.FilterIn
	f := &e.faults[p]
	f.hoqLife, f.stallCount = a.HOQLife, a.StallCount
	o.filter, o.limited = a.FilterOut, a.HOQLife != Never
	o.maxBytes = a.MTU + maxOverhead
	if !a.Rate.Unlimited() {
		o.rate = a.Rate
		e.in[o.peer].rate = a.Rate
	}
	// The credits of the far end's sender are this port's buffer.
	back := fcBytes
	tau := o.cable + o.rate.Time(back) + e.cfg.CreditDelay
	vls := min(a.VLs, uint8(e.stride))
	o.vls = vls
	for v := range e.stride {
		l := &e.outLanes[in.up*e.stride+v]
		c := e.laneBuffer(p, int(v), int(vls))
		if l.avail += c - l.capacity; c != l.capacity || tau != l.tau {
			e.touched.add(in.up)
		}
		l.capacity, l.tau = c, tau
	}
	if active != o.active {
		o.active = active
		if active {
			e.touched.add(p)
		} else {
			e.portInactive(p)
		}
	}
}

// laneBuffer is the buffer of a lane of an input port in blocks.
func (e *Engine) laneBuffer(p int32, lane, vls int) int32 {
	if lane >= vls {
		return 0
	}
	n := e.cfg.Buffer
	if e.out[p].source >= 0 {
		n = e.cfg.HostBuffer
	} else if e.cfg.LaneBuffer > 0 {
		return int32(e.cfg.LaneBuffer)
	}
	return min(int32(n/vls), maxLaneBlocks)
}

func (e *Engine) checkLanes() error {
	for i := range e.outLanes {
		if c := e.outLanes[i].capacity; c > maxLaneBlocks {
			return fmt.Errorf("dataplane: a lane with a buffer of %d blocks; the 12-bit counters of flow control allow %d", c, maxLaneBlocks)
		}
	}
	return nil
}

// Now is the present time.
func (e *Engine) Now() Time { return e.now }

// Events is how many events have been processed.
func (e *Engine) Events() uint64 { return e.events }

// Next is the time of the next event, Never if there is none.
func (e *Engine) Next() Time {
	if e.q.Len() == 0 {
		return Never
	}
	return Time(e.q.Peek())
}

// Run processes all events before until, and leaves the time there. What the
// caller changes then comes before the packets of that instant.
func (e *Engine) Run(until Time) {
	for {
		t, ok := e.q.NextBefore(int64(until))
		if !ok {
			break
		}
		e.now, e.running = Time(t), true
		for {
			ev, ok := e.q.PopAt(t)
			if !ok {
				break
			}
			e.events++
			e.handle(ev)
		}
		e.running = false
		e.arbitrateTouched()
	}
	e.now = max(e.now, until)
}

func (e *Engine) push(at Time, kind uint32, index, arg int32) {
	e.q.Push(int64(at), kind|uint32(index), arg)
}

func (e *Engine) handle(ev wheel.Event) {
	i := int32(ev.Key & (1<<keyBits - 1))
	switch ev.Key &^ (1<<keyBits - 1) {
	case evEligible:
		e.eligible(i, ev.Arg)
	case evDeliver:
		e.deliver(i, ev.Arg)
	case evSource:
		e.arrival(i)
	case evAck:
		e.acked(i)
	case evProgram:
		e.programTimer(i)
	case evFree:
		e.free(i)
	case evCredit:
		if l := &e.outLanes[i]; l.armedAt <= e.now {
			l.armedAt = Never
		}
		e.touched.add(i / e.stride)
	case evGate:
		e.out[i].gated = false
		e.touched.add(i)
	case evReady:
		if q := e.inLanes[i]; q.head >= 0 {
			e.expose(i, q.head)
		}
	case evLimit:
		e.limit(i)
	case evDetect:
		e.detect()
	}
}

// portSet is a set of ports, taken out lowest first.
type portSet struct {
	words []uint64
	sums  []uint64
	low   int // no sum below it has a bit
}

func newPortSet(n int) portSet {
	w := (n + 63) / 64
	return portSet{words: make([]uint64, w), sums: make([]uint64, (w+63)/64)}
}

func (s *portSet) add(p int32) {
	w := p >> 6
	s.words[w] |= 1 << (p & 63)
	s.sums[w>>6] |= 1 << (w & 63)
	s.low = min(s.low, int(w>>6))
}

// take removes the lowest port, -1: the set is empty.
func (s *portSet) take() int32 {
	for ; s.low < len(s.sums); s.low++ {
		if m := s.sums[s.low]; m != 0 {
			w := s.low<<6 + bits.TrailingZeros64(m)
			b := bits.TrailingZeros64(s.words[w])
			if s.words[w] &= s.words[w] - 1; s.words[w] == 0 {
				s.sums[s.low] &= m - 1
			}
			return int32(w<<6 + b)
		}
	}
	return -1
}

// arbitrateTouched lets every port that something happened to choose a packet,
// in the order of port numbers. A choice can bring the head of another queue to
// light, so ports may come again.
func (e *Engine) arbitrateTouched() {
	if e.running {
		return // at the end of the instant
	}
	for {
		p := e.touched.take()
		if p < 0 {
			return
		}
		e.arbitrate(p)
	}
}
