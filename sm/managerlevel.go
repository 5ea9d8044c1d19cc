package sm

import (
	"fmt"

	"heddle/ib"
	"heddle/route"
	"heddle/sm/job"
	"heddle/sm/notice"
)

// chooseLevel chooses the service level of datagrams between hosts and the manager by the first
// tables of a mastership. Guards discard the packets of a level at some turns until hosts use
// another, and a datagram on that level with them. So where the engine keeps paths apart by levels
// the datagrams get the highest one that its lanes leave free. So they do where flows to hot spots are
// to move (Config.SlowLane): until they have moved, counters and Reports would wait behind them. It
// is not chosen again: each host
// would have to be told.
func (c *Core) chooseLevel(r *job.Result) {
	if _, chosen := c.ManagerLevel(); chosen || r.Tables == nil {
		return
	}
	sl, why := c.freeLevel(r)
	c.ChooseLevel(sl)
	switch {
	case sl > 0:
		c.Notify(notice.Notice{
			Kind: notice.KindManagerLevel, Level: notice.Info,
			Text: fmt.Sprintf("datagrams between hosts and the manager use service level %d, on a lane that no path uses", sl),
		})
	case why != "":
		c.Notify(notice.Notice{
			Kind: notice.KindManagerLevel, Level: notice.Info,
			Text: "datagrams between hosts and the manager use service level 0, as some paths do, because " + why +
				": while guards are in place, some hosts may get no Reports and no answers",
		})
	}
}

// freeLevel is a level on a lane that no path uses; 0: there is none, or none is needed. why is not
// empty if guards may then be in the way.
func (c *Core) freeLevel(r *job.Result) (sl ib.SL, why string) {
	g, t := c.Fabric.Graph, r.Tables
	if g == nil || len(g.Channels) == 0 || !c.levels(r.Engine) && !c.Config.SlowLane {
		return 0, ""
	}
	lanes := route.Budget(g, 0)
	if c.Config.SlowLane && lanes > 1 {
		lanes-- // the highest is kept free
	}
	switch {
	case lanes <= 1:
		return 0, "" // there are no guards either
	case c.Config.QoS:
		return 0, "with QoS any level may be a class of traffic (--sm-sl names one)"
	case t.Lanes != nil:
		return 0, r.Engine + " has SL-to-VL tables of its own"
	case lanes <= t.NumVLs && !c.levels(r.Engine):
		return 0, ""
	case lanes <= t.NumVLs:
		return 0, fmt.Sprintf("all %d lanes are in use", lanes)
	}
	return ib.SL(lanes - 1), ""
}

// levels reports whether an engine may give paths other levels than 0 when it repairs tables.
func (c *Core) levels(engine string) bool {
	for _, e := range c.Config.Engines {
		if _, ok := e.(route.Leveling); ok && e.Name() == engine {
			return true
		}
	}
	return false
}
