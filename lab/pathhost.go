package lab

import (
	"encoding/binary"
	"fmt"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
)

// PathHost is a program on a host that asks for the paths that it uses, believes what it has, and
// learns of changes from Reports alone.
type PathHost struct {
	// Aware hosts ask for what changed since a generation; others ask for all their paths when any
	// may have changed.
	Aware bool
	// Peers are the destinations, Held the paths to them.
	Peers []ib.GID
	Held  map[ib.GID]wire.PathRecord
	Gen   uint64
	// Lose, if set, drops a Report (of) or its response; or a request or its answer.
	Lose func() bool
	// Asked and Bytes count its requests and their answers, Heard the Reports, with their bytes in
	// MADs of 256.
	Asked, Heard, Bytes int

	// Deaf hosts answer no Reports, and do not look at them.
	Deaf bool

	c       *Cluster
	ep      *sim.Endpoint
	rmpp    *mad.RMPP
	timed   mad.Time
	tid     uint32
	gid     ib.GID
	pending map[uint32]*question
}

// question is a request without an answer.
type question struct {
	m    ib.MAD
	done func(b []byte)
}

// askAgain is when a host repeats a request.
const askAgain = 200 * time.Millisecond

// PathHost opens a port of a node; subscribe, and give it peers.
func (c *Cluster) PathHost(node string) (*PathHost, error) {
	ep, err := c.Sim.Attach(node)
	if err != nil {
		return nil, err
	}
	h := &PathHost{
		Held: map[ib.GID]wire.PathRecord{}, c: c, ep: ep, rmpp: mad.NewRMPP(mad.RMPPConfig{}), timed: mad.Never,
		gid: ib.MakeGID(ib.DefaultSubnetPrefix, ep.PortGUID()), pending: map[uint32]*question{},
	}
	ep.OnPacket = h.receive
	ep.Accepts = func(p *mad.Packet) bool { // requests are for a manager on the same port
		return ib.Class(p.Data[1]) == ib.ClassSA && ib.Method(p.Data[3]) == ib.MethodReport
	}
	return h, nil
}

func (h *PathHost) receive(p *mad.Packet) {
	if h.Lose != nil && h.Lose() {
		return
	}
	whole, kind := h.rmpp.Receive(h.c.Sim.Now(), p, h.raw, noDone)
	h.arm()
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
		h.answered(binary.BigEndian.Uint32(p.Data[12:]), p.Data)
	case method == ib.MethodReport && !h.Deaf:
		q := *p
		q.LocalQP = 1
		q.Data = append([]byte(nil), p.Data...)
		h.report(&q)
		if q.Data[3] |= byte(ib.MethodResponseBit); h.Lose == nil || !h.Lose() {
			h.ep.Send(&q)
		}
	}
}

func (h *PathHost) raw(p *mad.Packet) { h.ep.Send(p) }

func (h *PathHost) arm() {
	t := h.rmpp.NextTimer()
	if t == mad.Never || h.timed <= t {
		return
	}
	h.timed = t
	h.c.Sim.At(t, func() {
		if h.timed != t {
			return
		}
		h.timed = mad.Never
		h.rmpp.Expire(h.c.Sim.Now(), h.raw, noDone)
		h.arm()
	})
}

// GID is that of the host's port.
func (h *PathHost) GID() ib.GID { return h.gid }

// Subscribe subscribes to traps 68 and 69.
func (h *PathHost) Subscribe() {
	for _, n := range []uint16{smp.TrapRePath, smp.TrapUnPath} {
		var m ib.MAD
		wire.New(&m, ib.MethodSet, wire.AttrInformInfo, 0, 0)
		(&wire.InformInfo{
			LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: n, Producer: wire.InformAllProducers,
		}).Put(wire.Data(&m))
		h.ask(&m, func([]byte) {})
	}
}

// AskAll asks for all paths.
func (h *PathHost) AskAll() {
	for _, d := range h.Peers {
		h.askPath(d)
	}
}

func (h *PathHost) askPath(dst ib.GID) {
	m := pathQuery(h.gid, dst)
	h.ask(&m, func(b []byte) {
		var p wire.PathRecord
		if delete(h.Held, dst); binary.BigEndian.Uint16(b[4:]) == 0 && p.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.PathRecordLen]) == nil {
			h.Held[dst] = p
		}
	})
}

func pathQuery(src, dst ib.GID) (m ib.MAD) {
	wire.New(&m, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompSGID|wire.PathCompDGID)
	(&wire.PathRecord{SGID: src, DGID: dst}).Put(wire.Data(&m))
	return m
}

// ask sends a request until it is answered.
func (h *PathHost) ask(m *ib.MAD, done func(b []byte)) {
	h.tid++
	m.SetTID(uint64(h.tid))
	q := &question{*m, done}
	h.pending[h.tid] = q
	h.try(h.tid, q)
}

