package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/host/saclient"
	"heddle/store"
)

// cacheTrial is a random run of path caches against a real manager.
type cacheTrial struct {
	t       *testing.T
	rng     *rand.Rand
	c       *Cluster
	m       *Manager
	agents  []*PathHost
	cfg     agent.Config
	hosts   []string
	down    map[string]bool
	truth   map[[2]ib.GID]wire.PathRecord // what the manager's SA answers; zero: no path
	was     map[[2]ib.GID][]oldPath
	answers int
	// faithful: no Report is lost, and the manager lives.
	faithful bool
	stats    map[agent.Source]int
}

type oldPath struct {
	rec   wire.PathRecord
	until mad.Time
}

// TestPathCacheCampaign: hosts leave and return, cables fail, managers die, Reports are
// lost. Each ask is answered within its time, and no answer is older
// than the bound that docs/hosts.md states for it. Without lost Reports and dying managers, an
// answer from the cache is never older than a few seconds.
func TestPathCacheCampaign(t *testing.T) {
	for _, seed := range need.Seeds(6, 300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runCacheTrial(t, seed) })
	}
}

func runCacheTrial(t *testing.T, seed uint64) {
	x := &cacheTrial{t: t, faithful: seed%3 == 0, rng: rand.New(rand.NewPCG(seed, 11)), down: map[string]bool{}, stats: map[agent.Source]int{}}
	f := gen(t, "xgft", "2", "4,4", "1,2")
	c, err := NewCluster(f, sim.Config{Seed: seed, HopLatency: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	x.c = c
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			x.hosts = append(x.hosts, f.Nodes[i].ID)
		}
	}
	x.cfg = agent.Defaults()
	x.cfg.MaxAge, x.cfg.StaleTime, x.cfg.RenewTime, x.cfg.VerifyTime = 40*time.Second, 20*time.Second, 15*time.Second, 5*time.Second
	x.truth, x.was = map[[2]ib.GID]wire.PathRecord{}, map[[2]ib.GID][]oldPath{}
	x.manage(x.hosts[0], nil)
	for _, h := range x.hosts[2:4] {
		a, err := c.PathHost(h, x.cfg)
		if err != nil {
			t.Fatal(err)
		}
		x.agents = append(x.agents, a)
	}
	x.record()
	for range 400 {
		x.act()
		c.Run(time.Duration(x.rng.ExpFloat64() * float64(400*time.Millisecond)))
	}
	for _, a := range x.agents {
		c.Run(2 * time.Second)
		if s := a.Stats(); s.Waiting > 0 {
			t.Errorf("askers still wait: %+v", s)
		}
	}
	if x.stats[agent.FromCache] == 0 || x.answers == 0 {
		t.Errorf("%d answers, from %v", x.answers, x.stats)
	}
}

// manage starts a manager that permits caching, and records what its SA answers.
func (x *cacheTrial) manage(host string, st *store.Memory) {
	m, err := x.c.Attach(host, TrialConfig(), st)
	if err != nil {
		x.t.Fatal(err)
	}
	m.ServeSA(SAConfig(1), sa.Options{SAKey: 1, PathCaching: 1})
	x.m = m
	m.OnPublish = func() { x.record() }
	if err := m.Start(); err != nil {
		x.t.Fatal(err)
	}
	mustUp(x.t, x.c, m)
}

// record notes how the paths of the agents' ports changed.
func (x *cacheTrial) record() {
	if x.m.Snap == nil || !x.m.Up() {
		return
	}
	for _, a := range x.agents {
		for i := range x.c.Fabric.Nodes {
			n := &x.c.Fabric.Nodes[i]
			if n.IsSwitch() {
				continue
			}
			k := [2]ib.GID{a.GID(), ib.MakeGID(ib.DefaultSubnetPrefix, n.Ports[1].GUID)}
			now, err := x.m.Path(mad.Addr{LID: x.m.Snap.LID}, k[0], k[1], ib.PKeyDefaultFull)
			if err != nil {
				now = wire.PathRecord{}
			}
			if old, known := x.truth[k]; known && !samePath(&old, &now) {
				x.was[k] = append(x.was[k], oldPath{old, x.c.Sim.Now()})
			}
			x.truth[k] = now
		}
	}
}

