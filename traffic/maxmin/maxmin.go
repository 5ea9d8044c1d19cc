// Package maxmin finds the rates that flows get on routed paths if every channel
// is shared fairly: max-min fair shares, by progressive filling (D. Bertsekas,
// R. Gallager, "Data Networks", 1992, §6.5.2). It answers in milliseconds, and
// serves as the oracle for packets.
//
//	n := maxmin.NewNet(g, hosts, rates)
//	r, err := n.Rates(tables, load, demands…)
//
// # Model
//
// A flow is what waits in one queue of a host: its packets keep their proportions,
// so if one of its destinations is slow, the others are as slow. The source model
// of a pattern says what is one flow (traffic.Queue): a queue for each
// destination makes a flow of each pair, a queue for each lane makes one of all
// destinations with the same lane, one queue for each host makes one flow. All
// flows grow at the same rate until a channel on their path is full, or until
// they have what they offer.
//
// # Limits
//
// It is blind to everything that packets do in buffers: head-of-line blocking in
// switches (uniform traffic gets 1.0 here, 0.58 with FIFO inputs), latency,
// credits and buffer sizes, lanes in the network, arbitration weights, deadlock,
// and the time until a hot spot has filled the tree behind it. For one flow of
// each host on a fat tree it is exact, because no packet waits behind another
// flow's there.
package maxmin

import (
	"math"

	"heddle/internal/heap"
)

// Problem is a set of flows over channels.
type Problem struct {
	Capacity []float64 // by channel, above 0 (0 for channels without flows)
	// Demand is the most that a flow takes, in units of Capacity.
	Demand []float64
	// Flow f uses the channels Channel[Off[f]:Off[f+1]], each at Weight times its
	// rate. Weights are above 0; a channel appears at most once in a flow.
	Off     []int32
	Channel []int32
	Weight  []float64
}

// Add appends a flow.
func (p *Problem) Add(demand float64, channels []int32, weights []float64) {
	if len(p.Off) == 0 {
		p.Off = append(p.Off, 0)
	}
	p.Demand = append(p.Demand, demand)
	p.Channel = append(p.Channel, channels...)
	p.Weight = append(p.Weight, weights...)
	p.Off = append(p.Off, int32(len(p.Channel)))
}

// tolerance is how far two levels may be apart, relative to their size, that are
// equal but for rounding.
const tolerance = 1e-9

// solver is progressive filling: the level of all flows that are not settled
// rises; the channel or demand with the lowest level settles its flows.
type solver struct {
	p       *Problem
	off     []int32 // by channel: its flows
	flow    []int32
	left    []float64 // by channel: capacity without settled flows
	load    []float64 // by channel: weights of flows that are not settled
	open    []int32   // by channel: number of them
	settled []bool
	rate    []float64
	queue   heap.Heap[uint64, int32] // channels by level, and flows by demand: ^index
}

// Solve returns the rate of each flow. Complexity O(E log E) for E entries of
// Channel; usually far less.
func (p *Problem) Solve() []float64 {
	s := &solver{
		p: p, rate: make([]float64, len(p.Demand)), settled: make([]bool, len(p.Demand)),
		left: append([]float64(nil), p.Capacity...), load: make([]float64, len(p.Capacity)),
		open: make([]int32, len(p.Capacity)),
	}
	s.invert()
	for c := range s.load {
		if s.open[c] > 0 {
			s.queue.Push(key(s.level(int32(c))), uint64(c), int32(c))
		}
	}
	for f, d := range p.Demand {
		if d <= 0 {
			s.settled[f] = true
			s.remove(int32(f))
		} else if !math.IsInf(d, 1) {
			s.queue.Push(key(d), uint64(len(s.load)+f), ^int32(f))
		}
	}
	for s.queue.Len() > 0 {
		top := s.queue.Pop()
		if f := ^top.Value; f >= 0 {
			if !s.settled[f] {
				s.settle(f, p.Demand[f])
			}
			continue
		}
		c := top.Value
		if s.open[c] == 0 {
			continue
		}
		level := s.level(c)
		if was := math.Float64frombits(top.Key); level > was*(1+tolerance) {
			s.queue.Push(key(level), uint64(c), c) // flows have left it since
			continue
		}
		for i := s.off[c]; i < s.off[c+1]; i++ {
			if f := s.flow[i]; !s.settled[f] {
				s.settle(f, min(level, p.Demand[f]))
			}
		}
	}
	return s.rate
}

// key orders levels, which are not negative, like numbers.
func key(level float64) uint64 { return math.Float64bits(level) }

// level is the rate at which the flows of a channel fill it.
func (s *solver) level(c int32) float64 { return max(s.left[c], 0) / s.load[c] }

// settle fixes the rate of a flow.
func (s *solver) settle(f int32, rate float64) {
	s.settled[f] = true
	s.rate[f] = rate
	s.remove(f)
}

// remove takes a settled flow from its channels.
func (s *solver) remove(f int32) {
	for i := s.p.Off[f]; i < s.p.Off[f+1]; i++ {
		c, w := s.p.Channel[i], s.p.Weight[i]
		s.left[c] -= w * s.rate[f]
		s.load[c] -= w
		s.open[c]--
	}
}

// invert lists the flows of each channel.
func (s *solver) invert() {
	p := s.p
	s.off = make([]int32, len(p.Capacity)+1)
	for _, c := range p.Channel {
		s.off[c+1]++
	}
	for c := range p.Capacity {
		s.open[c] = s.off[c+1]
		s.off[c+1] += s.off[c]
	}
	at := append([]int32(nil), s.off...)
	s.flow = make([]int32, len(p.Channel))
	for f := range p.Demand {
		for i := p.Off[f]; i < p.Off[f+1]; i++ {
			c := p.Channel[i]
			s.flow[at[c]] = int32(f)
			at[c]++
			s.load[c] += p.Weight[i]
		}
	}
}
