package dataplane

// portFaults is what a port needs for limits and losses: rarely touched.
type portFaults struct {
	hoqLife    Time
	stallCount uint8
	cut        bool // its cable is cut
	linked     bool // it is not down
	urgent     Time // until when VL15 has the link
	drops      [NumCauses]uint64
}

// limits is the state of limits; both are nil until a port has one.
type limits struct {
	armed    []bool // by queue: an event will come
	stallEnd []Time // by lane of output
}

// useLimits makes room for it.
func (e *Engine) useLimits() {
	if e.limits.armed == nil {
		e.limits = limits{make([]bool, len(e.inLanes)), make([]Time, len(e.outLanes))}
		e.share()
	}
}

// deadline is when the head of a queue is dropped: the head of queue life of its
// output, counted since it became head, and the lifetime in the switch, counted
// since it was in.
func (e *part) deadline(p *packet, oi int32, nd *node) (at Time, why Cause) {
	at = Never
	if l := e.faults[oi].hoqLife; l != Never {
		at, why = p.since+l, HeadOfQueue
	}
	if nd.life != Never && p.tail+nd.life < at {
		at, why = p.tail+nd.life, Expired
	}
	return at, why
}

// armLimit arranges the event at which the head of a queue may have to go. There
// is one for each queue; when it comes and the head is another, it is set anew.
func (e *part) armLimit(qi, oi int32, nd *node, p *packet) {
	if e.limits.armed[qi] {
		return
	}
	if at, _ := e.deadline(p, oi, nd); at != Never {
		e.limits.armed[qi] = true
		e.push(max(at, e.now), evLimit, qi, 0)
	}
}

// limit looks whether the head of a queue has stood there too long.
func (e *part) limit(qi int32) {
	e.limits.armed[qi] = false
	id := e.inLanes[qi].head
	if id < 0 || e.packets[id].flags&flagExposed == 0 {
		return
	}
	p := &e.packets[id]
	nd := &e.nodes[e.in[e.inputOf(qi)].node]
	oi := nd.first + int32(p.out)
	at, why := e.deadline(p, oi, nd)
	if at > e.now {
		e.armLimit(qi, oi, nd, p)
		return
	}
	vl := p.vl
	if why == HeadOfQueue {
		e.noteStall(oi, vl)
	}
	e.dropHead(qi, why)
	if e.isStalled(oi, vl) {
		e.dropWaiting(oi, vl, Stalled)
	}
}

// noteStall counts a packet dropped for its head of queue life. After
// VLStallCount of them in a row the lane is stalled for 8 times that life (IBA
// §18.2.5.4): everything for it is dropped.
func (e *part) noteStall(oi int32, vl uint8) {
	l, f := &e.outLanes[oi*e.stride+int32(vl)], &e.faults[oi]
	if l.stalls++; f.stallCount > 0 && l.stalls >= f.stallCount {
		l.stalls, l.stalled = 0, true
		e.limits.stallEnd[oi*e.stride+int32(vl)] = e.now + 8*f.hoqLife
	}
}

func (e *part) isStalled(oi int32, vl uint8) bool {
	ol := oi*e.stride + int32(vl)
	l := &e.outLanes[ol]
	if l.stalled && e.limits.stallEnd[ol] <= e.now {
		l.stalled = false
	}
	return l.stalled
}

// dropWaiting drops the heads that wait for a lane of an output.
func (e *part) dropWaiting(oi int32, vl uint8, why Cause) {
	o := &e.out[oi]
	nd := &e.nodes[o.node]
	if !nd.sw {
		return
	}
	ol := oi*e.stride + int32(vl)
	for num := range nd.radix {
		for e.requests[ol*e.words+num>>6]>>(num&63)&1 != 0 {
			e.dropHeadFor(e.headFor(nd.first+num, o.num, vl).queue, o.num, why)
		}
	}
}
