package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/lash"
)

// Peer routes fabrics as another manager does.
type Peer interface {
	// Lash brings f up with the manager's lash, and then cuts the cable at a port of a node.
	Lash(f *fabric.Fabric, node string, port int) (PeerLanes, error)
}

// PeerLanes are the pairs of switches in each lane, and what the cut took.
type PeerLanes struct {
	Before, Fitted, After []int         // Fitted: before lanes are balanced
	Sweeps                int           // after the cut, each of which routes anew
	Apart                 time.Duration // between the first and the last of them
}

// changed is how many pairs have another lane after the cut, if they had one lane before it.
func (l *PeerLanes) changed() (n int) {
	for _, k := range l.After[1:] {
		n += k
	}
	return n
}

// signalFabric is the network of a number of switches, with a host each, and the cable that is cut:
// the mesh of the test bed, or a square mesh and a cable in its middle.
func signalFabric(n int) (f *fabric.Fabric, node string, port int, err error) {
	if n == 6 {
		f, err = ringFabric(false)
		return f, "S2", 2, err
	}
	k := int(math.Sqrt(float64(n)))
	if k*k != n || k < 3 {
		return nil, "", 0, fmt.Errorf("%d switches: want 6, or the square of 3 or more", n)
	}
	f, err = fabric.Generate(fabric.Mesh{Dims: []int{k, k}, Hosts: 1}, fabric.GenerateOptions{})
	return f, fmt.Sprintf("sw-%d-%d", k/2-1, k/2-1), 3, err
}

// without is f without the cable at a port of a node.
func without(f *fabric.Fabric, node string, port int) *fabric.Fabric {
	for i := range f.Nodes {
		if f.Nodes[i].ID == node {
			a := fabric.Ref{Node: int32(i), Port: uint8(port)}
			b := f.Port(a).Peer
			f.Port(a).Peer, f.Port(b).Peer = fabric.NoRef(), fabric.NoRef()
		}
	}
	return f
}

// lanesDiffer is up to how many pairs more in a lane than in another OpenSM leaves.
const lanesDiffer = 5

// balanced is lash as OpenSM has it: everything is computed each time, and pairs of the first of two
// lanes go to the second, at random, until both have the same number. Heddle has no such mode: each pair
// that moves is a level that a host has to learn.
type balanced struct{ seed uint64 }

func (balanced) Name() string { return "lash, lanes balanced" }

func (b balanced) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	o.Previous = nil
	t, err := lash.Engine{}.Compute(g, o)
	if err != nil || t.NumVLs != 2 {
		return t, err
	}
	return balance(g, t, b.seed), nil
}

// balance moves pairs to the second lane, both directions at once, as long as its dependencies have
// no circle.
func balance(g *fabric.Graph, t *route.Tables, seed uint64) *route.Tables {
	t = t.Clone()
	t.Memo = nil
	n := len(g.Switches)
	lid := make([]ib.LID, n) // of a host of each switch
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Switch >= 0 && e.Type != ib.NodeSwitch {
			lid[e.Switch] = e.LID
		}
	}
	path := func(from, to int) (list []int32) {
		for s := int32(from); s != int32(to); {
			c := g.PortChannel[s][t.Entry(s, lid[to])]
			list = append(list, c)
			s = g.Channels[c].To
		}
		return list
	}
	second := make(dependencies, len(g.Channels))
	var pairs [][2]int
	count := [2]int{}
	for a := range n {
		for b := range a {
			level := t.SL[a*t.NumClasses+b]
			count[level] += 2
			if level == 1 {
				second.add(path(a, b))
				second.add(path(b, a))
			} else {
				pairs = append(pairs, [2]int{a, b})
			}
		}
	}
	rng := rand.New(rand.NewPCG(seed, 17))
	rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	for _, p := range pairs {
		if count[0]-count[1] <= lanesDiffer {
			break
		}
		if second.add(path(p[0], p[1]), path(p[1], p[0])) {
			t.SL[p[0]*t.NumClasses+p[1]], t.SL[p[1]*t.NumClasses+p[0]] = 1, 1
			count[0], count[1] = count[0]-2, count[1]+2
		}
	}
	return t
}

