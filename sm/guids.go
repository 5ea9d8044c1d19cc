package sm

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Alias GUIDs are entries of a port's GUID table (IBA §14.2.5.5). A manager
// that has just become master does not know what ports hold: aliases that an
// earlier manager gave to virtual machines which run on. So a block is read
// before it is written, entries that nobody named are left as they are and shown
// like our own, and only those are emptied that would give a GUID to two ports.
// Entries that SetAliases named once are ours: they are emptied when it names
// them no more.
//
// Block 0 of every port that has room for aliases is read once in a mastership,
// in the background after the subnet is up, and a further block where the one
// before it is in use: one request for each CA port more, and only once the
// shell has called SetAliases. Reading all blocks of all ports would be a
// hundred times that, and tables are filled from the start.
//
// An alias moves from one port to another by being taken from the first before
// it is given to the second, which waits as long as the first has it and is in
// the subnet. Two ports never hold a GUID at a time by our doing.

// maxGUIDs bounds the entries of a table: GUIDCap has 8 bits.
const maxGUIDs = 256

// guidTable is the GUID table of a port.
type guidTable struct {
	port ib.GUID
	want []ib.GUID // by index: what the entries that are ours are to hold
	mine [maxGUIDs / 64]uint64
	// have is what was read or acknowledged, by index from 1, without the empty
	// entries at its end; snapshots share it, so it is not written once it is set.
	have    []ib.GUID
	known   uint32 // by block: have is right about it
	refused uint32 // by block: not asked for again before something changes
	suspect uint32 // by block: an older Set may arrive late, so it is read again at suspectAt
	recent  uint32 // by block: written less than mad.LateCopy before wroteAt
	round   uint32 // of setAliases that last named it
	before  []ib.GUID
	// carries are the GUIDs by which the port is a member of partitions: those of want that
	// an administrator gave, and of have that one gave earlier in this mastership.
	carries, wasCarrying []ib.GUID
	queued               bool
	tries                int8
	retryAt              mad.Time // after a failure; 0 = none
	suspectAt            mad.Time
	wroteAt              mad.Time // when a Set was last acknowledged
}

// guidTables are the GUID tables of the subnet.
type guidTables struct {
	on     bool // SetAliases was called: what ports hold is of interest
	list   []*guidTable
	byPort map[ib.GUID]*guidTable
	wanted []subnet.Alias
	named  []subnet.Alias // of SetAliases
	leases []subnet.Alias // of leases on shared ports
	leased bool
	owner  map[ib.GUID]guidEntry    // who is to have an alias
	holder map[ib.GUID]*guidTable   // who has one, the first that was found
	others map[ib.GUID][]*guidTable // who was found to have it besides
	doubt  map[ib.GUID]*guidTable   // who may have one, because of a late Set, or as nothing is known: it is read first
	round  uint32
	todo   []*guidTable // to be looked at
	asked  []*guidTable // asked in the upkeep under way
	shown  []*guidTable // changed since the last snapshot
	retry  mad.Time     // when the first of those that failed or are suspect is due
}

type guidEntry struct {
	t *guidTable
	i uint8
}

func guidAt(l []ib.GUID, i int) ib.GUID {
	if i < len(l) {
		return l[i]
	}
	return 0
}

func guidPut(l []ib.GUID, i int, g ib.GUID) []ib.GUID {
	for len(l) <= i {
		l = append(l, 0)
	}
	l[i] = g
	return l
}

// trimGUIDs cuts the empty entries off the end.
func trimGUIDs(l []ib.GUID) []ib.GUID {
	for len(l) > 0 && l[len(l)-1] == 0 {
		l = l[:len(l)-1]
	}
	return slices.Clip(l)
}

// at is the table of a port, which is made if there is none.
func (g *guidTables) at(port ib.GUID) *guidTable {
	t := g.byPort[port]
	if t == nil {
		t = &guidTable{port: port}
		g.byPort[port] = t
		g.list = append(g.list, t)
	}
	return t
}

func (g *guidTables) queue(t *guidTable) {
	if !t.queued {
		t.queued = true
		g.todo = append(g.todo, t)
	}
}

