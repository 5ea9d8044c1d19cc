package experiment

import (
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/mad"
	"heddle/sim/dataplane"
	"heddle/sm"
)

// loss is what a change under traffic costs, from the change on.
type loss struct {
	hosts          int           // that send before the change
	noticed, done  time.Duration // until it is noticed, until it is assimilated
	lost           float64       // packets
	byCause        [dataplane.NumCauses]float64
	unnoticed      float64       // of those lost: before the change was noticed
	before, static float64       // and before ports were taken down (theirs), and from then on
	gone           float64       // in the switch that is removed, or at a port of its cables, or without a route
	delivered      uint64        // at the full rate
	pause          time.Duration // the longest time without any delivery
	inPause        float64       // packets lost in it
	offered        float64       // packets made in it
	bins           []bin

	discover, compute, distribute time.Duration // theirs: the tasks
	down, written                 time.Duration // theirs: steps of the distribution
}

// bin is a stretch of time for the curves of Figure 12.
type bin struct {
	smps                 int // sent until its end
	sent, received, lost int
	latency              time.Duration // sum over packets received
}

const binWidth = time.Millisecond

// Times of a measurement. Traffic flows for warmUp before the change and at its full rate
// for fullRate after it, or until the manager has done and for settleDown. Then hosts send
// a thin-th of it, and each packet that is lost counts as so many: drains take seconds.
const (
	warmUp     = 5 * time.Millisecond
	fullRate   = 250 * time.Millisecond
	settleDown = 10 * time.Millisecond
	thin       = 300
	pace       = 100 * time.Microsecond // at which hosts are told
)

// recorder watches packets.
type recorder struct {
	l          *loss
	start      dataplane.Time // of the change, and of bin 0
	last       dataplane.Time // delivery
	lostAtLast float64
	longest    dataplane.Time
	weight     float64 // of a packet
	down       func() dataplane.Time
	noticed    func() bool
	f          *fabric.Fabric
	node       int32 // the switch that is removed, -1
}

func (r *recorder) bin(at dataplane.Time) *bin {
	k := int((at - r.start) / dataplane.FromDuration(binWidth))
	for len(r.l.bins) <= k {
		r.l.bins = append(r.l.bins, bin{})
	}
	return &r.l.bins[k]
}

func (r *recorder) delivered(d *dataplane.Delivery) {
	if r.weight > 1 {
		return
	}
	if d.At-r.last > r.longest {
		r.longest = d.At - r.last
		r.l.inPause = r.l.lost - r.lostAtLast
	}
	r.last, r.lostAtLast = d.At, r.l.lost
	r.l.delivered++
	b := r.bin(d.At)
	b.received++
	b.latency += time.Duration((d.At - d.Created) / dataplane.Nanosecond)
	if d.Injected >= r.start {
		r.bin(d.Injected).sent++
	}
}

func (r *recorder) dropped(d *dataplane.Drop) {
	r.l.lost += r.weight
	r.l.byCause[d.Cause] += r.weight
	if r.l.noticed == 0 && !r.noticed() {
		r.l.unnoticed += r.weight
	}
	if r.node >= 0 && (d.Cause == dataplane.NoRoute || d.Port.Node == r.node || r.f.Port(d.Port).Peer.Node == r.node) {
		r.l.gone += r.weight
	}
	if d.At < r.down() {
		r.l.before += r.weight
	} else {
		r.l.static += r.weight
	}
	if r.weight == 1 {
		r.bin(d.At).lost++
	}
}

// send has each host that is there send to all others at a rate in packets/s, and no
// other stream any more.
func send(e *dataplane.Engine, f *fabric.Fabric, there map[ib.GUID]bool, rate float64) (hosts int, err error) {
	for i := range e.NumStreams() {
		e.EndStream(i)
	}
	var among []int
	for h := range e.NumHosts() {
		if there[f.Port(e.HostPort(h)).GUID] {
			among = append(among, h)
		}
	}
	if len(among) < 2 {
		return len(among), nil
	}
	for _, h := range among {
		s := dataplane.Stream{
			Src: h, To: dataplane.ToAmong(among), Bytes: packet2003, Start: e.Now(), Arrival: dataplane.Constant,
			Gap: dataplane.Time(float64(dataplane.Second) / rate),
		}
		if _, err := e.AddStream(s); err != nil {
			return 0, err
		}
	}
	return len(among), nil
}

