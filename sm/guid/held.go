package guid

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/subnet"
)

// forget: nothing is known of a table any more.
func (g *Tables) forget(t *table) {
	g.doubtAll(t, t.have)
	g.holds(t, nil)
	t.known, t.refused, t.suspect, t.tries, t.retryAt = 0, 0, 0, 0, 0
}

// holds notes what a table holds, and tells the parts that depend on it.
func (g *Tables) holds(t *table, have []ib.GUID) {
	old := t.have
	t.have = Trim(have)
	if slices.Equal(old, t.have) {
		return
	}
	g.shown = append(g.shown, t.port)
	g.mayBeUnowned(t)
	g.pkeys.Touch(t.port)
	g.placements.AliasesHeld(t.port, old)
	for _, x := range old {
		if x != 0 && g.holder[x] == t && !slices.Contains(t.have, x) {
			g.released(x)
			if o, ok := g.owner[x]; ok && o.t != t {
				g.queue(o.t) // it may have waited for this
			}
		}
	}
	for i, x := range t.have {
		if x == 0 || At(old, i) == x {
			continue
		}
		switch h := g.holder[x]; h {
		case nil:
			g.holder[x] = t
		case t:
		default:
			g.others[x] = append(g.others[x], t)
			if g.NoteOnce("alias twice " + x.String()) {
				g.Notify(notice.Notice{
					Kind: notice.KindAliasRefused, Level: notice.Warn, Where: g.WherePort(t.port), Peer: g.WherePort(h.port),
					Text: "two ports hold the alias GUID " + x.String() + ", which nobody asked for",
				})
			}
		}
	}
	for _, x := range old {
		g.groups.MemberMoved(x)
	}
	for _, x := range t.have {
		g.groups.MemberMoved(x)
	}
}

// released: the holder of a GUID has given it up. If another table has it too, that is its holder
// now.
func (g *Tables) released(x ib.GUID) {
	delete(g.holder, x)
	list := slices.DeleteFunc(g.others[x], func(t *table) bool { return !slices.Contains(t.have, x) })
	delete(g.others, x)
	if len(list) > 0 {
		g.holder[x] = list[0]
		g.shown = append(g.shown, list[0].port)
		g.queue(list[0])
		if len(list) > 1 {
			g.others[x] = list[1:]
		}
	}
}

// doubtAll notes that a table may hold GUIDs: no other port receives them before the table has
// been read.
func (g *Tables) doubtAll(t *table, list []ib.GUID) {
	for _, x := range list {
		if x != 0 && x != t.port {
			g.doubt[x] = t
		}
	}
}

// doubted reports whether a table other than t may hold a GUID. If so it has that table read.
func (g *Tables) doubted(x ib.GUID, t *table) bool {
	o := g.doubt[x]
	if o == nil || o == t || g.EndPort(o.port) == nil || o.refused != 0 {
		return false
	}
	if !slices.Contains(g.asked, o) {
		o.known = 0
		g.queue(o)
	}
	return true
}

// doubtOver ends the doubts about a table that was read.
func (g *Tables) doubtOver(t *table) {
	var over []ib.GUID
	for x, o := range g.doubt {
		if o == t {
			over = append(over, x)
		}
	}
	slices.Sort(over)
	for _, x := range over {
		delete(g.doubt, x)
		if o, ok := g.owner[x]; ok && o.t != t {
			g.queue(o.t)
		}
	}
}

// wantedAt is what entry i of a table is to hold now.
func (g *Tables) wantedAt(t *table, i int) ib.GUID {
	have := At(t.have, i)
	x := have
	ours := t.ours[i/64]&(1<<(i%64)) != 0
	if ours {
		x = At(t.want, i)
	}
	if x == 0 {
		return 0
	}
	o, owned := g.owner[x]
	switch {
	case g.EndPort(x) != nil:
		g.refuse(subnet.Alias{Port: t.port, Index: uint8(i), GUID: x}, "it is the own GUID of a port of the subnet")
		return 0
	case !ours && owned && (o.t != t || int(o.i) != i):
		return 0 // another entry is to have it
	case !ours && g.placements.Elsewhere(x, subnet.Place{Port: t.port, Function: uint16(i)}):
		return 0 // an earlier manager put it there
	case ours && have != x && g.holder[x] != nil && g.holder[x] != t:
		return 0 // it waits until the other port has given it up
	case ours && have != x && g.doubted(x, t):
		return 0 // or until that is known
	}
	return x
}

