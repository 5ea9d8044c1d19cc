package dataplane

import (
	"math/bits"

	"heddle/ib"
)

// A switch: a packet becomes eligible, waits in the buffer of its input, and is
// chosen by an output.

// queueOf is the queue of a packet at an input.
func (e *Engine) queueOf(in int32, lane, out uint8) int32 {
	q := in*e.stride + int32(lane)
	if e.voq {
		return q*e.radix() + int32(out)
	}
	return q
}

// inputOf is the input of a queue.
func (e *Engine) inputOf(q int32) int32 {
	if e.voq {
		q /= e.radix()
	}
	return q / e.stride
}

// eligible looks up a packet whose head came in SwitchDelay ago at input i, and
// puts it into its queue.
func (e *Engine) eligible(i, id int32) {
	p, in := &e.packets[id], &e.in[i]
	if p.flags&flagLost != 0 {
		e.dropAt(i, id, LostOnWire)
		return
	}
	if !in.active {
		e.dropAt(i, id, NotReceiving)
		return
	}
	in.packets++
	in.words += words(p.bytes)
	if p.flags&flagBadEnd != 0 {
		e.dropAt(i, id, BadEnd)
		return
	}
	nd := &e.nodes[in.node]
	if in.filter && !e.tables.Admits(nd.ref, in.num, false, e.streams[p.stream].pkey) {
		e.dropAt(i, id, FilteredIn)
		return
	}
	if p.dlid.IsMulticast() {
		e.eligibleGroup(i, id)
		return
	}
	out := e.tables.Route(nd.ref, p.dlid)
	if int32(out) >= nd.radix || out == in.num {
		e.dropAt(i, id, NoRoute)
		return
	}
	vl, why := e.leave(nd, in, out, p)
	if why != numCauses {
		e.dropFor(nd.first+int32(out), i, id, why)
		return
	}
	p.out, p.vl = out, vl
	e.enqueue(i, id)
}

// leave decides on which lane a packet may leave by a port, numCauses: it may.
func (e *Engine) leave(nd *node, in *inPort, out uint8, p *packet) (vl uint8, why Cause) {
	oi := nd.first + int32(out)
	o := &e.out[oi]
	if !o.active {
		return 0, Inactive
	}
	v := ib.VL(0)
	if out == 0 {
		v = ib.VL(p.lane) // the management port is no link
	} else if v = e.tables.Lane(nd.ref, in.num, out, p.sl); uint8(v) >= o.vls {
		return 0, NoLane
	}
	if p.bytes > o.maxBytes {
		return 0, TooLong
	}
	if o.filter && !e.tables.Admits(nd.ref, out, true, e.streams[p.stream].pkey) {
		return 0, FilteredOut
	}
	if e.isStalled(oi, uint8(v)) {
		return 0, Stalled
	}
	return uint8(v), numCauses
}

// enqueue puts a packet at the end of its queue.
func (e *Engine) enqueue(i, id int32) {
	p, in := &e.packets[id], &e.in[i]
	p.next = -1
	qi := e.queueOf(i, p.lane, p.out)
	in.n++
	in.lanes |= 1 << p.lane
	if e.voq {
		e.voqOuts[i*e.stride+int32(p.lane)].Add(p.out)
	}
	q := &e.inLanes[qi]
	if q.head >= 0 {
		e.packets[q.tail].next = id
		q.tail = id
		return
	}
	q.head, q.tail = id, id
	e.expose(qi, id)
}

// expose shows the head of a queue to its output. It may start only when its
// tail will be in before the output needs it (the second term of the start time
// in the package documentation).
func (e *Engine) expose(qi, id int32) {
	p := &e.packets[id]
	if p.flags&flagExposed != 0 {
		return
	}
	i := e.inputOf(qi)
	in := &e.in[i]
	nd := &e.nodes[in.node]
	oi := nd.first + int32(p.out)
	o := &e.out[oi]
	if p.mc >= 0 && !e.voq {
		for out := range e.groups.copies[p.mc].each {
			if why := e.refuses(nd.first+int32(out), e.groups.copies[p.mc].lanes[out]); why != numCauses {
				e.dropHeadFor(qi, out, why) // and comes here again
				return
			}
		}
	} else if why := e.refuses(oi, p.vl); why != numCauses {
		e.dropHead(qi, why)
		return
	}
	if t := e.readyAt(nd, in, p, o); t > e.now {
		e.push(t, evReady, qi, 0)
		return
	}
	p.flags |= flagExposed
	p.since = e.now
	if o.limited || nd.life != Never {
		e.armLimit(qi, oi, nd, p)
	}
	if p.mc >= 0 {
		e.requestGroup(i, id)
		return
	}
	e.request(oi, p.vl, i)
}

