package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/internal/fabrictest"
	"heddle/sim"
	"heddle/subnet"
)

// What the schedules of virtual machines run on: every property is drawn from the seed's
// generator, so that each combination can come up.

// vmTrees and vmGrids are the small nets on which engines for such nets route; vmNets are
// all.
var (
	vmTrees = []string{"xgft 2 4,4 1,2", "kary 2 3", "mport 4 3"}
	vmGrids = []string{"mesh 3x3 hosts=2", "hypercube 3", "torus 3x3", "torus 3x3x2", "hyperx 3x3", "dragonfly 2 2 1"}
	vmNets  = slices.Concat(vmTrees, vmGrids, []string{"irregular 8 hosts=2", "irregular 12 ports=6", "dragonfly+ 2 2 2 1"})
)

// vmChains are drawn once each in so many seeds that follow each other: the automatic
// chain three times, and every engine with updn behind it.
var vmChains = append(RepairChains(), RepairChains()[0], RepairChains()[0])

// vmNetsOf are the nets on which the first engine of a chain routes. TestVMs counts
// whether it does.
func vmNetsOf(c *RepairChain) []string {
	switch c.Want {
	case "minhop", "ftree", "vftree":
		return vmTrees
	case "sssp":
		return append([]string{"hypercube 3", "torus 3x3", "hyperx 3x3"}, vmTrees...)
	case "dor", "torus":
		return vmGrids
	}
	return vmNets
}

// vmModel is an adapter, and what LIDs interfaces can have there.
type vmModel struct {
	sim.Hypervisor
	name  string
	kinds []subnet.LIDKind
}

var vmModels = []vmModel{
	{sim.Hypervisor{Model: sim.SharedPort}, "shared port", []subnet.LIDKind{subnet.SharedLID, subnet.FloatingLID}},
	{sim.Hypervisor{Model: sim.VSwitch}, "vSwitch", []subnet.LIDKind{subnet.OwnLID, subnet.SharedLID}}, // who asks for a shared one gets an own one
	{sim.Hypervisor{Model: sim.VPorts}, "VPorts", []subnet.LIDKind{subnet.SharedLID, subnet.OwnLID}},
	{sim.Hypervisor{Model: sim.VPorts, VendorTraps: true}, "VPorts with vendor traps", []subnet.LIDKind{subnet.SharedLID, subnet.OwnLID}},
	{sim.Hypervisor{Model: sim.VPorts, OwnLIDs: true}, "VPorts with LIDs", []subnet.LIDKind{subnet.OwnLID}},
}

// vmDraw is what a seed says about a schedule.
type vmDraw struct {
	chain       RepairChain
	net         string
	adapters    []vmModel        // one, or several, drawn for each host
	kinds       []subnet.LIDKind // ascending
	prepopulate bool
}

// vmRouting draws a chain and a net. Of the seeds k·n+1 … (k+1)·n, with n chains, each has
// another chain: so few seeds have every engine in force.
func vmRouting(seed uint64, rng *rand.Rand) (RepairChain, string) {
	n := uint64(len(vmChains))
	order := rand.New(rand.NewPCG((seed-1)/n, 0x6368)).Perm(len(vmChains))
	c := vmChains[order[(seed-1)%n]]
	nets := vmNetsOf(&c)
	net := nets[rng.IntN(len(nets))]
	if slices.Contains([]string{"dnup", "nue"}, c.Want) && rng.IntN(3) == 0 {
		c.Engines = c.Engines[:1] // it routes everything, also what faults leave
	}
	return c, net
}

// drawVM draws the net, the chain, the adapters and the addresses.
func drawVM(seed uint64, rng *rand.Rand) vmDraw {
	var d vmDraw
	d.chain, d.net = vmRouting(seed, rng)
	several := 1
	if rng.IntN(2) == 0 {
		several = 2 + rng.IntN(3)
	}
	var can []subnet.LIDKind
	for _, k := range rng.Perm(len(vmModels))[:several] {
		d.adapters = append(d.adapters, vmModels[k])
		can = append(can, vmModels[k].kinds...)
	}
	slices.Sort(can)
	can = slices.Compact(can)
	for k, set := 0, 1+rng.IntN(1<<len(can)-1); k < len(can); k++ {
		if set>>k&1 == 1 {
			d.kinds = append(d.kinds, can[k])
		}
	}
	d.prepopulate = rng.IntN(2) == 0
	return d
}

