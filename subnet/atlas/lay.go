package atlas

import (
	"math"
	"slices"
)

// Sizes on the map. A switch is a square of side 5, a host one of 2.
const (
	cellSize = 10 // of a switch without hosts
	hostStep = 4  // between hosts
	hostTop  = 8  // from a switch to its first hosts
	padding  = 8  // around the switches of a group
	levelGap = 26 // between two levels of a tree
	groupGap = 24
	sideGap  = 110 // between the top of a tree and its pods
)

// cell is the room of a switch with hosts: its size, and the columns of the hosts.
func cell(hosts int32) (w, h float32, columns int) {
	if hosts == 0 {
		return cellSize, cellSize, 1
	}
	columns = min(max(int(math.Ceil(math.Sqrt(float64(hosts)/2))), 1), 8)
	rows := (int(hosts) + columns - 1) / columns
	return max(cellSize, float32(columns*hostStep+2)), float32(cellSize + rows*hostStep), columns
}

// lay gives everything its place.
func (a *Atlas) lay() {
	var most int32
	for i := range a.switches {
		most = max(most, a.switches[i].hosts)
	}
	var pods, tops []*group
	for i := range a.groups {
		g := &a.groups[i]
		if g.kind == "top" {
			tops = append(tops, g)
		} else {
			pods = append(pods, g)
		}
	}
	for _, g := range pods {
		a.inside(g, most)
	}
	switch {
	case a.kind == Tree:
		a.band(pods, tops)
	default:
		a.around(pods)
	}
	for i := range a.groups {
		g := &a.groups[i]
		a.w0, a.h0 = max(a.w0, g.x+g.w), max(a.h0, g.y+g.h)
		for _, s := range g.switches {
			a.switches[s].x += g.x
			a.switches[s].y += g.y
		}
	}
	for i := range a.hosts {
		h := &a.hosts[i]
		s := &a.switches[h.home]
		_, _, columns := cell(s.hosts)
		k := i - int(a.first[h.home])
		row, col := k/columns, k%columns
		h.x = s.x + (float32(col)-float32(columns-1)/2)*hostStep
		dy := float32(hostTop + row*hostStep)
		if a.kind == Tree && a.above(s.group) {
			dy = -dy
		}
		h.y = s.y + dy
	}
}

// above reports whether a group of a tree is above its top, so that its leaves are at its upper edge.
func (a *Atlas) above(g int32) bool {
	n := 0
	for i := range a.groups {
		if a.groups[i].kind != "top" {
			n++
		}
	}
	return n > 1 && int(g) < (n+1)/2
}

// inside places the switches of a group in its box, and gives the box its size.
func (a *Atlas) inside(g *group, most int32) {
	if a.coords != nil {
		a.insideGrid(g, most)
		return
	}
	rows := map[int32][]int32{} // by level
	for _, s := range g.switches {
		rows[a.switches[s].level] = append(rows[a.switches[s].level], s)
	}
	if a.kind != Tree {
		rows = map[int32][]int32{1: g.switches}
	}
	levels := make([]int32, 0, len(rows))
	for l := range rows {
		levels = append(levels, l)
	}
	slices.Sort(levels)
	slices.Reverse(levels) // the leaves are below
	type band struct {
		list    []int32
		w, h    float32
		columns int
	}
	var bands []band
	width := float32(0)
	for _, l := range levels {
		hosts := int32(0)
		for _, s := range rows[l] {
			hosts = max(hosts, a.switches[s].hosts)
		}
		if hosts > 0 {
			hosts = max(hosts, most/2) // groups that differ in few hosts are equally large
		}
		b := band{list: rows[l]}
		b.w, b.h, _ = cell(hosts)
		b.columns = max(1, int(math.Ceil(math.Sqrt(float64(len(b.list))*float64(b.w)*float64(b.h)*0.8)/float64(b.w))))
		bands = append(bands, b)
		width = max(width, float32(b.columns)*b.w)
	}
	y := float32(2 * padding) // and room for the name
	for i, b := range bands {
		if i > 0 {
			y += levelGap
		}
		b.columns = max(b.columns, int(width/b.w))
		b.columns = min(b.columns, len(b.list))
		lines := (len(b.list) + b.columns - 1) / b.columns
		b.columns = (len(b.list) + lines - 1) / lines // of equal length
		step := width / float32(b.columns)
		for k, s := range b.list {
			a.switches[s].x = padding + (float32(k%b.columns)+0.5)*step
			a.switches[s].y = y + float32(k/b.columns)*b.h + cellSize/2
		}
		y += float32((len(b.list)+b.columns-1)/b.columns) * b.h
	}
	g.w, g.h = width+2*padding, y+padding
}

