package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/route"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// VMTrial is one seeded run of virtual machines that come, migrate and go, on a
// fabric that misbehaves for a while and then stops, under a manager that dies
// now and then. Everything follows from the seed.
type VMTrial struct {
	Seed    uint64
	What    string // what was drawn, for Report
	Fabric  *fabric.Fabric
	Engines []route.Engine // the chain; nil: the automatic one
	// Models are what adapters may be, drawn for each.
	Models []sim.Hypervisor
	// Kinds are what LIDs interfaces may want.
	Kinds       []subnet.LIDKind
	Prepopulate bool
	// Production: the manager has the intervals and lifetimes of `heddle sm`, not the
	// short ones of TrialConfig.
	Production bool
	Steps      int           // operations that are asked for
	Gap        time.Duration // between two of them, on average
	Faults     int           // links, switches and hypervisors that fail or return, VPorts that go down and up
	Loss       float64       // of every MAD, while it lasts
	Kills      int           // of the manager
	// Answered: the manager dies as soon as it has answered a move, every time.
	Answered bool
	// Wild is how many virtual machines nobody tells the manager of: VPorts that
	// hypervisors bring up here and there.
	Wild    int
	Settle  time.Duration // how long the manager has afterwards
	Probes  int           // packets between VMs in the end, at most
	Present bool          // addresses that move are in every snapshot (VMJudge.Present)
	Trace   bool          // the log has what is written to hypervisors

	// What became of the operations; and the judge.
	Asked, Done, Refused, Waited int
	Judge                        *VMJudge
	InForce                      map[string]bool // engines whose tables were installed at some time

	Log []string

	c      *Cluster
	m      *Manager
	cfg    sm.Config
	rng    *rand.Rand
	hosts  []VMHost
	guests []*guest
	wild   []*guest
	calm   bool

	of         *Manager // whose notices were logged, up to saw and sawVM
	saw, sawVM int
}

// guest is a virtual machine as those see it who run it.
type guest struct {
	name string
	guid ib.GUID       // 0: not known yet
	own  bool          // its VPort asks for a LID
	is   sim.VMOptions // with which it was placed
	open int           // operations that were not answered
	// may are the places in which it may be found: where it was last said to be,
	// and those that were asked for since. sure: it exists, or (gone) does not.
	may        []subnet.Place
	sure, gone bool
}

func (g *guest) add(p subnet.Place) {
	if !slices.Contains(g.may, p) {
		g.may = append(g.may, p)
	}
}

// vmPolicy gives everyone the default partition as a limited member: virtual
// machines meet only in partitions of their own.
func vmPolicy() *partition.Policy {
	return &partition.Policy{Partitions: []partition.Partition{{
		Name: "Default", PKey: partition.DefaultKey,
		Members: []partition.Member{{Kind: partition.All, As: partition.Limited}, {Kind: partition.Self, As: partition.Full}},
	}}}
}

// Run runs the trial and returns what is wrong, nil if nothing.
func (t *VMTrial) Run() error {
	t.rng = rand.New(rand.NewPCG(t.Seed, 0x766D))
	var err error
	t.c, err = NewCluster(t.Fabric, sim.Config{
		Seed: t.Seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, Jitter: 2 * time.Microsecond,
		TrainDelay: time.Duration(t.rng.IntN(3)) * time.Millisecond, ReorderMax: 30 * time.Millisecond, TraceHash: true,
	})
	if err != nil {
		return err
	}
	if t.Engines == nil {
		t.Engines = AutoChain()
	}
	t.cfg = TrialConfig()
	if t.Production {
		t.cfg = ProductionConfig(RepairChain{Engines: t.Engines})
	}
	t.cfg.VSwitchPrepopulate = t.Prepopulate
	t.cfg.Engines, t.cfg.Explicit = t.Engines, len(t.Engines) == 1
	t.InForce = map[string]bool{}
	if err := t.equip(); err != nil {
		return err
	}
	t.Judge = NewVMJudge(t.c, t.hosts)
	t.Judge.Reachable = t.looksAfter
	t.Judge.Present = t.Present
	if t.Trace {
		t.trace()
	}
	if err := t.start(t.hosts[0].Node, nil); err != nil {
		return err
	}
	if t.rng.IntN(4) > 0 {
		if err := t.c.RunUntil(time.Minute, t.m.Up); err != nil {
			return fmt.Errorf("lab: the subnet did not come up: %w", err)
		}
	}
	for i := range len(t.hosts) * 5 / 4 {
		t.guests = append(t.guests, &guest{name: fmt.Sprintf("vm%d", i), may: []subnet.Place{{}}, gone: true, sure: true})
	}
	for i := range t.Wild {
		name := fmt.Sprintf("wild%d", i)
		t.wild = append(t.wild, &guest{name: name, guid: 0x0002C9_0400_000000 + ib.GUID(i), own: t.rng.IntN(2) == 0})
		t.Judge.Wild[name] = t.wild[i].guid
	}
	span := time.Duration(t.Steps) * t.Gap
	t.plan(span)
	t.c.Run(span)
	return t.settle()
}

