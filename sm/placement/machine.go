// Package placement puts the addresses of virtual machines where they are to be.
//
// A placement says which virtual function is to hold an address: a GUID, with the LID that goes
// with it (subnet.Placement). Machine is a part of a subnet manager. It owns the placements, how far
// each is carried out (State), and what snapshots show of addresses on their way. Its inputs are
// the placements wanted (Set), what functions and ports were seen to hold (Changed, Refused,
// AliasesHeld), and the ends of what it began (Saved, Moved, PortsSet). Its outputs are what a
// function is to hold now (Wanted), the alias GUIDs and LIDs of shared ports, requests to move LIDs,
// and reports.
//
// Placements are carried out in batches, between sweeps: all that can be done together is. Step
// says how far the batch under way is:
//
//	gather ─► storing ─► leaving ─► routing ─► putting ─► published, reported
//
// gather picks the placements that can be carried out now and assigns LIDs, which are stored
// before they are used. Then the functions that hold the addresses give them up, one
// Set(VPortInfo) each. When all have, the LIDs get the entries of their new ports. When every
// switch has acknowledged those, the new functions get the addresses, one Set(VPortInfo) each. So no
// two functions ever hold an address that is in use. Until the batch ends, snapshots show its GUIDs
// at their old places, and graphs in which LIDs moved are not published.
//
// Where a function rejects its address, the placement is rolled back: the function that had the
// address becomes its target, in another batch. A placement that is refused, or whose LID could not
// be stored, is tried again after Config.RetryInterval. Nobody else repeats it.
package placement

import (
	"fmt"

	"heddle/ib"
	"heddle/mad"
	"heddle/route/move"
	"heddle/sm/env"
	"heddle/sm/lid"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/subnet"
)

// Functions are the adapters of the subnet and their virtual functions. vport.Manager implements it.
type Functions interface {
	// All lists the adapters, present or not, in ascending order of port GUIDs.
	All() []*vport.Adapter
	// AnyShared reports whether one of them, present or not, has addresses in its GUID table alone.
	AnyShared() bool
	// Adapter is the adapter of a port, nil if there is none.
	Adapter(port ib.GUID) *vport.Adapter
	// Find is the function that is up with a GUID.
	Find(g ib.GUID) (vport.Ref, bool)
	// Look has a function brought to what is wanted of it; index 0: its adapter read again.
	Look(r vport.Ref)
	// Show has the entry of a function brought up to date in the next snapshot.
	Show(r vport.Ref)
}

// Tables are the GUID tables of ports. guid.Tables implements it.
type Tables interface {
	// Held and Wanted are what the entry of a place holds, and is to hold; 0: nothing.
	Held(p subnet.Place) ib.GUID
	Wanted(p subnet.Place) ib.GUID
	// Find is the entry that holds a GUID, the zero Place if none does.
	Find(g ib.GUID) subnet.Place
	// Has reports whether a port has a table that is of interest.
	Has(port ib.GUID) bool
	// Have lists what a port holds, by index. It is not to be changed.
	Have(port ib.GUID) []ib.GUID
	// Shown lists what snapshots show of a port but for addresses on their way.
	Shown(port ib.GUID) []ib.GUID
	// Known reports whether the first block of a port was read, or cannot be.
	Known(port ib.GUID) bool
	// Refused reports whether a port does not take GUIDs at a place.
	Refused(p subnet.Place) bool
	// SetPlaced replaces the GUIDs that placements want in tables. HasPlaced reports whether it was
	// called.
	SetPlaced(list []subnet.Alias)
	HasPlaced() bool
	// Look has a port's table brought to what is wanted.
	Look(port ib.GUID)
	// Show has a port's entry brought up to date in the next snapshot.
	Show(port ib.GUID)
}

// Router is the part that routes LIDs.
type Router interface {
	// Owner is the port that a LID leads to in the installed graph, 0 if none.
	Owner(l ib.LID) ib.GUID
	// RoutedAt reports whether a LID leads to a port from everywhere.
	RoutedAt(l ib.LID, port ib.GUID) bool
	// WhyNot says why the last sweep did not route LIDs.
	WhyNot() string
	// RouteAnew has a sweep route all LIDs; it finds them at their new ports.
	RouteAnew(why string)
	// RouteGroups has multicast groups routed again whose members moved.
	RouteGroups()
	// SweepAsked reports whether a sweep is to begin before anything else is done.
	SweepAsked() bool
	// Move begins to move LIDs; placements has the GUID of the placement of each request, 0 for the
	// LID of an unused function. When it is done RoutedAt says whether it worked.
	Move(list []move.Request, placements []ib.GUID)
	// SetPortLID has the LID of a port set to p.LID, if it is not; begun: others are being set. It
	// reports whether ports are being set; PortsSet is called when all have answered.
	SetPortLID(p *topo.Port, begun bool) bool
}

// Snapshots is the part that publishes.
type Snapshots interface {
	// ShowNow publishes what changed.
	ShowNow()
	// PublishPorts publishes ports that have other LIDs, if there are any, with all that changed.
	PublishPorts()
	// PortsChanged reports whether ports have other LIDs than the last snapshot says.
	PortsChanged() bool
	// Report tells how far placements have come, in order.
	Report(list []subnet.PlacementReport)
}

