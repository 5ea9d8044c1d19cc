package sa

import (
	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// Virtual ports (docs/sa.md). Queried by GID or by its own LID, a virtual port is
// an end port like any other. A shared LID belongs to its default port; only the
// GRH identifies the other VPorts, in both directions.

// DefaultVirtHopLimit applies if Options.VirtHopLimit is 0. NVIDIA's OpenSM has the
// same default (virt_default_hop_limit).
const DefaultVirtHopLimit = 2

// requester returns the index in Ports of the port that sent a request; -1:
// none. It is the port with the SGID of the GRH, or the default port of the
// source LID. An SGID known at another LID gives -1, because SGIDs separate
// partitions. An unknown SGID counts as the port's own (an alias that its
// hypervisor set by itself), unless GIDs distinguish the port's VPorts.
func requester(s *subnet.Snapshot, from *mad.Addr) int32 {
	at := s.PortByLID(from.LID)
	if !from.HasGRH || at < 0 {
		return at
	}
	i := s.PortByGID(from.GRH.GID)
	switch {
	case i == at:
	case i >= 0 && (ownsLID(s.Ports[i], from.LID) || s.NeedsGRH(i) && s.PortByLID(s.Ports[i].LID) == at):
		return i // it shares the LID and may use any of the LMC range as source
	case i >= 0:
		return -1
	case s.Ports[at].Virtual != nil:
		return -1
	case s.Ports[at].Adapter != nil && s.Ports[at].Adapter.Model != subnet.SharedPort:
		return -1
	}
	return at
}

// hopLimit is the HopLimit of a path within the subnet: above 1 if its packets
// need a GRH, otherwise 0.
func (q *query) hopLimit(src, dst int32) uint8 {
	if !q.s.NeedsGRH(src) && !q.s.NeedsGRH(dst) {
		return 0
	}
	if q.opt.VirtHopLimit != 0 {
		return q.opt.VirtHopLimit
	}
	return DefaultVirtHopLimit
}

// allowedSLs returns the service levels that a port may use, bit n for SL n.
func allowedSLs(p *subnet.Port) uint16 {
	if p.Virtual == nil || p.Virtual.Info.SLMask == 0 {
		return 0xFFFF
	}
	return p.Virtual.Info.SLMask
}

// virtualSL is pathSL if an end is a VPort: it returns a level that both ends may
// use. A prescribed or requested SL is the only candidate; otherwise the lowest is
// chosen.
func (q *query) virtualSL(w *way, sl ib.SL, fixed bool, dlid ib.LID) (ib.SL, bool) {
	allowed := allowedSLs(q.s.Ports[w.src.port]) & allowedSLs(q.s.Ports[w.dst.port])
	if allowed>>(sl&15)&1 != 0 {
		return sl, true
	}
	for sl = 0; sl < 16 && !fixed; sl++ {
		if allowed>>sl&1 != 0 && q.hasLane(w.src.port, dlid, sl) {
			return sl, true
		}
	}
	return 0, false
}

// mayUse reports whether a port may send with a service level.
func mayUse(p *subnet.Port, sl ib.SL) bool { return allowedSLs(p)>>(sl&15)&1 != 0 }
