package fabric

import (
	"fmt"
	"strconv"
	"strings"

	"heddle/ib"
)

// Bounds of what Generate makes; they keep a slip of the pen from filling the
// memory.
const (
	maxGenNodes = 1 << 17
	maxGenPorts = 1 << 22
)

// Kind is a kind of fabric that Generate can make.
type Kind struct {
	Name   string
	Params string // what the parameters are, for help
	Help   string // one line
	gen    func(*generator) error
}

// kinds is in the order in which help shows it.
var kinds = []Kind{
	{"fattree", "HOSTS", "well-known fat trees of 36-port switches: HOSTS is 324, 648, 2853, 2916, 5832 or 11664", genFatTree},
	{"xgft", "H M1,…,MH W1,…,WH", "extended generalized fat tree of Öhring et al. (1995), H levels of switches", genXGFT},
	{"kary", "K N", "k-ary n-tree of Petrini and Vanneschi (1997): K^N hosts", genKary},
	{"mport", "M N", "m-port n-tree of Lin et al. (2004): 2(M/2)^N hosts on M-port switches", genMPort},
	{"torus", "D1xD2x… [hosts=1]", "torus of any number of dimensions", genTorus},
	{"mesh", "D1xD2x… [hosts=1]", "mesh of any number of dimensions", genMesh},
	{"hypercube", "N [hosts=1]", "hypercube of 2^N switches", genHypercube},
	{"hyperx", "D1xD2x… [hosts=1] [trunk=1]", "HyperX of Ahn et al. (2009): every row of every dimension fully connected", genHyperX},
	{"dragonfly", "A P H [G]", "dragonfly of Kim et al. (2008): groups of A switches with P hosts and H global links each", genDragonfly},
	{"dragonfly+", "LEAVES SPINES P H [G]", "dragonfly+ of Shpiner et al. (2017): two-level groups, P hosts a leaf, H global links a spine", genDragonflyPlus},
	{"irregular", "SWITCHES [ports=4] [hosts=1] [links=N]", "random connected network, a host on each switch that has a port left", genIrregular},
}

// commonOptions can be given to every kind.
const commonOptions = "[speed=EDR] [width=4x] [total=HOSTS]"

// Kinds lists what Generate can make.
func Kinds() []Kind { return append([]Kind(nil), kinds...) }

// Usage is the line that says how to call a kind.
func (k Kind) Usage() string { return k.Name + " " + k.Params + " " + commonOptions }

// GenerateError says what is wrong with the parameters of Generate.
type GenerateError struct {
	Kind   string
	Param  string // as given, "" if it is about all of them
	Reason string
	Usage  string
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

// Generate makes a fabric of a kind (see Kinds). The result depends on
// nothing but the arguments; only the irregular kind uses the seed. Hosts
// come first, in order, then the switches. A number of parameters may be one
// string separated by blanks, commas or semicolons. Parameters with '=' are
// options; every kind knows
//
//	speed=EDR width=4x  of all links
//	total=N             leave out hosts beyond the first N
func Generate(kind string, params []string, seed uint64) (*Fabric, error) {
	for _, k := range kinds {
		if k.Name != strings.ToLower(kind) {
			continue
		}
		g := &generator{kind: k, opts: map[string]string{}, rng: splitMix(seed), total: -1}
		f, err := g.run(params)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return nil, &GenerateError{Kind: quoteName(kind), Reason: "there is no such kind; there are " + strings.Join(names, ", ")}
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
	kind  Kind
	pos   []string // positional parameters
	opts  map[string]string
	used  []string // options asked for
	rng   splitMix
	b     Builder
	total int // hosts wanted at most, -1: all
	hosts int // hosts made
}

func (g *generator) fail(param, format string, a ...any) error {
	return &GenerateError{Kind: g.kind.Name, Param: param, Reason: fmt.Sprintf(format, a...), Usage: g.kind.Usage()}
}

func (g *generator) run(params []string) (*Fabric, error) {
	for _, p := range params {
		if len(p) > 1000 {
			return nil, g.fail(p, "it is too long")
		}
		for _, w := range strings.FieldsFunc(p, func(r rune) bool { return r == ' ' || r == ';' || r == '\t' }) {
			name, val, ok := strings.Cut(w, "=")
			if !ok {
				g.pos = append(g.pos, w)
				continue
			}
			if _, dup := g.opts[name]; dup {
				return nil, g.fail(w, "the option is given twice")
			}
			g.opts[name] = val
		}
	}
	if err := g.common(); err != nil {
		return nil, err
	}
	if err := g.kind.gen(g); err != nil {
		return nil, err
	}
	f, err := g.b.Build()
	if err != nil {
		return nil, fmt.Errorf("fabric: generate %s: %w", g.kind.Name, err)
	}
	return f, nil
}

func (g *generator) common() (err error) {
	if v, ok := g.option("speed"); ok {
		if g.b.Speed, err = ib.ParseLinkSpeed(v); err != nil {
			return g.fail("speed="+v, "the speed must be SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR")
		}
	}
	if v, ok := g.option("width"); ok {
		if g.b.Width, err = ib.ParseLinkWidth(v); err != nil {
			return g.fail("width="+v, "the width must be 1x, 2x, 4x, 8x or 12x")
		}
	}
	if _, ok := g.option("total"); ok {
		if g.total, err = g.intOption("total", 0, 1, maxGenNodes); err != nil {
			return err
		}
	}
	return nil
}

// option returns an option and notes that it is known.
func (g *generator) option(name string) (string, bool) {
	g.used = append(g.used, name)
	v, ok := g.opts[name]
	return v, ok
}

func (g *generator) intOption(name string, def, lo, hi int) (int, error) {
	v, ok := g.option(name)
	if !ok {
		return def, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi {
		return 0, g.fail(name+"="+v, "it must be a number from %d to %d", lo, hi)
	}
	return n, nil
}

// known fails if there is an option that nobody asked for. A kind calls it
// once it has read its own.
func (g *generator) known() error {
	least := ""
	for n := range g.opts {
		asked := false
		for _, u := range g.used {
			asked = asked || u == n
		}
		if !asked && (least == "" || n < least) {
			least = n
		}
	}
	if least == "" {
		return nil
	}
	return g.fail(least+"="+g.opts[least], "there is no such option")
}

// ints reads all positional parameters as numbers; the separators ',' and 'x'
// join several in one.
func (g *generator) ints(lo, hi int) ([]int, error) {
	var out []int
	for _, p := range g.pos {
		for _, w := range strings.FieldsFunc(p, func(r rune) bool { return r == ',' || r == 'x' || r == 'X' }) {
			n, err := g.number(w, lo, hi)
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
	}
	return out, nil
}

func (g *generator) number(w string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(w)
	if err != nil || n < lo || n > hi {
		return 0, g.fail(w, "it must be a number from %d to %d", lo, hi)
	}
	return n, nil
}

// fixed reads exactly n numbers, or n-1 where the last may be left out.
func (g *generator) fixed(n int, lastOptional bool) ([]int, error) {
	v, err := g.ints(1, maxGenNodes)
	if err != nil {
		return nil, err
	}
	if len(v) == n || lastOptional && len(v) == n-1 {
		return v, g.known()
	}
	return nil, g.fail("", "%d numbers were given", len(v))
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
