package check

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Pattern is a family of communication patterns. In each round every end port
// sends to at most one other and receives from at most one, so a host's link
// carries at most one flow in each direction.
type Pattern uint8

const (
	// Shift rounds send from port i to port i+k, for round k, in port order: the
	// pattern of all-to-all algorithms (E. Zahavi et al., "Optimized InfiniBand
	// fat-tree routing for shift all-to-all communication patterns", 2010).
	Shift Pattern = iota
	// Permutation rounds are random permutations; a port that draws itself is
	// idle.
	Permutation
	// Bisect rounds split the ports at random into halves, and each of one half
	// sends to one of the other. The mean share of their flows is the effective
	// bisection bandwidth (T. Hoefler, T. Schneider, A. Lumsdaine, "Multistage
	// switches are not crossbars", 2008).
	Bisect
)

// PatternOptions of PatternLoad.
type PatternOptions struct {
	Workers int // parallelism, 0 = 1; the result is the same for any number
	// Rounds is the number of rounds to evaluate; 0: every shift, or 100 random
	// rounds. A smaller number of shifts is drawn without repetition.
	Rounds int
	Seed   uint64
	// Order are the ports, as indices in Graph.EndPorts; nil: every CA and
	// router port that has a LID and hangs on a switch, in the order of switches
	// and of their ports.
	Order []int32
}

// PatternResult reports how a pattern's flows share the channels between
// switches.
type PatternResult struct {
	Rounds      int
	Flows       int64   // of all rounds
	Lost        int64   // flows that do not arrive; they load nothing
	MaxLoad     int     // most flows over one channel in any round
	MeanMaxLoad float64 // mean over rounds of the fullest channel's flows
	// MeanShare is the mean over rounds and flows of 1/(flows on the fullest
	// channel of the flow's path): 1 for a flow that shares no channel, 0 for a
	// lost one.
	MeanShare float64
}

// PatternLoad finds the loads of a communication pattern by the tables t. Flows
// go to the base LID of their port, and entries may be wrong or missing.
//
// Complexity O(rounds × ports × hops).
func PatternLoad(g *fabric.Graph, t *route.Tables, p Pattern, o PatternOptions) PatternResult {
	if m := malformed(g, t); m != "" {
		return PatternResult{}
	}
	f := &flows{j: newVerifier(g, t, Options{}), ports: o.Order}
	if f.ports == nil {
		f.ports = hosts(g)
	}
	n := len(f.ports)
	if n < 2 {
		return PatternResult{}
	}
	rounds, shifts := o.Rounds, []int(nil)
	if p == Shift {
		shifts = make([]int, n-1)
		for k := range shifts {
			shifts[k] = k + 1
		}
		if rounds > 0 && rounds < n-1 {
			r := rand.New(rand.NewPCG(o.Seed, 0))
			r.Shuffle(n-1, func(i, k int) { shifts[i], shifts[k] = shifts[k], shifts[i] })
			shifts = shifts[:rounds]
		}
		rounds = len(shifts)
	} else if rounds <= 0 {
		rounds = 100
	}
	out := make([]round, rounds)
	ws := make([]*flowScratch, max(o.Workers, 1))
	route.ForEach(len(ws), rounds, func(w, k int) {
		if ws[w] == nil {
			ws[w] = &flowScratch{load: make([]int32, len(g.Channels)), peer: make([]int32, n)}
		}
		s := ws[w]
		if p == Shift {
			for i := range s.peer {
				s.peer[i] = int32((i + shifts[k]) % n)
			}
		} else {
			s.draw(p, rand.New(rand.NewPCG(o.Seed, uint64(k)+1)))
		}
		out[k] = f.round(s)
	})
	res := PatternResult{Rounds: rounds}
	sumMax, sumShare := int64(0), 0.0
	for _, r := range out {
		res.Flows += r.flows
		res.Lost += r.lost
		res.MaxLoad = max(res.MaxLoad, int(r.most))
		sumMax += int64(r.most)
		sumShare += r.share
	}
	res.MeanMaxLoad = float64(sumMax) / float64(rounds)
	if res.Flows > 0 {
		res.MeanShare = sumShare / float64(res.Flows)
	}
	return res
}

// hosts lists the CA and router ports by switch and port.
func hosts(g *fabric.Graph) (out []int32) {
	for e := range g.EndPorts {
		if p := &g.EndPorts[e]; p.Switch >= 0 && p.Type != ib.NodeSwitch && p.LID != 0 {
			out = append(out, int32(e))
		}
	}
	slices.SortFunc(out, func(a, b int32) int {
		p, q := &g.EndPorts[a], &g.EndPorts[b]
		return cmp.Or(cmp.Compare(p.Switch, q.Switch), cmp.Compare(p.Port, q.Port))
	})
	return out
}

type flows struct {
	j     *verifier
	ports []int32
}

// round is the result of one round.
type round struct {
	flows, lost int64
	most        int32
	share       float64 // sum over flows
}

type flowScratch struct {
	load []int32 // by channel
	peer []int32 // by position in ports: the receiver; itself: none
	path []int32 // channels of all flows
	ends []int32 // where each flow's end in path; -1: lost
}

// draw makes a random round.
func (s *flowScratch) draw(p Pattern, r *rand.Rand) {
	for i := range s.peer {
		s.peer[i] = int32(i)
	}
	r.Shuffle(len(s.peer), func(i, k int) { s.peer[i], s.peer[k] = s.peer[k], s.peer[i] })
	if p != Bisect {
		return
	}
	half := len(s.peer) / 2
	order := slices.Clone(s.peer)
	for i := range s.peer {
		s.peer[i] = int32(i)
	}
	for i := range half {
		s.peer[order[i]] = order[half+i]
	}
}

// round walks the flows of a round, then computes the share of each.
func (f *flows) round(s *flowScratch) (r round) {
	j := f.j
	clear(s.load)
	s.path, s.ends = s.path[:0], s.ends[:0]
	for i, to := range s.peer {
		if int(to) == i {
			continue
		}
		r.flows++
		begin := len(s.path)
		dst := &j.g.EndPorts[f.ports[to]]
		l := int(dst.LID)
		at := j.g.EndPorts[f.ports[i]].Switch
		ok := false
		for range j.n + 1 {
			if at == dst.Switch {
				ok = j.effective(at, l) == dst.Port
				break
			}
			c := j.channel(at, l)
			if c < 0 {
				break
			}
			s.path = append(s.path, c)
			at = j.to[c]
		}
		if !ok {
			s.path = s.path[:begin]
			s.ends = append(s.ends, -1)
			r.lost++
			continue
		}
		s.ends = append(s.ends, int32(len(s.path)))
		for _, c := range s.path[begin:] {
			s.load[c]++
			r.most = max(r.most, s.load[c])
		}
	}
	begin := int32(0)
	for _, end := range s.ends {
		if end < 0 {
			continue
		}
		most := int32(1)
		for _, c := range s.path[begin:end] {
			most = max(most, s.load[c])
		}
		r.share += 1 / float64(most)
		begin = end
	}
	return r
}
