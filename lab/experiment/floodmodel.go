package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	eventheap "heddle/internal/heap"

	"heddle/lab/experiment/bed"
)

// floodHost is a flooder of the paper's Table II: what a query costs of its processor.
type floodHost struct {
	name  string
	cores int
	cpu   time.Duration
}

// The flooders, with a processor time that gives their published rates: 440/s of the SIF
// are 2.27 ms, of which 0.27 ms are the answer's; 2,100/s are 8 cores, 1,150/s are 4.
var (
	floodSIF    = floodHost{"SIF", 1, 2 * time.Millisecond}
	floodServer = floodHost{"MIF1 to MIF4", 8, 3800 * time.Microsecond}
	floodVM     = floodHost{"MIF5", 4, 3478 * time.Microsecond}
)

// paperAnswer is the time of the paper's SA for a query: 1/6,561 s.
const paperAnswer = 152 * time.Microsecond

// mifs are the flooders besides the SIF.
func mifs(n int) (list []floodHost) {
	for i := range n {
		if i == 4 {
			list = append(list, floodVM)
		} else {
			list = append(list, floodServer)
		}
	}
	return list
}

// floodModel is Algorithm 1 on a model: instances wait for a core of their host, use it,
// and wait for the SA, which answers one query after the other.
type floodModel struct {
	hosts  []modelHost
	answer time.Duration
	rng    *rand.Rand
	now    time.Duration
	seq    uint64
	events eventheap.Heap[time.Duration, modelEvent]
	free   time.Duration // when the SA has answered all that it has
	took   []time.Duration
	asked  time.Duration // by the SIF
}

type modelHost struct {
	floodHost
	busy, ready int // cores at work, instances that wait for one
	answered    int
}

type modelEvent struct {
	host   int
	answer bool // an answer comes; otherwise a core is done
}

func newFloodModel(answer time.Duration, seed uint64, hosts ...floodHost) *floodModel {
	m := &floodModel{answer: answer, rng: rand.New(rand.NewPCG(seed, 0x666C6F6F64))}
	for _, h := range hosts {
		m.hosts = append(m.hosts, modelHost{floodHost: h})
	}
	return m
}

func (m *floodModel) push(at time.Duration, e modelEvent) {
	m.seq++
	m.events.Push(at, m.seq, e)
}

// work gives cores to instances that wait. The time on a core is drawn from half of the mean
// to one and a half.
func (m *floodModel) work(i int) {
	h := &m.hosts[i]
	for h.ready > 0 && h.busy < h.cores {
		h.ready--
		h.busy++
		m.push(m.now+time.Duration((0.5+m.rng.Float64())*float64(h.cpu)), modelEvent{host: i})
	}
}

// run runs until a time.
func (m *floodModel) run(until time.Duration) {
	for m.events.Len() > 0 && m.events.Min().Key <= until {
		x := m.events.Pop()
		m.now = x.Key
		e := x.Value
		h := &m.hosts[e.host]
		if e.answer {
			h.answered++
			h.ready++
			if e.host == 0 {
				m.took = append(m.took, m.now-m.asked)
			}
		} else {
			h.busy--
			m.free = max(m.free, m.now) + m.answer
			m.push(m.free, modelEvent{e.host, true})
			if e.host == 0 {
				m.asked = m.now
			}
		}
		m.work(e.host)
	}
	m.now = until
}

// modelRound are the figures of a round.
type modelRound struct {
	total, sif        float64 // queries a second
	mean, median, dev float64 // response times of the SIF, in ms
}

// algorithm1 runs rounds of a time each, with so many more instances a round on each MIF,
// and returns the first round and the last. A settling time before each round counts to none.
func (m *floodModel) algorithm1(rounds, instances int, each time.Duration) (first, last modelRound) {
	for r := range rounds {
		for i := range m.hosts {
			switch {
			case i == 0 && r == 0:
				m.hosts[0].ready++
			case i > 0 && r > 0:
				m.hosts[i].ready += instances
			}
			m.work(i)
		}
		m.run(m.now + each/4)
		for i := range m.hosts {
			m.hosts[i].answered = 0
		}
		m.took = m.took[:0]
		m.run(m.now + each)
		last = m.figures(each)
		if r == 0 {
			first = last
		}
	}
	return first, last
}

func (m *floodModel) figures(each time.Duration) (r modelRound) {
	for i := range m.hosts {
		r.total += float64(m.hosts[i].answered) / each.Seconds()
	}
	r.sif = float64(m.hosts[0].answered) / each.Seconds()
	if len(m.took) == 0 {
		return r
	}
	var list []float64
	for _, d := range m.took {
		list = append(list, ms(d))
	}
	slices.Sort(list)
	r.mean, r.median, r.dev = bed.Average(list), list[len(list)/2], deviation(list)
	return r
}

// alone is what a host can ask an SA that takes no time, with so many instances.
func (h floodHost) alone(instances int, seed uint64) float64 {
	const each = 20 * time.Second
	m := newFloodModel(0, seed, h)
	m.hosts[0].ready = instances
	m.work(0)
	m.run(each)
	return float64(m.hosts[0].answered) / each.Seconds()
}

// deviation is the standard deviation.
func deviation(x []float64) float64 {
	mean, sum := bed.Average(x), 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(max(len(x), 1)))
}
