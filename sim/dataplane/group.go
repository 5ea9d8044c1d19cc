package dataplane

import (
	"math/bits"

	"heddle/ib"
)

// copyState is a multicast packet in a buffer: the outputs that have not had it
// yet. It holds its blocks until the last copy leaves. Copies are sent one after
// another, each when its output takes it, so no copy waits for another: that
// could close a cycle.
type copyState struct {
	ports PortMask
	lanes [256]uint8
	next  int32
}

// groups holds the copyStates.
type groups struct {
	copies []copyState
	free   int32
}

// first is the lowest port left.
func (c *copyState) first() int {
	for w, m := range c.ports {
		if m != 0 {
			return w<<6 + bits.TrailingZeros64(m)
		}
	}
	return -1
}

func (c *copyState) each(yield func(port uint8) bool) {
	for w := range c.ports {
		for m := c.ports[w]; m != 0; m &= m - 1 {
			if !yield(uint8(w<<6 + bits.TrailingZeros64(m))) {
				return
			}
		}
	}
}

// eligibleGroup looks up a multicast packet.
func (e *part) eligibleGroup(i, id int32) {
	p, in := &e.packets[id], &e.in[i]
	nd := &e.nodes[in.node]
	ci := e.groups.free
	if ci < 0 {
		ci = int32(len(e.groups.copies))
		e.groups.copies = append(e.groups.copies, copyState{})
	} else {
		e.groups.free = e.groups.copies[ci].next
	}
	c := &e.groups.copies[ci]
	c.ports = PortMask{}
	e.tables.Multicast(nd.ref, p.dlid, &c.ports)
	left, n, lost := c.ports, 0, NoRoute
	lostAt := i
	for out := range c.each {
		if int32(out) >= nd.radix || out == in.num {
			left[out>>6] &^= 1 << (out & 63)
			continue
		}
		vl, why := e.leave(nd, in, out, p)
		if why != numCauses {
			left[out>>6] &^= 1 << (out & 63)
			if lostAt != i {
				e.dropCopy(lostAt, id, lost)
			}
			lost, lostAt = why, nd.first+int32(out)
			continue
		}
		c.lanes[out] = vl
		n++
	}
	c.ports = left
	if n == 0 {
		e.freeCopies(ci)
		e.dropFor(lostAt, i, id, lost)
		return
	}
	if lostAt != i {
		e.dropCopy(lostAt, id, lost)
	}
	f := uint8(c.first())
	p.out, p.vl = f, c.lanes[f]
	if n == 1 {
		e.freeCopies(ci)
	} else {
		p.mc = ci
	}
	e.enqueue(i, id)
}

// dropCopy counts a copy of a packet that could not be made.
func (e *part) dropCopy(port, id int32, why Cause) {
	e.stat.Copies++
	e.countDrop(port, &e.packets[id], why)
}

func (e *part) freeCopies(ci int32) {
	e.groups.copies[ci].next = e.groups.free
	e.groups.free = ci
}

// requestGroup shows a multicast packet to its outputs: to all of them, or to one
// after another if each output has a queue of its own.
func (e *part) requestGroup(i, id int32) {
	p := &e.packets[id]
	first := e.nodes[e.in[i].node].first
	if e.voq {
		e.request(first+int32(p.out), p.vl, i)
		return
	}
	c := &e.groups.copies[p.mc]
	for out := range c.each {
		e.request(first+int32(out), c.lanes[out], i)
	}
}

// copyFor reports whether the packet of a copyState is for a lane of an output.
func (e *part) copyFor(p *packet, out, vl uint8) bool {
	if e.voq {
		return p.out == out && p.vl == vl
	}
	c := &e.groups.copies[p.mc]
	return c.ports.Has(out) && c.lanes[out] == vl
}

func (e *part) touchCopies(nd *node, ci int32) {
	for out := range e.groups.copies[ci].each {
		if oi := nd.first + int32(out); e.out[oi].busy <= e.now {
			e.touched.add(oi)
		}
	}
}

