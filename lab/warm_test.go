package lab

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
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
		var pi smp.PortInfo
		if w.attr == smp.AttrPortInfo {
			w.data[28] = 0 // LocalPortNum: by which way the port was read
		}
		x.sets[w]++
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

// TestToldOnce: hosts are asked to register once, also if a trap that comes during the first sweep after a
// takeover causes another one before the subnet counts as up.
func TestToldOnce(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,2")
	c, was := serveUp(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond})
	hosts := cas(f)
	x := succeed(t, c, was, hosts[len(hosts)/2], TrialConfig(), mirrorOf(t, was.Snap), nil)
	must(t, c.RunUntil(time.Second, func() bool { return len(x.told) == len(hosts) }))
	must(t, c.RunUntil(time.Second, func() bool { return strings.Contains(strings.Join(x.m.Events(sm.Info), "\n"), "sweep_start") }))
	c.Run(200 * time.Microsecond)
	if x.m.Up() {
		t.Fatal("the subnet is up before it was read")
	}
	must(t, c.Sim.SetNodeDescription(hosts[3], "renamed")) // trap 144
	mustUp(t, c, x.m)
	if log := strings.Join(x.m.Events(sm.Info), "\n"); strings.Count(log, "sweep_end") < 2 {
		t.Fatalf("one sweep alone:\n%s", log)
	}
	for lid := range hostLIDs(was.Snap) {
		if x.told[lid] != 1 {
			t.Errorf("the port with LID %v was asked to register %d times", lid, x.told[lid])
		}
	}
}

// rejoiners are hosts that are members of groups, and join again whenever they are asked to register.
type rejoiners struct {
	c        *Cluster
	m        *Manager
	groups   []ib.GID
	asked    int      // joins sent
	answered int      // of them answered with success
	last     mad.Time // when the last answer came
}

// join has a port join all groups, as its host would.
func (x *rejoiners) join(gid ib.GID, lid ib.LID) {
	for i, g := range x.groups {
		r := wire.MCMemberRecord{MGID: g, PortGID: gid, JoinState: wire.JoinFull, PKey: ib.PKeyDefaultFull, QKey: 0x0B1B}
		var m ib.MAD
		mask := wire.MCMemberCompMGID | wire.MCMemberCompPortGID | wire.MCMemberCompJoinState
		if i > 0 {
			mask |= wire.MCMemberCompQKey | wire.MCMemberCompTClass | wire.MCMemberCompPKey | wire.MCMemberCompSL | wire.MCMemberCompFlowLabel
		}
		wire.New(&m, ib.MethodSet, wire.AttrMCMemberRecord, 0, mask)
		m.SetTID(uint64(x.asked) + 1)
		r.Put(wire.Data(&m))
		x.asked++
		x.m.Inject(&mad.Packet{Status: mad.Received, Addr: mad.Addr{LID: lid, QP: 1, QKey: ib.QKeyGSI}, LocalQP: 1, Data: m[:]})
	}
}

// serve has a manager's answers counted.
func (x *rejoiners) serve(m *Manager) {
	x.m, x.asked, x.answered = m, 0, 0
	m.WatchSA(func(p *mad.Packet) {
		d := (*ib.MAD)(p.Data)
		if d.AttrID() == wire.AttrMCMemberRecord && d.Method() == ib.MethodGetResp {
			if d.Status() == 0 {
				x.answered++
			}
			x.last = x.c.Sim.Now()
		}
	})
}