// refuses says why a lane of an output takes no packets now, numCauses: it does.
func (e *Engine) refuses(oi int32, vl uint8) Cause {
	if !e.out[oi].active {
		return Inactive
	}
	if e.isStalled(oi, vl) {
		return Stalled
	}
	return numCauses
}

// readyAt is when a packet may start so that its tail is in before the output
// needs it.
func (e *Engine) readyAt(nd *node, in *inPort, p *packet, o *outPort) (t Time) {
	if p.mc >= 0 && !e.voq {
		for out := range e.groups.copies[p.mc].each {
			if o := &e.out[nd.first+int32(out)]; o.rate != in.rate {
				t = max(t, p.tail+nd.delay-o.rate.Time(int(p.bytes)))
			}
		}
		return t
	}
	if o.rate == in.rate {
		return 0
	}
	return p.tail + nd.delay - o.rate.Time(int(p.bytes))
}

// request notes at an output that input i has a packet for its lane, and sees to
// it that the output will look.
func (e *Engine) request(oi int32, vl uint8, i int32) {
	o, in := &e.out[oi], &e.in[i]
	ol := oi*e.stride + int32(vl)
	w := &e.requests[ol*e.words+int32(in.num>>6)]
	if bit := uint64(1) << (in.num & 63); *w&bit == 0 {
		*w |= bit
		e.addRequest(o, &e.outLanes[ol], vl)
	}
	if o.busy > e.now {
		e.armFree(oi)
	}
	if e.lazy && in.busy > e.now {
		e.armFree(in.readBy)
		return
	}
	if e.lazy { // the event at the end of the last read may have been left out
		e.busyIn[e.nodes[in.node].busyOff+int32(in.num>>6)] &^= 1 << (in.num & 63)
	}
	if o.busy <= e.now {
		e.touched.add(oi)
	}
}

// addRequest counts a request, and starts the waiting times.
func (e *Engine) addRequest(o *outPort, l *outLane, vl uint8) {
	if o.reqs == 0 {
		o.waitFrom = max(e.now, o.busy, o.gate)
	}
	o.reqs++
	if l.reqs == 0 {
		l.waitFrom = max(e.now, o.gate, l.waitFrom)
		o.lanes |= 1 << vl
	}
	l.reqs++
}

// unrequest takes a request back.
func (e *Engine) unrequest(oi int32, vl uint8, i int32) {
	o, num := &e.out[oi], e.in[i].num
	ol := oi*e.stride + int32(vl)
	e.requests[ol*e.words+int32(num>>6)] &^= 1 << (num & 63)
	e.dropRequest(o, &e.outLanes[ol], vl)
	// What was dropped may have had the turn, and kept a smaller packet waiting.
	e.outLanes[ol].need = 0
	if o.reqs > 0 && o.busy <= e.now {
		e.touched.add(oi)
	}
}

func (e *Engine) dropRequest(o *outPort, l *outLane, vl uint8) {
	o.reqs--
	if l.reqs--; l.reqs == 0 {
		o.lanes &^= 1 << vl
		l.need = 0
		l.waited += max(0, e.now-l.waitFrom)
	}
	if o.reqs == 0 {
		o.waited += max(0, e.now-o.waitFrom)
	}
}

// candidate is the packet that a lane of an output would send.
type candidate struct{ queue, packet, input int32 }

// candidateOf finds the next packet for a lane of an output. The input whose turn
// it is keeps it until its packet has credits, or small packets would overtake
// large ones without end; if it only has to be read for another output first, the
// turn passes. ok is false if there is no packet, or it lacks credits: then the
// credit event is arranged.
func (e *Engine) candidateOf(oi int32, o *outPort, vl uint8) (c candidate, ok bool) {
	ol := oi*e.stride + int32(vl)
	l := &e.outLanes[ol]
	c = e.inTurn(ol, o, vl, e.noneBusy)
	need := e.packets[c.packet].blocks
	if !e.covered(l, need) {
		l.need = need
		e.awaitCredits(ol, l)
		return c, false
	}
	l.need = 0
	nd := &e.nodes[o.node]
	num := c.input - nd.first
	if e.busyIn[nd.busyOff+num>>6]>>(num&63)&1 == 0 {
		return c, true
	}
	if c = e.inTurn(ol, o, vl, e.busyIn[nd.busyOff:][:e.words]); c.input < 0 {
		return c, false
	}
	if need := e.packets[c.packet].blocks; !e.covered(l, need) {
		l.need = need
		e.awaitCredits(ol, l)
		return c, false
	}
	return c, true
}

