package congestion

import (
	"fmt"
	"math/rand/v2"

	"heddle/lab/experiment/bed"
	"heddle/sim/dataplane"
)

// The mix of Figure 10 of Paper III: each host sends 5 % of its packets to the hot spot of
// its part, the rest to others. With LaneQueue the packets of a lane wait behind each
// other at the host, as in the thesis, and congestion control slows a service level. With
// DestQueue a host has a queue pair for each destination, which take turns, and it slows a
// queue pair.

// mixRun is one run.
type mixRun struct {
	tree   bed.Tree
	scheme scheme
	spots  int
	input  dataplane.Queueing
	queue  dataplane.Sharing
}

// mixResult is what it gave, as shares of a cable.
type mixResult struct {
	mean, worst float64 // of hosts that are no hot spot: what they deliver
	hot         float64 // of the cables of hot spots: what comes to them
	fair        float64 // Jain's index of what the hosts of a hot spot bring there; the mean
}

// partners is how many destinations a host of a larger tree has.
const partners = 64

// warm and window are in packet times. With congestion control a sender of n gets one
// notification in n of them.
func (m *mixRun) warm() int {
	if m.scheme.cc {
		return max(4000, 40*m.tree.Hosts/m.spots)
	}
	return 4000
}

const mixWindow = 3000

func (m *mixRun) run(seed uint64) (*mixResult, error) {
	b, err := m.scheme.up(&m.tree, m.spots, seed, m.input, m.queue == dataplane.LaneQueue)
	if err != nil {
		return nil, err
	}
	if err := m.offer(b, seed); err != nil {
		return nil, err
	}
	n := m.tree.Hosts
	got := make([]float64, n)
	b.Engine.SetHooks(dataplane.Hooks{OnDeliver: func(d *dataplane.Delivery) {
		if d.Host == m.tree.Hot(d.Stream, m.spots) {
			got[d.Stream]++
		}
	}})
	slot := bed.TreeSlot()
	b.Measure((slot * dataplane.Time(m.warm())).Duration())
	clear(got)
	b.Measure((slot * mixWindow).Duration())
	r := &mixResult{worst: 1}
	part := make([][]float64, m.spots)
	for h := range n {
		k := m.tree.Hot(h, m.spots)
		if h == k {
			continue
		}
		v := float64(b.Engine.Flow(h).Delivered) / mixWindow
		r.mean += v / float64(n-m.spots)
		r.worst = min(r.worst, v)
		part[h*m.spots/n] = append(part[h*m.spots/n], got[h])
		r.hot += got[h] / mixWindow / float64(m.spots)
	}
	for _, x := range part {
		r.fair += jain(x) / float64(m.spots)
	}
	return r, b.Engine.Check()
}

// offer starts the streams; that of host h is stream h. Hosts of trees above 648 have
// partners at the same distances, so that all hosts but hot spots are equally sought.
func (m *mixRun) offer(b *bed.Data, seed uint64) error {
	if m.tree.Hosts <= 648 {
		return m.tree.Offer(b, m.spots, m.queue)
	}
	n := m.tree.Hosts
	away := rand.New(rand.NewPCG(seed, 0x706172746e657273)).Perm(n - 1)[:partners]
	for h := range n {
		var among []int
		for _, d := range away {
			among = append(among, (h+d+1)%n)
		}
		s := dataplane.Stream{
			Src: h, To: dataplane.ToAmong(among), Bytes: bed.Bytes, Arrival: dataplane.Constant, Gap: bed.TreeSlot(),
			Queue: m.queue,
		}
		if hot := m.tree.Hot(h, m.spots); hot != h {
			s.To = s.To.Mixed(m.tree.Share, hot)
		}
		if _, err := b.Engine.AddStream(s); err != nil {
			return fmt.Errorf("host %d: %w", h, err)
		}
	}
	return nil
}
