package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim/dataplane"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/host/repath"
	"heddle/sim/host/saclient"
	hv "heddle/sim/hypervisor"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

// Time is that of the data plane.
type Time = dataplane.Time

// hostTally sums what happened in schedules.
type hostTally struct {
	cuts, reroutes, forgotten, lost, answers int
	deaths, midway, takeovers, unplugged     int
	suspended, resumed                       uint64
	changed, migrated, drained, failed       uint64
	repeats, queries, messages               uint64
	worstForgotten, worstLost                time.Duration // until all hosts were right
	moves, moved                             int           // migrations that began, and that came to their destination
	faulted, midmove                         int           // faults during a migration, and managers that died in a move
	relieved                                 int           // standby managers without the machine's addresses that became master while it migrated
	ways                                     [hv.Firmware + 1]int
}

// TestHostCampaign: random schedules of cables that fail and come back, hosts too, reroutes with
// other service levels, notices that hosts forget, Reports, responses, queries and answers
// that are lost, and managers that die, also between tables and Reports, and have a
// successor with or without their store. In five of six schedules a virtual machine migrates live
// meanwhile, in one of the five ways; a standby that knows nothing of it stands in for a manager that
// died, until that is back with its store. No message may be lost, doubled or reordered. A
// connection may end only when its retries have passed without news, and its path was
// not there for the last of them. After the last disturbance every host is right within
// the bounds of docs/simulated-hosts.md and docs/signalling.md.
func TestHostCampaign(t *testing.T) {
	short := 40
	if testing.Short() {
		short = 6
	}
	first, n := seeds(short, 2500)
	var sum hostTally
	for seed := first; seed < first+n; seed++ {
		hostSchedule(t, seed, &sum)
		if t.Failed() {
			t.Fatalf("HEDDLE_SEED=%d", seed)
		}
	}
	t.Logf("%d schedules: %+v", n, sum)
	if n < 40 {
		return
	}
	if sum.forgotten == 0 || sum.lost == 0 || sum.answers == 0 || sum.midway == 0 || sum.takeovers == 0 ||
		sum.migrated == 0 || sum.drained == 0 || sum.failed == 0 || sum.reroutes == 0 || sum.resumed == 0 ||
		sum.faulted == 0 || sum.relieved == 0 || sum.midmove == 0 || sum.moved == 0 || sum.moved == sum.moves {
		t.Errorf("the schedules miss something: %+v", sum)
	}
}

// meshCables are the cables between switches of meshOfSix, by one end.
var meshCables = []struct {
	node string
	port int
}{{"S2", 2}, {"S1", 3}, {"S2", 3}, {"S3", 3}, {"S4", 3}, {"S5", 3}, {"S6", 3}}

// queryTimeout is how long hosts wait for an answer at first, at most twice as long later.
const queryTimeout = 20 * time.Millisecond

// hostTrial is one schedule.
type hostTrial struct {
	*hostbed
	t       *testing.T
	r       *rand.Rand
	seed    uint64
	hc      HostConfig
	sac     sa.Config
	change  func(*sm.Config)
	forget  bool // hosts forget notices that they have answered
	wire    int  // one datagram of so many is lost, 0: none
	streams []*campaignStream
	sum     *hostTally
	midway  *Manager // dies when it sends a Report; nil: none
	down    int      // place in meshCables, -1: none
	vm      *hostMachine
}

// campaignStream is a stream and since when its paths have led to the other end.
type campaignStream struct {
	*Stream
	name     string
	sender   rc.Sender
	from, to func() *Host // where its ends are; the SA tells them the paths between GIDs a and b
	a, b     ib.GID
	leads    func() bool
	led      bool
	since    Time
	judged   bool
}

