package dataplane

import (
	"fmt"
	"testing"

	"heddle/fabric"
	"heddle/ib"
)

// hotCases are V23–V33: hot spots and their victims.
var hotCases = []vcase{
	{"V23", "c hosts send 5 % to one, one lane: at most 1/(0.05 c + 0.95)", false, func(t *testing.T) (out []result) {
		bound := func(c int) float64 { return 1 / (0.05*float64(c) + 0.95) }
		// The bound holds for hosts with a hot spot; it is nearly reached.
		small := hotSpots(t, fabric.XGFT{Children: []int{6, 12}, Parents: []int{1, 6}}, 72, 1, 1, OwnQueue, 0)
		out = append(out, within("c 71, of 72", small, bound(71), 0.05))
		if full() {
			for _, spots := range []int{1, 3, 9} {
				c := 648/spots - 1
				out = append(out, within(fmt.Sprintf("c %d, of 648", c), hotSpots(t, fabric.FatTree{Hosts: 648}, 648, spots, 1, OwnQueue, 0), bound(c), 0.05))
			}
		}
		return out
	}},
	{"V24", "648 hosts, 1 hot spot, lanes of vFtree, a queue for each lane that drops", true, func(t *testing.T) (out []result) {
		for _, x := range []struct {
			lanes int
			want  float64
		}{{1, 0.031}, {2, 0.27}, {4, 0.575}, {8, 0.76}} {
			out = append(out, within(fmt.Sprintf("%d lanes", x.lanes), hotSpots(t, fabric.FatTree{Hosts: 648}, 648, 1, x.lanes, LaneQueue, 0), x.want, 0.1))
		}
		return append(out, within("slow lane and one", hotSpots(t, fabric.FatTree{Hosts: 648}, 648, 1, 2, LaneQueue, 1), 0.575, 0.1))
	}},
	{"V25", "V24 with a source that blocks on its first packet", true, func(t *testing.T) (out []result) {
		for _, lanes := range []int{1, 2, 4, 8} {
			out = append(out, within(fmt.Sprintf("%d lanes", lanes), hotSpots(t, fabric.FatTree{Hosts: 648}, 648, 1, lanes, OwnQueue, 0), 0.0315, 0.05))
		}
		return out
	}},
	{"V26", "9 hot spots, drop", true, func(t *testing.T) (out []result) {
		return []result{
			within("1 lane", hotSpots(t, fabric.FatTree{Hosts: 648}, 648, 9, 1, LaneQueue, 0), 0.225, 0.1),
			within("2 lanes", hotSpots(t, fabric.FatTree{Hosts: 648}, 648, 9, 2, LaneQueue, 0), 0.255, 0.25),
			within("8 lanes", hotSpots(t, fabric.FatTree{Hosts: 648}, 648, 9, 8, LaneQueue, 0), 0.78, 0.1),
		}
	}},
	{"V27", "3 hot spots, drop", true, func(t *testing.T) (out []result) {
		return []result{
			within("1 lane", hotSpots(t, fabric.FatTree{Hosts: 648}, 648, 3, 1, LaneQueue, 0), 0.088, 0.1),
			within("8 lanes", hotSpots(t, fabric.FatTree{Hosts: 648}, 648, 3, 8, LaneQueue, 0), 0.75, 0.1),
		}
	}},
	{"V28", "published gains", true, func(t *testing.T) (out []result) {
		tree := fabric.FatTree{Hosts: 648}
		gain := func(name string, spots, lanes, slow int, published float64, cmp func(string, float64, float64) result) {
			a, b := runHotSpots(t, tree, 648, spots, 1, LaneQueue, 0), runHotSpots(t, tree, 648, spots, lanes, LaneQueue, slow)
			out = append(out, cmp(name+", steady state, %", 100*(b.steady/a.steady-1), published),
				least(name+", first millisecond, %", 100*(b.cold/a.cold-1), 0))
		}
		gain("vFtree, 1 hot spot, 2 lanes", 1, 2, 0, 459, least)
		gain("vFtree, 1 hot spot, 4 lanes", 1, 4, 0, 676, least)
		gain("vFtree, 1 hot spot, 8 lanes", 1, 8, 0, 757, least)
		gain("vFtree, 9 hot spots, 8 lanes", 9, 8, 0, 221, least)
		gain("slow lane, 1 hot spot", 1, 2, 1, 480, least)
		gain("slow lane, 3 hot spots", 3, 2, 1, 345, least)
		// Two models of the reference give 159 % here as well, below the published 169.
		gain("slow lane, 9 hot spots", 9, 2, 1, 169, func(what string, got, want float64) result { return within(what, got, want, 0.1) })
		return out
	}},
	{"V29", "parking lot: 1/2, 1/4, … and the last twice", false, func(t *testing.T) (out []result) {
		const k = 5
		// A row of k switches, two hosts at the first, one at each other, and the sink.
		n := newNet(k+2, k, 4)
		n.link(0, k+2, qdr)
		n.link(1, k+2, qdr)
		for i := 1; i < k; i++ {
			n.link(i+1, k+2+i, qdr)
			n.link(k+1+i, k+2+i, qdr)
		}
		n.link(k+1, k+2+k-1, qdr)
		e := mustNew(t, &n.Topology, n.tables(1), testConfig())
		for h := range k + 1 {
			mustAdd(t, e, Stream{Src: h, To: To(k + 1), Bytes: rc2k})
		}
		measure(t, e, Millisecond, slots(64_00))
		for h := range k + 1 {
			want := 1 / float64(uint(1)<<(k+1-max(h, 1)))
			out = append(out, within(fmt.Sprintf("host %d", h), float64(e.Flow(h).Delivered)/6400, want, 0.01))
		}
		return out
	}},
	{"V30", "dFtree, experiment I: 6-5, 1-5, 3-5 and victim 2-3", false, func(t *testing.T) []result {
		r := contend(t, thesisTree(2, ddr), 1, [][3]int{{6, 5}, {1, 5}, {3, 5}, {2, 3}})
		alone := contend(t, thesisTree(2, ddr), 1, [][3]int{{2, 3}})
		return []result{
			within("6-5", r[0], 6.45, 0.12), within("1-5", r[1], 3.2, 0.12), within("3-5", r[2], 3.2, 0.12),
			within("victim", r[3], 3.2, 0.12), within("victim without contributors", alone[0], 12.9, 0.01),
			within("6-5, measured", r[0], 6.8, 0.12), within("1-5, measured", r[1], 3, 0.12), within("victim, measured", r[3], 3, 0.12),
		}
	}},
	{"V31", "dFtree, experiment III, QDR uplinks", false, func(t *testing.T) []result {
		r := contend(t, thesisTree(4, qdr), 1, [][3]int{{2, 7}, {1, 9}, {5, 9}, {10, 9}})
		alone := contend(t, thesisTree(4, qdr), 1, [][3]int{{2, 7}})
		slow := contend(t, thesisTree(4, qdr), 2, [][3]int{{2, 7}, {1, 9, 1}, {5, 9, 1}, {10, 9, 1}})
		return []result{
			within("before", alone[0], 12.9, 0.12), within("contributors", r[0], 3.2, 0.12), within("measured", r[0], 3.4, 0.12),
			within("contributors on the slow lane", slow[0], 12.9, 0.12),
		}
	}},
	{"V32", "dFtree, experiment IV: the victim shares twice", false, func(t *testing.T) []result {
		r := contend(t, thesisTree(4, qdr), 1, [][3]int{{2, 11}, {1, 9}, {5, 9}, {10, 9}})
		slow := contend(t, thesisTree(4, qdr), 2, [][3]int{{2, 11}, {1, 9, 1}, {5, 9, 1}, {10, 9, 1}})
		return []result{
			within("victim", r[0], 2.15, 0.12), within("measured", r[0], 2.2, 0.12), within("slow lane: victim", slow[0], 12.9, 0.12),
			within("slow lane: 1-9", slow[1], 3.2, 0.12), within("slow lane: 5-9", slow[2], 3.2, 0.12),
		}
	}},
	{"V33", "vFtree, Fig. 5: 1-5 is the victim of 2-6, 7-6, 8-6", false, func(t *testing.T) (out []result) {
		n := newNet(8, 2, 6) // hosts 3 and 4 stay idle
		for h := range 8 {
			n.link(h, 8+h/4, ddr)
		}
		n.link(8, 9, qdr)
		flows := [][3]int{{1, 5}, {2, 6}, {7, 6}, {8, 6}}
		for i, r := range contend(t, pair{n, n.tables(1)}, 1, flows) {
			out = append(out, within(fmt.Sprintf("one lane, %d-%d", flows[i][0], flows[i][1]), r, 4.4, 0.12))
		}
		flows[0][2] = 1
		r := contend(t, pair{n, n.tables(2)}, 2, flows)
		return append(out, within("victim on its own lane", r[0], 13, 0.12))
	}},
}

