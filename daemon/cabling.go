package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"heddle/api"
	"heddle/api/show"
	"heddle/daemon/eventlog"
	"heddle/fabric/cabling"
	"heddle/ib"
	"heddle/subnet"
)

// kindCablingPlan is the event of another plan.
const kindCablingPlan = "cabling_plan"

// CablingPlan is the plan with which the cables are compared for as long as the manager runs.
type CablingPlan struct {
	Name    string // of the file, for messages
	Plan    *cabling.Plan
	Names   map[ib.GUID]string // by node GUID, which the plan may use
	Partial bool
	Ignore  [cabling.NumKinds]bool
}

// cableWatch compares the cables with the plan, in a goroutine of its own.
type cableWatch struct {
	plan atomic.Pointer[CablingPlan] // nil: there is none
	next atomic.Pointer[subnet.Snapshot]
	bell bell
	last atomic.Pointer[cabling.Status] // nil: nothing was compared, or there is no plan
}

// published notes a snapshot of a master. It does not wait.
func (w *cableWatch) published(s *subnet.Snapshot) {
	if s.Up && w.plan.Load() != nil {
		w.next.Store(s)
		w.bell.ring()
	}
}

// SetCabling replaces the plan; nil: there is none any more.
func (d *Daemon) SetCabling(p *CablingPlan) {
	w := &d.finder.cables
	if w.plan.Swap(p) == nil && p == nil {
		return
	}
	w.bell.ring()
}

// watchCables starts to compare the cables; end stops that.
func (d *Daemon) watchCables() (end func()) {
	w := &d.finder.cables
	w.plan.Store(d.cfg.Cabling)
	return background(func(ctx context.Context) {
		watch := cabling.NewWatch(d.finder.nextID)
		var plan *CablingPlan
		var seen *subnet.Snapshot
		pause := time.NewTimer(0)
		defer pause.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.bell:
			}
			p, s := w.plan.Load(), w.next.Swap(nil)
			if s == nil && p != nil && p != plan {
				if s = d.Snapshot(); s != nil && (s.State != subnet.Master || !s.Up) {
					s = nil
				}
			}
			if p == plan && (s == nil || p == nil || seen != nil && sameCables(seen, s)) {
				continue
			}
			began := time.Now()
			if s != nil || p == nil {
				another := plan != p
				plan, seen = p, s
				d.compareCables(watch, p, s, another, began)
			}
			// In a large subnet a comparison takes a while, and the subnet may change all the time.
			pause.Reset(10 * time.Since(began))
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
		}
	})
}

func (d *Daemon) tellPlan(p *CablingPlan) {
	if p == nil {
		d.note(slog.LevelInfo, kindCablingPlan, "the cables are no longer compared with a plan", nil)
		return
	}
	d.note(slog.LevelInfo, kindCablingPlan, "the cables are compared with the plan "+p.Name, map[string]string{"plan": p.Name})
}

// compareCables compares a snapshot with the plan, which may be another one, and says what differs now,
// and what no more.
func (d *Daemon) compareCables(watch *cabling.Watch, p *CablingPlan, s *subnet.Snapshot, another bool, now time.Time) {
	var st *cabling.Status
	var opened, closed []cabling.Entry
	if p == nil {
		_, _, closed = watch.Step(now, "", nil, nil, cabling.Options{})
	} else {
		o := show.CablingOptions(s)
		o.Names, o.Partial, o.Ignore = p.Names, p.Partial, p.Ignore
		st, opened, closed = watch.Step(now, p.Name, p.Plan, s.Fabric(), o)
	}
	d.finder.cables.last.Store(st)
	if another {
		d.tellPlan(p)
	}
	d.tellCables(opened, closed)
}

func (d *Daemon) tellCables(opened, closed []cabling.Entry) {
	tell := func(kind string, list []cabling.Entry) {
		for i := range list {
			f := show.CablingFinding(&list[i], d.clock.started)
			d.tellFindingAs(kind, &f, show.CablingText(&f))
		}
	}
	tell(kindClosed, closed)
	tell(eventlog.KindFindingOpened, opened)
}

// sameCables reports whether two snapshots have the same nodes and the same cables with the same rates.
func sameCables(a, b *subnet.Snapshot) bool {
	if a == b {
		return true
	}
	if len(a.Nodes) != len(b.Nodes) {
		return false
	}
	for i := range a.Nodes {
		if x, y := &a.Nodes[i], &b.Nodes[i]; x.Info.NodeGUID != y.Info.NodeGUID || x.Desc != y.Desc || x.Info.NumPorts != y.Info.NumPorts {
			return false
		}
		p, q := a.NodePorts(int32(i)), b.NodePorts(int32(i))
		for k := range p {
			if x, y := p[k], q[k]; x != y && (x.Peer != y.Peer || x.Info.LinkWidthActive != y.Info.LinkWidthActive || a.Speed(x) != b.Speed(y) ||
				x.Info.PortPhysicalState != y.Info.PortPhysicalState) {
				return false
			}
		}
	}
	return true
}

// cables is what the last comparison found; nil: there is no plan, or this manager is not the master of a
// subnet that is up.
func (d *Daemon) cables() *cabling.Status {
	if s := d.Snapshot(); s == nil || s.State != subnet.Master || !s.Up {
		return nil
	}
	return d.finder.cables.last.Load()
}

// Cabling implements api.Backend.
func (d *Daemon) Cabling() api.CablingState {
	st := d.cables()
	out := show.CablingState(st)
	if p := d.finder.cables.plan.Load(); st == nil && p != nil {
		out.Plan, out.Note = p.Name, "nothing was compared yet: this manager is not the master of a subnet that is up"
	}
	return out
}
