package lab

import (
	"errors"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/sim"
)

// What repairs must hold to in virtual time, single faults and sequences together.
const (
	// repairP99 bounds the time from a fault until the last pair that it broke
	// works again, in 99 % of the faults. Single faults take 8 ms; the rest are faults
	// within a second of another, whose traps agents hold back.
	repairP99 = 250 * time.Millisecond
	// repairNoHarm: the manager breaks no pair that worked after a fault.
	repairNoHarm = true
	// repairDrained bounds the share of the faults with a drain while a pair was
	// broken.
	repairDrained = 0.005
	// repairLoad bounds the load of the busiest channel in the end, relative to that of
	// tables computed afresh.
	repairLoad = 1.05
)

// TestRepairTrial: single faults and sequences of ten on every kind of fabric
// under every engine that routes it and under the automatic chain. Every pair
// that a fault breaks is repaired in the end, and the switches hold tables
// that deliver everything, loop nowhere and cannot deadlock.
func TestRepairTrial(t *testing.T) {
	first, n := seeds(1, 100)
	sums := map[string]*RepairSummary{} // by chain
	var all RepairSummary
	for _, k := range RepairFabrics() {
		for _, c := range RepairChains() {
			t.Run(k.Name+"/"+c.Name, func(t *testing.T) {
				var sum RepairSummary
				for seed := first; seed < first+n; seed++ {
					for _, faults := range []int{1, 10} {
						if res := repairTrial(t, k, c, seed, faults); res != nil {
							sum.Add(res)
						}
					}
				}
				if sum.Trials > 0 {
					t.Log(&sum)
				}
				if sums[c.Name] == nil {
					sums[c.Name] = &RepairSummary{}
				}
				sums[c.Name].Merge(&sum)
				all.Merge(&sum)
			})
		}
	}
	t.Log(&all)
	whole := len(sums) == len(RepairChains()) && n > 1 // else -run or HEDDLE_SEED chose
	for _, c := range RepairChains() {
		s := sums[c.Name]
		if s == nil {
			continue
		}
		t.Logf("%s: %v", c.Name, s)
		if got := s.Quantile(0.99); whole && got > repairP99 {
			t.Errorf("%s: p99 of the repair time is %v, more than %v", c.Name, got, repairP99)
		}
		if repairNoHarm && s.ManagerBroke > 0 {
			t.Errorf("%s: the manager broke %d pairs after %d faults", c.Name, s.ManagerBroke, s.ManagerFaults)
		}
		if got := s.DrainShare(); whole && got > repairDrained {
			t.Errorf("%s: after %.2f %% of the faults the manager drained while a pair was broken", c.Name, 100*got)
		}
		if _, got := s.Load(); whole && got > repairLoad {
			t.Errorf("%s: a channel carries %.2f times the load of fresh tables", c.Name, got)
		}
		if whole && s.Breaking == 0 {
			t.Errorf("%s: no fault broke anything", c.Name)
		}
	}
}

// repairTrial runs a trial; nil if the engine does not route the fabric.
func repairTrial(t *testing.T, k RepairFabric, c RepairChain, seed uint64, faults int) *RepairResult {
	tr, err := k.Trial(c, seed, faults)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.Run()
	if errors.Is(err, ErrNotInForce) {
		return nil
	}
	if err != nil {
		t.Errorf("replay with HEDDLE_SEED=%d: %d faults\n%s", seed, faults, tr.Report(res, err))
		return nil
	}
	return res
}

// TestRepairQuality: where the rounds toward the engine's tables cannot continue, the busiest
// channel carries at most 5 % more than in tables computed from scratch.
func TestRepairQuality(t *testing.T) {
	for _, k := range []struct {
		fabric, chain string
		seed          uint64
		faults        int
	}{
		{"torus 4x4x2", "dor", 1, 1},            // another engine takes over, and keeps entries
		{"mesh 4x5", "nue", 2, 1},               // packets stand for tables before
		{"irregular, 1.5 links", "updn", 3, 10}, // on one lane no order of changes leads there
		{"dragonfly 4·1·1", "updn", 3, 10},
		{"torus 5x5", "dor", 1, 1},      // levels of one engine stay on lanes of another
		{"torus 5x5", "torus", 2, 10},   // SL-to-VL tables can only follow the entries
		{"hypercube 4", "torus", 6, 10}, // the engine is back, and no SL-to-VL tables are for both
		{"torus 5x5", "lash", 1, 1},     // new levels fit on old entries, or new entries on old levels
	} {
		var res *RepairResult
		for _, f := range RepairFabrics() {
			for _, c := range RepairChains() {
				if f.Name == k.fabric && c.Name == k.chain {
					res = repairTrial(t, f, c, k.seed, k.faults)
				}
			}
		}
		if res == nil || res.Fresh == 0 || res.Load*20 > res.Fresh*21 {
			t.Errorf("%+v: %+v", k, res)
		}
	}
}