// inTurn finds the packet whose turn it is among inputs that are not busy; the
// input is -1 if there is none.
func (e *Engine) inTurn(ol int32, o *outPort, vl uint8, busy []uint64) candidate {
	nd := &e.nodes[o.node]
	reqs := e.requests[ol*e.words:][:e.words]
	if e.cfg.Choice == OldestFirst {
		return e.oldest(nd, o, vl, reqs, busy)
	}
	if num := nextInput(reqs, busy, e.outLanes[ol].rr); num >= 0 {
		return e.headFor(nd.first+num, o.num, vl)
	}
	return candidate{input: -1}
}

// nextInput is the first input after last, in a circle, that requests and can be
// read; -1: none.
func nextInput(reqs, busy []uint64, last uint8) int32 {
	if len(reqs) == 1 {
		m := reqs[0] &^ busy[0]
		if m == 0 {
			return -1
		}
		if hi := m &^ (2<<(last&63) - 1); hi != 0 {
			m = hi
		}
		return int32(bits.TrailingZeros64(m))
	}
	w := int(last >> 6)
	for k := 0; k <= len(reqs); k++ {
		i := (w + k) % len(reqs)
		m := reqs[i] &^ busy[i]
		if k == 0 {
			m &^= 2<<(last&63) - 1
		}
		if m != 0 {
			return int32(i<<6 + bits.TrailingZeros64(m))
		}
	}
	return -1
}

// headFor finds the queue of input i whose head is for a lane of an output.
func (e *Engine) headFor(i int32, out, vl uint8) candidate {
	if q := e.queueOf(i, vl, out); e.isFor(q, out, vl) { // mostly lanes stay
		return candidate{q, e.inLanes[q].head, i}
	}
	for m := e.in[i].lanes; m != 0; m &= m - 1 {
		if q := e.queueOf(i, uint8(bits.TrailingZeros16(m)), out); e.isFor(q, out, vl) {
			return candidate{q, e.inLanes[q].head, i}
		}
	}
	panic("dataplane: a request without a packet")
}

// isFor reports whether a queue's head waits for a lane of an output.
func (e *Engine) isFor(q int32, out, vl uint8) bool {
	h := e.inLanes[q].head
	if h < 0 {
		return false
	}
	p := &e.packets[h]
	if p.flags&flagExposed == 0 {
		return false
	}
	if p.mc >= 0 {
		return e.copyFor(p, out, vl)
	}
	return p.out == out && p.vl == vl
}

// oldest is the head that has waited longest; of equals that of the lowest input.
func (e *Engine) oldest(nd *node, o *outPort, vl uint8, reqs, busy []uint64) candidate {
	best, first := candidate{input: -1}, Never
	for w := range reqs {
		for m := reqs[w] &^ busy[w]; m != 0; m &= m - 1 {
			c := e.headFor(nd.first+int32(w<<6+bits.TrailingZeros64(m)), o.num, vl)
			if t := e.packets[c.packet].since; t < first {
				best, first = c, t
			}
		}
	}
	return best
}

// arbitrate starts a transmission at a port that is free and has a packet whose
// credits are there.
func (e *Engine) arbitrate(oi int32) {
	o := &e.out[oi]
	if o.busy > e.now || o.lanes == 0 || !o.active {
		return
	}
	if o.gate > e.now {
		if !o.gated {
			o.gated = true
			e.push(o.gate, evGate, oi, 0)
		}
		return
	}
	if o.lanes&(o.lanes-1) == 0 && o.table < 0 {
		vl := uint8(bits.TrailingZeros16(o.lanes))
		if c, ok := e.next(oi, o, vl); ok {
			e.start(oi, o, vl, c)
		}
		return
	}
	var cs [16]candidate
	var blocks [16]uint16
	ready := uint16(0)
	for m := o.lanes; m != 0; m &= m - 1 {
		vl := uint8(bits.TrailingZeros16(m))
		if c, ok := e.next(oi, o, vl); ok {
			cs[vl], blocks[vl] = c, e.packets[c.packet].blocks
			ready |= 1 << vl
		}
	}
	if ready == 0 {
		return
	}
	vl := -1
	if o.table >= 0 {
		vl = e.arbs[o.table].pick(&o.arb, ready, &blocks)
	} else if m := ready &^ (2<<o.last - 1); m != 0 {
		vl = bits.TrailingZeros16(m)
	} else {
		vl = bits.TrailingZeros16(ready)
	}
	if vl >= 0 {
		e.start(oi, o, uint8(vl), cs[vl])
	}
}

