package lab

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine/auto"
	"heddle/route/engine/dnup"
	"heddle/route/engine/dor"
	"heddle/route/engine/ftree"
	"heddle/route/engine/lash"
	"heddle/route/engine/minhop"
	"heddle/route/engine/nue"
	"heddle/route/engine/sssp"
	"heddle/route/engine/torus"
	"heddle/route/engine/updn"
	"heddle/route/engine/vftree"
)

// RepairChain is a chain of engines and what it is called.
type RepairChain struct {
	Name    string
	Engines []route.Engine
	// Want is the engine whose tables must be installed before a fault, "" any.
	Want string
}

// AutoChain are the engines of `heddle sm --engine auto`.
func AutoChain() []route.Engine { return auto.Engines() }

// RepairChains are the automatic chain and each engine with updn behind it,
// which routes what the engine refuses after a fault.
func RepairChains() []RepairChain {
	all := []RepairChain{{Name: "auto", Engines: AutoChain()}}
	for _, e := range []route.Engine{
		minhop.Engine{},
		updn.Engine{},
		dnup.Engine{},
		ftree.Engine{},
		vftree.Engine{},
		dor.Engine{},
		torus.Engine{},
		lash.Engine{},
		sssp.Engine{},
		sssp.DFEngine{},
		nue.Engine{},
	} {
		c := RepairChain{Name: e.Name(), Engines: []route.Engine{e}, Want: e.Name()}
		if e.Name() != "updn" {
			c.Engines = append(c.Engines, updn.Engine{})
		}
		all = append(all, c)
	}
	return all
}

// RepairFabric is a kind of fabric on which repairs are measured.
type RepairFabric struct {
	Name   string
	Kind   string
	Params []string
	Damage int // links that are out before the manager starts
}

// RepairFabrics are of every kind: random ones of four densities, grids of odd
// and even sizes, and whole and damaged trees.
func RepairFabrics() []RepairFabric {
	return []RepairFabric{
		{Name: "irregular, 1.25 links", Kind: "irregular", Params: []string{"16", "links=20"}},
		{Name: "irregular, 1.5 links", Kind: "irregular", Params: []string{"24"}},
		{Name: "irregular, 2 links", Kind: "irregular", Params: []string{"20", "ports=6", "hosts=2", "links=40"}},
		{Name: "irregular, 3 links", Kind: "irregular", Params: []string{"16", "ports=8", "hosts=2", "links=48"}},
		{Name: "torus 4x4", Kind: "torus", Params: []string{"4x4"}},
		{Name: "torus 5x5", Kind: "torus", Params: []string{"5x5"}},
		{Name: "torus 3x3x3", Kind: "torus", Params: []string{"3x3x3"}},
		{Name: "torus 4x4x2", Kind: "torus", Params: []string{"4x4x2"}},
		{Name: "mesh 4x5", Kind: "mesh", Params: []string{"4x5"}},
		{Name: "dragonfly 4·1·1", Kind: "dragonfly", Params: []string{"4", "1", "1"}},
		{Name: "hypercube 4", Kind: "hypercube", Params: []string{"4"}},
		{Name: "fat tree, 2 levels", Kind: "xgft", Params: []string{"2", "4,6", "1,4"}},
		{Name: "fat tree, 2 levels, damaged", Kind: "xgft", Params: []string{"2", "4,6", "1,4"}, Damage: 4},
		{Name: "fat tree, 3 levels, damaged", Kind: "xgft", Params: []string{"3", "2,3,3", "1,3,2"}, Damage: 4},
	}
}

// Make makes the fabric; only random ones depend on the seed.
func (k *RepairFabric) Make(seed uint64) (*fabric.Fabric, error) {
	f, err := fabric.Generate(k.Kind, k.Params, seed)
	if err != nil {
		return nil, fmt.Errorf("lab: %s: %w", k.Name, err)
	}
	return f, nil
}

// Trial is the trial of a fabric, a chain and a seed with so many faults.
func (k *RepairFabric) Trial(c RepairChain, seed uint64, faults int) (*RepairTrial, error) {
	f, err := k.Make(seed)
	if err != nil {
		return nil, err
	}
	return &RepairTrial{Seed: seed, Fabric: f, Chain: c, Damage: k.Damage, Faults: faults, MaxGap: 5 * time.Second}, nil
}
