package lash

import (
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine"
	"heddle/route/engine/layer"
	"heddle/route/engine/spt"
)

// Update updates tables incrementally after a change of the fabric. It recomputes trees
// that used a removed link, or that a new one could shorten, and keeps entries if no
// other is better. Pairs whose paths stay keep their service level; others keep it if the
// lane stays free of cycles, otherwise they move to another lane, or to an additional one
// if any is left. If that is not enough, or some switch's table is too short for all
// LIDs, tables are computed from scratch, and then again without regard to the old ones
// if that needs too many lanes.
//
// Cost: a copy of the trees (a byte for each pair of switches), of the layers (four bytes
// for each possible dependency) and of the service levels; the loads of all trees,
// O(switches²); O(channels) for each recomputed tree; a walk of the changed paths.
func (e Engine) Update(from route.Solution, g *fabric.Graph, d *fabric.Delta, o route.Options) (*route.Tables, error) {
	if m, ok := from.Tables.Memo.(*memo); ok && engine.Whole(from.Tables) {
		if t := incremental(from, m, g, d, o); t != nil {
			return t, nil
		}
	}
	again := engine.Restart(from, g, o)
	t, err := e.Compute(g, again)
	if err != nil && again.Previous != nil {
		again.Previous = nil
		return e.Compute(g, again)
	}
	return t, err
}

func incremental(from route.Solution, m *memo, g *fabric.Graph, d *fabric.Delta, o route.Options) *route.Tables {
	old := from.Graph
	if o.Rebalance || len(from.Tables.LFT) != len(old.Switches) || len(limits(old)) > 0 || len(limits(g)) > 0 {
		return nil
	}
	u := &update{net: newNet(g), was: m.net, m: m, d: d, from: from}
	u.match()
	u.inherit()
	u.affect()
	u.regrow(o.Workers)
	p := u.paths(&trees{rows: u.rows})
	l := layer.Update(m.layers, p, &layer.Change{
		Switch: d.Switch, Gone: d.OldSwitch, Channel: u.trunkWas, GoneChannel: u.trunkIs, Column: u.group, Touched: u.touched,
	}, route.Budget(g, o.MaxVLs), o.Workers)
	if l == nil {
		return nil
	}
	t := u.entries()
	u.finish(t, &trees{rows: u.rows}, l)
	t.Memo.(*memo).kept = true
	return t
}

// update is a step from one net to another.
type update struct {
	*net
	was      *net
	m        *memo
	d        *fabric.Delta
	from     route.Solution
	trunkWas []int32 // by trunk: its number in was, or -1; a trunk is the same if its switches are
	trunkIs  []int32 // the inverse
	group    []int32 // by group: its number in was, or -1
	rows     [][]byte
	prev     [][]byte // by switch and group: the trunk that was, or none
	affected []bool   // by group: its tree is made again
	touched  []bool   // by group: its tree differs, perhaps
}

// match numbers trunks and groups of both nets.
func (u *update) match() {
	u.trunkWas, u.trunkIs = make([]int32, len(u.to)), make([]int32, len(u.was.to))
	for k := range u.trunkIs {
		u.trunkIs[k] = -1
	}
	at := make([]int32, len(u.d.Switch)) // 1 + the trunk of the current switch that led to this one
	for s, k := range u.d.Switch {
		if k >= 0 {
			for i := u.was.off[k]; i < u.was.off[k+1]; i++ {
				if v := u.d.OldSwitch[u.was.to[i]]; v >= 0 {
					at[v] = i + 1
				}
			}
		}
		for i := u.off[s]; i < u.off[s+1]; i++ {
			u.trunkWas[i] = at[u.to[i]] - 1
			if j := u.trunkWas[i]; j >= 0 {
				u.trunkIs[j] = i
			}
		}
		if k >= 0 {
			for i := u.was.off[k]; i < u.was.off[k+1]; i++ {
				if v := u.d.OldSwitch[u.was.to[i]]; v >= 0 {
					at[v] = 0
				}
			}
		}
	}
	byDst := make([]int32, len(u.d.OldSwitch)) // 1 + group
	for i := range u.was.cols {
		byDst[u.was.cols[i].Dst] = int32(i) + 1
	}
	u.group = make([]int32, len(u.cols))
	for i := range u.cols {
		u.group[i] = -1
		if k := u.d.Switch[u.cols[i].Dst]; k >= 0 {
			u.group[i] = byDst[k] - 1
		}
	}
}