// measureLoss removes or adds a switch under traffic of a rate in packets/s and host,
// phase after the SMPs of a sweep went out, and counts what is lost until the manager has
// done and the subnet was quiet for a while. A switch that is to be added is down before. As
// soon as the manager knows who is there, hosts send to those alone.
func (x *subject) measureLoss(node string, kind int, rate float64, phase time.Duration) (*loss, error) {
	began := x.c.Sim.Now() // the engine counts from then
	e, err := x.c.Sim.StartData(plane2003(x.seed), dataplane.DefaultCable)
	if err != nil {
		return nil, err
	}
	defer x.c.Sim.StopData()
	l := &loss{}
	known := x.knows()
	if l.hosts, err = send(e, x.f, known, rate); err != nil {
		return nil, err
	}
	x.c.Run(warmUp)
	if err := x.untilSweep(); err != nil {
		return nil, err
	}
	x.c.Run(phase)
	e = x.c.Sim.Data()
	r := &recorder{l: l, start: e.Now(), last: e.Now(), weight: 1, f: x.f, node: -1}
	changes := 0
	if x.old != nil {
		changes = len(x.old.Changes)
	} else {
		x.new.Notices, x.new.JobClock = x.new.Notices[:0], true
	}
	r.down = func() dataplane.Time { return x.downTime(changes, began) }
	r.noticed = func() bool { return x.old != nil && x.old.Busy() }
	e.ResetStats()
	e.SetHooks(dataplane.Hooks{OnDeliver: r.delivered, OnDrop: r.dropped})
	apply := x.c.Sim.NodeDown
	if kind == addition {
		apply = x.c.Sim.NodeUp
	} else {
		r.node = int32(x.f.Find(node))
	}
	if err := apply(node); err != nil {
		return nil, err
	}
	if err := x.underTraffic(r, changes, len(known), rate); err != nil {
		return nil, err
	}
	l.pause = time.Duration(r.longest / dataplane.Nanosecond)
	l.offered = float64(l.hosts) * rate * l.pause.Seconds()
	return l, e.Check()
}

// downTime is when their manager began to take ports down for a change, in the time of an
// engine that was started at began.
func (x *subject) downTime(change int, began mad.Time) dataplane.Time {
	if x.old == nil {
		return dataplane.Never
	}
	if t := x.old.Distributing(change); t != mad.Never {
		return dataplane.FromDuration(t.Sub(began))
	}
	return dataplane.Never
}

// underTraffic runs until the manager has done with a change, and the subnet was quiet
// for a while.
func (x *subject) underTraffic(r *recorder, changes, ends int, rate float64) error {
	at, was, told := x.c.Sim.Now(), x.smps, false
	done := x.assimilation(r.l, at, changes, ends)
	for step := 0; !done(); step++ {
		if x.c.Sim.Now().Sub(at) > settle {
			return lab.ErrStuck
		}
		x.c.Run(pace)
		if r.weight == 1 {
			r.bin(r.start + dataplane.FromDuration(time.Duration(step)*pace)).smps = x.smps - was
		}
		again := false
		if r.weight == 1 && x.c.Sim.Now().Sub(at) >= fullRate {
			r.weight, again = thin, true
		}
		if known := x.knows(); len(known) != ends && !told || again {
			told = told || len(known) != ends
			if _, err := send(x.c.Sim.Data(), x.f, known, rate/r.weight); err != nil {
				return err
			}
		}
	}
	x.c.Run(settleDown)
	if x.old != nil {
		return nil
	}
	// Better tables come when the subnet has been quiet.
	r.weight = thin
	if _, err := send(x.c.Sim.Data(), x.f, x.knows(), rate/thin); err != nil {
		return err
	}
	x.c.Run(quiet)
	return x.c.RunUntil(settle, x.idle)
}

// assimilation returns a function that reports whether a change of the set of end ports
// is assimilated. It fills in when what was.
func (x *subject) assimilation(l *loss, at mad.Time, changes, ends int) func() bool {
	if x.old != nil {
		return func() bool {
			if len(x.old.Changes) <= changes {
				return false
			}
			c := &x.old.Changes[changes]
			l.noticed, l.discover, l.compute = c.Noticed.Sub(at), c.Discovered.Sub(c.Noticed), c.Computed.Sub(c.Discovered)
			l.distribute, l.down, l.written = c.Up.Sub(c.Computed), c.Down.Sub(c.Computed), c.Written.Sub(c.Down)
			l.done = c.Up.Sub(at)
			return true
		}
	}
	seen, ended := 0, false
	x.new.OnStep = func() {
		for ; seen < len(x.new.Notices); seen++ {
			switch x.new.Notices[seen].Kind {
			case sm.KindSweepStart:
				if l.noticed == 0 {
					l.noticed = x.c.Sim.Now().Sub(at)
				}
			case sm.KindSweepEnd:
				if !ended && len(x.knows()) != ends {
					ended = true
					l.done = x.c.Sim.Now().Sub(at)
				}
			}
		}
	}
	return func() bool { return ended && x.idle() }
}
