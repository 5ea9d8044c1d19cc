package experiment

import (
	"time"

	"heddle/ib"
	sawire "heddle/ib/sa"
	"heddle/lab"
	"heddle/lab/experiment/bed"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/host/ipoib"
)

// ether is a stand-in for the 10GbE adapter: the same interfaces, streams and times of hot plug, on
// a bridge that learns from each frame where its sender is. There is no path to ask for.
type ether struct {
	c     *lab.Cluster
	hosts []*etherHost
	port  map[ib.GID]int // where the bridge has seen an address
}

// etherHost is a VM on a function of an Ethernet adapter.
type etherHost struct {
	*ipoib.Stack
	e     *ether
	dev   *ipoib.Device
	mac   ib.GID
	port  int
	up    bool
	alarm *lab.Alarm
}

func (e *ether) add(port int, k vmScale) *etherHost {
	h := &etherHost{e: e, port: port, mac: ib.MakeGID(0, ib.GUID(len(e.hosts)+1)), up: true}
	h.dev = ipoib.New(ipoib.Defaults(), ipoib.IP(len(e.hosts)+1), h, h)
	h.Stack = ipoib.NewStack(h.dev, &ipoib.Server{Rate: vmServer / k.rate, CPU: vmCPU})
	h.alarm = lab.NewAlarm(e.c.Sim, h.Server().NextTimer, h.Server().Run)
	e.hosts = append(e.hosts, h)
	h.dev.Up(e.c.Sim.Now(), ipoib.Hardware{GID: h.mac})
	h.alarm.Set()
	return h
}

// Send implements ipoib.Link: the bridge learns, and forwards to where it has seen the receiver.
func (h *etherHost) Send(_ mad.Time, to ipoib.Address, f *ipoib.Frame) bool {
	if !h.up {
		return false
	}
	h.e.port[h.mac] = h.port
	g := *f
	h.e.c.Sim.After(2*hopLatency, func() {
		for _, x := range h.e.hosts {
			at, known := h.e.port[to.GID]
			if x != h && x.up && (to.Path.DLID.IsMulticast() || x.mac == to.GID && (!known || at == x.port)) {
				x.dev.Input(h.e.c.Sim.Now(), &g)
				x.alarm.Set()
			}
		}
	})
	return true
}

// Paths implements ipoib.SA: there is nothing to ask for.
func (h *etherHost) Paths(now mad.Time, q *sawire.PathRecord, _ sawire.CompMask, _ bool, done func(mad.Time, []sawire.PathRecord, error)) {
	done(now, []sawire.PathRecord{{DGID: q.DGID, DLID: 1, MTU: 4}}, nil)
}

// Join implements ipoib.SA.
func (h *etherHost) Join(now mad.Time, group, port ib.GID, done func(mad.Time, sawire.MCMemberRecord, error)) {
	done(now, sawire.MCMemberRecord{MGID: group, PortGID: port, MLID: 0xC000}, nil)
}

// runEther is Figure 5 on Ethernet.
func runEther(k vmScale, hotPlug time.Duration) (x vmMove, err error) {
	f, _, err := vmStar(3)
	if err != nil {
		return x, err
	}
	c, err := lab.NewCluster(f, sim.Config{Seed: 1})
	if err != nil {
		return x, err
	}
	e := &ether{c: c, port: map[ib.GID]int{}}
	a, b := e.add(0, k), e.add(1, k)
	c.Run(vmSettle)
	r := b.Receive(1)
	s := a.Stack.Send(1, b.dev.IP(), 0, vmTCP(vmEther, k))
	a.alarm.Set()
	m := vmMeter{c, r, k.rate, 0}
	x.gbps = m.run(k.before[0], x.gbps)
	x.before = bed.Average(x.gbps)
	r.Gap(c.Sim.Now())
	away := c.Sim.Now()
	a.up = false
	a.dev.Down()
	c.Sim.After(hotPlug, func() {
		a.port, a.up = 1, true
		x.away = c.Sim.Now().Sub(away)
		a.dev.Up(c.Sim.Now(), ipoib.Hardware{GID: a.mac})
		a.alarm.Set()
	})
	x.gbps = m.run(k.after[0], x.gbps)
	x.outage, x.timeouts = r.Gap(c.Sim.Now()), int(s.Count.Timeouts)
	x.after = bed.Average(x.gbps[len(x.gbps)-int(k.after[0]/vmStep)/4:])
	return x, nil
}
