package lab

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/congestion"
	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
	"heddle/sim"
)

// ccTrial is a run of random faults on a random fabric.
type ccTrial struct {
	*ccBed
	r      *rand.Rand
	mode   congestion.Mode
	silent int // Sets that were sent in a mode that sends none
	cfg    congestion.Config
}

// TestCongestionCampaign: MADs are lost, doubled and reordered, nodes restart, other tools write
// settings, and the mode changes. Then the faults end, and all nodes hold what is wanted, as another
// tool reads it. There are never more requests in flight than permitted, and no Sets in a mode
// without.
func TestCongestionCampaign(t *testing.T) {
	first, n := seeds(25, 2000)
	for seed := first; seed < first+n; seed++ {
		r := rand.New(rand.NewPCG(seed, 7))
		kinds := [][]string{{"xgft", "2", "3,4", "1,3"}, {"xgft", "1", "9", "1"}, {"mport", "4", "2"}, {"mesh", "3x3"}, {"hypercube", "3"}}
		kind := kinds[r.IntN(len(kinds))]
		cfg := ccConfig(congestion.Act)
		cfg.Window, cfg.Interval = 1+r.IntN(32), 5*time.Second
		if r.IntN(2) == 0 {
			cfg.Key = congestion.KeyPolicy{Key: r.Uint64() | 1, Write: true, Protect: r.IntN(2) == 0, Lease: uint16(r.IntN(20))}
		}
		if r.IntN(3) == 0 {
			cfg.Policy.HostThreshold = congestion.Give[uint8](9)
		}
		b := newCCBed(t, gen(t, kind[0], kind[1:]...), sim.Config{
			Seed: seed, EnhancedPort0: r.IntN(2) == 0, Drop: []float64{0, 0.01, 0.1}[r.IntN(3)], Duplicate: 0.02, Reorder: 0.05,
		}, cfg)
		tr := &ccTrial{ccBed: b, r: r, mode: congestion.Act, cfg: cfg}
		was := b.m.OnSend
		b.m.OnSend = func(p *mad.Packet) {
			if ib.Class(p.Data[1]) == ib.ClassCC && ib.Method(p.Data[3]) == ib.MethodSet && tr.mode != congestion.Act && tr.mode != congestion.Withdraw {
				tr.silent++
			}
			was(p)
		}
		if tr.run(); t.Failed() {
			t.Fatalf("replay with HEDDLE_SEED=%d: %v, %+v\n%s", seed, kind, b.m.CongestionStatus(), b.lines())
		}
	}
}

func (tr *ccTrial) run() {
	b, r := tr.ccBed, tr.r
	if err := b.m.Start(); err != nil {
		b.Fatal(err)
	}
	for range 8 + r.IntN(12) {
		b.c.Run(time.Duration(r.IntN(4000)) * time.Millisecond)
		n := &b.f.Nodes[r.IntN(len(b.f.Nodes))]
		switch k := r.IntN(6); {
		case k == 0 && n.ID != b.m.Node:
			if err := b.c.Sim.NodeUp(n.Name()); err != nil { // it restarts
				b.Fatal(err)
			}
		case k == 1:
			tr.mode = []congestion.Mode{congestion.Off, congestion.Observe, congestion.Act, congestion.Act, congestion.Withdraw}[r.IntN(5)]
			b.m.SetCongestionMode(tr.mode)
		case k == 2:
			c := []*sim.CCA{{Silent: true}, {Refuse: ib.StatusBadMethodAttr}, {Deaf: true}, {Answer: tr.garble}, {RefuseSets: ib.StatusBadMethodAttr}, nil}[r.IntN(6)]
			if err := b.c.Sim.SetCCA(n.Name(), c); err != nil {
				b.Fatal(err)
			}
		default:
			tr.write()
		}
	}
	// The faults end.
	b.c.Sim.SetDrop(0)
	b.c.Sim.SetDuplicate(0)
	b.c.Sim.SetReorder(0)
	for i := range b.f.Nodes {
		if err := b.c.Sim.SetCCA(b.f.Nodes[i].Name(), nil); err != nil {
			b.Fatal(err)
		}
	}
	if tr.mode != congestion.Withdraw || r.IntN(2) == 0 {
		tr.mode = congestion.Act
		b.m.SetCongestionMode(tr.mode)
	}
	// The longest pause of a node that was silent, and readings.
	b.c.Run(2*time.Minute + 2*tr.cfg.Interval)
	st := b.m.CongestionStatus()
	if !b.m.Up() || st.Managed != st.Agents || st.Differs != 0 || st.Agents == 0 {
		b.Error("it does not settle")
		return
	}
	b.verify(tr.cfg.Key.Key)
	if b.most > tr.cfg.Window {
		b.Errorf("%d requests in flight, permitted are %d", b.most, tr.cfg.Window)
	}
	if tr.silent > 0 {
		b.Errorf("%d Sets in a mode without", tr.silent)
	}
}

// garble changes some bytes of an answer, of its header too.
func (tr *ccTrial) garble(m *ib.MAD) {
	for range 1 + tr.r.IntN(40) {
		m[tr.r.IntN(len(m))] = byte(tr.r.Uint32())
	}
}

// write has another tool write settings of a node, with the right key.
func (tr *ccTrial) write() {
	b, r := tr.ccBed, tr.r
	lids := b.c.Sim.LIDs()
	if len(lids) == 0 {
		return
	}
	ep := b.other()
	defer ep.Close()
	if ep.LID() == 0 {
		return
	}
	to := lids[r.IntN(len(lids))].LID
	switch r.IntN(5) {
	case 4: // it takes the node over, or tries to
		ccAsk(b, b.c, ep, to, ib.MethodSet, cc.AttrCongestionKeyInfo, 0, tr.cfg.Key.Key, &cc.CongestionKeyInfo{
			Key: r.Uint64() | 1, Protect: r.IntN(2) == 0, LeasePeriod: uint16(1 + r.IntN(20)),
		})
	case 0:
		ccAsk(b, b.c, ep, to, ib.MethodSet, cc.AttrSwitchCongestionSetting, 0, tr.cfg.Key.Key, &cc.SwitchCongestionSetting{ControlMap: 0x1F, Threshold: 2, MarkingRate: 9})
	case 1:
		v := cc.SwitchPortCongestionSetting{}
		v.Port[1+r.IntN(4)] = cc.PortSetting{Valid: true, Threshold: 3}
		ccAsk(b, b.c, ep, to, ib.MethodSet, cc.AttrSwitchPortCongestionSetting, 0, tr.cfg.Key.Key, &v)
	case 2:
		ccAsk(b, b.c, ep, to, ib.MethodSet, cc.AttrCACongestionSetting, 0, tr.cfg.Key.Key, &cc.CACongestionSetting{PortControl: 1, ControlMap: 0xF0})
	case 3:
		ccAsk(b, b.c, ep, to, ib.MethodSet, cc.AttrCongestionControlTable, uint32(r.IntN(2)), tr.cfg.Key.Key, &cc.CongestionControlTable{Limit: uint16(r.IntN(128))})
	}
}