// inherit copies the old trees with new numbers.
func (u *update) inherit() {
	u.rows = make([][]byte, len(u.g.Switches))
	slab := make([]byte, len(u.rows)*len(u.cols))
	for i := range slab {
		slab[i] = none
	}
	for s, k := range u.d.Switch {
		row := slab[s*len(u.cols) : (s+1)*len(u.cols)]
		u.rows[s] = row
		if k < 0 {
			continue
		}
		var ways [256]byte // by old next hop
		for i := range ways {
			ways[i] = none
		}
		for i := u.off[s]; i < u.off[s+1]; i++ {
			if j := u.trunkWas[i]; j >= 0 {
				ways[j-u.was.off[k]] = byte(i - u.off[s])
			}
		}
		old := u.m.rows[k]
		for i, j := range u.group {
			if j >= 0 {
				row[i] = ways[old[j]]
			}
		}
	}
	u.prev = u.rows
}

// affect finds the trees to be made again.
func (u *update) affect() {
	u.affected, u.touched = make([]bool, len(u.cols)), make([]bool, len(u.cols))
	for i, k := range u.group {
		u.affected[i] = k < 0
	}
	// Trees over removed trunks.
	for j, k := range u.trunkIs {
		if k >= 0 {
			continue
		}
		s := u.was.graph.From[j]
		if u.d.OldSwitch[s] < 0 {
			continue // it has no user left
		}
		row := u.m.rows[s]
		way := byte(int32(j) - u.was.off[s])
		for i, k := range u.group {
			if k >= 0 && row[k] == way {
				u.affected[i] = true
			}
		}
	}
	// Trees that new trunks could shorten: distances in the old graph that
	// decrease by no more than one along every new trunk stay valid.
	reach := map[int32][]int32{}
	for c, k := range u.trunkWas {
		if k >= 0 {
			continue
		}
		a, b := u.d.Switch[u.graph.From[c]], u.d.Switch[u.to[c]]
		if a < 0 || b < 0 || len(reach) > len(u.was.ca)/2 {
			for i := range u.affected {
				u.affected[i] = true
			}
			return
		}
		for _, s := range [2]int32{a, b} {
			if reach[s] == nil {
				reach[s] = u.was.hops(s)
			}
		}
		for i := range u.cols {
			if k := u.d.Switch[u.cols[i].Dst]; k >= 0 && reach[b][k] != far && reach[a][k] > reach[b][k]+1 {
				u.affected[i] = true
			}
		}
	}
}

const far = 1 << 30

// hops counts from a switch to all others, breadth first.
func (n *net) hops(from int32) []int32 {
	dist := make([]int32, len(n.off)-1)
	for s := range dist {
		dist[s] = far
	}
	dist[from] = 0
	queue := append(make([]int32, 0, len(dist)), from)
	for h := 0; h < len(queue); h++ {
		u := queue[h]
		for _, v := range n.to[n.off[u]:n.off[u+1]] {
			if dist[v] == far {
				dist[v] = dist[u] + 1
				queue = append(queue, v)
			}
		}
	}
	return dist
}

