package lab

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm"
)

// oneHypervisor is a subnet with a VPort adapter of which the answers pass through
// mangle before the manager sees them.
func oneHypervisor(t *testing.T, sc sim.Config, mangle func(k *ib.MAD)) (c *Cluster, m *Manager, h string) {
	t.Helper()
	c, err := NewCluster(gen(t, "torus", "3x3"), sc)
	if err != nil {
		t.Fatal(err)
	}
	h = hostNames(c)[3]
	hypervisor(t, c, h, sim.Hypervisor{Model: sim.VPorts, VFs: 4}, 2)
	m, err = c.Attach(firstCA(c.Fabric), DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.OnReceive = func(p *mad.Packet) {
		if k := (*ib.MAD)(p.Data); k.Method() == ib.MethodGetResp && k.Class().IsSMP() &&
			k.AttrID() >= smp.AttrVirtualizationInfo && k.AttrID() <= smp.AttrVPortPartitionTable {
			mangle(k)
		}
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	return c, m, h
}

// TestVPortHostile: adapters with invalid answers are left alone, or managed as far as
// possible, without a storm of requests. This is reported once.
func TestVPortHostile(t *testing.T) {
	virt := func(change func(v *smp.VirtualizationInfo)) func(k *ib.MAD) {
		return func(k *ib.MAD) {
			if k.AttrID() == smp.AttrVirtualizationInfo {
				var v smp.VirtualizationInfo
				_ = v.Decode(smp.Data(k))
				change(&v)
				v.Put(smp.Data(k))
			}
		}
	}
	refuse := func(attrs ...ib.AttrID) func(k *ib.MAD) {
		return func(k *ib.MAD) {
			for _, a := range attrs {
				if k.AttrID() == a {
					k.SetStatus(k.Status() | ib.StatusBadMethodAttr)
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		mangle func(k *ib.MAD)
		active int    // VPorts that are managed all the same
		smps   int    // at most in 5 minutes, light sweeps not counted
		text   string // what is told, "" if nothing
	}{
		{"revision", virt(func(v *smp.VirtualizationInfo) { v.VirtualizationRevision = 1 }), 0, 1, "VirtualizationRevision is 1, only 0 is known"},
		{"refuses VirtualizationInfo", refuse(smp.AttrVirtualizationInfo), 0, 1, "its virtual ports are left alone"},
		{"never on", virt(func(v *smp.VirtualizationInfo) { v.VirtualizationEnable = false }), 0, 8, "the device keeps what it had"},
		{"always changing", virt(func(v *smp.VirtualizationInfo) { v.VPortStateChange = true }), 2, 400, ""},
		{"refuses states", refuse(smp.AttrVPortState), 0, 30, "reading the states of its virtual ports was refused"},
		{"refuses VPortInfo", refuse(smp.AttrVPortInfo), 0, 200, "its VPortInfo cannot be read"},
		{"refuses the rest", refuse(smp.AttrVNodeInfo, smp.AttrVNodeDescription, smp.AttrVPortGUIDInfo, smp.AttrVPortPartitionTable), 2, 100, "an attribute of it cannot be read"},
		{"4,000 VPorts", func(k *ib.MAD) {
			virt(func(v *smp.VirtualizationInfo) { v.VPortCap, v.VPortIndexTop = 4000, 4000 })(k)
			if k.AttrID() == smp.AttrVPortState {
				k.SetStatus(ib.StatusOK)
				for i := range smp.Data(k) {
					smp.Data(k)[i] = 0x22
				}
			}
		}, 2, 50_000, "its VPortInfo cannot be read"},
		{"states that there are not", func(k *ib.MAD) {
			if k.AttrID() == smp.AttrVPortState {
				for i := range smp.Data(k) {
					smp.Data(k)[i] = 0xF7
				}
			}
		}, 0, 20, ""},
		{"no GUID", func(k *ib.MAD) {
			if k.AttrID() == smp.AttrVPortInfo {
				var v smp.VPortInfo
				_ = v.Decode(smp.Data(k))
				v.PortGUID = 0
				v.Put(smp.Data(k))
			}
		}, 0, 100, "it has no port GUID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, m, h := oneHypervisor(t, sim.Config{}, c.mangle)
			gets, sets := virtualSMPs(m, func() { cl.Run(5 * time.Minute) })
			n := 0
			for _, l := range []map[ib.AttrID]int{gets, sets} {
				for _, k := range l {
					n += k
				}
			}
			if light := 31; n-light > c.smps {
				t.Errorf("%d SMPs in 5 minutes, want at most %d: %v %v", n, c.smps, gets, sets)
			}
			if got := m.Snap.Counts.VPorts; got != c.active {
				t.Errorf("%d VPorts, want %d\n%s", got, c.active, tail(m))
			}
			if err := m.Snap.Check(); err != nil {
				t.Error(err)
			}
			said := 0
			for _, k := range []sm.Kind{sm.KindVPortRefused, sm.KindSetFailed} {
				for _, l := range told(m, k) {
					if c.text != "" && strings.Contains(l, c.text) {
						said++
					} else if c.text == "" {
						t.Errorf("told: %s", l)
					}
				}
			}
			if c.text != "" && said == 0 {
				t.Errorf("not told: %s\n%s", c.text, tail(m))
			}
			if sw := m.Status().Sweeps; sw != 1 {
				t.Errorf("%d sweeps", sw)
			}
			// The defect is removed, and its node restarted.
			m.OnReceive = nil
			if err := cl.Sim.NodeUp(h); err != nil {
				t.Fatal(err)
			}
			mustShow(t, cl, m, h, 4, 10*time.Minute)
		})
	}
}

// TestVPortNeedsArmed: a VPort that does not go from Init to Active at once is made Armed
// first. One that does not come up at all is not tried repeatedly, but only when it comes up
// again.
func TestVPortNeedsArmed(t *testing.T) {
	for _, never := range []bool{false, true} {
		c, m, h := oneHypervisor(t, sim.Config{}, func(*ib.MAD) {})
		sent := 0
		m.OnSend = func(p *mad.Packet) {
			k := (*ib.MAD)(p.Data)
			if k.AttrID() != smp.AttrVPortInfo || k.Method() != ib.MethodSet {
				return
			}
			sent++
			var v smp.VPortInfo
			_ = v.Decode(smp.Data(k))
			st, _ := c.Sim.VPort(vf(t, c, h, int(k.AttrMod())))
			if never || v.VPortState == ib.StateActive && st.State != ib.StateArmed {
				v.VPortState = 7 // which it refuses
				v.Put(smp.Data(k))
			}
		}
		var seen []ib.PortState
		c.Sim.OnChange = func(ch sim.Change) {
			if ch.Kind == sim.ChangeVPort {
				seen = append(seen, ch.New)
			}
		}
		enableVPort(t, c, h, 3)
		c.Run(5 * time.Minute)
		if !never {
			mustShow(t, c, m, h, 4, time.Second)
			if len(seen) != 3 || seen[1] != ib.StateArmed || seen[2] != ib.StateActive {
				t.Errorf("%v", seen)
			}
			continue
		}
		if sent != 3 {
			t.Errorf("%d Sets of VPortInfo, want 3", sent)
		}
		if l := told(m, sm.KindVPortRefused); len(l) != 1 || !strings.Contains(l[0], "VPort 3") {
			t.Errorf("told %q", l)
		}
		m.OnSend = nil
		disableVPort(t, c, h, 3)
		c.Run(3 * time.Second)
		enableVPort(t, c, h, 3)
		mustShow(t, c, m, h, 4, 3*time.Second)
	}
}

// TestVPortGarbage: corrupted answers cannot be detected, but they crash nothing and lead to no
// snapshot that contradicts itself.
func TestVPortGarbage(t *testing.T) {
	first, n := seeds(30, 2000)
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 13))
		c, m, h := oneHypervisor(t, sim.Config{Seed: seed, HopLatency: time.Microsecond}, func(k *ib.MAD) {
			for rng.IntN(2) == 0 {
				smp.Data(k)[rng.IntN(32)] ^= 1 << rng.IntN(8)
			}
			if rng.IntN(20) == 0 {
				k.SetStatus(ib.Status(rng.IntN(64)) << 2)
			}
		})
		m.OnPublish = func() {
			if err := m.Snap.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for range 20 {
			f := vf(t, c, h, 1+rng.IntN(4))
			if rng.IntN(2) == 0 {
				_ = c.Sim.EnableVPort(f)
			} else {
				_ = c.Sim.DisableVPort(f)
			}
			c.Run(time.Duration(rng.IntN(5000)) * time.Millisecond)
		}
		m.OnReceive = nil
		if err := c.Sim.NodeUp(h); err != nil {
			t.Fatal(err)
		}
		c.Run(30 * time.Second)
		mustShow(t, c, m, h, 4, 10*time.Minute)
	}
}
