package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/auto"
	"heddle/route/engine/dnup"
	"heddle/route/engine/dor"
	"heddle/route/engine/file"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
	"heddle/route/osmconf"
	"heddle/route/osmdump"
)

// engineFlags choose and direct the routing engines, on a subnet or offline.
// The files are OpenSM's, so that sites keep theirs.
type engineFlags struct {
	engine       []string
	roots        string
	connectRoots bool
	ids          string
	hopWeights   string
	portOrder    string
	routingOrder string
	unbalanced   string
	computeNodes string
	ioNodes      string
	reverseHops  int
	spreadLanes  bool
	torusConfig  string
	vftreeLanes  int
	fdbs         string
	pathSL       string
	sl2vl        string
}

// engineKind is an engine that --engine can name.
type engineKind struct {
	name string
	make func(f *engineFlags) (route.Engine, error)
}

// engineKinds in the order of the help.
var engineKinds = []engineKind{
	{"minhop", func(*engineFlags) (route.Engine, error) { return minhop.Engine{}, nil }},
	{"updn", func(*engineFlags) (route.Engine, error) { return updn.Engine{}, nil }},
	{"dnup", func(*engineFlags) (route.Engine, error) { return dnup.Engine{}, nil }},
	{"ftree", func(*engineFlags) (route.Engine, error) { return ftree.Engine{}, nil }},
	{"vftree", func(f *engineFlags) (route.Engine, error) {
		if f.vftreeLanes < 0 || f.vftreeLanes > 15 {
			return nil, usagef("--vftree-lanes %d: want 0 to 15", f.vftreeLanes)
		}
		return vftree.Engine{Lanes: f.vftreeLanes}, nil
	}},
	{"dor", func(*engineFlags) (route.Engine, error) { return dor.Engine{}, nil }},
	{"torus", func(f *engineFlags) (route.Engine, error) {
		c, err := readInput("--torus-config", f.torusConfig, torus.ParseConfig)
		return torus.Engine{Config: c}, err
	}},
	{"sssp", func(*engineFlags) (route.Engine, error) { return sssp.Engine{}, nil }},
	{"dfsssp", func(*engineFlags) (route.Engine, error) { return sssp.DFEngine{}, nil }},
	{"lash", func(*engineFlags) (route.Engine, error) { return lash.Engine{}, nil }},
	{"nue", func(*engineFlags) (route.Engine, error) { return nue.Engine{}, nil }},
	{"file", (*engineFlags).fileEngine},
}

// autoChain is what --engine auto stands for: the names of auto.Engines.
var autoChain = func() (names []string) {
	for _, e := range auto.Engines() {
		names = append(names, e.Name())
	}
	return names
}()

func engineNames() []string {
	var names []string
	for _, k := range engineKinds {
		names = append(names, k.name)
	}
	return names
}

func (f *engineFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.engine, "engine", []string{"auto"}, "routing `ENGINE[,ENGINE...]`, tried in order: "+strings.Join(engineNames(), ", ")+
		"; auto is "+strings.Join(autoChain, ",")+". The first whose tables are proved is taken")
	fs.StringVar(&f.roots, "roots", "", "`FILE` with node GUIDs, one a line: the roots of updn and dnup, the top switches of ftree and vftree (default: found)")
	fs.BoolVar(&f.connectRoots, "connect-roots", false, "updn, dnup: let the roots reach each other (they always do here; OpenSM's flag is taken)")
	fs.StringVar(&f.ids, "ids", "", "updn, dnup: `FILE` with a node GUID and a number a line; of switches of one rank the smaller number is upper")
	fs.StringVar(&f.hopWeights, "hop-weights", "", "minhop, updn, dnup, sssp, dfsssp: `FILE` with a switch GUID, port and weight (1-255) a line; a hop costs 1 otherwise")
	fs.StringVar(&f.portOrder, "port-order", "", "dor, minhop, updn, dnup: `FILE` with a switch GUID and its ports in the order to try them, a line each")
	fs.StringVar(&f.routingOrder, "routing-order", "", "`FILE` with port GUIDs, one a line, that are routed first, in this order")
	fs.StringVar(&f.unbalanced, "unbalanced", "", "`FILE` with port GUIDs, one a line, that do not count as load")
	fs.StringVar(&f.computeNodes, "compute-nodes", "", "ftree, vftree: `FILE` with the port GUIDs to balance first, one a line (default: all CAs)")
	fs.StringVar(&f.ioNodes, "io-nodes", "", "ftree, vftree: `FILE` with the port GUIDs of I/O nodes, one a line")
	fs.IntVar(&f.reverseHops, "max-reverse-hops", 0, "ftree, vftree: `HOPS` in the wrong direction that a path between I/O nodes may take")
	fs.IntVar(&f.vftreeLanes, "vftree-lanes", 0, "vftree: `LANES` to spread pairs of leaf switches over; 0 = as many as help")
	fs.StringVar(&f.torusConfig, "torus-config", "", "torus: `FILE` as torus-2QoS.conf with sizes, seeds and date lines (default: found)")
	fs.StringVar(&f.fdbs, "fdbs", "", "file: tables as `FILE` opensm.fdbs or opensm-lfts.dump")
	fs.StringVar(&f.pathSL, "path-sl", "", "file: service levels as `FILE` opensm-path-sl.dump")
	fs.StringVar(&f.sl2vl, "sl2vl", "", "file: SL-to-VL tables as `FILE` opensm-sl2vl.dump")
	fs.BoolVar(&f.spreadLanes, "spread-lanes", false, "dfsssp, lash: use lanes too that deadlock freedom does not need")
}

