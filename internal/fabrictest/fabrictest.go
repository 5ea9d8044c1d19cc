// Package fabrictest makes fabrics for tests from the words that a command line
// has, so that tables of tests stay short.
package fabrictest

import "heddle/fabric"

// Generate makes the fabric that 'heddle topo gen' makes of the same words.
func Generate(kind string, params []string, seed uint64) (*fabric.Fabric, error) {
	t, o, err := fabric.ParseTopology(kind, params, seed)
	if err != nil {
		return nil, err
	}
	return fabric.Generate(t, o)
}