// work finds what to ask a port for next: to read a block, or to write one.
func (g *Tables) work(t *table) (block int, read, ok bool) {
	p := g.EndPort(t.port)
	if p == nil || t.retryAt > g.Now {
		return 0, false, false
	}
	most := int(p.Info.GUIDCap)
	for i := max(most, 1); i < len(t.want); i++ {
		if t.want[i] != 0 {
			a := subnet.Alias{Port: t.port, Index: uint8(i), GUID: t.want[i]}
			g.refuse(a, "its table has "+strconv.Itoa(most)+" entries")
		}
	}
	inUse := true // block 0 is looked at in any case
	for b := 0; b*smp.GUIDBlockLen < most && most > 1; b++ {
		at := b * smp.GUIDBlockLen
		bit := uint32(1) << b
		need := inUse || uint8(t.ours[at/64]>>(at%64)) != 0
		inUse = false
		if !need || t.refused&bit != 0 {
			continue
		}
		if t.known&bit == 0 {
			return b, true, true
		}
		for i := max(at, 1); i < min(at+smp.GUIDBlockLen, most); i++ {
			x := At(t.have, i)
			inUse = inUse || x != 0
			if g.wantedAt(t, i) != x {
				return b, false, true
			}
		}
	}
	return 0, false, false
}

// Holder is the port that holds an alias GUID, by port GUID; 0 if there is none.
func (g *Tables) Holder(x ib.GUID) ib.GUID {
	if t := g.holder[x]; t != nil {
		return t.port
	}
	return 0
}

// Owner is the port that is to hold an alias GUID, by port GUID; 0 if there is none.
func (g *Tables) Owner(x ib.GUID) ib.GUID {
	if o, ok := g.owner[x]; ok {
		return o.t.port
	}
	return 0
}

// Find is the entry that holds an alias GUID, the zero Place if there is none.
func (g *Tables) Find(x ib.GUID) subnet.Place {
	if t := g.holder[x]; t != nil {
		if i := slices.Index(t.have, x); i > 0 {
			return subnet.Place{Port: t.port, Function: uint16(i)}
		}
	}
	return subnet.Place{}
}

// Held is what an entry is known to hold, 0 for none.
func (g *Tables) Held(p subnet.Place) ib.GUID {
	if t := g.byPort[p.Port]; t != nil {
		return At(t.have, int(p.Function))
	}
	return 0
}

// Wanted is what an entry is to hold, 0 if it is not ours or to be empty.
func (g *Tables) Wanted(p subnet.Place) ib.GUID {
	if t := g.byPort[p.Port]; t != nil {
		return At(t.want, int(p.Function))
	}
	return 0
}

// Refused reports whether a port refused to show or to take the block of an entry.
func (g *Tables) Refused(p subnet.Place) bool {
	t := g.byPort[p.Port]
	return t != nil && t.refused>>(int(p.Function)/smp.GUIDBlockLen)&1 != 0
}

// Known reports whether what the first block of a port's table holds is known, or cannot be.
func (g *Tables) Known(port ib.GUID) bool {
	t := g.byPort[port]
	return !g.enabled || t == nil || t.known&1 != 0 || t.refused&1 != 0 || t.tries > 0
}

// Look has the table of a port looked at in the next portion of upkeep.
func (g *Tables) Look(port ib.GUID) {
	if t := g.byPort[port]; t != nil {
		g.queue(t)
	}
}

// Show has the table of a port, if there is one, brought up to date in the next snapshot.
func (g *Tables) Show(port ib.GUID) {
	if g.byPort[port] != nil && !slices.Contains(g.shown, port) {
		g.shown = append(g.shown, port)
	}
}

// Changed are the ports whose tables changed since AllShown. It is valid until then.
func (g *Tables) Changed() []ib.GUID { return g.shown }

// AllShown notes that a snapshot shows all tables as they are.
func (g *Tables) AllShown() { g.shown = g.shown[:0] }

// Shown is what snapshots show of a port's table by index, nil for nothing. If several ports hold
// a GUID, as when a port comes back that was cut off while a virtual machine left it, it is shown
// where it was found first. The list is not to be changed.
func (g *Tables) Shown(port ib.GUID) []ib.GUID {
	t := g.byPort[port]
	if t == nil {
		return nil
	}
	list := t.have
	for i, x := range t.have {
		if h := g.holder[x]; x != 0 && h != nil && h != t {
			if &list[0] == &t.have[0] {
				list = slices.Clone(t.have)
			}
			list[i] = 0
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// wroteBefore notes that a Set of a block was acknowledged. It reports whether that followed
// another one so soon that a copy of the earlier one may still come, and undo it.
func (t *table) wroteBefore(now mad.Time, bit uint32) bool {
	if now.Sub(t.wroteAt) >= mad.LateCopy {
		t.recent = 0
	}
	again := t.recent&bit != 0
	t.recent |= bit
	t.wroteAt = now
	return again
}

// Have is what the table of a port is known to hold, by index. The list is not to be changed.
func (g *Tables) Have(port ib.GUID) []ib.GUID {
	if t := g.byPort[port]; t != nil {
		return t.have
	}
	return nil
}

// Has reports whether the table of a port is known of.
func (g *Tables) Has(port ib.GUID) bool { return g.byPort[port] != nil }
