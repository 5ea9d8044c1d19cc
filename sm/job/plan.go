package job

import (
	"time"

	"heddle/ib"
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/notice"
	"heddle/subnet"
)

// Plan is what a manager would do to the fabric it found: the result of
// Config.PlanOnly. Nothing was written.
type Plan struct {
	Snapshot *subnet.Snapshot // what was found; its Graph and Tables are the wanted ones
	Master   subnet.SM        // the master that owns the subnet now; GUID 0 if none answers

	LIDs    []PlannedLID // end ports whose LID would change, ascending port GUID
	Blocks  []PlannedSwitch
	Sets    []PlannedSMPs // SMPs that write, by attribute, in the order they are sent
	Total   int           // their sum
	Asked   int           // how many of them only ask a host to register again, as after every start
	Engine  string
	Passed  []string // "engine: reason" of each engine passed over
	Refused string   // why nothing would be installed; empty if something would
	// Transition is the mode in which tables would change, with the reason.
	Transition string
	Mode       transition.Mode
	Stages     []PlannedStage // one after the other
	// RepathPairs is how many pairs (source port, LID) change their service
	// level, so that hosts must resolve the paths again.
	RepathPairs int64
	// Touched counts the hosts and paths that the change gives other attributes; nil if the
	// entries of a switch are not known.
	Touched  *route.PathCount
	Refusals []route.RefusedGroup // multicast groups without a tree
	// Clean: the change is free of loops and cyclic dependencies at every step.
	Clean     bool
	SecondsAt float64      // predicted seconds, from the round-trip time seen in discovery
	Risk      *notice.Risk // not nil: the transition is not proved at every step

	Job      *Job      // that found it, for Forecast
	Solution *Solution // the engine's tables with their proof; nil: no Forecast can be made
}

// Changes reports whether something would be written that a device or a host notices, or nothing could be
// installed. Asking hosts to register again, as every start does, is no change.
func (p *Plan) Changes() bool {
	return p.Refused != "" || len(p.LIDs) > 0 || p.Total > p.Asked
}

// PlannedStage is a stage of the change of tables: what is written before
// everything is acknowledged and the waits have passed.
type PlannedStage struct {
	Discards        bool // it clears entries, or cuts multicast trees, for a while
	LFT, SL2VL, MFT int  // blocks and tables written
	// Withheld counts the entries (switch, LID) that forwarded before the transition and discard
	// packets from this stage on until another stage; Back those that lead packets back which are on
	// the link at that moment, so that they are lost. SL2VL tables that discard are Guards.
	Withheld, Back, Guards int
	Drain                  time.Duration
	Repath                 time.Duration // wait for hosts to use new service levels
}

// PlannedLID is a change of an end port's LID.
type PlannedLID struct {
	Where    notice.Where
	GUID     ib.GUID
	Old, New ib.LID
	Why      string
}

// PlannedSwitch says how many LFT blocks of a switch would be written.
type PlannedSwitch struct {
	Where  notice.Where
	Blocks int
}

// PlannedSMPs counts the Set SMPs of one attribute.
type PlannedSMPs struct {
	Attr ib.AttrID
	What string
	N    int
}
