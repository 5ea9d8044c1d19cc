package transition

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// balanceSteps bounds the paths that Balance examines.
const balanceSteps = 20_000_000

// Balance relieves the busiest channels where the wanted tables cannot be reached in
// rounds. It changes entries of single destinations, each to a path that the existing
// dependencies permit, and only if no channel of the new path becomes as busy as the
// relieved one. It stops when no channel has more than aim paths (from CA and router
// ports to all their LIDs, as check.Report counts them) or nothing can move. Entries is
// the number of changed entries; a destination changes once, so more may be possible when
// packets have left.
//
// nil is returned in the cases of Approach.
func Balance(g *fabric.Graph, installed *route.Tables, aim int64, o Options) *Fitted {
	if !known(g, installed, &o) {
		return nil
	}
	f := newFitter(g, installed, installed, &o)
	if f == nil {
		return nil
	}
	b := &balancer{fitter: f, load: make([]int64, f.x.m), hosts: make([]int64, f.x.n), flow: make([]int64, f.x.n), done: make([]bool, len(f.broken)), aim: aim, steps: balanceSteps}
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch && e.Switch >= 0 && e.LID != 0 {
			b.hosts[e.Switch]++
		}
	}
	r := &Fitted{fitter: f, Past: f.partly, circle: f.circle, Balanced: true, Entries: b.run()}
	r.First = f.tables()
	r.Tables = r.First
	return r
}

// balancer is the state of Balance.
type balancer struct {
	*fitter
	load  []int64 // by channel: paths
	hosts []int64 // by switch: CA and router ports
	flow  []int64 // by switch: paths to the destination at hand that leave it
	done  []bool  // by LID: it was changed
	aim   int64
	steps int
}

func (b *balancer) run() (n int) {
	x := b.x
	for l := range b.broken {
		if b.counts(ib.LID(l)) {
			b.eachFlow(ib.LID(l), func(c int32, k int64) { b.load[c] += k })
		}
	}
	stuck := make([]bool, x.m) // nothing more can be taken off
	for b.steps > 0 && b.ins.budget > 0 {
		hot := int32(-1)
		for c, k := range b.load {
			if !stuck[c] && k > b.aim && (hot < 0 || k > b.load[hot]) {
				hot = int32(c)
			}
		}
		if hot < 0 {
			return n
		}
		k := b.relieve(hot)
		n += k
		if k == 0 {
			stuck[hot] = true
		}
	}
	return n
}

// counts reports whether paths to l are load.
func (b *balancer) counts(l ib.LID) bool {
	d, _ := b.x.owner(l)
	return d >= 0 && b.broken[l] == 0 && !b.unsure[l] && b.fitter.fromCA(l)
}

// channel is the one by which switch u sends l, or -1.
func (b *balancer) channel(u int32, l ib.LID) int32 {
	if int(u) >= b.x.managed {
		return -1
	}
	return b.x.port[int(u)<<8|int(b.rows[u][l])]
}

// eachFlow calls fn for the channels of the tree to l with the paths that they carry.
func (b *balancer) eachFlow(l ib.LID, fn func(c int32, k int64)) {
	x := b.x
	d, _ := x.owner(l)
	for s := range int32(x.managed) {
		if b.hosts[s] == 0 {
			continue
		}
		u := s
		for range x.n {
			c := b.channel(u, l)
			if u == d || c < 0 {
				break
			}
			fn(c, b.hosts[s])
			u = x.to[c]
		}
	}
}

// relieve moves paths away from a channel until it is no busier than the aim, or
// as far as it can. It returns how many entries changed.
func (b *balancer) relieve(hot int32) (n int) {
	x := b.x
	type use struct {
		l    ib.LID
		flow int64
	}
	var uses []use
	for l := range b.broken {
		if lid := ib.LID(l); !b.done[l] && b.counts(lid) && b.channel(x.from[hot], lid) == hot {
			u := use{l: lid}
			b.eachFlow(lid, func(c int32, k int64) {
				if c == hot {
					u.flow += k
				}
			})
			if u.flow > 0 {
				uses = append(uses, u)
			}
		}
	}
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(b.flow, a.flow) })
	for _, u := range uses {
		if b.load[hot] <= b.aim || b.steps < 0 {
			return n
		}
		if b.divert(u.l, hot) {
			n++
		}
	}
	return n
}

// divert gives one switch upstream of a channel another path to l: the one with
// the least busy channels, of those that relieve it most.
func (b *balancer) divert(l ib.LID, hot int32) bool {
	x, s := b.x, b.s
	d, port := x.owner(l)
	s.begin(l, d, port, installedOnly)
	s.queue.Reset()
	clear(b.flow)
	for u := range int32(x.managed) {
		for v, i := u, 0; b.hosts[u] > 0 && i < x.n; i++ {
			b.flow[v] += b.hosts[u]
			if v == d || s.next[v] < 0 {
				break
			}
			v = x.to[s.next[v]]
		}
	}
	type way struct {
		u, c int32
		most int64 // load of its busiest channel afterward
		flow int64
	}
	var ways []way
	limit := b.load[hot]
	for u := range int32(x.managed) {
		b.steps--
		if u == d || b.flow[u] == 0 || !b.leadsOver(u, d, hot) {
			continue
		}
		for _, c := range x.outs[x.outOff[u]:x.outOff[u+1]] {
			v := x.to[c]
			if c == s.next[u] || int(v) >= x.managed || !s.good[v] || s.through(v, u) || s.dist[v] > s.dist[u]+1 {
				continue
			}
			b.steps--
			most, at := b.load[c]+b.flow[u], v
			for at != d && s.next[at] >= 0 && most < limit {
				if s.next[at] == hot {
					most = limit
				}
				most = max(most, b.load[s.next[at]]+b.flow[u])
				at = x.to[s.next[at]]
			}
			if most < limit {
				ways = append(ways, way{u, c, most, b.flow[u]})
			}
		}
	}
	slices.SortFunc(ways, func(a, b way) int {
		return cmp.Or(cmp.Compare(a.most, b.most), cmp.Compare(b.flow, a.flow), cmp.Compare(a.u, b.u), cmp.Compare(a.c, b.c))
	})
	for _, k := range ways {
		b.w.edges = b.w.edges[:0]
		if s.attach(l, k.u, k.c); !b.insert() {
			continue
		}
		b.eachFlow(l, func(c int32, n int64) { b.load[c] -= n })
		s.connected(l, k.u, k.c)
		s.queue.Reset()
		b.set(k.u, l, x.outPort[k.c])
		b.eachFlow(l, func(c int32, n int64) { b.load[c] += n })
		b.done[l] = true
		return true
	}
	return false
}

// leadsOver reports whether packets from u go over a channel.
func (b *balancer) leadsOver(u, d, c int32) bool {
	for range b.x.n {
		k := b.s.next[u]
		if u == d || k < 0 {
			return false
		}
		if k == c {
			return true
		}
		u = b.x.to[k]
	}
	return false
}
