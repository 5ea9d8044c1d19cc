// Package show converts published state into the types of the API, the status page
// and the events, and API requests into operations of the cores. It consists of
// functions over values: the loops of package daemon call it with their state.
package show

import (
	"fmt"
	"time"

	"heddle/api"
	"heddle/internal/plural"
	"heddle/internal/version"
	"heddle/sa"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

// State is the input: the status of a manager's core, and the published state of
// the cores; pointers are nil before the first.
type State struct {
	SM   sm.Status
	Snap *subnet.Snapshot
	View *sa.View
	VMs  *vm.View
	Port string // as the user called it
	// Started is when the manager started, Up since when the subnet is up; the
	// zero time if it is not.
	Started, Up time.Time
	// Unsaved are changes that the SA has acknowledged and the store has not
	// taken, for the reason UnsavedErr.
	Unsaved    int
	UnsavedErr error
}

// Status summarizes the state. The caller adds the counters of the SA.
func Status(x *State) api.Status {
	st := &x.SM
	out := api.Status{
		Version: version.Version, State: st.State.String(), Phase: st.Phase.String(), SubnetUp: st.Up,
		Port: x.Port, PortGUID: st.PortGUID.String(), LID: int(st.LID), Priority: int(st.Priority),
		Sweeps: st.Sweeps, Resweeps: st.Light, SMPsSent: st.Sent, SMPsRetried: st.Retried, SMPsTimedOut: st.TimedOut,
		Started: x.Started, UpSince: x.Up, Unseen: st.Unseen, OwnSilent: st.OwnSilent,
	}
	if st.State != subnet.Master && st.Master.GUID != 0 {
		out.Master = st.Master.GUID.String()
	}
	out.SA, out.Partitions = saStatus(x.View), partitionStatus(st)
	if v := x.VMs; v != nil {
		out.VMs, out.VMsPending = v.Len(), v.Journal
	}
	if s := x.Snap; s != nil {
		c := s.Counts
		out.Generation, out.Engine, out.EngineReason = s.Gen, s.Engine, joined(s.PassedOver)
		out.Switches, out.CAs, out.Routers, out.EndPorts = c.Switches, c.CAs, c.Routers, c.EndPorts
		out.Links, out.LinksActive, out.LIDs, out.Problems = c.Links, c.LinksActive, c.LIDs, c.Problems
		out.VPorts = c.VPorts
	}
	out.Damped = make([]api.Damped, len(st.Damped))
	for i, l := range st.Damped {
		out.Damped[i] = api.Damped{
			Port: l.Where.String(), Failures: l.Failures, Held: l.Held, Quiet: l.Quiet.Seconds(), Left: l.Left.Seconds(),
		}
	}
	out.LastSweep.Phases = map[string]float64{}
	if st.Last != nil {
		out.LastSweep = sweepInfo(st.Last)
	}
	return out
}

// Sweep shows the report of a sweep that ended at a time.
func Sweep(r *sm.SweepReport, at time.Time) api.Sweep {
	return api.Sweep{
		Time: at, SweepInfo: sweepInfo(r), Retried: r.Retried, TimedOut: r.TimedOut, LIDsSet: r.LIDsSet, Downed: r.Downed,
		TopsSent: r.TopsSent, Engine: r.Engine, Problems: r.Problems, Read: r.Read, Again: r.Again, BrokenOff: r.Broken,
	}
}

func sweepInfo(r *sm.SweepReport) api.SweepInfo {
	out := api.SweepInfo{
		Reason: r.Reason, Region: r.Region, Updated: r.Updated, GroupBlocks: r.GroupBlocks, Seconds: r.Took.Seconds(),
		Phases: map[string]float64{}, BlocksSent: r.BlocksSent, BlocksRead: r.BlocksRead, PortSets: r.PortSets, Armed: r.Armed,
		Activated: r.Activated, SMPs: r.SMPs, Transition: r.Transition, Risk: risk(r.Risk), EnginePassed: r.PassedOver,
	}
	for p, t := range r.Phases {
		if t > 0 {
			out.Phases[sm.Phase(p).String()] = t.Seconds()
		}
	}
	return out
}

func joined(passed []string) string {
	switch len(passed) {
	case 0:
		return ""
	case 1:
		return "skipped engine " + passed[0]
	}
	return fmt.Sprintf("skipped engine %s and %d more", passed[0], len(passed)-1)
}

func saStatus(v *sa.View) (out api.SAStatus) {
	if v == nil {
		return out
	}
	out.Groups, out.Services, out.Subscriptions = len(v.Groups), len(v.Services), len(v.Subs)
	for _, g := range v.Groups {
		out.Members += len(g.Members)
	}
	return out
}

func partitionStatus(st *sm.Status) api.PartitionStatus {
	p := &st.Partitions
	return api.PartitionStatus{Count: p.Count, Settled: p.Settled, Pending: p.Pending, Quarantined: len(p.Quarantined)}
}

// Ready reports whether the subnet is up (or this manager is a working standby),
// otherwise with the reason.
func Ready(x *State) (bool, string) {
	st := &x.SM
	switch {
	case st.Up && x.Unsaved > 0:
		// The subnet works and hosts are served, but acknowledged changes may be
		// lost.
		return false, fmt.Sprintf("subnet up, but %d acknowledged changes are lost if the manager ends now: the store cannot be written: %v", x.Unsaved, x.UnsavedErr)
	case st.Up && st.OwnSilent:
		return true, "subnet up as last read: the agent of the manager's own port does not answer"
	case st.Up && st.Unseen > 0:
		return true, fmt.Sprintf("subnet up, %s %s not answer", plural.Of(st.Unseen, "node"), plural.Verb(st.Unseen, "does", "do"))
	case st.Up:
		return true, "subnet up"
	case st.State == subnet.Standby:
		return true, "standby"
	}
	return false, fmt.Sprintf("%s, %s", st.State, st.Phase)
}
