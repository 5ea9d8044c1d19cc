package nue_test

import (
	"strconv"
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/engine/nue"
)

var _ route.Updater = nue.Engine{}

func update(t testing.TB, from route.Solution, g *fabric.Graph, o route.Options) *route.Tables {
	t.Helper()
	tb, err := nue.Engine{}.Update(from, g, fabric.Diff(from.Graph, g), o)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// entries counts those of switches and LIDs of both graphs that differ.
func entries(old, now route.Solution) (n int) {
	d := fabric.Diff(old.Graph, now.Graph)
	for s, o := range d.Switch {
		if o < 0 {
			continue
		}
		for l := ib.LID(1); l <= min(old.Graph.TopLID, now.Graph.TopLID); l++ {
			if old.Tables.Entry(o, l) != now.Tables.Entry(int32(s), l) {
				n++
			}
		}
	}
	return n
}

// sameLevels checks that pairs that stay keep their service level.
func sameLevels(t testing.TB, old, now route.Solution) {
	t.Helper()
	d := fabric.Diff(old.Graph, now.Graph)
	gone := map[ib.LID]bool{}
	for _, l := range d.LIDs {
		gone[l] = true
	}
	for s, o := range d.Switch {
		for l := ib.LID(1); o >= 0 && l <= min(old.Graph.TopLID, now.Graph.TopLID); l++ {
			if a, b := old.Tables.PathSL(o, l), now.Tables.PathSL(int32(s), l); a != b && !gone[l] {
				t.Fatalf("from switch %d to LID %d: SL %d was %d", s, l, b, a)
			}
		}
	}
}

func TestRandomUpdates(t *testing.T) {
	first, n := seeds(t, 60, 2000)
	for seed := first; seed < first+n; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { walk(t, seed) })
	}
}

// walk takes cables and switches out of a net and puts them back.
func walk(t *testing.T, seed uint64) {
	draw := routetest.Draws(seed, 99)
	full := drawn(draw)
	b := budgets[draw(len(budgets))]
	o := route.Options{MaxVLs: b, Workers: 1 + draw(3)}
	g := full.Graph()
	now := route.Solution{Graph: g, Tables: compute(t, g, o)}
	missing := map[int]bool{}
	for range 6 {
		switch k := len(g.Channels); {
		case draw(3) > 0 && k > 0:
			c := draw(k)
			missing[min(c, int(g.Channels[c].Rev))] = true
		case draw(2) == 0:
			missing[-1-draw(len(g.Switches))] = !missing[-1-draw(len(g.Switches))]
		default:
			clear(missing)
		}
		h := without(g, missing)
		next := route.Solution{Graph: h, Tables: update(t, now, h, o)}
		verify(t, h, next.Tables, b)
		for _, w := range []int{1, 8} {
			p := o
			p.Workers = w
			if !update(t, now, h, p).Equal(next.Tables) {
				t.Fatalf("%d workers give other tables", w)
			}
		}
		now = next
	}
}

// without is g without some cables (channel indices) and switches with all
// that hangs on them (-1 - index).
func without(g *fabric.Graph, missing map[int]bool) *fabric.Graph {
	h := &fabric.Graph{TopLID: g.TopLID, Off: []int32{0}}
	is := make([]int32, len(g.Switches))
	for s := range g.Switches {
		is[s] = -1
		if !missing[-1-s] {
			is[s] = int32(len(h.Switches))
			h.Switches = append(h.Switches, g.Switches[s])
		}
	}
	ends := make([]int32, len(g.EndPorts))
	for i, e := range g.EndPorts {
		ends[i] = fabric.NoLID
		if e.Switch >= 0 {
			if e.Switch = is[e.Switch]; e.Switch < 0 {
				continue
			}
		}
		ends[i] = int32(len(h.EndPorts))
		if e.Type == ib.NodeSwitch {
			h.Switches[e.Switch].EndPort = ends[i]
		}
		h.EndPorts = append(h.EndPorts, e)
	}
	for _, e := range g.LIDOwner {
		if e != fabric.NoLID {
			e = ends[e]
		}
		h.LIDOwner = append(h.LIDOwner, e)
	}
	for s := range g.Switches {
		if is[s] < 0 {
			continue
		}
		row := make([]int32, len(g.PortChannel[s]))
		for p := range row {
			row[p] = -1
		}
		for c := g.Off[s]; c < g.Off[s+1]; c++ {
			k := g.Channels[c]
			if missing[int(min(c, k.Rev))] || is[k.To] < 0 {
				continue
			}
			row[k.OutPort] = int32(len(h.Channels))
			k.From, k.To = is[s], is[k.To]
			h.Channels = append(h.Channels, k)
		}
		h.PortChannel = append(h.PortChannel, row)
		h.Off = append(h.Off, int32(len(h.Channels)))
	}
	for i := range h.Channels {
		k := &h.Channels[i]
		k.Rev = h.PortChannel[k.To][k.InPort]
	}
	return h
}

