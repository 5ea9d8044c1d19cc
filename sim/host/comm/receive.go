package comm

import (
	"time"

	"heddle/ib"
	wire "heddle/ib/cm"
	"heddle/mad"
	"heddle/sim/host/rc"
)

// Accepts says which packets are for a communication manager.
func Accepts(p *mad.Packet) bool { return ib.Class(p.Data[1]) == ib.ClassCM }

// Receive takes a message from the port.
func (m *Manager) Receive(now mad.Time, p *mad.Packet) {
	if len(p.Data) != ib.MADLen || !Accepts(p) || p.Status != mad.Received {
		return
	}
	d := (*ib.MAD)(p.Data)
	b := wire.Data(d)
	if d.AttrID() == wire.AttrREQ {
		m.request(now, p.Addr, d)
		return
	}
	// All others name the receiver's ID in their second word.
	id := uint32(b[4])<<24 | uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7])
	c := m.find(id, p.Addr.LID)
	if c == nil {
		m.stranger(p.Addr, d)
		return
	}
	switch d.AttrID() {
	case wire.AttrREP:
		c.reply(now, d)
	case wire.AttrRTU:
		c.ready(now)
	case wire.AttrREJ:
		c.rejected(now, d)
	case wire.AttrMRA:
		var r wire.MRA
		if r.Decode(b) == nil && c.pending != nil {
			c.due = now.Add(4096*time.Nanosecond<<r.Timeout + c.m.cfg.Timeout())
		}
	case wire.AttrDREQ:
		c.ended(now, d)
	case wire.AttrDREP:
		if c.state == DreqSent {
			c.part(now)
		}
	case wire.AttrLAP:
		c.load(now, d)
	case wire.AttrAPR:
		c.response(now, d)
	}
}

func (m *Manager) find(id uint32, from ib.LID) *Conn {
	for _, c := range m.conns {
		if c.local == id && c.peer == from {
			return c
		}
	}
	return nil
}

// stranger answers a message for a connection that does not exist: a DREQ is done, a
// LAP and a REP are refused.
func (m *Manager) stranger(from mad.Addr, d *ib.MAD) {
	var out ib.MAD
	b := wire.Data(d)
	switch d.AttrID() {
	case wire.AttrDREQ:
		var q wire.DREQ
		_ = q.Decode(b)
		wire.New(&out, wire.AttrDREP, tidOf(d))
		(&wire.DREP{LocalID: q.RemoteID, RemoteID: q.LocalID}).Put(wire.Data(&out))
	case wire.AttrLAP:
		var q wire.LAP
		_ = q.Decode(b)
		wire.New(&out, wire.AttrAPR, tidOf(d))
		(&wire.APR{LocalID: q.RemoteID, RemoteID: q.LocalID, Status: wire.PathInvalidComm}).Put(wire.Data(&out))
	case wire.AttrREP:
		var q wire.REP
		_ = q.Decode(b)
		wire.New(&out, wire.AttrREJ, tidOf(d))
		(&wire.REJ{LocalID: q.RemoteID, RemoteID: q.LocalID, Message: wire.MessageREP, Reason: wire.ReasonInvalidComm}).Put(wire.Data(&out))
	default:
		return
	}
	m.transmit(from, &out)
}

// request handles a REQ.
func (m *Manager) request(now mad.Time, from mad.Addr, d *ib.MAD) {
	var q wire.REQ
	if q.Decode(wire.Data(d)) != nil {
		return
	}
	if m.stale(from, &q, tidOf(d)) {
		return
	}
	for _, c := range m.conns {
		if c.passive && c.remote == q.LocalID && c.peer == from.LID {
			c.send(&c.rep) // it came twice
			return
		}
	}
	if !m.think(now, from, &q, d) {
		m.decide(now, from, &q, d)
	}
}

// decide answers a REQ.
func (m *Manager) decide(now mad.Time, from mad.Addr, q *wire.REQ, d *ib.MAD) {
	refuse := wire.ReasonServiceID
	if l := m.listens[q.ServiceID]; l != nil {
		qp, psn, why := l(now, q)
		if qp != nil {
			c := m.open(qp, from.LID, q.Primary.SL)
			c.passive, c.remote, c.state = true, q.LocalID, RepSent
			c.sender = rc.Sender{PSN: psn, Timeout: q.Primary.AckTimeout, Retries: q.Retries, RNRRetries: q.RNRRetries}
			// The path back is that of the REQ, seen from here.
			err := qp.QP().Receivable(rc.Connect{RemoteQPN: q.QPN, PSN: q.PSN, Path: rc.Path{DLID: q.Primary.LocalLID, SL: q.Primary.SL}})
			if err == nil {
				c.accept(now, tidOf(d))
				return
			}
			c.close()
			why = wire.ReasonNoQP
		}
		refuse = why
	}
	var out ib.MAD
	wire.New(&out, wire.AttrREJ, tidOf(d))
	(&wire.REJ{RemoteID: q.LocalID, Message: wire.MessageREQ, Reason: refuse}).Put(wire.Data(&out))
	m.transmit(from, &out)
}

