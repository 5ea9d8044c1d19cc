// Package all lists the routing engines.
package all

import (
	"heddle/route"
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

// Engines returns every engine that computes routes, without configuration, in the order in which
// the help has them. Engine file is not one of them: it reads routes. The caller owns the slice.
func Engines() []route.Engine {
	return []route.Engine{
		minhop.Engine{},
		updn.Engine{},
		dnup.Engine{},
		ftree.Engine{},
		vftree.Engine{},
		dor.Engine{},
		torus.Engine{},
		sssp.Engine{},
		sssp.DFEngine{},
		lash.Engine{},
		nue.Engine{},
	}
}
