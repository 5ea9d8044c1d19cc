package subnet

import (
	"cmp"
	"iter"
	"slices"

	"heddle/ib"
	"heddle/internal/pages"
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
	p := s.Ports[i]
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
	s.guidPort = old.guidPort.Replaced(gone.guids, l.guids, byGUID)
	s.lidPort = old.lidPort.replaced(gone.lidsOf, l.lidsOf)
	s.delta = delta{old.guidPort, gone.guids, l.guids}
}

// delta is the difference between guidPort and that of the snapshot from which
// this one was derived; from is that snapshot's. Both lists are ordered.
type delta struct {
	from       pages.List[guidRef]
	gone, came []guidRef
}

// lidTable has the index in Ports by LID, -1 where no port has a LID. It is immutable; tables that
// derive from one another share the pages that are the same.
type lidTable struct {
	pages []*lidPage
	n     int32 // LIDs: those from n on have no port
}

// lidPage is a part of a lidTable.
type lidPage [512]int32

// at is the index of the port that has a LID, or -1.
func (t *lidTable) at(l ib.LID) int32 {
	if int32(l) >= t.n {
		return -1
	}
	return t.pages[int(l)/len(lidPage{})][int(l)%len(lidPage{})]
}

// replaced returns the table without gone, which is part of it, and with added. Without
// changes it shares all.
func (t *lidTable) replaced(gone, added []lidRef) lidTable {
	if slices.Equal(gone, added) {
		return *t
	}
	u := lidTable{pages: slices.Clone(t.pages), n: t.n}
	own := make([]bool, len(u.pages))
	set := func(l, port int32) {
		k := int(l) / len(lidPage{})
		for k >= len(u.pages) {
			u.pages, own = append(u.pages, newLIDPage()), append(own, true)
		}
		if !own[k] {
			p := *u.pages[k]
			u.pages[k], own[k] = &p, true
		}
		u.pages[k][int(l)%len(lidPage{})] = port
	}
	for _, r := range gone {
		for l := r.lid; l < r.lid+1<<r.lmc; l++ {
			if u.at(ib.LID(l)) == r.port {
				set(l, -1)
			}
		}
	}
	for _, r := range added {
		u.n = max(u.n, r.lid+1<<r.lmc)
		for l := r.lid; l < r.lid+1<<r.lmc; l++ {
			set(l, r.port)
		}
	}
	for u.n > 0 && u.at(ib.LID(u.n-1)) < 0 {
		u.n--
	}
	return u
}

// equal reports whether two tables have the same ports for all LIDs.
func (t *lidTable) equal(u *lidTable) bool {
	for l := range t.n {
		if t.at(ib.LID(l)) != u.at(ib.LID(l)) {
			return false
		}
	}
	return t.n == u.n
}

func newLIDPage() *lidPage {
	p := new(lidPage)
	for i := range p {
		p[i] = -1
	}
	return p
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
		if sameAddresses(s.Ports[i], old.Ports[i]) {
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
	case SamePorts(s, old):
	case len(vports) > 0:
		for _, i := range vports {
			if int(i) < len(old.Ports) {
				differs(i)
			} else {
				came.add(s, i, 1)
			}
		}
	case slices.EqualFunc(have, had, samePlace):
		for i := s.vfirst; int(i) < len(s.Ports); i++ {
			differs(i)
		}
	default: // their indices are others
		s.vsorted = s.inOrder()
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

// inOrder is the index in Ports of the first virtual port that does not follow the one before it.
func (s *Snapshot) inOrder() int32 {
	i := s.vfirst
	for n := int32(len(s.Ports)); i < n && (i == s.vfirst || comparePlace(s.Ports[i-1].Virtual, s.Ports[i].Virtual) < 0); {
		i++
	}
	return i
}

func samePlace(p, q *Port) bool { return comparePlace(p.Virtual, q.Virtual) == 0 }

func comparePlace(a, b *Virtual) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Index, b.Index))
}

// VPorts are the entries of virtual ports, which follow those of nodes.
func (s *Snapshot) VPorts() []*Port { return s.Ports[min(int(s.vfirst), len(s.Ports)):] }

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

// VPortsOf lists the indices in Ports of the virtual ports of a physical port, an index in Ports.
func (s *Snapshot) VPortsOf(port int32) iter.Seq[int32] {
	return func(yield func(i int32) bool) {
		list := s.Ports[s.vfirst:s.vsorted]
		k, _ := slices.BinarySearchFunc(list, port, func(p *Port, port int32) int { return cmp.Compare(p.Virtual.Port, port) })
		for ; k < len(list) && list[k].Virtual.Port == port; k++ {
			if !yield(s.vfirst + int32(k)) {
				return
			}
		}
		for i := s.vsorted; int(i) < len(s.Ports); i++ {
			if s.Ports[i].Virtual.Port == port && !yield(i) {
				return
			}
		}
	}
}

// EachVPort lists the indices in Ports of all virtual ports.
func (s *Snapshot) EachVPort() iter.Seq[int32] {
	return func(yield func(i int32) bool) {
		for i := s.vfirst; int(i) < len(s.Ports) && yield(i); i++ {
		}
	}
}

// VPort returns the index in Ports of a virtual port, -1 if it has no entry.
func (s *Snapshot) VPort(port int32, index uint16) int32 {
	for i := range s.VPortsOf(port) {
		if s.Ports[i].Virtual.Index == index {
			return i
		}
	}
	return -1
}

// MaxUnsorted is how many entries of virtual ports may be behind those in order before all are to
// be put in order again.
const MaxUnsorted = 128

// AddVPort appends the entry of a virtual port that has none yet to a snapshot that is being made
// from old, and returns its index. It returns -1 if there are too many that are not in order.
func (s *Snapshot) AddVPort(old *Snapshot, p *Port) int32 {
	i := int32(len(s.Ports))
	if i-s.vsorted >= MaxUnsorted {
		return -1
	}
	s.ownPorts(old)
	s.Ports = append(s.Ports, p)
	return i
}

// Edit returns the entry of a port for change in a snapshot that is being made from old, which keeps
// its own.
func (s *Snapshot) Edit(old *Snapshot, i int32) *Port {
	s.ownPorts(old)
	if int(i) < len(old.Ports) && s.Ports[i] == old.Ports[i] {
		p := *s.Ports[i]
		s.Ports[i] = &p
	}
	return s.Ports[i]
}

// SamePorts reports whether two snapshots share their ports, which they do if none of them changed.
func SamePorts(a, b *Snapshot) bool {
	return len(a.Ports) == len(b.Ports) && (len(a.Ports) == 0 || &a.Ports[0] == &b.Ports[0])
}

// SameNodes reports whether two snapshots share their nodes, which they do if none of them changed.
func SameNodes(a, b *Snapshot) bool {
	return len(a.Nodes) == len(b.Nodes) && (len(a.Nodes) == 0 || &a.Nodes[0] == &b.Nodes[0])
}

// ownPorts gives a snapshot that is being made from old a list of ports of its own.
func (s *Snapshot) ownPorts(old *Snapshot) {
	if SamePorts(s, old) {
		s.Ports = slices.Clone(old.Ports)
	}
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