// looksAfter are the nodes that the manager can do something about: those that it can
// reach and, once the subnet is up, has found. Traps that say that a cable is back get lost.
func (t *VMTrial) looksAfter() map[ib.GUID]bool {
	reach := t.c.reachable(t.m)
	if s := t.m.Snap; s != nil && s.Up {
		for i := range t.hosts {
			if h := &t.hosts[i]; s.PortByPortGUID(h.GUID) < 0 {
				delete(reach, t.Fabric.Nodes[h.At].GUID)
			}
		}
	}
	return reach
}

// equip gives hosts their adapters.
func (t *VMTrial) equip() error {
	for i := range t.Fabric.Nodes {
		n := &t.Fabric.Nodes[i]
		if n.IsSwitch() || !n.Ports[1].Cabled() {
			continue
		}
		h := VMHost{Node: n.ID, At: i, Port: 1, GUID: n.Ports[1].GUID, Hypervisor: t.Models[t.rng.IntN(len(t.Models))]}
		h.VFs = 2 + t.rng.IntN(3)
		if err := t.c.Sim.AddHypervisor(n.ID, 1, h.Hypervisor); err != nil {
			return err
		}
		if h.Model == sim.SharedPort && slices.Contains(t.Kinds, subnet.FloatingLID) {
			t.c.floats[h.GUID] = true
		}
		t.hosts = append(t.hosts, h)
	}
	return nil
}

// start starts a manager; a nil store is an empty one.
func (t *VMTrial) start(node string, st *store.Memory) error {
	m, err := t.c.Attach(node, t.cfg, st)
	if err != nil {
		return err
	}
	m.ServeSA(SAConfig(0), sa.Options{})
	m.ServeVMs(vm.Config{})
	t.m = m
	t.Judge.fault() // what the one before did is forgotten
	m.OnVMs = t.Judge.Told
	m.OnPlacements = func(l sm.SetPlacements) { t.Judge.Placed(l.Put, l.Drop, l.All, m.Snap) }
	m.OnPublish = func() {
		if m.Up() && m.Snap.Tables != nil {
			t.InForce[m.Snap.Engine] = true
		}
		if n := len(t.Judge.Wrong); n == 0 {
			if t.Judge.Published(m.Snap); len(t.Judge.Wrong) > n {
				t.note("WRONG %s", t.Judge.Wrong[n])
			}
		}
	}
	if err := m.Start(); err != nil {
		return err
	}
	m.SetPartitions(vmPolicy(), 0)
	return nil
}

func (t *VMTrial) note(format string, a ...any) {
	t.told()
	t.Log = append(t.Log, fmt.Sprintf("%12v ", time.Duration(t.c.Sim.Now()))+fmt.Sprintf(format, a...))
}

// told logs what the manager said since the last time.
func (t *VMTrial) told() {
	if t.of != t.m {
		t.of, t.saw, t.sawVM = t.m, 0, 0
	}
	for ; t.saw < len(t.m.Notices); t.saw++ {
		t.Log = append(t.Log, fmt.Sprintf("%12v manager: %v", time.Duration(t.c.Sim.Now()), t.m.Notices[t.saw].String()))
	}
	for ; t.sawVM < len(t.m.VMNotices); t.sawVM++ {
		n := &t.m.VMNotices[t.sawVM]
		t.Log = append(t.Log, fmt.Sprintf("%12v vm: %s: %s", time.Duration(t.c.Sim.Now()), n.Kind, n.Text))
	}
}

// plan draws what will happen and when.
func (t *VMTrial) plan(span time.Duration) {
	began := t.c.Sim.Now()
	at := func() mad.Time { return began.Add(time.Duration(t.rng.Int64N(int64(span)))) }
	for range t.Steps {
		t.c.Sim.At(at(), t.step)
	}
	for range t.Faults {
		t.fault(at)
	}
	for range t.Kills {
		t.c.Sim.At(at(), t.kill)
	}
	if t.Loss > 0 {
		t.Judge.Late = true
		t.c.Sim.SetDrop(t.Loss)
		// Nobody can know that a copy of a Set(GUIDInfo) which the subnet makes is still on
		// its way; of VPorts the state is seen to change.
		if !slices.ContainsFunc(t.Models, func(h sim.Hypervisor) bool { return h.Model == sim.SharedPort }) {
			t.c.Sim.SetDuplicate(t.Loss / 2)
		}
		t.c.Sim.SetReorder(t.Loss)
	}
	var watch func()
	watch = func() {
		t.Judge.Away()
		if t.m.Dead && !t.calm {
			t.revive()
		}
		if !t.calm {
			t.c.Sim.After(100*time.Millisecond, watch)
		}
	}
	t.c.Sim.After(100*time.Millisecond, watch)
}

