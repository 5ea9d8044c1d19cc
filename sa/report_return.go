package sa

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/subnet"
)

// departed are the GIDs that went (trap 65), with the LIDs that they had: the "repath
// trap table" of W. L. Guay's thesis (Paper VI, algorithm 1), which tells with it a
// virtual machine that migrated from one that is new or was started again. One that comes back within
// Config.MigrateTime with another LID gives trap 69 besides 64: who kept its path
// would send to where it was.
type departed struct {
	list  map[ib.GUID]departure
	since mad.Time // none of the list went earlier
}

type departure struct {
	lid ib.LID
	at  mad.Time
}

// migrateTime is how long a GID that went may be back, 0 if it is not waited for.
func (c *Core) migrateTime() mad.Time {
	return mad.Time(max(c.cfg.MigrateTime, 0))
}

// left remembers a GID that went.
func (d *departed) left(c *Core, g ib.GUID, lid ib.LID) {
	if c.migrateTime() == 0 || lid == 0 {
		return
	}
	if d.list == nil {
		d.list = map[ib.GUID]departure{}
	}
	if len(d.list) == 0 {
		d.since = c.now
	}
	d.list[g] = departure{lid, c.now}
}

// returned reports whether a GID that came was elsewhere shortly before, and forgets
// it.
func (d *departed) returned(c *Core, g ib.GUID, lid ib.LID) bool {
	was, ok := d.list[g]
	delete(d.list, g)
	return ok && lid != 0 && lid != was.lid && c.now-was.at < c.migrateTime()
}

// expire forgets those that went too long ago.
func (d *departed) expire(c *Core) {
	end := c.migrateTime()
	if len(d.list) == 0 || c.now-d.since < end {
		return
	}
	d.since = c.now
	for g, x := range d.list {
		if c.now-x.at >= end {
			delete(d.list, g)
		} else {
			d.since = min(d.since, x.at)
		}
	}
}

// returnEvents tells who asked for traps 69 that paths to GIDs are others now, as
// these are back with other LIDs: to each of them, or, if there are many, that all
// paths may be.
func (x *informs) returnEvents(c *Core, old, now *subnet.Snapshot, back []ib.GUID) {
	if len(back) == 0 {
		return
	}
	slices.Sort(back)
	done := map[int32]bool{} // subscribers' ports
	for _, s := range x.all.list {
		if s.Info.IsGeneric != 1 || s.Info.TrapNumber != smp.TrapRePath {
			continue
		}
		port := x.reports.peer(s).port
		if port < 0 || done[port] || old.PortByPortGUID(s.GID.GUID()) < 0 {
			continue // it knows no paths yet
		}
		done[port] = true
		var list []ib.GUID
		for _, g := range back {
			if at := now.PortByGUID(g); at >= 0 && at != port && now.Share(port, at) {
				list = append(list, g)
			}
		}
		sgid := now.GID(port)
		if len(list) > maxPathReports {
			x.tellPath(c, now, port, smp.TrapRePath, wire.PathCompSGID, &wire.PathRecord{SGID: sgid})
			continue
		}
		for _, g := range list {
			x.tellPath(c, now, port, smp.TrapRePath, wire.PathCompSGID|wire.PathCompDGID, &wire.PathRecord{SGID: sgid, DGID: ib.MakeGID(now.Prefix, g)})
		}
	}
}
