package experiment

import (
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/lab"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/lash"
	"heddle/sa"
	"heddle/sim/host/program"
	"heddle/sim/host/rc"
	"heddle/sim/host/repath"
	"heddle/sim/host/saclient"
	"heddle/sm"
)

// signalCase is a way of signaling.
type signalCase struct {
	name string
	mode sa.Signal
	// published: as in the paper. The manager computes and writes whole tables and balances lanes; the
	// handler asks all queue pairs for each notice; Reports have no rate.
	published bool
	// twice: the manager routes a second time, sweepsApart after the first Report, as OpenSM does for
	// the second trap of a cable.
	twice bool
}

// sweepsApart is t5: from one Report to that of the second sweep.
const sweepsApart = 910 * time.Millisecond

// The ways. Those of the paper come first.
var signalCases = []signalCase{
	{"wildcard, two sweeps", sa.SignalWildcard, true, true},
	{"wildcard, one sweep", sa.SignalWildcard, true, false},
	{"repath only", sa.SignalRepath, true, false},
	{"hybrid", sa.SignalHybrid, true, false},
	{"Heddle: wildcard", sa.SignalWildcard, false, false},
	{"Heddle: repath", sa.SignalRepath, false, false},
	{"Heddle: hybrid", sa.SignalHybrid, false, false},
	{"Heddle: targeted", sa.SignalTargeted, false, false},
}

// The places of signalCases.
const (
	signalTwice = iota
	signalOnce
	signalRepath
	signalHybrid
	heddleWildcard
	heddleRepath
	heddleHybrid
	heddleTargeted
)

// config is the manager's: whole tables with balanced lanes as published, or the product's plan.
func (c *signalCase) config(seed uint64) (sm.Config, sa.Config) {
	sac := sa.Defaults()
	sac.Signal = c.mode
	if !c.published {
		cfg := lab.ProductionConfig(lab.RepairChain{})
		cfg.Engines, cfg.Explicit = []route.Engine{lash.Engine{}}, true
		return cfg, sac
	}
	k := cutCase{policy: sm.TransitionStatic2003, limits: hostLife, repath: 30 * time.Second}
	cfg := k.config()
	cfg.Engines = []route.Engine{balanced{seed}}
	sac.SignalRate = 0
	return cfg, sac
}

// hosts is the configuration of hosts.
func (c *signalCase) hosts() lab.HostConfig {
	hc := hostConfig(false, repath.ByDraining)
	hc.Repath.Walk, hc.Repath.Single = c.published, c.published
	return hc
}

// signalRun is what a cut did to hosts.
type signalRun struct {
	mean, longest time.Duration // from a host's first notice until it is done; 0 without a notice
	reports       int           // of all hosts
	most          int           // of one host
	bytes         uint64        // of all MADs of all hosts, Reports and responses included
	changed       uint64        // queue pairs
	looked        uint64        // queue pairs asked
	exchange      time.Duration // t2, longest
	sweeps        uint64        // of the manager
	told          time.Duration // from the cut to the last Report
	routed        time.Duration // of this machine: to compute, prove and plan the tables after the cut
	wrong         int           // queue pairs whose level is not the manager's in the end
}

// signalBed is a network whose hosts have connections that wait.
type signalBed struct {
	*hostBed
	c     *signalCase
	heard []heard
}

// heard is what a host was told since the cut.
type heard struct {
	first, last mad.Time
	reports     int
}

// newBed connects the processes of different hosts, process i on host i modulo their number.
func (c *signalCase) newBed(n, processes int, seed uint64) (*signalBed, error) {
	f, _, _, err := signalFabric(n)
	if err != nil {
		return nil, err
	}
	cfg, sac := c.config(seed)
	h, err := newSignalBed(f, cfg, sac, deadlockConfig(seed), c.hosts())
	if err != nil {
		return nil, err
	}
	b := &signalBed{hostBed: h, c: c, heard: make([]heard, len(h.hosts))}
	for i, h := range b.hosts {
		h.OnReport = func(r *saclient.Report) bool {
			if trap, _ := r.Notice.Trap(); trap == smp.TrapRePath || trap == smp.TrapUnPath {
				if b.heard[i].reports++; b.heard[i].reports == 1 {
					b.heard[i].first = r.At
				}
				b.heard[i].last = r.At
			}
			return true
		}
	}
	hc := c.hosts()
	for p := range processes {
		for q := range p {
			if x, y := b.hosts[p%len(b.hosts)], b.hosts[q%len(b.hosts)]; x != y {
				if err := b.connect(&hc, x, y); err != nil {
					return nil, err
				}
			}
		}
	}
	return b, nil
}

