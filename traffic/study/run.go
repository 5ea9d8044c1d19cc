package study

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"heddle/route"
	"heddle/traffic/maxmin"
)

// runner answers for one engine.
type runner struct {
	q        *Question
	ctx      context.Context
	progress Progress
	what     string
}

// all calls fn for 0 to n-1 on the workers, unless the context ends, and reports
// progress. A call may tell the share of its work that is done.
func (r *runner) all(what string, n int, fn func(i int, tell func(share float64))) {
	var mu sync.Mutex
	done := 0.0
	r.progress(what, 0)
	route.ForEach(max(r.q.Options.Workers, 1), n, func(_, i int) {
		if r.ctx.Err() != nil {
			return
		}
		told := 0.0
		tell := func(share float64) {
			mu.Lock()
			defer mu.Unlock()
			done += share - told
			told = share
			r.progress(what, done/float64(n))
		}
		fn(i, tell)
		tell(1)
	})
}

// flowRate is what a flow gets: means over the run in Gb/s.
type flowRate struct {
	demand, src, dst, dests int32
	offered, accepted       float64
	lost                    float64 // share of its packets without a route
}

// outcome is the result of one seed.
type outcome struct {
	flows []flowRate
	// By channel of maxmin.Net: Gb/s that flow and that are asked for, and the share
	// of time in which a packet waited.
	used, asked, wait []float64
	net               *maxmin.Net
	seconds, ideal    float64 // of a collective
	series            *series
	packets           *packetOutcome
	lanes             [][]uint64 // packets by channel and lane
}

// points answers for all loads and seeds.
func (r *runner) points(s *state, e *Engine) error {
	q := r.q
	net := maxmin.Fabric(q.Fabric, s.g, q.hosts)
	for at, load := range q.Loads {
		outs := make([]*outcome, q.Seeds)
		errs := make([]error, q.Seeds)
		what := r.what
		if len(q.Loads) > 1 {
			what = fmt.Sprintf("%s, load %g", what, load)
		}
		r.all(what, q.Seeds, func(i int, tell func(float64)) {
			outs[i], errs[i] = q.one(r.ctx, s, net, load, q.First+uint64(i), tell)
		})
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		outs = slices.DeleteFunc(outs, func(o *outcome) bool { return o == nil })
		if len(outs) == 0 {
			return nil // interrupted
		}
		e.Points = append(e.Points, q.summary(load, outs))
		if at == len(q.Loads)-1 {
			q.heat(e, outs)
			e.series, e.last = outs[0].series, outs
		}
	}
	return nil
}

// ask answers for one load with all seeds, one after the other; nil: interrupted.
func (q *Question) ask(ctx context.Context, s *state, load float64) ([]*outcome, error) {
	net := maxmin.Fabric(q.Fabric, s.g, q.hosts)
	var outs []*outcome
	for i := range q.Seeds {
		if ctx.Err() != nil {
			return nil, nil
		}
		o, err := q.one(ctx, s, net, load, q.First+uint64(i), func(float64) {})
		if err != nil || o == nil {
			return nil, err
		}
		outs = append(outs, o)
	}
	return outs, nil
}

// one answers for one load and seed.
func (q *Question) one(
	ctx context.Context, s *state, net *maxmin.Net, load float64, seed uint64, tell func(share float64),
) (*outcome, error) {
	demands, err := q.demands(seed)
	if err != nil {
		return nil, err
	}
	if q.Flow {
		return q.flowRates(s, net, demands, load)
	}
	r := &packetRun{q: q, s: s, net: net, load: load, tell: tell, sw: q.Fabric.SwitchNodes()}
	if err := r.build(seed, demands); err != nil {
		return nil, err
	}
	return r.run(ctx)
}

