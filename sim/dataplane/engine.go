package dataplane

import (
	"fmt"

	"heddle/fabric"
	"heddle/ib"
)

// Engine is a data plane in virtual time. It belongs to one goroutine.
//
// What happens to packets is the business of parts: one, or one for each worker.
// The Engine itself does what concerns all of them: what callers ask and change
// between runs, and the search for deadlocks.
type Engine struct {
	part            // the first one; mostly the only one
	parts   []*part // all of them
	det     detector
	workers workers
}

// Hooks are called for packets, in the order of events whatever the number of
// workers; each may be nil. Of the Engine they may call Post, and with one worker
// what reads it.
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
	e := &Engine{part: part{world: world{
		cfg: c, top: t, voq: c.Input == VOQ, lazy: c.Input == FIFO && c.Reads == 1, stride: int32(c.Lanes),
	}}}
	e.setTables(tables)
	e.addNodes()
	e.addLinks()
	e.addParts()
	for i := range e.nodes {
		e.refreshNode(int32(i))
	}
	if err := e.checkLanes(); err != nil {
		return nil, err
	}
	if c.DetectEvery >= 0 {
		e.startDetector()
	}
	e.share()
	return e, nil
}

// setTables is before parts share the world.
func (e *Engine) setTables(t Tables) {
	e.tables = t
	e.functions, _ = t.(Functions)
}

// addParts divides the fabric among the workers.
func (e *Engine) addParts() {
	n := min(max(e.cfg.Workers, 1), MaxWorkers)
	if n > 1 {
		e.owner, n = e.owners(split(e.top, n))
	}
	e.parts = []*part{&e.part}
	for range n - 1 {
		e.parts = append(e.parts, &part{})
	}
	e.share()
	for k, p := range e.parts {
		p.init(k, n, e.top)
	}
	if n == 1 {
		return
	}
	for i := range e.out {
		o := &e.out[i]
		o.far = o.peer >= 0 && e.owner[i] != e.owner[o.peer]
		e.in[i].far = o.far
	}
}

// partOf is the part that a port belongs to.
func (e *Engine) partOf(port int32) *part {
	if e.owner == nil {
		return &e.part
	}
	return e.parts[e.owner[port]]
}

// share lets all parts know of what was added or replaced.
func (e *Engine) share() {
	for _, p := range e.parts[1:] {
		p.world = e.world
	}
	e.workers.stale = true
}

// settle ends a change between runs: ports that something happened to choose.
func (e *Engine) settle() {
	for _, p := range e.parts {
		if p.running {
			return // in a hook: at the end of the instant
		}
	}
	if len(e.parts) == 1 {
		e.arbitrateTouched()
		return
	}
	// In the order of port numbers over all parts, as hooks are called at once.
	for {
		low, first := int32(-1), &e.part
		for _, p := range e.parts {
			port := p.touched.take()
			if port < 0 {
				continue
			}
			if low >= 0 && low < port {
				p.touched.add(port)
				continue
			}
			if low >= 0 {
				first.touched.add(low)
			}
			low, first = port, p
		}
		if low < 0 {
			break
		}
		first.running = true
		first.choose(low)
		first.running = false
	}
	e.exchange()
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
	if e.cfg.Details {
		e.details = make([]Detail, np)
	}
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
		e.outLanes[i] = outLane{armedAt: Never, waitFrom: Never, readHead: -1, readTail: -1}
	}
	for i := range e.nodes {
		nd := &e.nodes[i]
		nd.busyOff = off
		off += e.words
		for j := range nd.radix {
			p := nd.first + j
			e.out[p] = outPort{node: int32(i), num: uint8(j), waitFrom: Never, peer: -1, reading: -1, sendStream: -1, sink: -1, source: -1, table: -1}
			e.in[p] = inPort{node: int32(i), num: uint8(j), up: -1, readBy: -1}
		}
	}
	e.busyIn, e.noneBusy = make([]uint64, off), make([]uint64, e.words)
	e.addHosts()
}

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
	e.share()
	e.settle()
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
		e.refreshCongestion(p)
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
	if o.limited || e.nodes[o.node].life != Never {
		e.useLimits()
	}
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
			e.partOf(in.up).touched.add(in.up)
		}
		l.capacity, l.tau = c, tau
	}
	if active != o.active {
		o.active = active
		e.restartWaits(p, active)
		if active {
			e.partOf(p).touched.add(p)
		} else {
			e.partOf(p).portInactive(p)
		}
	}
}

// laneBuffer is the buffer of a lane of an input port in blocks.
func (e *world) laneBuffer(p int32, lane, vls int) int32 {
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

// Events is how many events have been processed, besides those that tell a port of
// credits: they depend on what was known when, and so on the number of workers.
func (e *Engine) Events() (n uint64) {
	for _, p := range e.parts {
		n += p.events - p.wakes
	}
	return n
}

// Next is the time of the next event, Never if there is none.
func (e *Engine) Next() Time {
	t := Never
	for _, p := range e.parts {
		t = min(t, p.look, p.nextEvent())
	}
	return t
}

// Run processes all events before until, and leaves the time there. What the
// caller changes then comes before the packets of that instant.
func (e *Engine) Run(until Time) {
	for {
		if len(e.parts) == 1 {
			e.part.run(until)
		} else {
			e.runParts(until)
		}
		look := e.lookAt()
		for _, p := range e.parts {
			p.now = max(p.now, min(until, look))
		}
		if look >= until {
			return
		}
		e.detect()
	}
}
