// Package comm is the communication manager of a simulated host: it connects queue
// pairs by REQ, REP and RTU, ends them by DREQ and DREP, and has both ends load an
// alternate path by LAP and APR (IBA volume 1, chapter 12).
//
//	    active              passive                 active             passive
//	INIT  │──── REQ ─────────►│ INIT                RTS  │──── LAP ───────►│ REARM
//	      │                   │ RTR                      │                 │
//	RTR   │◄─── REP ──────────│                     REARM│◄─── APR ────────│
//	RTS   │──── RTU ─────────►│ RTS                      │  both ARMED, when packets
//	                                                     │  have gone both ways
//
// A Manager is pure: packets and times go in. What is not answered is repeated after
// 4.096 µs·(2·2^PacketLife + 2^Response), Retries times; an MRA gives more time. What
// comes twice is answered twice and done once.
package comm

import (
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	wire "heddle/ib/cm"
	"heddle/mad"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// Config are the times of a Manager.
type Config struct {
	PacketLife uint8 // code of the lifetime of the path
	Response   uint8 // code of the time that the peer may take
	Retries    int   // after the first try, at most 15
	// Rounded counts times as Linux does: 2^(n-8) ms in the place of 4.096 µs·2^n, 4.6 %
	// less, and at least 1 ms.
	Rounded bool
	// TimeWait keeps the queue pair of a connection that ended, in ERR, and its numbers, for
	// as long as a try waits for its answer. Otherwise it is destroyed at once.
	TimeWait bool
	// Accept is how long the passive end takes to answer a request; an MRA tells the active
	// end, if that is longer than it gives.
	Accept time.Duration
}

// Defaults are those of Linux: 15 retries; codes of 18 and 20 give 6.4 s each.
func Defaults() Config { return Config{PacketLife: 18, Response: 20, Retries: 15} }

// Timeout is how long a try waits for its answer.
func (c Config) Timeout() time.Duration {
	if c.Rounded {
		ms := func(code uint8) time.Duration { return time.Millisecond << max(int(code)-8, 0) }
		return 2*ms(c.PacketLife) + ms(c.Response)
	}
	return 4096 * time.Nanosecond * (2<<c.PacketLife + 1<<c.Response)
}

// State is that of a connection.
type State uint8

// The states.
const (
	Closed State = iota
	ReqSent
	RepSent
	Established
	DreqSent
	TimeWait
)

// String prints "REQ sent".
func (s State) String() string {
	return [...]string{"closed", "REQ sent", "REP sent", "established", "DREQ sent", "time wait"}[s]
}

// ErrTimeout is given when the peer does not answer.
var ErrTimeout = errors.New("comm: the peer does not answer")

// RejectError is a REJ or an APR that refuses.
type RejectError struct {
	Reason wire.Reason
	Path   wire.PathStatus
}

// Error names the reason.
func (e *RejectError) Error() string {
	if e.Path != 0 {
		return fmt.Sprintf("comm: the peer refuses the alternate path: status %d", e.Path)
	}
	return fmt.Sprintf("comm: the peer refuses the connection: reason %d", e.Reason)
}

// Listener takes a request: it returns a queue pair in INIT and the number of the first
// packet that it will send, or the reason to refuse.
type Listener func(now mad.Time, r *wire.REQ) (c *adapter.Connection, psn uint32, refuse wire.Reason)

// Conn is a connection as its communication manager sees it.
type Conn struct {
	m        *Manager
	qp       *adapter.Connection
	state    State
	passive  bool
	local    uint32
	remote   uint32
	peer     ib.LID
	level    ib.SL   // of the path that the REQ names: messages take it in both directions
	alt      rc.Path // the alternate path that was loaded last
	sender   rc.Sender
	tid      uint64 // of the exchange under way
	pending  *ib.MAD
	left     int
	due      mad.Time // mad.Never: nothing is under way
	rep, rtu ib.MAD   // sent last, for what comes twice
	lap      uint64   // transaction of the last LAP that was carried out
	apr      ib.MAD
	path     rc.Path // of the LAP under way
	done     func(now mad.Time, err error)
	loaded   func(now mad.Time, err error)

	// Ended, if set, is called when the peer has ended the connection.
	Ended func(now mad.Time)
}

// QP is its queue pair.
func (c *Conn) QP() *adapter.Connection { return c.qp }

// State is its state.
func (c *Conn) State() State { return c.state }

// Manager is the communication manager of a port.
type Manager struct {
	cfg     Config
	send    func(*mad.Packet)
	self    func() (ib.LID, ib.GID)
	listens map[uint64]Listener
	conns   []*Conn // open ones, in the order of their making
	next    uint32
	tids    uint64
	slow    []slow // requests that wait for Config.Accept

	// OnReady, if set, is called when the RTU of a request that a Listener took has come.
	OnReady func(now mad.Time, c *Conn)
}

// New makes a communication manager; self is the port.
func New(c Config, send func(*mad.Packet), self func() (ib.LID, ib.GID)) *Manager {
	return &Manager{cfg: c, send: send, self: self, listens: map[uint64]Listener{}, next: 1}
}

// Listen takes requests for a service.
func (m *Manager) Listen(service uint64, l Listener) { m.listens[service] = l }

// Of is the open connection of a queue pair, nil: none.
func (m *Manager) Of(qp *adapter.Connection) *Conn {
	for _, c := range m.conns {
		if c.qp == qp && c.state == Established {
			return c
		}
	}
	return nil
}

// Request is what Connect asks for.
type Request struct {
	Service uint64
	QP      *adapter.Connection // in INIT
	Path    rc.Path             // to the peer
	Peer    ib.GID
	Sender  rc.Sender
	MTU     ib.MTU
}

// Connect asks a peer to connect. done is called once.
func (m *Manager) Connect(now mad.Time, r Request, done func(now mad.Time, err error)) *Conn {
	c := m.open(r.QP, r.Path.DLID, r.Path.SL)
	c.state, c.sender, c.done = ReqSent, r.Sender, done
	lid, gid := m.self()
	q := wire.REQ{
		LocalID: c.local, ServiceID: r.Service, LocalCA: gid.GUID(), QPN: r.QP.QPN(), PSN: r.Sender.PSN, RemoteTimeout: m.cfg.Response,
		LocalTimeout: m.cfg.Response, Retries: r.Sender.Retries, RNRRetries: r.Sender.RNRRetries, PKey: r.QP.PKey(), MTU: r.MTU,
		MaxCMRetries: uint8(m.cfg.Retries),
		Primary: wire.Path{
			LocalLID: lid, RemoteLID: r.Path.DLID, LocalGID: gid, RemoteGID: r.Peer, SL: r.Path.SL, SubnetLocal: true,
			AckTimeout: r.Sender.Timeout,
		},
	}
	c.path = r.Path
	c.ask(now, wire.AttrREQ, q.Put)
	return c
}

// Disconnect ends a connection: DREQ, and the queue pair is destroyed at once, or after
// TimeWait.
func (c *Conn) Disconnect(now mad.Time) {
	if c.state != Established {
		return
	}
	c.state = DreqSent
	q := wire.DREQ{LocalID: c.local, RemoteID: c.remote, RemoteQPN: c.qp.QP().RemoteQPN()}
	if c.m.cfg.TimeWait {
		c.stop()
	} else {
		c.qp.Destroy()
	}
	c.ask(now, wire.AttrDREQ, q.Put)
}

// LoadAlternate has the peer load an alternate path, and then this end. A call while
// another is under way replaces it.
func (c *Conn) LoadAlternate(now mad.Time, p rc.Path, done func(now mad.Time, err error)) {
	if c.state != Established {
		done(now, rc.ErrState)
		return
	}
	c.path, c.loaded = p, done
	lid, gid := c.m.self()
	q := wire.LAP{
		LocalID: c.local, RemoteID: c.remote, RemoteQPN: c.qp.QP().RemoteQPN(), RemoteTimeout: c.m.cfg.Response,
		Alternate: wire.Path{LocalLID: lid, RemoteLID: p.DLID, LocalGID: gid, RemoteGID: c.qp.Peer(), SL: p.SL, SubnetLocal: true, AckTimeout: c.sender.Timeout},
	}
	c.ask(now, wire.AttrLAP, q.Put)
}

// open makes a connection that nothing is known of yet.
func (m *Manager) open(qp *adapter.Connection, peer ib.LID, level ib.SL) *Conn {
	c := &Conn{m: m, qp: qp, local: m.next, peer: peer, level: level, due: mad.Never}
	m.next++
	m.conns = append(m.conns, c)
	return c
}

// close forgets a connection.
func (c *Conn) close() {
	c.state, c.pending, c.due = Closed, nil, mad.Never
	for i, x := range c.m.conns {
		if x == c {
			c.m.conns = append(c.m.conns[:i], c.m.conns[i+1:]...)
			return
		}
	}
}

// ask begins an exchange.
func (c *Conn) ask(now mad.Time, attr ib.AttrID, put func([]byte)) {
	c.m.tids++
	c.tid = uint64(c.local)<<16&(1<<48-1) | c.m.tids&0xFFFF
	c.pending = &ib.MAD{}
	wire.New(c.pending, attr, c.tid)
	put(wire.Data(c.pending))
	c.left = c.m.cfg.Retries
	c.try(now)
}

func (c *Conn) try(now mad.Time) {
	c.due = now.Add(c.m.cfg.Timeout())
	c.send(c.pending)
}

// tell sends a message that has no answer of its own, in the exchange of tid.
func (c *Conn) tell(m *ib.MAD, attr ib.AttrID, tid uint64, put func([]byte)) {
	wire.New(m, attr, tid)
	put(wire.Data(m))
	c.send(m)
}

// send sends a message on the level of the path that the connection was made with, as Linux does, or
// of the alternate one, if the queue pair has migrated to that.
func (c *Conn) send(d *ib.MAD) {
	level := c.level
	if c.alt != (rc.Path{}) && c.qp.QP().Path() == c.alt {
		level = c.alt.SL
	}
	c.m.transmit(mad.Addr{LID: c.peer, SL: level}, d)
}

func (m *Manager) transmit(to mad.Addr, d *ib.MAD) {
	q := *d
	m.send(&mad.Packet{Addr: mad.Addr{LID: to.LID, SL: to.SL, QP: 1}, LocalQP: 1, Data: q[:]})
}

// settled ends the exchange under way.
func (c *Conn) settled() { c.pending, c.due = nil, mad.Never }

// NextTimer is when Expire is due.
func (m *Manager) NextTimer() mad.Time {
	t := mad.Never
	if len(m.slow) > 0 {
		t = m.slow[0].at
	}
	for _, c := range m.conns {
		t = min(t, c.due)
	}
	return t
}

// Expire repeats or ends what was not answered.
func (m *Manager) Expire(now mad.Time) {
	m.thought(now)
	for _, c := range append([]*Conn(nil), m.conns...) {
		if c.due > now {
			continue
		}
		if c.state == TimeWait {
			c.close()
			c.qp.Destroy()
			continue
		}
		if c.left > 0 {
			c.left--
			c.try(now)
			continue
		}
		c.unanswered(now)
	}
}

// unanswered ends an exchange whose tries are used up.
func (c *Conn) unanswered(now mad.Time) {
	c.settled()
	switch c.state {
	case Established: // LAP: the connection goes on
		if f := c.loaded; f != nil {
			c.loaded = nil
			f(now, ErrTimeout)
		}
	case DreqSent:
		c.part(now)
	default:
		c.close()
		if c.done != nil {
			c.done(now, ErrTimeout)
		} else {
			c.qp.Destroy() // passive: no RTU came
		}
	}
}