// fault draws a fault and, most often, its end.
func (t *VMTrial) fault(at func() mad.Time) {
	s, when, back := t.c.Sim, at(), at()
	i := t.rng.IntN(len(t.Fabric.Nodes))
	n := &t.Fabric.Nodes[i]
	again := t.rng.IntN(4) > 0
	switch kind := t.rng.IntN(8); {
	case kind < 3:
		p := 1 + t.rng.IntN(n.NumPorts)
		if !n.Ports[p].Cabled() {
			return
		}
		s.At(when, func() { t.note("link %s[%d] down: %v", n.ID, p, s.LinkDown(n.ID, p)) })
		if again {
			s.At(max(when, back), func() { t.note("link %s[%d] up: %v", n.ID, p, s.LinkUp(n.ID, p)) })
		}
	case kind < 4:
		s.At(when, func() { t.note("%s reboots: %v", n.ID, s.NodeUp(n.ID)) })
	case kind < 5:
		s.At(when, func() { t.note("%s goes down: %v", n.ID, s.NodeDown(n.ID)) })
		if again {
			s.At(max(when, back), func() { t.note("%s comes up: %v", n.ID, s.NodeUp(n.ID)) })
		}
	default:
		h := &t.hosts[t.rng.IntN(len(t.hosts))]
		f := sim.VF{Node: h.At, Port: h.Port, Index: uint16(1 + t.rng.IntN(h.VFs))}
		s.At(when, func() { t.note("VPort %s/%d down: %v", h.Node, f.Index, s.DisableVPort(f)) })
		s.At(max(when, back), func() { t.host("VPort up", func() error { return t.plug(f) }) })
	}
}

// plug has the VPort of a virtual machine up again; one that has none stays down.
func (t *VMTrial) plug(f sim.VF) error {
	if st, err := t.c.Sim.VPort(f); err != nil || st.VM == "" {
		return err
	}
	return t.c.Sim.EnableVPort(f)
}

// kill ends the manager at this moment, or after some more datagrams, or when it
// has stored some more, and has it started again.
func (t *VMTrial) kill() {
	if t.m.Dead {
		return
	}
	switch n := t.rng.IntN(3); {
	case t.Answered:
		t.m.KillAfterMoves = 1 + t.rng.IntN(2)
	case n == 0:
		t.m.Kill()
		t.note("the manager is killed")
	case n == 1:
		t.m.KillAfter = 1 + t.rng.IntN(60)
	default:
		t.m.KillAfterVMWrites = 1 + t.rng.IntN(4)
	}
}

// revive starts the manager again, on its own port or on another one.
func (t *VMTrial) revive() {
	node := t.m.Node
	if t.rng.IntN(3) == 0 && !slices.Contains(t.Kinds, subnet.FloatingLID) { // the LID of a manager's port does not float
		node = t.hosts[t.rng.IntN(len(t.hosts))].Node
	}
	t.Judge.Restarts++
	for _, g := range t.guests {
		g.open = 0
	}
	t.note("a manager starts on %s with the store of that on %s", node, t.m.Node)
	if err := t.start(node, t.m.Store.Reopen()); err != nil {
		t.note("it does not: %v", err)
	}
}

// late is how long the copy of a Set that comes late may stand: managers read again
// what they wrote twice in a short time when no copy can come any more.
const late = 6 * time.Second

