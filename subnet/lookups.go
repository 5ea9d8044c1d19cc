package subnet

import (
	"cmp"
	"slices"
)

// lookups are addresses of end ports to add to the lookups of a Snapshot, or to
// remove from them.
type lookups struct {
	guids  []guidRef
	lidsOf []lidRef

	ends, vports, lids int // changes of the snapshot's counts
}

// lidRef is a port's range of LIDs, 2^lmc from lid on.
type lidRef struct {
	lid  int32
	lmc  uint8
	port int32
}

// add adds the lookup keys of the port with index i in Ports. An unreachable end
// port has none; a virtual port has none for a LID that it shares.
func (l *lookups) add(s *Snapshot, i int32, sign int) {
	p := &s.Ports[i]
	if p.EndPort < 0 {
		return
	}
	l.guids = append(l.guids, guidRef{p.GUID, i, false})
	for _, a := range p.Aliases {
		if a != 0 {
			l.guids = append(l.guids, guidRef{a, i, true})
		}
	}
	if p.Virtual != nil {
		l.vports += sign
	} else {
		l.ends += sign
	}
	if p.LID != 0 && (p.Virtual == nil || p.Virtual.OwnLID) {
		l.lids += sign << p.LMC
		l.lidsOf = append(l.lidsOf, lidRef{int32(p.LID), p.LMC, i})
	}
}

// replace sets the lookups of s to those of old, without gone and with l. old may
// be nil.
func (l *lookups) replace(s, old *Snapshot, gone *lookups) {
	if old == nil {
		old, gone = &Snapshot{}, &lookups{}
	}
	slices.SortFunc(l.guids, byGUID)
	slices.SortFunc(gone.guids, byGUID)
	s.guidPort = replaceGUIDs(old.guidPort, gone.guids, l.guids)
	s.lidPort = replaceLIDs(old.lidPort, gone.lidsOf, l.lidsOf)
	s.delta = delta{}
	if len(old.guidPort) > 0 {
		s.delta = delta{&old.guidPort[0], gone.guids, l.guids}
	}
}

// delta is the difference between guidPort and that of the snapshot from which
// this one was derived; from is that snapshot's first entry. Both lists are
// ordered.
type delta struct {
	from       *guidRef
	gone, came []guidRef
}

// replaceGUIDs returns list without gone, which is part of it, and with added; all
// are ordered. Without changes it returns list itself. If only an attribute such as a
// LID changed, it returns a copy, so that comparisons notice.
func replaceGUIDs(list, gone, added []guidRef) []guidRef {
	if len(gone)+len(added) == 0 && list != nil {
		return list
	}
	out := make([]guidRef, 0, len(list)-len(gone)+len(added))
	for len(gone) > 0 || len(added) > 0 {
		if len(added) == 0 || len(gone) > 0 && byGUID(gone[0], added[0]) <= 0 {
			n, _ := slices.BinarySearchFunc(list, gone[0], byGUID)
			out = append(out, list[:n]...)
			list, gone = list[n+1:], gone[1:]
			continue
		}
		n, _ := slices.BinarySearchFunc(list, added[0], byGUID)
		out = append(append(out, list[:n]...), added[0])
		list, added = list[n:], added[1:]
	}
	return append(out, list...)
}

// replaceLIDs is the same for a table by LID, which ends with the highest that a
// port has.
func replaceLIDs(table []int32, gone, added []lidRef) []int32 {
	if slices.Equal(gone, added) && table != nil {
		return table
	}
	top := len(table)
	for _, r := range added {
		top = max(top, int(r.lid)+1<<r.lmc)
	}
	out := make([]int32, max(top, 1))
	for i := copy(out, table); i < len(out); i++ {
		out[i] = -1
	}
	for _, r := range gone {
		for l := r.lid; l < r.lid+1<<r.lmc; l++ {
			if out[l] == r.port {
				out[l] = -1
			}
		}
	}
	for _, r := range added {
		for l := r.lid; l < r.lid+1<<r.lmc; l++ {
			out[l] = r.port
		}
	}
	for len(out) > 1 && out[len(out)-1] < 0 {
		out = out[:len(out)-1]
	}
	return out
}

