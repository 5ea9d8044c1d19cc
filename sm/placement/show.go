package placement

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/guid"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/subnet"
)

// What snapshots show of an address on its way. From the moment at which a placement is set at
// another place until it is placed or refused, its GUID is nowhere for a while: the old function
// has given it up, and the new one has not taken it. Snapshots do not show that, or path queries
// would fail and subscribers would receive a trap for a GID that is gone. Instead, the last
// published entry of the GUID stays as it was. All others are brought up to date.
//
// A placement that is not in a batch, as its destination is not up, is shown like this for
// holdLimit at most; then it is shown as functions show it. A batch has limits of its own
// (stepLimit for functions, drain times for LIDs), so its placements are shown like this until it
// ends. If the hypervisor takes a VM down before its placement changes, the GID is gone and
// nothing is held.

// holdLimit is how long the entry of a placement stays that is not in a batch. That is longer than
// a hypervisor takes to bring a function up, and shorter than the time after which connections
// break.
const holdLimit = 10 * time.Second

// heldEntry is the last published entry of a placement's GUID.
type heldEntry struct {
	l     *placement
	at    subnet.Place
	port  subnet.Port     // as published; of an alias GUID, that of the port itself
	shows *subnet.Virtual // of port, or of the function that the LID leads to now
	until mad.Time
	// aims are the targets of batches since: the LID may lead there, though the placement has
	// another target by now.
	aims []subnet.Place
}

// holdEntry has snapshots go on showing the entry of a placement as the last one did, also if a sweep
// under way is reading everything anew: nothing of the entry depends on indices of the last snapshot.
// back: it was to be elsewhere until now, so the function that has it may have been asked to give it
// up, also if it is to have it after all.
func (m *Machine) holdEntry(l *placement, back bool) {
	s := m.Snapshot
	until := m.Now.Add(holdLimit)
	if h := l.entry; h != nil {
		h.until = until
		return
	}
	if s == nil || m.State != subnet.Master {
		return
	}
	i := s.PortByGUID(l.GUID)
	if i < 0 {
		return
	}
	p := s.Ports[i]
	at := subnet.Place{Port: s.Ports[s.Physical(i)].GUID}
	if p.Virtual != nil {
		at.Function = p.Virtual.Index
	} else if k := slices.Index(p.Aliases, l.GUID); k > 0 {
		at.Function = uint16(k)
	}
	if at.Function == 0 || at == l.target() && !back || m.entries[at] != nil {
		return
	}
	l.entry = &heldEntry{l: l, at: at, port: *p, shows: p.Virtual, until: until}
	m.entries[at] = l.entry
	m.entryList = append(m.entryList, l.entry)
	m.entryEnd = min(m.entryEnd, until)
}

// aimEntry notes that a batch brings a placement to its aim.
func (m *Machine) aimEntry(l *placement) {
	if h := l.entry; h != nil && m.aimed[l.aim] == nil {
		h.aims = append(h.aims, l.aim)
		m.aimed[l.aim] = h
	}
}

// freeEntry has snapshots show a placement where it is.
func (m *Machine) freeEntry(l *placement) {
	h := l.entry
	if h == nil {
		return
	}
	l.entry = nil
	delete(m.entries, h.at)
	m.entryList = slices.DeleteFunc(m.entryList, func(o *heldEntry) bool { return o == h })
	m.showPlace(h.at)
	m.showPlace(l.target())
	m.showPlace(l.held)
	for _, p := range h.aims {
		delete(m.aimed, p)
		m.showPlace(p)
	}
	m.showDue = true
}

// endEntries frees the entries whose time is over.
func (m *Machine) endEntries() {
	if m.entryEnd > m.Now {
		return
	}
	m.entryEnd = mad.Never
	for _, h := range slices.Clone(m.entryList) {
		switch {
		case h.until > m.Now:
		case m.Midway() && slices.Contains(m.batch, h.l):
			h.until = m.Now.Add(time.Second)
		default:
			m.freeEntry(h.l)
			continue
		}
		m.entryEnd = min(m.entryEnd, h.until)
	}
	if m.showDue && !m.Midway() {
		m.showDue = false
		m.snapshots.ShowNow()
	}
}

// dropEntries forgets all held entries; a new mastership begins.
func (m *Machine) dropEntries() {
	for _, h := range m.entryList {
		h.l.entry = nil
	}
	clear(m.entries)
	clear(m.aimed)
	m.entryList, m.entryEnd, m.showDue = nil, mad.Never, false
}

// showPlace has the entry of a place brought up to date in the next snapshot.
func (m *Machine) showPlace(p subnet.Place) {
	if a, v := m.function(p); v != nil {
		m.functions.Show(a.Ref(p.Function))
	} else {
		m.tables.Show(p.Port)
	}
}

// ShowEntries has all held entries brought up to date in the next snapshot: LIDs lead elsewhere.
func (m *Machine) ShowEntries() {
	for _, h := range m.entryList {
		m.showPlace(h.at)
		m.showPlace(h.l.target())
		for _, p := range h.aims {
			m.showPlace(p)
		}
	}
}