// connect connects two hosts, which know their paths.
func (b *signalBed) connect(hc *lab.HostConfig, x, y *lab.Host) error {
	c, d, err := program.Pair(x.Adapter, y.Adapter, hc.Options, hc.Sender, b.path(x, y), b.path(y, x), &program.Sink{}, &program.Sink{})
	if err != nil {
		return err
	}
	c.SetPeer(y.GID())
	d.SetPeer(x.GID())
	return nil
}

// path is what the manager's SA answers now.
func (b *signalBed) path(x, y *lab.Host) rc.Path {
	s := b.Manager.Snap
	from := s.Graph.EndPorts[s.Ports[s.PortByLID(x.Adapter.LID())].EndPort].Switch
	return rc.Path{DLID: y.Adapter.LID(), SL: s.Tables.PathSL(from, y.Adapter.LID())}
}

// signalLimit bounds the virtual time after a cut.
const signalLimit = 5 * time.Minute

// cut cuts a cable and waits until all is quiet.
func (b *signalBed) cut(node string, port int, clock func() time.Duration) (r signalRun, err error) {
	b.Run(2 * time.Second) // what came with the subscriptions is over
	clear(b.heard)
	rounds, count := make([]int, len(b.hosts)), make([]saclient.Counters, len(b.hosts))
	handled := make([]repath.Counters, len(b.hosts))
	for i, h := range b.hosts {
		rounds[i], count[i], handled[i] = len(h.Rounds), h.Client.Count, h.Handler.Count
	}
	m := b.Manager
	m.Clock, m.JobCPU, m.PlanCPU = clock, 0, 0
	swept, at := b.Manager.Status().Sweeps, b.Sim.Now()
	if err := b.Sim.LinkDown(node, port); err != nil {
		return r, err
	}
	b.Run(100 * time.Millisecond) // the manager waits 50 ms for more traps
	b.quiet()
	if first := b.firstReport(); b.c.twice && first != mad.Never {
		b.Sim.RunUntil(max(b.Sim.Now(), first.Add(sweepsApart)))
		b.Manager.Reroute(false)
		b.Run(100 * time.Millisecond)
		b.quiet()
	}
	for i, h := range b.hosts {
		x := b.heard[i]
		r.reports += x.reports
		r.most = max(r.most, x.reports)
		if x.reports > 0 {
			r.told = max(r.told, x.last.Sub(at))
		}
		took := time.Duration(0)
		for _, round := range h.Rounds[rounds[i]:] {
			took = max(took, round.End.Sub(x.first))
			r.exchange = max(r.exchange, round.Wait)
		}
		r.mean += took / time.Duration(len(b.hosts))
		r.longest = max(r.longest, took)
		r.bytes += ib.MADLen * (h.Client.Count.Sent + h.Client.Count.Received - count[i].Sent - count[i].Received)
		r.changed += h.Handler.Count.Changed - handled[i].Changed
		r.looked += h.Handler.Count.Looked - handled[i].Looked
	}
	r.sweeps = b.Manager.Status().Sweeps - swept
	r.routed = m.JobCPU + m.PlanCPU
	r.wrong = b.wrong()
	return r, b.Engine.Check()
}

// firstReport is when the first host heard of the cut.
func (b *signalBed) firstReport() mad.Time {
	first := mad.Never
	for _, x := range b.heard {
		if x.reports > 0 {
			first = min(first, x.first)
		}
	}
	return first
}

// quiet runs until neither the manager nor a host has anything to do.
func (b *signalBed) quiet() {
	for end := b.Sim.Now().Add(signalLimit); b.Sim.Now() < end; b.Run(20 * time.Millisecond) {
		st := b.Manager.Signals()
		busy := !b.Manager.Idle() || st.Due > 0 || st.Unanswered > 0
		for _, h := range b.hosts {
			busy = busy || !h.Handler.Idle()
		}
		if !busy {
			return
		}
	}
}

// wrong counts queue pairs whose level is not the manager's.
func (b *signalBed) wrong() (n int) {
	at := map[ib.GID]*lab.Host{}
	for _, h := range b.hosts {
		at[h.GID()] = h
	}
	for _, h := range b.hosts {
		for _, c := range h.Adapter.Connections() {
			if c.QP().Path() != b.path(h, at[c.Peer()]) {
				n++
			}
		}
	}
	return n
}

// run measures a cut of a network of n switches.
func (c *signalCase) run(n, processes int, seed uint64, node string, port int, clock func() time.Duration) (r signalRun, err error) {
	b, err := c.newBed(n, processes, seed)
	if err != nil {
		return r, fmt.Errorf("%s, %d switches: %w", c.name, n, err)
	}
	if r, err = b.cut(node, port, clock); err != nil {
		return r, fmt.Errorf("%s, %d switches: %w", c.name, n, err)
	}
	return r, nil
}
