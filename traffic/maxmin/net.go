package maxmin

import (
	"fmt"
	"math"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/traffic"
)

// Net is a graph as a set of channels with capacities: those between switches, in
// the order of Graph.Channels, then a channel from and a channel to each host.
type Net struct {
	g        *fabric.Graph
	hosts    []traffic.Host
	gone     []bool // by host: not in the graph
	capacity []float64
	lanes    uint8 // data lanes of the links of hosts
}

// Fabric returns the Net of a fabric: g is its graph after a loss of links (see
// fabric.Graph.Without), so that switches have the indices that they have in
// hosts. Capacities are data rates in Gb/s.
func Fabric(f *fabric.Fabric, g *fabric.Graph, hosts []traffic.Host) *Net {
	n := &Net{
		g: g, hosts: hosts, gone: make([]bool, len(hosts)), lanes: 1,
		capacity: make([]float64, len(g.Channels)+2*len(hosts)),
	}
	sw := f.SwitchNodes()
	for c := range g.Channels {
		ch := &g.Channels[c]
		p := f.Port(fabric.Ref{Node: sw[ch.From], Port: ch.OutPort})
		n.capacity[c] = float64(p.Width.Lanes()) * p.Speed.DataGbps()
		n.lanes = max(ch.VLs, 1)
	}
	for h := range hosts {
		n.capacity[n.out(int32(h))], n.capacity[n.in(int32(h))] = hosts[h].Gbps, hosts[h].Gbps
		l := hosts[h].LID
		n.gone[h] = int(l) >= len(g.LIDOwner) || g.LIDOwner[l] == fabric.NoLID
	}
	return n
}

// out is the channel from a host, in the one to it.
func (n *Net) out(h int32) int32 { return int32(len(n.g.Channels)) + 2*h }
func (n *Net) in(h int32) int32  { return n.out(h) + 1 }

// Channels is the number of channels.
func (n *Net) Channels() int { return len(n.capacity) }

// Gone reports whether a host has lost its link.
func (n *Net) Gone(h int32) bool { return n.gone[h] }

// Capacity is the data rate of a channel in Gb/s.
func (n *Net) Capacity(c int32) float64 { return n.capacity[c] }

// Ends are the ports at which a channel begins and ends. f is the fabric, sw its
// SwitchNodes.
func (n *Net) Ends(c int32, f *fabric.Fabric, sw []int32) (from, to fabric.Ref) {
	if int(c) < len(n.g.Channels) {
		ch := &n.g.Channels[c]
		return fabric.Ref{Node: sw[ch.From], Port: ch.OutPort}, fabric.Ref{Node: sw[ch.To], Port: ch.InPort}
	}
	k := c - int32(len(n.g.Channels))
	from = n.hosts[k/2].Port
	to = f.Port(from).Peer
	if k%2 != 0 {
		from, to = to, from
	}
	return from, to
}

// Flow is the packets of one queue of a host.
type Flow struct {
	Demand int   // index of the Demand
	Src    int32 // host
	Dst    int32 // host, -1: several, or a group
	Dests  int32 // how many
	// Offered and Rate are in Gb/s: what the queue offers, and what it may send.
	Offered, Rate float64
	// Arrives is the share of its packets that have a route, by the tables.
	Arrives float64
}

// Accepted is what arrives of a flow in Gb/s.
func (f *Flow) Accepted() float64 { return f.Rate * f.Arrives }

// Result is the rates of all flows, and the use of all channels.
type Result struct {
	Flows []Flow
	// Used is what flows over each channel in Gb/s, Asked what would if no channel
	// was slower than the sources. A broken flow counts up to where it ends.
	Used, Asked []float64
	Capacity    []float64
}

// builder makes the Problem of demands.
type builder struct {
	n     *Net
	t     *route.Tables
	p     Problem
	flows []Flow
	paths [][]path // by switch and host, nil: not asked for yet
	slab  []int32  // their channels
	many  bool     // paths are asked for more than once

	// The flow under construction.
	mark    []float64 // by channel: weight
	list    []int32   // its channels
	ws      []float64
	arrived float64 // share of the packets
}

