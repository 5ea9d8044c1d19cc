// Package guid programs the alias GUIDs of a subnet: the entries above 0 of the ports' GUID
// tables (GUIDInfo, IBA Vol. 1, §14.2.5.5).
//
// Tables is a part of a subnet manager. It owns what is known of each port's table and what that
// table is to hold. Its inputs are the aliases that administrators and SA clients ask for (Set),
// those of placements on shared ports (SetPlaced), discoveries (Discovered) and answers (Answered).
// Its outputs are items on the work list, which Build makes into Get and Set(GUIDInfo), and
// notices. It runs between sweeps: Upkeep adds items, and Next says when it has more to do.
//
// A manager that has just become master does not know what ports hold: aliases that an earlier
// manager gave to virtual machines which still run. So a block is read before it is written.
// Entries that nobody named stay as they are, and snapshots show them like our own. Only those are
// emptied that would give one GUID to two ports. Entries that Set named once are ours: they are
// emptied when it names them no more.
//
// Block 0 of every port that has room for aliases is read once in a mastership, after the subnet
// is up. A further block is read if the one before it is in use. That is one request for each CA
// port, and only after the first Set. To read all blocks of all ports would take a hundred
// times as many, and tables are filled from the start.
//
// An alias moves from one port to another in two steps: the first port gives it up, then the second
// receives it. The second step waits for the first as long as the first port is in the subnet. So
// two ports never hold one GUID because of this manager.
package guid

