package fabric

import (
	"cmp"
	"math/bits"
	"strconv"
	"strings"
)

// Torus is a torus of any number of dimensions. A dimension of two switches has
// one cable, not two.
type Torus struct {
	Dims  []int // switches of each dimension, 1–16 of them
	Hosts int   // of each switch
}

// Mesh is a torus without the cables that close its rows.
type Mesh struct {
	Dims  []int
	Hosts int
}

// Kind is "torus".
func (Torus) Kind() string { return "torus" }

// Kind is "mesh".
func (Mesh) Kind() string { return "mesh" }

func (t Torus) generate(g *generator) error { return g.grid(t.Dims, t.Hosts, true) }
func (t Mesh) generate(g *generator) error  { return g.grid(t.Dims, t.Hosts, false) }

// dims checks dimensions and the hosts of a switch, and counts the switches.
func (g *generator) dims(d []int, hosts int) (switches int, err error) {
	if len(d) == 0 || len(d) > maxGenLevels {
		return 0, g.fail("Dims", "%d dimensions were given; use 1 to %d, such as 8x8", len(d), maxGenLevels)
	}
	if err := g.within("Dims", 1, maxGenNodes, d...); err != nil {
		return 0, err
	}
	return mul(d...), g.within("Hosts", 0, MaxPorts, hosts)
}

// addGrid adds the switches of a grid, the last coordinate fastest, and their
// hosts on the ports from port on. It returns the index of the first switch.
func (g *generator) addGrid(d []int, hosts, ports, port int) int {
	n := mul(d...)
	g.addHosts(n*hosts, 1)
	first := g.b.Len()
	coord := make([]int, len(d))
	for i := range n {
		var name strings.Builder
		name.WriteString("sw")
		for _, c := range coord {
			name.WriteString("-" + strconv.Itoa(c))
		}
		g.b.AddSwitch(name.String(), ports)
		for k := len(d) - 1; k >= 0; k-- {
			if coord[k]++; coord[k] < d[k] {
				break
			}
			coord[k] = 0
		}
		g.join(i*hosts, hosts, first+i, port)
	}
	return first
}

// strides gives how far apart neighbours of each dimension are.
func strides(d []int) []int {
	s := make([]int, len(d))
	step := 1
	for k := len(d) - 1; k >= 0; k-- {
		s[k] = step
		step *= d[k]
	}
	return s
}

// grid makes a torus or a mesh. Port 2k+1 leads to the next switch of
// dimension k, port 2k+2 to the previous one, hosts come after.
func (g *generator) grid(d []int, hosts int, wrap bool) error {
	n, err := g.dims(d, hosts)
	if err != nil {
		return err
	}
	ports := 2*len(d) + hosts
	if err := g.size(mul(n, hosts), n, ports); err != nil {
		return err
	}
	first := g.addGrid(d, hosts, ports, 2*len(d)+1)
	for k, step := range strides(d) {
		for i := range n {
			next := i + step
			if at := i / step % d[k]; at == d[k]-1 {
				if !wrap || d[k] <= 2 {
					continue
				}
				next = i - (d[k]-1)*step
			}
			g.b.Connect(first+i, 2*k+1, first+next, 2*k+2)
		}
	}
	return nil
}

// Hypercube is a hypercube of 2^Dims switches.
type Hypercube struct {
	Dims  int
	Hosts int // of each switch
}

// Kind is "hypercube".
func (Hypercube) Kind() string { return "hypercube" }

// generate joins switches whose numbers differ in one bit: port k+1 for bit k.
// Hosts come after.
func (t Hypercube) generate(g *generator) error {
	if err := g.within("Dims", 1, bits.Len(maxGenNodes)-1, t.Dims); err != nil {
		return err
	}
	if err := g.within("Hosts", 0, MaxPorts, t.Hosts); err != nil {
		return err
	}
	dims, hosts, n := t.Dims, t.Hosts, 1<<t.Dims
	if err := g.size(mul(n, hosts), n, dims+hosts); err != nil {
		return err
	}
	g.addHosts(n*hosts, 1)
	first := g.b.Len()
	for i := range n {
		name := strconv.FormatInt(int64(i)|1<<dims, 2)[1:]
		g.b.AddSwitch("sw-"+name, dims+hosts)
		g.join(i*hosts, hosts, first+i, dims+1)
	}
	for i := range n {
		for k := range dims {
			if j := i ^ 1<<k; j > i {
				g.b.Connect(first+i, k+1, first+j, k+1)
			}
		}
	}
	return nil
}

// HyperX is the HyperX of Ahn et al. (2009): every row of every dimension is
// fully connected.
type HyperX struct {
	Dims  []int // switches of each dimension, 1–16 of them
	Hosts int   // of each switch
	Trunk int   // cables between two switches; 0 means 1
}

// Kind is "hyperx".
func (HyperX) Kind() string { return "hyperx" }

// generate joins every two switches that differ in one coordinate by trunk
// cables. The ports of a dimension are in the order of the other's
// coordinate; hosts come after.
func (t HyperX) generate(g *generator) error {
	d, hosts, trunk := t.Dims, t.Hosts, max(t.Trunk, 1)
	if err := g.within("Trunk", 0, MaxPorts, t.Trunk); err != nil {
		return err
	}
	n, err := g.dims(d, hosts)
	if err != nil {
		return err
	}
	ports := hosts
	for _, s := range d {
		ports += mul(s-1, trunk)
	}
	if err := g.size(mul(n, hosts), n, ports); err != nil {
		return err
	}
	first := g.addGrid(d, hosts, ports, ports-hosts+1)
	base := 1 // first port of the dimension
	for k, step := range strides(d) {
		for i := range n {
			a := i / step % d[k]
			for b := a + 1; b < d[k]; b++ {
				for c := range trunk {
					// Seen from a, b is neighbour b-1; seen from b, a is a.
					g.b.Connect(first+i, base+(b-1)*trunk+c, first+i+(b-a)*step, base+a*trunk+c)
				}
			}
		}
		base += (d[k] - 1) * trunk
	}
	return nil
}