// forgetGUIDs is for a new mastership: nothing is known of any port.
func (c *Core) forgetGUIDs() {
	g := &c.guids
	on, list := g.on, g.wanted
	named, leases, leased := g.named, g.leases, g.leased
	*g = guidTables{
		on: on, byPort: map[ib.GUID]*guidTable{}, holder: map[ib.GUID]*guidTable{}, others: map[ib.GUID][]*guidTable{}, doubt: map[ib.GUID]*guidTable{}, retry: mad.Never,
		named: named, leases: leases, leased: leased,
	}
	c.nameAliases(list)
}

// setAliases takes the alias GUIDs of the subnet.
func (c *Core) setAliases(list []subnet.Alias) {
	g := &c.guids
	was := g.on
	g.on = true
	g.named = slices.Clone(list)
	c.nameAliases(withLeases(g.leases, g.named))
	if c.Fabric == nil || c.Fabric.Graph == nil || c.State != subnet.Master {
		return
	}
	if !was {
		c.listGUIDs()
	}
	c.lookGUIDs()
}

// nameAliases settles what the entries that are ours are to hold.
func (c *Core) nameAliases(list []subnet.Alias) {
	g := &c.guids
	g.wanted = list
	g.owner = make(map[ib.GUID]guidEntry, len(list))
	g.round++
	for _, a := range list {
		t := g.at(a.Port)
		if t.round != g.round {
			t.round, t.before, t.want = g.round, t.want, nil
		}
		if a.Index == 0 {
			c.aliasRefused(a, "entry 0 of a port's table is its own GUID and cannot be another")
			continue
		}
		t.mine[a.Index/64] |= 1 << (a.Index % 64)
		if a.GUID == 0 {
			continue
		}
		if o, ok := g.owner[a.GUID]; ok {
			loser := a
			if g.holder[a.GUID] == t && o.t != t {
				loser = subnet.Alias{Port: o.t.port, Index: o.i, GUID: a.GUID}
				o.t.want[o.i] = 0
				g.owner[a.GUID] = guidEntry{t, a.Index}
				t.want = guidPut(t.want, int(a.Index), a.GUID)
			}
			c.aliasRefused(loser, "another entry has it: port "+g.owner[a.GUID].t.port.String()+" index "+strconv.Itoa(int(g.owner[a.GUID].i)))
			continue
		}
		g.owner[a.GUID] = guidEntry{t, a.Index}
		t.want = guidPut(t.want, int(a.Index), a.GUID)
	}
	c.carryAliases(list)
	for _, t := range g.list {
		if t.round != g.round {
			t.before, t.want = t.want, nil
		}
		if !slices.Equal(t.before, t.want) {
			t.refused, t.tries, t.retryAt = 0, 0, 0
			c.touchPKeys(t.port)
		}
		t.before = nil
	}
}

// carryAliases settles by which aliases ports are members of partitions.
func (c *Core) carryAliases(list []subnet.Alias) {
	g := &c.guids
	for _, t := range g.list {
		was := t.carries
		t.carries = nil
		for _, x := range was {
			// One that is given up counts until the port has let go of it. One that somebody
			// else named since does not.
			if i := slices.Index(t.have, x); i > 0 && g.owner[x].t != t {
				t.carries = append(t.carries, x)
			}
		}
		t.wasCarrying = was
	}
	for _, a := range list {
		if o := g.owner[a.GUID]; a.Carries && a.GUID != 0 && o.t != nil && o.t.port == a.Port && o.i == a.Index && !slices.Contains(o.t.carries, a.GUID) {
			o.t.carries = append(o.t.carries, a.GUID)
		}
	}
	for _, t := range g.list {
		if !slices.Equal(t.wasCarrying, t.carries) {
			c.touchPKeys(t.port)
		}
		t.wasCarrying = nil
	}
}

// tellAliases tells of aliases that partitions name and that no administrator gave.
func (c *Core) tellAliases() {
	for _, t := range c.guids.list {
		for _, x := range t.have {
			if x != 0 && !slices.Contains(t.carries, x) && c.pk.grants.Names(x) && c.NoteOnce("no membership "+t.port.String()+x.String()) {
				c.Notify(notice.Notice{
					Kind: notice.KindAliasRefused, Level: notice.Warn, Where: c.wherePort(t.port),
					Text: "alias GUID " + x.String() + " is named by the partitions, but no administrator gave it to this port, so it brings no membership: name the port itself, or set the alias with the SA key",
				})
			}
		}
	}
}

