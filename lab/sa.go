package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/shell"
	"heddle/sim"
)

// administrator is the subnet administrator of a Manager, driven in virtual
// time: queries are answered at once, as by a worker that has nothing else to
// do, the rest goes through a core.
type administrator struct {
	m     *Manager
	shell *shell.SA
	opt   sa.Options
	rmpp  *mad.RMPP
	armed mad.Time // of the core
	timed mad.Time // of rmpp
	buf   []byte
}

// SAConfig is the SA of a manager that trusts key: the product's, but nobody has to
// join groups again after another manager went.
func SAConfig(key uint64) sa.Config {
	c := sa.Defaults()
	c.SAKey, c.RejoinTime = key, 0
	return c
}

// ServeSA gives an attached manager a subnet administrator; call it before
// Start. What it keeps is in the manager's store.
func (m *Manager) ServeSA(cfg sa.Config, opt sa.Options) {
	a := &administrator{m: m, opt: opt, armed: mad.Never, timed: mad.Never, rmpp: mad.NewRMPP(mad.RMPPConfig{})}
	a.shell = shell.NewSA(sa.NewCore(cfg), saEdge{a}, &m.shared)
	m.shared.WakeSA = a.shell.Mail
	m.sa = a
}

// View is what the manager's SA keeps, as queries see it.
func (m *Manager) View() *sa.View { return m.shared.View.Load() }

// source is what the SA's answers are made from.
func (a *administrator) source() *sa.Source {
	return &sa.Source{Snap: a.m.Snap, View: a.m.View(), Opt: &a.opt}
}

// receive takes an SA packet from the port.
func (a *administrator) receive(p *mad.Packet) {
	whole, kind := a.rmpp.Receive(a.m.c.Sim.Now(), p, a.raw, noDone)
	a.arm()
	switch kind {
	case mad.RMPPUsed:
		return
	case mad.RMPPMessage:
		p = whole
	}
	switch shell.KindOf(p) {
	case shell.Query, shell.Change:
	case shell.ReportAnswer:
		a.shell.Step(sa.Received{P: keep(p)})
		return
	default:
		return
	}
	req := sa.Request{From: p.Addr, Data: p.Data}
	reply, v := sa.Answer(a.source(), &req, a.buf[:0])
	a.buf = reply
	switch v {
	case sa.Answered:
		a.send(req.From, reply)
	case sa.ForCore:
		a.shell.Step(sa.Requests{List: []sa.Request{{From: p.Addr, Data: keep(p).Data}}})
	}
}

// Path asks the manager's SA for a path between two GIDs in a partition, as who
// has the address from would, without a packet on the wire.
func (m *Manager) Path(from mad.Addr, src, dst ib.GID, key ib.PKey) (r wire.PathRecord, err error) {
	var q ib.MAD
	wire.New(&q, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompSGID|wire.PathCompDGID|wire.PathCompPKey)
	r = wire.PathRecord{SGID: src, DGID: dst, PKey: key}
	r.Put(wire.Data(&q))
	b, v := sa.Answer(m.sa.source(), &sa.Request{From: from, Data: q[:]}, nil)
	if status := binary.BigEndian.Uint16(b[4:]); v != sa.Answered || status != 0 {
		return r, fmt.Errorf("lab: the SA knows no path from %v to %v with P_Key %v: status %#04x", src, dst, key, status)
	}
	return r, r.Decode(b[wire.HeaderLen : wire.HeaderLen+wire.PathRecordLen])
}

func keep(p *mad.Packet) *mad.Packet {
	q := *p
	q.Data = append([]byte(nil), p.Data...)
	return &q
}

func noDone(uint64, error) {}

func (a *administrator) raw(p *mad.Packet) { a.m.sends(p) }

// send sends an answer, by RMPP if it asks for that.
func (a *administrator) send(to mad.Addr, data []byte) {
	p := mad.Packet{Addr: to, LocalQP: 1, Data: data}
	if data[26]&wire.RMPPActive == 0 {
		a.m.sends(&p)
		return
	}
	p.Data = append([]byte(nil), data...)
	_ = a.rmpp.Send(a.m.c.Sim.Now(), &p, false, 0, a.raw)
	a.arm()
}

// arm has the segmentation woken when something of it is due.
func (a *administrator) arm() {
	t := a.rmpp.NextTimer()
	a.m.wake(&a.timed, t, func() {
		a.rmpp.Expire(a.m.c.Sim.Now(), a.raw, noDone)
		a.arm()
	})
}

