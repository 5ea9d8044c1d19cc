package lab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/sim"
	"heddle/sm"
	"heddle/subnet"
)

// Trial is one seeded run of a manager on a fabric that misbehaves for a
// while and then stops. Everything follows from the seed: a failing one
// replays exactly.
type Trial struct {
	Seed   uint64
	What   string // fabric and chain, for Report
	Fabric *fabric.Fabric
	Faults int           // links and switches that fail or return
	Span   time.Duration // during which they do
	Settle time.Duration // how long the manager has afterwards
	Loss   float64       // of every MAD during the span; duplicates and reordering alike
	Kills  int           // the manager dies this often during the span and is started again
	// Drains is how many links are drained during the span, each until it is over or for a part of it; Restarts how
	// often a host restarts.
	Drains, Restarts int
	// Engines is the chain, nil for the automatic one; Groups how many multicast
	// groups there are.
	Engines []route.Engine
	Groups  int
	// Production: the manager has the intervals and lifetimes of `heddle sm`, not
	// the short ones of TrialConfig.
	Production bool

	Log     []string        // what was done, for a failing seed
	InForce map[string]bool // engines whose tables were installed at some time

	c   *Cluster
	m   *Manager
	cfg sm.Config
	rng *rand.Rand

	drained []subnet.PortAction
}

// Run runs the trial and returns what is wrong with its end, nil if nothing.
func (t *Trial) Run() error {
	t.rng = rand.New(rand.NewPCG(t.Seed, 0x6865646C65))
	var err error
	t.c, err = NewCluster(t.Fabric, sim.Config{
		Seed: t.Seed, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond, Jitter: 2 * time.Microsecond,
		TrainDelay: time.Duration(t.rng.IntN(3)) * time.Millisecond,
		Drop:       t.Loss, Duplicate: t.Loss, Reorder: t.Loss, ReorderMax: 30 * time.Millisecond, TraceHash: true,
	})
	if err != nil {
		return err
	}
	t.cfg, t.InForce = TrialConfig(), map[string]bool{}
	if t.Engines == nil {
		t.Engines = AutoChain()
	}
	look := 500 * time.Millisecond
	if t.Production {
		t.cfg = ProductionConfig(RepairChain{Engines: t.Engines})
		look = 12 * time.Second // longer than a light sweep may be off
	}
	t.cfg.Engines, t.cfg.Explicit = t.Engines, len(t.Engines) == 1
	node := ""
	for i := range t.Fabric.Nodes {
		if !t.Fabric.Nodes[i].IsSwitch() {
			node = t.Fabric.Nodes[i].ID
			break
		}
	}
	if t.m, err = t.c.Start(node, t.cfg, nil); err != nil {
		return err
	}
	t.manage(t.m)
	t.plan()
	t.c.Run(t.Span)
	t.c.Sim.SetDrop(0)
	t.c.Sim.SetDuplicate(0)
	t.c.Sim.SetReorder(0)
	t.note("calm")
	end := t.c.Sim.Now().Add(t.Settle)
	last := fmt.Errorf("lab: the subnet did not come up")
	good := 0
	for t.c.Sim.Now() < end {
		t.c.Run(look)
		last = t.judge()
		if last != nil {
			good = 0
			continue
		}
		if good++; good == 3 { // and stays so
			return nil
		}
	}
	return last
}

// manage makes m the manager of the trial.
func (t *Trial) manage(m *Manager) {
	t.m = m
	m.OnPublish = func() {
		if m.Up() && m.Snap.Tables != nil {
			t.InForce[m.Snap.Engine] = true
		}
	}
	m.SetGroups(t.groups())
	m.SetPortActions(t.drained...)
}

func (t *Trial) judge() error {
	if !t.m.Up() || !t.m.Idle() {
		if !t.m.linked() {
			return nil // cut off: there is no subnet to bring up
		}
		return fmt.Errorf("lab: %v after calm: %+v", t.m.State(), t.m.Status())
	}
	return t.c.Check(t.m)
}

// linked reports whether the manager's own port has a link.
func (m *Manager) linked() bool { return m.ep.PortInfo().PortState > 1 }

