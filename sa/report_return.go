package sa

import (
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/subnet"
)

// departed lists lost GIDs (trap 65) with their former LIDs. It is the "repath trap table" of
// W. L. Guay's thesis (Paper VI, algorithm 1), which distinguishes a migrated virtual machine
// from a new or restarted one. A GID that returns within Config.MigrateTime with another LID
// causes trap 69 in addition to trap 64, because peers with a cached path would still send to
// the old LID.
type departed struct {
	list  map[ib.GUID]departure
	since mad.Time // nothing was removed from the list before its limit
}

type departure struct {
	lid ib.LID
	at  mad.Time
}

// migrateTime is how long a lost GID is remembered in case it returns; 0: not at
// all.
func (c *Core) migrateTime() mad.Time {
	return mad.Time(max(c.cfg.MigrateTime, 0))
}

// left remembers a lost GID.
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

// returned reports whether a new GID was recently lost at another LID, and forgets
// it.
func (d *departed) returned(c *Core, g ib.GUID, lid ib.LID) bool {
	was, ok := d.list[g]
	delete(d.list, g)
	return ok && lid != 0 && lid != was.lid && c.now-was.at < c.migrateTime()
}

// expire forgets GUIDs lost longer ago than migrateTime.
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

// returnEvents sends trap 69 about GIDs that returned with other LIDs: one for
// each, or, if there are many, one that names all paths.
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
			continue // the port is new and knows no paths yet
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