// TestRepairInTime: faults within a second of others are repaired within 200 ms too.
func TestRepairInTime(t *testing.T) {
	for _, k := range []struct {
		fabric, chain string
		seed          uint64
	}{
		{"torus 5x5", "updn", 17}, // a link went down after the sweep under way had read its port
		{"torus 5x5", "dfsssp", 17},
		{"torus 3x3x3", "torus", 29}, // one end held its trap back, as one that got lost had gone before
		{"mesh 4x5", "dor", 0},       // one end of a link held its trap back, the other end's had to go over it
		// Requests to a switch that was cut off held every slot of the engine.
		{"fat tree, 2 levels, damaged", "lash", 74},
	} {
		for _, f := range RepairFabrics() {
			for _, c := range RepairChains() {
				if f.Name != k.fabric || c.Name != k.chain {
					continue
				}
				res := repairTrial(t, f, c, k.seed, 10)
				if res == nil {
					t.Fatalf("%+v: no result", k)
				}
				for i := range res.Faults {
					if got := res.Faults[i].Time; got > 200*time.Millisecond {
						t.Errorf("%+v: fault %d (%s) took %v", k, i, res.Faults[i].What, got)
					}
				}
			}
		}
	}
}

// TestRepairTrialReplay: a seed gives the same result every time.
func TestRepairTrialReplay(t *testing.T) {
	k := RepairFabrics()[1]
	var was *RepairResult
	for range 2 {
		tr, err := k.Trial(RepairChains()[0], 3, 10)
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.Run()
		if err != nil {
			t.Fatal(err)
		}
		if was != nil {
			for i := range res.Faults {
				if res.Faults[i] != was.Faults[i] {
					t.Errorf("fault %d: %+v, before %+v", i, res.Faults[i], was.Faults[i])
				}
			}
		}
		was = res
	}
}

// TestRepairWatch: the watch detects outages that the manager did not cause, and their
// duration.
func TestRepairWatch(t *testing.T) {
	f := ring8()
	c, m := bringUp(t, f, sim.Config{Seed: 1}, ProductionConfig(RepairChain{Engines: []route.Engine{updn.Engine{}}}))
	c.Run(2 * time.Second)
	node := func(id string) int {
		n, err := c.Sim.Node(id)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	lid := ib.LID(0)
	for _, e := range c.Sim.LIDs() {
		if e.Node == node("H3") {
			lid = e.LID
		}
	}
	s3 := node("S3")
	p := c.Sim.WatchPairs(m.ep.NodeIndex())
	if st := p.Stats(); st.Broken != 0 || st.Works != 8*16 {
		t.Fatalf("at first %+v", st)
	}
	var broke, repaired []mad.Time
	p.OnPair = func(at mad.Time, _ int, l ib.LID, was, now sim.PairState) {
		if l != lid {
			t.Errorf("LID %d went from %d to %d", l, was, now)
		}
		if now == sim.PairBroken {
			broke = append(broke, at)
		} else {
			repaired = append(repaired, at)
		}
	}
	// A write behind the manager's back is none that a switch reports, so it is
	// announced as one.
	write := func(port uint8) {
		c.Sim.SetLFT(s3, lid, port)
		c.Sim.OnChange(sim.Change{At: c.Sim.Now(), Kind: sim.ChangeSet, Node: s3, Attr: smp.AttrLFT, AttrMod: uint32(lid) / 64})
	}
	begin := c.Sim.Now()
	write(255)
	if at, port := p.Ends(s3, lid); at != s3 || port != 0 {
		t.Errorf("packets end at %d port %d", at, port)
	}
	c.Run(5 * time.Millisecond)
	write(1)
	if len(broke) != 8 || len(repaired) != 8 || broke[0] != begin || repaired[7] != begin.Add(5*time.Millisecond) {
		t.Errorf("broken at %v, repaired at %v", broke, repaired)
	}
	if st := p.Stats(); st.Broken != 0 || st.Worst != 8 || st.Breaks != 8 || st.Repairs != 8 {
		t.Errorf("at the end %+v", st)
	}
}
