package nue

import (
	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// splice updates counts and loads incrementally: it removes the share of the
// LIDs that the change affects, and routes only those. It returns false if that
// is impossible: a switch is new, so every LID is affected, a table is too
// short for some LIDs, or some LID cannot be routed that way.
func (u *update) splice() bool {
	if u.limit || len(u.old.used) != len(u.tours) {
		return false
	}
	for _, o := range u.d.Switch {
		if o < 0 {
			return false
		}
	}
	was := newNet(u.from.Graph)
	if was.limit {
		return false
	}
	for c, o := range u.d.Channel {
		if o < 0 && was.comp[u.d.Switch[u.net.from[c]]] != was.comp[u.d.Switch[u.to[c]]] {
			return false // components were joined: every LID gets new sources
		}
	}
	touched := u.touched(was)
	u.base = make([]uint32, len(u.to))
	for c, o := range u.d.Channel {
		if o >= 0 {
			u.base[c] = u.old.load[o]
		}
	}
	route.ForEach(u.o.Workers, len(u.tours), func(_, k int) { u.restore(k, was) })
	u.takeOut(was, touched)
	u.changeHosts(was, touched)

	done := make([]bool, len(u.tours))
	route.ForEach(u.o.Workers, len(u.tours), func(_, k int) {
		t := u.tours[k]
		t.left = t.left[:0]
		for _, d := range t.dest {
			for i, l := range u.behind(d) {
				if touched[l] {
					t.keep(d, l, i < int(t.cas[d]))
				}
			}
		}
		done[k] = t.complete()
	})
	for _, ok := range done {
		if !ok {
			u.base = nil
			return false
		}
	}
	return true
}

// touched marks the LIDs whose destination changed, and those that some
// remaining switch sent over a removed link.
func (u *update) touched(was *net) []bool {
	top := max(u.g.TopLID, u.from.Tables.TopLID)
	touched := make([]bool, int(top)+1)
	for _, l := range u.d.LIDs {
		if l <= top {
			touched[l] = true
		}
	}
	for o, c := range u.d.OldChannel {
		s := was.from[o]
		if c >= 0 || u.d.OldSwitch[s] < 0 {
			continue
		}
		port := was.g.Channels[o].OutPort
		for l, p := range u.from.Tables.LFT[s] {
			if p == port && l < len(touched) {
				touched[l] = true
			}
		}
	}
	return touched
}

// restore restores a layer's order and counts.
func (u *update) restore(k int, was *net) {
	t := u.tours[k]
	t.router = newRouter(newLayer(u.net, repairWork/int64(len(u.tours))))
	t.load = make([]uint32, len(u.to))
	t.arrange(u.old.order[k], u.d)
	used := u.old.used[k]
	for c, o := range u.d.Channel {
		if o < 0 {
			continue
		}
		v := u.to[c]
		now, old := t.base[c], was.base[o]
		if u.d.SameChannels {
			lo, hi := u.g.Off[v], u.g.Off[v+1]
			copy(t.used[now+lo:now+hi], used[old+lo:old+hi])
			continue
		}
		for x := u.g.Off[v]; x < u.g.Off[v+1]; x++ {
			if y := u.d.Channel[x]; y >= 0 {
				t.used[now+x] = used[old+y]
			}
		}
	}
}

// takeOut takes the old trees of the LIDs touched out of the counts and the
// loads.
func (u *update) takeOut(was *net, touched []bool) {
	r := &tour{
		router: &router{
			layer: &layer{net: was, pos: make([]int32, len(was.to))},
			price: make([]uint64, len(was.to)), v: make([]vertex, was.n), flow: make([]uint32, was.n),
		},
		job: &job{net: was, t: u.from.Tables},
	}
	for d := range int32(was.n) {
		t := u.tours[u.old.of[d]]
		for i, l := range was.behind(d) {
			if !touched[l] {
				continue
			}
			r.read(d, l)
			for j := len(r.order) - 1; j > 0; j-- {
				s := r.order[j]
				o := r.v[s].next
				c := u.d.OldChannel[o]
				y := r.v[was.to[o]].next
				if c >= 0 && y >= 0 {
					if x := u.d.OldChannel[y]; x >= 0 {
						t.drop(c, x)
					}
				}
				if i >= int(was.cas[d]) {
					continue
				}
				f := r.flow[s] + was.hosts[s]
				r.flow[s] = 0
				r.flow[was.to[o]] += f
				if c >= 0 {
					u.base[c] -= f
				}
			}
			r.flow[d] = 0
		}
	}
}

// changeHosts corrects the loads of LIDs that are not touched for switches
// that have more hosts or fewer than they had.
func (u *update) changeHosts(was *net, touched []bool) {
	for s := range int32(was.n) {
		hosts := uint32(0)
		if n := u.d.OldSwitch[s]; n >= 0 {
			hosts = u.hosts[n]
		}
		more := hosts - was.hosts[s] // modulo 2^32, and so is the sum
		if more == 0 {
			continue
		}
		for l, e := range was.g.LIDOwner {
			if e == fabric.NoLID || touched[l] || was.g.EndPorts[e].Type == ib.NodeSwitch {
				continue
			}
			d := was.g.EndPorts[e].Switch
			for v := s; v >= 0 && v != d; {
				p := u.from.Tables.LFT[v][l]
				if p == route.Drop {
					break
				}
				o := was.g.PortChannel[v][p]
				if c := u.d.OldChannel[o]; c >= 0 {
					u.base[c] += more
				}
				v = was.to[o]
			}
		}
	}
}