func (c *Core) aliasRefused(a subnet.Alias, why string) {
	if c.out != nil && c.NoteOnce("alias "+a.Port.String()+" "+strconv.Itoa(int(a.Index))+" "+a.GUID.String()+why) {
		c.Notify(notice.Notice{
			Kind: notice.KindAliasRefused, Level: notice.Warn, Where: c.wherePort(a.Port),
			Text: "port " + a.Port.String() + " does not get the alias GUID " + a.GUID.String() + " at index " + strconv.Itoa(int(a.Index)) + ": " + why,
		})
	}
}

func (c *Core) wherePort(g ib.GUID) notice.Where {
	if p := c.EndPort(g); p != nil {
		return c.Fabric.Where(p.Node, int(p.Num))
	}
	return notice.Where{}
}

// takeGUIDs joins the ports of a new discovery with what is known of their
// tables. A port whose link came up anew or that forgot its LID may have lost
// its table.
func (c *Core) takeGUIDs() {
	g := &c.guids
	if !g.on || c.Config.PlanOnly {
		return
	}
	c.Scope(func(p *topo.Port) {
		t := g.byPort[p.GUID]
		switch {
		case p.LID == 0:
			if t != nil && len(t.have) > 0 && c.EndPort(p.GUID) == nil {
				c.forgetGUIDsOf(t)
			}
			return
		case t != nil:
			if c.Fabric.Nodes[p.Node].Flags&topo.NodeNew != 0 || p.Num != 0 && p.Info.PortState <= ib.StateInit || p.Info.LID != p.LID && (c.floatBase(p.GUID) == 0 || p.Info.LID == 0) {
				c.forgetGUIDsOf(t)
			}
			g.queue(t)
		case p.Info.GUIDCap > 1:
			g.queue(g.at(p.GUID))
		}
		// A port that came may have the GUID of an alias.
		if o, ok := g.owner[p.GUID]; ok {
			g.queue(o.t)
		}
		if h := g.holder[p.GUID]; h != nil {
			g.queue(h)
		}
	})
	if !c.reg.on {
		for _, t := range g.list {
			if len(t.have) > 0 && c.EndPort(t.port) == nil {
				c.forgetGUIDsOf(t)
			}
		}
	}
}

// listGUIDs makes tables for all ports that may hold aliases.
func (c *Core) listGUIDs() {
	for _, pi := range c.Fabric.EndPort {
		if p := &c.Fabric.Ports[pi]; p.Info.GUIDCap > 1 {
			c.guids.at(p.GUID)
		}
	}
}

// lookGUIDs queues the tables that there is something to do about.
func (c *Core) lookGUIDs() {
	g := &c.guids
	for _, t := range g.list {
		if _, _, ok := c.guidWork(t); ok {
			g.queue(t)
		}
	}
}

func (c *Core) forgetGUIDsOf(t *guidTable) {
	c.doubtGUIDs(t, t.have)
	c.haveGUIDs(t, nil)
	t.known, t.refused, t.suspect, t.tries, t.retryAt = 0, 0, 0, 0, 0
}

// haveGUIDs notes what a port holds.
func (c *Core) haveGUIDs(t *guidTable, have []ib.GUID) {
	g := &c.guids
	old := t.have
	t.have = trimGUIDs(have)
	if slices.Equal(old, t.have) {
		return
	}
	g.shown = append(g.shown, t)
	c.touchPKeys(t.port)
	c.aliasesHeld(t, old)
	defer func() {
		for _, x := range old {
			c.memberMoved(x)
		}
		for _, x := range t.have {
			c.memberMoved(x)
		}
	}()
	for _, x := range old {
		if x != 0 && g.holder[x] == t && !slices.Contains(t.have, x) {
			g.released(x)
			if o, ok := g.owner[x]; ok && o.t != t {
				g.queue(o.t) // it may have waited for this
			}
		}
	}
	for i, x := range t.have {
		if x == 0 || guidAt(old, i) == x {
			continue
		}
		switch h := g.holder[x]; h {
		case nil:
			g.holder[x] = t
		case t:
		default:
			g.others[x] = append(g.others[x], t)
			if c.NoteOnce("alias twice " + x.String()) {
				c.Notify(notice.Notice{
					Kind: notice.KindAliasRefused, Level: notice.Warn, Where: c.wherePort(t.port), Peer: c.wherePort(h.port),
					Text: "two ports hold the alias GUID " + x.String() + ", which nobody asked for",
				})
			}
		}
	}
}

