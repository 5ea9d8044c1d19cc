package dataplane

import (
	"math/bits"

	"heddle/ib"
)

// A switch: a packet becomes eligible, waits in the buffer of its input, and is
// chosen by an output.

// queueOf is the queue of a packet at an input.
func (e *part) queueOf(in int32, lane, out uint8) int32 {
	q := in*e.stride + int32(lane)
	if e.voq {
		return q*e.radix() + int32(out)
	}
	return q
}

// inputOf is the input of a queue.
func (e *part) inputOf(q int32) int32 {
	if e.voq {
		q /= e.radix()
	}
	return q / e.stride
}

// eligible looks up a packet whose head came in SwitchDelay ago at input i, and
// puts it into its queue.
func (e *part) eligible(i, id int32) {
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
	if e.details != nil {
		e.details[i].received(p)
	}
	if p.flags&flagBadEnd != 0 {
		e.dropAt(i, id, BadEnd)
		return
	}
	nd := &e.nodes[in.node]
	if in.filter && !e.tables.Admits(nd.ref, in.num, false, e.pkeyOf(p)) {
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
	p.out, p.vl = out, vl
	if why != numCauses {
		e.dropFor(nd.first+int32(out), i, id, why)
		return
	}
	e.enqueue(i, id)
}

// leave decides on which lane a packet may leave by a port, numCauses: it may.
func (e *part) leave(nd *node, in *inPort, out uint8, p *packet) (vl uint8, why Cause) {
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
	if o.filter && !e.tables.Admits(nd.ref, out, true, e.pkeyOf(p)) {
		return 0, FilteredOut
	}
	if e.isStalled(oi, uint8(v)) {
		return uint8(v), Stalled
	}
	return uint8(v), numCauses
}

// enqueue puts a packet at the end of its queue.
func (e *part) enqueue(i, id int32) {
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
		if e.cong != nil && e.packets[q.tail].flags&flagCounted != 0 {
			e.awaits(in, id, e.packets[q.tail].out, e.packets[q.tail].vl)
		}
		e.packets[q.tail].next = id
		q.tail = id
		return
	}
	q.head, q.tail = id, id
	if e.cong != nil {
		e.awaits(in, id, p.out, p.vl)
	}
	e.expose(qi, id)
}

// expose shows the head of a queue to its output. It may start only when its
// tail will be in before the output needs it (the second term of the start time
// in the package documentation).
func (e *part) expose(qi, id int32) {
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
func (e *part) refuses(oi int32, vl uint8) Cause {
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
func (e *part) readyAt(nd *node, in *inPort, p *packet, o *outPort) (t Time) {
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
func (e *part) request(oi int32, vl uint8, i int32) {
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
func (e *part) addRequest(o *outPort, l *outLane, vl uint8) {
	if o.reqs == 0 && o.active {
		o.waitFrom = max(e.now, o.busy, o.gate)
	}
	o.reqs++
	if l.reqs == 0 {
		l.waitFrom = max(e.now, o.gate, l.waitFrom)
		o.lanes |= 1 << vl
	}
	l.reqs++
}

// restartWaits starts the waiting times of a port that becomes Active, and stops
// those of one that is Active no more: what waits there then does not wait for
// credits or for its turn.
func (e *part) restartWaits(p int32, active bool) {
	o := &e.out[p]
	from := Never
	if active {
		from = max(e.now, o.busy, o.gate)
	} else if o.reqs > 0 {
		o.waited += max(0, e.now-o.waitFrom)
	}
	o.waitFrom = from
	for v := range e.stride {
		l := &e.outLanes[p*e.stride+v]
		if !active && l.reqs > 0 {
			l.waited += max(0, e.now-l.waitFrom)
		}
		l.waitFrom = from
	}
}

// unrequest takes a request back.
func (e *part) unrequest(oi int32, vl uint8, i int32) {
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

func (e *part) dropRequest(o *outPort, l *outLane, vl uint8) {
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

// popHead takes the head out of a queue and shows the next one.
func (e *part) popHead(qi, i, id int32) {
	e.pop(qi, i, id)
	e.exposeHead(qi)
}

// exposeHead shows the head of a queue, if there is one.
func (e *part) exposeHead(qi int32) {
	if h := e.inLanes[qi].head; h >= 0 {
		e.expose(qi, h)
	}
}

// pop takes the head out of a queue.
func (e *part) pop(qi, i, id int32) {
	p, in := &e.packets[id], &e.in[i]
	q := &e.inLanes[qi]
	q.head = p.next
	exposed := p.flags&flagExposed != 0
	p.flags &^= flagExposed
	in.n--
	if e.cong != nil {
		e.awaitsNot(in, p)
		if q.head >= 0 {
			e.awaits(in, q.head, e.packets[q.head].out, e.packets[q.head].vl)
		}
	}
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
func (e *part) emptied(in *inPort, i int32, p *packet) {
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
func (e *part) clearRequest(in *inPort, i int32, out, vl uint8) {
	for m := in.lanes; m != 0; m &= m - 1 {
		if e.isFor(e.queueOf(i, uint8(bits.TrailingZeros16(m)), out), out, vl) {
			return
		}
	}
	e.unrequest(e.nodes[in.node].first+int32(out), vl, i)
}

// armFree arranges the event at the end of a transmission.
func (e *part) armFree(oi int32) {
	if o := &e.out[oi]; !o.armed {
		o.armed = true
		e.push(o.busy, evFree, oi, 0)
	}
}

// free ends a transmission: its output and the read of its input.
func (e *part) free(oi int32) {
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
func (e *part) freeInput(i int32) {
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