// TestUpdateIsLocal: a link failure and its repair change few entries and no service
// level, and leave the load as even as before.
func TestUpdateIsLocal(t *testing.T) {
	for _, what := range []string{"fattree 324", "torus 6x6 hosts=2", "irregular 32 ports=8 hosts=4", "dragonfly 4 2 2"} {
		for _, b := range []int{1, 4} {
			g := generate(t, 1, what)
			o := route.Options{MaxVLs: b, Workers: 2}
			whole := route.Solution{Graph: g, Tables: compute(t, g, o)}
			before := verify(t, g, whole.Tables, b).MaxChannelLoad
			draw := routetest.Draws(uint64(b), 3)
			for range 8 {
				c := draw(len(g.Channels))
				h := without(g, map[int]bool{min(c, int(g.Channels[c].Rev)): true})
				cut := route.Solution{Graph: h, Tables: update(t, whole, h, o)}
				verify(t, h, cut.Tables, b)
				sameLevels(t, whole, cut)
				p := o
				p.Previous = whole.Tables.Remap(g, h)
				again := route.Solution{Graph: h, Tables: compute(t, h, p)}
				verify(t, h, again.Tables, b)
				if n, m := entries(whole, cut), entries(whole, again); n > m+m/8+40 {
					t.Errorf("%s, %d lanes: Update changes %d entries, Compute with what was there %d", what, b, n, m)
				}
				back := route.Solution{Graph: g, Tables: update(t, cut, g, o)}
				after := verify(t, g, back.Tables, b).MaxChannelLoad
				sameLevels(t, cut, back)
				if after > before*3/2 {
					t.Errorf("%s, %d lanes: fullest channel %d when the cable is back, %d before", what, b, after, before)
				}
			}
		}
	}
}

// TestNothingChanged: without changes all rows are shared, and a restart gives the same
// tables.
func TestNothingChanged(t *testing.T) {
	for _, what := range []string{"fattree 324", "torus 6x6 hosts=2", "irregular 32 ports=8 hosts=4", "dragonfly 4 2 2", "mesh 5x5"} {
		for _, b := range []int{1, 3, 8} {
			g := generate(t, 2, what)
			o := route.Options{MaxVLs: b}
			was := route.Solution{Graph: g, Tables: compute(t, g, o)}
			now := update(t, was, g, o)
			for s := range now.LFT {
				if &now.LFT[s][0] != &was.Tables.LFT[s][0] {
					t.Fatalf("%s, %d lanes: row %d is another", what, b, s)
				}
			}
			o.Previous = was.Tables
			again := compute(t, g, o)
			verify(t, g, again, b)
			if n := entries(was, route.Solution{Graph: g, Tables: again}); n > 0 {
				t.Errorf("%s, %d lanes: a restart changes %d entries", what, b, n)
			}
		}
	}
}

// foreign is the memory of another engine.
type foreign struct{}

func (foreign) Maker() string { return "foreign" }

func TestUpdateWithoutMemory(t *testing.T) {
	g := generate(t, 1, "torus 5x5")
	tb := compute(t, g, route.Options{MaxVLs: 4}).Clone()
	tb.Memo = foreign{}
	for _, from := range []route.Solution{{Graph: g}, {Graph: g, Tables: tb}} {
		verify(t, g, update(t, from, g, route.Options{MaxVLs: 4}), 4)
	}
	// Fewer lanes than before: from scratch.
	from := route.Solution{Graph: g, Tables: compute(t, g, route.Options{MaxVLs: 4})}
	verify(t, g, update(t, from, g, route.Options{MaxVLs: 2}), 2)
}
