package atlas

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"heddle/ib"
	"heddle/subnet/wiring"
)

// Map is one map. Bundles name things by their number: groups from 0, then switches, then hosts, in the
// order of the lists.
type Map struct {
	Level    int          `json:"level" doc:"1: bundles between groups; 2: switches, with a bundle for each pair; 3: with hosts and their cables"`
	Unit     string       `json:"unit,omitempty" doc:"the group whose switches are shown; empty: all"`
	Kind     string       `json:"kind" doc:"how groups were found: tree, groups, grid, parts"`
	Shape    string       `json:"shape,omitempty" doc:"of a grid: 6x5 torus"`
	Width    float32      `json:"w" doc:"of the whole map; all coordinates are within it, y downwards"`
	Height   float32      `json:"h"`
	Groups   []MapGroup   `json:"groups"`
	Switches []MapSwitch  `json:"switches"`
	Hosts    []MapHost    `json:"hosts"`
	Bundles  []MapBundle  `json:"bundles"`
	Problems []MapProblem `json:"problems" doc:"nodes and cables with which something is wrong, each singly, the gravest first; then links out of use"`
	Changes  []MapProblem `json:"changes,omitempty" doc:"what differs from an earlier state, as problems"`
	More     int          `json:"more_problems,omitempty" doc:"problems and changes for which there was no room"`
	Left     []string     `json:"left_out,omitempty" doc:"what is not shown because there would be too many shapes"`
	Unplaced int          `json:"unplaced,omitempty" doc:"nodes that hang on no switch"`
}

// MapGroup is a part of the subnet: a box of the map.
type MapGroup struct {
	ID       string  `json:"id" doc:"node GUID of its first switch"`
	Name     string  `json:"name"`
	Kind     string  `json:"kind"`
	X        float32 `json:"x" doc:"left edge"`
	Y        float32 `json:"y" doc:"upper edge"`
	W        float32 `json:"w"`
	H        float32 `json:"h"`
	Switches int     `json:"switches"`
	Hosts    int     `json:"hosts"`
	Lost     int     `json:"hosts_lost" doc:"of them without an active cable"`
	Inside   int     `json:"cables" doc:"between its switches"`
	Problems int     `json:"problems"`
	OutOfUse int     `json:"out_of_use,omitempty" doc:"links with an end in it that an operator or a rule drained, isolated or restored: no problems"`
}

// MapSwitch is a switch of the map; the place is its middle.
type MapSwitch struct {
	ID    string  `json:"id" doc:"node GUID"`
	Name  string  `json:"name"`
	Group int     `json:"g" doc:"its group"`
	X     float32 `json:"x"`
	Y     float32 `json:"y"`
	Hosts int     `json:"hosts"`
	Lost  int     `json:"lost,omitempty" doc:"hosts without an active cable"`
	State string  `json:"state,omitempty" doc:"absent: ok"`
}

// MapHost is an adapter or a router.
type MapHost struct {
	ID    string  `json:"id" doc:"node GUID"`
	Name  string  `json:"name"`
	X     float32 `json:"x"`
	Y     float32 `json:"y"`
	State string  `json:"state,omitempty" doc:"absent: ok"`
}

// MapBundle is the cables between two things.
type MapBundle struct {
	A  int32 `json:"a"`
	B  int32 `json:"b"`
	N  int32 `json:"n" doc:"cables, those that have gone too"`
	Up int32 `json:"up" doc:"of them active"`
}

// MapProblem is a node or cable with which something is wrong.
type MapProblem struct {
	State string  `json:"state" doc:"not active, held down, left out, does not answer, gone, drained, isolated, restored, or the severity of a finding"`
	Text  string  `json:"text"`
	Since int64   `json:"since,omitempty" doc:"seconds since 1970, if that is known"`
	AName string  `json:"a_name"`
	AID   string  `json:"a" doc:"node GUID"`
	APort int     `json:"a_port" doc:"0: the node"`
	BName string  `json:"b_name,omitempty"`
	BID   string  `json:"b,omitempty"`
	BPort int     `json:"b_port,omitempty"`
	X     float32 `json:"x" doc:"where the first end is"`
	Y     float32 `json:"y"`
	X2    float32 `json:"x2" doc:"where the other end is; that of a node is itself"`
	Y2    float32 `json:"y2"`
}

