package sa

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/subnet"
)

// maxPathReports is how many changed paths are reported to a subscriber one by
// one. Beyond it, the subscriber is notified that all paths from its port may
// have changed.
const maxPathReports = 32

// maxPathChanges bounds the changed paths of a switch that are compared for
// each subscriber behind it. Beyond it, each subscriber there is notified that
// all its paths may have changed.
const maxPathChanges = 1024

// pathEvents notifies subscribers of paths from their own port that are lost (trap 68,
// UnPath) or changed (trap 69, RePath): another sequence of ports, another service
// level, MTU or rate, or restored. Traps 64 and 65 cover paths to new and lost ports.
//
// The PathRecord after the notice names the paths by the components in its mask: SGID,
// DGID and DLID for one path; SGID alone for all paths from the port; SGID and DGID
// for all paths to a virtual machine whose LID changed. A virtual machine that kept
// its LID has changed paths only if their values differ. The comparison is expensive,
// so it is done only for subscriptions that name these two traps.
func (x *informs) pathEvents(c *Core, old, now *subnet.Snapshot) {
	routed := old.Tables != nil && now.Tables != nil && old.Graph != nil && now.Graph != nil && (old.Tables != now.Tables || old.Graph != now.Graph)
	if !routed && subnet.SameGUIDs(old, now) {
		return
	}
	var diff *pathChanges
	var moved *migrations
	done := map[int32]bool{} // subscribers' ports
	for _, s := range x.all.list {
		if s.Info.IsGeneric != 1 || s.Info.TrapNumber != smp.TrapUnPath && s.Info.TrapNumber != smp.TrapRePath {
			continue
		}
		p := x.reports.peer(s)
		if p.port < 0 || done[p.port] || old.PortByPortGUID(s.GID.GUID()) < 0 {
			continue
		}
		done[p.port] = true
		if moved == nil {
			moved = newMigrations(old, now)
			if diff = (&pathChanges{}); routed {
				diff = newPathChanges(old, now, moved)
			}
		}
		x.pathsFrom(c, old, now, diff, moved, p.port)
	}
}

// maxPathWork bounds the comparison of all paths, in changed LIDs × switches,
// about 30 ns each, because joins wait during a step. Beyond it, every
// subscriber is notified that all its paths may have changed.
const maxPathWork = 4 << 20

// rerouted reports whether too much changed to compare.
func rerouted(old, now *route.Tables) bool {
	var differs [int(ib.LIDMaxUnicast) + 1]bool
	n, switches := 0, now.Switches()
	compare := func(a, b []byte, first int) bool {
		for i := range min(len(a), len(b), len(differs)-first) {
			if a[i] != b[i] && !differs[first+i] {
				if differs[first+i], n = true, n+1; n*switches > maxPathWork {
					return true
				}
			}
		}
		return false
	}
	if old.SharedRows(now) {
		far := false
		old.OtherBands(now, func(b int) {
			for s := int32(0); int(s) < switches && !far; s++ {
				far = compare(old.Part(s, b), now.Part(s, b), b*route.BlockLen)
			}
		})
		return far
	}
	for s := range int32(min(old.Switches(), switches)) {
		a, b := old.Row(s), now.Row(s)
		if len(a) > 0 && len(b) > 0 && &a[0] == &b[0] {
			continue
		}
		if compare(a, b, 0) {
			return true
		}
	}
	return false
}

// pathChanges lists the paths that changed between two snapshots.
type pathChanges struct {
	all     bool           // all paths may have changed; the other fields are unset
	sources []int32        // end ports, ascending, whose paths may all have changed
	from    [][]pathChange // by source switch, ascending LID; cut off after maxPathChanges
}

type pathChange struct {
	lid  ib.LID
	kind route.PathKind
}

func newPathChanges(old, now *subnet.Snapshot, moved *migrations) *pathChanges {
	if rerouted(old.Tables, now.Tables) {
		return &pathChanges{all: true}
	}
	d := route.DiffPaths(route.Solution{Graph: old.Graph, Tables: old.Tables}, route.Solution{Graph: now.Graph, Tables: now.Tables}, nil, 1)
	x := &pathChanges{sources: d.Sources, from: make([][]pathChange, len(now.Graph.Switches))}
	for _, l := range d.LIDs() {
		if _, ok := moved.find(l); ok {
			continue
		}
		d.To(l, func(from, to int32, k route.PathKind) {
			for sw := from; sw < to; sw++ {
				if len(x.from[sw]) <= maxPathChanges {
					x.from[sw] = append(x.from[sw], pathChange{l, k})
				}
			}
		})
	}
	return x
}

// change is a path to report; without lid, all paths to a GID.
type change struct {
	lid  ib.LID
	dgid ib.GID
	lost bool
}

// pathsFrom reports the changed paths of one port to its subscribers.
func (x *informs) pathsFrom(c *Core, old, now *subnet.Snapshot, diff *pathChanges, moved *migrations, port int32) {
	src := now.Ports[port].EndPort
	sgid := now.GID(port)
	_, all := slices.BinarySearch(diff.sources, src)
	list, far := moved.from(old, now, port)
	all = all || diff.all || far
	if len(diff.from) == 0 { // routing did not change
	} else if sw := now.Graph.EndPorts[src].Switch; sw >= 0 && !all {
		changes := diff.from[sw]
		all = len(changes) > maxPathChanges
		for i := 0; i < len(changes) && !all; i++ {
			l, k := changes[i].lid, changes[i].kind
			was, is := old.PortByLID(l), now.PortByLID(l)
			if is == port || was < 0 || is < 0 && now.PortByPortGUID(old.Ports[was].GUID) < 0 || is >= 0 && old.PortByPortGUID(now.Ports[is].GUID) < 0 {
				continue // the port itself, or a new or lost port
			}
			at := is
			if at < 0 {
				at = now.PortByPortGUID(old.Ports[was].GUID)
			}
			if !now.Share(port, at) {
				continue
			}
			ch := change{l, old.GID(was), k&route.PathLost != 0 || k&route.PathOwner != 0}
			if !ch.lost {
				ch.dgid = now.GID(at)
			}
			list = append(list, ch)
			all = len(list) > maxPathReports
		}
	}
	if all {
		x.tellPath(c, now, port, smp.TrapRePath, wire.PathCompSGID, &wire.PathRecord{SGID: sgid})
		return
	}
	for _, ch := range list {
		trap, mask := smp.TrapRePath, wire.PathCompSGID|wire.PathCompDGID
		if ch.lost {
			trap = smp.TrapUnPath
		}
		if ch.lid != 0 {
			mask |= wire.PathCompDLID
		}
		x.tellPath(c, now, port, trap, mask, &wire.PathRecord{SGID: sgid, DGID: ch.dgid, DLID: ch.lid})
	}
}

// tellPath sends trap 68 or 69 to the subscribers at one port.
func (x *informs) tellPath(c *Core, s *subnet.Snapshot, port int32, trap uint16, mask wire.CompMask, r *wire.PathRecord) {
	n := own(s, trap, smp.DetailPath{ComponentMask: uint64(mask)})
	rep := (*report)(nil)
	x.reports.event++
	from, to := x.of(ib.MakeGID(s.Prefix, s.Ports[port].GUID))
	for _, sub := range x.all.list[from:to] {
		if !matchesNotice(sub, &n) {
			continue
		}
		if rep == nil {
			rep = x.reports.make(&n, r)
		}
		x.reports.give(c, x.reports.peer(sub), rep)
	}
}
