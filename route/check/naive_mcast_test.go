package check_test

import (
	"slices"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"

	"pgregory.net/rapid"
)

// naiveTrees is the slow twin of the verification of multicast trees: it sends a
// packet from every switch of a tree and looks at each pair of ports.
func naiveTrees(g *fabric.Graph, t *route.Tables, groups []route.Group, lanes int, near [][]bool, wait func(x, y int), top *int) int {
	if t.Multicast == nil {
		return missingGroups(g, t, groups)
	}
	bad := missingGroups(g, t, groups)
	for i := range t.Multicast.Trees {
		tr := &t.Multicast.Trees[i]
		ok := true
		of := func(s int32) *[4]uint64 {
			if k := slices.Index(tr.Switches, s); k >= 0 {
				return &tr.Ports[k]
			}
			return nil
		}
		has := func(s int32, p uint8) bool { m := of(s); return m != nil && m[p/64]>>(p%64)&1 != 0 }
		channel := func(s int32, p uint8) *fabric.Channel {
			for c := range g.Channels {
				if k := &g.Channels[c]; k.From == s && k.OutPort == p {
					return k
				}
			}
			return nil
		}
		ends := func(s int32, p uint8) (out []int32) {
			for e := range g.EndPorts {
				if g.EndPorts[e].Switch == s && g.EndPorts[e].Port == p {
					out = append(out, int32(e))
				}
			}
			return out
		}
		lane := func(s int32, in, out uint8) (int, bool) {
			vls := uint8(15)
			if c := channel(s, out); c != nil {
				vls = c.VLs
			} else if out == 0 {
				return 0, true
			}
			v := uint8(t.VL(s, in, out, tr.SL, vls))
			return int(v), v < vls
		}
		for _, s := range tr.Switches {
			for p := range uint8(40) {
				if !has(s, p) {
					continue
				}
				c := channel(s, p)
				if c == nil && len(ends(s, p)) == 0 || c != nil && !has(c.To, c.InPort) {
					ok = false
				}
				if c == nil && len(ends(s, p)) == 0 {
					continue
				}
				if c == nil && groups != nil {
					for _, e := range ends(s, p) {
						member := false
						for _, grp := range groups {
							if grp.MLID == tr.MLID {
								member = slices.Contains(grp.Members, e) && !slices.Contains(grp.Senders, e)
							}
						}
						ok = ok && member
					}
				}
				// Lanes and what is waited for.
				for in := range uint8(40) {
					from := channel(s, in)
					if in == p || len(ends(s, in)) == 0 && (from == nil || !has(s, in) || !has(from.To, from.InPort)) {
						continue
					}
					v, fine := lane(s, in, p)
					if !fine {
						ok = false
						continue
					}
					if c == nil {
						continue
					}
					*top = max(*top, v+1)
					for q := range uint8(40) {
						if d := channel(c.To, q); d != nil && has(c.To, q) && q != c.InPort {
							if w, fine := lane(c.To, c.InPort, q); fine {
								wait(int(g.PortChannel[s][p])*lanes+v, int(g.PortChannel[c.To][q])*lanes+w)
							}
						}
					}
				}
			}
		}
		for _, from := range tr.Switches {
			copies := map[int32]int{from: 1}
			type packet struct {
				s  int32
				in uint8
			}
			todo := []packet{{from, 255}}
			for len(todo) > 0 && len(todo) < 1000 {
				x := todo[0]
				todo = todo[1:]
				if copies[x.s] > 3 {
					continue
				}
				for p := range uint8(40) {
					if c := channel(x.s, p); has(x.s, p) && p != x.in && c != nil {
						copies[c.To]++
						todo = append(todo, packet{c.To, c.InPort})
					}
				}
			}
			for _, s := range tr.Switches {
				ok = ok && copies[s] == 1
			}
		}
		for _, grp := range groups {
			for _, e := range grp.Members {
				p := g.EndPorts[e]
				if grp.MLID != tr.MLID || p.Switch < 0 || len(tr.Switches) > 0 && !near[p.Switch][tr.Switches[0]] {
					continue
				}
				ok = ok && of(p.Switch) != nil && (slices.Contains(grp.Senders, e) || has(p.Switch, p.Port))
			}
		}
		if !ok {
			bad++
		}
	}
	return bad
}

func missingGroups(g *fabric.Graph, t *route.Tables, groups []route.Group) (n int) {
	for _, grp := range groups {
		there := false
		if t.Multicast != nil {
			for _, tr := range t.Multicast.Trees {
				there = there || tr.MLID == grp.MLID
			}
			for _, r := range t.Multicast.Refused {
				there = there || r.MLID == grp.MLID
			}
		}
		cabled := false
		for _, e := range grp.Members {
			cabled = cabled || g.EndPorts[e].Switch >= 0
		}
		if cabled && !there {
			n++
		}
	}
	return n
}