// Rates finds the rates of demands that are all active at once, each stream
// offering load times its rate. Tables must have multicast trees for broadcasts:
// the group of demand i is groups[i]. Steps and messages do not count: see Step.
func (n *Net) Rates(t *route.Tables, load float64, groups []ib.LID, demands ...*traffic.Demand) (*Result, error) {
	b := n.builder(t)
	b.reserve(demands)
	for i, d := range demands {
		for k := range d.Streams {
			s := &d.Streams[k]
			if n.gone[s.Src] {
				b.missing(i, s, load)
				continue
			}
			if d.Members != nil {
				if err := b.group(i, d, s, groups[i], load); err != nil {
					return nil, err
				}
				continue
			}
			b.stream(i, d, s, load)
		}
	}
	return b.solve(), nil
}

// Pairs finds the rates of one flow for each pair, each as fast as it can be:
// the step of a collective operation.
func (n *Net) Pairs(t *route.Tables, pairs [][2]int32) *Result {
	b := n.builder(t)
	for _, p := range pairs {
		if !n.gone[p[0]] {
			b.route(p[0], p[1], 1)
		}
		b.add(Flow{Src: p[0], Dst: p[1], Dests: 1, Offered: n.hosts[p[0]].Gbps, Arrives: b.arrived})
	}
	return b.solve()
}

// reserve makes room for about as many channels as the flows of demands have.
func (b *builder) reserve(demands []*traffic.Demand) {
	entries := 0
	for _, d := range demands {
		for i := range d.Streams {
			k := len(d.Streams[i].Among)
			b.many = b.many || k > 0
			if d.Spec.Queue == traffic.QueueDestination {
				entries += 5 * (k + 1)
			} else {
				entries += min(2*k+8, len(b.n.capacity))
			}
		}
	}
	b.p.Channel, b.p.Weight = make([]int32, 0, entries), make([]float64, 0, entries)
}

func (n *Net) builder(t *route.Tables) *builder {
	b := &builder{n: n, t: t, mark: make([]float64, len(n.capacity)), paths: make([][]path, len(n.g.Switches))}
	b.p.Capacity = n.capacity
	return b
}

// missing counts a stream whose host has no link.
func (b *builder) missing(i int, s *traffic.Stream, load float64) {
	f := Flow{Demand: i, Src: s.Src, Dst: s.To, Dests: 1, Offered: load * s.Rate * b.n.hosts[s.Src].Gbps}
	if len(s.Among) > 0 {
		f.Dst, f.Dests = -1, int32(len(s.Among)-1)
	}
	b.add(f) // over no channel: what it sends arrives nowhere
}

// stream adds the flows of a stream by the source model.
func (b *builder) stream(i int, d *traffic.Demand, s *traffic.Stream, load float64) {
	rate := load * s.Rate * d.Spec.Duty()
	if d.Spec.Arrival == traffic.Saturated || d.Spec.Arrival == traffic.Closed {
		rate = 1
	}
	rate *= b.n.hosts[s.Src].Gbps
	if d.Spec.Queue == traffic.QueueDestination {
		for dst, x := range shares(s) {
			b.route(s.Src, dst, 1)
			b.add(Flow{Demand: i, Src: s.Src, Dst: dst, Dests: 1, Offered: rate * x, Arrives: b.arrived})
		}
		return
	}
	var share [16]float64 // by lane: of the packets
	var lanes uint16
	for dst, x := range shares(s) {
		l := b.queue(d.Spec, s.Src, dst)
		share[l] += x
		lanes |= 1 << l
	}
	for l := range uint8(16) {
		if lanes>>l&1 == 0 {
			continue
		}
		f := Flow{Demand: i, Src: s.Src, Offered: rate * share[l]}
		for dst, x := range shares(s) {
			if lanes != 1<<l && b.queue(d.Spec, s.Src, dst) != l {
				continue
			}
			f.Dst = dst
			f.Dests++
			b.route(s.Src, dst, x/share[l])
		}
		f.Arrives = b.arrived
		b.finish(f)
	}
}

