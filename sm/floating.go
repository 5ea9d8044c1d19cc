package sm

import (
	"heddle/ib"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/config"
	"heddle/sm/notice"
	"heddle/sm/takeover"
	"heddle/subnet"
)

// PrepareFloat computes how the LIDs of the port of the master that published s come to the port of a
// manager with the configuration cfg, workers at a time (0 = 1). The error says why a sweep has to do it.
func PrepareFloat(s *subnet.Snapshot, cfg *Config, workers int) (*Float, error) {
	return takeover.Prepare(s, cfg.PortGUID, cfg.MaxOpVLs, move.Options{
		Workers:        workers,
		SwitchLifetime: transition.Lifetime(cfg.PacketLife),
		HOQLife:        transition.Lifetime(max(cfg.HOQLife, cfg.LeafHOQLife)),
		Unsafe:         cfg.AllowUnsafe, NoWait: cfg.Transition == config.TransitionAvailability,
	})
}

// beginFloating decides, when a mastership begins, whether our port has the LIDs that the last
// master's port had.
func (c *Core) beginFloating() {
	c.Inherits = false
	partner := c.Config.Partner
	if !c.Config.FloatLID || partner == 0 || c.Config.PlanOnly {
		c.lids.EndFloating()
		return
	}
	for _, g := range [2]ib.GUID{c.Config.PortGUID, partner} {
		if c.placements.Uses(g) {
			c.lids.EndFloating()
			c.Notify(notice.Notice{
				Kind: notice.KindSMLID, Level: notice.Warn, Where: c.WherePort(g),
				Text: "virtual machines use the port of a manager, so the LID of the manager does not float in this mastership: move them to other hosts",
			})
			return
		}
	}
	known := c.lids.Manager().Base != 0
	c.lids.BeginFloating(c.Config.PortGUID, partner)
	c.Inherits = known && !c.Config.MayLack && !c.tenure.Keeps()
}

// exchange has the partner's port give up the LIDs that are to be those of our port, before that gets
// them: two ports with one LID would both answer. It reports whether that takes a request.
func (c *Core) exchange() bool {
	own, _, ok := c.lids.Floating()
	p := c.EndPort(c.Config.Partner)
	if !ok || c.sweep.exchanged || p == nil || p.Info.LID == p.LID ||
		int(p.Info.LID) >= int(own.Base)+1<<own.LMC || int(own.Base) >= int(p.Info.LID)+1<<p.Info.LMC {
		return false
	}
	c.sweep.exchanged = true
	c.links.SetPort(p)
	return c.Pending > 0
}