// regrow makes the affected trees again, against the loads of the others.
func (u *update) regrow(workers int) {
	var picked []int32
	var cols []spt.Column
	net := u.network()
	s := len(u.rows)
	left, flow := make([]int32, s), make([]uint32, s)
	var queue []int32
	for i, again := range u.affected {
		if again {
			picked = append(picked, int32(i))
			cols = append(cols, u.cols[i])
			continue
		}
		u.flows(u.rows, int32(i), left, flow, &queue)
		for v := range s {
			if w := u.rows[v][i]; w != none {
				net.Load[u.off[v]+int32(w)] += uint64(flow[v]) * uint64(u.cols[i].Paths)
			}
		}
	}
	if len(cols) > 0 {
		spt.Run(net, cols, &regrown{u, picked}, workers)
	}
	for i, k := range u.group {
		u.touched[i] = u.affected[i] || k < 0
	}
}

// regrown is the sink of the trees made again.
type regrown struct {
	*update
	picked []int32
}

// Keep implements spt.Sink.
func (r *regrown) Keep(col int, s int32) int32 {
	if w := r.prev[s][r.picked[col]]; w != none {
		return r.off[s] + int32(w)
	}
	return -1
}

// Set implements spt.Sink.
func (r *regrown) Set(col int, s, c int32) {
	w := byte(none)
	if c >= 0 {
		w = byte(c - r.off[s])
	}
	r.rows[s][r.picked[col]] = w
}

// entries writes the tables: rows are shared with the old ones until an entry
// changes, and an entry stays if its link belongs to the right trunk.
func (u *update) entries() *route.Tables {
	g := u.g
	width := route.RowLen(g.TopLID)
	t := &route.Tables{Engine: "lash", LFT: make([][]byte, len(g.Switches)), TopLID: g.TopLID, NumVLs: 1}
	moved := make([]bool, int(g.TopLID)+1)
	for _, l := range u.d.LIDs {
		if l <= g.TopLID {
			moved[l] = true
		}
	}
	group := make([]int32, int(g.TopLID)+1) // 1 + group, by LID
	for i, lids := range u.lids {
		for _, l := range lids {
			group[l] = int32(i) + 1
		}
	}
	for s, k := range u.d.Switch {
		var row []byte
		shared := false
		if k >= 0 {
			row = u.from.Tables.LFT[k]
		}
		if len(row) >= width {
			row, shared = row[:width:width], true
		} else {
			n := len(row)
			row = slices.Grow(slices.Clone(row), width-n)[:width]
			for l := n; l < width; l++ {
				row[l] = route.Drop
			}
		}
		whole := u.rewired(int32(s))
		for l := 1; l < width; l++ {
			p := byte(route.Drop)
			switch {
			case l > int(g.TopLID) || group[l] == 0:
			case !whole && !moved[l] && !u.touched[group[l]-1]:
				continue
			default:
				p = u.port(int32(s), ib.LID(l), group[l]-1, row[l])
			}
			if row[l] == p {
				continue
			}
			if shared {
				row, shared = slices.Clone(row), false
			}
			row[l] = p
		}
		t.LFT[s] = row
	}
	return t
}

// rewired reports whether a switch is new or its links changed.
func (u *update) rewired(s int32) bool {
	k := u.d.Switch[s]
	if k < 0 || u.g.Off[s+1]-u.g.Off[s] != u.from.Graph.Off[k+1]-u.from.Graph.Off[k] {
		return true
	}
	for c := u.g.Off[s]; c < u.g.Off[s+1]; c++ {
		if u.d.Channel[c] < 0 {
			return true
		}
	}
	return false
}

// port is the entry of switch s for a LID of a group, preferably the old one.
func (u *update) port(s int32, l ib.LID, group int32, was byte) byte {
	if s == u.cols[group].Dst {
		return u.g.EndPorts[u.g.LIDOwner[l]].Port
	}
	w := u.rows[s][group]
	if w == none {
		return route.Drop
	}
	k := u.off[s] + int32(w)
	if int(was) < len(u.g.PortChannel[s]) {
		if c := u.g.PortChannel[s][was]; c >= 0 && u.trunk[c] == k {
			return was
		}
	}
	cables := u.chans[u.first[k]:u.first[k+1]]
	return u.g.Channels[cables[int(l)%len(cables)]].OutPort
}
