package lab

import (
	"encoding/binary"
	"fmt"
	"hash"

	"heddle/mad"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/vm"
)

// recording is a running hash of all that the managers of one cluster do: a refactoring must
// not change it. Each hash covers the virtual time as well, so equal recordings mean equal
// behavior, step by step.
type recording struct {
	packets, ops, told   int
	wire, store, notices hash.Hash64
	scratch              [8]byte
}

// observe, if set, is called with each new cluster and may give it a recording.
var observe func(*Cluster)

// stamp adds the time and the manager to a hash.
func (r *recording) stamp(h hash.Hash64, m *Manager) {
	binary.BigEndian.PutUint64(r.scratch[:], uint64(m.c.Sim.Now()))
	h.Write(r.scratch[:])
	h.Write([]byte(m.Node))
}

// sends adds a datagram that a manager sends: an SMP, or a GMP of its SA.
func (m *Manager) sends(p *mad.Packet) {
	if r := m.c.record; r != nil {
		r.packets++
		r.stamp(r.wire, m)
		a := &p.Addr // its fields in an order that stays when the struct changes
		fmt.Fprintf(r.wire, "{LID:%v QP:%v QKey:%v SL:%v PathBits:%v PKeyIndex:%v HasGRH:%v GRH:%+v}",
			a.LID, a.QP, a.QKey, a.SL, a.PathBits, a.PKeyIndex, a.HasGRH, a.GRH)
		r.wire.Write(p.Data)
	}
	m.ep.Send(p)
}

// persist stores the records of a core's output.
func (m *Manager) persist(ops []store.Op) error {
	if r := m.c.record; r != nil {
		r.ops += len(ops)
		r.stamp(r.store, m)
		fmt.Fprintf(r.store, "%+v", ops)
	}
	m.Commits++
	if m.OnStore != nil {
		m.OnStore(ops)
	}
	return m.Store.Apply(ops)
}

// tell records the notices of the subnet manager.
func (m *Manager) tell(list []sm.Notice) {
	m.Notices = append(m.Notices, list...)
	for i := range list {
		if list[i].Kind == sm.KindInternal {
			panic(list[i].String()) // no schedule, however odd, excuses a mistake of the manager
		}
	}
	if r := m.c.record; r != nil {
		for i := range list {
			m.told(r, list[i].String())
		}
	}
}

// tellSA records the notices of the SA.
func (m *Manager) tellSA(list []sa.Notice) {
	m.SANotices = append(m.SANotices, list...)
	if r := m.c.record; r != nil {
		for i := range list {
			m.told(r, list[i].Kind+list[i].Text)
		}
	}
}

// tellVM records the notices of the address manager.
func (m *Manager) tellVM(list []vm.Notice) {
	m.VMNotices = append(m.VMNotices, list...)
	if r := m.c.record; r != nil {
		for i := range list {
			m.told(r, list[i].Kind+list[i].Text)
		}
	}
}

func (m *Manager) told(r *recording, text string) {
	r.told++
	r.stamp(r.notices, m)
	r.notices.Write([]byte(text))
}
