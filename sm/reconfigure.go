package sm

import (
	"time"

	"heddle/mad"
	"heddle/subnet"
)

// reconfigure takes settings that a running manager can change, and has what follows from them done.
func (c *Core) reconfigure(ev Configure) {
	was := c.Config
	ch := c.Config.Adopt(&ev.Config)
	if err := c.Config.Check(); err != nil { // as a Config for New: a mistake of the program
		panic(err)
	}
	c.Engine.SetTries(c.Config.SMPTimeout, engineRetries(c.Config.SMPRetries))
	c.install.SetFlight(c.Config.Flight())
	c.links.SetDamping()
	if c.stopping || !c.started {
		return
	}
	if ch.Activate && c.State == subnet.NotActive {
		c.mastership.Discover("made active")
		return
	}
	if ch.Polls {
		c.mastership.PollNow()
	}
	if c.State != subnet.Master {
		return // who becomes master begins with a full sweep, and computes all tables
	}
	if ch.Lanes {
		c.lanes.SetUpAnew()
	}
	if ch.Sweeps {
		c.light.Rearm()
		c.armFull(was.FullInterval)
	}
	if ev.Reroute {
		c.router.Reroute("the settings of routing changed")
	}
	if ch.Sweep {
		c.AskFullSweep("settings changed")
	}
}

// armFull sets the time of the next full sweep after FullInterval was another.
func (c *Core) armFull(was time.Duration) {
	switch every := c.Config.FullInterval; {
	case every == was:
	case every <= 0:
		c.schedule.fullAt = mad.Never
	default:
		c.schedule.fullAt = c.Now.Add(every)
	}
}
