package experiment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	ibsa "heddle/ib/sa"
	"heddle/mad"
)

// crowd is a server with many clients that migrates, with or without path caches.
type crowd struct {
	clients int
	answer  time.Duration // of the SA for a query
	caching rdsCaching

	first     int           // queries in the first second after the detach is called
	attempts  int           // tries of clients in it
	other     int           // the SA's other datagrams until all are connected: Reports, answers about changes
	later     int           // queries from then on until all are connected
	idle      time.Duration // 99th percentile of an uninvolved host before
	busy      time.Duration // and in the first second
	connected int           // clients that are connected again in the end
	took      time.Duration // from the device's return until all are connected
}

// Of the uninvolved host: queries a second, and how long before the detach they are looked
// at. crowdStart is the time in which the clients connect.
const (
	probeRate  = 2000
	probeTime  = 2 * time.Second
	crowdStart = 5 * time.Second
	crowdLimit = 120 * time.Second
)

// crowdNet is a tree with room for the clients, the manager, the uninvolved host and two
// hypervisors.
func crowdNet(clients int) (*fabric.Fabric, error) {
	for _, c := range [][2]int{{12, 9}, {24, 24}, {32, 63}} {
		if c[0]*c[1] >= clients+4 {
			return fabric.Generate(fabric.XGFT{Children: c[:], Parents: []int{1, c[0]}}, fabric.GenerateOptions{})
		}
	}
	return nil, fmt.Errorf("%d clients: at most 2012 have room", clients)
}

// prober is the uninvolved host.
type prober struct {
	n    *rdsNode
	rng  *rand.Rand
	dst  *rdsNode
	took []time.Duration
	at   []mad.Time
}

// next asks for a path, whatever has become of the last query, and then again.
func (p *prober) next() {
	b := p.n.b
	b.c.Sim.After(time.Duration(p.rng.ExpFloat64()*float64(time.Second)/probeRate), func() {
		now := b.now()
		q := ibsa.PathRecord{SGID: p.n.gid, DGID: p.dst.gid}
		p.n.client.Paths(now, &q, ibsa.PathCompSGID|ibsa.PathCompDGID, true, func(at mad.Time, _ []ibsa.PathRecord,
			err error,
		) {
			if err == nil {
				p.at, p.took = append(p.at, now), append(p.took, at.Sub(now))
			}
		})
		p.n.alarm.Set()
		p.next()
	})
}

// p99 is the 99th percentile of the queries asked in [from, to).
func (p *prober) p99(from, to mad.Time) time.Duration {
	var list []time.Duration
	for i, t := range p.at {
		if t >= from && t < to {
			list = append(list, p.took[i])
		}
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)*99/100]
}

// run runs the migration.
func (x *crowd) run(seed uint64) error {
	net, err := crowdNet(x.clients)
	if err != nil {
		return err
	}
	cfg := rdsDefaults()
	cfg.caching, cfg.answer = x.caching, x.answer
	cfg.mad.Window, cfg.mad.MaxWindow = 1024, 1024
	v, err := newVMBed(net, cfg, seed, true)
	if err != nil {
		return err
	}
	v.asleep = x.caching == heddleAgent // it subscribes when it starts
	var clients []*rdsNode
	for i := range x.clients {
		n, err := v.newNode(v.hosts[2+i], "", x.caching != noCaching)
		if err != nil {
			return err
		}
		clients = append(clients, n)
	}
	inTurn := func(do func(n *rdsNode)) {
		for i, n := range clients {
			v.c.Sim.After(crowdStart*time.Duration(i)/time.Duration(x.clients), func() { do(n) })
		}
	}
	if v.asleep {
		v.asleep = false
		inTurn(func(n *rdsNode) { n.cache.Return() })
		v.c.Run(crowdStart + probeTime)
	}
	inTurn(func(n *rdsNode) { n.start(v.server) })
	p := &prober{dst: v.server, rng: rand.New(rand.NewPCG(seed, 99))}
	if p.n, err = v.newNode(v.hosts[1], "", false); err != nil {
		return err
	}
	linkedAll := func() bool {
		x.connected = 0
		for _, n := range clients {
			if linked(n, v.server) {
				x.connected++
			}
		}
		return x.connected == x.clients
	}
	v.c.Run(crowdStart)
	if err := v.c.RunUntil(settle, linkedAll); err != nil {
		return fmt.Errorf("%d of %d clients are connected: %w", x.connected, x.clients, err)
	}
	p.next()
	v.c.Run(probeTime)
	call := v.now()
	v.m.WatchSA(func(p *mad.Packet) {
		if ib.AttrID(p.Data[16])<<8|ib.AttrID(p.Data[17]) != ibsa.AttrPathRecord {
			x.other++
		}
	})
	if _, err := v.migrate(instants{1500 * time.Millisecond, backTime}); err != nil {
		return err
	}
	back := v.now()
	for v.now() < back.Add(crowdLimit) && !linkedAll() {
		v.c.Run(100 * time.Millisecond)
	}
	x.took = v.now().Sub(back)
	v.m.WatchSA(nil)
	x.count(append(clients, v.server), call)
	x.idle, x.busy = p.p99(call.Add(-probeTime), call), p.p99(call, call.Add(time.Second))
	return nil
}

// count counts what the nodes have asked since the detach was called.
func (x *crowd) count(nodes []*rdsNode, call mad.Time) {
	second := call.Add(time.Second)
	for _, n := range nodes {
		for _, t := range n.queries {
			switch {
			case t >= second:
				x.later++
			case t >= call:
				x.first++
			}
		}
		for _, t := range slices.Concat(n.queries, n.saved) {
			if t >= call && t < second {
				x.attempts++
			}
		}
	}
}
