package experiment

import (
	"heddle/fabric"
	"heddle/route"
)

// scratch is an engine without memory: it computes everything each time.
type scratch struct{ e route.Engine }

func (s scratch) Name() string { return s.e.Name() }

func (s scratch) Compute(g *fabric.Graph, o route.Options) (*route.Tables, error) {
	o.Previous = nil
	return s.e.Compute(g, o)
}