// shares yields the destinations of a stream with their shares of its packets.
func shares(s *traffic.Stream) func(yield func(dst int32, share float64) bool) {
	return func(yield func(dst int32, share float64) bool) {
		if len(s.Among) == 0 {
			yield(s.To, 1)
			return
		}
		each := (1 - s.Share) / float64(len(s.Among)-1)
		for _, h := range s.Among {
			x := each
			if h == s.To {
				x += s.Share
			}
			if h != s.Src && !yield(h, x) {
				return
			}
		}
	}
}

// queue is the queue of a host for packets to dst: a lane, or 0.
func (b *builder) queue(spec *traffic.Spec, src, dst int32) uint8 {
	if spec.Queue != traffic.QueueLane {
		return 0
	}
	return b.lane(spec, src, dst)
}

// finish adds a flow to one or more destinations.
func (b *builder) finish(f Flow) {
	if f.Dests > 1 {
		f.Dst = -1
	}
	if f.Arrives > 1-tolerance {
		f.Arrives = 1
	}
	b.add(f)
}

// lane is the lane on which packets leave a host.
func (b *builder) lane(spec *traffic.Spec, src, dst int32) uint8 {
	sl := ib.SL(max(spec.SL, 0))
	if spec.SL < 0 {
		sl = b.t.PathSL(b.n.hosts[src].Switch, b.n.hosts[dst].LID)
	}
	return uint8(sl) % b.n.lanes
}

// route marks the path of a share of the packets of the flow under construction,
// up to where they arrive or are lost.
func (b *builder) route(src, dst int32, share float64) {
	n := b.n
	b.use(n.out(src), share)
	p := b.path(n.hosts[src].Switch, dst)
	for _, c := range p.channels {
		b.use(c, share)
	}
	if p.arrives {
		b.arrived += share
	}
}

// path is the way from a switch to a host; it ends where packets are lost.
type path struct {
	channels []int32
	arrives  bool
}

// path finds a path, valid until the next call. If there are many, it remembers
// them: all hosts of a switch use the same ones.
func (b *builder) path(from, dst int32) path {
	n := b.n
	if !b.many {
		b.slab = b.slab[:0]
	} else if b.paths[from] == nil {
		b.paths[from] = make([]path, len(n.hosts))
	} else if p := b.paths[from][dst]; p.channels != nil {
		return p
	}
	to, at, begin := &n.hosts[dst], from, len(b.slab)
	arrives := false
	for range len(n.g.Switches) + 1 {
		out := b.t.Entry(at, to.LID)
		if out == route.Drop || out == 0 || int(out) >= len(n.g.PortChannel[at]) {
			break
		}
		c := n.g.PortChannel[at][out]
		if c < 0 {
			if arrives = at == to.Switch && !n.gone[dst] && n.g.EndPorts[n.g.LIDOwner[to.LID]].Port == out; arrives {
				b.slab = append(b.slab, n.in(dst))
			}
			break
		}
		b.slab = append(b.slab, c)
		at = n.g.Channels[c].To
	}
	p := path{b.slab[begin:len(b.slab):len(b.slab)], arrives}
	if p.channels == nil {
		p.channels = []int32{}
	}
	if b.many {
		b.paths[from][dst] = p
	}
	return p
}

func (b *builder) use(c int32, share float64) {
	if b.mark[c] == 0 {
		b.list = append(b.list, c)
	}
	b.mark[c] += share
}

