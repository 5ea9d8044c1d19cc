package shell

import (
	"slices"
	"sync"
	"sync/atomic"

	"heddle/congestion"
	"heddle/ib"
	"heddle/partition"
	"heddle/perf"
	"heddle/sa"
	"heddle/sm"
	"heddle/subnet"
	"heddle/vm"
)

const (
	// MaxTraps is how many traps may wait for the SA. Further ones are dropped.
	MaxTraps = 1024
	// trapsAtOnce is how many of them one Mail passes on, so that a storm of traps
	// does not keep requests waiting.
	trapsAtOnce = 16
	// MaxAsks is how many asks may wait for the address manager.
	MaxAsks = 1024
)

// Shared holds the published state of the cores of one manager, and the mail between them. Any
// goroutine may use it. Its fields are set before the first Start.
type Shared struct {
	// The published state; nil before the first.
	Snap atomic.Pointer[subnet.Snapshot]
	View atomic.Pointer[sa.View]
	VMs  atomic.Pointer[vm.View]
	// Round is the newest round of the performance manager.
	Round atomic.Pointer[perf.Round]
	// Members are the memberships that the address manager adds to partitions, and Aliases the alias
	// GUIDs that the SA has ports hold, as last passed to the subnet manager. Neither list is changed.
	Members atomic.Pointer[[]partition.Partition]
	Aliases atomic.Pointer[[]subnet.Alias]
	// Congestion is the newest view of the congestion control manager.
	Congestion atomic.Pointer[congestion.View]

	// Each is called by a sender when mail waits for a core, and must have Mail called on that
	// core's goroutine. Several calls may lead to one Mail. Nil: there is no such core, and its
	// mail is dropped.
	WakeSM, WakeSA, WakeVM, WakePerf, WakeCongestion func()
	// OnRound are called with each round of the performance manager, on one goroutine, in order:
	// cores that work on counters take it as an event. A shell may call them beside the core of
	// that manager, so they pass it mail only. They must not block.
	OnRound []func(r *perf.Round)
	// Standing are multicast groups that are routed in addition to those of the SA, unless the
	// SA has their MGID or MLID.
	Standing []subnet.Group

	// For the subnet manager:
	members    box[[]partition.Partition]
	placements box[placementChange]
	groups     box[[]subnet.Group]
	aliases    box[[]subnet.Alias]
	reads      box[[]ib.GUID]
	notified   box[sm.HostsNotified]
	wanted     box[sm.SetSlowPaths]
	settings   box[sm.Configure]
	actions    box[[]subnet.PortAction]
	// For the SA:
	traps box[[]sa.Trap]
	slow  box[sa.SetSlowPaths]
	rules box[sa.Configure]
	// For the address manager:
	reports box[[]subnet.PlacementReport]
	asks    box[[]*Ask]
	// For the performance manager:
	watch box[perf.Watch]
	rates box[perf.Configure]
	// For the congestion control manager:
	congestionMode box[congestion.Mode]
}

// box holds a value until its reader takes it. Writers never wait.
type box[T any] struct {
	mu  sync.Mutex
	v   T    // guarded by mu
	has bool // guarded by mu
}

// put replaces the value.
func (b *box[T]) put(v T) { b.update(func(T) T { return v }) }

// update replaces the waiting value, or the zero value if none waits, by a new one.
func (b *box[T]) update(fn func(waiting T) T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.v, b.has = fn(b.v), true
}

// take returns the value and empties the box; ok is false if it is empty.
func (b *box[T]) take() (v T, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok = b.v, b.has
	var none T
	b.v, b.has = none, false
	return v, ok
}

func wake(fn func()) {
	if fn != nil {
		fn()
	}
}

// report passes reports on placements to the address manager.
func (s *Shared) report(list []subnet.PlacementReport) {
	if s.WakeVM == nil || len(list) == 0 {
		return
	}
	s.reports.update(func(waiting []subnet.PlacementReport) []subnet.PlacementReport { return append(waiting, list...) })
	s.WakeVM()
}

// trap passes a trap to the SA for its subscribers. It reports whether there was room.
func (s *Shared) trap(t *sm.Trap) (ok bool) {
	if s.WakeSA == nil {
		return true
	}
	s.traps.update(func(waiting []sa.Trap) []sa.Trap {
		if ok = len(waiting) < MaxTraps; !ok {
			return waiting
		}
		return append(waiting, sa.Trap{Notice: t.Notice, From: t.From})
	})
	if ok {
		s.WakeSA()
	}
	return ok
}

