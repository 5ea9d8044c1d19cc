package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/perf"
	"heddle/perf/dftree"
	"heddle/perf/hotspot"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sim/host/program"
	"heddle/sim/host/repath"
	"heddle/store"
)

// hotPeriod is the period of counters in tests of hot spots: control times are divided by 2,500,
// while packets and cables take their true times.
const hotPeriod = 4 * time.Millisecond

// hotCosts are those of the hosts' handlers, a hundredth of what the thesis measured.
var hotCosts = repath.Costs{Notice: 200, Query: time.Microsecond, Record: 10, Look: 1120, Change: 4400}

// hotBed is a tree with the real loop: packets count in the PMAs, a performance manager reads these,
// the SA answers and reports, and the handlers of hosts change queue pairs.
type hotBed struct {
	*Loaded
	t      testing.TB
	hosts  []*Host
	opened []hotspot.HotSpot
	closed []hotspot.HotSpot
	slow   ib.SL
}

// hotOptions are what beds differ in.
type hotOptions struct {
	seed   uint64
	engine route.Engine
	mode   dftree.Mode
	leaves int // with hosts hosts each
	hosts  int
	ups    int     // cables from each leaf to the root
	take   float64 // of the link's rate that hosts take and send; 1: all
	reads  int     // packets that can be read from an input at once; 0: 3, as on the test beds of experiments
	store  *store.Memory
}

