package sa

import (
	"heddle/ib"
	"heddle/mad"
)

// departed lists lost GIDs (trap 65) with their former LIDs. It is the "repath trap table" of
// W. L. Guay's thesis (Paper VI, algorithm 1), which distinguishes a migrated virtual machine
// from a new or restarted one. A GID that returns within Config.MigrateTime with another LID
// causes trap 69 in addition to trap 64 (signals), because peers with a cached path would still
// send to the old LID.
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

// returned reports whether a new GID was recently lost at another LID, which it returns, and
// forgets it.
func (d *departed) returned(c *Core, g ib.GUID, lid ib.LID) (was ib.LID, ok bool) {
	x, ok := d.list[g]
	delete(d.list, g)
	return x.lid, ok && lid != 0 && lid != x.lid && c.now-x.at < c.migrateTime()
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
