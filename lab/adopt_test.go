package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// pairBed is a subnet with hypervisors and two managers, each with a store of its own: a, whose
// address manager gave VMs 1 to 4 their interfaces, and b on standby.
type pairBed struct {
	*cloud
	a, b           *Manager
	aStore, bStore *store.Memory
}

func (p *pairBed) manager(host int, prio uint8, st *store.Memory) *Manager {
	p.t.Helper()
	cfg := p.cfg
	cfg.PollInterval, cfg.PollRetries, cfg.Priority = 200*time.Millisecond, 2, prio
	m, err := p.Attach(p.hosts[host], cfg, st)
	if err != nil {
		p.t.Fatal(err)
	}
	m.ServeSA(SAConfig(0), sa.Options{})
	m.ServeVMs(vm.Config{})
	if err := m.Start(); err != nil {
		p.t.Fatal(err)
	}
	return m
}

func (p *pairBed) do(m *Manager, op vm.Op) vm.Interface {
	p.t.Helper()
	r := m.VM(op)
	if r.Err != nil || r.Waiting {
		p.t.Fatalf("%T %+v: %v, %+v\n%s", op, op, r.Err, r.Interface, tail(m))
	}
	return r.Interface
}

// settle runs until a manager is master and has nothing to do.
func (p *pairBed) settle(m *Manager) {
	p.t.Helper()
	if err := p.RunUntil(2*time.Minute, func() bool { return m.Up() && m.Idle() && m.Status().Partitions.Settled }); err != nil {
		p.t.Fatalf("%v: %+v\n%s", err, m.Status(), tail(m))
	}
	p.Run(10 * time.Second) // what is late, or repeated, comes until then
	if err := p.RunUntil(time.Minute, func() bool { return m.Up() && m.Idle() }); err != nil {
		p.t.Fatalf("%v: %+v\n%s", err, m.Status(), tail(m))
	}
}

// layPair lays the bed. before runs when a is master and has given interfaces to VMs 1 and 2, before it
// gives more to VMs 3 and 4.
func layPair(t *testing.T, h sim.Hypervisor, change func(*sm.Config), before func(p *pairBed)) *pairBed {
	t.Helper()
	return pairOn(layCloud(t, 3, 3, h, sim.Config{Seed: 1}, change), h, before)
}

// pairOn is layPair on a subnet.
func pairOn(c *cloud, h sim.Hypervisor, before func(p *pairBed)) *pairBed {
	t := c.t
	p := &pairBed{cloud: c, aStore: store.NewMemory(), bStore: store.NewMemory()}
	p.a = p.manager(0, 5, p.aStore)
	p.m = p.a
	p.settle(p.a)
	p.do(p.a, vm.AddMembers{PKey: 9, GUIDs: []ib.GUID{p.place(7, 0).Port}})             // a host, limited
	p.do(p.a, vm.AddMembers{PKey: 9, GUIDs: []ib.GUID{p.place(5, 0).Port}, Full: true}) // another, full
	for i := 1; i <= 4; i++ {
		if i == 3 && before != nil {
			p.settle(p.a)
			before(p)
		}
		name, own := fmt.Sprintf("vm%d", i), subnet.OwnLID
		opt := sim.VMOptions{}
		if h.Model == sim.VPorts {
			opt.GUID, own = vmGUID(i), subnet.SharedLID
		}
		if h.Model == sim.SharedPort {
			own = subnet.SharedLID
		}
		if err := p.Sim.PlaceVM(name, vf(t, p.Cluster, p.hosts[i], 1), opt); err != nil {
			t.Fatal(err)
		}
		key := vm.Membership{PKey: 5, Full: true}
		if i > 2 {
			key.PKey = 6
		}
		p.do(p.a, vm.Create{I: vm.Interface{Name: name, GUID: vmGUID(i), LIDKind: own, Keys: []vm.Membership{key}, Place: p.place(i, 1)}})
	}
	p.settle(p.a)
	return p
}

// addresses is what devices hold that tenants depend on: P_Key tables of end ports, of VPorts and of switch
// ports before hosts, GUID tables, LIDs and GUIDs of functions and ports.
func (p *pairBed) addresses() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for i, h := range p.hosts {
		n := p.Fabric.Find(h)
		out[fmt.Sprint("P_Keys of host ", i)] = fmt.Sprint(keysAt(p.Cluster, n, 1))
		out[fmt.Sprint("GUIDs of host ", i)] = fmt.Sprint(p.Sim.GUIDs(n, 1))
		out[fmt.Sprint("LID of host ", i)] = fmt.Sprint(p.Sim.PortInfo(n, 1).LID)
		edge, on := edgeTable(p.t, p.Cluster, h)
		out[fmt.Sprint("switch before host ", i)] = fmt.Sprint(edge, on)
		if i == 0 {
			continue
		}
		for f := 1; f <= 2; f++ {
			st, err := p.Sim.VPort(vf(p.t, p.Cluster, h, f))
			if err != nil {
				continue
			}
			name := fmt.Sprintf("function %d/%d", i, f)
			out[name] = fmt.Sprint(st.GUID, st.LID, st.State)
			if keys, err := p.Sim.VPortPKeys(vf(p.t, p.Cluster, h, f), nil); err == nil {
				out["P_Keys of "+name] = fmt.Sprint(partition.Trim(keys))
			}
		}
	}
	return out
}