// hotTree is leaves under a root, of cables of 2 Gb/s, so that a period has few packets.
func hotTree(t testing.TB, o hotOptions) *fabric.Fabric {
	t.Helper()
	b := &fabric.Builder{Width: ib.Width1x, Speed: ib.SpeedSDR}
	for i := range o.leaves * o.hosts {
		b.AddCA(fmt.Sprintf("host-%d", i+1), 1)
	}
	root := b.AddSwitch("root", o.leaves*o.ups)
	for i := range o.leaves {
		leaf := b.AddSwitch(fmt.Sprintf("leaf-%c", 'A'+i), o.hosts+o.ups)
		for k := range o.hosts {
			b.Connect(i*o.hosts+k, 1, leaf, k+1)
		}
		for k := range o.ups {
			b.Connect(leaf, o.hosts+k+1, root, i*o.ups+k+1)
		}
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// hotManager attaches a manager with the cores of the loop to the root.
func hotManager(t testing.TB, c *Cluster, o hotOptions, st *store.Memory) *Manager {
	t.Helper()
	cfg := ProductionConfig(RepairChain{})
	cfg.Engines, cfg.Explicit, cfg.SlowLane = []route.Engine{o.engine}, true, o.mode == dftree.Act
	m, err := c.Attach("root", cfg, st)
	if err != nil {
		t.Fatal(err)
	}
	pc := perf.Defaults()
	pc.Period, pc.Rate, pc.Timeout, pc.History = hotPeriod, 1_000_000, 2*hotPeriod, 0
	sc := SAConfig(0)
	sc.SignalRate = 0 // 2,000 a second are few in a period
	m.ServeSA(sc, sa.Options{})
	m.ServeCounters(pc)
	m.ServeHotSpots(hotspot.Defaults(), dftree.Config{Mode: o.mode})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(upLimit, func() bool { return m.Up() && m.Idle() }); err != nil {
		t.Fatal(err)
	}
	m.JobTime = LoadedJob
	return m
}

func newHotBed(t testing.TB, o hotOptions) *hotBed {
	t.Helper()
	if o.engine == nil {
		o.engine = ftree.Engine{}
	}
	c, err := NewCluster(hotTree(t, o), sim.Config{Seed: o.seed, HopLatency: LoadedHop, SMALatency: LoadedSMA, VLCap: 3})
	if err != nil {
		t.Fatal(err)
	}
	m := hotManager(t, c, o, o.store)
	dc := dataplane.Defaults()
	dc.Seed, dc.Reads = o.seed, cmp.Or(o.reads, 3)
	l, err := Load(c, m, dc)
	if err != nil {
		t.Fatal(err)
	}
	b := &hotBed{Loaded: l, t: t}
	b.watch(m)
	if o.take < 1 {
		r := dataplane.LinkRate(ib.Width1x, ib.SpeedSDR).Times(1000, uint32(1000*o.take))
		for h := range l.Engine.NumHosts() {
			l.Engine.SetCaps(h, r, r)
		}
	}
	hc := HostDefaults()
	hc.Repath.Method, hc.Repath.Costs = repath.ByDraining, hotCosts
	if b.hosts, err = l.StartHosts(hc); err != nil {
		t.Fatal(err)
	}
	return b
}

// watch notes what a manager says about hot spots.
func (b *hotBed) watch(m *Manager) {
	m.OnHotSpots(func(out *hotspot.Output, p *dftree.Plan) {
		b.opened, b.closed = append(b.opened, out.Opened...), append(b.closed, out.Closed...)
		b.slow = p.SL
	})
}

// host is the host of a number from 1.
func (b *hotBed) host(n int) *Host {
	i := slices.IndexFunc(b.hosts, func(h *Host) bool { return h.Name == fmt.Sprintf("host-%d", n) })
	return b.hosts[i]
}

func (b *hotBed) stream(from, to int) *Stream {
	b.t.Helper()
	return b.send(from, to, program.Stream{Bytes: 1 << 13, Depth: 8})
}

func (b *hotBed) send(from, to int, p program.Stream) *Stream {
	b.t.Helper()
	s, err := b.host(from).Stream(b.host(to), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *hotBed) periods(n float64) { b.Run(time.Duration(n * float64(hotPeriod))) }

// rate is what a stream gets of its cable in some periods.
func (b *hotBed) rate(s *Stream, periods float64) float64 {
	_, before := s.Sink.Got()
	b.periods(periods)
	_, after := s.Sink.Got()
	return float64(after-before) * 8 / (periods * hotPeriod.Seconds()) / 2e9
}

// feeds are the contributors of the newest hot spot that opened.
func (b *hotBed) feeds() string {
	var list []string
	r, _ := b.Loaded.Manager.HotSpots()
	for i := range r.Open {
		for k := range r.Open[i].Contributors {
			list = append(list, strings.TrimPrefix(r.Open[i].Contributors[k].Host.Desc, "host-"))
		}
	}
	return strings.Join(list, " ")
}

// TestHotSpotLoop: hosts 1, 3 and 4 feed host 5, and host 2 sends to host 3 over the cable of host
// 1's flow. In the one mode all that happens is that this is said; in the other the flows to host 5
// move, and only they, host 2 has its rate back, and they return when the hot spot has ended.
func TestHotSpotLoop(t *testing.T) {
	for _, take := range []float64{0.82, 1} {
		for _, mode := range []dftree.Mode{dftree.Observe, dftree.Act} {
			t.Run(fmt.Sprintf("%v/%v", mode, take), func(t *testing.T) {
				b := newHotBed(t, hotOptions{seed: 1, mode: mode, leaves: 3, hosts: 2, ups: 1, take: take})
				victim := b.stream(2, 3)
				b.periods(3)
				alone := b.rate(victim, 2)
				if len(b.opened) > 0 {
					t.Errorf("%+v", b.opened)
				}
				var hot []*Stream
				for _, h := range []int{1, 4, 6} {
					hot = append(hot, b.stream(h, 5))
				}
				b.periods(4)
				late := b.rate(victim, 4)
				sum := 0.0
				for _, s := range hot {
					x := b.rate(s, 4)
					sum += x
					t.Logf("contributor %.2f", x)
				}
				t.Logf("alone %.2f, with the hot spot %.2f; sum %.2f", alone, late, sum)
				if len(b.opened) != 1 || len(b.closed) != 0 || b.opened[0].Host.Desc != "host-5" || b.feeds() != "1 4 6" {
					t.Errorf("opened %+v, fed by %s", b.opened, b.feeds())
				}
				want := ib.SL(0)
				if mode == dftree.Act {
					want = b.slow
				}
				for _, s := range hot {
					if got := s.Conn.QP().Path().SL; got != want {
						t.Errorf("level %d", got)
					}
				}
				if victim.Conn.QP().Path().SL != 0 {
					t.Error("the victim moved")
				}
				for _, s := range hot {
					s.Stop()
				}
				b.periods(3)
				for _, s := range append(hot, victim) {
					if s.Conn.QP().Path().SL != 0 {
						t.Error("a flow is on the slow lane")
					}
					if err := s.Check(); err != nil {
						t.Error(err)
					}
					if c := s.Conn.QP().Count; c.NAKs+c.Repeats > 0 {
						t.Errorf("%+v", c)
					}
				}
				if len(b.closed) != 1 || len(b.opened) != 1 {
					t.Errorf("closed %+v", b.closed)
				}
			})
		}
	}
}