// hot is what hosts get in the first millisecond and in the third and fourth.
type hot struct{ cold, steady float64 }

var hotRuns = map[string]hot{}

// hotSpots is the steady state of runHotSpots.
func hotSpots(t *testing.T, topo fabric.Topology, n, spots, lanes int, q Sharing, slow int) float64 {
	return runHotSpots(t, topo, n, spots, lanes, q, slow).steady
}

// runHotSpots is the mean share of the rate of n hosts, evenly divided among so
// many hot spots: each sends 5 % to its own and the rest to all. slow puts flows
// to hot spots on lane 0, all others on lane 1; else lanes are those of vFtree.
// Cases share the runs.
func runHotSpots(t *testing.T, topo fabric.Topology, n, spots, lanes int, q Sharing, slow int) hot {
	key := fmt.Sprint(n, spots, lanes, q, slow)
	if r, ok := hotRuns[key]; ok {
		return r
	}
	x := newTree(t, topo, qdr)
	c := Defaults()
	c.Lanes, c.Buffer = lanes, 62*33
	p, sl := x.lanes(lanes)
	isHot := func(h int) bool { return h%(n/spots) == 0 }
	if c.SL = sl; slow > 0 {
		c.SL = func(_, dst int) ib.SL {
			if isHot(dst) {
				return 0
			}
			return 1
		}
	}
	e := mustNew(t, x.top, p, c)
	if e.NumHosts() != n {
		t.Fatalf("%d hosts", e.NumHosts())
	}
	for h := range n {
		s := Stream{Src: h, To: ToAny().Mixed(0.05, h/(n/spots)*(n/spots)), Bytes: rc2k, Queue: q}
		if isHot(h) {
			s.To = ToAny()
		}
		if q != OwnQueue {
			s.Arrival, s.Gap = Constant, qdr.Time(rc2k)
		}
		mustAdd(t, e, s)
	}
	warm, window := 2*Millisecond, 2*Millisecond
	if n < 648 {
		warm, window = Millisecond, 4*Millisecond
	}
	var r hot
	r.cold = accepted(measure(t, e, 0, Millisecond), n, Millisecond)
	r.steady = accepted(measure(t, e, warm, window), n, window)
	hotRuns[key] = r
	return r
}