// drawTrees gives the tables trees for some groups, most of them good, or
// leaves them alone. It returns the groups, or nil as if they were not known.
func drawTrees(t *rapid.T, g *fabric.Graph, tb *route.Tables) []route.Group {
	if rapid.IntRange(0, 2).Draw(t, "multicast") > 0 {
		return nil
	}
	draw := routetest.Draws(rapid.Uint64().Draw(t, "tree seed"))
	if draw(8) > 0 {
		tb.NumVLs = 3
	}
	tb.Multicast = &route.Multicast{}
	groups := []route.Group{}
	for k := range 1 + draw(3) {
		grp := route.Group{MLID: ib.LID(0xC000 + k)}
		for e := range g.EndPorts {
			if draw(3) == 0 {
				grp.Members = append(grp.Members, int32(e))
				if draw(6) == 0 {
					grp.Senders = append(grp.Senders, int32(e))
				}
			}
		}
		groups = append(groups, grp)
		if draw(10) == 0 {
			if draw(2) == 0 {
				tb.Multicast.Refused = append(tb.Multicast.Refused, route.RefusedGroup{MLID: grp.MLID, Reason: "drawn"})
			}
			continue
		}
		tr := grow(g, &grp, draw)
		for range max(draw(6)-3, 0) { // damage
			if len(tr.Switches) > 0 {
				i := draw(len(tr.Switches))
				p := draw(int(g.Switches[tr.Switches[i]].NumPorts) + 2)
				tr.Ports[i][0] ^= 1 << p
				if draw(4) == 0 {
					tr.Switches, tr.Ports = slices.Delete(tr.Switches, i, i+1), slices.Delete(tr.Ports, i, i+1)
				}
			}
		}
		tb.Multicast.Trees = append(tb.Multicast.Trees, tr)
	}
	if draw(4) == 0 {
		return nil
	}
	return groups
}

// grow makes a tree over all that a random switch reaches, with the members'
// ports.
func grow(g *fabric.Graph, grp *route.Group, draw func(int) int) route.Tree {
	tr := route.Tree{MLID: grp.MLID, SL: ib.SL(draw(4))}
	ports := make([][4]uint64, len(g.Switches))
	in := make([]bool, len(g.Switches))
	queue := []int32{int32(draw(len(g.Switches)))}
	in[queue[0]] = true
	for len(queue) > 0 {
		i := draw(len(queue))
		s := queue[i]
		queue = slices.Delete(queue, i, i+1)
		for _, c := range g.Channels[g.Off[s]:g.Off[s+1]] {
			if !in[c.To] {
				in[c.To] = true
				ports[s][0] |= 1 << c.OutPort
				ports[c.To][0] |= 1 << c.InPort
				queue = append(queue, c.To)
			}
		}
	}
	for _, e := range grp.Members {
		if p := &g.EndPorts[e]; p.Switch >= 0 && !slices.Contains(grp.Senders, e) {
			ports[p.Switch][0] |= 1 << p.Port
		}
	}
	for s := range in {
		if in[s] {
			tr.Switches = append(tr.Switches, int32(s))
			tr.Ports = append(tr.Ports, ports[s])
		}
	}
	return tr
}

// TestTreeFailures: the report names each kind of defect of a tree.
func TestTreeFailures(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(g *fabric.Graph, tr *route.Tree, tb *route.Tables)
		want   string
	}{
		"sound":     {func(*fabric.Graph, *route.Tree, *route.Tables) {}, ""},
		"nowhere":   {func(g *fabric.Graph, tr *route.Tree, tb *route.Tables) { tr.Ports[0][0] |= 1 << 30 }, "leads nowhere"},
		"one side":  {func(g *fabric.Graph, tr *route.Tree, tb *route.Tables) { tr.Ports[0][0] &^= 1 << 1 }, "far end"},
		"no member": {func(g *fabric.Graph, tr *route.Tree, tb *route.Tables) { tr.Ports[0][0] |= 1 << 0 }, "no member"},
		"unreached": {func(g *fabric.Graph, tr *route.Tree, tb *route.Tables) { tr.Ports[2][0] &^= 1 << 2 }, "does not reach"},
		"apart": {func(g *fabric.Graph, tr *route.Tree, tb *route.Tables) {
			tr.Ports[0][0] &^= 1 << 1
			tr.Ports[1][0] &^= 1 << 1
		}, "do not lead here"},
		"no such lane": {func(g *fabric.Graph, tr *route.Tree, tb *route.Tables) { tb.Lanes = oneLane(g, 9) }, "lane"},
		"no tree":      {func(g *fabric.Graph, tr *route.Tree, tb *route.Tables) { tb.Multicast.Trees = nil }, "no tree"},
	} {
		g, tb := line(t)
		grp := route.Group{MLID: 0xC001, Members: []int32{0, 1, 2}}
		tr := route.Tree{MLID: 0xC001, Switches: []int32{0, 1, 2}, Ports: [][4]uint64{{1<<1 | 1<<2}, {1<<1 | 1<<2 | 1<<3}, {1<<1 | 1<<2}}}
		tb.Multicast = &route.Multicast{Trees: []route.Tree{tr}}
		c.break_(g, &tb.Multicast.Trees[0], tb)
		r := check.Verify(g, tb, check.Options{Groups: []route.Group{grp}})
		if c.want == "" {
			if !r.OK() {
				t.Errorf("%s: %+v", name, r)
			}
			continue
		}
		if r.OK() || r.MulticastFailures != 1 || len(r.Multicast) != 1 || !contains(r.Multicast[0].String(), c.want) {
			t.Errorf("%s: %v %+v", name, r.Err(), r.Multicast)
		}
	}
}