// released: the holder of a GUID has it no more. Another one may.
func (g *guidTables) released(x ib.GUID) {
	delete(g.holder, x)
	list := slices.DeleteFunc(g.others[x], func(t *guidTable) bool { return !slices.Contains(t.have, x) })
	delete(g.others, x)
	if len(list) > 0 {
		g.holder[x] = list[0]
		g.shown = append(g.shown, list[0])
		g.queue(list[0])
		if len(list) > 1 {
			g.others[x] = list[1:]
		}
	}
}

// guidWanted is what entry i of a table is to hold now.
func (c *Core) guidWanted(t *guidTable, i int) ib.GUID {
	g := &c.guids
	x := guidAt(t.have, i)
	mine := t.mine[i/64]&(1<<(i%64)) != 0
	if mine {
		x = guidAt(t.want, i)
	}
	if x == 0 {
		return 0
	}
	o, owned := g.owner[x]
	switch {
	case c.EndPort(x) != nil:
		c.aliasRefused(subnet.Alias{Port: t.port, Index: uint8(i), GUID: x}, "it is the own GUID of a port of the subnet")
		return 0
	case !mine && owned && (o.t != t || int(o.i) != i):
		return 0 // somebody else is to have it
	case !mine && c.leasedElsewhere(x, subnet.Place{Port: t.port, Function: uint16(i)}):
		return 0 // an earlier manager put it there
	case mine && guidAt(t.have, i) != x && g.holder[x] != nil && g.holder[x] != t:
		return 0 // its turn comes when the other one has let go of it
	case mine && guidAt(t.have, i) != x && c.doubted(x, t):
		return 0 // or when that is known
	}
	return x
}

// shownOf is what snapshots show of a table, nil if that is nothing: a GUID that
// another port has as well, as when a port comes back that was cut off while a virtual
// machine left it, is where it was found first.
func (g *guidTables) shownOf(t *guidTable) []ib.GUID {
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

// guidsKnown reports whether what a port has in the first block of its GUID table is
// known, or cannot be.
func (c *Core) guidsKnown(port ib.GUID) bool {
	t := c.guids.byPort[port]
	return !c.guids.on || t == nil || t.known&1 != 0 || t.refused&1 != 0 || t.tries > 0
}

// guidWork finds what to ask a port for next: to read a block, or to write one.
func (c *Core) guidWork(t *guidTable) (block int, read, ok bool) {
	p := c.EndPort(t.port)
	if p == nil || t.retryAt > c.Now {
		return 0, false, false
	}
	most := int(p.Info.GUIDCap)
	for i := max(most, 1); i < len(t.want); i++ {
		if t.want[i] != 0 {
			c.aliasRefused(subnet.Alias{Port: t.port, Index: uint8(i), GUID: t.want[i]}, "its table has "+strconv.Itoa(most)+" entries")
		}
	}
	inUse := true // block 0 is looked at in any case
	for b := 0; b*smp.GUIDBlockLen < most && most > 1; b++ {
		at := b * smp.GUIDBlockLen
		bit := uint32(1) << b
		need := inUse || uint8(t.mine[at/64]>>(at%64)) != 0
		inUse = false
		if !need || t.refused&bit != 0 {
			continue
		}
		if t.known&bit == 0 {
			return b, true, true
		}
		for i := max(at, 1); i < min(at+smp.GUIDBlockLen, most); i++ {
			x := guidAt(t.have, i)
			inUse = inUse || x != 0
			if c.guidWanted(t, i) != x {
				return b, false, true
			}
		}
	}
	return 0, false, false
}