// cpuTime is the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestWarmRejoin: hosts that were members of four groups each, and join again when they are told of
// the new manager, are answered before it has read the subnet, without anything being stored. No
// multicast table is written.
func TestWarmRejoin(t *testing.T) {
	params := []string{"2", "18,36", "1,18"}
	if os.Getenv("HEDDLE_LONG") != "" {
		params = []string{"3", "18,18,36", "1,18,18"}
	}
	f := gen(t, "xgft", params...)
	c, was := serveUp(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond})
	x := &rejoiners{c: c}
	x.groups = []ib.GID{{0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 12: 0xFF, 13: 0xFF, 14: 0xFF, 15: 0xFF}}
	for i := range 3 {
		x.groups = append(x.groups, ib.GID{0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 12: 0xE, 15: byte(i + 1)})
	}
	x.serve(was)
	byLID := map[ib.LID]ib.GID{}
	for _, i := range was.Snap.EndPortPort {
		if p := was.Snap.Ports[i]; p.Num > 0 {
			byLID[p.LID] = was.Snap.GID(i)
			x.join(was.Snap.GID(i), p.LID)
		}
	}
	c.Run(5 * time.Second)
	if !was.Idle() || x.answered != x.asked {
		t.Fatalf("%d of %d joins were answered", x.answered, x.asked)
	}
	members := func(m *Manager) (n int) {
		st, err := m.Store.Load()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range st.Records {
			if r.Table == store.TableMembers {
				n++
			}
		}
		return n
	}
	had := members(was)
	hosts := cas(f)
	warm := mirrorOf(t, was.Snap)
	spent := cpuTime()
	y := succeed(t, c, was, hosts[len(hosts)/2], TrialConfig(), warm, nil)
	x.serve(y.m)
	var toServe, toTell time.Duration // of this process, the simulator included
	published := y.m.OnPublish
	y.m.OnPublish = func() {
		if published(); toServe == 0 && y.served != mad.Never {
			toServe = cpuTime() - spent
		}
	}
	stored := map[store.Table]int{}
	y.m.OnStore = func(ops []store.Op) {
		for i := range ops {
			if ops[i].Kind == store.PutRecord || ops[i].Kind == store.DeleteRecord {
				stored[ops[i].Record.Table]++
			}
		}
	}
	asked := y.m.OnSend
	y.m.OnSend = func(p *mad.Packet) {
		n := len(y.toldAt)
		asked(p)
		if len(y.toldAt) > n {
			var pi smp.PortInfo
			if err := pi.Decode(smp.Data((*ib.MAD)(p.Data))); err != nil {
				t.Fatal(err)
			}
			toTell = cpuTime() - spent
			gid := byLID[pi.LID]
			c.Sim.After(200*time.Microsecond, func() { x.join(gid, pi.LID) })
		}
	}
	mustUp(t, c, y.m)
	if err := c.Check(y.m); err != nil {
		t.Error(err)
	}
	if x.asked != len(byLID)*len(x.groups) || x.answered != x.asked {
		t.Errorf("%d of %d joins were answered", x.answered, x.asked)
	}
	if n := stored[store.TableMembers] + stored[store.TableGroups]; n != 0 {
		t.Errorf("%d records of groups and members were stored: %v", n, stored)
	}
	if n := members(y.m); n != had {
		t.Errorf("%d memberships are stored, before %d", n, had)
	}
	for _, a := range []ib.AttrID{smp.AttrLFT, smp.AttrMFT, smp.AttrPKeyTable, smp.AttrSLtoVL, smp.AttrVLArb} {
		if n := y.count(a); n != 0 {
			t.Errorf("%d Sets of attribute %v", n, a)
		}
	}
	t.Logf("%d hosts: first answer after %v, first port told after %v, all after %v; %d joins, the last answered after %v; %v",
		len(byLID), y.served.Sub(y.granted), y.toldAt[0].Sub(y.granted), slices.Max(y.toldAt).Sub(y.granted), x.asked, x.last.Sub(y.granted),
		told(y.m, sm.KindTakeover))
	t.Logf("processor time, the simulator's included: %v to the first answer, %v to the last port told", toServe, toTell)
}

// TestWarmVMs: what a standby knows is older than a move of a virtual machine and than new P_Keys.
// Nothing that devices hold changes by its takeover, and it writes what it would have written anyway.
func TestWarmVMs(t *testing.T) {
	for _, k := range adoptModels {
		t.Run(k.name, func(t *testing.T) {
			run := func(warm bool) *succession {
				p := layPair(t, k.h, k.cfg, nil)
				var stale *subnet.Snapshot
				if warm {
					stale = mirrorOf(t, p.a.Snap)
				}
				if err := p.Sim.MoveVM("vm1", vf(t, p.Cluster, p.hosts[5], 2)); err != nil {
					t.Fatal(err)
				}
				p.Run(time.Second)
				p.do(p.a, vm.Move{Name: "vm1", To: p.place(5, 2)})
				p.do(p.a, vm.AddMembers{PKey: 11, GUIDs: []ib.GUID{p.place(4, 0).Port, p.place(6, 0).Port}, Full: true})
				p.settle(p.a)
				was := p.addresses()
				x := succeed(t, p.Cluster, p.a, p.hosts[8], p.cfg, stale, nil)
				p.m = x.m
				p.settle(x.m)
				p.same(was, "after the takeover")
				if !p.answers(1, 2, 0x8005) || !p.answers(3, 4, 0x8006) || p.answers(1, 3, 0x8005) {
					t.Error("the SA does not answer paths of tenants, or answers too many")
				}
				if n := x.count(smp.AttrLFT) + x.count(smp.AttrPKeyTable) + x.count(smp.AttrVPortPartitionTable); n > 0 && k.h.Model != sim.SharedPort {
					t.Errorf("%d blocks of tables were written", n)
				}
				return x
			}
			cold, warm := run(false), run(true)
			warm.within(t, cold)
			if n := told(warm.m, sm.KindTakeover); len(n) != 1 || !strings.Contains(n[0], "9 of 9 ports told") {
				t.Errorf("what the predecessor published was not used: %v", n)
			}
		})
	}
}

