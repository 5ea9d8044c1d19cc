package lab

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
	"heddle/subnet/mirror"
	"heddle/vm"
)

// written is a Set without the way to its port: attribute, modifier and content, which has the LID of
// the port.
type written struct {
	attr ib.AttrID
	mod  uint32
	data [smp.DataLen]byte
}

// succession is a manager that takes a subnet over from one that died.
type succession struct {
	c        *Cluster
	was, m   *Manager
	granted  mad.Time        // when it began
	served   mad.Time        // when the SA could answer first
	sets     map[written]int // what it wrote
	told     map[ib.LID]int  // ports that were told of it, by their LIDs: how often they were asked to register
	toldAt   []mad.Time      // when a port was told first
	readFull mad.Time        // when its first full sweep began
}

// mirrorOf is a snapshot as a standby gets it.
func mirrorOf(t testing.TB, s *subnet.Snapshot) *subnet.Snapshot {
	t.Helper()
	var m mirror.Mirror
	if err := m.Apply(mirror.NewEncoder(1).Next(s)); err != nil {
		t.Fatal(err)
	}
	return m.Snapshot()
}

// succeed kills the master and starts a manager on another node with the master's records, and with
// what the master published if warm is not nil. between is called when the master is dead.
func succeed(t testing.TB, c *Cluster, was *Manager, node string, cfg sm.Config, warm *subnet.Snapshot, between func()) *succession {
	t.Helper()
	was.Kill()
	if between != nil {
		between()
	}
	m, err := c.Attach(node, cfg, was.Store.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	if was.sa != nil {
		m.ServeSA(SAConfig(1), was.sa.opt)
	}
	if was.vm != nil {
		m.ServeVMs(vm.Defaults())
	}
	x := &succession{c: c, was: was, m: m, granted: c.Sim.Now(), served: mad.Never, readFull: mad.Never, sets: map[written]int{}, told: map[ib.LID]int{}}
	m.OnSend = func(p *mad.Packet) {
		d := (*ib.MAD)(p.Data)
		if !d.Class().IsSMP() || d.Method() != ib.MethodSet || d.AttrID() == smp.AttrSMInfo {
			return
		}
		w := written{attr: d.AttrID(), mod: d.AttrMod()}
		copy(w.data[:], smp.Data(d))
		x.sets[w]++
		var pi smp.PortInfo
		if w.attr == smp.AttrPortInfo && pi.Decode(w.data[:]) == nil && pi.ClientReregister {
			if x.told[pi.LID]++; x.told[pi.LID] == 1 {
				x.toldAt = append(x.toldAt, c.Sim.Now())
			}
		}
	}
	m.OnPublish = func() {
		if x.served == mad.Never && m.Snap.Serves() {
			x.served = c.Sim.Now()
		}
	}
	m.SetWarm(warm)
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	return x
}

// count is how many Sets of an attribute were sent.
func (x *succession) count(attr ib.AttrID) (n int) {
	for w, k := range x.sets {
		if w.attr == attr {
			n += k
		}
	}
	return n
}

// hosts are the LIDs of the end ports of CAs.
func hostLIDs(s *subnet.Snapshot) map[ib.LID]bool {
	lids := map[ib.LID]bool{}
	for _, i := range s.EndPortPort {
		if p := s.Ports[i]; p.Num > 0 {
			lids[p.LID] = true
		}
	}
	return lids
}

// within fails unless all that x wrote y wrote as well.
func (x *succession) within(t testing.TB, y *succession) {
	t.Helper()
	n := 0
	for w, k := range x.sets {
		if y.sets[w] < k {
			if n++; n <= 5 {
				t.Errorf("Set(%v) %#x was sent %d times, and %d times by a manager that read the subnet first: %x", w.attr, w.mod, k, y.sets[w], w.data)
			}
		}
	}
	if n > 0 {
		t.Errorf("%d of %d Sets would not have been sent", n, len(x.sets))
	}
}

// TestWarmTakeover: a manager that has what its predecessor published answers and tells all hosts
// before it has read the subnet, and writes nothing that it would not have written otherwise.
func TestWarmTakeover(t *testing.T) {
	run := func(warm bool) *succession {
		f := gen(t, "xgft", "2", "18,36", "1,18")
		c, was := serveUp(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond})
		var s *subnet.Snapshot
		if warm {
			s = mirrorOf(t, was.Snap)
		}
		hosts := cas(f)
		x := succeed(t, c, was, hosts[len(hosts)/2], TrialConfig(), s, nil)
		mustUp(t, c, x.m)
		if err := c.Check(x.m); err != nil {
			t.Error(err)
		}
		if n := x.count(smp.AttrLFT); n != 0 {
			t.Errorf("%d LFT blocks were written", n)
		}
		if n := x.count(smp.AttrPKeyTable); n != 0 {
			t.Errorf("%d P_Key blocks were written", n)
		}
		for lid := range hostLIDs(was.Snap) {
			if x.told[lid] != 1 {
				t.Errorf("the port with LID %v was asked to register %d times", lid, x.told[lid])
			}
		}
		return x
	}
	cold, warm := run(false), run(true)
	warm.within(t, cold)
	for i, x := range []*succession{cold, warm} {
		t.Logf("%s: first answer after %v; first port told after %v, all %d after %v; %d Sets", []string{"cold", "warm"}[i],
			x.served.Sub(x.granted), x.toldAt[0].Sub(x.granted), len(x.told), slices.Max(x.toldAt).Sub(x.granted), len(x.sets))
	}
	t.Log(warm.m.Events(sm.Info))
}

var (
	_ = fmt.Sprint
	_ = maps.Keys[map[int]int]
	_ = fabric.Ref{}
	_ = sa.Options{}
)
