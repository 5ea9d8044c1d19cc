package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/internal/fabrictest"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/host/ipoib"
	"heddle/sim/host/saclient"
	"heddle/subnet"
	"heddle/vm"
)

// guestTally sums what happened in schedules.
type guestTally struct {
	moves, lost, cuts, kills   int
	notices, replaced, expired uint64
	repeated, bytes            uint64
}

// TestGuestCampaign: VMs with streams migrate, restart, and lose notices, while cables fail and
// managers die, on shared ports, vSwitches and VPorts. All bytes come once, in order. When the
// faults have ended each stream goes on within the lifetime of a path, the longest timer, and the
// ARP requests; and both ends then hold the LID of the other.
func TestGuestCampaign(t *testing.T) {
	short := 12
	if testing.Short() {
		short = 4
	}
	first, n := seeds(short, 300)
	var sum guestTally
	for seed := first; seed < first+n; seed++ {
		c := &guestTrial{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 4)), sum: &sum}
		c.run(seed)
		if t.Failed() {
			t.Fatalf("HEDDLE_SEED=%d", seed)
		}
	}
	t.Logf("%d schedules: %+v", n, sum)
	if n >= 12 && (sum.moves == 0 || sum.lost == 0 || sum.kills == 0 || sum.cuts == 0 || sum.replaced == 0 || sum.repeated == 0) {
		t.Errorf("the schedules miss something: %+v", sum)
	}
}

// guestTrial is one schedule.
type guestTrial struct {
	*IPNet
	t       *testing.T
	seed    uint64
	r       *rand.Rand
	sum     *guestTally
	lossy   bool
	used    map[string]int // functions of each server
	senders []*ipoib.Sender
	got     []*ipoib.Receiver
	peers   []*Guest
	down    bool
}

var guestModels = []struct {
	model sim.Model
	kind  subnet.LIDKind
	who   Subscriber
}{
	{sim.SharedPort, subnet.SharedLID, SubscribeServers},
	{sim.SharedPort, subnet.SharedLID, SubscribeGuests},
	{sim.VPorts, subnet.SharedLID, SubscribeGuests},
	{sim.VPorts, subnet.OwnLID, SubscribeServers},
	{sim.VSwitch, subnet.OwnLID, SubscribeServers},
}

func (c *guestTrial) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("HEDDLE_SEED=%d: %v", c.seed, err)
	}
}

func (c *guestTrial) run(seed uint64) {
	m := guestModels[seed%uint64(len(guestModels))]
	cfg := IPDefaults()
	cfg.Model, cfg.LIDKind, cfg.Subscriber, cfg.VFs = m.model, m.kind, m.who, 40
	cfg.IPoIB.Lifetime, cfg.IPoIB.Reachable, cfg.IPoIB.Retry = 2*time.Second, 2*time.Second, 200*time.Millisecond
	cfg.MAD = mad.Config{Timeout: 200 * time.Millisecond, Retries: 2}
	c.bring(seed, cfg)
	c.used = map[string]int{}
	for i := range 6 {
		s := c.Servers[c.r.IntN(len(c.Servers))]
		_, err := c.AddGuest(fmt.Sprint("vm", i), s, c.function(s))
		c.must(err)
	}
	tcp := slowIP()
	tcp.Rate, tcp.RTOMax = 10e6, time.Second
	for i, g := range c.Guests {
		to := c.Guests[(i+1+c.r.IntN(5))%6]
		c.peers = append(c.peers, to)
		s, r := g.Stream(to, uint16(i), 0, tcp)
		inOrder(c.t, r)
		c.senders, c.got = append(c.senders, s), append(c.got, r)
	}
	for _, s := range c.Servers {
		s.OnReport = func(*saclient.Report) bool {
			ok := !c.lossy || c.r.IntN(3) > 0
			if !ok {
				c.sum.lost++
			}
			return ok
		}
		s.Lose = func() bool { return c.lossy && c.r.IntN(4) == 0 }
	}
	c.lossy = true
	for range 6 + c.r.IntN(6) {
		c.Run(time.Duration(c.r.IntN(800)) * time.Millisecond)
		c.step()
	}
	c.lossy = false
	if c.down {
		c.must(c.Sim.LinkUp(c.cable()))
	}
	c.judge(cfg, tcp)
}

