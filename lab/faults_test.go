package lab

import (
	"os"
	"strconv"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
)

func trialFabric(seed uint64) *fabric.Fabric {
	var f *fabric.Fabric
	var err error
	switch seed % 4 {
	case 0:
		f, err = fabric.Generate("irregular", []string{"8"}, seed)
	case 1:
		f, err = fabric.Generate("torus", []string{"3x3"}, seed)
	case 2:
		f, err = fabric.Generate("kary", []string{"2", "3"}, seed)
	default:
		f, err = fabric.Generate("irregular", []string{"16"}, seed)
	}
	if err != nil {
		panic(err)
	}
	return f
}

func trial(seed uint64) *Trial {
	tr := &Trial{
		Seed: seed, Fabric: trialFabric(seed), Faults: int(seed % 7), Span: 3 * time.Second, Settle: 60 * time.Second,
		Loss: []float64{0, 0.01, 0.05, 0.1}[seed/4%4], Kills: int(seed / 16 % 3),
	}
	if seed%3 == 0 {
		tr.Groups = int(seed / 3 % 4)
	}
	if e := seed / 5 % 8; seed%5 == 0 && int(e) < len(trialEngines) {
		tr.Engines = []route.Engine{trialEngines[e], updn.Engine{}}
	}
	return tr
}

// trialEngines are those that need lanes, at least on some of the nets.
var trialEngines = []route.Engine{torus.Engine{}, sssp.DFEngine{}, lash.Engine{}, nue.Engine{}, ftree.Engine{}}

// seeds is how many trials a test runs: HEDDLE_SEEDS, else more with
// HEDDLE_LONG.
func seeds(short, long int) (first, n uint64) {
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEED"), 10, 64); err == nil {
		return v, 1
	}
	if v, err := strconv.ParseUint(os.Getenv("HEDDLE_SEEDS"), 10, 64); err == nil {
		return 1, v
	}
	if os.Getenv("HEDDLE_LONG") != "" {
		return 1, uint64(long)
	}
	return 1, uint64(short)
}

// TestFaults: links and switches fail and return, switches lose their tables,
// MADs are lost, doubled, delayed and reordered, the manager is killed; when
// things calm down the switches hold tables that deliver everything, loop
// nowhere and cannot deadlock, and no LID has changed.
func TestFaults(t *testing.T) {
	first, n := seeds(3000, 100_000)
	for s := first; s < first+n; s++ {
		tr := trial(s)
		if err := tr.Run(); err != nil {
			t.Errorf("replay with HEDDLE_SEED=%d\n%s", s, tr.Report(err))
			return
		}
	}
}

// TestReplay: a seed gives the same run every time.
func TestReplay(t *testing.T) {
	for s := uint64(17); s < 21; s++ {
		a, b := trial(s), trial(s)
		_ = a.Run()
		_ = b.Run()
		if a.Hash() != b.Hash() {
			t.Errorf("seed %d: two runs differ", s)
		}
	}
}
