package dataplane

import "fmt"

// checkStart is the assertion at each start: no buffer is overrun.
func (e *Engine) checkStart(oi, ol int32) {
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
	count := func(i, id int32) {
		p := &e.packets[id]
		if e.in[i].up >= 0 {
			blocks[e.in[i].up*e.stride+int32(p.lane)] += int32(p.blocks)
		}
		live++
	}
	for ev := range e.q.All {
		i := int32(ev.Key & (1<<keyBits - 1))
		switch ev.Key &^ (1<<keyBits - 1) {
		case evEligible:
			count(i, ev.Arg)
		case evDeliver:
			if e.packets[ev.Arg].flags&flagUnread != 0 {
				count(e.hosts[i].port, ev.Arg)
			} else {
				live++ // its blocks are in a read
			}
		}
	}
	for qi := range e.inLanes {
		i, n := e.inputOf(int32(qi)), 0
		for id := e.inLanes[qi].head; id >= 0; id = e.packets[id].next {
			count(i, id)
			if n++; n > len(e.packets) {
				return fmt.Errorf("dataplane: queue %d is a circle", qi)
			}
		}
	}
	for h := range e.hosts {
		for id := e.hosts[h].held.head; id >= 0; id = e.packets[id].next {
			count(e.hosts[h].port, id)
		}
	}
	for s := range e.sendq {
		for id := e.sendq[s].q.head; id >= 0; id = e.packets[id].next {
			live++
		}
	}
	if live != e.stat.live {
		return fmt.Errorf("dataplane: %d packets found, %d counted", live, e.stat.live)
	}
	if s := e.stat; s.made+s.Created+s.Copies != s.gone+s.Delivered+s.Drops()+live {
		return fmt.Errorf("dataplane: %d packets made, %d delivered or lost, %d on their way", s.made+s.Created+s.Copies, s.gone+s.Delivered+s.Drops(), live)
	}
	for i := range e.outLanes {
		l := &e.outLanes[i]
		for r := l.readHead; r >= 0; r = e.reads[r].next {
			blocks[i] += e.reads[r].blocks
		}
		if taken := l.capacity - l.avail; taken != blocks[i] {
			return fmt.Errorf("dataplane: %s lane %d counts %d blocks taken, %d are",
				e.top.PortName(e.ref(int32(i)/e.stride)), int32(i)%e.stride, taken, blocks[i])
		}
	}
	return e.checkAwake()
}

// checkAwake looks for outputs that could send and have not been asked, and for
// those that nothing will ask again.
func (e *Engine) checkAwake() error {
	for i := range e.out {
		oi, o := int32(i), &e.out[i]
		if !o.active || o.lanes == 0 {
			continue
		}
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
				c := e.peek(oi, o, uint8(v))
				if c.input < 0 {
					if err := e.checkReaders(oi, o, uint8(v)); err != nil {
						return err
					}
					continue
				}
				need = e.packets[c.packet].blocks
			}
			if e.available(l) >= int32(need) && o.table < 0 && l.armedAt > e.now {
				return fmt.Errorf("dataplane: %s could send a packet on lane %d and does not", name, v)
			} else if t := e.coveredAt(l, int32(need)); t != Never && l.armedAt > t {
				return fmt.Errorf("dataplane: nothing will tell %s that lane %d has credits", name, v)
			}
		}
	}
	return nil
}

// peek is the packet that a lane of an output could send.
func (e *Engine) peek(oi int32, o *outPort, vl uint8) candidate {
	if o.source >= 0 {
		s := e.hostLanes[o.source*e.stride+int32(vl)].head
		return candidate{queue: s, packet: e.sendq[s].q.head}
	}
	return e.inTurn(oi*e.stride+int32(vl), o, vl, e.busyIn[e.nodes[o.node].busyOff:][:e.words])
}

// checkReaders reports an input that has a packet for a lane, is being read, and
// will not be told when that ends.
func (e *Engine) checkReaders(oi int32, o *outPort, vl uint8) error {
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
