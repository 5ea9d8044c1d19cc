package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
	"heddle/route/engine/all"
	"heddle/route/engine/file"
	"heddle/route/engine/torus"
	"heddle/route/engine/vftree"
	"heddle/route/osmconf"
	"heddle/route/osmdump"
	"heddle/settings"
)

// engineFlags select and configure the routing engines, on a subnet or offline.
// The files are OpenSM's, so that sites can keep theirs.
type engineFlags struct{ *settings.Values }

// configured are the engines that have settings; all others are as all.Engines has them.
var configured = map[string]func(f engineFlags) (route.Engine, error){
	"vftree": func(f engineFlags) (route.Engine, error) { return vftree.Engine{Lanes: f.Engines.VFTreeLanes}, nil },
	"torus": func(f engineFlags) (route.Engine, error) {
		c, err := readInput(f.From("torus-config"), f.Engines.TorusConfig, torus.ParseConfig)
		return torus.Engine{Config: c}, err
	},
	"file": engineFlags.fileEngine,
}

// engine makes the engine of a name, if there is one.
func (f engineFlags) engine(name string) (e route.Engine, known bool, err error) {
	if with := configured[name]; with != nil {
		e, err = with(f)
		return e, true, err
	}
	for _, e := range all.Engines() {
		if e.Name() == name {
			return e, true, nil
		}
	}
	return nil, false, nil
}

// chain turns --engine into engines. explicit is true for a single engine: then
// there is no fallback.
func (f engineFlags) chain() (list []route.Engine, explicit bool, err error) {
	names, from := f.Engines.Names, f.From("engine")
	if len(names) == 1 && names[0] == "auto" {
		names = settings.AutoChain()
	}
	explicit = len(names) == 1
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			return nil, false, usagef("%s: %q is named twice", from, n)
		}
		seen[n] = true
		e, known, err := f.engine(n)
		if err != nil {
			return nil, false, err
		}
		if !known {
			return nil, false, usagef("%s: unknown engine %q%s (engines: auto, %s)", from, n, didYouMean(n, append([]string{"auto"},
				settings.EngineNames()...)), strings.Join(settings.EngineNames(), ", "))
		}
		list = append(list, e)
	}
	return list, explicit, nil
}

// fileEngine reads the dumps for the engine "file".
func (f engineFlags) fileEngine() (route.Engine, error) {
	if f.Engines.ForwardingTables == "" {
		return nil, usagef("%s file: missing tables; give --fdbs FILE", f.From("engine"))
	}
	var e file.Engine
	var err error
	if e.Dump, err = readInput(f.From("fdbs"), f.Engines.ForwardingTables, osmdump.ReadRoutes); err != nil {
		return nil, err
	}
	if e.SLs, err = readInput(f.From("path-sl"), f.Engines.PathSL, osmdump.ReadPathSL); err != nil {
		return nil, err
	}
	e.SL2VL, err = readInput(f.From("sl2vl"), f.Engines.SLToVLTable, osmdump.ReadSL2VL)
	return e, err
}

// options reads the engines' input files.
func (f engineFlags) options() (o route.Options, err error) {
	o = f.SM.Route
	for _, g := range []struct {
		flag, file string
		to         *[]ib.GUID
	}{
		{f.From("roots"), f.Engines.Roots, &o.Roots},
		{f.From("routing-order"), f.Engines.RoutingOrder, &o.RoutingOrder},
		{f.From("unbalanced"), f.Engines.Unbalanced, &o.Unbalanced},
		{f.From("compute-nodes"), f.Engines.ComputeNodes, &o.ComputeNodes},
		{f.From("io-nodes"), f.Engines.IONodes, &o.IONodes},
	} {
		if *g.to, err = readInput(g.flag, g.file, osmconf.GUIDs); err != nil {
			return o, err
		}
	}
	if o.IDs, err = readInput(f.From("ids"), f.Engines.IDs, osmconf.IDs); err != nil {
		return o, err
	}
	if o.HopWeights, err = readInput(f.From("hop-weights"), f.Engines.HopWeights, osmconf.HopWeights); err != nil {
		return o, err
	}
	o.PortOrder, err = readInput(f.From("port-order"), f.Engines.PortOrder, osmconf.PortOrder)
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

// mustHaveRoots refuses roots that the fabric of a netlist does not have. A
// subnet may get them later, a netlist cannot.
func (f engineFlags) mustHaveRoots(g *fabric.Graph, roots []ib.GUID) error {
	have := map[ib.GUID]bool{}
	for _, s := range g.Switches {
		have[s.GUID] = true
	}
	for _, r := range roots {
		if !have[r] {
			return &exitError{2, fmt.Errorf("%s %q: the fabric has no switch with node GUID %v", f.From("roots"), f.Engines.Roots, r)}
		}
	}
	return nil
}
