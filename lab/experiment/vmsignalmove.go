package experiment

import (
	"math/rand/v2"
	"time"

	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/mad"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/host/ipoib"
	"heddle/sim/host/saclient"
	"heddle/subnet"
)

// drawn is a time below d.
func drawn(seed uint64, d time.Duration) time.Duration {
	return time.Duration(rand.New(rand.NewPCG(seed, 6)).Int64N(int64(d)))
}

// vmWay is a way in which the peer of a VM that migrates learns of it.
type vmWay struct {
	name     string
	model    sim.Model
	kind     subnet.LIDKind
	deaf     bool // notices are not handed on
	lifetime bool // paths have one
	peer     bool // the peer sends, not the VM that moves
	lost     int  // Reports that the peer's server does not get
}

// The ways, by index.
const (
	vmNotice = iota
	vmPeerSends
	vmNone
	vmLifetime
	vmVSwitch
	vmVPort
)

var vmWays = []vmWay{
	vmNotice:    {name: "shared port, notice", model: sim.SharedPort, kind: subnet.SharedLID},
	vmPeerSends: {name: "the same, the peer sends", model: sim.SharedPort, kind: subnet.SharedLID, peer: true},
	vmNone:      {name: "no notice", model: sim.SharedPort, kind: subnet.SharedLID, deaf: true},
	vmLifetime:  {name: "no notice, paths have a lifetime", model: sim.SharedPort, kind: subnet.SharedLID, deaf: true, lifetime: true},
	vmVSwitch:   {name: "vSwitch: the LID moves along", model: sim.VSwitch, kind: subnet.OwnLID},
	vmVPort:     {name: "VPort with a LID of its own", model: sim.VPorts, kind: subnet.OwnLID},
}

// vmMove is what a migration did.
type vmMove struct {
	gbps      []float64     // by vmStep
	before    float64       // Gb/s
	after     float64       // in the last quarter
	outage    time.Duration // the longest time without a byte
	away      time.Duration // of the interface
	reports   int           // of the SA, for this migration
	queries   int           // of the peer
	late      time.Duration // from the interface's return to the notice at the peer's server; -1: none came
	old       time.Duration // age of the peer's path when the stream went on
	timeouts  int
	processor float64 // share of one processor at the receiver, before
	bad       string
}

// config is that of servers.
func (w *vmWay) config(k vmScale) lab.IPConfig {
	c := lab.IPDefaults()
	c.Model, c.LIDKind, c.IPoIB.Deaf = w.model, w.kind, w.deaf
	c.Rate, c.CPU = vmServer/k.rate, vmCPU
	if w.lifetime {
		c.IPoIB.Lifetime = k.lifetime
	}
	return c
}

// vmTCP is that of streams.
func vmTCP(rate float64, k vmScale) ipoib.TCP {
	c := ipoib.TCPDefaults()
	c.Rate = int64(rate) / k.rate
	return c
}

// run is Figure 5: VMa on A sends to VMb on B, and migrates to B.
func (w *vmWay) run(seed uint64, k vmScale, hotPlug time.Duration) (x vmMove, err error) {
	n, err := newVMNet(3, w.config(k), vmManager(), sa.SignalTargeted, seed)
	if err != nil {
		return x, err
	}
	if err := n.Subscribe(); err != nil {
		return x, err
	}
	a, err := n.AddGuest("VMa", n.Servers[0], 1)
	if err != nil {
		return x, err
	}
	b, err := n.AddGuest("VMb", n.Servers[1], 1)
	if err != nil {
		return x, err
	}
	n.Run(vmSettle) // the tables of the group
	from, to := a, b
	if w.peer {
		from, to = b, a
	}
	s, r := from.Stream(to, 1, 0, vmTCP(vmStream, k))
	m := vmMeter{n.Cluster, r, k.rate, 0}
	next := uint64(0)
	r.OnBytes = func(_ mad.Time, at uint64, bytes int) {
		if at != next {
			x.bad = "bytes came twice or in another order"
		}
		next = at + uint64(bytes)
	}
	busy := to.Server().Busy()
	x.gbps = m.run(k.before[0], x.gbps)
	x.before = bed.Average(x.gbps)
	x.processor = (to.Server().Busy() - busy).Seconds() * float64(k.rate) / k.before[0].Seconds()
	r.Gap(n.Sim.Now())
	noticed := mad.Never
	left, queries := w.lost, b.Device().Count.Queries
	n.Servers[1].Lose = func() bool { left--; return left >= 0 }
	n.Servers[1].OnReport = func(*saclient.Report) bool { noticed = n.Sim.Now(); return true }
	k2 := countSA(n.Manager)
	if err := a.Migrate(n.Servers[1], 2, hotPlug); err != nil {
		return x, err
	}
	was, began := r.Got(), n.Sim.Now()
	resumed := mad.Never
	r.OnBytes = func(now mad.Time, at uint64, bytes int) {
		if at != next {
			x.bad = "bytes came twice or in another order"
		}
		next = at + uint64(bytes)
		if now.Sub(began) > hotPlug {
			resumed = min(resumed, now)
		}
	}
	x.gbps = m.run(k.after[0], x.gbps)
	x.outage = r.Gap(n.Sim.Now())
	if x.late = -1; noticed != mad.Never {
		x.late = max(noticed.Sub(a.Back), 0) // the driver looks less often than the manager acts
	}
	x.away, x.reports, x.timeouts = a.Back.Sub(a.Away), k2.reports, int(s.Count.Timeouts)
	x.queries = int(b.Device().Count.Queries - queries)
	x.after = bed.Average(x.gbps[len(x.gbps)-int(k.after[0]/vmStep)/4:])
	if resumed != mad.Never {
		x.old = resumed.Sub(began) + k.before[0]
	}
	if r.Got() < was || s.Acked() > r.Got() || !a.Ready() {
		x.bad = "acknowledged bytes did not arrive, or the interface did not come up"
	}
	return x, nil
}

