package bed

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/route"
	"heddle/route/engine/vftree"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// The test beds of Paper III. Their drawings are lost; they are rebuilt from
// flows, cable numbers and text.

// PairFabric is Figure 3: hosts 1 to 4 on one switch, 5 to 8 on the other, DDR,
// and a QDR cable between.
func PairFabric() (*fabric.Fabric, error) {
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

// LeafFabric is Figure 4: leaves A, B and C of so many hosts, one root, two cables
// from each leaf, all DDR. Cables are numbered 1 and 2 (A), 3 and 4 (B), 5 and 6 (C), as
// the root's ports.
func LeafFabric(hosts int) (*fabric.Fabric, error) { return leafFabric(hosts, ib.SpeedDDR) }

// LeafFabricQDR is LeafFabric with QDR cables to the root (Figure 3b of Paper IV).
func LeafFabricQDR(hosts int) (*fabric.Fabric, error) { return leafFabric(hosts, ib.SpeedQDR) }

func leafFabric(hosts int, up ib.LinkSpeed) (*fabric.Fabric, error) {
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
	b.Speed = up
	for i := range 3 {
		b.Connect(3*hosts+i, hosts+1, root, 2*i+1)
		b.Connect(3*hosts+i, hosts+2, root, 2*i+2)
	}
	return b.Build()
}

// Buffers is how the lanes of a switch port are buffered.
type Buffers struct {
	Name   string
	Blocks int            // of a port, split among the lanes in use
	Least  int            // of a lane, where there are several; 0: its part
	Credit dataplane.Time // turn-round
}

// PacketBlocks is what a packet takes.
func PacketBlocks() int { return dataplane.Blocks(Bytes) }

// Wide is what a part of that time has.
func Wide() Buffers { return Buffers{"64 KiB a port", 1024, 0, 0} }

// Narrow has one packet for each lane, and a turn-round of credits after which a lane
// has 7.7 Gb/s of a DDR cable (§3.5 of the reference).
func Narrow() Buffers {
	n := PacketBlocks()
	return Buffers{"one packet a lane", 2 * n, n, 1100 * dataplane.Nanosecond}
}

// Config is the data plane's for so many lanes in use.
func (x Buffers) Config(seed uint64, lanes int) dataplane.Config {
	dc := dataplane.Defaults()
	dc.Seed, dc.Reads, dc.CreditDelay = seed, 3, x.Credit
	dc.LaneBuffer = min(x.Blocks/lanes, 2048)
	if lanes > 1 && x.Least > 0 {
		dc.LaneBuffer = x.Least
	}
	return dc
}

// Run is one run on a test bed.
type Run struct {
	Fabric  func() (*fabric.Fabric, error)
	Engine  route.Engine // with vFtree it has its lanes, else all use one
	Lanes   int          // in use
	ByHand  map[Flow]int // lanes put on flows by hand
	Flows   []Flow
	Buffers Buffers
	Input   dataplane.Queueing
}

// Start brings the bed up and starts its flows.
func (r *Run) Start(seed uint64) (*Data, error) {
	f, err := r.Fabric()
	if err != nil {
		return nil, err
	}
	cfg := lab.ProductionConfig(lab.RepairChain{})
	cfg.Engines, cfg.Explicit = []route.Engine{r.Engine}, true
	dc := r.Buffers.Config(seed, r.Lanes)
	dc.Input = r.Input
	b, err := NewData(f, sim.Config{Seed: seed, HopLatency: HopLatency, SMALatency: SMALatency}, cfg, dc)
	if err != nil {
		return nil, err
	}
	if err := wantLanes(b, r.Engine); err != nil {
		return nil, err
	}
	for x, lane := range r.ByHand {
		b.SL[x[0]-1][x[1]-1] = ib.SL(lane)
	}
	b.Cap(HostGbps)
	return b, b.AddApart(r.Flows)
}

// AddApart starts saturated streams within two packet times of each other: all at
// once they would stay in step.
func (b *Data) AddApart(flows []Flow) error {
	slot := dataplane.LinkRate(ib.Width4x, ib.SpeedDDR).Time(Bytes)
	for i, f := range flows {
		s := dataplane.Stream{
			Src: f[0] - 1, To: dataplane.To(f[1] - 1), Bytes: Bytes,
			Start: b.Engine.Now() + slot*dataplane.Time(2*i)/dataplane.Time(len(flows)),
		}
		if _, err := b.Engine.AddStream(s); err != nil {
			return err
		}
	}
	return nil
}

// The steady state of a test bed is a window after a time to warm up.
const (
	Warm   = 2 * time.Millisecond
	Window = 4 * time.Millisecond
)

// Rates is the rate of each flow in the steady state.
func (r *Run) Rates(seed uint64) ([]float64, error) {
	b, err := r.Start(seed)
	if err != nil {
		return nil, err
	}
	b.Run(Warm)
	x := b.Measure(Window)
	return x, b.Engine.Check()
}

// wantLanes reports that vFtree took another number of lanes than it was given.
func wantLanes(b *Data, e route.Engine) error {
	v, ok := e.(vftree.Engine)
	if n := b.Manager.Snap.Tables.NumVLs; ok && n != v.Lanes {
		return fmt.Errorf("vftree took %d lanes, not %d", n, v.Lanes)
	}
	return nil
}