// settle ends all faults, has hypervisors do what the address manager says, and
// judges.
func (t *VMTrial) settle() error {
	t.calm = true
	s := t.c.Sim
	s.SetDrop(0)
	s.SetDuplicate(0)
	s.SetReorder(0)
	t.restore(func(n *fabric.Node) bool { return !n.IsSwitch() || t.rng.IntN(2) == 0 })
	t.c.Run(10 * time.Millisecond) // links train
	if len(t.c.reachable(t.m)) < len(t.Fabric.Nodes) {
		t.restore(func(*fabric.Node) bool { return true })
	}
	t.note("calm")
	calm := s.Now()
	t.m.KillAfter, t.m.KillAfterVMWrites, t.m.KillAfterMoves = 0, 0, 0
	if t.m.Dead {
		t.revive()
	}
	end := s.Now().Add(t.Settle)
	look := 500 * time.Millisecond
	if t.Production {
		look = 12 * time.Second // longer than a light sweep may be off
	}
	last := errors.New("lab: no time to settle")
	for good := 0; s.Now() < end; {
		t.c.Run(look)
		if len(t.Judge.Wrong) > 0 {
			return fmt.Errorf("lab: %s", strings.Join(t.Judge.Wrong, "\n"))
		}
		t.obey()
		if last = t.judge(); last != nil {
			good = 0
			continue
		}
		// It stays so; and nothing of before can undo it without being noticed.
		if good++; good >= 3 && s.Now().Sub(calm) > late {
			reach := t.c.reachable(t.m)
			return t.Judge.Reach(t.m, reach, t.Probes, t.rng)
		}
	}
	return last
}

// restore restores all nodes, and the links of those that which selects.
func (t *VMTrial) restore(which func(n *fabric.Node) bool) {
	s := t.c.Sim
	for i := range t.Fabric.Nodes {
		n := &t.Fabric.Nodes[i]
		if !s.Up(i) {
			_ = s.NodeUp(n.ID)
		}
		for p := 1; p <= n.NumPorts; p++ {
			if n.Ports[p].Cabled() && s.PortInfo(i, p).PortPhysicalState != ib.PhysLinkUp && which(n) {
				_ = s.LinkUp(n.ID, p)
			}
		}
	}
}

// obey has hypervisors do what the address manager says.
func (t *VMTrial) obey() {
	v := t.m.VMs()
	if v == nil {
		return
	}
	at := func(g *guest) subnet.Place {
		if i := t.lookup(g); i != nil {
			g.guid, g.own = i.GUID, i.LIDKind == subnet.OwnLID
			if i.Doing == vm.DoingFinish { // it waits for its VM
				return i.Dest
			}
			return i.Place
		}
		return subnet.Place{}
	}
	for _, g := range t.wild {
		if st, ok := t.c.Sim.VM(g.name); ok && st.At.Node >= 0 {
			if at := t.Judge.place(st.At); t.held(at) {
				t.note("host: %s makes room: %v", g.name, t.c.Sim.RemoveVM(g.name))
			} else {
				_ = t.c.Sim.EnableVPort(st.At)
			}
		}
	}
	for _, g := range t.guests { // first who has to go
		p := at(g)
		if st, ok := t.c.Sim.VM(g.name); ok && (t.Judge.place(st.At) != p || g.is.GUID != g.guid || g.is.OwnLID != g.own) {
			t.note("host: %s leaves %v: %v", g.name, t.Judge.place(st.At), t.c.Sim.RemoveVM(g.name))
		}
	}
	for _, g := range t.guests {
		if p := at(g); p != (subnet.Place{}) {
			if err := t.put(g, p); err != nil {
				t.note("host: %s to %v: %v", g.name, p, err)
			}
			if f, ok := t.Judge.vf(p); ok {
				_ = t.c.Sim.EnableVPort(f)
			}
		}
	}
	t.show()
}

// held reports whether an interface is at a place.
func (t *VMTrial) held(p subnet.Place) bool {
	for i := range t.m.VMs().All() {
		if i.Place == p || i.Dest == p {
			return true
		}
	}
	return false
}

func (t *VMTrial) judge() error {
	if !t.m.Up() || !t.m.Idle() {
		if !t.m.linked() {
			return nil // cut off: there is no subnet to bring up
		}
		return fmt.Errorf("lab: %v after calm: %+v", t.m.State(), t.m.Status())
	}
	if err := t.c.Check(t.m); err != nil {
		return err
	}
	for _, g := range t.guests {
		i := t.lookup(g)
		switch {
		case g.sure && g.gone != (i == nil) && g.open == 0:
			return fmt.Errorf("lab: %s: exists is %v, was told %v", g.name, i != nil, !g.gone)
		case i != nil && !slices.Contains(g.may, i.Place):
			return fmt.Errorf("lab: %s is at %v, may be at %v", g.name, i.Place, g.may)
		}
	}
	return t.Judge.Settled(t.m, t.c.reachable(t.m))
}

// Report is what a failing trial prints.
func (t *VMTrial) Report(err error) string {
	t.note("%v", err)
	return fmt.Sprintf("seed %d, %s: %v\n%s", t.Seed, t.What, err, strings.Join(t.Log, "\n"))
}

// Hash identifies the run: the same seed gives the same hash.
func (t *VMTrial) Hash() uint64 { return t.c.Sim.TraceHash() }
