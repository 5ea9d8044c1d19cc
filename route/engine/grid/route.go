package grid

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/route"
)

// NoBit marks a dimension without a date line.
const NoBit = 0xFF

// Options are how a grid is to be routed.
type Options struct {
	Engine  string
	Budget  int // lanes that may be used
	Workers int
	// Bits gives, by dimension, the bit of the service level that says
	// whether a path crosses the date line of its ring; NoBit: there is none.
	Bits []uint8
	// Around allows turns against the order of the dimensions, next to
	// missing switches and cut lines only.
	Around bool
	// Classes requests a second set of lanes for service levels 8 to 15, if there
	// are enough.
	Classes bool
	// HostOrder is the order in which the ports of a switch use parallel links in
	// turn; nil: ascending.
	HostOrder []uint8
}

// Route computes tables in dimension order.
//
// On each ring a packet takes the shorter direction. For opposite switches both
// are equal; the choice depends on the packet's entry to the ring and on its
// destination, so that the load is even. The path's service level says which
// date lines it crosses, and each link uses the lane given by the bit of its
// dimension. Paths on lane 0 of a ring never cross the date line; those on lane
// 1 all do, and no two of them span the whole ring: neither lane has a cycle
// (after W. J. Dally and C. L. Seitz, 1987; OpenSM's torus-2QoS(8)). A ring
// that is cut is a path: packets take the remaining direction, regardless of
// their level.
//
// With Around, a packet that cannot continue in its dimension, because the
// switch where it would turn is missing or because the line is cut, first makes
// one step in a later dimension. The next turn is against the order; the hop
// after it uses separate lanes. For such grids Route computes whether that
// closes a cycle, tries other orders of the dimensions too, and refuses a grid
// that it cannot route.
//
// Cost: O(switches² × dimensions + switches × LIDs); damaged grids
// O(switches² × diameter) more.
func Route(n *Net, gr *Grid, o Options) (*route.Tables, error) {
	g := n.g
	for s := range g.Switches {
		if c := ib.LID(g.Switches[s].LinearFDBCap); c != 0 && c <= g.TopLID {
			return nil, fmt.Errorf("the table of switch %v holds %d entries, the top LID is %d", g.Switches[s].GUID, c, g.TopLID)
		}
	}
	r := newRouter(n, gr, o)
	legal := 1
	for _, b := range o.Bits {
		if b != NoBit {
			legal = 2
		}
	}
	if o.Budget < legal {
		return nil, &lanesError{r.tooFew(legal)}
	}
	spare, err := r.plan(legal)
	if err != nil {
		return nil, err
	}
	if o.Around && o.Classes && legal > 1 && 4*legal <= o.Budget {
		spare = legal // keeps the lane tables as they are when a switch fails
	}
	return r.tables(legal, spare), nil
}

// noLanes says that turns against the order need no separate lanes.
const noLanes = 0

// plan chooses the order of the dimensions and the number of separate lanes for
// hops after turns against the order.
func (r *router) plan(legal int) (spare int, err error) {
	if r.whole() {
		return noLanes, nil
	}
	orders := permutations(len(r.gr.Dims))
	if !r.o.Around {
		orders = orders[:1]
	}
	var first error
	need := 0 // lanes that would do
	for _, order := range orders {
		r.setOrder(order)
		turns, err := r.walk()
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		options := []int{noLanes}
		if turns {
			// One lane for each bit of the date lines; one for all; none.
			options = slices.Compact([]int{legal, 1, noLanes})
		}
		for _, spare := range options {
			fits := legal+spare <= r.o.Budget
			if !fits && need != 0 && need <= legal+spare {
				continue
			}
			if r.acyclic(legal, spare) {
				if fits {
					return spare, nil
				}
				need = legal + spare
			}
		}
	}
	r.setOrder(orders[0])
	switch {
	case need > 0:
		return 0, &lanesError{r.tooFew(need)}
	case first != nil:
		return 0, first
	}
	return 0, fmt.Errorf("paths around the missing parts of the %v would close a cycle", r.gr)
}

// lanesError is a route.ErrLanes.
type lanesError struct{ reason string }

func (e *lanesError) Error() string { return e.reason }
func (e *lanesError) Unwrap() error { return route.ErrLanes }

// tooFew names the lanes needed and the link that has the fewest.
func (r *router) tooFew(need int) string {
	g := r.n.g
	worst := -1
	for c := range g.Channels {
		if worst < 0 || g.Channels[c].VLs < g.Channels[worst].VLs {
			worst = c
		}
	}
	are := "are"
	if r.o.Budget == 1 {
		are = "is"
	}
	why := fmt.Sprintf("the %v needs %d lanes, %d %s allowed", r.gr, need, r.o.Budget, are)
	if worst >= 0 && int(max(g.Channels[worst].VLs, 1)) <= r.o.Budget {
		c := &g.Channels[worst]
		why += fmt.Sprintf(" (link %v port %d has %d)", g.Switches[c.From].GUID, c.OutPort, max(c.VLs, 1))
	}
	return why
}

func permutations(n int) [][]int {
	base := make([]int, n)
	for i := range base {
		base[i] = i
	}
	out := [][]int{base}
	if n > 3 {
		return out
	}
	for {
		// The next in lexicographic order.
		p := slices.Clone(out[len(out)-1])
		i := n - 2
		for i >= 0 && p[i] > p[i+1] {
			i--
		}
		if i < 0 {
			return out
		}
		j := n - 1
		for p[j] < p[i] {
			j--
		}
		p[i], p[j] = p[j], p[i]
		slices.Reverse(p[i+1:])
		out = append(out, p)
	}
}