// Needs are the parts that a Machine depends on.
type Needs struct {
	Functions Functions
	Tables    Tables
	Router    Router
	Snapshots Snapshots
	Keeper    Keeper
}

// Machine has the placements of a subnet.
type Machine struct {
	*env.Env
	lids      *lid.Table
	functions Functions
	tables    Tables
	router    Router
	snapshots Snapshots
	keeper    Keeper

	given  bool // Set was called: functions that no placement names are to hold nothing
	byGUID map[ib.GUID]*placement
	list   []*placement                // in the order in which they came; some may have ended
	gone   int                         // of list
	wants  map[subnet.Place]*placement // by the place that the placement names
	hold   map[subnet.Place]*placement // whose address a function holds, or is to hold now
	leaves map[subnet.Place]*placement // of the batch: whose address a function is to give up
	floats map[ib.GUID]*placement      // by port GUID: whose LID a shared port has, or is to have now
	dirty  []*placement                // to be looked at
	fn     functionLIDs
	former map[ib.GUID]bool // of placements that ended: a shared port that is read later may hold them yet

	known    bool // the functions that are up have been read in this mastership
	step     Step
	batch    []*placement
	gen      uint64   // of the stored LIDs that the batch waits for
	saveErr  error    // why they could not be stored
	began    mad.Time // of the step
	unread   bool     // some place was being read when a batch was gathered
	settleBy mad.Time // until then a batch waits for such places; 0: none does
	reports  []subnet.PlacementReport
	retry    mad.Time // when the step under way is looked at again
	again    mad.Time // when refused placements are tried again

	entries   map[subnet.Place]*heldEntry // what snapshots go on showing (show.go)
	aimed     map[subnet.Place]*heldEntry // by where their LIDs may lead meanwhile
	entryList []*heldEntry
	entryEnd  mad.Time // when the first of them is over
	showDue   bool     // some of them was freed, and nothing published since
}

// New returns a machine without placements. It assigns the LIDs of lids. Connect is called before
// anything else.
func New(e *env.Env, lids *lid.Table) *Machine {
	return &Machine{
		Env: e, lids: lids,
		byGUID: map[ib.GUID]*placement{}, wants: map[subnet.Place]*placement{}, hold: map[subnet.Place]*placement{},
		leaves: map[subnet.Place]*placement{}, floats: map[ib.GUID]*placement{}, former: map[ib.GUID]bool{},
		entries: map[subnet.Place]*heldEntry{}, aimed: map[subnet.Place]*heldEntry{},
		retry: mad.Never, again: mad.Never, entryEnd: mad.Never,
	}
}

// Connect joins the machine with the other parts, some of which depend on it.
func (m *Machine) Connect(n Needs) {
	m.functions, m.tables, m.router, m.snapshots, m.keeper = n.Functions, n.Tables, n.Router, n.Snapshots, n.Keeper
}

// Next is when Advance is to be called in any case.
func (m *Machine) Next() mad.Time { return min(m.retry, m.again, m.entryEnd) }

// placement is a subnet.Placement and how far it is carried out.
type placement struct {
	subnet.Placement
	state   State
	implied bool // nobody set it: a VPort asked for a LID, which stays with its GUID
	kept    bool // … or a function has it that another manager may have placed there (kept.go)
	since   mad.Time

	held subnet.Place // the function that holds it, as read or acknowledged
	back subnet.Place // the function that held it last
	// failed says why its place does not hold it, where its state says so.
	failed failure
	port   ib.GUID // where its LID is routed, or is to be: a port GUID; 0: nowhere
	floats ib.GUID // the shared port that has its LID, or is to have it
	// unfloats is the shared port that had it, and is to have its base LID again.
	unfloats ib.GUID
	// sinks says that its LID floated, and that it is to share that of its port: the LID goes once
	// no port has it and it is not routed any more.
	sinks  bool
	smps   int  // LFT blocks of its last move
	atRisk bool // a transient cycle was possible while it moved

	holds   subnet.Place // the function that is to hold it now: Machine.hold
	aim     subnet.Place // of the batch: its target when that was gathered
	leaving bool         // of the batch: held is to give it up
	queued  bool         // in dirty
	looked  bool         // its place was asked whether it is up, since it was set
	told    subnet.PlacementReport
	entry   *heldEntry // what snapshots show of it while it is on its way
}

// failure says why a placement waits or is refused: for programs, and for people.
type failure struct {
	cause subnet.Cause
	why   string
}

// because is a failure with a text in the style of fmt.Sprintf.
func because(cause subnet.Cause, format string, args ...any) failure {
	return failure{cause, fmt.Sprintf(format, args...)}
}

// target is where a placement is to be now.
func (l *placement) target() subnet.Place {
	switch {
	case l.unwanted():
		return subnet.Place{}
	case l.hasFailed():
		return l.back
	}
	return l.Place
}

// Change is a change of the placements wanted: Put replaces those of the same GUIDs, Drop ends
// others. With All, every placement that is not in Put ends.
type Change struct {
	Put  []subnet.Placement
	Drop []ib.GUID
	All  bool
}
