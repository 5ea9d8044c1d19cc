package dataplane

import "heddle/fabric"

// CutLink cuts the cable at a port: what is on it is lost, and both ports are
// down whatever Tables says, until RestoreLink.
func (e *Engine) CutLink(r fabric.Ref) {
	p := e.port(r)
	if e.out[p].peer < 0 || e.faults[p].cut {
		return
	}
	q := e.out[p].peer
	e.faults[p].cut, e.faults[q].cut = true, true
	e.refreshPort(p)
	e.refreshPort(q)
	e.settle()
}

// RestoreLink puts a cable back. Its ports carry data when Tables says that they
// are Active, with the credits of what their buffers still hold left out.
func (e *Engine) RestoreLink(r fabric.Ref) {
	p := e.port(r)
	if e.out[p].peer < 0 || !e.faults[p].cut {
		return
	}
	q := e.out[p].peer
	e.faults[p].cut, e.faults[q].cut = false, false
	e.refreshPort(p)
	e.refreshPort(q)
	e.settle()
}

// FailNode cuts all cables of a node, and loses what its buffers hold.
func (e *Engine) FailNode(n int32) {
	nd := &e.nodes[n]
	for j := int32(1); j < nd.radix; j++ {
		e.CutLink(fabric.Ref{Node: n, Port: uint8(j)})
	}
	for j := range nd.radix {
		i := nd.first + j
		p := e.partOf(i)
		for k := range e.stride * e.radix() {
			for qi := i*e.stride*e.radix() + k; e.inLanes[qi].head >= 0; {
				p.dropHead(qi, NodeFailed)
			}
		}
	}
	e.settle()
}

func (e *Engine) refreshPort(p int32) {
	nd := &e.nodes[e.out[p].node]
	a := e.tables.Port(nd.ref, e.out[p].num)
	e.setPort(p, &a)
}

// portInactive drops what waits for a port that sends no data any more. A host
// keeps its packets.
func (e *part) portInactive(p int32) {
	if h := e.out[p].source; h >= 0 {
		e.purgeDatagrams(h)
		e.purge(h)
		return
	}
	for v := range e.stride {
		e.dropWaiting(p, uint8(v), Inactive)
	}
}

// linkDown loses what is on the cable towards input i and has not come in whole:
// packets still on the wire, one that is partly in the buffer, and the rest of
// one that a switch is passing on, whose next node sees the bad end.
func (e *Engine) linkDown(i int32) {
	up := e.in[i].up
	u := &e.out[up]
	h := e.out[i].source
	own := e.partOf(i)
	for ev := range own.q.All {
		if ev.Key == uint32(evEligible|i) || h >= 0 && ev.Key == uint32(evDeliver|h) {
			if p := &own.packets[ev.Arg]; p.tail > e.now {
				p.flags |= flagLost
			}
		}
	}
	if h >= 0 || u.busy+u.cable <= e.now {
		return
	}
	tail := u.busy + u.cable
	for k := range e.stride * e.radix() {
		if own.losePartial(i, i*e.stride*e.radix()+k, tail) {
			break // copies of it may have gone on
		}
	}
	e.badEnd(i, u.sendStream, u.sendSeq, map[int32]bool{})
}

// badEnd marks a packet that the node of input i is passing on, and all that is
// made of it further on, as one without its end. Its tail has not come here, so
// everything that passes it on is still sending. Seen are the inputs that it came to: on
// a loop of tables its head may come round.
func (e *Engine) badEnd(i, stream int32, seq uint32, seen map[int32]bool) {
	if seen[i] {
		return
	}
	seen[i] = true
	nd := &e.nodes[e.in[i].node]
	for j := range nd.radix {
		o := &e.out[nd.first+j]
		if o.reading != i || o.busy <= e.now || o.sendStream != stream || o.sendSeq != seq {
			continue
		}
		far := e.partOf(o.peer)
		mark := func(id int32) {
			if p := &far.packets[id]; p.stream == stream && p.seq == seq {
				p.flags |= flagBadEnd
			}
		}
		for ev := range far.q.All {
			if ev.Key == uint32(evEligible|o.peer) || o.sink >= 0 && ev.Key == uint32(evDeliver|o.sink) {
				mark(ev.Arg)
			}
		}
		if o.sink >= 0 {
			continue
		}
		for k := range e.stride * e.radix() {
			for id := e.inLanes[o.peer*e.stride*e.radix()+k].head; id >= 0; id = far.packets[id].next {
				mark(id)
			}
		}
		e.badEnd(o.peer, stream, seq, seen)
	}
}

// losePartial drops the packet of a queue whose tail was to come at the given
// time.
func (e *part) losePartial(i, qi int32, tail Time) bool {
	q := &e.inLanes[qi]
	last := int32(-1)
	for id := q.head; id >= 0; id = e.packets[id].next {
		p := &e.packets[id]
		if p.tail != tail {
			last = id
			continue
		}
		if last < 0 {
			if p.mc >= 0 {
				e.endCopies(i, id)
			}
			e.popHead(qi, i, id)
		} else {
			if p.mc >= 0 {
				e.freeCopies(p.mc)
			}
			e.packets[last].next = p.next
			if q.tail == id {
				q.tail = last
			}
			e.in[i].n--
			if e.cong != nil {
				e.awaitsNot(&e.in[i], p)
			}
		}
		e.dropAt(i, id, LostOnWire)
		return true
	}
	return false
}