// group adds the flow of a broadcast: it takes every channel of the tree once.
func (b *builder) group(i int, d *traffic.Demand, s *traffic.Stream, mlid ib.LID, load float64) error {
	n, tree := b.n, (*route.Tree)(nil)
	if m := b.t.Multicast; m != nil {
		for k := range m.Trees {
			if m.Trees[k].MLID == mlid {
				tree = &m.Trees[k]
			}
		}
		for _, r := range m.Refused {
			if r.MLID == mlid {
				return fmt.Errorf("maxmin: pattern %q: the group has no tree: %s", d.Spec.Text, r.Reason)
			}
		}
	}
	if tree == nil {
		return fmt.Errorf("maxmin: pattern %q: the tables have no tree for group %#x", d.Spec.Text, uint16(mlid))
	}
	got := n.flood(tree, s.Src, func(c int32) { b.use(c, 1) })
	f := Flow{Demand: i, Src: s.Src, Dst: -1, Dests: int32(len(d.Members) - 1)}
	f.Offered = load * s.Rate * d.Spec.Duty() * n.hosts[s.Src].Gbps
	if d.Spec.Arrival == traffic.Saturated || d.Spec.Arrival == traffic.Closed {
		f.Offered = n.hosts[s.Src].Gbps
	}
	f.Arrives = float64(got) / float64(f.Dests)
	b.finish(f)
	return nil
}

// flood calls use for every channel that a packet from a host takes in a tree,
// and returns how many other hosts get it.
func (n *Net) flood(tree *route.Tree, src int32, use func(c int32)) (got int) {
	use(n.out(src))
	at := make(map[int32]int, len(tree.Switches))
	for i, s := range tree.Switches {
		at[s] = i
	}
	host := map[[2]int32]int32{} // by switch and port
	for h := range n.hosts {
		if !n.gone[h] {
			e := &n.g.EndPorts[n.g.LIDOwner[n.hosts[h].LID]]
			host[[2]int32{e.Switch, int32(e.Port)}] = int32(h)
		}
	}
	type arrival struct {
		sw int32
		in uint8
	}
	me := &n.g.EndPorts[n.g.LIDOwner[n.hosts[src].LID]]
	seen := map[int32]bool{}
	for queue := []arrival{{me.Switch, me.Port}}; len(queue) > 0; queue = queue[1:] {
		a := queue[0]
		i, ok := at[a.sw]
		if !ok || seen[a.sw] {
			continue
		}
		seen[a.sw] = true
		for p := range n.g.PortChannel[a.sw] {
			if p == 0 || uint8(p) == a.in || tree.Ports[i][p>>6]>>(p&63)&1 == 0 {
				continue
			}
			if c := n.g.PortChannel[a.sw][p]; c >= 0 {
				use(c)
				queue = append(queue, arrival{n.g.Channels[c].To, n.g.Channels[c].InPort})
			} else if h, ok := host[[2]int32{a.sw, int32(p)}]; ok {
				use(n.in(h))
				got++
			}
		}
	}
	return got
}

// add appends the flow whose channels are marked.
func (b *builder) add(f Flow) {
	b.ws = b.ws[:0]
	for _, c := range b.list {
		w := b.mark[c]
		if math.Abs(w-1) < tolerance {
			w = 1
		}
		b.ws = append(b.ws, w)
		b.mark[c] = 0
	}
	b.p.Add(f.Offered, b.list, b.ws)
	b.list, b.arrived = b.list[:0], 0
	b.flows = append(b.flows, f)
}

func (b *builder) solve() *Result {
	k := len(b.n.capacity)
	r := &Result{Flows: b.flows, Used: make([]float64, k), Asked: make([]float64, k), Capacity: b.n.capacity}
	for f, x := range b.p.Solve() {
		r.Flows[f].Rate = x
		for i := b.p.Off[f]; i < b.p.Off[f+1]; i++ {
			c := b.p.Channel[i]
			r.Used[c] += b.p.Weight[i] * x
			r.Asked[c] += b.p.Weight[i] * b.p.Demand[f]
		}
	}
	return r
}