// takeTraps takes the oldest traps, and has Mail called again if more wait.
func (s *Shared) takeTraps() (list []sa.Trap) {
	left := 0
	s.traps.update(func(waiting []sa.Trap) []sa.Trap {
		n := min(len(waiting), trapsAtOnce)
		list, waiting = waiting[:n:n], waiting[n:]
		left = len(waiting)
		return waiting
	})
	if left > 0 {
		wake(s.WakeSA)
	}
	return list
}

// setGroups passes the groups of the SA and the standing groups to the subnet manager.
func (s *Shared) setGroups(groups []subnet.Group) {
	s.groups.put(withStanding(groups, s.Standing))
	wake(s.WakeSM)
}

// withStanding appends to groups those of standing whose MGID and MLID are not used.
func withStanding(groups, standing []subnet.Group) []subnet.Group {
	if len(standing) == 0 {
		return groups
	}
	mgids, mlids := map[ib.GID]bool{}, map[ib.LID]bool{}
	for i := range groups {
		mgids[groups[i].MGID], mlids[groups[i].MLID] = true, true
	}
	out := slices.Clone(groups)
	for _, g := range standing {
		if !mgids[g.MGID] && !mlids[g.MLID] {
			out = append(out, g)
		}
	}
	return out
}

// setAliases passes all alias GUIDs to the subnet manager.
func (s *Shared) setAliases(list []subnet.Alias) {
	s.Aliases.Store(&list)
	s.aliases.put(list)
	wake(s.WakeSM)
}

// read requests lane tables of nodes from the subnet manager.
func (s *Shared) read(nodes []ib.GUID) {
	s.reads.update(func(waiting []ib.GUID) []ib.GUID { return append(waiting, nodes...) })
	wake(s.WakeSM)
}

// hostsNotified passes on how many hosts have to acknowledge a new service level.
func (s *Shared) hostsNotified(n *sa.Notified) {
	s.notified.put(sm.HostsNotified{Gen: n.Gen, Left: n.Left})
	wake(s.WakeSM)
}

// setMembers passes all memberships of the address manager to the subnet manager.
func (s *Shared) setMembers(list []partition.Partition) {
	s.Members.Store(&list)
	s.members.put(list)
	wake(s.WakeSM)
}

// setPlacements passes a change of placements to the subnet manager.
func (s *Shared) setPlacements(c placementChange) {
	s.placements.update(func(waiting placementChange) placementChange { return waiting.then(c) })
	wake(s.WakeSM)
}

// placementChange is an sm.SetPlacements that has not been passed to the core.
type placementChange struct {
	put  []subnet.Placement
	drop []ib.GUID
	all  bool
}

// then combines c and the later n into one change.
func (c placementChange) then(n placementChange) placementChange {
	if n.all {
		return n
	}
	replaced := make(map[ib.GUID]bool, len(n.put)+len(n.drop))
	for i := range n.put {
		replaced[n.put[i].GUID] = true
	}
	for _, g := range n.drop {
		replaced[g] = true
	}
	out := placementChange{all: c.all}
	for i := range c.put {
		if !replaced[c.put[i].GUID] {
			out.put = append(out.put, c.put[i])
		}
	}
	for _, g := range c.drop {
		if !replaced[g] {
			out.drop = append(out.drop, g)
		}
	}
	out.put = append(out.put, n.put...)
	if !c.all { // placements that are not put end without being named
		out.drop = append(out.drop, n.drop...)
	}
	return out
}

// SetCongestionMode passes a mode to the congestion control manager.
func (s *Shared) SetCongestionMode(m congestion.Mode) {
	s.congestionMode.put(m)
	wake(s.WakeCongestion)
}

// Ask passes operations to the address manager. It reports whether there was room.
func (s *Shared) Ask(a *Ask) (ok bool) {
	s.asks.update(func(waiting []*Ask) []*Ask {
		if ok = len(waiting) < MaxAsks; !ok {
			return waiting
		}
		return append(waiting, a)
	})
	if ok {
		wake(s.WakeVM)
	}
	return ok
}

// SetPortActions passes the links that are drained, isolated or restored to the subnet manager.
func (s *Shared) SetPortActions(list []subnet.PortAction) {
	s.actions.put(list)
	wake(s.WakeSM)
}
