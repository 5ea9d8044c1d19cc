package lab

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

// takenOver is a bed of VPorts in which b has taken over with an empty store.
func takenOver(t *testing.T, before func(p *pairBed), cfg func(*sm.Config)) *pairBed {
	t.Helper()
	p := layPair(t, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, nil, nil)
	if cfg != nil {
		cfg(&p.cfg)
	}
	return p.takeOver(before)
}

// takeOver has b take over.
func (p *pairBed) takeOver(before func(p *pairBed)) *pairBed {
	t := p.t
	t.Helper()
	p.b = p.manager(8, 1, p.bStore)
	if err := p.RunUntil(time.Minute, func() bool { return p.b.State() == subnet.Standby }); err != nil {
		t.Fatal(err)
	}
	if before != nil {
		before(p)
	}
	p.a.Kill()
	p.settle(p.b)
	return p
}

// vmHolds is the P_Key table of the VM with a number.
func (p *pairBed) vmHolds(i int) []ib.PKey { return vportTable(p.t, p.Cluster, p.hosts[i], 1) }

// TestKeptPolicy: a policy that is set after the takeover decides about the P_Keys of which it says
// something new, and about no others; not even a restart brings the kept ones back.
func TestKeptPolicy(t *testing.T) {
	p := takenOver(t, nil, nil)
	p.b.apply(t, policyOf(t, p.Cluster, "Default:ALL=full; five=5:"+vmGUID(2).String()+"=full;"), 1)
	check := func(when string) {
		t.Helper()
		if a, b, c := p.vmHolds(1), p.vmHolds(2), p.vmHolds(3); !slices.Equal(a, []ib.PKey{0xFFFF}) ||
			!slices.Equal(b, []ib.PKey{0xFFFF, 0x8005}) || !slices.Equal(c, []ib.PKey{0xFFFF, 0x8006}) {
			t.Errorf("%s: VMs 1 to 3 hold %v, %v and %v", when, a, b, c)
		}
	}
	p.settle(p.b)
	check("after the policy")
	p.b.Kill()
	p.setKeys(2, 0xFFFF, 0x8005) // a host that has taken the key back
	p.b = p.manager(8, 1, p.bStore)
	p.settle(p.b)
	check("after a restart")
	if got := keysAt(p.Cluster, p.Fabric.Find(p.hosts[2]), 1); !slices.Equal(got, []ib.PKey{0xFFFF}) {
		t.Errorf("host 2 holds %v", got)
	}
}

// TestKeptDropped: what is dropped is taken away, first at one port, then everywhere; then foreign
// keys are taken away at a restart.
func TestKeptDropped(t *testing.T) {
	p := takenOver(t, nil, nil)
	n := len(p.b.Snap.Kept)
	p.b.DropKept(p.place(1, 0).Port)
	p.settle(p.b)
	if got := p.vmHolds(1); !slices.Equal(got, []ib.PKey{0xFFFF}) || len(p.b.Snap.Kept) != n-1 {
		t.Errorf("VM 1 holds %v, %d of %d kept", got, len(p.b.Snap.Kept), n)
	}
	if got := p.vmHolds(2); !slices.Equal(got, []ib.PKey{0xFFFF, 0x8005}) {
		t.Errorf("VM 2 holds %v", got)
	}
	p.b.DropKept()
	p.settle(p.b)
	for i := 1; i <= 4; i++ {
		if got := p.vmHolds(i); !slices.Equal(got, []ib.PKey{0xFFFF}) {
			t.Errorf("VM %d holds %v", i, got)
		}
	}
	if len(p.b.Snap.Kept) > 0 {
		t.Errorf("%+v", p.b.Snap.Kept)
	}
	p.do(p.b, vm.AddMembers{PKey: 5, GUIDs: []ib.GUID{vmGUID(3)}, Full: true})
	p.settle(p.b)
	if got := p.vmHolds(3); !slices.Equal(got, []ib.PKey{0xFFFF, 0x8005}) {
		t.Errorf("VM 3 holds %v: the dropped key stays in quarantine", got)
	}
}

