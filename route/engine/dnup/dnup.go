// Package dnup is up*/down* upside down, for fabrics whose CAs are near the
// roots and whose traffic must therefore turn at the bottom.
//
// The order of the switches is that of package updn with the levels reversed:
// switches farthest from the roots come first, and the order is grown from
// there, so that one switch of each component of the fabric is above all
// others. Everything that holds for updn holds here: every connected pair is
// delivered, no channel dependencies form a cycle, with one lane, on any
// topology, and the costs are the same. If the CAs are at the bottom, as in
// ordinary trees, updn gives shorter and more even paths.
package dnup

import "heddle/route/engine/updn"

// Engine computes the tables. The zero value is ready to use. Its name is
// "dnup"; Compute and Update use the options that updn's use.
type Engine struct{ updn.Mirrored }
