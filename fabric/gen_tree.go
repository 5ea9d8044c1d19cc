package fabric

import (
	"fmt"
	"strings"

	"heddle/ib"
)

// wellKnown are the fat trees that papers and vendors speak of by their
// number of hosts: all of 36-port switches, m and w of their XGFT.
var wellKnown = []struct {
	hosts int
	m, w  []int
}{
	{324, []int{18, 18}, []int{1, 18}},           // 36 switches
	{648, []int{18, 36}, []int{1, 18}},           // 54, full bisection of 36 leaves
	{2853, []int{18, 18, 9}, []int{1, 18, 18}},   // of 2,916: with 17 LIDs a host it fills the LID space
	{2916, []int{18, 18, 9}, []int{1, 18, 18}},   // 648
	{5832, []int{18, 18, 18}, []int{1, 18, 18}},  // 972
	{11664, []int{18, 18, 36}, []int{1, 18, 18}}, // 1,620: the 36-port 3-tree
}

func genFatTree(g *generator) error {
	v, err := g.fixed(1, false)
	if err != nil {
		return err
	}
	var sizes strings.Builder
	for _, k := range wellKnown {
		if k.hosts == v[0] {
			if k.hosts == 2853 && g.total < 0 {
				g.total = k.hosts
			}
			return g.xgft(k.m, k.w)
		}
		sizes.WriteString(fmt.Sprintf(" %d", k.hosts))
	}
	return g.fail(g.pos[0], "there is no well-known fat tree of this size; there are%s; use xgft or mport for others", sizes.String())
}

func genKary(g *generator) error {
	v, err := g.fixed(2, false)
	if err != nil {
		return err
	}
	k, n := v[0], v[1]
	if n > 16 {
		return g.fail(g.pos[len(g.pos)-1], "a tree has 1 to 16 levels")
	}
	m, w := make([]int, n), make([]int, n)
	for i := range n {
		m[i], w[i] = k, k
	}
	w[0] = 1
	return g.xgft(m, w)
}

func genMPort(g *generator) error {
	v, err := g.fixed(2, false)
	if err != nil {
		return err
	}
	ports, n := v[0], v[1]
	if ports%2 != 0 {
		return g.fail("", "M is %d; a switch of an m-port tree has an even number of ports, half of them up", ports)
	}
	if n > 16 {
		return g.fail("", "a tree has 1 to 16 levels")
	}
	m, w := make([]int, n), make([]int, n)
	for i := range n {
		m[i], w[i] = ports/2, ports/2
	}
	m[n-1], w[0] = ports, 1
	return g.xgft(m, w)
}

// genXGFT accepts "3 18,18,9 1,18,18", "3;18,18,9;1,18,18" and
// "XGFT(3;18,18,9;1,18,18)".
func genXGFT(g *generator) error {
	if err := g.known(); err != nil {
		return err
	}
	for i, p := range g.pos {
		if len(p) > 5 && strings.EqualFold(p[:5], "xgft(") {
			p = p[5:]
		}
		g.pos[i] = strings.TrimSuffix(p, ")")
	}
	v, err := g.ints(1, maxGenNodes)
	if err != nil {
		return err
	}
	if len(v) == 0 || v[0] > 16 || len(v) != 1+2*v[0] {
		return g.fail("", "%d numbers were given; wanted are the levels H (1–16), H numbers of children and H numbers of parents", len(v))
	}
	return g.xgft(v[1:1+v[0]], v[1+v[0]:])
}

// xgft makes XGFT(h; m1…mh; w1…wh) of Öhring, Ibel, Das and Kumar (1995):
// every node of level i-1 has w_i parents, every node of level i has m_i
// children; hosts are level 0. A node of level l is a string of digits, digit
// i below w_i for i ≤ l and below m_i for i > l; it is joined with the nodes
// of the next level that differ from it in digit l+1 alone. Ports 1…m lead
// down, by the digit of the child, the others up, by that of the parent.
func (g *generator) xgft(m, w []int) error {
	h := len(m)
	count := make([]int, h+1) // nodes of each level
	for l := range count {
		count[l] = mul(append(append([]int{}, w[:l]...), m[l:]...)...)
	}
	switches, most := 0, 0
	for l := 1; l <= h; l++ {
		ports := m[l-1]
		if l < h {
			ports += w[l]
		}
		most = max(most, ports)
		switches += count[l]
	}
	if err := g.size(count[0], switches, most); err != nil {
		return err
	}
	if w[0] > MaxPorts {
		return g.fail("", "a host would need %d ports; it can have %d", w[0], MaxPorts)
	}
	hosts := g.addHosts(count[0], w[0])
	first := make([]int, h+1)
	for l := 1; l <= h; l++ {
		first[l] = g.b.Len()
		ports := m[l-1]
		if l < h {
			ports += w[l]
		}
		for i := range count[l] {
			g.b.Add(ib.NodeSwitch, fmt.Sprintf("sw-%d-%d", l, i+1), ports)
		}
	}
	// The number of a node is that of its digits, digit h the most
	// significant. Going up from level l to l+1 changes the radix of digit
	// l+1 from m to w; the digits below it, all of radix w, keep their
	// weight.
	below := 1
	for l := range h {
		mm, ww := m[l], w[l]
		for i := range count[l] {
			if l == 0 && i >= hosts {
				break
			}
			low, digit, high := i%below, i/below%mm, i/below/mm
			for j := range ww {
				parent := first[l+1] + (high*ww+j)*below + low
				port := 1 + j
				if l > 0 {
					port += m[l-1]
				}
				g.b.Connect(first[l]+i, port, parent, 1+digit)
			}
		}
		below *= ww
	}
	return nil
}