// takeCopy takes the copy for an output out of the packet of c: the packet
// itself if it is the last.
func (e *part) takeCopy(c candidate, out, vl uint8) (id int32, last bool) {
	p := &e.packets[c.packet]
	ci := p.mc
	cs := &e.groups.copies[ci]
	cs.ports[out>>6] &^= 1 << (out & 63)
	p.out, p.vl = out, vl
	if cs.first() < 0 {
		p.mc = -1
		e.freeCopies(ci)
		e.popHead(c.queue, c.input, c.packet)
		return c.packet, true
	}
	id = e.newPacket()
	q := &e.packets[id]
	*q = e.packets[c.packet]
	if q.flags&flagProgram != 0 {
		e.carry(id, e.cargo[c.packet])
	}
	q.mc, q.next = -1, -1
	q.flags &^= flagExposed
	e.stat.live++
	e.stat.Copies++
	e.passOn(c.queue, c.input, c.packet, out, vl)
	return id, false
}

// passOn lets a multicast packet wait for the outputs that are left after it has
// been sent to one, or lost for it.
func (e *part) passOn(qi, i, id int32, out, vl uint8) {
	p := &e.packets[id]
	ci := p.mc
	cs := &e.groups.copies[ci]
	next := uint8(cs.first())
	if e.voq {
		p.mc, p.out, p.vl = -1, out, vl
		e.pop(qi, i, id)
		p.mc, p.out, p.vl = ci, next, cs.lanes[next]
		e.enqueue(i, id) // before the next one, which may follow it there at once
		e.exposeHead(qi)
		return
	}
	p.out, p.vl = next, cs.lanes[next]
	if p.flags&flagExposed != 0 {
		e.clearRequest(&e.in[i], i, out, vl)
	} else if e.inLanes[qi].head == id {
		e.expose(qi, id)
	}
}

// dropHeadFor loses the head of a queue, or of a multicast packet the copy for an
// output.
func (e *part) dropHeadFor(qi int32, out uint8, why Cause) {
	i, id := e.inputOf(qi), e.inLanes[qi].head
	p := &e.packets[id]
	port := e.nodes[e.in[i].node].first + int32(out)
	if p.mc >= 0 {
		cs := &e.groups.copies[p.mc]
		cs.ports[out>>6] &^= 1 << (out & 63)
		vl := cs.lanes[out]
		if cs.first() >= 0 {
			first := p.vl
			p.vl = vl // where it is counted
			e.dropCopy(port, id, why)
			p.vl = first
			e.passOn(qi, i, id, out, vl)
			return
		}
		e.freeCopies(p.mc)
		p.mc, p.out, p.vl = -1, out, vl
	}
	e.popHead(qi, i, id)
	e.dropFor(port, i, id, why)
}

// endCopies takes back the requests of a multicast packet that is dropped.
func (e *part) endCopies(i, id int32) {
	p := &e.packets[id]
	ci := p.mc
	if p.flags&flagExposed != 0 && !e.voq {
		left := e.groups.copies[ci].ports
		e.groups.copies[ci].ports = PortMask{}
		for w := range left {
			for m := left[w]; m != 0; m &= m - 1 {
				if out := uint8(w<<6 + bits.TrailingZeros64(m)); out != p.out {
					e.clearRequest(&e.in[i], i, out, e.groups.copies[ci].lanes[out])
				}
			}
		}
	}
	p.mc = -1
	e.freeCopies(ci)
}

// SetGroup makes hosts members of a multicast group on a Plain: the tree is the
// union of the unicast paths from every switch to the members.
func (p *Plain) SetGroup(sw int32, mlid ib.LID, ports PortMask) {
	if p.MFT[sw] == nil {
		p.MFT[sw] = map[ib.LID]PortMask{}
	}
	p.MFT[sw][mlid] = ports
}