// accept sends the REP, in the exchange of the REQ.
func (c *Conn) accept(now mad.Time, tid uint64) {
	_, gid := c.m.self()
	r := wire.REP{LocalID: c.local, RemoteID: c.remote, QPN: c.qp.QPN(), PSN: c.sender.PSN, RNRRetries: c.sender.RNRRetries, LocalCA: gid.GUID()}
	wire.New(&c.rep, wire.AttrREP, tid)
	r.Put(wire.Data(&c.rep))
	c.tid, c.pending, c.left = tid, &c.rep, c.m.cfg.Retries
	c.try(now)
}

// reply handles a REP.
func (c *Conn) reply(now mad.Time, d *ib.MAD) {
	if c.state == Established && !c.passive {
		c.send(&c.rtu) // it came twice
		return
	}
	var r wire.REP
	if c.state != ReqSent || tidOf(d) != c.tid || r.Decode(wire.Data(d)) != nil {
		return
	}
	c.remote = r.LocalID
	err := c.qp.Start(rc.Connect{RemoteQPN: r.QPN, PSN: r.PSN, Path: c.path}, c.sender)
	c.settled()
	if err != nil {
		var out ib.MAD
		c.tell(&out, wire.AttrREJ, tidOf(d), (&wire.REJ{LocalID: c.local, RemoteID: c.remote, Message: wire.MessageREP, Reason: wire.ReasonNoQP}).Put)
		c.close()
	} else {
		c.state = Established
		c.tell(&c.rtu, wire.AttrRTU, tidOf(d), (&wire.RTU{LocalID: c.local, RemoteID: c.remote}).Put)
	}
	if f := c.done; f != nil {
		c.done = nil
		f(now, err)
	}
}

// ready handles an RTU.
func (c *Conn) ready(now mad.Time) {
	if c.state != RepSent {
		return
	}
	c.settled()
	c.state = Established
	_ = c.qp.Do(func(q *rc.QP, _ rc.Time) error { return q.Sendable(c.sender) })
	if c.m.OnReady != nil {
		c.m.OnReady(now, c)
	}
}

// rejected handles a REJ.
func (c *Conn) rejected(now mad.Time, d *ib.MAD) {
	var r wire.REJ
	if c.state != ReqSent && c.state != RepSent || tidOf(d) != c.tid || r.Decode(wire.Data(d)) != nil {
		return
	}
	passive := c.state == RepSent
	c.close()
	if passive {
		c.qp.Destroy()
	} else if c.done != nil {
		c.done(now, &RejectError{Reason: r.Reason})
	}
}

// ended handles a DREQ.
func (c *Conn) ended(now mad.Time, d *ib.MAD) {
	var q wire.DREQ
	if q.Decode(wire.Data(d)) != nil {
		return
	}
	var out ib.MAD
	c.tell(&out, wire.AttrDREP, tidOf(d), (&wire.DREP{LocalID: c.local, RemoteID: q.LocalID}).Put)
	if c.state == DreqSent || c.state == TimeWait {
		return // both end it: its own DREP comes; or it came twice
	}
	c.part(now)
	if c.Ended != nil {
		c.Ended(now)
	}
}

// load handles a LAP: the alternate path of this end is its present one if the peer
// keeps its LID, because only the peer's side of the path has changed, or the one that
// this end has asked for meanwhile; else that of the LAP, seen from here.
func (c *Conn) load(now mad.Time, d *ib.MAD) {
	var q wire.LAP
	if q.Decode(wire.Data(d)) != nil {
		return
	}
	if c.state == RepSent {
		c.ready(now) // the RTU was lost: a LAP says that the peer is ready
	}
	if c.lap == tidOf(d) {
		c.send(&c.apr) // it came twice
		return
	}
	p := c.qp.QP().Path()
	if c.qp.QP().Migration() != rc.StateMigrated {
		p = c.qp.QP().Alternate()
	}
	if p.DLID != q.Alternate.LocalLID {
		p = rc.Path{DLID: q.Alternate.LocalLID, SL: q.Alternate.SL}
	}
	r := wire.APR{LocalID: c.local, RemoteID: c.remote}
	if c.state != Established || c.qp.Do(func(x *rc.QP, _ rc.Time) error { return x.Rearm(p) }) != nil {
		r.Status = wire.PathRejected
	} else {
		c.alt = p
	}
	c.lap = tidOf(d)
	c.tell(&c.apr, wire.AttrAPR, tidOf(d), r.Put)
}

// response handles an APR.
func (c *Conn) response(now mad.Time, d *ib.MAD) {
	var r wire.APR
	if c.loaded == nil || tidOf(d) != c.tid || r.Decode(wire.Data(d)) != nil {
		return
	}
	c.settled()
	var err error
	if r.Status != wire.PathLoaded {
		err = &RejectError{Path: r.Status}
	} else {
		c.alt = c.path
		err = c.qp.Do(func(q *rc.QP, _ rc.Time) error { return q.Rearm(c.path) })
	}
	f := c.loaded
	c.loaded = nil
	f(now, err)
}

// tidOf is the transaction of a message: 48 bits, as ports use the others to tell
// programs apart.
func tidOf(d *ib.MAD) uint64 { return d.TID() & (1<<48 - 1) }