// chain turns --engine into engines. explicit is true for one engine named
// alone: there is then nothing to fall back on.
func (f *engineFlags) chain() (list []route.Engine, explicit bool, err error) {
	names := f.engine
	if len(names) == 1 && names[0] == "auto" {
		names = autoChain
	}
	explicit = len(names) == 1
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			return nil, false, usagef("--engine: %q is named twice", n)
		}
		seen[n] = true
		kind := (*engineKind)(nil)
		for i := range engineKinds {
			if engineKinds[i].name == n {
				kind = &engineKinds[i]
			}
		}
		if kind == nil {
			return nil, false, usagef("--engine: no engine is called %q%s", n, didYouMean(n, append([]string{"auto"}, engineNames()...)))
		}
		e, err := kind.make(f)
		if err != nil {
			return nil, false, err
		}
		list = append(list, e)
	}
	return list, explicit, nil
}

// fileEngine reads the dumps that the engine "file" takes its tables from.
func (f *engineFlags) fileEngine() (route.Engine, error) {
	if f.fdbs == "" {
		return nil, usagef("--engine file: which tables? Give --fdbs FILE")
	}
	var e file.Engine
	var err error
	if e.Dump, err = readInput("--fdbs", f.fdbs, osmdump.ReadRoutes); err != nil {
		return nil, err
	}
	if e.SLs, err = readInput("--path-sl", f.pathSL, osmdump.ReadPathSL); err != nil {
		return nil, err
	}
	e.SL2VL, err = readInput("--sl2vl", f.sl2vl, osmdump.ReadSL2VL)
	return e, err
}

// options reads the engines' input files.
func (f *engineFlags) options() (o route.Options, err error) {
	if f.reverseHops < 0 {
		return o, usagef("--max-reverse-hops %d: want 0 or more", f.reverseHops)
	}
	o.ConnectRoots, o.MaxReverseHops, o.SpreadLanes = f.connectRoots, f.reverseHops, f.spreadLanes
	for _, g := range []struct {
		flag, file string
		to         *[]ib.GUID
	}{
		{"--roots", f.roots, &o.Roots},
		{"--routing-order", f.routingOrder, &o.RoutingOrder},
		{"--unbalanced", f.unbalanced, &o.Unbalanced},
		{"--compute-nodes", f.computeNodes, &o.ComputeNodes},
		{"--io-nodes", f.ioNodes, &o.IONodes},
	} {
		if *g.to, err = readInput(g.flag, g.file, osmconf.GUIDs); err != nil {
			return o, err
		}
	}
	if o.IDs, err = readInput("--ids", f.ids, osmconf.IDs); err != nil {
		return o, err
	}
	if o.HopWeights, err = readInput("--hop-weights", f.hopWeights, osmconf.HopWeights); err != nil {
		return o, err
	}
	o.PortOrder, err = readInput("--port-order", f.portOrder, osmconf.PortOrder)
	return o, err
}

// readInput reads the file of a flag; no file, no value.
func readInput[T any](flag, file string, read func(io.Reader) (T, error)) (v T, err error) {
	if file == "" {
		return v, nil
	}
	r, err := os.Open(file)
	if err != nil {
		return v, usagef("%s: %w", flag, err)
	}
	defer r.Close()
	if v, err = read(r); err != nil {
		return v, usagef("%s %s: %w", flag, file, err)
	}
	return v, nil
}

// mustHaveRoots refuses roots that the fabric of a netlist does not have: a
// subnet may get them later, a netlist never.
func (f *engineFlags) mustHaveRoots(g *fabric.Graph, roots []ib.GUID) error {
	have := map[ib.GUID]bool{}
	for _, s := range g.Switches {
		have[s.GUID] = true
	}
	for _, r := range roots {
		if !have[r] {
			return &exitError{2, fmt.Errorf("--roots %s: the fabric has no switch with node GUID %v", f.roots, r)}
		}
	}
	return nil
}