import (
	"cmp"
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/env"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// MaxEntries is the most entries that a table can have: GUIDCap has 8 bits.
const MaxEntries = 256

// PKeys is the part that programs P_Key tables.
type PKeys interface {
	// Touch tells that a port is a member of partitions by other GUIDs than before.
	Touch(port ib.GUID)
	// Names reports whether the partitions in force name a GUID.
	Names(g ib.GUID) bool
}

// Groups is the part that routes multicast groups.
type Groups interface {
	// MemberMoved tells that a GUID came to a port or left one.
	MemberMoved(g ib.GUID)
}

// Placements is the part that gives addresses to virtual functions.
type Placements interface {
	// AliasesHeld tells that the table of a port changed. old is what it held before, by index.
	AliasesHeld(port ib.GUID, old []ib.GUID)
	// Elsewhere reports whether a GUID belongs to a placement that is not to be at p.
	Elsewhere(g ib.GUID, p subnet.Place) bool
	// FloatBase is the base LID of a port whose present LID is that of a function, else 0.
	FloatBase(port ib.GUID) ib.LID
}

// Tables are the GUID tables of the ports of a subnet.
type Tables struct {
	*env.Env
	pkeys      PKeys
	groups     Groups
	placements Placements

	enabled bool // Set was called: what ports hold is of interest
	list    []*table
	byPort  map[ib.GUID]*table
	named   []subnet.Alias // of Set
	placed  []subnet.Alias // of SetPlaced
	hasSet  bool           // SetPlaced was called
	wanted  []subnet.Alias // both together

	owner  map[ib.GUID]entry    // which entry is to hold an alias
	holder map[ib.GUID]*table   // which table holds one: the first that was found
	others map[ib.GUID][]*table // which tables hold it as well
	// doubt has the tables that may hold an alias, because of a late Set or because nothing is
	// known. They are read before another port receives it.
	doubt map[ib.GUID]*table

	// unowned has the tables that may hold an alias that TellUnowned tells of: those that changed since
	// it was called last, and those that it told of.
	unowned []*table

	round uint32    // number of the last call of name
	todo  []*table  // to be looked at
	asked []*table  // asked in the portion of upkeep under way
	shown []ib.GUID // ports whose tables changed since the last snapshot
	retry mad.Time  // when the first table is due that failed or is to be read again
}

// table is the GUID table of a port.
type table struct {
	port ib.GUID
	want []ib.GUID // by index: what the entries that are ours are to hold
	ours [MaxEntries / 64]uint64
	// have is what was read or acknowledged, by index from 1, without the empty entries at its
	// end. Snapshots share it, so it is never written.
	have    []ib.GUID
	known   uint32 // by block: have is right about it
	refused uint32 // by block: not asked for again before something changes
	suspect uint32 // by block: an older Set may arrive late, so it is read again at suspectAt
	recent  uint32 // by block: written less than mad.LateCopy before wroteAt
	round   uint32 // of name when it last named this table
	before  []ib.GUID
	// carries are the GUIDs by which the port is a member of partitions: those of want that an
	// administrator gave, and those of have that one gave earlier in this mastership.
	carries, carried []ib.GUID
	number           int  // in Tables.list
	unowned          bool // in Tables.unowned
	queued           bool
	tries            int8
	retryAt          mad.Time // after a failure; 0 = none
	suspectAt        mad.Time
	wroteAt          mad.Time // when a Set was last acknowledged
}

// entry names an entry of a table.
type entry struct {
	t *table
	i uint8
}

// New returns the tables of a manager that knows of no port.
func New(e *env.Env, pkeys PKeys, groups Groups, placements Placements) *Tables {
	g := &Tables{Env: e, pkeys: pkeys, groups: groups, placements: placements}
	g.clear()
	return g
}

func (g *Tables) clear() {
	g.list, g.todo, g.asked, g.shown, g.round, g.retry = nil, nil, nil, nil, 0, mad.Never
	g.byPort, g.owner, g.holder = map[ib.GUID]*table{}, nil, map[ib.GUID]*table{}
	g.others, g.doubt, g.unowned = map[ib.GUID][]*table{}, map[ib.GUID]*table{}, nil
}

// Reset begins a new mastership: nothing is known of any port.
func (g *Tables) Reset() {
	g.clear()
	g.name(g.wanted)
}

// Set takes the alias GUIDs that administrators and clients of the SA ask for.
func (g *Tables) Set(list []subnet.Alias) {
	was := g.enabled
	g.enabled = true
	g.named = slices.Clone(list)
	g.name(merge(g.placed, g.named))
	if g.Fabric == nil || g.Fabric.Graph == nil || g.State != subnet.Master {
		return
	}
	if !was {
		g.listPorts()
	}
	g.lookAll()
}

// SetPlaced takes the alias GUIDs of placements on shared ports. An empty list counts only after
// another one.
func (g *Tables) SetPlaced(list []subnet.Alias) {
	if g.hasSet && slices.Equal(list, g.placed) {
		return
	}
	g.hasSet, g.placed = true, list
	g.Set(g.named)
}

// HasPlaced reports whether SetPlaced was called.
func (g *Tables) HasPlaced() bool { return g.hasSet }

// merge adds the aliases of placements to a list. Where both name a GUID or an entry, the
// placement counts.
func merge(placed, list []subnet.Alias) []subnet.Alias {
	if len(placed) == 0 {
		return list
	}
	type place struct {
		port  ib.GUID
		index uint8
	}
	guid, at := make(map[ib.GUID]bool, len(placed)), make(map[place]bool, len(placed))
	for _, a := range placed {
		guid[a.GUID] = true
		at[place{a.Port, a.Index}] = true
	}
	out := slices.Clone(placed)
	for _, a := range list {
		if !guid[a.GUID] && !at[place{a.Port, a.Index}] {
			out = append(out, a)
		}
	}
	return out
}

// table is the table of a port, which is made if there is none.
func (g *Tables) table(port ib.GUID) *table {
	t := g.byPort[port]
	if t == nil {
		t = &table{port: port, number: len(g.list)}
		g.byPort[port] = t
		g.list = append(g.list, t)
	}
	return t
}

func (g *Tables) queue(t *table) {
	if !t.queued {
		t.queued = true
		g.todo = append(g.todo, t)
	}
}

// name settles what the entries that are ours are to hold.
func (g *Tables) name(list []subnet.Alias) {
	g.wanted = list
	g.owner = make(map[ib.GUID]entry, len(list))
	g.round++
	for _, a := range list {
		t := g.table(a.Port)
		if t.round != g.round {
			t.round, t.before, t.want = g.round, t.want, nil
		}
		if a.Index == 0 {
			g.refuse(a, "entry 0 of a port's table is its own GUID and cannot be another")
			continue
		}
		t.ours[a.Index/64] |= 1 << (a.Index % 64)
		if a.GUID == 0 {
			continue
		}
		if o, ok := g.owner[a.GUID]; ok {
			loser := a
			if g.holder[a.GUID] == t && o.t != t {
				loser = subnet.Alias{Port: o.t.port, Index: o.i, GUID: a.GUID}
				o.t.want[o.i] = 0
				g.owner[a.GUID] = entry{t, a.Index}
				t.want = Put(t.want, int(a.Index), a.GUID)
			}
			o = g.owner[a.GUID]
			g.refuse(loser, "another entry has it: port "+o.t.port.String()+" index "+strconv.Itoa(int(o.i)))
			continue
		}
		g.owner[a.GUID] = entry{t, a.Index}
		t.want = Put(t.want, int(a.Index), a.GUID)
	}
	g.carry(list)
	for _, t := range g.list {
		if t.round != g.round {
			t.before, t.want = t.want, nil
		}
		if !slices.Equal(t.before, t.want) {
			t.refused, t.tries, t.retryAt = 0, 0, 0
			g.pkeys.Touch(t.port)
		}
		t.before = nil
	}
}

// carry settles by which aliases ports are members of partitions.
func (g *Tables) carry(list []subnet.Alias) {
	for _, t := range g.list {
		t.carried, t.carries = t.carries, nil
		for _, x := range t.carried {
			// One that is given up counts until the port no longer holds it, unless somebody else
			// named it since.
			if i := slices.Index(t.have, x); i > 0 && g.owner[x].t != t {
				t.carries = append(t.carries, x)
			}
		}
	}
	for _, a := range list {
		o := g.owner[a.GUID]
		if !a.Carries || a.GUID == 0 || o.t == nil || o.t.port != a.Port || o.i != a.Index {
			continue
		}
		if !slices.Contains(o.t.carries, a.GUID) {
			o.t.carries = append(o.t.carries, a.GUID)
		}
	}
	for _, t := range g.list {
		if !slices.Equal(t.carried, t.carries) {
			g.pkeys.Touch(t.port)
			g.mayBeUnowned(t)
		}
		t.carried = nil
	}
}

// Carried are the aliases by which a port is a member of partitions, those that it is about to
// receive or to give up included.
func (g *Tables) Carried(port ib.GUID) (list []ib.GUID) {
	t := g.byPort[port]
	if t == nil {
		return nil
	}
	for _, x := range t.carries {
		if slices.Contains(t.have, x) || slices.Contains(t.want, x) {
			list = append(list, x)
		}
	}
	return list
}

// mayBeUnowned has TellUnowned look at a table, which changed.
func (g *Tables) mayBeUnowned(t *table) {
	if !t.unowned {
		t.unowned = true
		g.unowned = append(g.unowned, t)
	}
}

// TellUnowned tells of aliases that partitions name and that no administrator gave. renamed: the
// partitions in force are others than when it was called last.
func (g *Tables) TellUnowned(renamed bool) {
	if renamed {
		for _, t := range g.list {
			g.mayBeUnowned(t)
		}
	}
	slices.SortFunc(g.unowned, func(a, b *table) int { return cmp.Compare(a.number, b.number) })
	g.unowned = slices.DeleteFunc(g.unowned, func(t *table) bool {
		t.unowned = g.tellUnowned(t)
		return !t.unowned
	})
}

// tellUnowned is TellUnowned for a table. It reports whether there are such aliases.
func (g *Tables) tellUnowned(t *table) (found bool) {
	for _, x := range t.have {
		if x == 0 || slices.Contains(t.carries, x) || !g.pkeys.Names(x) {
			continue
		}
		found = true
		if g.NoteOnce("no membership " + t.port.String() + x.String()) {
			g.Notify(notice.Notice{
				Kind: notice.KindAliasRefused, Level: notice.Warn, Where: g.WherePort(t.port),
				Text: "alias GUID " + x.String() + " is named by the partitions, but no administrator gave it to this port, " +
					"so it brings no membership: name the port itself, or set the alias with the SA key",
			})
		}
	}
	return found
}

// refuse tells once that a port does not receive an alias.
func (g *Tables) refuse(a subnet.Alias, why string) {
	port, x, index := a.Port.String(), a.GUID.String(), strconv.Itoa(int(a.Index))
	if g.Output != nil && g.NoteOnce("alias "+port+" "+index+" "+x+why) {
		g.Notify(notice.Notice{
			Kind: notice.KindAliasRefused, Level: notice.Warn, Where: g.WherePort(a.Port),
			Text: "port " + port + " does not get the alias GUID " + x + " at index " + index + ": " + why,
		})
	}
}

// listPorts makes tables for all ports that may hold aliases.
func (g *Tables) listPorts() {
	for _, pi := range g.Fabric.EndPort {
		if p := &g.Fabric.Ports[pi]; p.Info.GUIDCap > 1 {
			g.table(p.GUID)
		}
	}
}

// lookAll queues the tables that there is something to do about.
func (g *Tables) lookAll() {
	for _, t := range g.list {
		if _, _, ok := g.work(t); ok {
			g.queue(t)
		}
	}
}

// Discovered joins the ports of a new discovery with what is known of their tables. A port whose
// link came up anew, or that forgot its LID, may have lost its table. whole: the discovery read
// the whole subnet.
func (g *Tables) Discovered(whole bool) {
	if !g.enabled || g.Config.PlanOnly {
		return
	}
	g.Sweeper.Scope(func(p *topo.Port) {
		t := g.byPort[p.GUID]
		switch {
		case p.LID == 0:
			if t != nil && len(t.have) > 0 && g.EndPort(p.GUID) == nil {
				g.forget(t)
			}
			return
		case t != nil:
			if g.mayBeLost(p) {
				g.forget(t)
			}
			g.queue(t)
		case p.Info.GUIDCap > 1:
			g.queue(g.table(p.GUID))
		}
		// A port that came may have the GUID of an alias.
		if o, ok := g.owner[p.GUID]; ok {
			g.queue(o.t)
		}
		if h := g.holder[p.GUID]; h != nil {
			g.queue(h)
		}
	})
	if whole {
		for _, t := range g.list {
			if len(t.have) > 0 && g.EndPort(t.port) == nil {
				g.forget(t)
			}
		}
	}
}

// mayBeLost reports whether a port that was discovered may have lost its table.
func (g *Tables) mayBeLost(p *topo.Port) bool {
	return g.Fabric.Nodes[p.Node].Flags&topo.NodeNew != 0 || p.Num != 0 && p.Info.PortState <= ib.StateInit ||
		p.Info.LID != p.LID && (g.placements.FloatBase(p.GUID) == 0 || p.Info.LID == 0)
}
