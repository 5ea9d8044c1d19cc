package dnup_test

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/dnup"
)

// TestTurnsAtTheBottom: CAs on the roots of a tree reach each other over all the
// switches below them, evenly, also after one of those has failed.
func TestTurnsAtTheBottom(t *testing.T) {
	b := &routetest.Net{}
	b.Switches(4 + 6) // four roots with CAs, six switches below
	o := route.Options{Workers: 2}
	for s := range 4 {
		for range 6 {
			b.Host(s, 1)
		}
		for low := range 6 {
			b.Link(s, 4+low)
		}
	}
	g := b.Graph()
	for s := range 4 {
		o.Roots = append(o.Roots, g.Switches[s].GUID)
	}
	e := dnup.Engine{}
	tb, err := e.Compute(g, o)
	if err != nil {
		t.Fatal(err)
	}
	if e.Name() != "dnup" || tb.Engine != "dnup" {
		t.Errorf("name %q, tables by %q", e.Name(), tb.Engine)
	}
	r := check.Verify(g, tb, check.Options{})
	if !r.OK() || r.CreditCyclesSwitch > 0 || r.MaxHops != 2 || float64(r.MaxChannelLoad) != r.AvgChannelLoad {
		t.Errorf("%v: %d hops, fullest channel %d, mean %.1f", r.Err(), r.MaxHops, r.MaxChannelLoad, r.AvgChannelLoad)
	}

	h := routetest.Without(g, []int32{6}, nil)
	now, err := e.Update(route.Solution{Graph: g, Tables: tb}, h, fabric.Diff(g, h), o)
	if err != nil {
		t.Fatal(err)
	}
	if r := check.Verify(h, now, check.Options{}); !r.OK() || r.MaxHops != 2 {
		t.Errorf("%v, %d hops", r.Err(), r.MaxHops)
	}
	for l := ib.LID(1); l <= 24; l++ { // what did not go over switch 6 stays
		for s := range int32(4) {
			was := tb.Entry(s, l)
			if c := g.PortChannel[s][was]; c >= 0 && g.Channels[c].To != 6 && now.Entry(s, l) != was {
				t.Errorf("switch %d LID %d moved from port %d to %d", s, l, was, now.Entry(s, l))
			}
		}
	}
}
