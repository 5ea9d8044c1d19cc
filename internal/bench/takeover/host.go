package takeover

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/mad"
	"heddle/sim"
)

// What a host asks, in its transaction IDs.
const (
	askedJoin = 1 + iota
	askedPath
	askedChange
	askedService
)

// verdict is an answer of the SA.
type verdict uint8

const (
	none verdict = iota
	yes
	no
)

// sceneHost is a host with a port at the fabric.
type sceneHost struct {
	s    *scene
	ep   *sim.Endpoint
	node int
	gid  ib.GID
	in   [sceneJoins]sceneJoin
	tid  uint64
	off  bool

	told  ib.LID  // of the manager that it was told of last
	query verdict // of the SA about a service
}

// sceneJoin is the membership of a host in a group.
type sceneJoin struct {
	mgid  ib.GID
	asked uint64 // the transaction of the join under way; 0: none
	by    ib.LID // of the manager that answered last
}

// send asks the SA of the manager that the port names.
func (h *sceneHost) send(what uint64, m *ib.MAD) uint64 {
	to := h.ep.PortInfo().MasterSMLID
	if !to.IsUnicast() || h.off {
		return 0
	}
	h.tid++
	tid := h.tid<<8 | what
	m.SetTID(tid)
	h.ep.Send(&mad.Packet{Addr: mad.Addr{LID: to, QP: 1}, LocalQP: 1, Data: m[:]})
	return tid
}

// reregister is what a host does that is asked to register again.
func (h *sceneHost) reregister(net *sim.Subnet) {
	sm := h.ep.PortInfo().MasterSMLID
	if sm == h.s.want && h.told != sm {
		h.s.told++
		h.s.toldAt = net.Now()
	}
	h.told = sm
	for k := range h.in {
		h.join(net, &h.in[k])
	}
	if h == h.s.registrar() {
		h.s.changeDue = net.Now()
	}
}

func (h *sceneHost) join(net *sim.Subnet, j *sceneJoin) {
	var m ib.MAD
	sa.New(&m, ib.MethodSet, sa.AttrMCMemberRecord, 0, sa.MCMemberCompMGID|sa.MCMemberCompPortGID|sa.MCMemberCompJoinState|
		sa.MCMemberCompQKey|sa.MCMemberCompTClass|sa.MCMemberCompPKey|sa.MCMemberCompSL|sa.MCMemberCompFlowLabel)
	r := sa.MCMemberRecord{MGID: j.mgid, PortGID: h.gid, QKey: 0x0B1B, PKey: ib.PKeyDefaultFull, JoinState: 1}
	r.Put(sa.Data(&m))
	tid := h.send(askedJoin, &m)
	j.asked = tid
	net.After(sceneAgain, func() {
		if j.asked == tid && !h.off {
			h.join(net, j)
		}
	})
}

func (h *sceneHost) receive(net *sim.Subnet, p *mad.Packet) {
	s := h.s
	m := (*ib.MAD)(p.Data[:ib.MADLen])
	if !m.Method().IsResponse() {
		return
	}
	tid := m.TID() & (1<<48 - 1)
	ok := m.Status() == ib.StatusOK
	switch tid & transactions {
	case askedJoin:
		k := slices.IndexFunc(h.in[:], func(j sceneJoin) bool { return j.asked == tid })
		if !ok || k < 0 {
			return // it asks again
		}
		j := &h.in[k]
		j.asked = 0
		if p.Addr.LID == s.want && j.by != s.want && h.told == s.want {
			s.answered++
			s.answeredAt = net.Now()
		}
		j.by = p.Addr.LID
		var r sa.MCMemberRecord
		if r.Decode(sa.Data(m)) == nil {
			if old, had := s.mlids[j.mgid]; had && old != r.MLID {
				s.moved[j.mgid] = true
			}
			s.mlids[j.mgid] = r.MLID
		}
	case askedPath:
		if _, asked := s.open[tid]; !ok || !asked {
			return
		}
		delete(s.open, tid)
		s.silent, s.last = max(s.silent, net.Now().Sub(s.last)), net.Now()
		switch {
		case p.Addr.LID != s.want:
			s.passedOn++
		case s.first == 0:
			s.first = net.Now()
		}
	case askedChange:
		if !ok {
			return
		}
		if p.Addr.LID == s.want && s.begun > 0 && s.changedAt == 0 {
			s.changedAt = net.Now()
		}
		s.changeDue = net.Now().Add(changeEvery)
	case askedService:
		h.query = no
		if ok {
			h.query = yes
		}
	}
}

// register changes a service of this host.
func (h *sceneHost) register(version uint64) {
	r := sa.ServiceRecord{ServiceID: 1, ServiceGID: h.gid, ServicePKey: ib.PKeyDefaultFull, ServiceLease: 0xFFFF_FFFF}
	r.Data64[0] = version
	h.serve(&r, askedChange)
}

func (h *sceneHost) serve(r *sa.ServiceRecord, what uint64) {
	copy(r.ServiceName[:], fmt.Sprint("service ", r.ServiceID))
	var m ib.MAD
	sa.New(&m, ib.MethodSet, sa.AttrServiceRecord, 0, sa.ServiceCompServiceID|sa.ServiceCompServiceGID|sa.ServiceCompServicePKey|
		sa.ServiceCompServiceLease|sa.ServiceCompServiceName|sa.ServiceCompData64_0)
	r.Put(sa.Data(&m))
	h.send(what, &m)
}
