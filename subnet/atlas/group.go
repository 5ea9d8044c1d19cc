package atlas

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"heddle/fabric"
	"heddle/route/engine/grid"
)

// join makes the groups.
func (a *Atlas) join() {
	if len(a.switches) == 0 {
		a.kind = Pieces
		return
	}
	parts := a.tree()
	if a.kind == "" {
		parts = a.dense()
	}
	if a.kind == "" {
		parts = a.grid()
	}
	if a.kind == "" {
		a.kind, parts = Pieces, nil
		for _, c := range a.components(func(int32, int32) bool { return true }, nil) {
			parts = append(parts, a.pieces(c)...)
		}
	}
	for most := maxGroups; ; most = fewGroups {
		a.set(parts, most)
		if most == fewGroups || len(a.groups)+len(a.links) <= MaxShapes-MaxProblems {
			return
		}
	}
}

// part is a group to be.
type part struct {
	kind     string
	switches []int32
}

// set makes groups of parts, several of one if there are more than most.
func (a *Atlas) set(parts []part, most int) {
	if a.kind != Grid { // its parts are in order along a dimension
		slices.SortStableFunc(parts, func(x, y part) int {
			return cmp.Or(cmp.Compare(b2i(x.kind == "top"), b2i(y.kind == "top")), cmp.Compare(x.switches[0], y.switches[0]))
		})
	}
	each := (len(parts) + most - 1) / most
	a.groups = a.groups[:0]
	for len(parts) > 0 {
		g := group{kind: parts[0].kind}
		n := 1
		for n < each && n < len(parts) && parts[n].kind == g.kind {
			n++
		}
		for _, p := range parts[:n] {
			g.switches = append(g.switches, p.switches...)
		}
		parts = parts[n:]
		slices.Sort(g.switches)
		g.id = a.w.Nodes[a.switches[g.switches[0]].at].GUID
		a.groups = append(a.groups, g)
	}
	for i := range a.groups {
		for _, s := range a.groups[i].switches {
			a.switches[s].group = int32(i)
			a.groups[i].hosts += a.switches[s].hosts
		}
	}
	for i := range a.hosts {
		a.hosts[i].group = a.switches[a.hosts[i].home].group
	}
	clear(a.links)
	for k, b := range a.pairs {
		x, y := a.switches[k[0]].group, a.switches[k[1]].group
		if x == y {
			a.groups[x].inside += b.n
			continue
		}
		l := a.links[pair(x, y)]
		l.n, l.up = l.n+b.n, l.up+b.up
		a.links[pair(x, y)] = l
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// components are the connected parts of the switches for which in is true (nil: of all), by the edges
// that use permits, each ascending, in order of their first switch.
func (a *Atlas) components(use func(s, t int32) bool, in func(s int32) bool) (list [][]int32) {
	seen := make([]bool, len(a.switches))
	for s := range int32(len(a.switches)) {
		if seen[s] || in != nil && !in(s) {
			continue
		}
		seen[s] = true
		c := []int32{s}
		for k := 0; k < len(c); k++ {
			for _, t := range a.near[c[k]] {
				if !seen[t] && (in == nil || in(t)) && use(c[k], t) {
					seen[t] = true
					c = append(c, t)
				}
			}
		}
		slices.Sort(c)
		list = append(list, c)
	}
	return list
}

// levels numbers the switches as fabric.Layout does: those with hosts are on the first level.
func (a *Atlas) levels() (top int32) {
	var queue []int32
	for s := range a.switches {
		a.switches[s].level = 0
		if a.switches[s].hosts > 0 {
			a.switches[s].level = 1
			queue = append(queue, int32(s))
		}
	}
	for k := 0; k < len(queue); k++ {
		for _, t := range a.near[queue[k]] {
			if a.switches[t].level == 0 {
				a.switches[t].level = a.switches[queue[k]].level + 1
				queue = append(queue, t)
			}
		}
	}
	for s := range a.switches {
		top = max(top, a.switches[s].level)
	}
	return top
}

// tree finds pods: what is left of a tree in connected parts without its top level. The top is the
// highest level whose removal leaves no part with more than half of the switches; what is above it are
// pods without hosts, upside down.
func (a *Atlas) tree() []part {
	top := a.levels()
	steps, level := 0, 0
	for k := range a.pairs {
		d := a.switches[k[0]].level - a.switches[k[1]].level
		if d == 1 || d == -1 {
			steps++
		} else {
			level++
		}
	}
	if top < 2 || steps < 4*level {
		return nil
	}
	strong := a.strong()
	use := func(s, t int32) bool { return a.switches[s].level != a.switches[t].level && strong(s, t) }
	for cut := top; cut >= 2; cut-- {
		below := a.components(use, func(s int32) bool { return a.switches[s].level != cut })
		if len(below) < 2 || slices.ContainsFunc(below, func(c []int32) bool { return 2*len(c) > len(a.switches) }) {
			continue
		}
		a.kind = Tree
		return a.pods(below, cut, use)
	}
	return nil
}

// pods makes parts of what the cut of a tree at a level leaves.
func (a *Atlas) pods(below [][]int32, cut int32, use func(s, t int32) bool) (parts []part) {
	of := make([]int32, len(a.switches))
	for i := range of {
		of[i] = -1
	}
	for i, c := range below {
		for _, s := range c {
			of[s] = int32(i)
		}
	}
	var tops []int32
	for s := range int32(len(a.switches)) {
		if of[s] >= 0 {
			if n := &a.switches[s]; n.level > cut {
				n.level = max(1, 2*cut-n.level) // a pod without hosts
			}
			continue
		}
		// A leaf that has no host looks like the top, but its cables go to one pod.
		one := int32(-1)
		for _, t := range a.near[s] {
			switch {
			case of[t] < 0 || one == of[t]:
			case one < 0:
				one = of[t]
			default:
				one = -2
			}
			if one == -2 {
				break
			}
		}
		if one >= 0 && len(below[one]) > 1 {
			below[one] = append(below[one], s)
			a.switches[s].level = 1
			continue
		}
		tops = append(tops, s)
	}
	for _, c := range below {
		slices.Sort(c)
		if len(c) <= largeGroup || cut <= 3 {
			kind := "pod"
			if len(c) == 1 {
				kind = "leaf"
			}
			parts = append(parts, part{kind, c})
			continue
		}
		in := map[int32]bool{}
		for _, s := range c {
			in[s] = true
		}
		inner := a.components(use, func(s int32) bool { return in[s] && a.switches[s].level < cut-1 })
		var over []int32
		for _, s := range c {
			if a.switches[s].level >= cut-1 {
				over = append(over, s)
			}
		}
		if len(over) > 0 {
			parts = append(parts, part{"spine", over})
		}
		for _, x := range inner {
			parts = append(parts, part{"pod", x})
		}
	}
	if len(tops) > 0 {
		parts = append(parts, part{"top", tops})
	}
	return parts
}

// strong reports which cables belong to the structure around them: of the circles of three and four
// switches that their switches are in, they are in many. A cable that went to the wrong switch is in few,
// as is one between the groups of a dragonfly.
func (a *Atlas) strong() func(s, t int32) bool {
	n := len(a.switches)
	common := make([]int32, n) // adjacent switches that s and another have in common
	support := make(map[[2]int32]int32, len(a.pairs))
	most := make([]int32, n)
	for s := range int32(n) {
		for _, y := range a.near[s] {
			for _, z := range a.near[y] {
				common[z]++
			}
		}
		for _, t := range a.near[s] {
			if t < s {
				continue
			}
			c := common[t] // circles of three
			for _, z := range a.near[t] {
				if z != s {
					c += common[z] - 1
				}
			}
			support[[2]int32{s, t}] = c
			most[s], most[t] = max(most[s], c), max(most[t], c)
		}
		for _, y := range a.near[s] {
			for _, z := range a.near[y] {
				common[z] = 0
			}
		}
	}
	return func(s, t int32) bool { return 2*support[pair(s, t)] >= min(most[s], most[t]) }
}

// dense finds groups that have more cables inside than between them, or whose leaves have cables to
// spines of their own group alone, as in a dragonfly+.
func (a *Atlas) dense() []part {
	for _, use := range []func(s, t int32) bool{
		a.strong(),
		func(s, t int32) bool { return a.switches[s].level != a.switches[t].level },
	} {
		list := a.components(use, nil)
		alone := 0
		for _, c := range list {
			if len(c) < 3 {
				alone += len(c)
			}
		}
		if len(list) < 2 || 10*alone > len(a.switches) || slices.ContainsFunc(list, func(c []int32) bool {
			return len(c) > largeGroup || 2*len(c) > len(a.switches)
		}) {
			continue
		}
		parts := make([]part, len(list))
		for i, c := range list {
			parts[i] = part{"group", c}
		}
		a.kind = Dense
		return parts
	}
	return nil
}

// maxGridDegree bounds the search for a grid from which something is missing.
const maxGridDegree = 6

// grid finds the rows of a plane torus or mesh, or the planes of one with three dimensions.
func (a *Atlas) grid() (parts []part) {
	g := &fabric.Graph{Off: make([]int32, 1, len(a.switches)+1)}
	degree := 0
	for s := range a.switches {
		g.Switches = append(g.Switches, fabric.SwitchNode{GUID: a.w.Nodes[a.switches[s].at].GUID})
		for i, t := range a.near[s] {
			g.Channels = append(g.Channels, fabric.Channel{From: int32(s), To: t, OutPort: uint8(min(i+1, 255))})
		}
		degree = max(degree, len(a.near[s]))
		g.Off = append(g.Off, int32(len(g.Channels)))
	}
	if len(a.switches) < 8 || degree > 250 {
		return nil
	}
	var found *grid.Grid
	if err := grid.Find(grid.NewNet(g, nil), degree <= maxGridDegree, func(x *grid.Grid) error {
		found = x
		return nil
	}); err != nil || found == nil || len(found.Dims) < 2 {
		return nil
	}
	a.kind, a.shape = Grid, found.String()
	return a.slices(found)
}

// slices divides a grid along its first dimensions, so that there are about as many parts as switches in
// one, and notes where the others place switches: x and y of a plane.
func (a *Atlas) slices(g *grid.Grid) (parts []part) {
	total, dims := 1.0, len(g.Dims)
	for _, d := range g.Dims {
		total *= float64(d.Size)
	}
	// The split and the width of a plane are products of dimensions: the last before cut and at, which
	// come nearest to the root of what is to be split.
	nearest := func(from, end int, root float64) (to, size int) {
		best := math.Inf(1)
		for k, n := from, 1; k < end; k++ {
			n *= g.Dims[k].Size
			if far := math.Abs(math.Log(float64(n) / root)); far < best-1e-9 {
				best, to, size = far, k+1, n
			}
		}
		return to, size
	}
	cut, count := nearest(0, max(1, dims-2), math.Sqrt(total)) // planes, and rows of a plane grid
	mid, rows := cut, 1
	if dims-cut > 1 {
		mid, rows = nearest(cut, dims-1, math.Sqrt(total/float64(count)))
	}
	a.columns, a.rows = int(total)/count/rows, rows
	a.coords = make([][2]int32, len(a.switches))
	parts = make([]part, count)
	for s := range a.coords {
		c := int(g.Cell[s])
		x := c % a.columns
		y := c / a.columns % rows
		at := c / a.columns / rows
		a.coords[s] = [2]int32{int32(x), int32(y)}
		parts[at].switches = append(parts[at].switches, int32(s))
	}
	kind := "row"
	a.plane = dims == 2
	if mid > cut {
		kind = "plane"
	}
	for i := range parts {
		parts[i].kind = kind
	}
	return slices.DeleteFunc(parts, func(p part) bool { return len(p.switches) == 0 })
}

// pieces divides a connected part into compact ones: switches that are at least r cables apart each get
// what is nearest to them. They are taken in order of their GUID, so that a change moves little.
func (a *Atlas) pieces(c []int32) (parts []part) {
	const few = 24 // switches that are one piece
	if len(c) <= few {
		return []part{{"part", c}}
	}
	want := int(1.3 * math.Sqrt(float64(len(c))))
	var seeds []int32
	for r := int32(2); ; r++ {
		seeds = seeds[:0]
		dist := make([]int32, len(a.switches))
		for i := range dist {
			dist[i] = r
		}
		for _, s := range c {
			if dist[s] < r {
				continue
			}
			seeds = append(seeds, s)
			dist[s] = 0
			queue := []int32{s}
			for k := 0; k < len(queue); k++ {
				for _, t := range a.near[queue[k]] {
					if d := dist[queue[k]] + 1; d < dist[t] {
						dist[t] = d
						queue = append(queue, t)
					}
				}
			}
		}
		if len(seeds) <= want {
			break
		}
	}
	of := make([]int32, len(a.switches))
	for i := range of {
		of[i] = -1
	}
	for i, s := range seeds {
		of[s] = int32(i)
	}
	queue := slices.Clone(seeds)
	for k := 0; k < len(queue); k++ {
		for _, t := range a.near[queue[k]] {
			if of[t] < 0 {
				of[t] = of[queue[k]]
				queue = append(queue, t)
			}
		}
	}
	parts = make([]part, len(seeds))
	for i := range parts {
		parts[i].kind = "part"
	}
	for _, s := range c {
		parts[of[s]].switches = append(parts[of[s]].switches, s)
	}
	return parts
}

// name gives groups their names: that of the switch, if there is one, otherwise a number and how the
// names of its switches begin.
func (a *Atlas) name() {
	count := map[string]int{}
	total := map[string]int{}
	for i := range a.groups {
		total[a.groups[i].kind]++
	}
	for i := range a.groups {
		g := &a.groups[i]
		count[g.kind]++
		switch {
		case len(g.switches) == 1:
			g.name = a.w.Nodes[a.switches[g.switches[0]].at].Name
		case total[g.kind] == 1:
			g.name = g.kind
		default:
			g.name = fmt.Sprintf("%s %d", g.kind, count[g.kind])
		}
		if p := a.prefix(g); p != "" && len(g.switches) > 1 {
			g.name += " (" + p + "…)"
		}
	}
}

// prefix is how the names of all switches of a group begin, if that is not how those of all groups do.
func (a *Atlas) prefix(g *group) string {
	name := func(s int32) string { return a.w.Nodes[a.switches[s].at].Name }
	common := func(p, q string) string {
		n := 0
		for n < len(p) && n < len(q) && p[n] == q[n] {
			n++
		}
		return p[:n]
	}
	p := name(g.switches[0])
	for _, s := range g.switches[1:] {
		p = common(p, name(s))
	}
	if len(p) < 3 {
		return ""
	}
	for s := range int32(len(a.switches)) {
		if a.switches[s].group != a.switches[g.switches[0]].group && strings.HasPrefix(name(s), p) {
			return ""
		}
	}
	return p
}
