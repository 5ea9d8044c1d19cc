package fabric

import (
	"fmt"
	"strconv"
	"strings"

	"heddle/ib"
)

// Kind is a kind of fabric that ParseTopology knows.
type Kind struct {
	Name   string
	Params string // what the parameters are, for help
	Help   string // one line
	parse  func(*words) (Topology, error)
}

// kinds is in the order in which help shows it.
var kinds = []Kind{
	{"fattree", "HOSTS", "well-known fat trees of 36-port switches: HOSTS is 324, 648, 2853, 2916, 5832 or 11664", parseFatTree},
	{"xgft", "H M1,…,MH W1,…,WH", "extended generalized fat tree of Öhring et al. (1995), H levels of switches", parseXGFT},
	{"kary", "K N", "k-ary n-tree of Petrini and Vanneschi (1997): K^N hosts", parseKAry},
	{"mport", "M N", "m-port n-tree of Lin et al. (2004): 2(M/2)^N hosts on M-port switches", parseMPort},
	{"torus", "D1xD2x… [hosts=1]", "torus of any number of dimensions", parseTorus},
	{"mesh", "D1xD2x… [hosts=1]", "mesh of any number of dimensions", parseMesh},
	{"hypercube", "N [hosts=1]", "hypercube of 2^N switches", parseHypercube},
	{"hyperx", "D1xD2x… [hosts=1] [trunk=1]", "HyperX of Ahn et al. (2009): every row of every dimension fully connected", parseHyperX},
	{"dragonfly", "A P H [G]", "dragonfly of Kim et al. (2008): groups of A switches with P hosts and H global links each", parseDragonfly},
	{"dragonfly+", "LEAVES SPINES P H [G]", "dragonfly+ of Shpiner et al. (2017): two-level groups, P hosts a leaf, H global links a spine", parseDragonflyPlus},
	{"irregular", "SWITCHES [ports=4] [hosts=1] [links=N]", "random connected network, a host on each switch that has a port left", parseIrregular},
}

// commonOptions can be given to every kind.
const commonOptions = "[speed=EDR] [width=4x] [total=HOSTS]"

// Kinds lists what ParseTopology knows.
func Kinds() []Kind { return append([]Kind(nil), kinds...) }

// Usage is the line that says how a kind is written.
func (k Kind) Usage() string { return k.Name + " " + k.Params + " " + commonOptions }