// followed is a subnet with two managers of which the one on standby has what the master publishes.
func followed(t *testing.T) (c *Cluster, start func(host int, prio uint8) *Manager) {
	t.Helper()
	f := gen(t, "xgft", "2", "6,8", "1,6")
	c, err := NewCluster(f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	hosts := cas(f)
	records := store.NewMemory()
	start = func(host int, prio uint8) *Manager {
		m, err := c.Attach(hosts[host], pollConfig(prio), records.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		m.ServeSA(SAConfig(1), sa.Options{SAKey: 1})
		m.OnPublish = func() {
			if !m.Snap.Up || m.State() != subnet.Master {
				return
			}
			s := mirrorOf(t, m.Snap)
			c.Sim.After(50*time.Microsecond, func() {
				for _, o := range c.Managers {
					if o != m && !o.Dead {
						o.SetWarm(s)
					}
				}
			})
		}
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		for _, o := range c.Managers {
			if o.Up() {
				m.SetWarm(mirrorOf(t, o.Snap))
			}
		}
		return m
	}
	return c, start
}

// gap watches how long no manager serves.
func gap(c *Cluster, limit time.Duration, until func() bool) (longest time.Duration) {
	serves := func() bool {
		return slices.ContainsFunc(c.Managers, func(m *Manager) bool { return !m.Dead && m.Snap != nil && m.Snap.Serves() })
	}
	last, end := c.Sim.Now(), c.Sim.Now().Add(limit)
	for c.Sim.Now() < end && !until() {
		c.Sim.Step()
		if serves() {
			last = c.Sim.Now()
		}
		longest = max(longest, c.Sim.Now().Sub(last))
	}
	return longest
}

// TestWarmStandby: a standby that follows the master serves as soon as it finds the master dead, and
// a master that comes back takes the subnet by a handover without a gap. A manager that starts beside
// a living master does not act on what it knows of it.
func TestWarmStandby(t *testing.T) {
	c, start := followed(t)
	a := start(0, 5)
	mustUp(t, c, a)
	b := start(20, 1)
	c.Run(2 * time.Second)
	if b.State() != subnet.Standby || len(told(b, sm.KindTakeover)) > 0 {
		t.Fatalf("beside a living master: %v\n%s", b.State(), tail(b))
	}
	a.Kill()
	var lost, served mad.Time
	if err := c.RunUntil(5*time.Second, func() bool { return b.State() != subnet.Standby }); err != nil {
		t.Fatal(err)
	}
	lost = c.Sim.Now()
	if err := c.RunUntil(time.Second, func() bool { return b.Snap.Serves() }); err != nil {
		t.Fatalf("%v\n%s", err, tail(b))
	}
	served = c.Sim.Now()
	if b.Snap.Up || served.Sub(lost) > time.Millisecond {
		t.Errorf("it serves %v after the master was found dead; up: %v", served.Sub(lost), b.Snap.Up)
	}
	mustUp(t, c, b)
	if err := c.Check(b); err != nil {
		t.Error(err)
	}
	c.Run(2 * time.Second)
	back := start(0, 5)
	longest := gap(c, 10*time.Second, func() bool { return back.Up() && back.Idle() })
	if !back.Up() || b.State() != subnet.Standby {
		t.Fatalf("no handover: %v and %v\n%s\n%s", back.State(), b.State(), tail(back), tail(b))
	}
	t.Logf("serves %v after the loss; a handover has a gap of %v; %v %v", served.Sub(lost), longest, told(b, sm.KindTakeover), told(back, sm.KindTakeover))
	if longest > 5*time.Millisecond {
		t.Errorf("for %v no manager answered", longest)
	}
	if err := c.Check(back); err != nil {
		t.Error(err)
	}
}

// TestWarmMKey: with M_Keys of any protection hosts are told early too, by the keys of the store.
func TestWarmMKey(t *testing.T) {
	f := gen(t, "xgft", "2", "3,4", "1,3")
	hosts := cas(f)
	for protect := range uint8(4) {
		run := func(warm bool) *succession {
			cfg := TrialConfig()
			cfg.MKey, cfg.MKeyProtect = 0x1234, protect
			c, err := NewCluster(f, timed(1))
			if err != nil {
				t.Fatal(err)
			}
			was, err := c.Start(hosts[0], cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			mustUp(t, c, was)
			var s *subnet.Snapshot
			if warm {
				s = mirrorOf(t, was.Snap)
			}
			x := succeed(t, c, was, hosts[5], cfg, s, nil)
			mustUp(t, c, x.m)
			if err := c.Check(x.m); err != nil {
				t.Errorf("protection %d: %v", protect, err)
			}
			return x
		}
		cold, warm := run(false), run(true)
		warm.within(t, cold)
		if n := told(warm.m, sm.KindTakeover); len(n) != 1 || !strings.Contains(n[0], "12 of 12 ports told") {
			t.Errorf("protection %d: %v", protect, n)
		}
	}
}
