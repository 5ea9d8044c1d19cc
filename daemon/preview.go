package daemon

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"heddle/api"
	"heddle/route/preview"
	"heddle/sm"
	"heddle/subnet"
)

// planner is what plans for operators need. They are computed beside the manager, by their callers.
type planner struct {
	one  sync.Mutex                // held while a plan of the whole subnet is computed
	core atomic.Pointer[sm.Config] // as reloaded; nil: as at the start
	// editing has an entry while partitions are changed, so that each change is made of the one before.
	editing chan struct{}
	// partitions is the name of the file of partitions; nil or empty: there is none.
	partitions atomic.Pointer[string]
}

// coreConfig is the configuration of the core that is in force.
func (d *Daemon) coreConfig() *sm.Config {
	if c := d.planner.core.Load(); c != nil {
		return c
	}
	return &d.cfg.Core
}

// routing is what the manager computes the tables of a subnet by.
func (d *Daemon) routing(s *subnet.Snapshot) preview.Routing {
	c := d.coreConfig()
	r := preview.Routing{Engines: c.Engines, Explicit: c.Explicit, Options: c.OptionsFor(s.Graph, func(sw int32, port uint8) bool {
		return s.Throttled(subnet.Ref{Node: s.SwitchNode[sw], Port: port})
	})}
	r.Options.Workers = 1
	return r
}

// PlanReroute implements api.Backend.
func (d *Daemon) PlanReroute(_ context.Context, rebalance bool) (api.RoutePlan, error) {
	s, err := d.routed()
	if err != nil {
		return api.RoutePlan{}, err
	}
	if !d.planner.one.TryLock() {
		return api.RoutePlan{}, errors.New("another plan is being computed; ask again in a moment")
	}
	defer d.planner.one.Unlock()
	r := d.routing(s)
	r.Options.Rebalance = rebalance
	p, err := preview.Anew(s.Graph, s.Tables, r)
	return api.RoutePlan{Engine: p.Engine, Passed: p.Passed, TableChange: changeOf(&p), LoadBefore: p.LoadBefore, LoadAfter: p.LoadAfter}, err
}

// routed is the published state of a subnet with routes, whose master this manager is.
func (d *Daemon) routed() (*subnet.Snapshot, error) {
	s := d.Snapshot()
	if s == nil || s.State != subnet.Master || !s.Up || s.Graph == nil || s.Tables == nil {
		return nil, errors.New("this manager is not the master of a subnet that is up")
	}
	return s, nil
}

func changeOf(p *preview.Result) api.TableChange {
	return api.TableChange{Switches: p.Switches, Blocks: p.Blocks, Changed: p.Entries}
}
