package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/mad"
	"heddle/route"
	"heddle/route/transition"
)

// TestTranscripts: packets can be under way for 64 s at most, one second a switch. Tables have
// names; what packets may remember is printed after each command.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		net := &routetest.Net{}
		net.Switches(3)
		for i := range 3 {
			net.Host(i, 1)
			net.Link(i, (i+1)%3)
		}
		whole := net.Graph()
		cut := routetest.Damaged(net, 1, func(int) int { return 0 }).Graph()
		h := New(LongestPath * time.Second)
		tables, names := map[string]*route.Tables{}, map[*route.Tables]string{}
		get := func(s string) *route.Tables {
			if tables[s] == nil {
				tables[s] = &route.Tables{}
				names[tables[s]] = s
			}
			return tables[s]
		}
		plans := map[string]*transition.Plan{}
		plan := func(s string) *transition.Plan {
			if plans[s] == nil {
				plans[s] = &transition.Plan{}
			}
			return plans[s]
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var at, p, from, to string
			d.ScanArgs(t, "at", &at)
			since, err := time.ParseDuration(at)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			now := mad.Time(since)
			d.MaybeScanArgs(t, "plan", &p)
			d.MaybeScanArgs(t, "from", &from)
			d.MaybeScanArgs(t, "to", &to)
			hops := 4
			d.MaybeScanArgs(t, "hops", &hops)
			var b strings.Builder
			switch d.Cmd {
			case "begin":
				h.Begin(whole, plan(p), hops, get(from), get(to))
			case "acknowledged":
				h.Acknowledged(now, plan(p))
			case "abandon":
				h.Abandon(now)
			case "move":
				var lid, most int
				most = 8
				d.ScanArgs(t, "lid", &lid)
				d.MaybeScanArgs(t, "most", &most)
				h.BeginMove(now, whole, get(from), get(to), map[ib.LID]bool{ib.LID(lid): true}, hops, most)
			case "moved":
				h.EndMove(now, get(from), get(to))
			case "forget":
				h.Forget()
			case "lost":
				g := whole
				if d.HasArg("cut") {
					g = cut
				}
				for _, k := range h.Lost(now, whole, g) {
					fmt.Fprintf(&b, "a cable of switch %v port %d\n", k.Switch, k.Port)
				}
				return b.String()
			case "look":
			default:
				d.Fatalf(t, "no such command")
			}
			for _, r := range h.Recent(now, whole) {
				fmt.Fprintf(&b, "%s, left %v ago\n", names[r.Tables], r.Ago)
			}
			if left := h.Left(now); left > 0 {
				fmt.Fprintf(&b, "gone in %v\n", left)
			}
			return b.String()
		})
	})
}

// TestWithoutLimit: where packets may stay without limit nothing is remembered.
func TestWithoutLimit(t *testing.T) {
	h := New(0)
	h.Begin(nil, nil, 4, &route.Tables{}, &route.Tables{})
	if r := h.Recent(1, nil); len(r) != 0 {
		t.Errorf("%d states are remembered", len(r))
	}
}

// TestRecentTrees: the multicast trees of states belong to what packets may remember, also in a graph
// that has lost a switch since.
func TestRecentTrees(t *testing.T) {
	net := &routetest.Net{}
	net.Switches(3)
	for i := range 3 {
		net.Host(i, 1)
		net.Link(i, (i+1)%3)
	}
	whole := net.Graph()
	less := routetest.Without(whole, []int32{1}, nil)
	h := New(LongestPath * time.Second)
	m := &route.Multicast{Trees: []route.Tree{
		{MLID: 0xC000, SL: 2, Switches: []int32{0, 1, 2}, Ports: [][4]uint64{{2}, {4}, {6}}},
		{MLID: 0xC001, Switches: []int32{1}, Ports: [][4]uint64{{2}}},
	}}
	was, is := &route.Tables{LFT: make([][]byte, 3), Multicast: m}, &route.Tables{LFT: make([][]byte, 3), Multicast: m}
	h.Begin(whole, &transition.Plan{}, 4, was, is)
	for _, r := range h.Recent(0, whole) {
		if r.Tables.Multicast != m {
			t.Errorf("in the same graph: %+v", r.Tables.Multicast)
		}
	}
	list := h.Recent(0, less)
	for _, r := range list {
		k := r.Tables.Multicast
		if k == nil || k != list[0].Tables.Multicast || len(k.Trees) != 1 {
			t.Fatalf("%+v", k)
		}
		if u := k.Trees[0]; u.MLID != 0xC000 || u.SL != 2 || !slices.Equal(u.Switches, []int32{0, 1}) || !slices.Equal(u.Ports, [][4]uint64{{2}, {6}}) {
			t.Errorf("%+v", u)
		}
	}
}
