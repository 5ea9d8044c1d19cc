package dataplane

import "fmt"

// checkStart is the assertion at each start: no buffer is overrun.
func (e *part) checkStart(oi, ol int32) {
	l := &e.outLanes[ol]
	if n := e.available(l); n < 0 && l.capacity > 0 {
		panic(fmt.Sprintf("dataplane: %v: %s sends %d blocks more than lane %d has credits for", e.now, e.top.PortName(e.ref(oi)), -n, ol%e.stride))
	}
}

// Check walks all queues, wires and reads and compares them with the counters:
// packets made and copied are delivered, lost, at sources, in buffers or on wires;
// and the blocks that senders count as taken are those of packets on the wire, in
// the buffer and being read. It costs time proportional to the fabric.
func (e *Engine) Check() error {
	blocks := make([]int32, len(e.outLanes)) // taken, by the sender's lane
	live := uint64(0)
	for _, p := range e.parts {
		live += p.countEvents(blocks)
	}
	for qi := range e.inLanes {
		i, n := e.inputOf(int32(qi)), 0
		own := e.partOf(i)
		for id := e.inLanes[qi].head; id >= 0; id = own.packets[id].next {
			own.countPacket(blocks, i, id)
			live++
			if n++; n > len(own.packets) {
				return fmt.Errorf("dataplane: queue %d is a circle", qi)
			}
		}
	}
	for h := range e.hosts {
		own := e.partOfHost(h)
		for id := e.hosts[h].held.head; id >= 0; id = own.packets[id].next {
			own.countPacket(blocks, e.hosts[h].port, id)
			live++
		}
	}
	for _, p := range e.parts {
		for s := range p.sendq {
			for id := p.sendq[s].q.head; id >= 0; id = p.packets[id].next {
				live++
			}
		}
	}
	s := e.Stats()
	if live != s.live {
		return fmt.Errorf("dataplane: %d packets found, %d counted", live, s.live)
	}
	if s.made+s.Created+s.Copies != s.gone+s.Delivered+s.Drops()+live {
		return fmt.Errorf("dataplane: %d packets made, %d delivered or lost, %d on their way", s.made+s.Created+s.Copies, s.gone+s.Delivered+s.Drops(), live)
	}
	for i := range e.outLanes {
		l := &e.outLanes[i]
		reads := e.partOf(int32(i) / e.stride).reads
		for r := l.readHead; r >= 0; r = reads[r].next {
			blocks[i] += reads[r].blocks
		}
		if taken := l.capacity - l.avail; taken != blocks[i] {
			return fmt.Errorf("dataplane: %s lane %d counts %d blocks taken, %d are",
				e.top.PortName(e.ref(int32(i)/e.stride)), int32(i)%e.stride, taken, blocks[i])
		}
	}
	if err := e.checkWaiting(); err != nil {
		return err
	}
	return e.checkAwake()
}

// countPacket counts the blocks of a packet that is on its way to input i or there.
func (e *part) countPacket(blocks []int32, i, id int32) {
	p := &e.packets[id]
	if e.in[i].up >= 0 {
		blocks[e.in[i].up*e.stride+int32(p.lane)] += int32(p.blocks)
	}
}

// countEvents counts the packets that events stand for.
func (e *part) countEvents(blocks []int32) (live uint64) {
	for ev := range e.q.All {
		i := int32(ev.Key & (1<<keyBits - 1))
		switch ev.Key &^ (1<<keyBits - 1) {
		case evEligible:
			e.countPacket(blocks, i, ev.Arg)
			live++
		case evDeliver:
			if e.packets[ev.Arg].flags&flagUnread != 0 {
				e.countPacket(blocks, e.hosts[i].port, ev.Arg)
			}
			live++ // else its blocks are in a read
		}
	}
	return live
}

// checkAwake looks for outputs that could send and have not been asked, and for
// those that nothing will ask again.
func (e *Engine) checkAwake() error {
	for i := range e.out {
		oi, o := int32(i), &e.out[i]
		if !o.active || o.lanes == 0 {
			continue
		}
		own := e.partOf(oi)
		name := e.top.PortName(e.ref(oi))
		if o.busy > e.now {
			if !o.armed {
				return fmt.Errorf("dataplane: nothing will tell %s that it is free", name)
			}
			continue
		}
		if o.armed || o.gated || o.gate > e.now {
			continue // events of this very instant are still to come
		}
		for v := range e.stride {
			l := &e.outLanes[oi*e.stride+v]
			if l.reqs == 0 {
				continue
			}
			need := l.need
			if need == 0 {
				c := own.peek(oi, o, uint8(v))
				if c.input < 0 {
					if err := own.checkReaders(oi, o, uint8(v)); err != nil {
						return err
					}
					continue
				}
				need = own.packets[c.packet].blocks
			}
			if own.available(l) >= int32(need) && o.table < 0 && l.armedAt > e.now {
				return fmt.Errorf("dataplane: %s could send a packet on lane %d and does not", name, v)
			} else if t := own.coveredAt(l, int32(need)); t != Never && l.armedAt > t {
				return fmt.Errorf("dataplane: nothing will tell %s that lane %d has credits", name, v)
			}
		}
	}
	return nil
}

// peek is the packet that a lane of an output could send.
func (e *part) peek(oi int32, o *outPort, vl uint8) candidate {
	if o.source >= 0 {
		s := e.hostLanes[o.source*e.stride+int32(vl)].head
		return candidate{queue: s, packet: e.sendq[s].q.head}
	}
	return e.inTurn(oi*e.stride+int32(vl), o, vl, e.busyIn[e.nodes[o.node].busyOff:][:e.words])
}

// checkReaders reports an input that has a packet for a lane, is being read, and
// will not be told when that ends.
func (e *part) checkReaders(oi int32, o *outPort, vl uint8) error {
	nd := &e.nodes[o.node]
	for num := range nd.radix {
		if e.requests[(oi*e.stride+int32(vl))*e.words+num>>6]>>(num&63)&1 == 0 {
			continue
		}
		in := &e.in[nd.first+num]
		if !e.out[in.readBy].armed {
			return fmt.Errorf("dataplane: nothing will tell %s that input %d is free", e.top.PortName(e.ref(oi)), num)
		}
	}
	return nil
}

// checkWaiting counts the packets that congestion control counts.
func (e *Engine) checkWaiting() error {
	if e.cong == nil {
		return nil
	}
	waiting := make([]int32, len(e.outLanes))
	for qi := range e.inLanes {
		i := e.inputOf(int32(qi))
		own := e.partOf(i)
		for id := e.inLanes[qi].head; id >= 0; id = own.packets[id].next {
			if p := &own.packets[id]; p.flags&flagCounted != 0 {
				waiting[(e.nodes[e.in[i].node].first+int32(p.out))*e.stride+int32(p.vl)] += int32(p.blocks)
			}
		}
	}
	for ol, n := range waiting {
		if have := e.cong.lanes[ol].waiting; have != n {
			return fmt.Errorf("dataplane: %d blocks wait for lane %d of %s, %d are counted",
				n, int32(ol)%e.stride, e.top.PortName(e.ref(int32(ol)/e.stride)), have)
		}
	}
	return nil
}
