package lab

import (
	"math/rand/v2"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
)

// signalSeeds lists the seeds of a campaign.
func signalSeeds(short int) (list []uint64) {
	first, n := seeds(short, 20*short)
	for s := first; s < first+n; s++ {
		list = append(list, s)
	}
	return list
}

// pathBed is a subnet whose paths have service levels that change, and its hosts.
type pathBed struct {
	*Cluster
	t     testing.TB
	m     *Manager
	cfg   sm.Config
	sac   sa.Config
	links []fabric.Ref
	down  map[int]bool
	hosts []*pathUser
	rng   *rand.Rand
}

// newPathBed brings up a mesh with LASH. The manager is on the first host.
func newPathBed(t testing.TB, seed uint64, cfg sm.Config, sac sa.Config, dims string) *pathBed {
	t.Helper()
	f := gen(t, "mesh", dims)
	c, err := NewCluster(f, sim.Config{Seed: seed, HopLatency: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Engines, cfg.Explicit = []route.Engine{lash.Engine{}}, true
	b := &pathBed{Cluster: c, t: t, cfg: cfg, sac: sac, down: map[int]bool{}, rng: rand.New(rand.NewPCG(seed, 69))}
	b.start(nil)
	for i := range f.Nodes {
		for p := 1; p <= f.Nodes[i].NumPorts && f.Nodes[i].Type == ib.NodeSwitch; p++ {
			q := f.Nodes[i].Ports[p].Peer
			if q.Node > int32(i) && f.Nodes[q.Node].Type == ib.NodeSwitch {
				b.links = append(b.links, fabric.Ref{Node: int32(i), Port: uint8(p)})
			}
		}
	}
	for i, n := range caNames(f)[1:] {
		b.hosts = append(b.hosts, newPathUser(t, c, n, i%2 == 0))
	}
	for _, h := range b.hosts {
		for _, d := range b.hosts {
			if d != h {
				h.peers = append(h.peers, d.gid)
			}
		}
		h.subscribe()
		h.askAll()
	}
	c.Run(time.Second)
	return b
}

// fill has path caches ask for the entries that have left them.
func (b *pathBed) fill() {
	for _, h := range b.hosts {
		if h.cache != nil {
			h.askAll()
		}
	}
	b.Run(100 * time.Millisecond)
}

// start starts a manager with a store, and waits until the subnet is up.
func (b *pathBed) start(st *store.Memory) {
	b.t.Helper()
	m, err := b.Attach(caNames(b.Fabric)[0], b.cfg, st)
	if err != nil {
		b.t.Fatal(err)
	}
	m.ServeSA(b.sac, sa.Options{PathCaching: 1})
	if err := m.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.m = m
	if err := b.RunUntil(time.Minute, m.Up); err != nil {
		b.t.Fatal(err)
	}
}

// toggle cuts a link, or restores the one that is cut.
func (b *pathBed) toggle() {
	for i := range b.down {
		_ = b.Sim.LinkUp(b.Fabric.Nodes[b.links[i].Node].ID, int(b.links[i].Port))
		delete(b.down, i)
		return
	}
	i := b.rng.IntN(len(b.links))
	_ = b.Sim.LinkDown(b.Fabric.Nodes[b.links[i].Node].ID, int(b.links[i].Port))
	b.down[i] = true
}

// wrong says which host has a wrong path; "": none.
func (b *pathBed) wrong() string {
	for _, h := range b.hosts {
		if w := h.wrong(b.m); w != "" && !h.deaf {
			return w
		}
	}
	return ""
}

// signalBound is how long after the last disturbance every host is right, with TrialConfig
// (docs/signalling.md).
const signalBound = 20 * time.Second

// TestHostsAreRightAgain: links fail and return, service levels change, Reports, responses,
// queries and answers are lost, hosts are deaf for a while, and managers die between tables and
// Reports. Every host has the paths that the SA answers with, within the bound of the docs.
func TestHostsAreRightAgain(t *testing.T) {
	changed, deaths := uint64(0), 0
	for _, seed := range signalSeeds(12) {
		sac := SAConfig(7)
		sac.Signal = sa.Signal(seed % 4)
		b := newPathBed(t, seed, TrialConfig(), sac, "3x3")
		for range 4 {
			b.fill()
			loss := []int{0, 4, 20}[b.rng.IntN(3)]
			for _, h := range b.hosts {
				h.lose = func() bool { return loss > 0 && b.rng.IntN(loss) == 0 }
				h.deaf = b.rng.IntN(6) == 0
			}
			b.toggle()
			if b.rng.IntN(3) == 0 {
				// The manager dies at a random moment while or after it writes the tables.
				b.m.KillAfter = 1 + b.rng.IntN(150)
				_ = b.RunUntil(3*time.Second, func() bool { return b.m.Dead })
				b.m.Kill()
				deaths++
				b.start(b.m.Store)
			}
			b.Run(time.Duration(b.rng.IntN(3000)) * time.Millisecond)
			for _, h := range b.hosts {
				h.lose, h.deaf = nil, false
			}
			// The sweeps that the last fault asks for come to their end.
			b.Run(2*b.cfg.SweepInterval + signalBound)
			if w := b.wrong(); w != "" {
				t.Fatalf("seed %d, %v: %s", seed, sac.Signal, w)
			}
		}
		changed += b.m.Signals().Changes
	}
	if changed == 0 || deaths == 0 {
		t.Errorf("%d changes of paths, %d deaths: the test proves little", changed, deaths)
	}
}

// TestLevelsBeforeEntries: where a plan waits for hosts to use new service levels, every host that
// hears has them before the entries follow. For one that misses its Report the wait is prolonged;
// one that does not answer delays the change once and is reported. So is one that no Report reaches,
// because the plan has discarded the entries on the way from the manager to it.
func TestLevelsBeforeEntries(t *testing.T) {
	waits, prolonged, reported, right := 0, 0, 0, 0
	for _, seed := range signalSeeds(30) {
		cfg := TrialConfig()
		cfg.Transition = sm.TransitionDiscard
		cfg.RepathTime = time.Second
		sac := SAConfig(7)
		sac.Signal = sa.Signal(seed % 4)
		b := newPathBed(t, seed, cfg, sac, "4x4")
		mode := seed % 3 // all hear; one hears its third try; one is deaf
		victim := b.hosts[b.rng.IntN(len(b.hosts))]
		for range 4 {
			begun, until := mad.Never, mad.Never
			missed, unheard, doubt := 0, 0, 0
			heard := make([]int, len(b.hosts))
			victim.deaf = mode == 2
			if victim.lose = nil; mode == 1 {
				victim.lose = func() bool { missed++; return missed < 3 && begun != mad.Never }
			}
			n := len(b.m.Notices)
			b.m.OnStep = func() {
				switch k := b.m.core.WaitsForHosts(); {
				case k && begun == mad.Never:
					begun = b.Sim.Now()
					for i, h := range b.hosts {
						heard[i] = h.heard()
					}
				case !k && begun != mad.Never && until == mad.Never:
					until = b.Sim.Now()
					waits++
					for i, h := range b.hosts {
						switch w := h.wrong(b.m); {
						case w == "" && h.doubts():
							doubt++ // its question which paths changed is on its way
						case w == "":
							right++
						case h.heard() == heard[i]:
							unheard++
						default:
							t.Errorf("seed %d, %v: when the wait ended after %v: %s", seed, sac.Signal, until.Sub(begun), w)
						}
					}
				}
			}
			b.toggle()
			b.Run(8 * time.Second)
			b.m.OnStep = nil
			b.fill()
			if until == mad.Never {
				continue
			}
			if took := until.Sub(begun); took > 2*cfg.RepathTime+time.Second {
				t.Errorf("seed %d: the wait took %v", seed, took)
			} else if took > cfg.RepathTime+100*time.Millisecond {
				prolonged++
			}
			silent := unheard > 0
			for _, x := range b.m.Notices[n:] {
				if silent = silent && x.Kind != sm.KindLevelsUnanswered; x.Kind == sm.KindLevelsUnanswered {
					reported++
					if unheard+doubt == 0 && mode != 2 {
						t.Errorf("seed %d: %s", seed, x.Text)
					}
				}
			}
			if silent {
				t.Errorf("seed %d: hosts have old levels after the wait, and nothing reports it", seed)
			}
		}
	}
	if waits == 0 || prolonged == 0 || reported == 0 || right < 8*waits {
		t.Errorf("%d waits, %d prolonged, %d reported, %d hosts right at their ends: not everything was met", waits, prolonged, reported, right)
	}
}