// models are the names of the adapters.
func (d *vmDraw) models() string {
	var names []string
	for _, a := range d.adapters {
		names = append(names, a.name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (d *vmDraw) String() string {
	mode := "dynamic"
	if d.prepopulate {
		mode = "prepopulated"
	}
	var names []string
	for _, e := range d.chain.Engines {
		names = append(names, e.Name())
	}
	return fmt.Sprintf("%s, %s, %s, LIDs %v, %s", d.net, strings.Join(names, ","), d.models(), d.kinds, mode)
}

// makeNet makes one of vmNets.
func makeNet(net string, seed uint64) *fabric.Fabric {
	words := strings.Fields(net)
	f, err := fabrictest.Generate(words[0], words[1:], seed)
	if err != nil {
		panic(err)
	}
	return f
}

// vmTrial draws a schedule.
func vmTrial(seed uint64) *VMTrial {
	rng := rand.New(rand.NewPCG(seed, 0x766D64))
	d := drawVM(seed, rng)
	tr := &VMTrial{
		Seed: seed, What: d.String(), Fabric: makeNet(d.net, rng.Uint64()), Engines: d.chain.Engines, Kinds: d.kinds, Prepopulate: d.prepopulate,
		Present: true, Steps: 120, Gap: 50 * time.Millisecond, Settle: 90 * time.Second, Probes: 200,
		Faults: rng.IntN(10), Kills: rng.IntN(4), Loss: []float64{0, 0, 0.01, 0.05}[rng.IntN(4)],
	}
	for _, a := range d.adapters {
		tr.Models = append(tr.Models, a.Hypervisor)
	}
	if slices.ContainsFunc(tr.Models, func(h sim.Hypervisor) bool { return h.Model == sim.VPorts }) && rng.IntN(3) == 0 {
		tr.Wild = rng.IntN(8)
	}
	if rng.IntN(3) == 0 {
		tr.Production, tr.Gap, tr.Settle = true, time.Duration(50+rng.IntN(700))*time.Millisecond, 30*time.Minute
	}
	return tr
}

// TestVMDraws: every combination of net, engine, model of adapter, kinds of LID and mode
// comes up, as far as the engine routes the net and the adapter can give the LID; and so
// do mixed adapters with each of them.
func TestVMDraws(t *testing.T) {
	want := map[string]bool{}
	name := func(c, net, models string, kinds []subnet.LIDKind, prepopulate bool) string {
		return fmt.Sprintf("%s on %s, %s, LIDs %v, prepopulate %v", c, net, models, kinds, prepopulate)
	}
	for _, c := range RepairChains() {
		for _, net := range vmNetsOf(&c) {
			for _, pre := range []bool{false, true} {
				for _, m := range vmModels {
					kinds := slices.Sorted(slices.Values(m.kinds))
					for k := range kinds {
						want[name(c.Name, net, m.name, kinds[k:k+1], pre)] = true
					}
					want[name(c.Name, net, m.name, kinds, pre)] = true
				}
				for k := range 3 {
					want[name(c.Name, net, "mixed", []subnet.LIDKind{subnet.LIDKind(k)}, pre)] = true
				}
			}
		}
	}
	all := len(want)
	for seed := uint64(1); seed <= 200_000 && len(want) > 0; seed++ {
		d := drawVM(seed, rand.New(rand.NewPCG(seed, 0x766D64)))
		models := "mixed"
		if len(d.adapters) == 1 {
			models = d.adapters[0].name
		}
		delete(want, name(d.chain.Name, d.net, models, d.kinds, d.prepopulate))
	}
	for w := range want {
		t.Errorf("of %d combinations, this one is never drawn: %s", all, w)
	}
}

// inForce counts the schedules in which tables of an engine were installed.
type inForce map[string]int

func (f inForce) add(names map[string]bool) {
	for e := range names {
		f[e]++
	}
}

// check: of so many schedules each engine was in force in 5 % and more; of few, in which an engine
// is drawn two or three times and may refuse a net once, in one and more.
func (f inForce) check(t *testing.T, schedules uint64) {
	t.Helper()
	t.Logf("schedules by installed engine, of %d: %v", schedules, f)
	if schedules < uint64(2*len(vmChains)) {
		return
	}
	least := uint64(1)
	if schedules >= uint64(10*len(vmChains)) {
		least = (schedules + 19) / 20
	}
	for _, c := range RepairChains() {
		if c.Want != "" && uint64(f[c.Want]) < least {
			t.Errorf("tables of %s were installed in %d of %d schedules, want %d and more", c.Want, f[c.Want], schedules, least)
		}
	}
}
