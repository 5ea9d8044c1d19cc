package dataplane

import "math/bits"

// Arbitration: an output chooses a lane, then an input.

// candidate is the packet that a lane of an output would send.
type candidate struct{ queue, packet, input int32 }

// candidateOf finds the next packet for a lane of an output. The input whose turn
// it is keeps it until its packet has credits, or small packets would overtake
// large ones without end; if it only has to be read for another output first, the
// turn passes. ok is false if there is no packet, or it lacks credits: then the
// credit event is arranged.
func (e *part) candidateOf(oi int32, o *outPort, vl uint8) (c candidate, ok bool) {
	ol := oi*e.stride + int32(vl)
	l := &e.outLanes[ol]
	c = e.inTurn(ol, o, vl, e.noneBusy)
	need := e.packets[c.packet].blocks
	if !e.covered(l, need) {
		e.starve(ol)
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
		e.starve(ol)
		l.need = need
		e.awaitCredits(ol, l)
		return c, false
	}
	return c, true
}

// inTurn finds the packet whose turn it is among inputs that are not busy; the
// input is -1 if there is none.
func (e *part) inTurn(ol int32, o *outPort, vl uint8, busy []uint64) candidate {
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
func (e *part) headFor(i int32, out, vl uint8) candidate {
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
func (e *part) isFor(q int32, out, vl uint8) bool {
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
func (e *part) oldest(nd *node, o *outPort, vl uint8, reqs, busy []uint64) candidate {
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
func (e *part) arbitrate(oi int32) {
	o := &e.out[oi]
	if o.busy > e.now || o.lanes == 0 || !o.active {
		return
	}
	if o.armed && o.busy == e.now {
		return // between two runs: the event at the end of the last packet is still to come
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
func (e *part) next(oi int32, o *outPort, vl uint8) (candidate, bool) {
	if o.source >= 0 {
		return e.candidateOfHost(oi, o, vl)
	}
	return e.candidateOf(oi, o, vl)
}