// sameAddresses reports whether two entries are found by the same.
func sameAddresses(p, q *Port) bool {
	return p.GUID == q.GUID && p.LID == q.LID && p.LMC == q.LMC && (p.EndPort < 0) == (q.EndPort < 0) &&
		(p.Virtual == q.Virtual || p.Virtual != nil && q.Virtual != nil && p.Virtual.OwnLID == q.Virtual.OwnLID) &&
		(len(p.Aliases) == 0 && len(q.Aliases) == 0 || len(p.Aliases) > 0 && len(q.Aliases) > 0 && &p.Aliases[0] == &q.Aliases[0] && len(p.Aliases) == len(q.Aliases) ||
			slices.Equal(p.Aliases, q.Aliases))
}

// relook brings the lookups, which s shares with old until then, up to date with
// the ports of some nodes and with virtual ports; see Carry.
func (s *Snapshot) relook(old *Snapshot, nodes, vports []int32) {
	var gone, came lookups
	differs := func(i int32) {
		if sameAddresses(&s.Ports[i], &old.Ports[i]) {
			return
		}
		gone.add(old, i, -1)
		came.add(s, i, 1)
	}
	for _, n := range nodes {
		nd := &s.Nodes[n]
		for i := nd.First; i <= nd.First+int32(nd.Info.NumPorts); i++ {
			differs(i)
		}
	}
	s.vfirst = old.vfirst
	switch have, had := s.VPorts(), old.VPorts(); {
	case len(have) == 0 && len(had) == 0:
	case len(have) == len(had) && &have[0] == &had[0]:
	case len(have) == len(had) && len(vports) > 0:
		for _, i := range vports {
			differs(i)
		}
	case slices.EqualFunc(have, had, samePlace):
		for i := s.vfirst; int(i) < len(s.Ports); i++ {
			differs(i)
		}
	default: // their indices are others
		for i := s.vfirst; int(i) < len(old.Ports); i++ {
			gone.add(old, i, -1)
		}
		for i := s.vfirst; int(i) < len(s.Ports); i++ {
			came.add(s, i, 1)
		}
	}
	came.replace(s, old, &gone)
	s.Counts.EndPorts += gone.ends + came.ends
	s.Counts.VPorts += gone.vports + came.vports
	s.Counts.LIDs += gone.lids + came.lids
}

func samePlace(p, q Port) bool { return comparePlace(p.Virtual, q.Virtual) == 0 }

func comparePlace(a, b *Virtual) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Index, b.Index))
}

// VPorts are the entries of virtual ports, which follow those of nodes.
func (s *Snapshot) VPorts() []Port { return s.Ports[min(int(s.vfirst), len(s.Ports)):] }

// FirstVPort is the index in Ports of the first virtual port, len(Ports) if there is
// none.
func (s *Snapshot) FirstVPort() int32 { return s.vfirst }

// Physical is the index in Ports of the physical port of the port with index i: i
// itself unless that is virtual.
func (s *Snapshot) Physical(i int32) int32 {
	if i >= s.vfirst {
		if v := s.Ports[i].Virtual; v != nil {
			return v.Port
		}
	}
	return i
}

// VPortsOf returns where the virtual ports of a physical port, an index in Ports,
// are in Ports: from up to, and without, to.
func (s *Snapshot) VPortsOf(port int32) (from, to int32) {
	list := s.VPorts()
	at := func(port int32) int32 {
		i, _ := slices.BinarySearchFunc(list, port, func(p Port, port int32) int { return cmp.Compare(p.Virtual.Port, port) })
		return s.vfirst + int32(i)
	}
	return at(port), at(port + 1)
}

// VPort returns the index in Ports of a virtual port, -1 if it has no entry.
func (s *Snapshot) VPort(port int32, index uint16) int32 {
	from, to := s.VPortsOf(port)
	i, ok := slices.BinarySearchFunc(s.Ports[from:to], index, func(p Port, index uint16) int { return cmp.Compare(p.Virtual.Index, index) })
	if !ok {
		return -1
	}
	return from + int32(i)
}

// NeedsGRH reports whether packets to and from a port, an index in Ports, need a
// GRH: those of a virtual port that shares the LID of another.
func (s *Snapshot) NeedsGRH(i int32) bool {
	if i < s.vfirst {
		return false
	}
	v := s.Ports[i].Virtual
	return v != nil && !v.OwnLID
}
