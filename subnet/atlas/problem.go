package atlas

import (
	"cmp"
	"slices"

	"heddle/subnet/wiring"
)

// gravity orders problems, the gravest first.
var gravity = []string{"critical", "does not answer", "held down", "gone", "left out", "not active", "warning", "isolated", "drained", "restored"}

func graveness(state string) int {
	if i := slices.Index(gravity, state); i >= 0 {
		return i
	}
	return len(gravity)
}

// problems lists what is wrong and what is out of use, and counts each for groups.
func (a *Atlas) problems(m *Map, marks []Mark) {
	var list []MapProblem
	put := func(p MapProblem, x, y *wiring.End, meant bool) {
		gx, gy, ok := a.ends(&p, x, y)
		if !ok {
			return
		}
		for _, g := range [2]int32{gx, gy} {
			switch {
			case g < 0:
			case meant:
				m.Groups[g].OutOfUse++
			default:
				m.Groups[g].Problems++
			}
			if gy == gx {
				break
			}
		}
		list = append(list, p)
	}
	for i := range a.w.Nodes {
		if n := &a.w.Nodes[i]; n.State != wiring.OK {
			put(MapProblem{State: n.State.String(), Text: n.State.String(), Since: n.Since}, &wiring.End{GUID: n.GUID}, nil, false)
		}
	}
	far, done := make(map[wiring.End]wiring.End), make(map[wiring.End]bool)
	for i := range marks {
		done[marks[i].End] = marks[i].Instead || done[marks[i].End]
	}
	for i := range a.w.Cables {
		c := &a.w.Cables[i]
		if len(marks) > 0 && (c.State != wiring.Gone || done[c.A] || done[c.B]) {
			far[c.A], far[c.B] = c.B, c.A
		}
		if done[c.A] || done[c.B] {
			continue
		}
		if c.State == wiring.OK || c.State == wiring.Gone && a.lostNode(c) {
			continue // the node says it
		}
		put(MapProblem{State: c.State.String(), Text: c.State.String(), Since: c.Since}, &c.A, &c.B, false)
	}
	for i := range marks {
		k := &marks[i]
		p := MapProblem{State: k.State, Text: k.Text, Since: k.Since}
		if e, ok := far[k.End]; ok && k.Port != 0 {
			put(p, &k.End, &e, k.Instead)
			continue
		}
		put(p, &k.End, nil, k.Instead)
	}
	slices.SortStableFunc(list, func(x, y MapProblem) int {
		return cmp.Or(cmp.Compare(graveness(x.State), graveness(y.State)), cmp.Compare(y.Since, x.Since), cmp.Compare(x.AID, y.AID), cmp.Compare(x.APort, y.APort))
	})
	m.More = max(0, len(list)-MaxProblems)
	m.Problems = append(m.Problems, list[:len(list)-m.More]...)
}

// changes lists what differs from an earlier state.
func (a *Atlas) changes(m *Map, since *wiring.Wiring) {
	c := wiring.Diff(since, a.w)
	put := func(p MapProblem, x, y *wiring.End) {
		if _, _, ok := a.ends(&p, x, y); !ok {
			return
		}
		if len(m.Changes) == MaxProblems {
			m.More++
			return
		}
		m.Changes = append(m.Changes, p)
	}
	now := func(s wiring.State) (state, text string) {
		if s == wiring.OK {
			return "new", "is there, and was not, or was not ok"
		}
		return s.String(), "is " + s.String() + " now"
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		state, text := now(n.State)
		put(MapProblem{State: state, Text: text, Since: n.Since}, &wiring.End{GUID: n.GUID}, nil)
	}
	for i := range c.Cables {
		k := &c.Cables[i]
		if k.State == wiring.Gone && a.lostNode(k) {
			continue // the node says it
		}
		state, text := now(k.State)
		put(MapProblem{State: state, Text: text, Since: k.Since}, &k.A, &k.B)
	}
	for i := range c.NoCables {
		put(MapProblem{State: "forgotten", Text: "was there, and one of its ports has another cable now"}, &c.NoCables[i].A, &c.NoCables[i].B)
	}
}

// ends fills in the ends of a problem and returns their groups; y may be nil. ok is false if x is in no
// map.
func (a *Atlas) ends(p *MapProblem, x, y *wiring.End) (gx, gy int32, ok bool) {
	gy = -1
	if gx, ok = a.end(x, &p.AName, &p.AID, &p.APort, &p.X, &p.Y); !ok {
		return gx, gy, false
	}
	p.X2, p.Y2 = p.X, p.Y
	if y != nil {
		if gy, ok = a.end(y, &p.BName, &p.BID, &p.BPort, &p.X2, &p.Y2); !ok {
			p.X2, p.Y2 = p.X, p.Y
		}
	}
	return gx, gy, true
}

// lostNode reports whether an end of a cable has gone altogether.
func (a *Atlas) lostNode(c *wiring.Cable) bool {
	for _, e := range [2]wiring.End{c.A, c.B} {
		if i := a.w.Find(e.GUID); i >= 0 && a.w.Nodes[i].State == wiring.Gone {
			return true
		}
	}
	return false
}

// end fills in one end of a problem, and returns its group; ok is false if it is in no map.
func (a *Atlas) end(e *wiring.End, name, id *string, port *int, x, y *float32) (group int32, ok bool) {
	at := a.w.Find(e.GUID)
	if at < 0 {
		return -1, false
	}
	i, ok := a.index[int32(at)]
	if !ok {
		return -1, false
	}
	n := a.node(i)
	*name, *id, *port, *x, *y = a.w.Nodes[at].Name, e.GUID.String(), int(e.Port), round(n.x), round(n.y)
	return n.group, true
}
