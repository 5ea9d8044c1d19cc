package matrix

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/torus"
)

// endless is how long an engine may take for a handful of switches on a busy
// machine.
const endless = need.Patience

// all are the engines that hostile input is given to: those of the matrix, and
// torus with a file that is about some other fabric.
func all(t testing.TB) []promise {
	t.Helper()
	c, err := torus.ParseConfig(strings.NewReader("torus 4 3 1\nxp_link 0x1010 0x1020\nyp_link 0x1010 0x1030\n"))
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(engines), promise{engine: torus.Engine{Config: c}, must: func(net, int) bool { return false }})
}

// trial is one engine against one fabric after the other.
type trial struct {
	t testing.TB
	w *wild
	p promise
	s string // how to say which it is
}

// guarded calls an engine and says when it panics or does not end.
func (r *trial) guarded(what string, fn func() (*route.Tables, error)) (tb *route.Tables, err error) {
	r.t.Helper()
	type result struct {
		tb    *route.Tables
		err   error
		panic string
	}
	done := make(chan result, 1)
	go func() {
		var x result
		defer func() {
			if p := recover(); p != nil {
				x.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			done <- x
		}()
		x.tb, x.err = fn()
	}()
	select {
	case x := <-done:
		if x.panic != "" {
			r.t.Fatalf("%s, %s: panic: %s", r.s, what, x.panic)
		}
		return x.tb, x.err
	case <-time.After(endless):
		r.t.Fatalf("%s, %s: no end", r.s, what)
		return nil, nil
	}
}

// fingerprint stands for everything but the memo that tables hold.
func fingerprint(tb *route.Tables) uint64 {
	if tb == nil {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, row := range tb.LFT {
		fmt.Fprintf(&h, "%d %v;", len(row), row == nil)
		h.Write(row)
	}
	plain := *tb
	plain.LFT, plain.Memo = nil, nil
	_ = json.NewEncoder(&h).Encode(plain)
	return h.Sum64()
}

var seed = maphash.MakeSeed()

func cloneGraph(g *fabric.Graph) *fabric.Graph {
	c := *g
	c.Switches, c.Off, c.Channels = slices.Clone(g.Switches), slices.Clone(g.Off), slices.Clone(g.Channels)
	c.EndPorts, c.LIDOwner, c.PortChannel = slices.Clone(g.EndPorts), slices.Clone(g.LIDOwner), slices.Clone(g.PortChannel)
	for s, row := range c.PortChannel {
		c.PortChannel[s] = slices.Clone(row)
	}
	return &c
}

// computed lets the engine compute, with several numbers of workers, and
// verifies the tables; nil if they are refused.
func (r *trial) computed(what string, g *fabric.Graph, o route.Options) *route.Tables {
	r.t.Helper()
	return r.same(what, g, o, route.Solution{}, func(o route.Options) (*route.Tables, error) { return r.p.engine.Compute(g, o) })
}

// updated lets it update tables.
func (r *trial) updated(what string, from route.Solution, g *fabric.Graph, o route.Options) *route.Tables {
	r.t.Helper()
	e := r.p.engine.(route.Updater)
	return r.same(what, g, o, from, func(o route.Options) (*route.Tables, error) {
		return e.Update(from, g, fabric.Diff(from.Graph, g), o)
	})
}

func (r *trial) same(what string, g *fabric.Graph, o route.Options, from route.Solution, fn func(o route.Options) (*route.Tables, error)) *route.Tables {
	r.t.Helper()
	before, previous, old := cloneGraph(g), fingerprint(o.Previous), fingerprint(from.Tables)
	asked := o
	tb, err := r.guarded(what, func() (*route.Tables, error) { return fn(o) })
	first, note, reason := fingerprint(tb), "", fmt.Sprint(err)
	if tb != nil {
		note = tb.Note
	}
	o.Workers = 1 + r.w.draw(8)
	again, err2 := r.guarded(what, func() (*route.Tables, error) { return fn(o) })
	if fingerprint(again) != first || fmt.Sprint(err2) != reason || again != nil && again.Note != note {
		r.t.Errorf("%s, %s: with %d workers otherwise than with %d: %v, %v", r.s, what, o.Workers, asked.Workers, err2, err)
	}
	if !reflect.DeepEqual(g, before) || fingerprint(o.Previous) != previous || fingerprint(from.Tables) != old || fingerprint(tb) != first {
		r.t.Errorf("%s, %s: what it was given has changed", r.s, what)
	}
	if err != nil {
		r.refused(what, err, o)
		return nil
	}
	r.right(what, g, o, tb)
	return tb
}

// refused looks at a refusal: one line with the engine's name; those that take
// any fabric may only want more lanes.
func (r *trial) refused(what string, err error, o route.Options) {
	r.t.Helper()
	text := err.Error()
	e := r.p.engine.Name()
	if e == "file" {
		return // the tables in the file are updn's
	}
	if !strings.HasPrefix(text, e+": ") || strings.Contains(text, "\n") || len(text) > 400 {
		r.t.Errorf("%s, %s: refused with %q", r.s, what, text)
	}
	if strings.Count(text, e+": ") > 1 {
		r.t.Errorf("%s, %s: the name is there twice: %q", r.s, what, text)
	}
	switch {
	case strings.Contains(text, "previous tables are for") && o.Previous != nil:
	case e == "dfsssp" || e == "lash":
		if !strings.Contains(text, "lanes") {
			r.t.Errorf("%s, %s: refused not for want of lanes: %s", r.s, what, text)
		}
	case e == "minhop" || e == "sssp" || e == "nue" || (e == "updn" || e == "dnup") && o.Roots == nil:
		r.t.Errorf("%s, %s: must not be refused: %s", r.s, what, text)
	}
}

// right verifies tables.
func (r *trial) right(what string, g *fabric.Graph, o route.Options, tb *route.Tables) {
	r.t.Helper()
	name := r.p.engine.Name()
	v := check.Verify(g, tb, check.Options{Workers: 2})
	bad := v.Malformed != "" || v.Loops > 0 || v.UnreachablePairs > 0 && !r.w.short || v.CreditCycles > 0 && !r.p.loops
	if bad {
		r.t.Errorf("%s, %s: %v", r.s, what, v.Err())
	}
	budget := route.Budget(g, o.MaxVLs)
	if tb.NumVLs > budget || tb.NumVLs < 1 || v.VLsUsed > tb.NumVLs {
		r.t.Errorf("%s, %s: %d lanes said, %d used, %d allowed", r.s, what, tb.NumVLs, v.VLsUsed, budget)
	}
	if tb.Engine != name || tb.TopLID != g.TopLID || strings.Contains(tb.Note, "\n") {
		r.t.Errorf("%s, %s: engine %q, top %d of %d, note %q", r.s, what, tb.Engine, tb.TopLID, g.TopLID, tb.Note)
	}
	for s, row := range tb.LFT {
		if len(row) != route.RowLen(g.TopLID) {
			r.t.Fatalf("%s, %s: row %d has %d entries", r.s, what, s, len(row))
		}
		for l, p := range row {
			if p == route.Drop {
				continue
			}
			if l > int(g.TopLID) || g.LIDOwner[l] == fabric.NoLID || int(p) >= len(g.PortChannel[s]) {
				r.t.Fatalf("%s, %s: switch %d sends LID %d, which nobody has, by port %d", r.s, what, s, l, p)
			}
		}
	}
	if r.w.short && (name == "minhop" || name == "sssp") {
		r.delivers(what, g, tb)
	}
}

// delivers fails unless every LID is delivered from wherever a way leads over
// switches whose tables hold it.
func (r *trial) delivers(what string, g *fabric.Graph, tb *route.Tables) {
	r.t.Helper()
	holds := func(s int32, l int) bool { c := int(g.Switches[s].LinearFDBCap); return c == 0 || l < c }
	for l, e := range g.LIDOwner {
		if e == fabric.NoLID || g.EndPorts[e].Switch < 0 || !holds(g.EndPorts[e].Switch, l) {
			continue
		}
		d := g.EndPorts[e].Switch
		seen := make([]bool, len(g.Switches))
		seen[d] = true
		for queue := []int32{d}; len(queue) > 0; queue = queue[1:] {
			for _, c := range g.Channels[g.Off[queue[0]]:g.Off[queue[0]+1]] {
				if !seen[c.To] && holds(c.To, l) {
					seen[c.To] = true
					queue = append(queue, c.To)
				}
			}
		}
		for s := range g.Switches {
			if !seen[s] {
				continue
			}
			u := int32(s)
			for hops := 0; u != d; hops++ {
				p := tb.Entry(u, ib.LID(l))
				if int(p) >= len(g.PortChannel[u]) || g.PortChannel[u][p] < 0 || hops > len(g.Switches) {
					r.t.Errorf("%s, %s: LID %d does not arrive from switch %d, though it could", r.s, what, l, s)
					return
				}
				u = g.Channels[g.PortChannel[u][p]].To
			}
			if p := tb.Entry(d, ib.LID(l)); p != g.EndPorts[e].Port {
				r.t.Errorf("%s, %s: LID %d leaves its switch by port %d", r.s, what, l, p)
				return
			}
		}
	}
}

// run tries one engine on a fabric, with previous tables of all kinds, and
// carries tables over changes, of the options too.
func (r *trial) run(others []promise) {
	w := r.w
	w.grow()
	g := w.graph()
	o := w.wishes(g)
	tb := r.computed("computed", g, o)
	var foreign *route.Tables
	if f, err := others[w.draw(len(others))].engine.Compute(g, route.Options{}); err == nil {
		foreign = f
	}

	// Restarts: what is installed may be of anybody, and in part not known.
	for k := range 3 {
		q := o
		q.Previous = tb
		switch {
		case k == 1:
			q.Previous = foreign
		case k == 2 && foreign != nil:
			c := foreign.Clone()
			for s := range c.LFT {
				switch w.draw(4) {
				case 0:
					c.LFT[s] = nil
				case 1:
					c.LFT[s] = c.LFT[s][:w.draw(len(c.LFT[s])+1)]
				case 2:
					for l := range c.LFT[s] {
						c.LFT[s][l] = byte(w.draw(256))
					}
				}
			}
			if w.draw(4) == 0 {
				c.LFT = append(c.LFT, nil)
			}
			if c.TopLID = ib.LID(w.draw(0xC000)); w.draw(2) == 0 {
				c.Memo = nil
			}
			q.Previous = c
		}
		if q.Previous != nil {
			r.computed(fmt.Sprintf("restart %d", k), g, q)
		}
	}
	if _, ok := r.p.engine.(route.Updater); !ok {
		return
	}
	for step := range 6 {
		said := []string{w.step()}
		for w.draw(3) == 0 {
			said = append(said, w.step())
		}
		if w.draw(10) == 0 {
			o = w.wishes(g)
			said = append(said, "other options")
		}
		h := w.graph()
		from := tb
		switch k := w.draw(12); {
		case k == 0:
			if foreign, err := others[w.draw(len(others))].engine.Compute(g, route.Options{}); err == nil {
				from = foreign
				said = append(said, "from tables of "+foreign.Engine)
			}
		case k == 1 && tb != nil:
			c := *tb
			c.Memo = nil
			from = &c
			said = append(said, "without memo")
		}
		what := fmt.Sprintf("step %d (%s)", step, strings.Join(said, ", "))
		if from == nil {
			tb = r.computed(what, h, o)
		} else {
			tb = r.updated(what, route.Solution{Graph: g, Tables: from}, h, o)
			if tb == nil { // what is refused so is refused from scratch
				if full, err := r.p.engine.Compute(h, o); err == nil && !tooFew(r.p) {
					r.t.Errorf("%s, %s: refused, but computed from scratch with %d lanes", r.s, what, full.NumVLs)
				}
			}
		}
		g = h
	}
}

// tooFew says of an engine that whether the lanes are enough may depend on
// where it comes from.
func tooFew(p promise) bool { return p.engine.Name() == "dfsssp" || p.engine.Name() == "lash" }

// TestHostileInput: any fabric, options, installed tables and changes give right tables
// or a clear refusal, never a panic, the same for any number of workers, and inputs are
// not modified.
func TestHostileInput(t *testing.T) {
	list := all(t)
	for k, p := range list {
		t.Run(fmt.Sprintf("%s-%d", p.engine.Name(), k), func(t *testing.T) {
			for _, seed := range need.Seeds(6, 300) {
				w := &wild{draw: routetest.Draws(seed, uint64(k)+1000), short: seed%4 == 3}
				r := trial{t, w, p, fmt.Sprintf("HEDDLE_SEED=%d", seed)}
				r.run(list)
			}
		})
	}
}

// FuzzEngines is TestHostileInput with numbers that the fuzzer thinks of.
func FuzzEngines(f *testing.F) {
	for k := range engines {
		f.Add(uint8(k), []byte{byte(k), 3, 5, 1, 4})
	}
	list := all(f)
	f.Fuzz(func(t *testing.T, engine uint8, text []byte) {
		p := list[int(engine)%len(list)]
		w := &wild{draw: fromBytes(text), short: len(text)%4 == 3}
		r := trial{t, w, p, p.engine.Name()}
		r.run(list)
	})
}