// insideGrid places the switches of a group by their coordinates in the grid.
func (a *Atlas) insideGrid(g *group, most int32) {
	w, h, _ := cell(most)
	w, h = w+cellSize/2, h+cellSize/2 // room for cables
	for _, s := range g.switches {
		a.switches[s].x = padding + (float32(a.coords[s][0])+0.5)*w
		a.switches[s].y = 2*padding + float32(a.coords[s][1])*h + cellSize/2
	}
	g.w, g.h = float32(a.columns)*w+2*padding, float32(a.rows)*h+3*padding
}

// band places the groups of a tree above and below its top.
func (a *Atlas) band(pods, tops []*group) {
	half := len(pods)
	if half > 1 {
		half = (len(pods) + 1) / 2
	} else {
		half = 0
	}
	rows := 1
	if len(pods) > 48 {
		rows = 2
	}
	columns := max(1, (max(half, len(pods)-half)+rows-1)/rows)
	w, h := float32(0), float32(0)
	for _, g := range pods {
		w, h = max(w, g.w), max(h, g.h)
	}
	width := float32(columns)*(w+groupGap) - groupGap
	put := func(list []*group, y float32) {
		for i, g := range list {
			g.x = float32(i%columns)*(w+groupGap) + (w-g.w)/2
			g.y = y + float32(i/columns)*(h+groupGap)
		}
	}
	y := float32(0)
	if half > 0 {
		put(pods[:half], 0)
		for _, g := range pods[:half] { // the leaves away from the top
			for _, s := range g.switches {
				a.switches[s].y = g.h - a.switches[s].y + padding
			}
			g.y += h - g.h
		}
		y = float32((half+columns-1)/columns)*(h+groupGap) - groupGap + sideGap
	}
	total := 0
	for _, g := range tops {
		total += len(g.switches)
	}
	for _, g := range tops {
		share := max(4*cellSize, (width-float32(len(tops)-1)*groupGap)*float32(len(g.switches))/float32(total))
		share = min(share, max(float32(len(g.switches)*3*cellSize), 8*cellSize))
		n := max(1, int((share-2*padding)/cellSize))
		n = min(n, len(g.switches))
		n = (len(g.switches) + (len(g.switches)+n-1)/n - 1) / ((len(g.switches) + n - 1) / n) // rows of equal length
		step := (share - 2*padding) / float32(n)
		for k, s := range g.switches {
			a.switches[s].x = padding + (float32(k%n)+0.5)*step
			a.switches[s].y = 2*padding + (float32(k/n)+0.5)*cellSize
		}
		g.w, g.h = share, 3*padding+float32((len(g.switches)+n-1)/n)*cellSize
		g.y = y
	}
	x, high, wide := float32(0), float32(0), float32(-groupGap)
	for _, g := range tops {
		wide, high = wide+g.w+groupGap, max(high, g.h)
	}
	for _, g := range tops {
		g.x = x + max(0, (width-wide)/2)
		x += g.w + groupGap
	}
	put(pods[half:], y+high+sideGap)
}

// around places groups on an ellipse, so that bundles cross no third group; rows of a grid in two
// dimensions one above the other, and many groups in a square.
func (a *Atlas) around(list []*group) {
	w, h := float32(0), float32(0)
	for _, g := range list {
		w, h = max(w, g.w), max(h, g.h)
	}
	n := len(list)
	switch {
	case a.plane:
		for i, g := range list {
			g.y = float32(i) * (h + groupGap/2)
		}
	case n > fewGroups || n < 3:
		columns := int(math.Ceil(math.Sqrt(float64(n) * 1.6 * float64(h) / float64(max(w, 1)))))
		columns = min(max(columns, 1), max(n, 1))
		for i, g := range list {
			g.x, g.y = float32(i%columns)*(w+groupGap), float32(i/columns)*(h+groupGap)
		}
	default:
		r := math.Hypot(float64(w+groupGap), float64(h+groupGap)) / (2 * math.Sin(math.Pi/float64(n)))
		rx, ry := 1.6*r, r
		for i, g := range list {
			t := 2*math.Pi*float64(i)/float64(n) - math.Pi/2
			g.x = float32(rx+rx*math.Cos(t)) + (w-g.w)/2
			g.y = float32(ry+ry*math.Sin(t)) + (h-g.h)/2
		}
	}
}
