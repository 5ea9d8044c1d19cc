package study

import (
	"cmp"
	"slices"
	"strings"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/traffic"
)

// Cost is what the loss of a cable costs, once routes are repaired.
type Cost struct {
	Cable string `json:"cable"`
	Host  bool   `json:"host"` // it leads to a host
	// CutOff are the hosts on the smaller side, if the cable was the only way.
	CutOff []string `json:"cut_off,omitempty"`
	// Shares is by max-min fair shares, Packets by packets, nil if not asked for.
	Shares  Loss  `json:"shares"`
	Packets *Loss `json:"packets,omitempty"`
}

// Loss is the cost by one of the models.
type Loss struct {
	// Cost is the share of the accepted traffic that is lost, or by which a
	// collective takes longer. It is negative if other routes suit the pattern
	// better.
	Cost     float64 `json:"cost"`
	Accepted float64 `json:"accepted"`
	Worst    float64 `json:"worst_share"`
	Lost     float64 `json:"lost"` // share of what is sent that has no route
	Seconds  float64 `json:"collective_seconds,omitempty"`
	P99      float64 `json:"latency_p99_us,omitempty"` // by packets
	// Senders is how many hosts get rid of noticeably less, in the mean over seeds;
	// Hit are those that lose most.
	Senders float64 `json:"senders_with_less"`
	Hit     []Hit   `json:"worst_hit,omitempty"`
	// Same says that nothing was simulated because no packet takes another way.
	Same bool `json:"unused,omitempty"`
	// Deadlocks is in how many seeds packets stood still.
	Deadlocks int `json:"deadlocks,omitempty"`
}

// Hit is what a sender gets before and after a loss, in Gb/s.
type Hit struct {
	Flow   string  `json:"flow"`
	Before float64 `json:"before_gbps"`
	After  float64 `json:"after_gbps"`
}

// shownHits is how many senders an answer lists for each cable.
const shownHits = 5

// noticed is the share of what a sender got, and at least how many packets, that
// must be gone for it to count.
const (
	noticed        = 0.02
	noticedPackets = 10
)

// best is the loss by packets, else by shares.
func (c *Cost) best() *Loss {
	if c.Packets != nil {
		return c.Packets
	}
	return &c.Shares
}

// sortCosts puts those first that packets were asked about, the dearest first, then
// the others by fair shares.
func sortCosts(list []Cost) {
	slices.SortStableFunc(list, func(a, b Cost) int {
		if x, y := a.Packets != nil, b.Packets != nil; x != y {
			if x {
				return -1
			}
			return 1
		}
		x, y := a.best(), b.best()
		return cmp.Or(cmp.Compare(y.Cost, x.Cost), cmp.Compare(x.Worst, y.Worst))
	})
}

// cutEach answers for the loss of each cable: by fair shares for all, then by packets
// for those of each kind that cost most.
func (r *runner) cutEach(s *state, e *Engine) error {
	q := r.q
	if len(e.last) == 0 {
		return nil // interrupted
	}
	x := &eachCut{runner: r, s: s, e: e, list: q.cables(), engines: q.engines(e.Name)}
	one := *q
	one.Flow = true
	one.Options.Workers = 1 // cables are asked in parallel
	before := e.last
	if !q.Flow {
		var err error
		if before, err = one.ask(r.ctx, s, x.load()); before == nil {
			return err
		}
	}
	x.costs, x.errs = make([]*Cost, len(x.list)), make([]error, len(x.list))
	x.shares(&one, before)
	if n := q.CutPackets; n != 0 && !q.Flow {
		one.Flow = false
		x.packets(&one, x.dearest(n))
	}
	for i, c := range x.costs {
		if x.errs[i] != nil {
			e.Unanswered = append(e.Unanswered, q.cableName(x.list[i])+": "+strings.TrimPrefix(x.errs[i].Error(), "study: "))
		}
		if c != nil {
			e.Costs = append(e.Costs, *c)
		}
	}
	e.Cables = len(x.list)
	sortCosts(e.Costs)
	return nil
}

// eachCut is the question of what each cable costs.
type eachCut struct {
	*runner
	s       *state
	e       *Engine
	list    []fabric.Ref
	engines []route.Engine
	costs   []*Cost // by cable, nil: interrupted, or errs
	errs    []error
}

func (x *eachCut) load() float64 { return x.q.Loads[len(x.q.Loads)-1] }