// next is the packet that a lane of a switch or host would send now.
func (e *Engine) next(oi int32, o *outPort, vl uint8) (candidate, bool) {
	if o.source >= 0 {
		return e.candidateOfHost(oi, o, vl)
	}
	return e.candidateOf(oi, o, vl)
}

// popHead takes the head out of a queue and shows the next one.
func (e *Engine) popHead(qi, i, id int32) {
	e.pop(qi, i, id)
	e.exposeHead(qi)
}

// exposeHead shows the head of a queue, if there is one.
func (e *Engine) exposeHead(qi int32) {
	if h := e.inLanes[qi].head; h >= 0 {
		e.expose(qi, h)
	}
}

// pop takes the head out of a queue.
func (e *Engine) pop(qi, i, id int32) {
	p, in := &e.packets[id], &e.in[i]
	q := &e.inLanes[qi]
	q.head = p.next
	exposed := p.flags&flagExposed != 0
	p.flags &^= flagExposed
	in.n--
	if q.head < 0 {
		q.tail = -1
		e.emptied(in, i, p)
	}
	if exposed && p.mc < 0 {
		e.clearRequest(in, i, p.out, p.vl)
	}
}

// emptied keeps the sets of lanes and outputs with packets after the queue of p
// became empty.
func (e *Engine) emptied(in *inPort, i int32, p *packet) {
	if !e.voq {
		in.lanes &^= 1 << p.lane
		return
	}
	m := &e.voqOuts[i*e.stride+int32(p.lane)]
	m[p.out>>6] &^= 1 << (p.out & 63)
	if *m == (PortMask{}) {
		in.lanes &^= 1 << p.lane
	}
}

// clearRequest takes back the request of an input for a lane of an output, unless
// the head of another queue is for it too.
func (e *Engine) clearRequest(in *inPort, i int32, out, vl uint8) {
	for m := in.lanes; m != 0; m &= m - 1 {
		if e.isFor(e.queueOf(i, uint8(bits.TrailingZeros16(m)), out), out, vl) {
			return
		}
	}
	e.unrequest(e.nodes[in.node].first+int32(out), vl, i)
}

// armFree arranges the event at the end of a transmission.
func (e *Engine) armFree(oi int32) {
	if o := &e.out[oi]; !o.armed {
		o.armed = true
		e.push(o.busy, evFree, oi, 0)
	}
}

// free ends a transmission: its output and the read of its input.
func (e *Engine) free(oi int32) {
	o := &e.out[oi]
	o.armed = false
	if i := o.reading; i >= 0 {
		o.reading = -1
		e.freeInput(i)
	}
	if o.reqs > 0 {
		e.touched.add(oi)
	}
}

// freeInput ends a read, and touches the outputs that the input has packets for.
func (e *Engine) freeInput(i int32) {
	in := &e.in[i]
	in.reads--
	nd := &e.nodes[in.node]
	e.busyIn[nd.busyOff+int32(in.num>>6)] &^= 1 << (in.num & 63)
	for m := in.lanes; m != 0; m &= m - 1 {
		lane := i*e.stride + int32(bits.TrailingZeros16(m))
		if e.voq {
			for w, outs := range e.voqOuts[lane] {
				for ; outs != 0; outs &= outs - 1 {
					if oi := nd.first + int32(w<<6+bits.TrailingZeros64(outs)); e.out[oi].busy <= e.now {
						e.touched.add(oi)
					}
				}
			}
			continue
		}
		p := &e.packets[e.inLanes[lane].head]
		if p.mc >= 0 {
			e.touchCopies(nd, p.mc)
			continue
		}
		if oi := nd.first + int32(p.out); e.out[oi].busy <= e.now {
			e.touched.add(oi)
		}
	}
}
