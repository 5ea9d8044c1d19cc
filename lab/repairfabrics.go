package lab

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/engine/all"
	"heddle/route/engine/auto"
	"heddle/route/engine/updn"
)

// RepairChain is a chain of engines with its name.
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
	list := []RepairChain{{Name: "auto", Engines: AutoChain()}}
	for _, e := range all.Engines() {
		c := RepairChain{Name: e.Name(), Engines: []route.Engine{e}, Want: e.Name()}
		if e.Name() != "updn" {
			c.Engines = append(c.Engines, updn.Engine{})
		}
		list = append(list, c)
	}
	return list
}

// RepairFabric is a kind of fabric on which repairs are measured.
type RepairFabric struct {
	Name     string
	Topology fabric.Topology
	Damage   int // links that are out before the manager starts
}

// RepairFabrics are of every kind: random ones of four densities, grids of odd
// and even sizes, and whole and damaged trees.
func RepairFabrics() []RepairFabric {
	return []RepairFabric{
		{Name: "irregular, 1.25 links", Topology: fabric.Irregular{Switches: 16, Hosts: 1, Links: 20}},
		{Name: "irregular, 1.5 links", Topology: fabric.Irregular{Switches: 24, Hosts: 1}},
		{Name: "irregular, 2 links", Topology: fabric.Irregular{Switches: 20, Ports: 6, Hosts: 2, Links: 40}},
		{Name: "irregular, 3 links", Topology: fabric.Irregular{Switches: 16, Ports: 8, Hosts: 2, Links: 48}},
		{Name: "torus 4x4", Topology: fabric.Torus{Dims: []int{4, 4}, Hosts: 1}},
		{Name: "torus 5x5", Topology: fabric.Torus{Dims: []int{5, 5}, Hosts: 1}},
		{Name: "torus 3x3x3", Topology: fabric.Torus{Dims: []int{3, 3, 3}, Hosts: 1}},
		{Name: "torus 4x4x2", Topology: fabric.Torus{Dims: []int{4, 4, 2}, Hosts: 1}},
		{Name: "mesh 4x5", Topology: fabric.Mesh{Dims: []int{4, 5}, Hosts: 1}},
		{Name: "dragonfly 4·1·1", Topology: fabric.Dragonfly{Switches: 4, Hosts: 1, Global: 1}},
		{Name: "hypercube 4", Topology: fabric.Hypercube{Dims: 4, Hosts: 1}},
		{Name: "fat tree, 2 levels", Topology: fabric.XGFT{Children: []int{4, 6}, Parents: []int{1, 4}}},
		{Name: "fat tree, 2 levels, damaged", Topology: fabric.XGFT{Children: []int{4, 6}, Parents: []int{1, 4}}, Damage: 4},
		{Name: "fat tree, 3 levels, damaged", Topology: fabric.XGFT{Children: []int{2, 3, 3}, Parents: []int{1, 3, 2}}, Damage: 4},
	}
}

// Make makes the fabric; only random ones depend on the seed.
func (k *RepairFabric) Make(seed uint64) (*fabric.Fabric, error) {
	t := k.Topology
	if random, ok := t.(fabric.Irregular); ok {
		random.Seed = seed
		t = random
	}
	f, err := fabric.Generate(t, fabric.GenerateOptions{})
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