// pair is a net with its tables.
type pair struct {
	*net
	p *Plain
}

// thesisTree is the test bed of W. L. Guay's thesis (papers III and IV), rebuilt:
// leaves A, B, C of so many hosts, one root, two cables from each leaf; odd
// destinations take the odd cable. Hosts are numbered from 1 there.
func thesisTree(hosts int, up Rate) pair {
	n := newNet(3*hosts, 4, 6)
	root := 3*hosts + 3
	for l := range 3 {
		for h := range hosts {
			n.link(l*hosts+h, 3*hosts+l, ddr)
		}
		n.link(3*hosts+l, root, up)
		n.link(3*hosts+l, root, up)
	}
	p := n.tables(2)
	for d := range 3 * hosts {
		even := uint8(d % 2) // host d is number d + 1
		lid := p.lidOf(d)
		for l := range 3 {
			if l != d/hosts {
				p.SetRoute(int32(3*hosts+l), lid, uint8(hosts)+1+even)
			}
		}
		p.SetRoute(int32(root), lid, uint8(d/hosts*2)+1+even)
	}
	return pair{n, p}
}

// contend runs flows {from, to, SL} between hosts, numbered from 1, that send and
// take 12.9 Gb/s, and returns the rate of each.
func contend(t *testing.T, x pair, lanes int, flows [][3]int) (rates []float64) {
	c := testConfig()
	// The parts of the test beds read three packets of an input at once. With one
	// read, V32 shows an artefact: the flows of an input to two hosts that both take
	// 12.9 Gb/s fall into step, and one finds the input busy whenever its output has
	// credits.
	c.Lanes, c.Reads = lanes, 3
	e := mustNew(t, &x.Topology, x.p, c)
	for h := range e.NumHosts() {
		bus := Cap(12.9, 2048, rc2k)
		e.SetCaps(h, bus, bus)
	}
	for _, f := range flows {
		mustAdd(t, e, Stream{Src: f[0] - 1, To: To(f[1] - 1), Bytes: rc2k, SL: ib.SL(f[2])})
	}
	measure(t, e, 5*Millisecond, 10*Millisecond)
	for i := range flows {
		rates = append(rates, gbps(e.Flow(i).Delivered, 2048, 10*Millisecond))
	}
	return rates
}
