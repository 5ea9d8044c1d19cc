// Package route holds forwarding tables and their differences. Engines
// (route/engine/*) compute tables, route/check proves them, route/transition
// plans the change from one set of tables to another.
//
//	t, err := minhop.Engine{}.Compute(g, route.Options{Workers: 2})
//	…
//	if err := check.Verify(g, t, check.Options{Workers: 2}).Err(); err != nil { … }
//	plan := transition.New(g, installed, t, transition.Options{…})
//
// Everything is a pure function of its arguments: the same graph, options and
// tables give the same result for any number of workers. Tables are plain
// values: any number of goroutines may read them, but a writer needs exclusive
// access. LIDs are inputs: this package assigns none.
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
//
// Tables are never changed once an engine has returned them, so rows (and
// Class, SL, Lanes) may be shared between an older and a newer set. Tables in
// which single LIDs moved (WithColumns) share by block, and have no LFT: Entry,
// Block, Part and Row read any tables, and Flat gives them rows.
type Tables struct {
	Engine string
	// Note tells the operator which options the engine could not apply, such as a
	// root GUID that no switch has; "": none.
	Note   string
	LFT    [][]byte
	TopLID ib.LID
	NumVLs int // data lanes the tables need; 1 for single-lane tables

	// SL gives the service level of a path from a switch (and its end ports) to a
	// class of LIDs: SL[src*NumClasses+Class[lid]]. nil means SL 0 everywhere.
	// Read it with PathSL.
	SL         []ib.SL
	Class      []int32 // by LID, 0..TopLID; -1 for LIDs without an owner
	NumClasses int
	// Lanes are the switches' SL-to-VL tables; nil means that each link uses
	// lane SL mod (its data VLs). Read it with VL.
	Lanes *Lanes

	// Multicast are the trees of the multicast groups; nil means none.
	Multicast *Multicast

	// Memo is the engine's own state for Update: distances, loads, layers. It is
	// opaque and immutable.
	Memo Memory

	banded *banded // instead of LFT
}

// Memory is what the maker of tables or trees keeps for their next change. It is
// immutable, and only its maker knows its content.
type Memory interface {
	// Maker is the package that made it: "ftree". Two engines of one package
	// understand each other's.
	Maker() string
}

// Lanes are the SL-to-VL tables of all switches (IBA §14.2.5.8). Most tables of
// a fabric are equal, so each distinct one is stored once.
type Lanes struct {
	Rows [][16]ib.VL // the distinct tables
	// Index[s][in*Stride[s]+out] is the row of Rows for packets that enter switch
	// s by port in (0: its own) and leave by port out; Stride[s] is the number of
	// ports of the switch plus one.
	Index  [][]uint8
	Stride []uint16
	// Guards says that all tables are the level modulo the lanes of the link, except for levels
	// that a repair discards (lane 15) at some turns for a while. At such a turn packets between
	// two switches' own ports may be lost too, which route/check does not hold against the tables.
	Guards bool
}

// Modulo in Lanes.Index stands for the table of a link without any: the level modulo its
// lanes. Only ports to hosts may have it.
const Modulo = 0xFF

// Options are the inputs of every engine in addition to the graph. Each engine's
// documentation says which it uses; it ignores the others. Tables.Note names
// GUIDs that the graph does not have.
type Options struct {
	Workers int    // parallelism; results are the same for any number; 0 = 1
	Seed    uint64 // for engines that randomise
	MaxVLs  int    // most data lanes to use; 0 = as many as every link between switches has
	// Previous are the installed tables, if any, with rows in the order of the
	// graph's switches (nil row: unknown). Engines keep an entry if no other is
	// better.
	Previous *Tables
	// Rebalance permits Update to replace entries that it could keep.
	Rebalance bool

	Roots        []ib.GUID // node GUIDs: roots of updn, dnup; top switches of ftree, vftree
	ConnectRoots bool      // updn, dnup: roots reach each other, by a legal path if one exists
	// IDs break ties between switches of one rank (updn, dnup): smaller first.
	IDs map[ib.GUID]uint64

	ComputeNodes   []ib.GUID // ftree, vftree: port GUIDs balanced first; nil: every CA
	IONodes        []ib.GUID // ftree, vftree: port GUIDs that may use reverse hops
	MaxReverseHops int

	HopWeights   []HopWeight         // minhop, updn, dnup, sssp, dfsssp: cost of a hop, default 1
	PortOrder    map[ib.GUID][]uint8 // by node GUID: ports in the order to try (dor, minhop's ties)
	RoutingOrder []ib.GUID           // port GUIDs routed first, in this order
	Unbalanced   []ib.GUID           // port GUIDs that do not count as load

	// SpreadLanes lets dfsssp and lash use lanes that deadlock freedom does not need.
	SpreadLanes bool
}

// HopWeight replaces the cost 1 of leaving a switch by a port.
type HopWeight struct {
	Switch ib.GUID
	Port   uint8
	Weight uint8 // 1–255
}

// Engine computes tables. It is a pure function: same graph and options, same
// tables.
type Engine interface {
	Name() string
	Compute(g *fabric.Graph, o Options) (*Tables, error)
}

// Updater is an engine that can update its tables incrementally after a change
// of the fabric, recomputing only what the change affects.
type Updater interface {
	Engine
	// Update returns tables for g. from are the graph and the tables that Compute
	// or Update of the same engine, with the same options, returned last; d is
	// fabric.Diff(from.Graph, g). Unchanged rows are shared with from. The result
	// may differ from Compute's, but paths are as short. With o.Rebalance, or if
	// the change is too large, Update computes from scratch.
	Update(from Solution, g *fabric.Graph, d *fabric.Delta, o Options) (*Tables, error)
}

// Leveling is an Engine that keeps paths apart by service levels, and may give some of them others
// when it repairs tables, even if all have level 0 so far.
type Leveling interface {
	Engine
	Leveling()
}

// Solution is a graph with tables for it.
type Solution struct {
	Graph  *fabric.Graph
	Tables *Tables
}

// Group is a multicast group as routing sees it.
type Group struct {
	MLID    ib.LID  // 0xC000–0xFFFE
	SL      ib.SL   // the group's service level; another lane is tried if it closes a cycle
	Members []int32 // indices in Graph.EndPorts, ascending: full members, and send-only ones
	Senders []int32 // those of Members that only send
}

// Tree is the spanning tree of one multicast group: for each of its switches,
// the ports to which it forwards packets of the group (except the ingress
// port).
type Tree struct {
	MLID     ib.LID
	SL       ib.SL
	Switches []int32     // ascending
	Ports    [][4]uint64 // by position in Switches: bit p of word p/64 is port p; port 0 is the switch itself
}

// Multicast holds the trees of all groups.
type Multicast struct {
	Trees   []Tree // ascending MLID
	Refused []RefusedGroup
	// Memo is the state of route/mcast for the next change of the groups. It is
	// opaque and immutable.
	Memo Memory
}

// RefusedGroup is a group without a tree, and why.
type RefusedGroup struct {
	MLID   ib.LID
	Reason string
}
