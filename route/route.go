// Package route holds forwarding tables, their differences and the transition
// from one set of tables to another. Engines (route/engine/*) compute tables,
// route/check proves them.
//
//	t, err := minhop.Engine{}.Compute(g, route.Options{Workers: 2})
//	…
//	if err := check.Verify(g, t, check.Options{Workers: 2}).Err(); err != nil { … }
//	plan := route.PlanTransition(g, installed, t, route.TransitionOptions{…})
//
// Everything is a pure function of its arguments: the same graph, options and
// tables give the same result, whatever the number of workers. Tables are plain
// values; who changes them must be alone, any number of goroutines may read
// them. LIDs are inputs: nothing here gives any out.
package route

import (
	"heddle/fabric"
	"heddle/ib"
)

// Drop is the LFT entry for "no route".
const Drop = 0xFF

// BlockLen is the number of LIDs in one LFT block, the unit of Get and Set.
const BlockLen = 64

// Tables are the forwarding tables of all switches of a Graph: LFT[s][lid] is
// the output port of switch s for lid, 0 for the switch itself, Drop for none.
// Every row has the same length, a multiple of BlockLen greater than TopLID.
type Tables struct {
	Engine string
	// Note tells the operator what the engine did not do as asked, such as a
	// given root that no switch has; "" if nothing.
	Note   string
	LFT    [][]byte
	TopLID ib.LID
	NumVLs int // data lanes the tables need; 1 for single-lane tables
	// SL gives the service level of a path by source and destination switch,
	// SL[src*len(LFT)+dst]; nil means SL 0 everywhere.
	SL []ib.SL
}

// Options are what every engine takes.
type Options struct {
	Workers int    // parallelism; results are the same for any number; 0 = 1
	Seed    uint64 // for engines that randomise
	Roots   []ib.GUID
	MaxVLs  int
	// Previous are the tables now installed, if any; engines keep entries
	// that are still as good as the best.
	Previous *Tables
}

// Engine computes tables. It is a pure function: same graph and options, same
// tables.
type Engine interface {
	Name() string
	Compute(g *fabric.Graph, o Options) (*Tables, error)
}