// TestKeptEdges: a host that writes its own table gains nothing by a takeover: the switch before it
// did not let the key pass.
func TestKeptEdges(t *testing.T) {
	p := takenOver(t, func(p *pairBed) { p.setKeys(6, 0xFFFF, 0x8005) }, nil)
	if got := keysAt(p.Cluster, p.Fabric.Find(p.hosts[6]), 1); !slices.Equal(got, []ib.PKey{0xFFFF}) {
		t.Errorf("host 6 holds %v", got)
	}
	if got, on := edgeTable(t, p.Cluster, p.hosts[6]); !on || slices.Contains(got, 0x8005) {
		t.Errorf("the switch before it holds %v, enforces %v", got, on)
	}
	if got := p.vmHolds(1); !slices.Equal(got, []ib.PKey{0xFFFF, 0x8005}) {
		t.Errorf("VM 1 holds %v", got)
	}
}

// TestKeptStrict: with StrictPartitions all that the store does not know is taken away.
func TestKeptStrict(t *testing.T) {
	p := takenOver(t, nil, func(cfg *sm.Config) { cfg.StrictPartitions = true })
	for i := 1; i <= 4; i++ {
		if got := p.vmHolds(i); !slices.Equal(got, []ib.PKey{0xFFFF}) {
			t.Errorf("VM %d holds %v", i, got)
		}
	}
}

// TestKeptRevoked: what the other manager has revoked since is not kept from the mastership before.
func TestKeptRevoked(t *testing.T) {
	p := takenOver(t, nil, nil)
	host7 := func() []ib.PKey { return keysAt(p.Cluster, p.Fabric.Find(p.hosts[7]), 1) }
	if got := host7(); !slices.Equal(got, []ib.PKey{0xFFFF, 0x0009}) {
		t.Fatalf("host 7 holds %v", got)
	}
	p.a = p.manager(0, 5, p.aStore)
	p.settle(p.a)
	p.do(p.a, vm.RemoveMembers{PKey: 9, GUIDs: []ib.GUID{p.place(7, 0).Port}})
	p.do(p.a, vm.SetKeys{Name: "vm1"})
	p.settle(p.a)
	if p.b.State() != subnet.Standby {
		t.Fatalf("b is %v", p.b.State())
	}
	p.a.Kill()
	p.settle(p.b)
	if got, vm1, vm2 := host7(), p.vmHolds(1), p.vmHolds(2); !slices.Equal(got, []ib.PKey{0xFFFF}) ||
		!slices.Equal(vm1, []ib.PKey{0xFFFF}) || !slices.Equal(vm2, []ib.PKey{0xFFFF, 0x8005}) {
		t.Errorf("host 7 holds %v, VMs 1 and 2 %v and %v", got, vm1, vm2)
	}
}

// TestKeptNewHost: a host that comes after the takeover, at a switch port that nobody had set up,
// gains nothing by what it has written into its own table.
func TestKeptNewHost(t *testing.T) {
	h := sim.Hypervisor{Model: sim.VPorts, VFs: 4}
	c := layCloud(t, 3, 3, h, sim.Config{Seed: 1}, nil)
	if err := c.Sim.LinkDown(c.hosts[6], 1); err != nil {
		t.Fatal(err)
	}
	p := pairOn(c, h, nil).takeOver(nil)
	if len(p.b.Snap.Kept) == 0 {
		t.Fatal("nothing is kept")
	}
	p.setKeys(6, 0xFFFF, 0x8005)
	if err := p.Sim.LinkUp(p.hosts[6], 1); err != nil {
		t.Fatal(err)
	}
	p.settle(p.b)
	if got := keysAt(p.Cluster, p.Fabric.Find(p.hosts[6]), 1); !slices.Equal(got, []ib.PKey{0xFFFF}) {
		t.Errorf("host 6 holds %v", got)
	}
}

// TestKeptAddressesDropped: what is dropped is listed no more, addresses of functions too.
func TestKeptAddressesDropped(t *testing.T) {
	p := layPair(t, sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, nil, nil).takeOver(nil)
	address := func(k subnet.Kept) bool { return k.Function }
	if !slices.ContainsFunc(p.b.Snap.Kept, address) {
		t.Fatalf("kept %+v", p.b.Snap.Kept)
	}
	p.b.DropKept()
	p.settle(p.b)
	if len(p.b.Snap.Kept) > 0 {
		t.Errorf("kept still: %+v", p.b.Snap.Kept)
	}
	for i := 1; i <= 4; i++ {
		if st, err := p.Sim.VPort(vf(t, p.Cluster, p.hosts[i], 1)); err != nil || st.GUID == vmGUID(i) {
			t.Errorf("function of VM %d: %+v, %v", i, st, err)
		}
	}
}
