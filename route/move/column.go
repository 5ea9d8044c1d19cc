package move

import (
	"slices"

	"heddle/ib"
	"heddle/route"
	"heddle/route/cdg"
)

// column holds all switches' entries for one LID.
type column struct {
	lid   ib.LID
	old   []byte    // by switch, as installed
	now   []byte    // old itself as long as nothing has changed
	owned bool      // the LID has an owner, according to the installed owners
	idle  bool      // but no host uses it, according to its request
	used  bool      // it moves by a request of its own
	added []cdg.Dep // dependencies of now that the installed tables do not have

	level []int32 // by switch: links to the destination by now; -1: not delivered
	stage []uint8 // by switch: when its entry is written; never if it does not change
	left  []uint8 // by switch: stage at which its old entry ends, if only to be Drop until stage
	time  []uint8 // by switch: the earliest step, before steps become stages
	mixed []meet
}

// never marks an entry that does not change.
const never = 255

// meet is a place where packets sent by the old entry of switch from may continue by
// the new entry of switch at, which no packet does with the installed tables.
type meet struct{ from, at int32 }

// column loads a LID's entries.
func (m *mover) column(l ib.LID) *column {
	if c := m.cols[l]; c != nil {
		return c
	}
	c := &column{lid: l, old: make([]byte, m.n)}
	c.owned = int(l) < len(m.g.LIDOwner) && m.g.LIDOwner[l] >= 0
	for s := range c.old {
		c.old[s] = m.t.Entry(int32(s), l)
	}
	c.now = c.old
	m.cols[l] = c
	m.order = append(m.order, c)
	return c
}

// inOneStage has all entries that change written in the first stage.
func (c *column) inOneStage() {
	c.stage, c.left = slices.Repeat([]uint8{never}, len(c.old)), slices.Repeat([]uint8{never}, len(c.old))
	for s := range c.old {
		if c.now[s] != c.old[s] {
			c.stage[s], c.left[s] = 0, 0
		}
	}
}

// sent reports whether packets to the LID may be in flight.
func (c *column) sent() bool { return c.owned && (!c.idle || c.used) }

// next is the channel that entry e of switch s leads to, or -1.
func (m *mover) next(s int32, e byte) int32 {
	if ports := m.g.PortChannel[s]; int(e) < len(ports) {
		return ports[e]
	}
	return -1
}

// toward is the switch that entry e of switch s leads to, or -1.
func (m *mover) toward(s int32, e byte) int32 {
	if c := m.next(s, e); c >= 0 {
		return m.g.Channels[c].To
	}
	return -1
}

// fewest returns the entries of a LID after the fewest switches have taken the entries of
// its model such that all switches deliver it at switch dst. mine must deliver at src
// wherever model delivers at dst.
//
// Packets that src sends must reach dst, so the changed switches lie on a path from src
// to dst in the graph in which each switch has two next hops: that of its own entry, at
// cost 0, and that of its model's, at cost 1. A cheapest such path suffices: packets from
// other switches follow unchanged entries to src, or join the path earlier.
//
// favor, if not nil, marks the switches to prefer among paths of equal cost.
func (m *mover) fewest(mine, model []byte, src, dst int32, favor []bool) []byte {
	const far = 1 << 30
	change := int32(2 * m.n)
	if m.cost == nil {
		m.cost, m.from, m.took = make([]int32, m.n), make([]int32, m.n), make([]bool, m.n)
	}
	cost, from, took := m.cost, m.from, m.took
	for s := range cost {
		cost[s] = far
	}
	// took[s] says whether the best known path from s takes the model's entry; it is stored
	// with the next switch: from and took of v tell how v is reached.
	cost[src], from[src] = 0, -1
	best, bestTook := int32(far), false
	queue := append(m.queue[:0], src)
	for h := 0; h < len(queue); h++ {
		s := queue[h]
		price := change
		switch {
		case mine[s] == model[s]:
			price = 0
		case favor == nil || !favor[s]:
			price++
		}
		if s == dst {
			if cost[s]+price < best {
				best, bestTook = cost[s]+price, price > 0
			}
			continue
		}
		reach := func(e byte, price int32, take bool) {
			v := m.toward(s, e)
			if v >= 0 && cost[s]+price < cost[v] {
				cost[v], from[v], took[v] = cost[s]+price, s, take
				queue = append(queue, v)
			}
		}
		reach(model[s], price, price > 0)
		if price > 0 {
			reach(mine[s], 0, false)
		}
	}
	m.queue = queue
	if best == far {
		return nil
	}
	out := slices.Clone(mine)
	if bestTook {
		out[dst] = model[dst]
	}
	for v := dst; from[v] >= 0; v = from[v] {
		if took[v] {
			out[from[v]] = model[from[v]]
		}
	}
	return out
}

// levels finds how far each switch is from the destination at dst.
func (m *mover) levels(c *column, dst int32) {
	const unknown = -2
	c.level = make([]int32, m.n)
	for s := range c.level {
		c.level[s] = unknown
	}
	if dst >= 0 {
		c.level[dst] = 0
	}
	for s := range int32(m.n) {
		way := m.queue[:0]
		u := s
		for u >= 0 && c.level[u] == unknown {
			c.level[u] = -1
			way = append(way, u)
			u = m.toward(u, c.now[u])
		}
		d := int32(-1)
		if u >= 0 {
			d = c.level[u]
		}
		for _, v := range slices.Backward(way) {
			if d >= 0 {
				d++
			}
			c.level[v] = d
		}
		m.queue = way
	}
}

// count is the cost of changing columns: a, and b if that is not nil.
func count(a, wasA, b, wasB []byte, oneBlock bool) (x Moved) {
	for s := range a {
		k := 0
		if a[s] != wasA[s] {
			k++
		}
		if b != nil && b[s] != wasB[s] {
			k++
		}
		x.Entries += k
		if oneBlock {
			k = min(k, 1)
		}
		if k > 0 {
			x.Switches++
		}
		x.SMPs += k
		x.Blocks = max(x.Blocks, k)
	}
	return x
}

func sameBlock(a, b ib.LID) bool { return a/route.BlockLen == b/route.BlockLen }
