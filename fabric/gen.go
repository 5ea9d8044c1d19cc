package fabric

import (
	"fmt"
	"strconv"

	"heddle/ib"
)

// Bounds of what Generate makes; they keep a slip of the pen from filling the
// memory.
const (
	maxGenNodes  = 1 << 17
	maxGenPorts  = 1 << 22
	maxGenLevels = 16 // levels of a tree, dimensions of a grid
)

// Topology is a kind of fabric that Generate can make, and its size: FatTree,
// XGFT, KAry, MPort, Torus, Mesh, Hypercube, HyperX, Dragonfly, DragonflyPlus or
// Irregular.
type Topology interface {
	// Kind is the name that ParseTopology knows it by: "fattree".
	Kind() string
	generate(g *generator) error
}

// GenerateOptions are what every kind of fabric can be given.
type GenerateOptions struct {
	Speed    ib.LinkSpeed // of all links; 0: EDR
	Width    ib.LinkWidth // of all links; 0: 4x
	MaxHosts int          // hosts beyond so many are left out; 0: none are
}

// GenerateError says what is wrong with the parameters of Generate or
// ParseTopology.
type GenerateError struct {
	Kind   string // "torus"
	Param  string // a field of the Topology, or a parameter as given; "" if it is about all of them
	Reason string
	Usage  string // of ParseTopology: how the kind is written; may be empty
}

// Error ends with how the kind is used.
func (e *GenerateError) Error() string {
	s := "fabric: generate " + e.Kind
	if e.Param != "" {
		s += ": parameter " + quoteName(e.Param)
	}
	s += ": " + e.Reason
	if e.Usage != "" {
		s += "; usage: " + e.Usage
	}
	return s
}

// Generate makes a fabric. The result depends on nothing but the arguments.
// Hosts come first, in order, then the switches. An error is a *GenerateError.
func Generate(t Topology, o GenerateOptions) (*Fabric, error) {
	g := &generator{kind: t.Kind(), total: -1}
	g.b.Speed, g.b.Width = o.Speed, o.Width
	switch {
	case o.MaxHosts < 0 || o.MaxHosts > maxGenNodes:
		return nil, g.fail("MaxHosts", "it is %d; want 0 to %d", o.MaxHosts, maxGenNodes)
	case o.Speed != 0 && o.Speed.LaneGbps() == 0:
		return nil, g.fail("Speed", "%d is no speed of a link", o.Speed)
	case o.Width != 0 && o.Width.Lanes() == 0:
		return nil, g.fail("Width", "%d is no width of a link", o.Width)
	case o.MaxHosts > 0:
		g.total = o.MaxHosts
	}
	if err := t.generate(g); err != nil {
		return nil, err
	}
	f, err := g.b.Build()
	if err != nil {
		return nil, fmt.Errorf("fabric: generate %s: %w", g.kind, err)
	}
	return f, nil
}

// splitMix is the SplitMix64 generator of Steele, Lea and Flood (2014): its
// numbers stay the same whatever the standard library does.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// intn is a number from 0 to n-1. The bias, n/2^64, does not matter here.
func (s *splitMix) intn(n int) int { return int(s.next() % uint64(n)) }

// generator is one call of Generate.
type generator struct {
	kind  string
	rng   splitMix // of Irregular
	b     Builder
	total int // hosts wanted at most, -1: all
	hosts int // hosts made
}

func (g *generator) fail(field, format string, a ...any) error {
	return &GenerateError{Kind: g.kind, Param: field, Reason: fmt.Sprintf(format, a...)}
}

// within fails if a field is not from lo to hi.
func (g *generator) within(field string, lo, hi int, values ...int) error {
	for _, v := range values {
		if v < lo || v > hi {
			return g.fail(field, "it is %d; want %d to %d", v, lo, hi)
		}
	}
	return nil
}

// size checks numbers of hosts, switches and ports before anything is made.
func (g *generator) size(hosts, switches, ports int) error {
	if ports > MaxPorts {
		return g.fail("", "a switch would need %d ports; it can have %d", ports, MaxPorts)
	}
	if hosts < 0 || switches < 0 || hosts > maxGenNodes || switches > maxGenNodes || hosts+switches > maxGenNodes || switches*(ports+1)+2*hosts > maxGenPorts {
		return g.fail("", "the fabric would be too large: at most %d nodes can be made", maxGenNodes)
	}
	return nil
}

// mul multiplies numbers ≥ 0 and stays above maxGenNodes once it is there.
func mul(v ...int) int {
	p := 1
	for _, n := range v {
		if n == 0 {
			return 0
		}
		if p > maxGenNodes/n {
			p = maxGenNodes + 1
			continue
		}
		p *= n
	}
	return p
}

// addHosts adds n hosts and returns the index of the first. Hosts beyond
// total are left out: indices from first+made on do not exist.
func (g *generator) addHosts(n, ports int) (made int) {
	if g.total >= 0 {
		n = min(n, g.total)
	}
	for i := range n {
		g.b.AddCA("host-"+strconv.Itoa(i+1), ports)
	}
	g.hosts = n
	return n
}

// join gives switch sw its hosts first, first+1, … on its ports from port on.
func (g *generator) join(first, n, sw, port int) {
	for i := range n {
		if first+i < g.hosts {
			g.b.Connect(first+i, 1, sw, port+i)
		}
	}
}
