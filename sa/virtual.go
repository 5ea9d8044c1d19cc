package sa

import (
	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// Virtual ports (docs/sa.md). To who asks for one by GID or by its own LID it is an
// end port like any other. A LID that several share is that of its default port, so
// a VPort that is not the default is told from others by the GRH alone, in both
// directions.

// DefaultVirtHopLimit is Options.VirtHopLimit where it is 0: as NVIDIA's OpenSM has
// it (virt_default_hop_limit).
const DefaultVirtHopLimit = 2

// requester is the port that a request came from, an index in Ports, -1 if it is
// nobody's: the one with the SGID of its GRH, or the default one of its LID. An
// SGID that is not an address at that LID is nobody's, for it is how partitions
// are told apart; one that nobody has is the port's itself (an alias that its
// hypervisor uses on its own) unless that tells its virtual ports apart.
func requester(s *subnet.Snapshot, from *mad.Addr) int32 {
	at := s.PortByLID(from.LID)
	if !from.HasGRH || at < 0 {
		return at
	}
	i := s.PortByGID(from.GRH.GID)
	switch {
	case i == at:
	case i >= 0 && (ownsLID(&s.Ports[i], from.LID) || s.NeedsGRH(i) && s.PortByLID(s.Ports[i].LID) == at):
		return i // it shares the LID, of whose LMC range it may use any as its source
	case i >= 0:
		return -1
	case s.Ports[at].Virtual != nil:
		return -1
	case s.Ports[at].Adapter != nil && s.Ports[at].Adapter.Model != subnet.SharedPort:
		return -1
	}
	return at
}

// hopLimit is that of a path within the subnet: above 1 where its packets must
// have a GRH, and 0 elsewhere.
func (q *query) hopLimit(src, dst int32) uint8 {
	if !q.s.NeedsGRH(src) && !q.s.NeedsGRH(dst) {
		return 0
	}
	if q.opt.VirtHopLimit != 0 {
		return q.opt.VirtHopLimit
	}
	return DefaultVirtHopLimit
}

// allowedSLs are the service levels that a port may use, bit n for SL n.
func allowedSLs(p *subnet.Port) uint16 {
	if p.Virtual == nil || p.Virtual.Info.SLMask == 0 {
		return 0xFFFF
	}
	return p.Virtual.Info.SLMask
}

// virtualSL is pathSL where an end is a VPort: what both ends may use of it. An SL
// that is prescribed, or was asked for, is it or none; else it is the lowest.
func (q *query) virtualSL(w *way, sl ib.SL, fixed bool, dlid ib.LID) (ib.SL, bool) {
	allowed := allowedSLs(&q.s.Ports[w.src.port]) & allowedSLs(&q.s.Ports[w.dst.port])
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
