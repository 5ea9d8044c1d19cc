package lab

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/routetest"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/file"
	"heddle/route/engine/updn"
	"heddle/route/osmdump"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// moveNets are nets with two hypervisors at least on each leaf, such that each engine accepts
// one of them.
var moveNets = []struct {
	kind   string
	params []string
}{
	{"irregular", []string{"20", "ports=6", "hosts=2", "links=40"}},
	{"xgft", []string{"2", "4,6", "1,4"}},
	{"torus", []string{"4x4", "hosts=2"}},
	{"mesh", []string{"4x4", "hosts=2"}},
}

// moveCloud is a cloud of vSwitches with dynamic LIDs, under what the product takes where
// nobody says anything else.
func moveCloud(t testing.TB, kind string, params []string, chain RepairChain) *cloud {
	t.Helper()
	f := gen(t, kind, params...)
	c, err := NewCluster(f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, OptimizedSL2VL: true})
	if err != nil {
		t.Fatal(err)
	}
	k := &cloud{t: t, Cluster: c, cfg: ProductionConfig(chain), placement: map[string]subnet.Placement{}, serves: true}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; !n.IsSwitch() && n.Ports[1].Cabled() {
			k.hosts = append(k.hosts, n.ID)
		}
	}
	for _, n := range k.hosts[1:] {
		if err := c.Sim.AddHypervisor(n, 1, sim.Hypervisor{Model: sim.VSwitch, VFs: 6}); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// fileChain is the engine that takes dumped tables: those of updn.
func fileChain(t testing.TB, kind string, params []string) RepairChain {
	t.Helper()
	k := moveCloud(t, kind, params, RepairChain{Engines: []route.Engine{updn.Engine{}}})
	k.start(nil)
	k.up()
	var b bytes.Buffer
	if err := routetest.WriteLFTs(&b, k.m.Snap.Graph, k.m.Snap.Tables); err != nil {
		t.Fatal(err)
	}
	d, err := osmdump.ReadRoutes(&b)
	if err != nil {
		t.Fatal(err)
	}
	return RepairChain{Name: "file", Engines: []route.Engine{file.Engine{Dump: d}, updn.Engine{}}, Want: "file"}
}

// countSets has every Set of a forwarding table block counted, by switch and block.
func (k *cloud) countSets() (most func() int) {
	sets := map[string]int{}
	k.lfts = 0
	k.m.OnSend = func(p *mad.Packet) {
		if x := (*ib.MAD)(p.Data); x.Class().IsSMP() && x.Method() == ib.MethodSet && x.AttrID() == smp.AttrLFT {
			k.lfts++
			sets[fmt.Sprint(p.Addr.LID, p.Data[6], p.Data[128:192], x.AttrMod())]++
		}
	}
	return func() (n int) {
		for _, v := range sets {
			n = max(n, v)
		}
		return n
	}
}

// at is the host of a VM.
func (k *cloud) at(vm string) int {
	for i := range k.hosts {
		if k.place(i, 0).Port == k.placement[vm].Place.Port {
			return i
		}
	}
	k.t.Fatalf("%s is nowhere", vm)
	return -1
}

// mate is another hypervisor on the switch of a host, -1 if there is none.
func (k *cloud) mate(host int) int {
	leaf := func(i int) int32 { return k.Fabric.Nodes[k.Fabric.Find(k.hosts[i])].Ports[1].Peer.Node }
	for i := 1; i < len(k.hosts); i++ {
		if i != host && leaf(i) == leaf(host) {
			return i
		}
	}
	return -1
}

// social is the first hypervisor from number i on that has a mate.
func (k *cloud) social(i int) int {
	for ; ; i++ {
		if h := 1 + i%(len(k.hosts)-1); k.mate(h) >= 0 {
			return h
		}
	}
}

// TestMoveSets: with every engine a LID that moves inside a leaf takes one Set of a forwarding
// table block, and elsewhere no block is written twice. Nothing waits: a VM has its paths again
// in less than 10 ms. A possible transient cycle is reported.
func TestMoveSets(t *testing.T) {
	moved, risky := map[string]int{}, 0
	for _, net := range moveNets {
		for _, chain := range append(RepairChains()[1:], fileChain(t, net.kind, net.params)) {
			for _, mode := range []subnet.MoveMode{subnet.MoveMinimal, subnet.MoveAuto} {
				k := moveCloud(t, net.kind, net.params, chain)
				k.start(nil)
				k.up()
				if k.m.Snap.Engine != chain.Name {
					continue // it refuses such a net
				}
				k.Run(time.Minute)
				names := []string{"a", "b", "c", "d"}
				for i, n := range names {
					k.put(n, k.social(2+3*i), 1+i, subnet.OwnLID)
				}
				k.set(subnet.PlacementPlaced, k.all()...)
				k.Run(time.Minute)
				for step := range 4 {
					for i, n := range names {
						at := k.at(n)
						leaf := step%2 == 0
						host := k.mate(at)
						if !leaf {
							host = k.social(at + 7 + 2*i)
							leaf = k.mate(host) == at
						}
						l := k.move(n, host, 1+i)
						l.Mode = mode
						k.Run(5 * time.Second)
						what := fmt.Sprintf("%s, %s, %v: %s from host %d to %d", net.kind, chain.Name, mode, n, at, host)
						most := k.countSets()
						began, risks := k.Sim.Now(), len(told(k.m, sm.KindTransientCycle))
						k.set(subnet.PlacementPlaced, l)
						k.checkTables()
						if leaf && k.lfts != 1 {
							t.Errorf("%s: %d LFT Sets inside a leaf", what, k.lfts)
						}
						if most() > 1 {
							t.Errorf("%s: a block was written %d times, %d LFT Sets", what, most(), k.lfts)
						}
						if took := k.Sim.Now().Sub(began); took > 10*time.Millisecond {
							t.Errorf("%s took %v", what, took)
						}
						r, _ := k.last(l.GUID)
						n := len(told(k.m, sm.KindTransientCycle)) - risks
						if r.AtRisk != (n > 0) || leaf && r.AtRisk {
							t.Errorf("%s: %d times a risk was told, and the placement says %v", what, n, r.AtRisk)
						}
						risky += n
						moved[chain.Name]++
					}
				}
			}
		}
	}
	if len(moved) != 12 || risky == 0 {
		t.Errorf("moves by engine: %v, %d of them at risk", moved, risky)
	}
}
