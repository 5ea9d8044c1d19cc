package ftree

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// tree is a graph seen as a fat tree, with all that determines its tables. It
// is immutable once newTree has returned it.
//
// Destinations are LIDs and, above TopLID, one for each switch.
type tree struct {
	g     *fabric.Graph
	n     int
	words int // of a set of switches
	note  string
	asked uint64 // the options

	compute []ib.GUID // sorted; nil: every CA
	io      []ib.GUID

	components
	attached
	ranks
	layout
	columnLinks
	detours

	doubt bool // the tables must be searched for cycles
}

// components are the connected parts of the graph.
type components struct {
	part     []int32 // by switch: its part
	place    []int32 // by switch: its position in its part
	partSize []int32
	hasCA    []bool   // by part
	plain    [][]byte // by part without CAs: next ports, by position in the part
}

// attached are the end ports of each switch.
type attached struct {
	cas    []int32 // by switch: CA and router ports with LIDs
	lidOff []int32 // LIDs attached to switch s are lids[lidOff[s]:lidOff[s+1]], port by port
	lids   []ib.LID
}

// ranks say which links go up.
type ranks struct {
	height int    // the highest level
	level  []int8 // by switch, 0 the lowest; -1 in a part without CAs
	order  []int32
	upOff  []int32 // channels of s to the next level are up[upOff[s]:upOff[s+1]]
	up     []int32
	dnOff  []int32
	dn     []int32
	below  []uint64   // by switch: those that it can go down to, itself too
	reach  [][]uint64 // [p][switch]: those with a path up, at most to level p, then down
}

// layout numbers switches, their links up and their CA ports.
type layout struct {
	label  []int32 // by switch: its digit for the switches below it
	width  []int32 // by switch: digits of the switches above it
	start  []int32 // by switch: the number of its first CA port
	number []int32 // by switch: the number of its port 0
	offset []int32 // links up from switch s by digit are slot[offset[s]:offset[s+1]], -1 for none
	slot   []int32
	base   []int32 // by switch: how many that are
	ghosts []ghost
}

// columnLinks are the links of each destination's column.
type columnLinks struct {
	dst   []int32    // by destination: its switch, or -1
	key   []int32    // by destination: its number
	pos   [][]uint16 // [level][destination]: the digit of its column's link up from this level
	chain [][]int32  // [level][destination]: that link, as a channel up; -1 for none
	plan  [][]uint16 // [level][destination]: the digit without missing links
	peer  [][]uint16 // [level][destination]: the label of its column's switch
}

// detours route pairs without a path up then down.
type detours struct {
	pivot  []int32    // by part; -1 for none
	exit   []uint8    // by switch: the port toward its component's pivot
	many   [][]int32  // by part with several pivots: that of each pair, by positions; -1 for none
	lonely [][2]int32 // switches with CAs that have no path up then down to each other
}

// Maker implements route.Memory.
func (*tree) Maker() string { return "ftree" }

// none is no digit.
const none = 0xFFFF

// ghost is the stored state of a removed switch.
type ghost struct {
	guid                              ib.GUID
	level                             int8
	label, width, base, start, number int32
}

func has(set []uint64, s int32) bool { return set[s>>6]>>(s&63)&1 != 0 }

func (t *tree) below1(s int32) []uint64 { return t.below[int(s)*t.words:][:t.words] }

func (t *tree) reach1(p int, s int32) []uint64 { return t.reach[p][int(s)*t.words:][:t.words] }

func (t *tree) ups(s int32) []int32 { return t.up[t.upOff[s]:t.upOff[s+1]] }

func (t *tree) downs(s int32) []int32 { return t.dn[t.dnOff[s]:t.dnOff[s+1]] }

func (t *tree) slots(s int32) []int32 { return t.slot[t.offset[s]:t.offset[s+1]] }

func count(set []uint64) int {
	k := 0
	for _, w := range set {
		k += bits.OnesCount64(w)
	}
	return k
}

func (t *tree) say(format string, a ...any) {
	if t.note != "" {
		t.note += "; "
	}
	t.note += fmt.Sprintf(format, a...)
}