func (h *PathHost) try(tid uint32, q *question) {
	if h.pending[tid] != q {
		return
	}
	pi := h.ep.PortInfo()
	h.Asked++
	h.Bytes += ib.MADLen
	h.ep.Send(&mad.Packet{Addr: mad.Addr{LID: pi.MasterSMLID, SL: pi.MasterSMSL, QP: 1}, LocalQP: 1, Data: append([]byte(nil), q.m[:]...)})
	h.c.Sim.At(h.c.Sim.Now().Add(askAgain), func() { h.try(tid, q) })
}

// answered takes an answer.
func (h *PathHost) answered(tid uint32, b []byte) {
	q := h.pending[tid]
	if q == nil {
		return
	}
	if ib.Status(binary.BigEndian.Uint16(b[4:])) == ib.StatusBusy {
		return // it is asked again
	}
	delete(h.pending, tid)
	const each = wire.DataLen
	h.Bytes += ib.MADLen * max((len(b)-wire.HeaderLen+each-1)/each, 1)
	q.done(b)
}

// report takes a Report.
func (h *PathHost) report(p *mad.Packet) {
	h.Heard++
	h.Bytes += 2 * ib.MADLen // with its response
	data := p.Data[wire.DataOffset:]
	var n wire.Notice
	var x wire.PathNotice
	if n.Decode(data[:wire.NoticeLen]) != nil || x.Decode(data[wire.NoticeLen:]) != nil {
		return
	}
	var d smp.DetailPath
	d.Get(&n.DataDetails)
	mask := wire.CompMask(d.ComponentMask)
	one := mask.Any(wire.PathCompDLID | wire.PathCompDGID)
	switch {
	case !h.Aware && !one:
		h.AskAll()
	case h.Aware && (!one || h.Gen < x.Before || h.Gen>>32 != x.Generation>>32):
		h.CatchUp()
	default:
		h.apply(mask, &x.Path, n.TrapNumber == smp.TrapUnPath)
		if !x.More {
			h.Gen = max(h.Gen, x.Generation)
		}
	}
}

// apply is what one changed path does to what the host holds.
func (h *PathHost) apply(mask wire.CompMask, p *wire.PathRecord, lost bool) {
	for _, dst := range h.Peers {
		had, has := h.Held[dst]
		switch {
		case mask.Has(wire.PathCompDGID) && dst != p.DGID, !mask.Has(wire.PathCompDGID) && has && had.DLID != p.DLID:
		case lost:
			delete(h.Held, dst)
		case p.MTU == 0 || dst != p.DGID || has && had.PKey != p.PKey:
			h.askPath(dst)
		default:
			h.Held[dst] = *p
		}
	}
}

// CatchUp asks for what changed since the host's generation.
func (h *PathHost) CatchUp() {
	var m ib.MAD
	wire.New(&m, ib.MethodGetTable, wire.AttrPathChangeRecord, 0, wire.PathChangeCompGeneration)
	(&wire.PathChangeRecord{Generation: h.Gen}).Put(wire.Data(&m))
	h.ask(&m, func(b []byte) {
		if binary.BigEndian.Uint16(b[4:]) != 0 {
			return
		}
		for b = b[wire.HeaderLen:]; len(b) >= wire.PathChangeRecordLen; b = b[wire.PathChangeRecordLen:] {
			var x wire.PathChangeRecord
			if x.Decode(b[:wire.PathChangeRecordLen]) != nil {
				return
			}
			mask := wire.PathCompSGID | wire.PathCompDLID
			if !x.Path.DGID.IsZero() {
				mask |= wire.PathCompDGID
			}
			switch {
			case !x.Head:
				h.apply(mask, &x.Path, x.Lost)
			default:
				if h.Gen = x.Generation; x.All {
					h.AskAll()
				}
			}
		}
	})
}

// Wrong says which held path differs from the manager's answer; "": none.
func (h *PathHost) Wrong(m *Manager) string {
	for _, d := range h.Peers {
		port := m.Snap.PortByGID(h.gid)
		if port < 0 {
			return ""
		}
		var p wire.PathRecord
		q := pathQuery(h.gid, d)
		src := *m.sa.source()
		src.Held = nil // nobody asks
		b, _ := sa.Answer(&src, &sa.Request{From: mad.Addr{LID: m.Snap.Ports[port].LID, QP: 1}, Data: q[:]}, nil)
		ok := len(b) >= ib.MADLen && binary.BigEndian.Uint16(b[4:]) == 0 && p.Decode(b[wire.HeaderLen:wire.HeaderLen+wire.PathRecordLen]) == nil
		if held, has := h.Held[d]; has != ok || has && held != p {
			return fmt.Sprintf("from %v to %v: has %v %+v, the SA has %v %+v", h.gid, d, has, held, ok, p)
		}
	}
	return ""
}