// shares asks for fair shares after the loss of each cable.
func (x *eachCut) shares(one *Question, before []*outcome) {
	q := x.q
	base := q.summary(x.load(), before)
	sent := newSenders(q, before)
	x.all(x.e.Name+", cables", len(x.list), func(i int, _ func(float64)) {
		after, _, err := one.without(x.s, x.engines, x.list[i:i+1])
		if err != nil {
			x.errs[i] = err
			return
		}
		outs, err := one.ask(x.ctx, after, x.load())
		if outs == nil {
			x.errs[i] = err
			return
		}
		at, peer := x.list[i], q.Fabric.Port(x.list[i]).Peer
		c := &Cost{
			Cable: q.cableName(at), CutOff: q.cutOff(after.g, at, peer),
			Host: !q.Fabric.Nodes[at.Node].IsSwitch() || !q.Fabric.Nodes[peer.Node].IsSwitch(),
		}
		c.Shares = q.loss(base, outs, sent, 0)
		x.costs[i] = c
	})
}

// dearest are the n cables of each kind that cost most by fair shares; below 0: all.
func (x *eachCut) dearest(n int) (out []int) {
	var kinds [2][]int
	for i, c := range x.costs {
		if c == nil {
			continue
		}
		k := 0
		if c.Host {
			k = 1
		}
		kinds[k] = append(kinds[k], i)
	}
	for _, list := range kinds {
		slices.SortStableFunc(list, func(a, b int) int {
			p, q := &x.costs[a].Shares, &x.costs[b].Shares
			return cmp.Or(cmp.Compare(q.Cost, p.Cost), cmp.Compare(p.Worst, q.Worst))
		})
		if n >= 0 {
			list = list[:min(n, len(list))]
		}
		out = append(out, list...)
	}
	return out
}

// packets asks for packets after the loss of some cables. Where no packet takes
// another way than before, the run would repeat the one before the loss.
func (x *eachCut) packets(one *Question, some []int) {
	q := x.q
	before := x.e.last
	base := q.summary(x.load(), before)
	sent := newSenders(q, before)
	least := noticedPackets * float64(q.Specs[0].Payload+overhead) * 8 /
		float64((q.Time - q.Packets.Warmup).Nanoseconds())
	x.e.Simulated = len(some)
	x.all(x.e.Name+", dearest cables by packets", len(some), func(k int, tell func(float64)) {
		i := some[k]
		after, _, err := one.without(x.s, x.engines, x.list[i:i+1])
		if err != nil {
			x.errs[i] = err
			return
		}
		if q.sameWays(x.s, after) {
			l := q.loss(base, before, sent, least)
			l.Same = true
			x.costs[i].Packets = &l
			return
		}
		outs, err := one.ask(x.ctx, after, x.load())
		if outs == nil {
			x.errs[i] = err
			return
		}
		l := q.loss(base, outs, sent, least)
		x.costs[i].Packets = &l
	})
}

// loss compares outcomes with those before a loss. A sender that loses less than
// least, in Gb/s, does not count.
func (q *Question) loss(base *Point, outs []*outcome, before *senders, least float64) Loss {
	p := q.summary(base.Load, outs)
	l := Loss{Cost: base.cost(p), Accepted: p.Accepted, Worst: p.Worst, Lost: p.Lost, Seconds: p.Seconds}
	if p.Packets != nil {
		l.P99, l.Deadlocks = p.Packets.P99, p.Packets.Deadlocks
		if p.Packets.Unfinished > 0 {
			l.Cost = 1 // a collective does not end
		}
	}
	after := newSenders(q, outs)
	for k := range after.gbps {
		for i, was := range before.gbps[k] {
			now := after.gbps[k][i]
			if was-now < noticed*was || was-now < least || was == 0 {
				continue
			}
			l.Senders += 1 / float64(len(outs))
			l.Hit = append(l.Hit, Hit{before.name(q, k, i), was, now})
		}
	}
	slices.SortStableFunc(l.Hit, func(a, b Hit) int { return cmp.Compare(b.Before-b.After, a.Before-a.After) })
	l.Hit = slices.Clip(l.Hit[:min(len(l.Hit), shownHits)])
	return l
}

// senders is what each host gets rid of with each pattern, by seed.
type senders struct {
	gbps [][]float64 // by seed, then by pattern and host
	flow [][]*flowRate
	many [][]int32 // destinations
}

func newSenders(q *Question, outs []*outcome) *senders {
	x := &senders{}
	n := len(q.hosts) * len(q.Specs)
	for _, o := range outs {
		gbps, flow, many := make([]float64, n), make([]*flowRate, n), make([]int32, n)
		for i := range o.flows {
			f := &o.flows[i]
			at := int(f.demand)*len(q.hosts) + int(f.src)
			gbps[at] += f.accepted
			flow[at] = f
			many[at] += max(f.dests, 1)
		}
		x.gbps, x.flow, x.many = append(x.gbps, gbps), append(x.flow, flow), append(x.many, many)
	}
	return x
}

