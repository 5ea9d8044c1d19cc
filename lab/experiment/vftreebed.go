package experiment

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/engine/vftree"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// The test beds of Paper III. Their drawings are lost; they are rebuilt from
// flows, cable numbers and text.

// pairFabric is Figure 3: hosts 1 to 4 on one switch, 5 to 8 on the other, DDR,
// and a QDR cable between.
func pairFabric() (*fabric.Fabric, error) {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	for i := range 8 {
		b.AddCA(fmt.Sprintf("H%d", i+1), 1)
	}
	left, right := b.AddSwitch("left", 5), b.AddSwitch("right", 5)
	for i := range 4 {
		b.Connect(i, 1, left, i+1)
		b.Connect(4+i, 1, right, i+1)
	}
	b.Speed = ib.SpeedQDR
	b.Connect(left, 5, right, 5)
	return b.Build()
}

// leafFabric is Figure 4: leaves A, B and C of so many hosts, one root, two cables
// from each leaf, all DDR.
func leafFabric(hosts int) (*fabric.Fabric, error) {
	b := &fabric.Builder{Width: ib.Width4x, Speed: ib.SpeedDDR}
	for i := range 3 * hosts {
		b.AddCA(fmt.Sprintf("H%d", i+1), 1)
	}
	for i := range 3 {
		leaf := b.AddSwitch(fmt.Sprintf("leaf %c", 'A'+i), hosts+2)
		for k := range hosts {
			b.Connect(i*hosts+k, 1, leaf, k+1)
		}
	}
	root := b.AddSwitch("root", 6)
	for i := range 3 {
		b.Connect(3*hosts+i, hosts+1, root, 2*i+1)
		b.Connect(3*hosts+i, hosts+2, root, 2*i+2)
	}
	return b.Build()
}

// buffers is how the lanes of a switch port are buffered.
type buffers struct {
	name   string
	blocks int            // of a port, split among the lanes in use
	least  int            // of a lane, where there are several; 0: its part
	credit dataplane.Time // turn-round
}

// packetBlocks is what a packet takes.
var packetBlocks = dataplane.Blocks(dataBytes)

// wide has what a part of that time has; narrow has one packet for each lane, and
// a turn-round of credits after which a lane has 7.7 Gb/s of a DDR cable
// (§3.5 of the reference).
var (
	wide   = buffers{"64 KiB a port", 1024, 0, 0}
	narrow = buffers{"one packet a lane", 2 * packetBlocks, packetBlocks, 1100 * dataplane.Nanosecond}
)

// config is the data plane's for so many lanes in use.
func (x buffers) config(seed uint64, lanes int) dataplane.Config {
	dc := dataplane.Defaults()
	dc.Seed, dc.Reads, dc.CreditDelay = seed, 3, x.credit
	dc.LaneBuffer = min(x.blocks/lanes, 2048)
	if lanes > 1 && x.least > 0 {
		dc.LaneBuffer = x.least
	}
	return dc
}

// bedRun is one run on a test bed.
type bedRun struct {
	fabric  func() (*fabric.Fabric, error)
	engine  route.Engine // with vFtree it has its lanes, else all use one
	lanes   int          // in use
	byHand  map[flow]int // lanes put on flows by hand
	flows   []flow
	buffers buffers
}

// start brings the bed up and starts its flows.
func (r *bedRun) start(seed uint64) (*dataBed, error) {
	f, err := r.fabric()
	if err != nil {
		return nil, err
	}
	cfg := lab.ProductionConfig(lab.RepairChain{})
	cfg.Engines, cfg.Explicit = []route.Engine{r.engine}, true
	b, err := newDataBed(f, sim.Config{Seed: seed, HopLatency: hopLatency, SMALatency: smaLatency}, cfg,
		r.buffers.config(seed, r.lanes))
	if err != nil {
		return nil, err
	}
	if n := b.m.Snap.Tables.NumVLs; r.engine.Name() == "vftree" && n != r.lanes {
		return nil, fmt.Errorf("%d lanes, not %d", n, r.lanes)
	}
	for x, lane := range r.byHand {
		b.sl[x.src-1][x.dst-1] = ib.SL(lane)
	}
	b.cap(hostGbps)
	return b, b.addApart(r.flows)
}

