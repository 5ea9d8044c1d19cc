// Package lane is the part of a subnet manager that owns the SL-to-VL mapping and VL arbitration
// tables of ports (IBA Vol. 1, §7.6.6 and §7.6.9): it sets them up where data uses more than one
// VL, it knows which of them this mastership has read or set, and it reads the others when a
// client of the API asks for them.
//
//	sweep:   Start, or StartFirst ─► Get ─► Set where the table differs ─► Done
//	stage:   Stage ─► Set, while forwarding tables change (sm/install)
//	upkeep:  Read ─► Upkeep ─► Get of each table that is not known, in portions
//
// Snapshots have what is known: Show and Update.
package lane

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/sm/env"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// Installer says which SL-to-VL tables switches are to hold, and remembers those that a stage of
// a transition sets.
type Installer interface {
	// Wanted are the tables that switches are to hold; nil if there are none.
	Wanted() *route.Tables
	// InStage reports whether the tables that are being set are those of a stage.
	InStage() bool
	// LaneWritten takes a table of a stage that a switch holds. LaneDoubted takes a Set that may
	// have been carried out; its tables are read back. LaneUnread tells that one could not be.
	LaneWritten(it work.Item, row smp.SLtoVL)
	LaneDoubted(it work.Item)
	LaneUnread()
}

// Sweep is what Tables need of the sweep under way.
type Sweep interface {
	// ScopeNodes calls fn with every node that the sweep covers.
	ScopeNodes(fn func(ni int32, n *topo.Node))
}

// Links brings links up.
type Links interface {
	// Moves reports whether the manager may change the state of a port: both ends of its link are
	// part of the subnet and were set up.
	Moves(p *topo.Port) bool
}

// Tables are the SL-to-VL and VL arbitration tables of a subnet.
type Tables struct {
	*env.Env
	install Installer
	sweep   Sweep
	links   Links

	// What is known, by node GUID; the different tables, once each; and the nodes whose tables
	// changed since the last snapshot.
	byNode  map[ib.GUID]*nodeTables
	rows    rows
	changed []int32

	reads    []read
	reading  map[ib.GUID]bool // nodes of reads
	readDone bool             // all tables of a node were asked for since the last snapshot

	setUp bool // all tables were set up in this mastership
	// mapped: the SL-to-VL tables of the configuration are in force.
	mapped bool
	first  bool // they are being set up before the first forwarding tables that need them
	used   map[ib.GUID]use
	left   left
}

// use says which SL-to-VL tables a switch was set up with.
type use struct {
	lanes *route.Lanes // nil: identity
	s     int32        // its index there
}

// New returns the tables of a manager that knows none.
func New(e *env.Env, install Installer, sweep Sweep, links Links) *Tables {
	return &Tables{
		Env: e, install: install, sweep: sweep, links: links, byNode: map[ib.GUID]*nodeTables{}, rows: newRows(),
		reading: map[ib.GUID]bool{}, used: map[ib.GUID]use{},
	}
}

// Reset is for a new mastership: no table is known.
func (t *Tables) Reset() {
	clear(t.byNode)
	clear(t.reading)
	clear(t.used)
	t.rows, t.reads, t.readDone, t.setUp, t.mapped, t.left = newRows(), nil, false, false, false, left{}
}

// Build turns an item into a request.
func (t *Tables) Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	ni, p, x := it.Node(), it.Port(), it.Extra()
	isSwitch := t.Fabric.Nodes[ni].IsSwitch()
	sl, port := uint32(0), uint8(0) // a CA has one table, and its port is that of the path
	if isSwitch {
		sl, port = smp.SLtoVLMod(uint8(x), p), p
	}
	switch it.Op() {
	case work.OpGetSL, work.OpBackSL, work.OpReadSL:
		get(smp.AttrSLtoVL, sl)
	case work.OpSetSL:
		if x&work.AllInputs != 0 {
			sl = smp.SLtoVLAllIn | uint32(p)
		}
		w := t.wantedSL(ni, uint8(x), p)
		w.Put(set(smp.AttrSLtoVL, sl))
	case work.OpGetArb, work.OpReadArb:
		get(smp.AttrVLArb, smp.VLArbMod(uint16(x), port))
	case work.OpSetArb:
		w := t.wantedArb(ni, p, uint16(x))
		w.Put(set(smp.AttrVLArb, smp.VLArbMod(uint16(x), port)))
	default:
		return false
	}
	return true
}

// Answered takes the answer to an item that Build built.
func (t *Tables) Answered(it work.Item, comp *mad.Completion) {
	t.know(it, comp)
	switch it.Op() {
	case work.OpGetSL:
		t.gotSL(it, comp)
	case work.OpGetArb:
		t.gotArb(it, comp)
	case work.OpSetSL, work.OpSetArb:
		t.wasSet(it, comp)
	case work.OpBackSL:
		t.readBack(it, comp)
	case work.OpReadSL, work.OpReadArb:
		t.wasRead(it, comp)
	}
}