// bring brings up a ring of four switches with two servers each.
func (c *guestTrial) bring(seed uint64, cfg IPConfig) {
	f, err := fabrictest.Generate("torus", []string{"4", "hosts=2"}, seed)
	c.must(err)
	cl, err := NewCluster(f, sim.Config{Seed: seed, HopLatency: LoadedHop, SMALatency: LoadedSMA})
	c.must(err)
	var nodes []string
	own := ""
	for i := range f.Nodes {
		switch {
		case f.Nodes[i].Type != ib.NodeCA:
		case own == "":
			own = f.Nodes[i].ID
		default:
			nodes = append(nodes, f.Nodes[i].ID)
		}
	}
	man, err := cl.Attach(own, TrialConfig(), nil)
	c.must(err)
	c.IPNet, err = NewIPNet(cl, man, cfg, nodes...)
	c.must(err)
	c.begin(man)
	c.must(c.Subscribe())
}

func (c *guestTrial) begin(m *Manager) {
	m.JobTime = LoadedJob
	m.ServeSA(SAConfig(0), sa.Options{})
	m.ServeVMs(vm.Defaults())
	c.Manager = m
	c.must(m.Start())
	c.must(c.RunUntil(upLimit, func() bool { return m.Up() && m.Idle() }))
}

// function is one of a server that no VM has used.
func (c *guestTrial) function(s *IPServer) int {
	c.used[s.Node]++
	return c.used[s.Node]
}

// step is one event.
func (c *guestTrial) step() {
	g := c.Guests[c.r.IntN(len(c.Guests))]
	switch k := c.r.IntN(10); {
	case k == 0:
		c.sum.kills++
		c.Manager.Kill()
		c.Run(time.Duration(c.r.IntN(30)) * time.Millisecond)
		m, err := c.Attach(c.Manager.Node, TrialConfig(), c.Manager.Store)
		c.must(err)
		c.begin(m)
	case k <= 2:
		c.sum.cuts++
		if c.down {
			c.must(c.Sim.LinkUp(c.cable()))
		} else {
			c.must(c.Sim.LinkDown(c.cable()))
		}
		c.down = !c.down
	case !g.Ready():
	case k == 3:
		c.must(g.Unplug())
		c.Run(time.Duration(c.r.IntN(500)) * time.Millisecond)
		c.must(g.Plug(g.On(), int(g.Place().Function)))
	default:
		to := c.Servers[c.r.IntN(len(c.Servers))]
		if to == g.On() {
			return
		}
		c.sum.moves++
		c.must(g.Migrate(to, c.function(to), time.Duration(c.r.IntN(1500))*time.Millisecond))
	}
}

// cable is the first between two switches.
func (c *guestTrial) cable() (node string, port int) {
	for a, b := range c.Fabric.Links {
		if c.Fabric.Nodes[a.Node].IsSwitch() && c.Fabric.Nodes[b.Node].IsSwitch() {
			return c.Fabric.Nodes[a.Node].ID, int(a.Port)
		}
	}
	c.t.Fatal("no cable between switches")
	return "", 0
}

// judge waits for the bound, and checks streams and paths.
func (c *guestTrial) judge(cfg IPConfig, tcp ipoib.TCP) {
	c.must(c.RunUntil(time.Minute, func() bool {
		for _, g := range c.Guests {
			if !g.Ready() {
				return false
			}
		}
		return c.Manager.Up() && c.Manager.Idle()
	}))
	c.Run(time.Second) // the group's tables
	var was []uint64
	for _, r := range c.got {
		was = append(was, r.Got())
	}
	c.Run(cfg.IPoIB.Lifetime + cfg.IPoIB.Reachable + tcp.RTOMax + 3*cfg.IPoIB.Retry)
	for i, r := range c.got {
		s := c.senders[i]
		if r.Got() == was[i] || s.Acked() > r.Got() || r.Got() > s.Sent() {
			c.t.Errorf("stream %d: %d bytes, %d before, %d acknowledged; %+v %+v", i, r.Got(), was[i], s.Acked(), s.Count, c.Guests[i].Device().Count)
		}
		c.sum.repeated += s.Count.Repeated
		c.sum.bytes += r.Got()
	}
	for i := range c.got {
		a, b := c.Guests[i], c.peers[i]
		c.holds(a, b)
		c.holds(b, a)
	}
	for _, g := range c.Guests {
		n := g.Device().Count
		c.sum.notices, c.sum.replaced, c.sum.expired = c.sum.notices+n.Notices, c.sum.replaced+n.Replaced, c.sum.expired+n.Expired
	}
}

// holds checks the path that one VM has cached to another.
func (c *guestTrial) holds(a, b *Guest) {
	st, _ := c.Sim.VM(b.Name)
	if p, ok := a.dev.PathTo(st.GID); !ok || p.DLID != st.LID {
		c.t.Errorf("%s sends to LID %d of %s (known %v), which has LID %d", a.Name, p.DLID, b.Name, ok, st.LID)
	}
}