// Entry is the entry that a snapshot goes on showing for a VPort whose address is on its way, behind
// the port with an index in s.Ports; false: the VPort is shown as it is.
func (m *Machine) Entry(s *subnet.Snapshot, r vport.Ref, port int32) (subnet.Port, bool) {
	if h := m.entryAt(s, r, port); h != nil {
		return h.as(s, r, port), true
	}
	return subnet.Port{}, false
}

// entryAt is the held entry to show for a VPort in s, nil if the VPort is shown as it is; port is
// the index of its physical port. An entry with a LID of its own is shown where the graph has the
// LID. If a sweep or a batch routed it to its new place already, it is shown there.
func (m *Machine) entryAt(s *subnet.Snapshot, r vport.Ref, port int32) *heldEntry {
	if len(m.entryList) == 0 {
		return nil
	}
	p := r.Place()
	end := s.Ports[port].EndPort
	leads := func(h *heldEntry) bool {
		v := h.port.Virtual
		return v != nil && end >= 0 && (!v.OwnLID || vport.LeadsTo(s, h.port.LID, end))
	}
	runs := func(h *heldEntry) bool { // another VM is there already
		v := r.VPort()
		g := v.Info().PortGUID
		return v.State() >= ib.StateActive && g != 0 && g != h.l.GUID && !m.ShownElsewhere(g, p)
	}
	if h := m.entries[p]; h != nil && leads(h) {
		if runs(h) {
			return nil
		}
		return h
	}
	follows := func(h *heldEntry) bool { // with its LID
		return h != nil && h.at.Port != p.Port && leads(h) && h.port.Virtual.OwnLID
	}
	if l := m.wants[p]; l != nil && follows(l.entry) {
		return l.entry
	}
	if h := m.aimed[p]; follows(h) && h.l.target().Port != p.Port && !runs(h) {
		return h
	}
	return nil
}

// ShownElsewhere reports whether snapshots show a GUID at another place than p.
func (m *Machine) ShownElsewhere(g ib.GUID, p subnet.Place) bool {
	if len(m.entryList) == 0 {
		return false
	}
	l := m.byGUID[g]
	return l != nil && l.entry != nil && l.entry.at != p
}

// heldElsewhere reports whether another place than p has a placement's GUID: a port that comes back
// may have in its table what went elsewhere meanwhile.
func (m *Machine) heldElsewhere(g ib.GUID, p subnet.Place) bool {
	l := m.byGUID[g]
	return l != nil && l.held != (subnet.Place{}) && l.held != p
}

// as is the entry as it is shown behind the port with an index in s.Ports.
func (h *heldEntry) as(s *subnet.Snapshot, r vport.Ref, port int32) subnet.Port {
	q, p := h.port, s.Ports[port]
	q.Node, q.Num, q.Peer, q.EndPort, q.MTU, q.Rate = p.Node, p.Num, p.Peer, p.EndPort, p.MTU, p.Rate
	if v := h.shows; v.Port != port || v.Index != r.Index {
		n := *v
		n.Port, n.Index = port, r.Index
		h.shows = &n
	}
	q.Virtual = h.shows
	return q
}

// AliasesShown are the alias GUIDs that snapshots show of a port.
func (m *Machine) AliasesShown(port ib.GUID) []ib.GUID {
	list, own := m.tables.Shown(port), false
	for i, g := range list {
		p := subnet.Place{Port: port, Function: uint16(i)}
		if g == 0 || !m.heldElsewhere(g, p) && !m.ShownElsewhere(g, p) {
			continue
		}
		if !own {
			list, own = slices.Clone(list), true
		}
		list[i] = 0
	}
	if len(m.entryList) == 0 && !own {
		return list
	}
	if !own {
		list = slices.Clone(list)
	}
	for _, h := range m.entryList {
		if h.at.Port != port || h.port.Virtual != nil {
			continue
		}
		i := int(h.at.Function)
		for g := guid.At(list, i); g != 0 && g != h.l.GUID; g = guid.At(list, i) {
			i++ // another VM has that entry now
		}
		list = guid.Put(list, i, h.l.GUID)
	}
	if list = guid.Trim(list); len(list) == 0 {
		return nil
	}
	return list
}

// AliasesOf are the alias GUIDs that a snapshot shows of a port.
func (m *Machine) AliasesOf(p *topo.Port) []ib.GUID {
	if !p.Has(topo.PortEnd) || !m.tables.Has(p.GUID) {
		return nil
	}
	return m.AliasesShown(p.GUID)
}

// AliasesArriving adds to the alias GUIDs of port i those of placements whose old VPort has given
// them up and whose own LID leads to the port already. Until the port has acknowledged such a
// GUID, it would be shown nowhere.
func (m *Machine) AliasesArriving(s *subnet.Snapshot, i int32, list []ib.GUID) []ib.GUID {
	for _, h := range m.entryList {
		to, v := h.l.target(), h.port.Virtual
		if v == nil || !v.OwnLID || to.Port != s.Ports[i].GUID || slices.Contains(list, h.l.GUID) ||
			!vport.LeadsTo(s, h.port.LID, s.Ports[i].EndPort) {
			continue
		}
		if _, f := m.function(to); f != nil || h.at.Port == to.Port {
			continue // a VPort, which has an entry of its own
		}
		k := int(to.Function)
		for guid.At(list, k) != 0 {
			k++
		}
		list = guid.Put(slices.Clone(list), k, h.l.GUID)
	}
	return list
}
