package transition_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/transition"
)

// TestLanesUnknown: switches hold lane tables of either of two states. Once packets
// have left, none meets anything but the wanted tables.
func TestLanesUnknown(t *testing.T) {
	planned := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 23))
		g := routetest.Random(3+rng.IntN(5), rng.IntN(10), 1, 1, rng.IntN).Graph()
		a, c, b := randomTables(g, rng, true, true, true), randomTables(g, rng, true, true, true), randomTables(g, rng, true, true, true)
		if newWire(g, b, b.TopLID).alone(b, nil) != nil {
			continue
		}
		planned++
		o := limited
		o.LanesUnknown, o.RepathTime = true, time.Second
		p := transition.New(g, a, b, o)
		if p.Mode != transition.ModeStatic || len(p.Stages) < 3 {
			t.Fatalf("seed %d: %v (%s), %d stages", seed, p.Mode, p.Reason, len(p.Stages))
		}
		w := newWire(g, a, a.TopLID)
		w.group(b)
		told := false
		w.levels = func(s int32, l ib.LID) map[ib.SL]bool {
			m := map[ib.SL]bool{b.PathSL(s, l): true}
			if !told {
				m[a.PathSL(s, l)] = true
			}
			return m
		}
		w.mlanes = func(mlid ib.LID) map[ib.SL]bool { return treeLevels(b, mlid) }
		w.drained()
		tables := 0
		for k := range p.Stages {
			st := &p.Stages[k]
			w.stage = k
			tables += len(st.SL2VL)
			for _, d := range st.LFT {
				var data [route.BlockLen]byte
				p.Block(k, d, &data)
				w.write(d.Switch, d.Block, &data)
			}
			for _, d := range st.MFT {
				var data [32]uint16
				p.McastBlock(k, d, &data)
				w.writeGroup(d, &data)
			}
			if k == 0 { // whatever they held may have had cycles
				if st.Drain <= 0 {
					t.Fatalf("seed %d: no drain", seed)
				}
				w.drained()
				w.lanes = []*route.Tables{a, c}
				continue
			}
			if len(st.SL2VL) > 0 {
				w.lanes = append(w.lanes, b)
			}
			if err := w.verify(); err != nil {
				t.Fatalf("seed %d: stage %d: %v", seed, k, err)
			}
			told = told || st.Repath > 0
			if st.Drain > 0 {
				w.drained()
			}
		}
		want := 0
		for s := range g.Switches {
			want += int(g.Off[s+1]-g.Off[s]) * int(g.Switches[s].NumPorts)
		}
		if tables != want {
			t.Fatalf("seed %d: %d lane tables, want %d", seed, tables, want)
		}
	}
	if planned == 0 {
		t.Error("nothing was planned")
	}
}
