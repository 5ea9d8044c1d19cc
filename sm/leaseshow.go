package sm

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

// What snapshots show of a lease on its way. From the moment at which a lease is set at
// another place until it is placed or refused, its GUID is nowhere for a while: the old
// function has given it up, the new one has not taken it. Nobody is to see that: who
// asks for a path would be told that there is none, and who subscribed to traps that the
// GID is gone. So the last entry of the GUID stays as it was published; all others go on being
// brought up to date.
//
// That ends after holdLimit, for a lease that is not being carried out then: its destination is not up,
// say, and whether its old place still has it is as functions show it. A batch has bounds of its own
// (stepLimit for functions; packets that drain, for which LIDs stay where they
// lead), so its leases are shown as they were until it ends. Where the host takes a VM down before
// any lease changes, there is nothing to hold: its GID is gone.

// holdLimit is how long the entry of a lease stays that is on its way, but not in a
// batch: longer than a hypervisor takes to bring a function up, and not so long that
// peers try in vain for longer than connections wait.
const holdLimit = 10 * time.Second

// heldEntry is the last published entry of a lease's GUID.
type heldEntry struct {
	l     *lease
	at    subnet.Place
	port  subnet.Port     // as published; of an alias GUID, that of the port itself
	shows *subnet.Virtual // of port, or where the LID leads by now
	until mad.Time
}

// holdEntry has snapshots show the GUID of a lease as the last one did.
func (c *Core) holdEntry(l *lease) {
	x, s := &c.leases, c.Snapshot
	until := c.Now.Add(holdLimit)
	if h := l.entry; h != nil {
		h.until = until
		return
	}
	if s == nil || c.State != subnet.Master || c.SnapshotFabric != c.Fabric {
		return
	}
	i := s.PortByGUID(l.GUID)
	if i < 0 {
		return
	}
	p := &s.Ports[i]
	at := subnet.Place{Port: s.Ports[s.Physical(i)].GUID}
	if p.Virtual != nil {
		at.Function = p.Virtual.Index
	} else if k := slices.Index(p.Aliases, l.GUID); k > 0 {
		at.Function = uint16(k)
	}
	if at.Function == 0 || at == l.target() || x.entries[at] != nil {
		return
	}
	l.entry = &heldEntry{l: l, at: at, port: *p, shows: p.Virtual, until: until}
	x.entries[at] = l.entry
	x.entryList = append(x.entryList, l.entry)
	x.entryEnd = min(x.entryEnd, until)
}

// freeEntry has the GUID of a lease shown where it is.
func (c *Core) freeEntry(l *lease) {
	x, h := &c.leases, l.entry
	if h == nil {
		return
	}
	l.entry = nil
	delete(x.entries, h.at)
	x.entryList = slices.DeleteFunc(x.entryList, func(o *heldEntry) bool { return o == h })
	c.showPlace(h.at)
	c.showPlace(l.target())
	c.showPlace(l.held)
	x.showDue = true
}

// endEntries ends what has been held for long enough.
func (c *Core) endEntries() {
	x := &c.leases
	if x.entryEnd > c.Now {
		return
	}
	x.entryEnd = mad.Never
	for _, h := range slices.Clone(x.entryList) {
		switch {
		case h.until > c.Now:
		case x.midway() && slices.Contains(x.batch, h.l):
			h.until = c.Now.Add(time.Second)
		default:
			c.freeEntry(h.l)
			continue
		}
		x.entryEnd = min(x.entryEnd, h.until)
	}
	if x.showDue && !x.midway() {
		x.showDue = false
		c.showNow()
	}
}

// dropEntries is for a new mastership.
func (x *leases) dropEntries() {
	for _, h := range x.entryList {
		h.l.entry = nil
	}
	clear(x.entries)
	x.entryList, x.entryEnd, x.showDue = nil, mad.Never, false
}

// showPlace has what is at a place shown in the next snapshot.
func (c *Core) showPlace(p subnet.Place) {
	if a, v := c.function(p); v != nil {
		c.vports.Show(a.Ref(p.Function))
	} else {
		c.guids.Show(p.Port)
	}
}

