package congestion

import (
	"slices"
	"testing"
	"time"

	"heddle/ib/cc"
	"heddle/internal/reporttest"
	"heddle/lab/experiment/bed"
	"heddle/route/engine/minhop"
	"heddle/sim/dataplane"
)

// TestRun is the experiment at its smallest.
func TestRun(t *testing.T) {
	lines := page{schemes: []scheme{{1, false, false}, {1, true, false}, {1, false, true}, {1, true, true}}}
	for _, m := range mixes() {
		if s := m.scheme; m.queue == dataplane.DestQueue && s.lanes() == 1 || m.queue == dataplane.LaneQueue && !s.cc && s.lanes() == 4 {
			lines.mixes = append(lines.mixes, m)
		}
	}
	p := plan{span: 14 * time.Millisecond, page: func(int) page { return lines }}
	r, err := run(bed.Options{Seed: 1, Sizes: []int{72}}, p)
	if err != nil {
		t.Fatal(err)
	}
	reporttest.MustHold(
		t, r,
		"P3.2, V33: FIFO inputs: the victim", "P3.2: VoQ inputs: the victim with threshold 15", // the report says why
		"V46: 72 hosts, FIFO inputs: victims with CC", // 0.90 to 1.00, by when flows begin
	)
	if _, err := Run(bed.Options{Sizes: []int{100}}); err == nil {
		t.Error("a tree of 100 hosts is no size of the experiment, and was taken")
	}
}

// TestSweep: a field without an effect is not drawn as one, and the grid has all of its
// points.
func TestSweep(t *testing.T) {
	base := pairBase()
	off := base
	off.threshold = 0
	rows, err := sweepPairs(1, []variant{{0, off}, {8, base}}, 12*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for k, in := range inputs() {
		if x := rows[0].by[k]; !bed.Near(x.victim, bed.HostGbps/3, 0.02) || !bed.Near(x.hot, bed.HostGbps, 0.02) {
			t.Errorf("%v inputs, threshold 0: %+v", in, x)
		}
	}
	if x := rows[1].by[0]; x.victim < 8 {
		t.Errorf("threshold 8: %+v", x)
	}
	seen := map[settingsKey]bool{}
	for _, v := range grid(base) {
		seen[settingsKey{v.set.threshold, v.set.increase, v.set.timer}] = true
	}
	if len(seen) != 18 {
		t.Errorf("%d points of the grid", len(seen))
	}
}

type settingsKey struct {
	threshold, increase uint8
	timer               uint16
}

// TestApply: the manager's view, which it reads from the nodes, has each field of the settings.
func TestApply(t *testing.T) {
	s := settings{threshold: 9, packetSize: 7, rate: 5, increase: 3, timer: 77, least: 2, bySL: true, table: simula().cut(80)}
	r := bed.Run{Fabric: bed.PairFabric, Engine: minhop.Engine{}, Lanes: 1, Buffers: bed.Wide()}
	b, err := r.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []settings{s, {computed: true}, {table: table{entry: make([]cc.Delay, 1)}}} {
		if err := set.apply(b); err != nil {
			t.Fatal(err)
		}
		b.Run(2 * time.Second) // the manager shows a view a second
		v := b.Manager.Congestion()
		if len(v.Nodes) != 10 {
			t.Fatalf("%d nodes", len(v.Nodes))
		}
		for i := range v.Nodes {
			switch h := v.Nodes[i].Held; {
			case v.Nodes[i].Differs != 0 || h == nil:
				t.Errorf("node %d: %+v", i, v.Nodes[i])
			case set.computed:
			case v.Nodes[i].Switch:
				x := h.Switch
				if x.Threshold != set.threshold || x.PacketSize != set.packetSize || x.MarkingRate != set.rate || !x.VictimMask.Has(1) || x.VictimMask.Has(5) {
					t.Errorf("switch: %+v", x)
				}
			default:
				for sl := range h.CA.SL {
					if want := (cc.SLSetting{Timer: set.timer, Increase: set.increase, Min: set.least}); h.CA.SL[sl] != want {
						t.Errorf("SL %d: %+v, want %+v", sl, h.CA.SL[sl], want)
					}
				}
				if (h.CA.PortControl&cc.PortControlSL != 0) != set.bySL || int(h.Limit) != len(set.table.entry)-1 || !slices.Equal(h.Table, set.table.entry) {
					t.Errorf("adapter: %+v", h)
				}
			}
		}
	}
}

// TestTables: pauses rise, and end where their names say.
func TestTables(t *testing.T) {
	for _, n := range []int{4, 72, 648, 2916} {
		x := crowd(n)
		last := -1.0
		for i, d := range x.entry {
			v := float64(d.Multiplier()) / float64(int(1)<<d.Shift())
			if v < last {
				t.Errorf("%s: entry %d is %g after %g", x.name, i, v, last)
			}
			last = v
		}
		if !bed.Near(last, 2*float64(n), 0.01) {
			t.Errorf("%s ends at %g packet times", x.name, last)
		}
	}
}