func newHostTrial(t *testing.T, seed uint64, sum *hostTally) *hostTrial {
	r := rand.New(rand.NewPCG(seed, 5))
	x := &hostTrial{t: t, r: r, seed: seed, sum: sum, down: -1, hc: HostDefaults(), sac: SAConfig(0)}
	hc := &x.hc
	hc.Sender.Timeout = uint8(10 + r.IntN(4)) // 4.2 to 33.6 ms
	hc.Sender.Retries = []uint8{1, 3, 7, 7}[r.IntN(4)]
	hc.Repath.Method = repath.Method(r.IntN(2))
	hc.Repath.Retry = 100 * time.Millisecond
	hc.MAD = mad.Config{Timeout: queryTimeout, MaxTimeout: 2 * queryTimeout, Retries: 4}
	if hc.CM = r.IntN(3) == 0; hc.CM {
		hc.Repath.ArmLimit = 50 * time.Millisecond
	}
	wire := 0
	switch r.IntN(3) {
	case 0:
		x.forget = true
		hc.Refresh = 200 * time.Millisecond
	case 1:
		wire = 2 + r.IntN(15)
	}
	x.sac.Signal = sa.Signal(r.IntN(4))
	policy := []sm.Transition{sm.TransitionStrict, sm.TransitionAvailability}[r.IntN(2)]
	x.change = func(c *sm.Config) {
		c.Transition, c.RepathTime, c.ImproveDelay = policy, 20*time.Millisecond, 40*time.Millisecond
		c.SweepInterval = 50 * time.Millisecond
		c.PacketLife, c.HOQLife, c.LeafHOQLife = 8, 8, 6 // or plans wait for seconds
		c.PollInterval, c.PollRetries = 30*time.Millisecond, 2
		c.Priority = 5
	}
	way := wayOf(seed)
	mesh := meshOfSix(t)
	if way != 0 {
		mesh = meshWith(t, 1, 3, 4, 6)
	}
	x.hostbed = newHostbedOf(t, mesh, seed, *hc, x.sac, x.change, way)
	if r.IntN(3) == 0 || way != 0 {
		x.attach("S4", nil) // on standby
	}
	for _, h := range x.hosts {
		h.OnReport = func(*saclient.Report) bool {
			if x.forget && r.IntN(3) == 0 {
				sum.forgotten++
				return false
			}
			return true
		}
		h.Lose = x.lose
	}
	for i, f := range [][2]int{{0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 0}, {5, 1}, {0, 3}, {2, 5}} {
		s, err := x.hosts[f[0]].Stream(x.hosts[f[1]], program.Stream{
			Bytes: 3000, Depth: 8, Gap: Time(300+r.IntN(1200)) * dataplane.Microsecond, Seed: seed + uint64(i),
		})
		if err != nil {
			t.Fatal(err)
		}
		x.watch(s, x.hosts[f[0]], x.hosts[f[1]])
	}
	if way != 0 {
		x.startMachine(seed, way)
	}
	x.wire = wire
	return x
}

// watch has a stream between two hosts judged.
func (x *hostTrial) watch(s *Stream, from, to *Host) {
	x.streams = append(x.streams, &campaignStream{
		Stream: s, name: from.Name + " to " + to.Name, sender: x.hc.Sender, a: from.GID(), b: to.GID(),
		from: func() *Host { return from }, to: func() *Host { return to },
		leads: func() bool { return x.leads(from, s.Conn.QP().Path()) && x.leads(to, s.Back.QP().Path()) },
	})
}

// lose loses datagrams of subnet administration, and all Reports of a manager that dies
// with the first of them.
func (x *hostTrial) lose(p *mad.Packet) bool {
	if m := x.midway; m != nil && ib.Class(p.Data[1]) == ib.ClassSA && ib.Method(p.Data[3]) == ib.MethodReport {
		if !m.Dead {
			x.sum.midway++
			m.Kill()
		}
		return true
	}
	if x.wire == 0 || ib.Class(p.Data[1]) != ib.ClassSA || x.r.IntN(x.wire) > 0 {
		return false
	}
	x.sum.lost++
	if ib.Method(p.Data[3]) == ib.MethodReportResp {
		x.sum.answers++
	}
	return true
}