// Client is a program on a host that talks to the SA, with segmentation. It
// repeats nothing by itself.
type Client struct {
	// OnReport, if set, sees the Reports that come; they are answered whatever
	// it does. A nil function and Deaf leave them unanswered.
	OnReport func(p *mad.Packet)
	Deaf     bool

	c     *Cluster
	ep    *sim.Endpoint
	grh   bool // a virtual machine: its requests carry a GRH
	rmpp  *mad.RMPP
	timed mad.Time
	tid   uint32
	got   map[uint32][]byte
}

// Client opens a port of a node.
func (c *Cluster) Client(node string) (*Client, error) {
	ep, err := c.Sim.Attach(node)
	if err != nil {
		return nil, err
	}
	return c.client(ep), nil
}

// VMClient opens the port that a virtual machine sees. Its requests go to the SA's
// well-known GID, as those of virtual ports must (a shared LID tells nobody who asks).
func (c *Cluster) VMClient(name string) (*Client, error) {
	ep, err := c.Sim.AttachVM(name)
	if err != nil {
		return nil, err
	}
	k := c.client(ep)
	k.grh = true
	return k, nil
}

func (c *Cluster) client(ep *sim.Endpoint) *Client {
	k := &Client{c: c, ep: ep, rmpp: mad.NewRMPP(mad.RMPPConfig{}), timed: mad.Never, got: map[uint32][]byte{}}
	ep.OnPacket = k.receive
	ep.Accepts = func(p *mad.Packet) bool { // requests are for a manager on the same port
		return ib.Class(p.Data[1]) == ib.ClassSA && ib.Method(p.Data[3]) == ib.MethodReport
	}
	return k
}

// Close detaches the client; what is under way to it is lost.
func (k *Client) Close() { k.ep.Close() }

// Endpoint is the port that the client holds.
func (k *Client) Endpoint() *sim.Endpoint { return k.ep }

func (k *Client) receive(p *mad.Packet) {
	whole, kind := k.rmpp.Receive(k.c.Sim.Now(), p, k.raw, noDone)
	k.arm()
	switch kind {
	case mad.RMPPUsed:
		return
	case mad.RMPPMessage:
		p = whole
	}
	if len(p.Data) < wire.HeaderLen || ib.Class(p.Data[1]) != ib.ClassSA {
		return
	}
	switch method := ib.Method(p.Data[3]); {
	case method.IsResponse():
		k.got[binary.BigEndian.Uint32(p.Data[12:])] = append([]byte(nil), p.Data...)
	case method == ib.MethodReport:
		if k.OnReport != nil {
			k.OnReport(p)
		}
		if !k.Deaf {
			q := *p
			q.LocalQP = 1
			q.Data = append([]byte(nil), p.Data...)
			q.Data[3] |= byte(ib.MethodResponseBit)
			k.ep.Send(&q)
		}
	}
}

func (k *Client) raw(p *mad.Packet) { k.ep.Send(p) }

func (k *Client) arm() {
	t := k.rmpp.NextTimer()
	if t == mad.Never || k.timed <= t {
		return
	}
	k.timed = t
	k.c.Sim.At(t, func() {
		if k.timed != t {
			return
		}
		k.timed = mad.Never
		k.rmpp.Expire(k.c.Sim.Now(), k.raw, noDone)
		k.arm()
	})
}

// Send sends a request to the master and returns the lower half of its
// transaction id.
func (k *Client) Send(m *ib.MAD) uint32 {
	k.tid++
	m.SetTID(uint64(k.tid))
	pi := k.ep.PortInfo()
	to := mad.Addr{LID: pi.MasterSMLID, QP: 1, SL: pi.MasterSMSL}
	if k.grh {
		to.HasGRH, to.GRH = true, mad.GRH{GID: ib.MakeGID(pi.GidPrefix, wire.WellKnownGUID), HopLimit: 1}
	}
	k.ep.Send(&mad.Packet{Addr: to, LocalQP: 1, Data: m[:]})
	return k.tid
}

// Got returns the answer to a request, once.
func (k *Client) Got(tid uint32) ([]byte, bool) {
	b, ok := k.got[tid]
	delete(k.got, tid)
	return b, ok
}

// ErrNoAnswer is returned by Ask when the limit passes.
var ErrNoAnswer = errors.New("lab: the SA does not answer")

// Ask sends a request and runs events until it is answered, at most for limit
// of virtual time.
func (k *Client) Ask(limit time.Duration, m *ib.MAD) ([]byte, error) {
	tid := k.Send(m)
	_ = k.c.RunUntil(limit, func() bool { return k.got[tid] != nil })
	if b, ok := k.Got(tid); ok {
		return b, nil
	}
	return nil, ErrNoAnswer
}
