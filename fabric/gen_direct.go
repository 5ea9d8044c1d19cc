package fabric

import (
	"math/bits"
	"strconv"
	"strings"
)

func genTorus(g *generator) error { return g.grid(true) }
func genMesh(g *generator) error  { return g.grid(false) }

// dims reads the dimensions and the hosts of a switch.
func (g *generator) dims() (d []int, hosts, switches int, err error) {
	if hosts, err = g.intOption("hosts", 1, 0, MaxPorts); err != nil {
		return
	}
	if d, err = g.ints(1, maxGenNodes); err != nil {
		return
	}
	if len(d) == 0 || len(d) > 16 {
		return nil, 0, 0, g.fail("", "%d dimensions were given; use 1 to 16, such as 8x8", len(d))
	}
	return d, hosts, mul(d...), nil
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
// dimension k, port 2k+2 to the previous one, hosts come after. A dimension
// of two switches has one cable, not two, in a torus as well.
func (g *generator) grid(wrap bool) error {
	d, hosts, n, err := g.dims()
	if err != nil {
		return err
	}
	if err := g.known(); err != nil {
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

// genHypercube joins switches whose numbers differ in one bit: port k+1 for
// bit k. Hosts come after.
func genHypercube(g *generator) error {
	hosts, err := g.intOption("hosts", 1, 0, MaxPorts)
	if err != nil {
		return err
	}
	v, err := g.fixed(1, false)
	if err != nil {
		return err
	}
	if v[0] > bits.Len(maxGenNodes)-1 {
		return g.fail(g.pos[0], "the fabric would be too large")
	}
	dims, n := v[0], 1<<v[0]
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

// genHyperX joins every two switches that differ in one coordinate by trunk
// cables. The ports of a dimension are in the order of the other's
// coordinate; hosts come after.
func genHyperX(g *generator) error {
	trunk, err := g.intOption("trunk", 1, 1, MaxPorts)
	if err != nil {
		return err
	}
	d, hosts, n, err := g.dims()
	if err != nil {
		return err
	}
	if err := g.known(); err != nil {
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
				for t := range trunk {
					// Seen from a, b is neighbour b-1; seen from b, a is a.
					g.b.Connect(first+i, base+(b-1)*trunk+t, first+i+(b-a)*step, base+a*trunk+t)
				}
			}
		}
		base += (d[k] - 1) * trunk
	}
	return nil
}

// genDragonfly makes groups of A fully connected switches. Ports: P hosts,
// then the other switches of the group, then H global ones.
func genDragonfly(g *generator) error {
	v, err := g.fixed(4, true)
	if err != nil {
		return err
	}
	a, p, h := v[0], v[1], v[2]
	most := mul(a, h) + 1
	groups := most
	if len(v) == 4 {
		groups = v[3]
	}
	if groups > most {
		return g.fail("", "%d groups; A·H+1 = %d can be joined directly", groups, most)
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

// genDragonflyPlus makes groups of leaves and spines, each leaf joined with
// each spine. Leaf ports: P hosts, then spines. Spine ports: leaves, then H
// global ones.
func genDragonflyPlus(g *generator) error {
	v, err := g.fixed(5, true)
	if err != nil {
		return err
	}
	leaves, spines, p, h := v[0], v[1], v[2], v[3]
	most := mul(spines, h) + 1
	groups := most
	if len(v) == 5 {
		groups = v[4]
	}
	if groups > most {
		return g.fail("", "%d groups; SPINES·H+1 = %d can be joined directly", groups, most)
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
