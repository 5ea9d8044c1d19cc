// Package auto defines the default chain of routing engines.
package auto

import (
	"heddle/route"
	"heddle/route/engine/ftree"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
)

// Engines returns the chain of `--engine auto`, in the order in which the engines are
// tried. ftree comes first: it keeps a tree free of deadlock over failures that min-hop
// does not survive, and it restores the earlier routes when a link returns. updn comes
// last: it routes every connected fabric. The caller owns the slice.
func Engines() []route.Engine {
	return []route.Engine{ftree.Engine{}, minhop.Engine{}, updn.Engine{}}
}