// vmMeter samples the rate of a stream.
type vmMeter struct {
	c    *lab.Cluster
	r    *ipoib.Receiver
	rate int64
	was  uint64
}

// run runs for d, and appends the rate of each step in Gb/s, times the scale.
func (m *vmMeter) run(d time.Duration, list []float64) []float64 {
	for range int(d / vmStep) {
		m.c.Run(vmStep)
		list = append(list, vmGbps(m.r.Got()-m.was, vmStep, m.rate))
		m.was = m.r.Got()
	}
	return list
}

func vmGbps(bytes uint64, d time.Duration, rate int64) float64 {
	return float64(bytes) * 8 / float64(d.Nanoseconds()) * float64(rate)
}

// vmFour is Figure 7: three streams of VMa to VMb, and one of VMd to VMc, which VMd joins on C.
type vmFour struct {
	steps    [][4]float64 // Gb/s, by vmStep
	before   [4]float64
	after    [4]float64
	repeated uint64 // segments of the three
	timeouts uint64
	outage   time.Duration // of VMd
	away     time.Duration
	bad      string
}

func runFour(seed uint64, k vmScale) (x vmFour, err error) {
	w := vmWays[vmNotice]
	n, err := newVMNet(3, w.config(k), vmManager(), sa.SignalTargeted, seed)
	if err != nil {
		return x, err
	}
	if err := n.Subscribe(); err != nil {
		return x, err
	}
	var g []*lab.Guest
	for i, v := range []struct {
		name   string
		server int
	}{{"VMa", 0}, {"VMb", 1}, {"VMc", 2}, {"VMd", 0}} {
		x, err := n.AddGuest(v.name, n.Servers[v.server], 1+i)
		if err != nil {
			return vmFour{}, err
		}
		g = append(g, x)
	}
	n.Run(vmSettle)
	var senders [4]*ipoib.Sender
	var meters [4]vmMeter
	for i := range 4 {
		from, to := g[0], g[1]
		if i == 3 {
			from, to = g[3], g[2]
		}
		s, r := from.Stream(to, uint16(1+i), 0, vmTCP(vmStream, k))
		senders[i], meters[i] = s, vmMeter{n.Cluster, r, k.rate, 0}
	}
	sample := func(d time.Duration) (sum [4]float64) {
		steps := int(d / vmStep)
		for range steps {
			n.Run(vmStep)
			var row [4]float64
			for i := range meters {
				m := &meters[i]
				row[i] = vmGbps(m.r.Got()-m.was, vmStep, k.rate)
				m.was = m.r.Got()
				sum[i] += row[i] / float64(steps)
			}
			x.steps = append(x.steps, row)
		}
		return sum
	}
	x.before = sample(k.before[1])
	meters[3].r.Gap(n.Sim.Now())
	if err := g[3].Migrate(n.Servers[2], 9, vmHotPlug); err != nil {
		return x, err
	}
	sample(k.after[1] * 3 / 4)
	x.outage, x.away = meters[3].r.Gap(n.Sim.Now()), g[3].Back.Sub(g[3].Away)
	x.after = sample(k.after[1] / 4)
	for i, s := range senders {
		if i < 3 {
			x.repeated += s.Count.Repeated
			x.timeouts += s.Count.Timeouts
		}
		if s.Acked() > meters[i].r.Got() || meters[i].r.Got() > s.Sent() {
			x.bad = "acknowledged bytes did not arrive"
		}
	}
	return x, nil
}
