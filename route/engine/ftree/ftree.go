// Package ftree routes fat trees: k-ary n-trees, extended generalized fat trees
// and their real, irregular variants.
//
// Sources: F. Petrini and M. Vanneschi, "k-ary n-trees: high performance
// networks for massively parallel architectures" (1997); S. Öhring, M. Ibel, S.
// Das and M. Kumar, "On generalized fat trees" (1995); E. Zahavi, G. Johnson, D.
// Kerbyson and M. Lang, "Optimized InfiniBand fat-tree routing for shift
// all-to-all communication patterns" (2010).
//
// Switches are ranked, and every link must join adjacent ranks. A packet goes up
// until its destination lies below, no higher than it must, then down: no cycle
// of channel dependencies can form. Each destination has a column, one switch
// and one link at each level, given by the digits of its number in the order of
// the tree: with k links up from a switch, number j uses link j mod k on the
// first level, j div k mod k on the second, and so on (d-mod-k). All packets on
// their way up to a destination use links of the same digit. On a complete tree
// with as many links up as down the paths of every shift permutation are then
// free of contention. The digit of a link depends on its upper switch, not on
// port numbers, so the cabling order does not matter.
//
// If the link of a digit is missing, in damaged or uneven trees, the
// destinations of a switch use its links with the fewest destinations so far;
// packets of other switches on their way up use links drawn by digit, then by
// rendezvous hashing (D. Thaler and C. Ravishankar, 1998). This depends only on
// the digits, which Update keeps, and not on history. So a failed link moves
// only the paths that used it, and its return moves them back.
//
// A pair without a path up then down, such as two top switches or, in a damaged
// tree, a host and a switch without a common switch above them, uses a path down
// to a pivot and up again. There is one pivot, a switch that can reach all, and
// every turn from down to up is at the pivot or a switch above it: if each of
// those has only one way down to the pivot, no cycle can contain a turn. If one
// pivot is not enough several are used and the tables are searched for cycles.
// CA ports have no such paths among themselves, unless they are I/O nodes.
//
// Cost: O(channels × switches/64) words for the sets of switches below each
// switch, and O(switches × LIDs) bytes of entries.
package ftree

import (
	"errors"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine"
)

// Engine computes fat-tree tables. The zero value is ready to use.
type Engine struct{}

// Name is "ftree".
func (Engine) Name() string { return "ftree" }

// Compute returns the tables, or an error that says why the fabric is not a
// tree that it can route: links within a rank, or two CA ports without a path
// up then down.
//
// Options used: Workers; Roots, the top switches (otherwise the lowest rank
// consists of the switches with many CAs, and the others follow); ComputeNodes,
// which are numbered in tree order before all others (nil: every CA is one);
// IONodes, which may lack a path up then down if MaxReverseHops hops up after
// one down are enough; Previous, from which the columns are read if they are as
// even as fresh ones.
func (Engine) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	if o.Previous != nil && len(o.Previous.LFT) != len(g.Switches) {
		return nil, route.Refuse("ftree", route.ErrInput, "previous tables are for %d switches, the graph has %d", len(o.Previous.LFT), len(g.Switches))
	}
	t, err := newTree(g, o, nil)
	if err != nil {
		return nil, err
	}
	return t.tables(o)
}

// tables fills the tables of a finished tree.
func (t *tree) tables(o route.Options) (*route.Tables, error) {
	g := t.g
	tb := route.New("ftree", t.n, g.TopLID)
	ws := make([]*scratch, max(o.Workers, 1))
	route.ForEach(o.Workers, t.n, func(w, i int) {
		if ws[w] == nil {
			ws[w] = t.newScratch()
		}
		t.fill(int32(i), tb.LFT[i], ws[w])
	})
	tb.Note, tb.Memo = t.note, t
	if err := t.verify(tb.LFT, o); err != nil {
		return nil, err
	}
	return tb, nil
}

var _ route.Updater = Engine{}

// errLayout: the layout of an older tree does not fit.
var errLayout = errors.New("ftree: the tree has changed too much")

// newTree ranks the fabric, computes the layout and every destination's column.
// It keeps the layout of was.
func newTree(g *fabric.Graph, o route.Options, was *past) (*tree, error) {
	for s := range g.Switches {
		if c := ib.LID(g.Switches[s].LinearFDBCap); c != 0 && c <= g.TopLID {
			return nil, route.Refuse("ftree", route.ErrTopology, "the table of switch %v ends at LID %d, the fabric's LIDs at %d", g.Switches[s].GUID, c-1, g.TopLID)
		}
	}
	t := &tree{g: g, n: len(g.Switches), asked: engine.Asked(o)}
	t.words = (t.n + 63) / 64
	t.options(o)
	t.findParts()
	if err := t.rank(o); err != nil {
		return nil, err
	}
	if was == nil {
		t.layOut()
		t.numbers()
	} else if err := t.keepLayout(was); err != nil {
		return nil, err
	}
	if !t.slotCables() {
		return nil, errLayout
	}
	if was == nil {
		t.renumber(o.Previous, o.Workers)
	}
	t.columns(o.Workers)
	t.pivots(was)
	return t, nil
}
