package daemon

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/shell"
)

const (
	// maxBatch is how many requests a worker takes at a time, and maxChanges how many changes
	// are stored in one write.
	maxBatch   = 16
	maxChanges = 1024
	// lateAfter is how long a request may wait. After that its sender has timed out and repeats
	// it, so an answer would be useless.
	lateAfter = 5 * time.Second
	// keptAnswer bounds the buffer that a worker keeps from one answer to the
	// next.
	keptAnswer = 1 << 20
	// maxRequest bounds the size of a queued request. No valid request is longer.
	maxRequest = ib.MADLen
)

// segmented reports whether an answer is an RMPP message.
func segmented(answer []byte) bool {
	return len(answer) > ib.MADLen || answer[26]&wire.RMPPActive != 0
}

// packet returns p, or one to be used if it is nil.
func (d *Daemon) packet(p *mad.Packet) *mad.Packet {
	if p == nil {
		p = d.free.get()
	}
	return p
}

// receiveSA hands on a packet of the SA class and returns one for the next
// receive: p itself if nobody keeps it, nil if there is none.
func (d *Daemon) receiveSA(p *mad.Packet, kind shell.Kind) *mad.Packet {
	switch kind {
	case shell.ReportAnswer:
		select {
		case d.reports <- p:
			return nil
		default: // treated as lost; the Report is repeated
			bump(&d.sa.lostRep)
			return p
		}
	case shell.Returned:
		bump(&d.sa.returned)
		return p
	}
	bump(&d.sa.requests[attrSlot(p.Data)][methodSlotOf[p.Data[3]]])
	q, x := d.queries, query{p: p, at: d.now()}
	switch {
	case kind == shell.Change:
		q = d.changes // directly to the loop of changes
	case long(p.Data):
		q = d.tables
	default:
		x.quick = quick(p.Data, d.recv.tables)
	}
	if len(p.Data) > maxRequest {
		p.Data = slices.Clone(p.Data[:maxRequest])
	}
	most := 0
	if x.quick {
		most = d.recv.most()
	}
	spare, own, no := q.add(d.requester(p.Addr.LID), x, most)
	if no != accepted {
		d.recv.refuse(d, p, refusals[no])
		return p
	}
	if own {
		d.recv.mine = true
	}
	return spare
}

// long reports whether a query may cost as much as thousands of others: a table request without
// its first component, by which records are found, or a path request with one end open.
func long(m []byte) bool {
	if len(m) < wire.HeaderLen {
		return false
	}
	mask := wire.CompMask(binary.BigEndian.Uint64(m[48:]))
	if ib.AttrID(binary.BigEndian.Uint16(m[16:])) == wire.AttrPathRecord {
		return mask&(wire.PathCompSGID|wire.PathCompSLID) == 0 || mask&(wire.PathCompDGID|wire.PathCompDLID) == 0
	}
	return ib.Method(m[3]) == ib.MethodGetTable && mask&1 == 0
}

// quick reports whether the answer to a query is one record that is found without a search: one
// path between two ports, or the SA's ClassPortInfo. With tables, the records of one LID are
// quick too.
func quick(m []byte, tables bool) bool {
	if len(m) < wire.HeaderLen {
		return false
	}
	attr := ib.AttrID(binary.BigEndian.Uint16(m[16:]))
	switch ib.Method(m[3]) {
	case ib.MethodGet:
		return (attr == wire.AttrPathRecord || attr == wire.AttrClassPortInfo) && !long(m)
	case ib.MethodGetTable:
		return tables && (attr == wire.AttrNodeRecord || attr == wire.AttrPortInfoRecord) && !long(m)
	}
	return false
}

// refusals are the reasons, for answers and counters, by refusal of a queue.
var refusals = [...]busyReason{sourceFull: busyRequester, everythingFull: busyQueue, ended: busyStopping}

// requester is the LID under which a request from lid is queued: all LIDs of a physical port
// and its virtual ports are one requester, and so are all unassigned LIDs. VPorts have no
// queues of their own, so a host with many virtual machines gets no larger share of the SA than
// others.
func (d *Daemon) requester(lid ib.LID) ib.LID {
	s := d.Snapshot()
	if s == nil {
		return 0
	}
	i := s.PortByLID(lid)
	if i < 0 {
		return 0
	}
	return s.Ports[s.Physical(i)].LID
}

// answer answers p from the published state, unless it is a change. src, req, reply and buf
// belong to the caller, which reuses them.
func (d *Daemon) answer(p *mad.Packet, src *sa.Source, req *sa.Request, reply *mad.Packet, buf *[]byte, stats *answerStats) sa.Verdict {
	data, v := d.compose(p, src, req, *buf)
	if v == sa.Answered {
		*reply = mad.Packet{Addr: p.Addr, LocalQP: 1, Data: data}
		d.reply(p, reply, stats)
	}
	if *buf = data; cap(data) > keptAnswer {
		*buf = nil
	}
	return v
}

// compose makes the answer to p in buf, unless p is a change.
func (d *Daemon) compose(p *mad.Packet, src *sa.Source, req *sa.Request, buf []byte) ([]byte, sa.Verdict) {
	*src = sa.Source{Snap: d.Snapshot(), View: d.View(), Opt: d.options.Load(), Held: d.held}
	*req = sa.Request{From: p.Addr, Data: p.Data, SingleMAD: d.single || p.SingleMAD}
	return sa.Answer(src, req, buf[:0])
}

// reply sends an answer to the request p.
func (d *Daemon) reply(p, answer *mad.Packet, stats *answerStats) {
	if err := d.cfg.Port.Send(answer); err != nil && !d.giveBack(p) {
		d.unsent(p, err, stats)
	}
}

// giveBack gives a request back to which no answer can be sent any more, for another manager to answer it;
// false: the port was not cut, or nobody else answers it.
func (d *Daemon) giveBack(p *mad.Packet) bool {
	r, ok := d.cfg.Port.(mad.Returner)
	return ok && r.Return(p)
}

// unsent handles an answer to p that the port refused. A long answer without a free RMPP
// transfer becomes BUSY.
func (d *Daemon) unsent(p *mad.Packet, err error, stats *answerStats) {
	switch {
	case errors.Is(err, mad.ErrRMPPBusy):
		// The requester repeated the request while its answer was being sent.
	case errors.Is(err, mad.ErrRMPPPeer):
		d.busy(p, busyPeerTransfers, stats)
	case errors.Is(err, mad.ErrRMPPFull):
		d.busy(p, busyTransfers, stats)
	default:
		bump(&stats.unsent)
		d.log.Debug("an SA answer could not be sent; the requester repeats its request",
			"kind", "send_failed", "lid", p.Addr.LID, "err", err)
	}
}

// askedFor is a request that has this answer, as far as a refusal goes.
func askedFor(answer *mad.Packet) *mad.Packet {
	var m ib.MAD
	copy(m[:wire.HeaderLen], answer.Data)
	m[3] &^= byte(ib.MethodResponseBit)
	return &mad.Packet{Addr: answer.Addr, Data: m[:]}
}

// busy answers a request BUSY.
func (d *Daemon) busy(p *mad.Packet, why busyReason, stats *answerStats) {
	var b [ib.MADLen]byte
	data, ok := sa.Busy(&sa.Request{From: p.Addr, Data: p.Data}, b[:0])
	if !ok {
		bump(&stats.dropped)
		return
	}
	bump(&stats.busy[why])
	if err := d.cfg.Port.Send(&mad.Packet{Addr: p.Addr, LocalQP: 1, Data: data}); err != nil {
		bump(&stats.unsent)
	}
}