// addApart starts saturated streams within two packet times of each other: all at
// once they would stay in step.
func (b *dataBed) addApart(flows []flow) error {
	slot := dataplane.LinkRate(ib.Width4x, ib.SpeedDDR).Time(dataBytes)
	for i, f := range flows {
		s := dataplane.Stream{
			Src: f.src - 1, To: dataplane.To(f.dst - 1), Bytes: dataBytes,
			Start: b.e.Now() + slot*dataplane.Time(2*i)/dataplane.Time(len(flows)),
		}
		if _, err := b.e.AddStream(s); err != nil {
			return err
		}
	}
	return nil
}

const (
	bedWarm   = 2 * time.Millisecond
	bedWindow = 4 * time.Millisecond
)

// rates is the rate of each flow in the steady state.
func (r *bedRun) rates(seed uint64) ([]float64, error) {
	b, err := r.start(seed)
	if err != nil {
		return nil, err
	}
	b.run(bedWarm)
	x := b.measure(bedWindow)
	return x, b.e.Check()
}

// bedFigure is a set of runs of the same flows.
type bedFigure struct {
	title  string
	fabric func() (*fabric.Fabric, error)
	flows  []flow
	lines  []bedLine
}

type bedLine struct {
	figure    string
	how       string
	engine    route.Engine
	lanes     int
	byHand    map[flow]int
	published string
}

var bedFigures = []bedFigure{
	{
		"Two switches (Figures 3, 5 and 6)", pairFabric,
		[]flow{{1, 5}, {2, 6}, {7, 6}, {8, 6}},
		[]bedLine{
			{"5a", "1 lane", minhop.Engine{}, 1, nil, "all ≈ 4.5"},
			{"5c", "2, the victim 1-5 by hand", minhop.Engine{}, 2, map[flow]int{{1, 5}: 1}, "1-5 ≈ 13"},
		},
	},
	{
		"Tree of two hosts a leaf (Figures 4a, 7a and 8)", func() (*fabric.Fabric, error) { return leafFabric(2) },
		[]flow{{1, 5}, {3, 5}, {6, 5}, {2, 3}, {4, 1}},
		[]bedLine{
			{"8a", "1 lane", ftree.Engine{}, 1, nil, "2-3, 4-1 as 1-5, 3-5, under half; 6-5 more"},
			{"8b", "2, the victims by hand", ftree.Engine{}, 2, map[flow]int{{2, 3}: 1, {4, 1}: 1}, "2-3, 4-1 ≈ " +
				"7; 6-5 still more"},
			{"8c", "3, vFtree", vftree.Engine{Lanes: 3}, 3, nil, "2-3, 4-1 ≈ 7; 1-5, 3-5, 6-5 equal"},
		},
	},
	{
		"Tree of four hosts a leaf, 2:1 (Figures 4b, 7b and 9)", func() (*fabric.Fabric,
			error,
		) {
			return leafFabric(4)
		},
		[]flow{{1, 9}, {6, 9}, {10, 9}, {8, 11}},
		[]bedLine{
			{"9a", "1 lane", ftree.Engine{}, 1, nil, "6-9 and 8-11 ≈ 2.1"},
			{"9b", "2, the victim by hand", ftree.Engine{}, 2, map[flow]int{{8, 11}: 1}, "8-11 ≈ 7.5"},
			{"9c", "3, vFtree", vftree.Engine{Lanes: 3}, 3, nil, "all ≈ 4.5"},
			{
				"9d", "4, by hand",
				ftree.Engine{},
				4,
				map[flow]int{{1, 9}: 1, {6, 9}: 2, {8, 11}: 3},
				"contributors ≈ 4.5; 8-11 below 9b",
			},
		},
	},
}
