package dataplane

// start sends a packet that was chosen.
func (e *part) start(oi int32, o *outPort, vl uint8, c candidate) {
	p := &e.packets[c.packet]
	dur := o.rate.Time(int(p.bytes))
	ol := oi*e.stride + int32(vl)
	l := &e.outLanes[ol]
	o.busy = e.now + dur
	o.last = vl
	e.endWait(o, l)
	if o.source >= 0 {
		e.leaveHost(oi, o, vl, c)
	} else {
		in := &e.in[c.input]
		l.rr, l.stalls = in.num, 0
		o.reading = c.input
		e.beginRead(in, oi, o.busy)
		last := true
		if e.cong != nil {
			e.mark(oi, ol, o, p)
		}
		if p.mc >= 0 {
			c.packet, last = e.takeCopy(c, o.num, vl)
		} else {
			e.popHead(c.queue, c.input, c.packet)
		}
		p = &e.packets[c.packet]
		if last && in.up >= 0 {
			e.giveBack(in, p.lane, e.now, o.busy, o.rate, p.blocks)
		}
		if !e.lazy || in.n > 0 || o.reqs > 0 {
			e.armFree(oi)
		}
	}
	p = &e.packets[c.packet]
	p.lane = vl
	o.sendStream, o.sendSeq = p.stream, p.seq
	o.words += words(p.bytes)
	o.packets++
	if e.details != nil {
		e.details[oi].XmitWords[p.sl] += words(p.bytes)
	}
	l.packets++
	l.avail -= int32(p.blocks)
	if e.cfg.Checks {
		e.checkStart(oi, ol)
	}
	if o.sink >= 0 {
		e.toHost(o, ol, c.packet)
		return
	}
	head := e.now + o.cable
	p.tail = head + dur
	if o.far {
		e.mailPacket(head+e.cfg.SwitchDelay, o.peer, c.packet)
		return
	}
	e.push(head+e.cfg.SwitchDelay, evEligible, o.peer, c.packet)
}

// endWait closes the waiting times of a port and a lane that start to send.
func (e *part) endWait(o *outPort, l *outLane) {
	o.waited += max(0, e.now-o.waitFrom)
	o.waitFrom = o.busy
	l.waited += max(0, e.now-l.waitFrom)
	l.waitFrom = o.busy
}

// beginRead takes a read port of an input.
func (e *part) beginRead(in *inPort, oi int32, until Time) {
	if e.lazy {
		in.busy, in.readBy, in.reads = until, oi, 1
	} else {
		in.busy, in.readBy = max(in.busy, until), oi
		in.reads++
	}
	if e.cfg.Reads != 0 && int(in.reads) >= e.cfg.Reads {
		e.busyIn[e.nodes[in.node].busyOff+int32(in.num>>6)] |= 1 << (in.num & 63)
	}
}

// toHost sends a packet over the last cable. The host takes packets in the order
// of arrival at its own rate, so when this one is read is known now. That is
// when its blocks come free.
func (e *part) toHost(o *outPort, ol, id int32) {
	p, h := &e.packets[id], &e.hosts[o.sink]
	head := e.now + o.cable
	p.tail = head + o.busy - e.now
	if h.stopped || h.unread > 0 {
		p.flags |= flagUnread
		h.unread++
		e.push(p.tail, evDeliver, o.sink, id)
		return
	}
	rate := o.rate
	if h.take.slower(rate) {
		rate = h.take
	}
	dur := rate.Time(int(p.bytes))
	from := max(head, p.tail-dur, h.free)
	h.free = from + dur
	p.since = from
	e.addRead(ol, from, h.free, rate, p.blocks)
	e.push(h.free, evDeliver, o.sink, id)
}

// deliver hands a packet to the host, or notes that it waits there.
func (e *part) deliver(hi, id int32) {
	p, h := &e.packets[id], &e.hosts[hi]
	in := &e.in[h.port]
	if p.flags&flagLost != 0 {
		if p.flags&flagUnread != 0 {
			h.unread--
			e.dropAt(h.port, id, LostOnWire)
		} else {
			e.dropRead(h.port, id, LostOnWire)
		}
		return
	}
	if p.flags&flagUnread != 0 {
		e.hold(h, id)
		return
	}
	in.packets++
	in.words += words(p.bytes)
	if e.details != nil {
		e.details[h.port].received(p)
	}
	switch {
	case !in.active:
		e.dropRead(h.port, id, NotReceiving)
	case p.flags&flagBadEnd != 0:
		e.dropRead(h.port, id, BadEnd)
	case p.flags&flagNotify != 0:
		e.stat.live--
		e.stat.gone++
		e.notified(hi, p)
		e.release(id)
	case !p.dlid.IsMulticast() && p.dlid-h.lid >= ibLID(h.lids) && !p.carried() && !e.owns(h, p.dlid):
		e.dropRead(h.port, id, WrongHost)
	default:
		if p.flags&flagFECN != 0 {
			e.notify(hi, p)
		}
		e.delivered(hi, id)
		e.release(id)
	}
}

// owns reports whether a function of a host has a LID.
func (e *part) owns(h *host, lid ibLID) bool {
	return e.functions != nil && e.functions.Owns(h.ref.Node, h.ref.Port, lid)
}

// hold keeps a packet at a host that has stopped, or begins to read it if the
// host has resumed.
func (e *part) hold(h *host, id int32) {
	e.packets[id].next = -1
	if h.held.tail >= 0 {
		e.packets[h.held.tail].next = id
	} else {
		h.held.head = id
	}
	h.held.tail = id
	if !h.stopped {
		e.readHeld(h)
	}
}

// readHeld begins to read all packets that a host holds.
func (e *part) readHeld(h *host) {
	o := &e.out[e.in[h.port].up]
	for h.held.head >= 0 {
		id := h.held.head
		p := &e.packets[id]
		h.held.head = p.next
		p.flags &^= flagUnread
		h.unread--
		rate := o.rate
		if h.take.slower(rate) {
			rate = h.take
		}
		from := max(e.now, h.free)
		h.free = from + rate.Time(int(p.bytes))
		p.since = from
		e.addRead(e.in[h.port].up*e.stride+int32(p.lane), from, h.free, rate, p.blocks)
		e.push(h.free, evDeliver, o.sink, id)
	}
	h.held.tail = -1
}