// summary is the mean over seeds.
func (q *Question) summary(load float64, outs []*outcome) *Point {
	p := &Point{Load: load, Seeds: len(outs), Worst: math.Inf(1), Least: math.Inf(1)}
	k := float64(len(outs))
	for _, o := range outs {
		links, offered, accepted, lost := 0.0, 0.0, 0.0, 0.0
		sum, squares, n := 0.0, 0.0, 0
		sends := make([]bool, len(q.hosts))
		for i := range o.flows {
			f := &o.flows[i]
			if !sends[f.src] {
				sends[f.src] = true
				links += q.hosts[f.src].Gbps
			}
			offered += f.offered
			accepted += f.accepted
			lost += f.offered * f.lost
			if f.offered == 0 {
				continue
			}
			x := min(f.accepted/f.offered, 1)
			sum, squares, n = sum+x, squares+x*x, n+1
			if x < p.Worst {
				p.Worst, p.WorstFlow = x, q.flowName(f)
			}
		}
		if links == 0 || n == 0 {
			continue
		}
		p.Offered += offered / links / k
		p.Accepted += accepted / links / k
		p.Gbps += accepted / k
		p.Lost += lost / offered / k
		p.Least, p.Most = min(p.Least, accepted/links), max(p.Most, accepted/links)
		if squares > 0 {
			p.Jain += sum * sum / (float64(n) * squares) / k
		}
		p.Seconds += o.seconds / k
		p.Ideal += o.ideal / k
	}
	if math.IsInf(p.Worst, 1) {
		p.Worst, p.Least = 0, 0
	}
	p.Packets = packetSummary(outs)
	return p
}

func (q *Question) flowName(f *flowRate) string {
	to := "a group"
	switch {
	case f.dst >= 0:
		to = q.hosts[f.dst].Name
	case f.dests > 0:
		to = fmt.Sprintf("%d hosts", f.dests)
	}
	return q.hosts[f.src].Name + " > " + to
}

// shownUses is how many of the hottest channels an answer lists.
const shownUses = 10

// cableHeat is the use of the sending side of a switch port.
type cableHeat struct {
	node int32
	port uint8
	name string // of the node
	peer string
	used float64
}

// heat finds the hottest channels, and the use of all ports.
func (q *Question) heat(e *Engine, outs []*outcome) {
	net := outs[0].net
	n := net.Channels()
	list := make([]Use, 0, n)
	of := map[string]int32{} // channel, by From
	sums := [3][]float64{make([]float64, n), make([]float64, n), make([]float64, n)}
	for _, o := range outs {
		for i, from := range [][]float64{o.used, o.asked, o.wait} {
			for c := range from {
				sums[i][c] += from[c] / float64(len(outs))
			}
		}
	}
	sw := q.Fabric.SwitchNodes()
	for c := range int32(n) {
		from, to := net.Ends(c, q.Fabric, sw)
		u := Use{From: q.name.port(from), To: q.name.port(to), Wait: sums[2][c]}
		if g := net.Capacity(c); g > 0 {
			u.Used, u.Asked = sums[0][c]/g, sums[1][c]/g
		}
		if q.Fabric.Nodes[from.Node].IsSwitch() {
			e.heat = append(e.heat, cableHeat{from.Node, from.Port, q.name.node(from.Node), u.To, u.Used})
		}
		// A full cable from a host says that the host sends.
		if (u.Used > 0 || u.Wait > 0) && q.Fabric.Nodes[from.Node].IsSwitch() {
			list = append(list, u)
			of[u.From] = c
		}
	}
	// A full cable is as hot as one that waits whenever it does not send.
	busy := func(u *Use) float64 { return math.Round((u.Used + u.Wait) * 50) }
	slices.SortStableFunc(list, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.Asked, a.Asked), cmp.Compare(busy(&b), busy(&a)), cmp.Compare(b.Used, a.Used))
	})
	e.Hottest = list[:min(len(list), shownUses)]
	for i := range e.Hottest {
		e.Hottest[i].Lanes = laneShares(outs, of[e.Hottest[i].From])
	}
}

// laneShares are the shares of the packets on a channel by lane, up to the last
// lane with any; nil if only the first one has any.
func laneShares(outs []*outcome, c int32) (out []float64) {
	if outs[0].lanes == nil {
		return nil
	}
	sum, last := 0.0, 0
	for _, o := range outs {
		for v, n := range o.lanes[c] {
			if v == len(out) {
				out = append(out, 0)
			}
			out[v] += float64(n)
			sum += float64(n)
			if n > 0 {
				last = max(last, v)
			}
		}
	}
	if last == 0 {
		return nil
	}
	for v := range out {
		out[v] /= sum
	}
	return out[:last+1]
}
