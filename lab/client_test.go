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
	"heddle/sim"
	"heddle/vm"
)

// SAConfig is the SA of a manager that trusts key: the product's, but nobody has to
// join groups again after another manager went.
func SAConfig(key uint64) sa.Config {
	c := sa.Defaults()
	c.SAKey, c.RejoinTime = key, 0
	return c
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

// VM does an operation and runs events until it is answered, at most for a
// minute of virtual time.
func (m *Manager) VM(op vm.Op) vm.Reply {
	var got *vm.Reply
	m.DoVM(func(_ int, r *vm.Reply) { c := *r; got = &c }, op)
	err := m.c.RunUntil(time.Minute, func() bool { return got != nil || m.Dead })
	if got == nil {
		return vm.Reply{Err: fmt.Errorf("lab: %T is not answered: %w", op, err)}
	}
	return *got
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
	alarm *Alarm
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
	k := &Client{c: c, ep: ep, rmpp: mad.NewRMPP(mad.RMPPConfig{}), got: map[uint32][]byte{}}
	k.alarm = NewAlarm(c.Sim, k.rmpp.NextTimer, func(now mad.Time) { k.rmpp.Expire(now, k.raw, noDone) })
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
	k.alarm.Set()
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
