package experiment

import (
	"fmt"
	"math/rand/v2"
	"time"

	"heddle/fabric"
	"heddle/lab/experiment/bed"
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/vftree"
	"heddle/sim/dataplane"
)

// Patterns of b_eff beside a hot spot (Tables I and II of Paper III): messages of
// all hosts in rings, and ping-pong of two.

const (
	ringPackets = 32 // of a message: 64 KiB
	pingBytes   = 8 + dataplane.OverheadRC
	ringLimit   = 50 * time.Millisecond // longest step
)

// ringTable is one of the two tables.
type ringTable struct {
	title    string
	fabric   func() (*fabric.Fabric, error)
	flows    []bed.Flow // to the hot spot
	fixed    float64
	bw, lat  string  // published gains
	wantBW   float64 // the criteria: of vFtree to ftree
	wantLate float64
	check    string
}

// fixed is the least ping-pong latency that is published, in µs: what software and
// adapters take for a message besides the network.
var ringTables = []ringTable{
	{
		"Tree of two hosts a leaf (Table I)", func() (*fabric.Fabric, error) { return bed.LeafFabric(2) },
		[]bed.Flow{{1, 5}, {3, 5}, {6, 5}},
		2.116, "+32.17 %", "−41.14 %", 1.32, 0.59, "P3.8",
	},
	{
		"Tree of four hosts a leaf, 2:1 (Table II)", func() (*fabric.Fabric, error) { return bed.LeafFabric(4) },
		[]bed.Flow{{1, 9}, {6, 9}, {10, 9}},
		2.176, "+39.52 %", "−38.17 %", 1.39, 0.62, "P3.9",
	},
}

// ringResult is what was measured with one engine.
type ringResult struct {
	natural, random float64 // MB/s of a host, sent, in the mean of all steps
	ping            float64 // mean latency of a message, µs, the fixed cost included
	least, most     float64
}

// rings measures a table: with ftree, then with vFtree.
func (x *ringTable) rings(seed uint64, patterns int) (r [2]ringResult, err error) {
	for k, e := range []route.Engine{ftree.Engine{}, vftree.Engine{Lanes: 3}} {
		lanes := 1 + 2*k
		run := bed.Run{Fabric: x.fabric, Engine: e, Lanes: lanes, Flows: x.flows, Buffers: bed.Wide()}
		b, err := run.Start(seed)
		if err != nil {
			return r, err
		}
		b.Run(bed.Warm)
		m, err := newMessages(b)
		if err != nil {
			return r, err
		}
		if err := m.fill(&r[k], seed, patterns, x.fixed); err != nil {
			return r, fmt.Errorf("%s: %w", e.Name(), err)
		}
		if err := b.Engine.Check(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// messages are streams between all hosts that send what is ordered.
type messages struct {
	b       *bed.Data
	bulk    [][]int // streams by source and destination
	ping    [][]int
	waiting int // packets of the present step
	latest  dataplane.Time
}

func newMessages(b *bed.Data) (*messages, error) {
	m := &messages{b: b}
	n := b.Engine.NumHosts()
	first := b.Engine.NumStreams()
	for _, kind := range []struct {
		to    *[][]int
		bytes int
	}{{&m.bulk, bed.Bytes}, {&m.ping, pingBytes}} {
		*kind.to = make([][]int, n)
		for src := range n {
			(*kind.to)[src] = make([]int, n)
			for dst := range n {
				if src == dst {
					continue
				}
				s, err := b.Engine.AddStream(dataplane.Stream{
					Src: src, To: dataplane.To(dst), Bytes: kind.bytes,
					Arrival: dataplane.Posted,
				})
				if err != nil {
					return nil, err
				}
				(*kind.to)[src][dst] = s
			}
		}
	}
	b.Engine.SetHooks(dataplane.Hooks{OnDeliver: func(d *dataplane.Delivery) {
		if d.Stream >= first {
			m.waiting--
			m.latest = d.At
		}
	}})
	return m, nil
}

// step orders packets of some streams and returns the time until all are there.
func (m *messages) step(streams []int, packets int) (time.Duration, error) {
	e := m.b.Cluster.Sim.Data()
	m.waiting = len(streams) * packets
	began := e.Now()
	for _, s := range streams {
		e.Post(s, uint64(packets))
	}
	for end := began + dataplane.FromDuration(ringLimit); m.waiting > 0; {
		if m.b.Run(5 * time.Microsecond); e.Now() > end {
			return 0, fmt.Errorf("%d packets of a step are not there after %v", m.waiting, ringLimit)
		}
	}
	return (m.latest - began).Duration(), nil
}

// ring is a step in which each host sends to its neighbors in a ring. It returns
// the rate of a host in MB/s.
func (m *messages) ring(order []int) (float64, error) {
	var streams []int
	n := len(order)
	for i, h := range order {
		streams = append(streams, m.bulk[h][order[(i+1)%n]], m.bulk[h][order[(i+n-1)%n]])
	}
	d, err := m.step(streams, ringPackets)
	return 2 * ringPackets * bed.Payload / (float64(d.Nanoseconds()) / 1000), err
}

// fill measures: rings in natural and in random order, and ping-pong of all pairs.
func (m *messages) fill(r *ringResult, seed uint64, patterns int, fixed float64) error {
	n := len(m.bulk)
	rng := rand.New(rand.NewPCG(seed, 0x72696e67))
	natural := make([]int, n)
	for i := range natural {
		natural[i] = i
	}
	for range patterns {
		for _, x := range []struct {
			order []int
			sum   *float64
		}{{natural, &r.natural}, {rng.Perm(n), &r.random}} {
			v, err := m.ring(x.order)
			if err != nil {
				return err
			}
			*x.sum += v / float64(patterns)
		}
	}
	const repeats = 4
	k := 0.0
	for range repeats {
		for a := range n {
			for b := range a {
				there, err := m.step([]int{m.ping[a][b]}, 1)
				if err != nil {
					return err
				}
				back, err := m.step([]int{m.ping[b][a]}, 1)
				if err != nil {
					return err
				}
				us := float64((there+back).Nanoseconds())/2000 + fixed
				if k == 0 || us < r.least {
					r.least = us
				}
				r.most = max(r.most, us)
				r.ping += us
				k++
			}
		}
	}
	r.ping /= k
	return nil
}
