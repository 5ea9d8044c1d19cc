package fabric

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
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

// FatTree is one of the well-known fat trees of 36-port switches: Hosts is 324,
// 648, 2853, 2916, 5832 or 11664.
type FatTree struct{ Hosts int }

// XGFT is the extended generalized fat tree of Öhring et al. (1995). Children
// and Parents have a number for each level of switches, the lowest first: M1…MH
// and W1…WH of the paper.
type XGFT struct {
	Children []int // of a switch of the level, 1–16 levels
	Parents  []int // of a node of the level below
}

// KAry is the k-ary n-tree of Petrini and Vanneschi (1997): K^N hosts.
type KAry struct{ K, N int }

// MPort is the m-port n-tree of Lin et al. (2004): 2(M/2)^N hosts on switches of M
// ports, an even number.
type MPort struct{ M, N int }

// Kind is "fattree".
func (FatTree) Kind() string { return "fattree" }

// Kind is "xgft".
func (XGFT) Kind() string { return "xgft" }

// Kind is "kary".
func (KAry) Kind() string { return "kary" }

// Kind is "mport".
func (MPort) Kind() string { return "mport" }

func (t FatTree) generate(g *generator) error {
	var sizes []string
	for _, k := range wellKnown {
		if k.hosts == t.Hosts {
			if k.hosts == 2853 && g.total < 0 {
				g.total = k.hosts
			}
			return g.xgft(k.m, k.w)
		}
		sizes = append(sizes, strconv.Itoa(k.hosts))
	}
	return g.fail("Hosts", "there is no well-known fat tree of %d hosts; there are %s; use xgft or mport for others", t.Hosts, strings.Join(sizes, ", "))
}

func (t KAry) generate(g *generator) error {
	if err := cmp.Or(g.within("K", 1, maxGenNodes, t.K), g.within("N", 1, maxGenLevels, t.N)); err != nil {
		return err
	}
	m := slices.Repeat([]int{t.K}, t.N)
	w := slices.Clone(m)
	w[0] = 1
	return g.xgft(m, w)
}

func (t MPort) generate(g *generator) error {
	if err := cmp.Or(g.within("M", 2, maxGenNodes, t.M), g.within("N", 1, maxGenLevels, t.N)); err != nil {
		return err
	}
	if t.M%2 != 0 {
		return g.fail("M", "it is %d; a switch of an m-port tree has an even number of ports, half of them up", t.M)
	}
	m := slices.Repeat([]int{t.M / 2}, t.N)
	w := slices.Clone(m)
	m[t.N-1], w[0] = t.M, 1
	return g.xgft(m, w)
}

func (t XGFT) generate(g *generator) error {
	if h := len(t.Children); h < 1 || h > maxGenLevels || len(t.Parents) != h {
		return g.fail("", "%d numbers of children and %d of parents were given; want one of each for 1 to %d levels",
			h, len(t.Parents), maxGenLevels)
	}
	if err := cmp.Or(g.within("Children", 1, maxGenNodes, t.Children...), g.within("Parents", 1, maxGenNodes, t.Parents...)); err != nil {
		return err
	}
	return g.xgft(t.Children, t.Parents)
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