// Mark is something that is wrong with a port, or with port 0 with a node, and that is not in the wiring:
// a finding, or a port that an operator has taken out of use.
type Mark struct {
	wiring.End
	State string // severity, or what was done: drained, isolated, restored
	Text  string
	Since int64 // seconds since 1970; 0: not known
	// Instead: it says why the cable at the port is as it is, which is then not said otherwise. It was
	// taken out of use on purpose, so it is no problem of its groups.
	Instead bool
}

// Query says which map is wanted.
type Query struct {
	Level int     // 1–3; the whole subnet has no level 3, and a group no level 1
	Unit  ib.GUID // any node of a group; 0: the whole subnet
	Marks []Mark
	// Since is an earlier state: what differs from it is shown; nil: nothing is.
	Since *wiring.Wiring
}

// Map draws a map. The error says that no group has the node of the query.
func (a *Atlas) Map(q Query) (*Map, error) {
	level, unit := q.Level, q.Unit
	m := &Map{
		Level: min(max(level, 1), 3), Kind: a.kind, Shape: a.shape, Width: round(a.w0), Height: round(a.h0), Unplaced: a.unplaced,
		Groups: make([]MapGroup, 0, len(a.groups)), Switches: []MapSwitch{}, Hosts: []MapHost{}, Bundles: []MapBundle{}, Problems: []MapProblem{},
	}
	own := int32(-1)
	if unit != 0 {
		p, ok := a.Find(unit)
		if !ok {
			return nil, fmt.Errorf("no group of the map has a node %v", unit)
		}
		own = a.groupOf(p.Group)
		m.Unit = p.Group.String()
		m.Level = max(m.Level, 2)
	} else {
		m.Level = min(m.Level, 2)
	}
	for i := range a.groups {
		g := &a.groups[i]
		x := MapGroup{
			ID: g.id.String(), Name: g.name, Kind: g.kind, X: round(g.x), Y: round(g.y), W: round(g.w), H: round(g.h),
			Switches: len(g.switches), Hosts: int(g.hosts), Inside: int(g.inside),
		}
		for _, s := range g.switches {
			x.Lost += int(a.switches[s].lost)
		}
		m.Groups = append(m.Groups, x)
	}
	a.problems(m, q.Marks)
	if q.Since != nil {
		a.changes(m, q.Since)
	}
	d := drawing{a: a, m: m, room: MaxShapes - len(m.Groups) - len(m.Problems) - len(m.Changes), own: own, at: map[int32]int32{}}
	d.draw()
	return m, nil
}

func round(x float32) float32 { return float32(math.Round(float64(x)*10) / 10) }

func (a *Atlas) groupOf(id ib.GUID) int32 {
	return int32(slices.IndexFunc(a.groups, func(g group) bool { return g.id == id }))
}

// drawing fills a map while there is room.
type drawing struct {
	a    *Atlas
	m    *Map
	room int
	own  int32           // the group whose inside is drawn; -1: all
	at   map[int32]int32 // by switch: its number among the things
}

// add adds bundles that have room together; ok is false, and what is missing noted, if they have not.
func (d *drawing) add(what string, list []MapBundle) (ok bool) {
	if len(list) > d.room {
		d.m.Left = append(d.m.Left, fmt.Sprintf("%d %s", len(list), what))
		return false
	}
	slices.SortFunc(list, func(x, y MapBundle) int { return cmp.Or(cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B)) })
	d.m.Bundles = append(d.m.Bundles, list...)
	d.room -= len(list)
	return true
}