// showEntries has all that is held looked at again: the LIDs lead elsewhere.
func (c *Core) showEntries() {
	for _, h := range c.leases.entryList {
		c.showPlace(h.at)
		c.showPlace(h.l.target())
	}
}

// entryAt is what is held of a VPort's entry in s, nil if it is to be shown as it is. port
// is the index of its physical port. A LID of its own is shown where the graph has it, and so is
// its holder: when a sweep routed it to its new place already, the VM is there.
func (c *Core) entryAt(s *subnet.Snapshot, r vport.Ref, port int32) *heldEntry {
	x := &c.leases
	if len(x.entryList) == 0 {
		return nil
	}
	p := r.Place()
	end := s.Ports[port].EndPort
	leads := func(h *heldEntry) bool {
		v := h.port.Virtual
		return v != nil && end >= 0 && (!v.OwnLID || vport.LeadsTo(s, h.port.LID, end))
	}
	if h := x.entries[p]; h != nil && leads(h) {
		v := r.VPort()
		if g := v.Info().PortGUID; v.State() < ib.StateActive || g == 0 || g == h.l.GUID || c.entryElsewhere(g, p) {
			return h
		}
		return nil // another VM runs there already
	}
	if l := x.wants[p]; l != nil && l.entry != nil && l.entry.at.Port != p.Port {
		if h := l.entry; leads(h) && h.port.Virtual.OwnLID {
			return h
		}
	}
	return nil
}

// entryElsewhere reports whether a GUID is shown at another place than p, where it
// was.
func (c *Core) entryElsewhere(g ib.GUID, p subnet.Place) bool {
	if len(c.leases.entryList) == 0 {
		return false
	}
	l := c.leases.byGUID[g]
	return l != nil && l.entry != nil && l.entry.at != p
}

// as is the entry as it is shown behind the port with an index in s.Ports.
func (h *heldEntry) as(s *subnet.Snapshot, r vport.Ref, port int32) subnet.Port {
	q, p := h.port, &s.Ports[port]
	q.Node, q.Num, q.Peer, q.EndPort, q.MTU, q.Rate = p.Node, p.Num, p.Peer, p.EndPort, p.MTU, p.Rate
	if v := h.shows; v.Port != port || v.Index != r.Index {
		n := *v
		n.Port, n.Index = port, r.Index
		h.shows = &n
	}
	q.Virtual = h.shows
	return q
}

// aliasesShown are the alias GUIDs that snapshots show of a port.
func (c *Core) aliasesShown(port ib.GUID) []ib.GUID {
	list := c.guids.Shown(port)
	x := &c.leases
	if len(x.entryList) == 0 {
		return list
	}
	list = slices.Clone(list)
	for i, g := range list {
		if g != 0 && c.entryElsewhere(g, subnet.Place{Port: port, Function: uint16(i)}) {
			list[i] = 0
		}
	}
	for _, h := range x.entryList {
		if h.at.Port != port || h.port.Virtual != nil {
			continue
		}
		i := int(h.at.Function)
		for g := guid.At(list, i); g != 0 && g != h.l.GUID; g = guid.At(list, i) {
			i++ // another VM has that entry by now
		}
		list = guid.Put(list, i, h.l.GUID)
	}
	if list = guid.Trim(list); len(list) == 0 {
		return nil
	}
	return list
}

// aliasesOf are the alias GUIDs that a snapshot shows of a port.
func (c *Core) aliasesOf(p *topo.Port) []ib.GUID {
	if !p.Has(topo.PortEnd) || !c.guids.Has(p.GUID) {
		return nil
	}
	return c.aliasesShown(p.GUID)
}

// aliasesArriving adds to the alias GUIDs of port i those that a VPort has given
// up whose own LID leads to the port already: until the port has acknowledged
// the GUID it would be shown nowhere.
func (c *Core) aliasesArriving(s *subnet.Snapshot, i int32, list []ib.GUID) []ib.GUID {
	for _, h := range c.leases.entryList {
		to, v := h.l.target(), h.port.Virtual
		if v == nil || !v.OwnLID || to.Port != s.Ports[i].GUID || !vport.LeadsTo(s, h.port.LID, s.Ports[i].EndPort) || slices.Contains(list, h.l.GUID) {
			continue
		}
		if _, f := c.function(to); f != nil || h.at.Port == to.Port {
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
