package ipoib

import (
	"bytes"
	"maps"
	"slices"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim/host/saclient"
)

// path is an entry of the path cache.
type path struct {
	Path
	known   bool
	at      mad.Time // when it became known
	asking  bool
	again   bool     // something changed while it was asked for
	retry   mad.Time // no query before, unless a notice asks for it
	waiting []waits
}

type waits struct {
	hw Hardware
	f  Frame
}

// send sends a frame to a link-layer address, when the path is known.
func (d *Device) send(now mad.Time, to Hardware, f *Frame) bool {
	p := d.paths[to.GID]
	if p == nil {
		p = &path{}
		d.paths[to.GID] = p
	}
	if p.known && d.cfg.Lifetime > 0 && now.Sub(p.at) > d.cfg.Lifetime {
		p.known = false
		d.Count.Expired++
	}
	if !p.known && !p.asking && p.retry <= now {
		d.query(now, to.GID, p)
	}
	switch {
	case p.known: // the answer may have come during the call
		d.Count.Sent++
		return d.link.Send(now, Address{Path: p.Path, QPN: to.QPN, QKey: d.group.QKey, GID: to.GID}, f)
	case len(p.waiting) >= max(d.cfg.Queue, 1):
		d.Count.Dropped++
	default:
		p.waiting = append(p.waiting, waits{to, *f})
	}
	return true
}

// query asks the SA for a path.
func (d *Device) query(now mad.Time, gid ib.GID, p *path) {
	if p.asking {
		p.again = true
		return
	}
	p.asking, p.again = true, false
	epoch := d.epoch
	d.Count.Queries++
	q := wire.PathRecord{SGID: d.hw.GID, DGID: gid, PKey: d.cfg.PKey, NumbPath: 1, Reversible: true}
	mask := wire.PathCompSGID | wire.PathCompDGID | wire.PathCompPKey | wire.PathCompNumbPath | wire.PathCompReversible
	d.sa.Paths(now, &q, mask, true, func(now mad.Time, list []wire.PathRecord, err error) {
		if epoch == d.epoch {
			d.answered(now, gid, p, list, err)
		}
	})
}

func (d *Device) answered(now mad.Time, gid ib.GID, p *path, list []wire.PathRecord, err error) {
	p.asking = false
	switch {
	case err == nil && len(list) > 0:
		d.set(now, p, Path{list[0].DLID, list[0].SL})
	default:
		d.Count.Failed++
		d.Count.Dropped += uint64(len(p.waiting))
		p.waiting, p.retry = nil, now.Add(d.cfg.Retry)
		if !mad.Unanswered(err) {
			p.known = false // the SA says that there is none
		}
	}
	if p.again {
		d.query(now, gid, p)
	}
}

// set makes a path known, and sends what waits for it.
func (d *Device) set(now mad.Time, p *path, to Path) {
	if p.known && p.Path != to {
		d.Count.Replaced++
	}
	p.Path, p.known, p.at, p.retry = to, true, now, 0
	list := p.waiting
	p.waiting = nil
	for i := range list {
		d.send(now, list[i].hw, &list[i].f)
	}
}

// gids lists the cached paths in order.
func (d *Device) gids() []ib.GID {
	return slices.SortedFunc(maps.Keys(d.paths), func(a, b ib.GID) int { return bytes.Compare(a[:], b[:]) })
}

// Notice takes a notice, from the SA or from the privileged domain of the server. The values of a
// Report are those of the port that subscribed: functions of a shared port have its LID, so they
// are valid for them too.
func (d *Device) Notice(now mad.Time, r *saclient.Report) {
	if !d.up || d.cfg.Deaf {
		return
	}
	d.Count.Notices++
	trap, _ := r.Notice.Trap()
	switch trap {
	case smp.TrapRePath, smp.TrapUnPath:
		var x smp.DetailPath
		x.Get(&r.Notice.DataDetails)
		d.changed(now, wire.CompMask(x.ComponentMask), &r.Path, trap == smp.TrapUnPath)
	case smp.TrapGIDInService:
		var x smp.DetailGID
		x.Get(&r.Notice.DataDetails)
		if p := d.paths[x.GID]; p != nil {
			d.query(now, x.GID, p)
		}
	}
}

// changed is what a notice about paths does to the cache. A path that may have changed is used
// until the answer comes.
func (d *Device) changed(now mad.Time, mask wire.CompMask, r *wire.PathRecord, lost bool) {
	for _, gid := range d.gids() {
		p := d.paths[gid]
		switch {
		case mask.Has(wire.PathCompDGID) && gid != r.DGID:
		case !mask.Has(wire.PathCompDGID) && mask.Has(wire.PathCompDLID) && p.known && p.DLID != r.DLID:
		case lost && mask.Any(wire.PathCompDGID|wire.PathCompDLID):
			p.known = false
			d.Count.Flushed++
		case gid == r.DGID && r.MTU != 0 && r.DLID != 0 && !lost:
			d.set(now, p, Path{r.DLID, r.SL})
			p.again = p.asking // the answer under way may be older
		default:
			d.query(now, gid, p)
		}
	}
}

// Refresh asks for all paths again, as after a request to register again.
func (d *Device) Refresh(now mad.Time) {
	for _, gid := range d.gids() {
		d.query(now, gid, d.paths[gid])
	}
}

// PathTo is the cached path to a GID.
func (d *Device) PathTo(gid ib.GID) (p Path, ok bool) {
	if x := d.paths[gid]; x != nil && x.known {
		return x.Path, true
	}
	return Path{}, false
}