// attach starts a manager at a node.
func (x *hostTrial) attach(node string, dead *Manager) {
	cfg := lashManager(x.change)
	if wayOf(x.seed) != 0 && (dead == nil || dead.vm == nil) {
		cfg.Priority = 0 // the one that knows the machine gets the mastership back
	}
	var m *Manager
	var err error
	if dead != nil {
		m, err = x.Attach(node, cfg, dead.Store)
	} else {
		m, err = x.Attach(node, cfg, nil)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	m.JobTime = LoadedJob
	m.ServeSA(x.sac, sa.Options{})
	if dead != nil && dead.vm != nil {
		m.ServeVMs(vm.Config{})
	}
	if err := m.Start(); err != nil {
		x.t.Fatal(err)
	}
}

// die kills the manager: now, after some SMPs, or when it sends the first Report. The
// standby takes over, or a successor with the dead one's store.
func (x *hostTrial) die() {
	x.sum.deaths++
	m := x.Manager
	switch x.r.IntN(4) {
	case 3:
		if x.dieInMove() {
			break
		}
		fallthrough
	case 0:
		x.migrate()
		m.KillAfter = 1 + x.r.IntN(60)
		x.step(50 * time.Millisecond)
	case 1: // between tables and Reports
		if !x.migrate() || x.r.IntN(2) == 0 {
			x.cut()
		}
		x.midway = m
		for range 20 {
			if x.step(10 * time.Millisecond); m.Dead {
				break
			}
		}
	}
	if x.midway = nil; !m.Dead {
		m.Kill()
	}
	x.step(time.Duration(x.r.IntN(30)) * time.Millisecond)
	if x.vm != nil {
		x.standIn(m)
		return
	}
	if x.alive() {
		x.sum.takeovers++
		if x.r.IntN(2) == 0 {
			x.attach(m.Node, m) // perhaps before the other has noticed
		}
		return
	}
	node := "S4"
	if m.Node == node {
		node = "S1"
	}
	x.attach(node, m)
}

// alive reports whether there is a manager.
func (x *hostTrial) alive() bool {
	return slices.ContainsFunc(x.Managers, func(m *Manager) bool { return !m.Dead })
}

// elect finds the master.
func (x *hostTrial) elect() {
	for _, m := range x.Managers {
		if !m.Dead && m.State() == subnet.Master && (x.Manager.Dead || x.Manager.State() != subnet.Master) {
			x.Manager = m
		}
	}
}

// act does something to the subnet.
func (x *hostTrial) act() {
	switch k := x.r.IntN(8); {
	case k >= 5 && x.migrate():
	case k == 0 && !x.Manager.Dead:
		x.die()
	case k == 1 && x.Manager.State() == subnet.Master:
		x.sum.reroutes++
		x.Manager.Reroute(true)
	case k == 2:
		x.unplug()
	default:
		x.cut()
	}
}

// unplug takes a host away for a while: its peers are told that it is out of service, and
// then that it is back.
func (x *hostTrial) unplug() {
	x.sum.unplugged++
	h := x.host()
	if err := x.Sim.LinkDown(h.Name, 1); err != nil {
		x.t.Fatal(err)
	}
	x.step(time.Duration(x.r.IntN(150)) * time.Millisecond)
	if err := x.Sim.LinkUp(h.Name, 1); err != nil {
		x.t.Fatal(err)
	}
}

// cut cuts a cable, or puts back the one that is cut, so that all hosts are connected.
func (x *hostTrial) cut() {
	if x.down >= 0 {
		if err := x.Sim.LinkUp(meshCables[x.down].node, meshCables[x.down].port); err != nil {
			x.t.Fatal(err)
		}
		x.down = -1
		return
	}
	x.sum.cuts++
	x.down = x.r.IntN(len(meshCables))
	if err := x.Sim.LinkDown(meshCables[x.down].node, meshCables[x.down].port); err != nil {
		x.t.Fatal(err)
	}
}

// followEvery is how often paths are followed.
const followEvery = 2 * time.Millisecond

// step runs for d, and follows the paths of connections.
func (x *hostTrial) step(d time.Duration) {
	for end := x.Sim.Now().Add(d); x.Sim.Now() < end; {
		x.Run(min(followEvery, end.Sub(x.Sim.Now())))
		x.Sim.Data()
		x.elect()
		for _, s := range x.streams {
			x.follow(s)
		}
	}
}

// follow looks at the paths of a connection, and judges its end.
func (x *hostTrial) follow(s *campaignStream) {
	if st, at := s.Failed(); st != rc.Success {
		if !s.judged {
			s.judged = true
			x.judgeEnd(s, st, at)
		}
		return
	}
	was := s.led
	if s.led = s.leads(); s.led && !was {
		s.since = x.Engine.Now()
	}
}

// leads reports whether packets of a host on a path come to its end.
func (x *hostTrial) leads(h *Host, p rc.Path) bool {
	_, err := x.Sim.Trace(x.Fabric.Find(h.Name), 1, p.DLID, p.SL)
	return err == nil
}

// judgeEnd: a connection ends when nothing was acknowledged for all of its retries, of
// which a NAK may have used one; and the last two of its packets found no path.
func (x *hostTrial) judgeEnd(s *campaignStream, st rc.Status, at Time) {
	x.sum.failed++
	timer := rc.AckTimeout(s.sender.Timeout)
	if quiet := at - s.Conn.QP().LastNews(); st != rc.RetryExceeded || quiet < timer*Time(s.sender.Retries) {
		x.t.Errorf("%s: %v %v after news; a timer is %v", s.name, st, quiet, timer)
	}
	if s.led && s.since < at-2*timer-dataplane.FromDuration(look) {
		x.t.Errorf("%s: %v at %v though both paths lead there since %v; a timer is %v", s.name, st, at, s.since, timer)
	}
}

// answers are what the SA tells for all connections that have not ended, "" if it cannot
// tell all hosts; and wrong is a connection that has another path, "": none.
func (x *hostTrial) answers() (all, wrong string) {
	if x.Manager.Dead || !x.Manager.Up() {
		return "", "the subnet is not up"
	}
	sm, node := x.Manager.ep.LID(), x.Fabric.Find(x.Manager.Node)
	for _, h := range x.hosts {
		_, there := x.Sim.Trace(x.Fabric.Find(h.Name), 1, sm, 0)
		_, back := x.Sim.Trace(node, 0, h.ep.LID(), 0)
		if err := errors.Join(there, back); err != nil {
			return "", "no datagrams between the manager and a host: " + err.Error()
		}
	}
	var b strings.Builder
	for _, s := range x.streams {
		if st, _ := s.Failed(); st != rc.Success {
			continue
		}
		for _, c := range []struct {
			from *Host
			to   ib.GID
			path rc.Path
		}{{s.from(), s.b, s.Conn.QP().Path()}, {s.to(), s.a, s.Back.QP().Path()}} {
			p, err := x.Manager.Path(mad.Addr{LID: c.from.ep.LID()}, c.from.GID(), c.to, ib.PKeyDefaultFull)
			if err != nil {
				return "", err.Error()
			}
			fmt.Fprintln(&b, pathIn(&p))
			if c.path != pathIn(&p) {
				wrong = fmt.Sprintf("%s, from %s: %+v, the SA says %+v", s.name, c.from.Name, c.path, pathIn(&p))
			}
		}
	}
	return b.String() + ".", wrong
}

func pathIn(p *wire.PathRecord) rc.Path { return rc.Path{DLID: p.DLID, SL: p.SL} }
