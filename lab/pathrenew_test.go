package lab

import (
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/sa"
	"heddle/sim"
)

// TestPathCacheRenewed: when a cable fails and service levels change, the Reports of the manager
// renew the entries of a path cache. Nobody asks the SA, and every answer from the cache is the
// SA's, as librdmacm asks for it.
func TestPathCacheRenewed(t *testing.T) {
	f := gen(t, "mesh", "3,3")
	c, err := NewCluster(f, sim.Config{Seed: 1, HopLatency: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	cfg := TrialConfig()
	cfg.Engines, cfg.Explicit = []route.Engine{lash.Engine{}}, true
	names := caNames(f)
	m, err := c.Attach(names[0], cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeSA(SAConfig(1), sa.Options{SAKey: 1, PathCaching: 1})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	a, err := c.PathHost(names[1], agent.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	c.Run(time.Second)
	ask := func(name string) (got agent.Answer) {
		t.Helper()
		d := ib.MakeGID(ib.DefaultSubnetPrefix, c.Fabric.Nodes[c.Fabric.Find(name)].Ports[1].GUID)
		q := agent.Query{
			Mask: wire.PathCompSGID | wire.PathCompDGID | wire.PathCompPKey | wire.PathCompReversible | wire.PathCompNumbPath |
				wire.PathCompServiceID8 | wire.PathCompServiceID56 | wire.PathCompQoSClass,
			Record: wire.PathRecord{
				SGID: a.GID(), DGID: d, PKey: ib.PKeyDefaultFull, Reversible: true,
				NumbPath: 1, ServiceID: 0x106,
			},
		}
		a.Ask(&q, time.Second, func(_ mad.Time, x *agent.Answer) { got = *x })
		c.Run(10 * time.Millisecond)
		now, err := m.Path(mad.Addr{LID: m.Snap.LID}, a.GID(), d, ib.PKeyDefaultFull)
		if now.Reserved3 = 0; err != nil || got.Result != agent.Found || got.Record != now {
			t.Fatalf("%s: %+v, the SA has %+v, %v", name, got, now, err)
		}
		return got
	}
	levels := map[string]ib.SL{}
	for _, n := range names[2:] {
		levels[n] = ask(n).Record.SL
	}
	changed := 0
	queries := a.Stats().Queries
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.IsSwitch() {
			continue
		}
		for p := 1; p <= n.NumPorts; p++ {
			if q := n.Ports[p].Peer; q.Node < int32(i) || !f.Nodes[q.Node].IsSwitch() {
				continue
			}
			if err := c.Sim.LinkDown(n.ID, p); err != nil {
				t.Fatal(err)
			}
			c.Run(3 * time.Second)
			for _, name := range names[2:] {
				x := ask(name)
				if x.Source != agent.FromCache {
					t.Errorf("%s: an answer from %v after a cut", name, x.Source)
				}
				if x.Record.SL != levels[name] {
					changed++
				}
				levels[name] = x.Record.SL
			}
			if err := c.Sim.LinkUp(n.ID, p); err != nil {
				t.Fatal(err)
			}
			c.Run(3 * time.Second)
		}
	}
	s := a.Stats()
	if changed == 0 || s.Renewed == 0 || s.Queries != queries {
		t.Errorf("%d levels changed, %d entries renewed, %d queries", changed, s.Renewed, s.Queries-queries)
	}
	t.Logf("%d levels changed, %d renewed, %d removed", changed, s.Renewed, s.Noticed)
}