// ParseTopology reads what Generate is to make from the words of a command line:
// a kind (see Kinds) and its parameters. Only the irregular kind uses the seed.
// A number of parameters may be one string separated by blanks, commas or
// semicolons. Parameters with '=' are options; every kind knows
//
//	speed=EDR width=4x  of all links
//	total=N             leave out hosts beyond the first N
//
// An error is a *GenerateError with the usage of the kind.
func ParseTopology(kind string, params []string, seed uint64) (Topology, GenerateOptions, error) {
	for _, k := range kinds {
		if k.Name == strings.ToLower(kind) {
			w := &words{kind: k, seed: seed, opts: map[string]string{}}
			return w.read(params)
		}
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	reason := "there is no such kind; there are " + strings.Join(names, ", ")
	return nil, GenerateOptions{}, &GenerateError{Kind: quoteName(kind), Reason: reason}
}

// words are the parameters of one call of ParseTopology.
type words struct {
	kind Kind
	seed uint64
	pos  []string // positional parameters
	opts map[string]string
	used []string // options asked for
}

func (w *words) fail(param, format string, a ...any) error {
	return &GenerateError{Kind: w.kind.Name, Param: param, Reason: fmt.Sprintf(format, a...), Usage: w.kind.Usage()}
}

func (w *words) read(params []string) (Topology, GenerateOptions, error) {
	var o GenerateOptions
	for _, p := range params {
		if len(p) > 1000 {
			return nil, o, w.fail(p, "it is too long")
		}
		for _, f := range strings.FieldsFunc(p, func(r rune) bool { return r == ' ' || r == ';' || r == '\t' }) {
			name, val, ok := strings.Cut(f, "=")
			if !ok {
				w.pos = append(w.pos, f)
				continue
			}
			if _, dup := w.opts[name]; dup {
				return nil, o, w.fail(f, "the option is given twice")
			}
			w.opts[name] = val
		}
	}
	if err := w.common(&o); err != nil {
		return nil, o, err
	}
	t, err := w.kind.parse(w)
	if err == nil {
		err = w.known()
	}
	if err != nil {
		return nil, GenerateOptions{}, err
	}
	return t, o, nil
}

func (w *words) common(o *GenerateOptions) (err error) {
	if v, ok := w.option("speed"); ok {
		if o.Speed, err = ib.ParseLinkSpeed(v); err != nil {
			return w.fail("speed="+v, "the speed must be SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR")
		}
	}
	if v, ok := w.option("width"); ok {
		if o.Width, err = ib.ParseLinkWidth(v); err != nil {
			return w.fail("width="+v, "the width must be 1x, 2x, 4x, 8x or 12x")
		}
	}
	o.MaxHosts, err = w.intOption("total", 0, 1, maxGenNodes)
	return err
}

// option returns an option and notes that it is known.
func (w *words) option(name string) (string, bool) {
	w.used = append(w.used, name)
	v, ok := w.opts[name]
	return v, ok
}

func (w *words) intOption(name string, def, lo, hi int) (int, error) {
	v, ok := w.option(name)
	if !ok {
		return def, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi {
		return 0, w.fail(name+"="+v, "it must be a number from %d to %d", lo, hi)
	}
	return n, nil
}

// known fails if there is an unknown option.
func (w *words) known() error {
	least := ""
	for n := range w.opts {
		asked := false
		for _, u := range w.used {
			asked = asked || u == n
		}
		if !asked && (least == "" || n < least) {
			least = n
		}
	}
	if least == "" {
		return nil
	}
	return w.fail(least+"="+w.opts[least], "there is no such option")
}

// ints reads all positional parameters as numbers; the separators ',' and 'x'
// join several in one.
func (w *words) ints(lo, hi int) ([]int, error) {
	var out []int
	for _, p := range w.pos {
		for _, f := range strings.FieldsFunc(p, func(r rune) bool { return r == ',' || r == 'x' || r == 'X' }) {
			n, err := w.number(f, lo, hi)
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
	}
	return out, nil
}

func (w *words) number(text string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < lo || n > hi {
		return 0, w.fail(text, "it must be a number from %d to %d", lo, hi)
	}
	return n, nil
}

// fixed reads exactly n numbers, or n-1 where the last may be left out: 0 then.
func (w *words) fixed(n int, lastOptional bool) ([]int, error) {
	v, err := w.ints(1, maxGenNodes)
	switch {
	case err != nil:
		return nil, err
	case len(v) == n:
		return v, nil
	case lastOptional && len(v) == n-1:
		return append(v, 0), nil
	}
	return nil, w.fail("", "%d numbers were given", len(v))
}

func parseFatTree(w *words) (Topology, error) {
	v, err := w.fixed(1, false)
	if err != nil {
		return nil, err
	}
	return FatTree{Hosts: v[0]}, nil
}

func parseKAry(w *words) (Topology, error) {
	v, err := w.fixed(2, false)
	if err != nil {
		return nil, err
	}
	return KAry{K: v[0], N: v[1]}, nil
}

func parseMPort(w *words) (Topology, error) {
	v, err := w.fixed(2, false)
	if err != nil {
		return nil, err
	}
	return MPort{M: v[0], N: v[1]}, nil
}

// parseXGFT accepts "3 18,18,9 1,18,18", "3;18,18,9;1,18,18" and
// "XGFT(3;18,18,9;1,18,18)".
func parseXGFT(w *words) (Topology, error) {
	for i, p := range w.pos {
		if len(p) > 5 && strings.EqualFold(p[:5], "xgft(") {
			p = p[5:]
		}
		w.pos[i] = strings.TrimSuffix(p, ")")
	}
	v, err := w.ints(1, maxGenNodes)
	if err != nil {
		return nil, err
	}
	if len(v) == 0 || v[0] > maxGenLevels || len(v) != 1+2*v[0] {
		return nil, w.fail("", "%d numbers were given; wanted are the levels H (1–%d), H numbers of children and H numbers of parents",
			len(v), maxGenLevels)
	}
	return XGFT{Children: v[1 : 1+v[0]], Parents: v[1+v[0]:]}, nil
}

// grid reads the dimensions and the hosts of a switch.
func (w *words) grid() (dims []int, hosts int, err error) {
	if hosts, err = w.intOption("hosts", 1, 0, MaxPorts); err != nil {
		return nil, 0, err
	}
	dims, err = w.ints(1, maxGenNodes)
	return dims, hosts, err
}

func parseTorus(w *words) (Topology, error) {
	d, hosts, err := w.grid()
	return Torus{Dims: d, Hosts: hosts}, err
}

func parseMesh(w *words) (Topology, error) {
	d, hosts, err := w.grid()
	return Mesh{Dims: d, Hosts: hosts}, err
}

func parseHyperX(w *words) (Topology, error) {
	trunk, err := w.intOption("trunk", 1, 1, MaxPorts)
	if err != nil {
		return nil, err
	}
	d, hosts, err := w.grid()
	return HyperX{Dims: d, Hosts: hosts, Trunk: trunk}, err
}

func parseHypercube(w *words) (Topology, error) {
	hosts, err := w.intOption("hosts", 1, 0, MaxPorts)
	if err != nil {
		return nil, err
	}
	v, err := w.fixed(1, false)
	if err != nil {
		return nil, err
	}
	return Hypercube{Dims: v[0], Hosts: hosts}, nil
}

func parseDragonfly(w *words) (Topology, error) {
	v, err := w.fixed(4, true)
	if err != nil {
		return nil, err
	}
	return Dragonfly{Switches: v[0], Hosts: v[1], Global: v[2], Groups: v[3]}, nil
}

func parseDragonflyPlus(w *words) (Topology, error) {
	v, err := w.fixed(5, true)
	if err != nil {
		return nil, err
	}
	return DragonflyPlus{Leaves: v[0], Spines: v[1], Hosts: v[2], Global: v[3], Groups: v[4]}, nil
}

func parseIrregular(w *words) (Topology, error) {
	t := Irregular{Seed: w.seed}
	var err error
	if t.Ports, err = w.intOption("ports", 4, 2, MaxPorts); err != nil {
		return nil, err
	}
	if t.Hosts, err = w.intOption("hosts", 1, 0, MaxPorts); err != nil {
		return nil, err
	}
	if t.Links, err = w.intOption("links", 0, 1, maxGenPorts); err != nil {
		return nil, err
	}
	v, err := w.fixed(1, false)
	if err != nil {
		return nil, err
	}
	t.Switches = v[0]
	return t, nil
}