func samePath(a, b *wire.PathRecord) bool {
	return a.DLID == b.DLID && a.SLID == b.SLID && a.SL == b.SL && a.MTU == b.MTU && a.Rate == b.Rate
}

func (x *cacheTrial) act() {
	victims := x.hosts[5:]
	switch r := x.rng.IntN(100); {
	case r < 75:
		x.ask(x.agents[x.rng.IntN(len(x.agents))], x.hosts[4+x.rng.IntN(len(x.hosts)-4)])
	case r < 85:
		h := victims[x.rng.IntN(len(victims))]
		var err error
		if x.down[h] {
			err = x.c.Sim.NodeUp(h)
		} else {
			err = x.c.Sim.NodeDown(h)
		}
		if x.down[h] = !x.down[h]; err != nil {
			x.t.Fatal(err)
		}
	case r < 90: // a cable between switches
		var switches []string
		for i := range x.c.Fabric.Nodes {
			if n := &x.c.Fabric.Nodes[i]; n.IsSwitch() {
				switches = append(switches, n.ID)
			}
		}
		sw := switches[x.rng.IntN(len(switches))]
		if x.rng.IntN(2) == 0 {
			_ = x.c.Sim.LinkDown(sw, 5) // the first cable up, of a leaf
		} else {
			_ = x.c.Sim.LinkUp(sw, 5)
		}
	case x.faithful:
	case r < 97:
		a := x.agents[x.rng.IntN(len(x.agents))]
		if a.Lose == nil {
			a.Lose = saclient.Accepts // Reports are lost
		} else {
			a.Lose = nil
		}
	default:
		x.m.Kill()
		x.c.Run(time.Duration(x.rng.IntN(8)) * time.Second)
		x.manage(x.hosts[x.rng.IntN(2)], x.m.Store)
	}
}

// ask asks for the path to a host, and judges the answer.
func (x *cacheTrial) ask(a *PathHost, host string) {
	n := x.c.Fabric.Find(host)
	k := [2]ib.GID{a.GID(), ib.MakeGID(ib.DefaultSubnetPrefix, x.c.Fabric.Nodes[n].Ports[1].GUID)}
	wait := time.Duration(1+x.rng.IntN(1500)) * time.Millisecond
	begin, answered := x.c.Sim.Now(), false
	q := agent.Query{Mask: wire.PathCompSGID | wire.PathCompDGID | wire.PathCompPKey, Record: wire.PathRecord{SGID: k[0], DGID: k[1], PKey: ib.PKeyDefaultFull}}
	a.Ask(&q, wait, func(now mad.Time, ans *agent.Answer) {
		answered = true
		x.answers++
		x.stats[ans.Source]++
		if took := now.Sub(begin); took > wait {
			x.t.Errorf("an answer after %v, limit %v", took, wait)
		}
		if ans.Result == agent.Found {
			x.judge(k, ans)
		}
	})
	x.c.Sim.At(begin.Add(wait+time.Millisecond), func() {
		if !answered {
			x.t.Errorf("no answer after %v", wait)
		}
	})
}

// reportTime is how long a Report takes at most that is not lost.
const reportTime = 2 * time.Second

// judge compares an answer with what the SA answered within the bound.
func (x *cacheTrial) judge(k [2]ib.GID, a *agent.Answer) {
	now := x.c.Sim.Now()
	bound := map[agent.Source]time.Duration{
		agent.FromCache: x.cfg.VerifyTime + reportTime, agent.FromStale: x.cfg.MaxAge + x.cfg.StaleTime, agent.FromSA: 2 * time.Second,
	}[a.Source]
	if x.faithful && a.Source == agent.FromCache {
		bound = reportTime
	}
	if t := x.truth[k]; samePath(&t, &a.Record) {
		return
	}
	for _, o := range x.was[k] {
		if samePath(&o.rec, &a.Record) && now.Sub(o.until) <= bound {
			return
		}
	}
	x.t.Errorf("at %v a path from %v that was not right within %v: %+v; now %+v", now, a.Source, bound, a.Record, x.truth[k])
}