// options sorts the GUID lists and reports those that the fabric does not have.
func (t *tree) options(o route.Options) {
	g := t.g
	ports := func(list []ib.GUID, what string) []ib.GUID {
		if list == nil {
			return nil
		}
		sorted := slices.Clone(list)
		slices.Sort(sorted)
		sorted = slices.Compact(sorted)
		missing := 0
		for _, guid := range sorted {
			if _, ok := slices.BinarySearchFunc(g.EndPorts, guid, func(e fabric.EndPort, b ib.GUID) int { return cmp.Compare(e.GUID, b) }); !ok {
				missing++
			}
		}
		if missing > 0 {
			t.say("%d of %d given %s are not in the fabric", missing, len(sorted), what)
		}
		return sorted
	}
	t.compute = ports(o.ComputeNodes, "compute nodes")
	t.io = ports(o.IONodes, "I/O nodes")
}

func (t *tree) isCompute(e *fabric.EndPort) bool {
	if t.compute == nil {
		return true
	}
	_, ok := slices.BinarySearch(t.compute, e.GUID)
	return ok
}

// findParts finds the connected parts and sorts the LIDs by switch.
func (t *tree) findParts() {
	g := t.g
	t.part, t.place = make([]int32, t.n), make([]int32, t.n)
	t.cas = make([]int32, t.n)
	t.dst = make([]int32, int(g.TopLID)+1+t.n)
	t.lidOff = make([]int32, t.n+1)
	t.dst[0] = -1
	counted := make([]bool, len(g.EndPorts))
	for l := 1; l <= int(g.TopLID); l++ {
		t.dst[l] = -1
		e := g.LIDOwner[l]
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 {
			continue
		}
		p := &g.EndPorts[e]
		t.dst[l] = p.Switch
		t.lidOff[p.Switch+1]++
		if !counted[e] && p.Type != ib.NodeSwitch {
			t.cas[p.Switch]++
		}
		counted[e] = true
	}
	for s := range t.n {
		t.dst[int(g.TopLID)+1+s] = int32(s)
		t.lidOff[s+1] += t.lidOff[s]
	}
	t.lids = make([]ib.LID, t.lidOff[t.n])
	next := slices.Clone(t.lidOff)
	for l := 1; l <= int(g.TopLID); l++ {
		if d := t.dst[l]; d >= 0 {
			t.lids[next[d]] = ib.LID(l)
			next[d]++
		}
	}
	// By port, and per port the base LID first: LIDs outside its range come and
	// go, and must not move others.
	for s := range t.n {
		slices.SortFunc(t.lids[t.lidOff[s]:t.lidOff[s+1]], func(a, b ib.LID) int {
			e, f := g.LIDOwner[a], g.LIDOwner[b]
			x, y := g.EndPorts[e].LID, g.EndPorts[f].LID
			return cmp.Or(cmp.Compare(x, y), cmp.Compare(e, f), cmp.Compare(a-x, b-y))
		})
	}

	for s := range t.part {
		t.part[s] = -1
	}
	queue := make([]int32, 0, t.n)
	for s := range int32(t.n) {
		if t.part[s] >= 0 {
			continue
		}
		k := int32(len(t.partSize))
		t.part[s] = k
		queue = append(queue[:0], s)
		ca := false
		for h := 0; h < len(queue); h++ {
			u := queue[h]
			t.place[u] = int32(h)
			ca = ca || t.cas[u] > 0
			for _, c := range g.Channels[g.Off[u]:g.Off[u+1]] {
				if t.part[c.To] < 0 {
					t.part[c.To] = k
					queue = append(queue, c.To)
				}
			}
		}
		t.partSize = append(t.partSize, int32(len(queue)))
		t.hasCA = append(t.hasCA, ca)
		var ports []byte
		if !ca {
			ports = t.shortest(queue)
		}
		t.plain = append(t.plain, ports)
	}
}

// shortest routes a part without CAs by shortest paths: nothing there can
// wait for anything.
func (t *tree) shortest(members []int32) []byte {
	g := t.g
	k := len(members)
	ports := make([]byte, k*k)
	queue := make([]int32, 0, k)
	for _, d := range members {
		queue = append(queue[:0], d)
		for h := 0; h < len(queue); h++ {
			for _, c := range g.Channels[g.Off[queue[h]]:g.Off[queue[h]+1]] {
				at := &ports[int(t.place[c.To])*k+int(t.place[d])]
				if *at == 0 && c.To != d {
					*at = c.InPort
					queue = append(queue, c.To)
				}
			}
		}
	}
	return ports
}