func (t *Trial) note(format string, a ...any) {
	t.Log = append(t.Log, fmt.Sprintf("%12v ", time.Duration(t.c.Sim.Now()))+fmt.Sprintf(format, a...))
}

// plan draws what will happen and when.
func (t *Trial) plan() {
	type cable struct {
		node string
		port int
	}
	var cables []cable
	var switches []string
	for i := range t.Fabric.Nodes {
		n := &t.Fabric.Nodes[i]
		if !n.IsSwitch() {
			continue
		}
		switches = append(switches, n.ID)
		for p := 1; p <= n.NumPorts; p++ {
			if n.Ports[p].Cabled() {
				cables = append(cables, cable{n.ID, p})
			}
		}
	}
	at := func() mad.Time { return mad.Time(t.rng.Int64N(int64(t.Span))) }
	s := t.c.Sim
	for range t.Faults {
		when, back := at(), at()
		if t.rng.IntN(4) > 0 {
			x := cables[t.rng.IntN(len(cables))]
			s.At(when, func() { t.note("link %s[%d] down: %v", x.node, x.port, s.LinkDown(x.node, x.port)) })
			if t.rng.IntN(3) > 0 {
				s.At(max(when, back), func() { t.note("link %s[%d] up: %v", x.node, x.port, s.LinkUp(x.node, x.port)) })
			}
			continue
		}
		x := switches[t.rng.IntN(len(switches))]
		s.At(when, func() { t.note("switch %s down: %v", x, s.NodeDown(x)) })
		if t.rng.IntN(4) > 0 {
			s.At(max(when, back), func() { t.note("switch %s up, tables empty: %v", x, s.NodeUp(x)) })
		}
	}
	for range t.Drains {
		links := trunks(t.Fabric)
		a, when, back := action(t.Fabric, subnet.Drain, links[t.rng.IntN(len(links))]), at(), at()
		s.At(when, func() { t.drain(a, true) })
		if t.rng.IntN(2) == 0 {
			s.At(max(when, back), func() { t.drain(a, false) })
		}
	}
	for range t.Restarts {
		x, when := t.Fabric.Nodes[t.rng.IntN(len(t.Fabric.Nodes))], at()
		if x.IsSwitch() {
			continue
		}
		s.At(when, func() { t.note("host %s down: %v", x.ID, s.NodeDown(x.ID)) })
		s.At(when.Add(time.Second), func() { t.note("host %s up: %v", x.ID, s.NodeUp(x.ID)) })
	}
	for range t.Kills {
		s.At(at(), func() {
			t.note("manager killed")
			old := t.m
			old.Kill()
			m, err := t.c.Start(old.Node, t.cfg, old.Store.Reopen())
			if err != nil {
				t.note("restart: %v", err)
				return
			}
			t.manage(m)
		})
	}
}

// drain drains a link, or ends that.
func (t *Trial) drain(a subnet.PortAction, on bool) {
	t.drained = slices.DeleteFunc(slices.Clone(t.drained), func(x subnet.PortAction) bool { return x.Is(a.Node, a.Port) })
	if on {
		t.drained = append(t.drained, a)
	}
	t.note("link at %v port %d drained: %v", a.Node, a.Port, on)
	t.m.SetPortActions(t.drained...)
}

// groups draws the multicast groups.
func (t *Trial) groups() (list []sm.Group) {
	for i := range t.Groups {
		g := sm.Group{MLID: 0xC000 + ib.LID(i*7), PKey: ib.PKeyDefaultFull, MTU: 4}
		for k := range t.Fabric.Nodes {
			if n := &t.Fabric.Nodes[k]; !n.IsSwitch() && (k+i)%(i+2) != 0 {
				g.Members = append(g.Members, n.Ports[1].GUID)
			}
		}
		list = append(list, g)
	}
	return list
}

// Report is what a failing trial prints.
func (t *Trial) Report(err error) string {
	return fmt.Sprintf("seed %d, %s: %v\n%s\nmanager:\n%s", t.Seed, t.What, err, strings.Join(t.Log, "\n"), strings.Join(t.m.Events(sm.Debug), "\n"))
}

// Hash identifies the run: the same seed gives the same hash.
func (t *Trial) Hash() uint64 { return t.c.Sim.TraceHash() }
