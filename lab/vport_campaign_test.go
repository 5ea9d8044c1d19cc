package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
)

// TestVPortCampaign: hosts enable and disable VPorts, plug them, move VMs and
// reboot, cables are pulled, datagrams are lost, doubled and reordered, the manager
// is replaced. In the end every VPort that its host wants is Active and shown as it
// is, and no manager ever made a second VPort with the same GUID Active.
func TestVPortCampaign(t *testing.T) {
	first, n := seeds(8, 400)
	for seed := first; seed < first+n; seed++ {
		vportCampaign(t, seed)
		if t.Failed() {
			t.Fatalf("replay with HEDDLE_SEED=%d", seed)
		}
	}
}

func vportCampaign(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 12))
	sc := sim.Config{Seed: seed, HopLatency: time.Microsecond, TrapMinInterval: 50 * time.Millisecond}
	chain, net := vmRouting(seed, rng)
	if rng.IntN(2) == 1 {
		sc.Drop, sc.Duplicate, sc.Reorder, sc.ReorderMax = 0.02, 0.01, 0.02, 30*time.Millisecond
	}
	c, err := NewCluster(makeNet(net, rng.Uint64()), sc)
	if err != nil {
		t.Fatal(err)
	}
	c.leftLIDs = true
	const vfs = 5
	names := hostNames(c)
	hyps, own := names[1:6], rng.IntN(3) == 0
	for i, h := range hyps {
		hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: vfs, VendorTraps: i%2 == 0, OwnLIDs: own && i < 3}, rng.IntN(3))
	}
	active := map[ib.GUID]sim.VF{}
	c.Sim.OnChange = func(ch sim.Change) {
		if ch.Kind != sim.ChangeVPort {
			return
		}
		f := sim.VF{Node: ch.Node, Port: ch.Port, Index: ch.VPort}
		for g, o := range active {
			if o == f {
				delete(active, g)
			}
		}
		if ch.New != ib.StateActive {
			return
		}
		st, _ := c.Sim.VPort(f)
		if o, ok := active[st.GUID]; ok {
			// Where datagrams are delayed a Set may come when its VPort is another's;
			// then it is taken back.
			os, _ := c.Sim.VPort(o)
			if p := c.Sim.PortInfo(o.Node, 1); sc.Drop == 0 && p.PortState == ib.StateActive && os.State == ib.StateActive && os.GUID == st.GUID {
				t.Errorf("seed %d at %v: %v is made Active with GUID %v, which %v has", seed, ch.At, f, st.GUID, o)
			}
		}
		active[st.GUID] = f
	}
	cfg := TrialConfig()
	cfg.Engines, cfg.Explicit = chain.Engines, len(chain.Engines) == 1
	at := 0
	m, err := c.Start(firstCA(c.Fabric), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	vms := map[string]bool{}
	pick := func() string { return hyps[rng.IntN(len(hyps))] }
	for range 40 {
		h := pick()
		f, err := c.Sim.VF(h, 1, 1+rng.IntN(vfs))
		vm := fmt.Sprint("vm", rng.IntN(6))
		switch k := rng.IntN(20); {
		case k < 5 && err == nil:
			_ = c.Sim.EnableVPort(f)
		case k < 8 && err == nil:
			_ = c.Sim.DisableVPort(f)
		case k < 10:
			_ = c.Sim.SetVFs(h, 1, 2+rng.IntN(vfs-1))
		case k < 13 && !vms[vm] && err == nil:
			// Two of them are copies of others, with their GUIDs.
			if c.Sim.PlaceVM(vm, f, sim.VMOptions{GUID: vGUID(int(vm[2]-'0') % 4)}) == nil {
				vms[vm] = true
			}
		case k < 17 && err == nil:
			_ = c.Sim.MoveVM(vm, f)
		case k == 17:
			_ = c.Sim.NodeUp(h) // a reboot
		case k == 18:
			_ = c.Sim.LinkDown(h, 1)
			hh := h
			c.Sim.After(time.Duration(rng.IntN(3000))*time.Millisecond, func() { _ = c.Sim.LinkUp(hh, 1) })
		case k == 19 && rng.IntN(3) == 0:
			m.Kill()
			at = 1 - at
			if m, err = c.Start([]string{firstCA(c.Fabric), names[0]}[at], cfg, m.Store); err != nil {
				t.Fatal(err)
			}
		}
		c.Run(time.Duration(rng.IntN(1500)) * time.Millisecond)
	}
	for _, h := range hyps {
		_ = c.Sim.LinkUp(h, 1)
	}
	_, _ = c.Sim.RemoveVM("vm4"), c.Sim.RemoveVM("vm5")
	c.Run(20 * time.Second)
	for _, h := range hyps {
		if err := c.RunUntil(40*time.Second, func() bool { return m.Up() && m.Idle() && vportsShown(t, c, m, h, vfs) == nil }); err != nil {
			t.Errorf("seed %d: %v: %v\n%s", seed, err, vportsShown(t, c, m, h, vfs), tail(m))
			return
		}
	}
	if err := c.Check(m); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	seen := map[ib.GUID]sim.VF{}
	for _, h := range hyps {
		for i := 1; i <= vfs; i++ {
			f, err := c.Sim.VF(h, 1, i)
			if err != nil {
				continue
			}
			if st, _ := c.Sim.VPort(f); st.State == ib.StateActive {
				if o, ok := seen[st.GUID]; ok {
					t.Errorf("seed %d: %v and %v are Active with GUID %v", seed, o, f, st.GUID)
				}
				seen[st.GUID] = f
			}
		}
	}
}
