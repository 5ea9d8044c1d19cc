package layer

// Graph holds the channels of a network for the bookkeeping of dependencies:
// channel c1 may be followed by any channel that leaves the switch it enters.
// Channels come in pairs, one each way; those of switch s are Off[s]:Off[s+1].
// A Graph is immutable.
type Graph struct {
	Off           []int32
	From, To, Rev []int32 // by channel
	col           []int32 // by channel: its place among those of the switch it leaves
	row           []int32 // by channel: the number of its first dependency
	edges         int     // dependencies that could be
	word          []int32 // by channel: first word of the bits of its successors
	back          []int32 // by channel: first word of the bits of its predecessors
	words, backs  int
}

// NewGraph makes the Graph of n switches; to gives the switch that each channel
// leads to, rev its opposite direction. The slices are kept.
func NewGraph(off, to, rev []int32) *Graph {
	m := len(to)
	ints := make([]int32, 5*m)
	g := &Graph{
		Off: off, To: to, Rev: rev, From: ints[:m:m], col: ints[m : 2*m : 2*m], row: ints[2*m : 3*m : 3*m],
		word: ints[3*m : 4*m : 4*m], back: ints[4*m:],
	}
	for s := range len(off) - 1 {
		for c := off[s]; c < off[s+1]; c++ {
			g.From[c], g.col[c] = int32(s), c-off[s]
		}
	}
	for c, v := range to {
		k := int(off[v+1] - off[v])
		g.row[c] = int32(g.edges)
		g.edges += k
		g.word[c] = int32(g.words)
		g.words += (k + 63) / 64
		u := g.From[c]
		g.back[c] = int32(g.backs)
		g.backs += (int(off[u+1]-off[u]) + 63) / 64
	}
	return g
}

// Channels is how many channels there are.
func (g *Graph) Channels() int { return len(g.To) }

// Switches is how many switches there are.
func (g *Graph) Switches() int { return len(g.Off) - 1 }

func (g *Graph) edge(c1, c2 int32) int32 { return g.row[c1] + g.col[c2] }
