package rc

// responder is the receiving half of a queue pair (IBA §9.7.4, §9.7.5).
type responder struct {
	expected uint32 // number of the next packet
	msn      uint32 // messages received, 24 bits
	receives int32  // posted, those of the present message included until it ends
	bytes    int    // of the present message so far
	message  uint64 // its content
	inside   bool   // between the first and the last packet of a message
	heard    bool
	nakSent  bool // nothing is answered until the expected packet comes
	starved  bool // the last credits told were 0

	pending  bool // a response is to be sent
	syndrome Syndrome
	psn      uint32
}

// respond has a response sent; a newer one replaces one that has not left.
func (q *QP) respond(s Syndrome, psn uint32) {
	q.resp.pending, q.resp.syndrome, q.resp.psn = true, s, psn
}

// takeResponse makes the packet of the response that is to be sent. Credits are
// those of this moment.
func (q *QP) takeResponse(p *Packet) {
	r := &q.resp
	r.pending = false
	s := r.syndrome
	if s&kindMask == ackKind {
		s = ackKind | noCredits
		if q.cfg.Credits {
			free := r.receives
			if r.inside {
				free--
			}
			s = ackKind | creditCode(max(free, 0))
			r.starved = free <= 0
		}
	}
	*p = Packet{
		Opcode: Acknowledge, RemoteQPN: q.remoteQPN, PSN: r.psn, Syndrome: s, MSN: r.msn,
		MigReq: q.apm.state == StateMigrated,
	}
}

// request handles a request packet.
func (q *QP) request(p *Packet) {
	r := &q.resp
	switch d := psnAfter(p.PSN, r.expected); {
	case d > 0:
		q.Count.OutOfOrder++
		if !r.nakSent {
			r.nakSent = true
			q.respond(NAKSequence, r.expected)
		}
		return
	case d < 0:
		q.Count.Duplicates++
		if p.AckReq && !r.nakSent {
			q.respond(ackKind, psnAdd(r.expected, -1))
		}
		return
	}
	if p.Opcode.begins() == r.inside {
		// A first packet within a message, or none at its beginning (IBA §9.7.4.1.4).
		q.respond(NAKInvalid, r.expected)
		return
	}
	if p.Opcode.begins() {
		if r.receives == 0 {
			r.nakSent = true
			q.respond(rnrKind|Syndrome(q.rnrTimer&31), r.expected)
			return
		}
		r.inside, r.bytes, r.message = true, 0, p.Message
	}
	r.nakSent = false
	r.expected = psnAdd(r.expected, 1)
	r.bytes += p.Length
	if p.AckReq {
		q.respond(ackKind, p.PSN)
	} else if r.pending {
		r.psn = p.PSN // what waits to leave covers this one too
		r.syndrome = ackKind
	}
	if p.Opcode.ends() {
		r.inside = false
		r.receives--
		r.msn = (r.msn + 1) & psnMask
		q.owner.Received(q, r.message, r.bytes)
	}
}
