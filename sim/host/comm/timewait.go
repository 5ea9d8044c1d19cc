package comm

import (
	"time"

	"heddle/ib"
	wire "heddle/ib/cm"
	"heddle/mad"
	"heddle/sim/host/rc"
)

// TimeWait (IBA §12.9.8.4): a connection that has ended keeps its queue pair, which is in
// ERR, and its numbers, until packets and messages of it can no longer be on their way.
// And what takes time at the passive end: an MRA tells the peer to wait for it.

// part ends a connection. Its queue pair is destroyed now, or after TimeWait.
func (c *Conn) part(now mad.Time) {
	if !c.m.cfg.TimeWait {
		c.close()
		c.qp.Destroy()
		return
	}
	c.stop()
	c.settled()
	c.state, c.due = TimeWait, now.Add(c.m.cfg.Timeout())
}

// stop flushes what the queue pair has to do.
func (c *Conn) stop() {
	_ = c.qp.Do(func(q *rc.QP, _ rc.Time) error {
		q.Fail()
		return nil
	})
}

// stale refuses a request of a peer whose queue pair has a connection here that has ended,
// but not for long enough (IBA §12.9.8.3.1).
func (m *Manager) stale(from mad.Addr, q *wire.REQ, tid uint64) bool {
	for _, c := range m.conns {
		if c.state == TimeWait && c.peer == from.LID && (c.remote == q.LocalID && c.passive || c.qp.QP().RemoteQPN() == q.QPN) {
			var out ib.MAD
			wire.New(&out, wire.AttrREJ, tid)
			(&wire.REJ{RemoteID: q.LocalID, Message: wire.MessageREQ, Reason: wire.ReasonStale}).Put(wire.Data(&out))
			m.transmit(from, &out)
			return true
		}
	}
	return false
}

// slow is a request that the passive end is thinking about.
type slow struct {
	at   mad.Time
	from mad.Addr
	id   uint32 // of the active end
	data ib.MAD
}

// think has a request answered after Config.Accept. If the peer would not wait as long, it
// is told to, each time that the request comes. It is false if there is nothing to wait for.
func (m *Manager) think(now mad.Time, from mad.Addr, q *wire.REQ, d *ib.MAD) bool {
	if m.cfg.Accept <= 0 {
		return false
	}
	at := mad.Never
	for i := range m.slow {
		if m.slow[i].from.LID == from.LID && m.slow[i].id == q.LocalID {
			at = m.slow[i].at
		}
	}
	if at == mad.Never {
		at = now.Add(m.cfg.Accept)
		m.slow = append(m.slow, slow{at: at, from: from, id: q.LocalID, data: *d})
	}
	if left := at.Sub(now); left > unit<<q.RemoteTimeout {
		code := uint8(0)
		for code < 31 && unit<<code < left {
			code++
		}
		var out ib.MAD
		wire.New(&out, wire.AttrMRA, tidOf(d))
		(&wire.MRA{RemoteID: q.LocalID, Message: wire.MessageREQ, Timeout: code}).Put(wire.Data(&out))
		m.transmit(from, &out)
	}
	return true
}

// unit is that of times in messages: 4.096 µs·2ⁿ.
const unit = 4096 * time.Nanosecond

// thought answers the requests whose time has come.
func (m *Manager) thought(now mad.Time) {
	for len(m.slow) > 0 && m.slow[0].at <= now {
		x := m.slow[0]
		m.slow = m.slow[1:]
		var q wire.REQ
		if q.Decode(wire.Data(&x.data)) == nil {
			m.decide(now, x.from, &q, &x.data)
		}
	}
}
