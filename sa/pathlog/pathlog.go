// Package pathlog finds out which paths changed between two snapshots of a subnet, and remembers
// it by generation, so that a host that missed a notice learns what it missed. It works by source
// switch and destination LID; pairs of ports are never enumerated.
//
// A Comparer belongs to one goroutine. A View is immutable.
package pathlog

import (
	"cmp"
	"slices"

	"heddle/ib"
)

const (
	// maxChanges and maxSize bound the memory of a Log: generations, and bytes.
	maxChanges = 256
	maxSize    = 8 << 20
)

// Change is what changed with one generation. It is immutable once it is in a Log.
type Change struct {
	Gen uint64
	// All: any path may have changed; nothing else is set.
	All bool
	SL  bool // a service level changed

	sources  []ib.GUID // ascending: ports from which any path may have changed
	moved    []Moved   // ascending GUID
	gone     []Gone    // ascending GUID
	switches []ib.GUID // ascending: source switches from which paths changed
	from     []part    // by index in switches
	reverse  []reverse // ascending port: single paths
	lids     []ib.LID  // of all parts and reverse paths
}

// Moved is a GUID that has another LID.
type Moved struct {
	GUID ib.GUID
	Was  ib.LID
}

// Gone is a GUID that left, with the P_Keys of its port. Subscribers hear of it by trap 65.
type Gone struct {
	GUID ib.GUID
	Was  ib.LID
	Keys []ib.PKey // not to be changed
}

// part is what changed from one switch: lids[at:at+n], or, with many, anything.
type part struct {
	at, n    int32
	sl, many bool
}

// reverse are paths from a port that changed while others from its switch did not, mostly because
// their reverse path did: to lids[at:at+n].
type reverse struct {
	port  ib.GUID
	at, n int32
}

func compare(a, b ib.GUID) int { return cmp.Compare(a, b) }

// Empty reports whether no host sees a difference.
func (c *Change) Empty() bool { return len(c.gone) == 0 && c.Departures() }

// Departures reports whether nothing changed but that GUIDs left.
func (c *Change) Departures() bool {
	return !c.All && len(c.sources)+len(c.moved)+len(c.switches)+len(c.reverse) == 0
}

// PortPaths are the paths from a port to some LIDs.
type PortPaths struct {
	Port ib.GUID
	LIDs []ib.LID
}

// Paths is the change of single paths, in ascending order of ports.
func Paths(list []PortPaths) *Change {
	c := &Change{}
	for i := range list {
		x := &list[i]
		c.reverse = append(c.reverse, reverse{x.Port, int32(len(c.lids)), int32(len(x.LIDs))})
		c.lids = append(c.lids, x.LIDs...)
	}
	return c
}

func (c *Change) size() int {
	return 64 + 8*len(c.sources) + 16*len(c.moved) + 40*len(c.gone) + 20*len(c.switches) + 16*len(c.reverse) + 2*len(c.lids)
}

// Source is a port whose paths are asked for.
type Source struct {
	Port, Physical ib.GUID // the same unless the port is virtual
	Switch         ib.GUID // that it is linked to; 0: none
}

// Found is what changed for a Source.
type Found struct {
	All  bool // any path may have changed; nothing else is set but SL
	SL   bool // a service level changed
	LIDs []ib.LID
	// Moved are GUIDs, possibly of the source itself, to which all paths changed.
	Moved []Moved
	// Gone are GUIDs that left, and may be back: paths to them are lost or changed.
	Gone []Gone
}

// Empty reports whether no path changed but those to GUIDs that left.
func (f *Found) Empty() bool { return !f.All && len(f.LIDs)+len(f.Moved) == 0 }

// For returns what changed for a source. The caller must not change the slices.
func (c *Change) For(src Source) (f Found) {
	_, port := slices.BinarySearch(c.sources, src.Port)
	_, physical := slices.BinarySearch(c.sources, src.Physical)
	f.All = c.All || port || physical
	i, ok := slices.BinarySearch(c.switches, src.Switch)
	if ok {
		p := c.from[i]
		f.All, f.SL = f.All || p.many, p.sl
		f.LIDs = c.lids[p.at : p.at+p.n]
	}
	if f.All {
		f.LIDs = nil
		return f
	}
	f.Moved, f.Gone = c.moved, c.gone
	for _, g := range [...]ib.GUID{src.Port, src.Physical} {
		i, _ := slices.BinarySearchFunc(c.reverse, g, func(r reverse, g ib.GUID) int { return compare(r.port, g) })
		for ; i < len(c.reverse) && c.reverse[i].port == g; i++ {
			f.LIDs = merge(f.LIDs, c.lids[c.reverse[i].at:c.reverse[i].at+c.reverse[i].n])
		}
	}
	return f
}

// merge returns the union of two lists, ascending, and changes neither.
func merge(a, b []ib.LID) []ib.LID {
	list := slices.Concat(a, b)
	slices.Sort(list)
	return slices.Compact(list)
}

// View is what a Log knows at some time.
type View struct {
	Gen     uint64 // the newest generation
	base    uint64 // the oldest generation since which all changes are remembered
	changes []*Change
}

// Since returns what changed for a source since a generation.
func (v *View) Since(gen uint64, src Source) (f Found) {
	if gen > v.Gen || gen < v.base {
		return Found{All: true}
	}
	several := false
	for _, c := range v.changes {
		if c.Gen <= gen {
			continue
		}
		x := c.For(src)
		if x.SL {
			f.SL = true
		}
		if gone := x.Gone; len(gone) > 0 {
			f.Gone = slices.Concat(f.Gone, gone)
		}
		switch {
		case f.All:
		case x.All:
			f = Found{All: true, SL: f.SL}
		case f.Empty():
			f.LIDs, f.Moved = x.LIDs, x.Moved
		case !x.Empty():
			f.LIDs, f.Moved = merge(f.LIDs, x.LIDs), slices.Concat(f.Moved, x.Moved)
			several = true
		}
	}
	if f.All {
		f.Gone = nil
	}
	if several {
		slices.SortStableFunc(f.Moved, func(a, b Moved) int { return compare(a.GUID, b.GUID) })
	}
	return f
}

// Log remembers changes. Generations of one history differ in their lower 32 bits only.
type Log struct {
	view View
	size int
}

// Begin starts a history at a generation: nothing is known of the time before.
func (l *Log) Begin(gen uint64) { *l = Log{view: View{Gen: gen, base: gen}} }

// Gen is the newest generation.
func (l *Log) Gen() uint64 { return l.view.Gen }

// Add gives a change the next generation. The oldest changes are forgotten when there are too
// many.
func (l *Log) Add(c *Change) {
	l.view.Gen++
	c.Gen = l.view.Gen
	list := append(slices.Clip(l.view.changes), c) // Views keep theirs
	for l.size += c.size(); len(list) > maxChanges || l.size > maxSize && len(list) > 1; list = list[1:] {
		l.size -= list[0].size()
		l.view.base = list[0].Gen
	}
	l.view.changes = list
}

// View returns what the log knows now.
func (l *Log) View() *View {
	v := l.view
	return &v
}

// Since is View.Since.
func (l *Log) Since(gen uint64, src Source) Found { return l.view.Since(gen, src) }
