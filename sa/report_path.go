package sa

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/route"
	"heddle/subnet"
)

// maxPathReports is how many changed paths a subscriber is told of one by one;
// if there are more, it is told that all paths from its port may have changed.
const maxPathReports = 32

// maxPathChanges bounds the changed paths of a switch that are looked at for
// each subscriber behind it. Where there are more its subscribers are told
// likewise, whether those are theirs or not.
const maxPathChanges = 1024

// pathEvents tells subscribers of traps 68 (UnPath) and 69 (RePath) which paths
// from their own port are lost and which are others now: in another order of
// ports, with another service level, MTU or rate, or back again. Paths to ports
// that came or went are told of by traps 64 and 65.
//
// The PathRecord behind the notice names the paths by the components in the
// mask: SGID, DGID and DLID; SGID alone for all paths from the port; SGID and DGID for
// all to a GID of a virtual machine that has another LID now. One that was moved with
// its LID has other paths only if what they carry differs. Comparing
// all paths costs time, so it is done only for subscriptions to these two traps
// by number.
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

// maxPathWork bounds the work of comparing all paths, in LIDs with another entry
// × switches: some 30 ns each, in a step for which joins wait. Where more has
// changed everybody is told that all paths may have.
const maxPathWork = 4 << 20

// rerouted reports whether so much has changed that it is not compared.
func rerouted(old, now *route.Tables) bool {
	var differs [int(ib.LIDMaxUnicast) + 1]bool
	n := 0
	for s := range min(len(old.LFT), len(now.LFT)) {
		a, b := old.LFT[s], now.LFT[s]
		if len(a) > 0 && len(b) > 0 && &a[0] == &b[0] {
			continue
		}
		for l := range min(len(a), len(b), len(differs)) {
			if a[l] != b[l] && !differs[l] {
				if differs[l], n = true, n+1; n*len(now.LFT) > maxPathWork {
					return true
				}
			}
		}
	}
	return false
}

// pathChanges are the changed paths between two states.
type pathChanges struct {
	all     bool           // of everybody; then there is no more
	sources []int32        // end ports, ascending, all of whose paths may have changed
	from    [][]pathChange // by source switch, ascending LID; more than maxPathChanges: cut
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

// change is a path that a subscriber is told of; without lid all that lead to a GID.
type change struct {
	lid  ib.LID
	dgid ib.GID
	lost bool
}

// pathsFrom tells the subscribers at one port of its paths.
func (x *informs) pathsFrom(c *Core, old, now *subnet.Snapshot, diff *pathChanges, moved *migrations, port int32) {
	src := now.Ports[port].EndPort
	sgid := now.GID(port)
	_, all := slices.BinarySearch(diff.sources, src)
	list, far := moved.from(old, now, port)
	all = all || diff.all || far
	if len(diff.from) == 0 { // nothing was routed anew
	} else if sw := now.Graph.EndPorts[src].Switch; sw >= 0 && !all {
		changes := diff.from[sw]
		all = len(changes) > maxPathChanges
		for i := 0; i < len(changes) && !all; i++ {
			l, k := changes[i].lid, changes[i].kind
			was, is := old.PortByLID(l), now.PortByLID(l)
			if is == port || was < 0 || is < 0 && now.PortByPortGUID(old.Ports[was].GUID) < 0 || is >= 0 && old.PortByPortGUID(now.Ports[is].GUID) < 0 {
				continue // itself, or a port that came or went
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