// dependencies are those of the channels of a lane: which wait for which.
type dependencies [][]int32

// add adds those of paths, unless that closes a circle.
func (d dependencies) add(paths ...[]int32) bool {
	type edge struct{ from, to int32 }
	var added []edge
	for _, p := range paths {
		for i := range max(len(p)-1, 0) {
			a, b := p[i], p[i+1]
			if d.has(a, b) {
				continue
			}
			if d.reaches(b, a) {
				for k := len(added) - 1; k >= 0; k-- {
					e := added[k]
					d[e.from] = d[e.from][:len(d[e.from])-1]
				}
				return false
			}
			d[a] = append(d[a], b)
			added = append(added, edge{a, b})
		}
	}
	return true
}

func (d dependencies) has(a, b int32) bool {
	return slices.Contains(d[a], b)
}

// reaches reports whether from waits for to, over others or not.
func (d dependencies) reaches(from, to int32) bool {
	seen := make([]bool, len(d))
	stack := []int32{from}
	for len(stack) > 0 {
		c := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if c == to {
			return true
		}
		for _, x := range d[c] {
			if !seen[x] {
				seen[x] = true
				stack = append(stack, x)
			}
		}
	}
	return false
}

// signalLanes is what a cut changes: pairs of switches with another level.
type signalLanes struct {
	peer             PeerLanes
	updated, afresh  int           // by Heddle's lash: repaired, and computed anew
	routed, compared time.Duration // median of computing the tables after the cut, and of route.DiffPaths
	found            int           // pairs of switches that DiffPaths finds to differ in level
}

// signalTries is how often times are measured.
const signalTries = 9

// lanes routes a network of n switches before and after the cut.
func (o *Options) lanes(n int) (x signalLanes, err error) {
	f, node, port, err := signalFabric(n)
	if err != nil {
		return x, err
	}
	if o.Peer != nil {
		if x.peer, err = o.Peer.Lash(f, node, port); err != nil {
			return x, err
		}
	}
	if err := fabric.AssignLIDs(f, 1); err != nil {
		return x, err
	}
	g, err := f.Graph(fabric.GraphOptions{VLs: 8})
	if err != nil {
		return x, err
	}
	h, err := without(f, node, port).Graph(fabric.GraphOptions{VLs: 8})
	if err != nil {
		return x, err
	}
	ro := route.Options{Workers: 1}
	t, err := lash.Engine{}.Compute(g, ro)
	if err != nil {
		return x, err
	}
	fresh, err := lash.Engine{}.Compute(h, ro)
	if err != nil {
		return x, err
	}
	x.afresh = levelsChanged(g, t, fresh)
	clock := o.clock()
	var routed, compared []time.Duration
	old, d := route.Solution{Graph: g, Tables: t}, fabric.Diff(g, h)
	for range signalTries {
		began := clock()
		u, err := lash.Engine{}.Update(old, h, d, ro)
		if err != nil {
			return x, err
		}
		routed = append(routed, clock()-began)
		began = clock()
		diff := route.DiffPaths(old, route.Solution{Graph: h, Tables: u}, d, 1)
		compared = append(compared, clock()-began)
		x.updated, x.found = levelsChanged(g, t, u), levelsFound(h, diff)
	}
	x.routed, x.compared = median(routed), median(compared)
	return x, nil
}

// levelsChanged counts ordered pairs of switches whose hosts use another level.
func levelsChanged(g *fabric.Graph, a, b *route.Tables) (n int) {
	for i := range g.EndPorts {
		if e := &g.EndPorts[i]; e.Type != ib.NodeSwitch {
			for s := range int32(len(g.Switches)) {
				if s != e.Switch && a.PathSL(s, e.LID) != b.PathSL(s, e.LID) {
					n++
				}
			}
		}
	}
	return n
}

// levelsFound counts ordered pairs of switches whose level differs by a route.PathDiff.
func levelsFound(g *fabric.Graph, d *route.PathDiff) (n int) {
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		if e.Type == ib.NodeSwitch {
			continue
		}
		d.To(e.LID, func(from, to int32, k route.PathKind) {
			for s := from; s < to; s++ {
				if s != e.Switch && k&route.PathSL != 0 {
					n++
				}
			}
		})
	}
	return n
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