// Dragonfly is the dragonfly of Kim et al. (2008).
type Dragonfly struct {
	Switches int // of a group
	Hosts    int // of each switch
	Global   int // links to other groups of each switch
	Groups   int // 0: as many as can be joined directly, Switches·Global + 1
}

// Kind is "dragonfly".
func (Dragonfly) Kind() string { return "dragonfly" }

// groups is how many groups there are, each with so many links to others.
func (g *generator) groups(wanted, links int, product string) (int, error) {
	most := links + 1
	if wanted == 0 {
		return most, nil
	}
	if err := g.within("Groups", 1, maxGenNodes, wanted); err != nil {
		return 0, err
	}
	if wanted > most {
		return 0, g.fail("", "%d groups; %s+1 = %d can be joined directly", wanted, product, most)
	}
	return wanted, nil
}

// generate makes groups of fully connected switches. Ports: hosts, then the
// other switches of the group, then global ones.
func (t Dragonfly) generate(g *generator) error {
	a, p, h := t.Switches, t.Hosts, t.Global
	if err := cmp.Or(g.within("Switches", 1, maxGenNodes, a), g.within("Hosts", 1, maxGenNodes, p), g.within("Global", 1, maxGenNodes, h)); err != nil {
		return err
	}
	groups, err := g.groups(t.Groups, mul(a, h), "A·H")
	if err != nil {
		return err
	}
	n, ports := mul(a, groups), p+a-1+h
	if err := g.size(mul(n, p), n, ports); err != nil {
		return err
	}
	g.addHosts(n*p, 1)
	first := g.b.Len()
	for i := range n {
		g.b.AddSwitch("sw-"+strconv.Itoa(i/a)+"-"+strconv.Itoa(i%a), ports)
		g.join(i*p, p, first+i, 1)
	}
	for i := range n {
		for y := i%a + 1; y < a; y++ {
			x := i % a // seen from x, y is neighbour y-1; seen from y, x is x
			g.b.Connect(first+i, p+y, first+i-x+y, p+1+x)
		}
	}
	g.global(groups, a, h, func(group, sw, k int) (int, int) { return first + group*a + sw, p + a + k })
	return nil
}

// global joins groups of n switches with h global ports each. Every two
// groups get the same number of cables, as many as there are ports for; the
// rest of the ports stays free. Port i of a group, counted over its switches,
// leads to the group i mod (groups-1) + 1 further on.
func (g *generator) global(groups, n, h int, port func(group, sw, k int) (node, num int)) {
	if groups < 2 {
		return
	}
	for r := range n * h / (groups - 1) {
		for x := range groups {
			for y := x + 1; y < groups; y++ {
				i := r*(groups-1) + y - x - 1
				j := r*(groups-1) + groups - (y - x) - 1
				a, ap := port(x, i/h, i%h)
				c, cp := port(y, j/h, j%h)
				g.b.Connect(a, ap, c, cp)
			}
		}
	}
}

// DragonflyPlus is the dragonfly+ of Shpiner et al. (2017): groups of leaves and
// spines.
type DragonflyPlus struct {
	Leaves, Spines int // of a group
	Hosts          int // of each leaf
	Global         int // links to other groups of each spine
	Groups         int // 0: as many as can be joined directly, Spines·Global + 1
}

// Kind is "dragonfly+".
func (DragonflyPlus) Kind() string { return "dragonfly+" }

// generate joins each leaf of a group with each of its spines. Leaf ports:
// hosts, then spines. Spine ports: leaves, then global ones.
func (t DragonflyPlus) generate(g *generator) error {
	leaves, spines, p, h := t.Leaves, t.Spines, t.Hosts, t.Global
	if err := cmp.Or(
		g.within("Leaves", 1, maxGenNodes, leaves), g.within("Spines", 1, maxGenNodes, spines),
		g.within("Hosts", 1, maxGenNodes, p), g.within("Global", 1, maxGenNodes, h),
	); err != nil {
		return err
	}
	groups, err := g.groups(t.Groups, mul(spines, h), "SPINES·H")
	if err != nil {
		return err
	}
	if err := g.size(mul(groups, leaves, p), mul(groups, leaves+spines), max(p+spines, leaves+h)); err != nil {
		return err
	}
	g.addHosts(groups*leaves*p, 1)
	first := g.b.Len()
	for x := range groups {
		for l := range leaves {
			sw := g.b.AddSwitch("leaf-"+strconv.Itoa(x)+"-"+strconv.Itoa(l), p+spines)
			g.join((x*leaves+l)*p, p, sw, 1)
		}
		for s := range spines {
			sw := g.b.AddSwitch("spine-"+strconv.Itoa(x)+"-"+strconv.Itoa(s), leaves+h)
			for l := range leaves {
				g.b.Connect(sw-s-leaves+l, p+1+s, sw, 1+l)
			}
		}
	}
	size := leaves + spines
	g.global(groups, spines, h, func(group, sw, k int) (int, int) {
		return first + group*size + leaves + sw, leaves + 1 + k
	})
	return nil
}