func (d *drawing) draw() {
	groups := make([]MapBundle, 0, len(d.a.links))
	for k, b := range d.a.links {
		groups = append(groups, MapBundle{k[0], k[1], b.n, b.up})
	}
	if d.m.Level == 1 || !d.switches() {
		d.add("bundles between groups", groups)
		return
	}
	// Pairs of switches, and single switches with other groups; what has no room is drawn for groups.
	var inner, outer []MapBundle
	sum := map[[2]int32]bundle{}
	for k, b := range d.a.pairs {
		x, xOK := d.at[k[0]]
		y, yOK := d.at[k[1]]
		switch {
		case xOK && yOK:
			inner = append(inner, MapBundle{x, y, b.n, b.up})
		case xOK, yOK:
			far := k[1]
			if yOK {
				x, far = y, k[0]
			}
			p := [2]int32{d.a.switches[far].group, x}
			s := sum[p]
			sum[p] = bundle{s.n + b.n, s.up + b.up}
		}
	}
	for k, b := range sum {
		outer = append(outer, MapBundle{k[0], k[1], b.n, b.up})
	}
	reserve := 0
	if d.m.Level == 3 {
		reserve = 2 * int(d.a.groups[d.own].hosts)
	}
	whole := d.own < 0
	innerOK := len(inner)+reserve <= d.room && d.add("bundles between switches", inner)
	if !innerOK && d.m.Level == 3 {
		innerOK = d.add("bundles between switches", inner)
	}
	outerOK := whole || len(outer)+reserve <= d.room && d.add("bundles to other groups", outer)
	if !innerOK && whole || !outerOK {
		own := groups
		if !whole {
			own = slices.DeleteFunc(groups, func(b MapBundle) bool { return b.A != d.own && b.B != d.own })
		}
		d.add("bundles between groups", own)
	}
	if d.m.Level == 3 {
		d.hosts()
	}
}

// switches adds those of the group, or all.
func (d *drawing) switches() bool {
	n := len(d.a.switches)
	if d.own >= 0 {
		n = len(d.a.groups[d.own].switches)
	}
	if n > d.room-len(d.a.links) {
		d.m.Left = append(d.m.Left, fmt.Sprintf("%d switches", n))
		d.m.Level = 1
		return false
	}
	for s := range d.a.switches {
		x := &d.a.switches[s]
		if d.own >= 0 && x.group != d.own {
			continue
		}
		n := &d.a.w.Nodes[x.at]
		d.at[int32(s)] = int32(len(d.m.Groups) + len(d.m.Switches))
		d.m.Switches = append(d.m.Switches, MapSwitch{
			ID: n.GUID.String(), Name: n.Name, Group: int(x.group), X: round(x.x), Y: round(x.y), Hosts: int(x.hosts), Lost: int(x.lost), State: stateText(n.State),
		})
	}
	d.room -= n
	return true
}

func stateText(s wiring.State) string {
	if s == wiring.OK {
		return ""
	}
	return s.String()
}

// hosts adds the hosts of the group, and a bundle from each to its switch.
func (d *drawing) hosts() {
	n := int(d.a.groups[d.own].hosts)
	if 2*n > d.room {
		d.m.Left = append(d.m.Left, fmt.Sprintf("%d hosts", n))
		d.m.Level = 2
		return
	}
	number := map[int32]int32{} // by index in Wiring.Nodes
	for _, s := range d.a.groups[d.own].switches {
		for i := d.a.first[s]; i < d.a.first[s+1]; i++ {
			h := &d.a.hosts[i]
			x := &d.a.w.Nodes[h.at]
			number[h.at] = int32(len(d.m.Groups) + len(d.m.Switches) + len(d.m.Hosts))
			d.m.Hosts = append(d.m.Hosts, MapHost{ID: x.GUID.String(), Name: x.Name, X: round(h.x), Y: round(h.y), State: stateText(x.State)})
		}
	}
	sum := map[[2]int32]bundle{}
	for i := range d.a.w.Cables {
		c := &d.a.w.Cables[i]
		x, y := int32(d.a.w.Find(c.A.GUID)), int32(d.a.w.Find(c.B.GUID))
		if _, ok := number[x]; !ok {
			x, y = y, x
		}
		h, ok := number[x]
		if !ok {
			continue
		}
		s, ok := d.a.index[y]
		if !ok || s < 0 {
			continue
		}
		to, ok := d.at[s]
		if !ok {
			to = d.a.switches[s].group // an adapter with cables to two groups
		}
		k := [2]int32{to, h}
		b := sum[k]
		b.n++
		if c.State == wiring.OK {
			b.up++
		}
		sum[k] = b
	}
	var list []MapBundle
	for k, b := range sum {
		list = append(list, MapBundle{k[0], k[1], b.n, b.up})
	}
	d.room -= n
	d.add("cables of hosts", list)
}