// name is the sender with its destination, if there is one.
func (x *senders) name(q *Question, seed, i int) string {
	f := *x.flow[seed][i]
	if x.many[seed][i] > 1 {
		f.dst, f.dests = -1, x.many[seed][i]
	}
	return q.flowName(&f)
}

// cutOff names the hosts of the smaller side, if nothing connects the two ends of
// a cable that is lost.
func (q *Question) cutOff(g *fabric.Graph, a, b fabric.Ref) (names []string) {
	for _, r := range []fabric.Ref{a, b} {
		if q.Fabric.Nodes[r.Node].IsSwitch() {
			continue
		}
		for h := range q.hosts {
			if q.hosts[h].Port == r {
				names = append(names, q.hosts[h].Name)
			}
		}
		return names
	}
	sw := q.Fabric.SwitchNodes()
	from, to := int32(slices.Index(sw, a.Node)), int32(slices.Index(sw, b.Node))
	near := reach(g, from, to)
	if near == nil {
		return nil
	}
	var sides [2][]string
	for h := range q.hosts {
		if near[q.hosts[h].Switch] {
			sides[0] = append(sides[0], q.hosts[h].Name)
		} else {
			sides[1] = append(sides[1], q.hosts[h].Name)
		}
	}
	if len(sides[0]) < len(sides[1]) {
		return sides[0]
	}
	return sides[1]
}

// reach are the switches on the side of from, nil if to is one of them.
func reach(g *fabric.Graph, from, to int32) []bool {
	seen := make([]bool, len(g.Switches))
	seen[from] = true
	for queue := []int32{from}; len(queue) > 0; queue = queue[1:] {
		for _, c := range g.PortChannel[queue[0]] {
			if c < 0 {
				continue
			}
			n := g.Channels[c].To
			if n == to {
				return nil
			}
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return seen
}

// sameWays reports whether all packets of all seeds take the same ports and lanes
// in two states: then cables that only one of them has carry nothing.
func (q *Question) sameWays(a, b *state) bool {
	known := map[[2]int32]bool{} // switch and host: same
	same := func(src, dst int32) bool {
		k := [2]int32{q.hosts[src].Switch, dst}
		if q.gone(b, src) || q.gone(b, dst) {
			return false
		}
		v, ok := known[k]
		if !ok {
			v = q.sameWay(a, b, &q.hosts[src], &q.hosts[dst])
			known[k] = v
		}
		return v
	}
	for i := range q.Seeds {
		demands, err := q.demands(q.First + uint64(i))
		if err != nil {
			return false
		}
		for _, d := range demands {
			if d.Members != nil {
				return false // trees are not compared
			}
			for pair := range d.EachPair {
				if !same(pair[0], pair[1]) {
					return false
				}
			}
		}
	}
	return true
}

// gone reports whether a host has no link in a state.
func (q *Question) gone(s *state, h int32) bool {
	l := q.hosts[h].LID
	return int(l) >= len(s.g.LIDOwner) || s.g.LIDOwner[l] == fabric.NoLID
}

// sameWay compares the ways from a host to another, with lanes.
func (q *Question) sameWay(a, b *state, src, dst *traffic.Host) bool {
	sl := a.t.PathSL(src.Switch, dst.LID)
	if sl != b.t.PathSL(src.Switch, dst.LID) {
		return false
	}
	in := q.Fabric.Port(src.Port).Peer.Port
	at := src.Switch
	for range len(a.g.Switches) + 1 {
		out := a.t.Entry(at, dst.LID)
		if out != b.t.Entry(at, dst.LID) {
			return false
		}
		if out == route.Drop || out == 0 || int(out) >= len(a.g.PortChannel[at]) {
			return true
		}
		vls := uint8(q.VLs)
		for _, spec := range q.Specs {
			x := sl
			if spec.SL >= 0 {
				x = ib.SL(spec.SL)
			}
			if a.t.VL(at, in, out, x, vls) != b.t.VL(at, in, out, x, vls) {
				return false
			}
		}
		c := a.g.PortChannel[at][out]
		if d := b.g.PortChannel[at][out]; (c < 0) != (d < 0) {
			return false // one of them has lost the cable
		}
		if c < 0 {
			return true
		}
		at, in = a.g.Channels[c].To, a.g.Channels[c].InPort
	}
	return true
}
