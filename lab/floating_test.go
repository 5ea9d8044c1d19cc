package lab

import (
	"slices"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route/move"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/sm/takeover"
	"heddle/store"
)

// floatingPair is a subnet with two manager hosts, whose managers share their records. One of them
// runs.
type floatingPair struct {
	*Cluster
	hosts [2]string
	ports [2]ib.GUID
	at    int // of the host whose manager runs
	m     *Manager
	float bool
	cfg   sm.Config
}

// newFloatingPair starts the manager of the first host.
func newFloatingPair(t testing.TB, f *fabric.Fabric, sc sim.Config, hosts [2]string, cfg sm.Config) *floatingPair {
	t.Helper()
	c, err := NewCluster(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	p := &floatingPair{Cluster: c, hosts: hosts, float: true, cfg: cfg, at: 1}
	for i, h := range hosts {
		n, err := c.Sim.Node(h)
		if err != nil {
			t.Fatal(err)
		}
		p.ports[i] = c.Sim.GUIDs(n, 1)[0]
		c.floats[p.ports[i]] = true
	}
	p.start(t, store.NewMemory(), nil, nil)
	return p
}

// start starts the manager of the host whose turn it is.
func (p *floatingPair) start(t testing.TB, st *store.Memory, was *Manager, watch func(m *Manager)) {
	t.Helper()
	p.at = 1 - p.at
	cfg := p.cfg
	cfg.Granted, cfg.Partner, cfg.FloatLID = true, p.ports[1-p.at], p.float
	m, err := p.Attach(p.hosts[p.at], cfg, st)
	if err != nil {
		t.Fatal(err)
	}
	m.ServeSA(SAConfig(1), sa.Options{SAKey: 1})
	if was != nil {
		s := mirrorOf(t, was.Snap)
		m.SetWarm(s)
		if p.float {
			x, err := takeover.Prepare(s, p.ports[p.at], cfg.MaxOpVLs, move.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m.SetFloat(x)
		}
	}
	if watch != nil {
		watch(m)
	}
	if p.m = m; m.Start() != nil {
		t.Fatal(err)
	}
}

// takeOver kills the manager that runs and has the other one take over.
func (p *floatingPair) takeOver(t testing.TB, warm bool, between func(), watch func(m *Manager)) {
	t.Helper()
	was := p.m
	was.Kill()
	if between != nil {
		between()
	}
	known := was
	if !warm {
		known = nil
	}
	p.start(t, was.Store.Reopen(), known, watch)
}

// lids are what the ports of both manager hosts show: of the one whose manager runs first.
func (p *floatingPair) lids() (own, other ib.LID) {
	at := func(i int) ib.LID {
		n, _ := p.Sim.Node(p.hosts[i])
		return p.Sim.PortInfo(n, 1).LID
	}
	return at(p.at), at(1 - p.at)
}

// deafHost asks the SA again and again at the address that it has known since its start.
type deafHost struct {
	ep    *sim.Endpoint
	to    mad.Addr
	gids  [2]ib.GID
	first mad.Time // when the first answer came to a request of this round
	tid   uint64
	since uint64 // requests before it do not count
}

// deafHosts are hosts on all nodes but those of managers.
type deafHosts struct {
	c     *Cluster
	list  []*deafHost
	every time.Duration
	round int
}

func newDeafHosts(t testing.TB, p *floatingPair, every time.Duration) *deafHosts {
	t.Helper()
	d := &deafHosts{c: p.Cluster, every: every}
	for _, name := range cas(p.Fabric) {
		if slices.Contains(p.hosts[:], name) {
			continue
		}
		ep, err := p.Sim.Attach(name)
		if err != nil {
			t.Fatal(err)
		}
		pi := ep.PortInfo()
		h := &deafHost{ep: ep, to: mad.Addr{LID: pi.MasterSMLID, QP: 1, SL: pi.MasterSMSL}, first: mad.Never}
		h.gids = [2]ib.GID{ib.MakeGID(pi.GidPrefix, ep.PortGUID()), ib.MakeGID(pi.GidPrefix, ep.PortGUID())}
		if n := len(d.list); n > 0 {
			h.gids[1] = d.list[n-1].gids[0]
		}
		ep.OnPacket = func(k *mad.Packet) {
			b := (*ib.MAD)(k.Data)
			if k.Status == mad.Received && b.Class() == ib.ClassSA && b.Method() == ib.MethodGetResp && b.Status() == 0 &&
				b.TID() > h.since && h.first == mad.Never {
				h.first = d.c.Sim.Now()
			}
		}
		d.list = append(d.list, h)
	}
	return d
}

// begin has all hosts ask from now on until each is answered.
func (d *deafHosts) begin() {
	d.round++
	for i, h := range d.list {
		h.first, h.since = mad.Never, h.tid
		d.c.Sim.After(d.every*time.Duration(i)/time.Duration(len(d.list)), func() { d.ask(h, d.round) })
	}
}

func (d *deafHosts) ask(h *deafHost, round int) {
	if h.first != mad.Never || d.round != round {
		return
	}
	h.tid++
	var m ib.MAD
	wire.New(&m, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompSGID|wire.PathCompDGID|wire.PathCompReversible|wire.PathCompNumbPath)
	r := wire.PathRecord{SGID: h.gids[0], DGID: h.gids[1], Reversible: true, NumbPath: 1}
	r.Put(wire.Data(&m))
	m.SetTID(h.tid)
	h.ep.Send(&mad.Packet{Addr: h.to, LocalQP: 1, Data: m[:]})
	d.c.Sim.After(d.every, func() { d.ask(h, round) })
}

// answered is when the first and the last host were answered, and how many were.
func (d *deafHosts) answered() (first, last mad.Time, n int) {
	first = mad.Never
	for _, h := range d.list {
		if h.first != mad.Never {
			first, last = min(first, h.first), max(last, h.first)
			n++
		}
	}
	return first, last, n
}

// smpsOf counts what a manager sends, by method and attribute.
type smpsOf map[string]int

func (x smpsOf) watch(m *Manager) {
	m.OnSend = func(k *mad.Packet) {
		d := (*ib.MAD)(k.Data)
		if !d.Class().IsSMP() {
			return
		}
		x["all"]++
		if d.Method() == ib.MethodSet {
			x["Set"]++
			x["Set "+d.AttrID().String()]++
			var pi smp.PortInfo
			if d.AttrID() == smp.AttrPortInfo && pi.Decode(smp.Data(d)) == nil && pi.ClientReregister {
				x["reregister"]++
			}
		}
	}
}

// floatingHosts are the two manager hosts of a tree: the first one, and one in the middle.
func floatingHosts(f *fabric.Fabric) [2]string {
	hosts := cas(f)
	return [2]string{hosts[0], hosts[len(hosts)/2]}
}

// TestFloating: hosts that hear nothing find the SA of the new master at the LID of the old one. No
// host is told, and nothing is stored; the old master's port has the other LID.
func TestFloating(t *testing.T) {
	f := gen(t, "xgft", "2", "18,36", "1,18")
	p := newFloatingPair(t, f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 30 * time.Microsecond}, floatingHosts(f), TrialConfig())
	mustUp(t, p.Cluster, p.m)
	d := newDeafHosts(t, p, 200*time.Microsecond)
	lid, other := p.lids()
	for round := range 4 {
		d.begin()
		if err := p.RunUntil(time.Second, func() bool { _, _, n := d.answered(); return n == len(d.list) }); err != nil {
			t.Fatal(err)
		}
		n, stored := smpsOf{}, 0
		p.takeOver(t, true, d.begin, func(m *Manager) {
			n.watch(m)
			m.OnStore = func(ops []store.Op) { stored += len(ops) }
		})
		began := p.Sim.Now()
		if err := p.RunUntil(time.Second, func() bool { _, _, n := d.answered(); return n == len(d.list) }); err != nil {
			_, _, k := d.answered()
			t.Fatalf("%d of %d hosts were answered: %v\n%s", k, len(d.list), err, tail(p.m))
		}
		first, last, _ := d.answered()
		early := n["all"]
		mustUp(t, p.Cluster, p.m)
		p.Run(time.Second)
		if err := p.Check(p.m); err != nil {
			t.Errorf("%v\n%s", err, tail(p.m))
		}
		if a, b := p.lids(); a != lid || b != other {
			t.Errorf("the LIDs of the managers are %v and %v, before %v and %v", a, b, lid, other)
		}
		if n["reregister"] > 2 {
			t.Errorf("%d ports were asked to register again", n["reregister"])
		}
		if stored > 0 {
			t.Errorf("%d changes were stored", stored)
		}
		t.Logf("takeover %d: first answer after %v, last after %v, %d SMPs before; %v; %v", round+1, first.Sub(began), last.Sub(began), early, n, told(p.m, sm.KindTakeover))
	}
}