// setKeys has a host write its own P_Key table.
func (p *pairBed) setKeys(host int, keys ...ib.PKey) {
	p.t.Helper()
	ep, err := p.Sim.Attach(p.hosts[host])
	if err != nil {
		p.t.Fatal(err)
	}
	defer ep.Close()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodSet, smp.AttrPKeyTable, 0, 0, nil)
	m.SetTID(1)
	var table smp.PKeyTable
	copy(table[:], keys)
	table.Put(smp.Data(&m))
	ep.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]})
	p.Run(10 * time.Millisecond)
	if got := keysAt(p.Cluster, p.Fabric.Find(p.hosts[host]), 1); !slices.Equal(got, keys) {
		p.t.Fatalf("the host holds %v", got)
	}
}

// same compares what devices hold with what they held.
func (p *pairBed) same(was map[string]string, when string) {
	p.t.Helper()
	now := p.addresses()
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if now[k] != was[k] {
			p.t.Errorf("%s: %s: %s, before %s", when, k, now[k], was[k])
		}
	}
}

// answers reports whether the SA of the master answers the path between two VMs in a partition.
func (p *pairBed) answers(from, to int, key ib.PKey) bool {
	p.t.Helper()
	c, err := p.VMClient(fmt.Sprintf("vm%d", from))
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	a, _ := p.Sim.VM(fmt.Sprintf("vm%d", from))
	b, _ := p.Sim.VM(fmt.Sprintf("vm%d", to))
	_, st := c.request(p.t, ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID|wire.PathCompPKey,
		&wire.PathRecord{SGID: a.GID, DGID: b.GID, PKey: key})
	return st == 0
}

var adoptModels = []struct {
	name string
	h    sim.Hypervisor
	cfg  func(*sm.Config)
}{
	{"VPorts", sim.Hypervisor{Model: sim.VPorts, VFs: 4}, nil},
	{"VPorts with LIDs", sim.Hypervisor{Model: sim.VPorts, VFs: 4, OwnLIDs: true}, nil},
	{"vSwitch", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, nil},
	{"vSwitch, prepopulated", sim.Hypervisor{Model: sim.VSwitch, VFs: 4}, func(c *sm.Config) { c.VSwitchPrepopulate = true }},
	{"shared port", sim.Hypervisor{Model: sim.SharedPort, VFs: 4}, nil},
}

// TestTakeoverKeeps: a manager with an empty store, or with one that is older than what the
// master did since, takes over. It changes no P_Key table, no GUID, no LID, and answers paths
// of tenants. What it adopts it has after a restart from its store.
func TestTakeoverKeeps(t *testing.T) {
	for _, x := range adoptModels {
		for _, older := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, older %v", x.name, older), func(t *testing.T) {
				p := layPair(t, x.h, x.cfg, func(p *pairBed) {
					if older { // b is master for a while, with what a's store has by then
						st, err := p.aStore.Load()
						if err != nil {
							t.Fatal(err)
						}
						if err := p.bStore.Apply(st.Ops()); err != nil {
							t.Fatal(err)
						}
					}
					p.b = p.manager(8, 1, p.bStore)
					if err := p.RunUntil(time.Minute, func() bool { return p.b.State() == subnet.Standby }); err != nil {
						t.Fatal(err)
					}
				})
				was := p.addresses()
				p.a.Kill()
				p.settle(p.b)
				p.same(was, "after the takeover")
				if !p.answers(1, 2, 0x8005) || !p.answers(3, 4, 0x8006) || p.answers(1, 3, 0x8005) {
					t.Error("the SA does not answer paths of tenants, or answers too many")
				}
				if n := told(p.b, sm.KindKept); len(n) != 1 || !strings.Contains(n[0], "heddle ctl adopt") {
					t.Errorf("told %q", n)
				}
				if len(p.b.Snap.Kept) == 0 {
					t.Fatal("the snapshot shows nothing that is kept")
				}
				if older && slices.ContainsFunc(p.b.Snap.Kept, func(k subnet.Kept) bool { return k.GUID == vmGUID(1) }) {
					t.Errorf("kept %+v, and the store knows VM 1", p.b.Snap.Kept)
				}
				for _, op := range vm.Adopt(p.b.Snap.Kept) {
					p.do(p.b, op)
				}
				p.settle(p.b)
				p.same(was, "after all was adopted")
				if len(p.b.Snap.Kept) > 0 {
					t.Errorf("kept still: %+v", p.b.Snap.Kept)
				}
				// It ends a membership that it knows, and keeps the others over a restart.
				p.b.Kill()
				p.b = p.manager(8, 1, p.bStore)
				p.settle(p.b)
				p.same(was, "after a restart")
				if n := told(p.b, sm.KindKept); len(n) > 0 {
					t.Errorf("told %q after a restart", n)
				}
				// Now the store knows all: a key that a host has set itself is foreign.
				p.b.Kill()
				p.setKeys(6, 0xFFFF, 0x8005)
				p.b = p.manager(8, 1, p.bStore)
				p.settle(p.b)
				p.same(was, "after a host set a P_Key itself")
			})
		}
	}
}
