package sm

import (
	"heddle/ib"
	"heddle/mad"
	"heddle/sm/notice"
)

// decide settles who is master, after a discovery.
func (c *Core) decide() bool {
	return !c.mastership.Decide() || c.configure()
}

// Begin implements mastership.Manager.
func (c *Core) Begin() {
	c.ReadAnew()
	c.sweep.attempts = 0
	c.forgetTables()
	c.ForgetLevel()
	c.beginTenure()
	c.pkeys.BecomeMaster()
	c.lids.NewMastership()
	c.beginFloating()
}

// Other implements mastership.Manager.
func (c *Core) Other(guid ib.GUID) { c.tenure.Other(guid) }

// Restart implements mastership.Manager.
func (c *Core) Restart() {
	c.ReadAnew()
	c.beginTenure()
	c.forgetTables()
	c.lids.NewMastership()
	c.beginFloating()
}

// ReadAnew implements mastership.Manager.
func (c *Core) ReadAnew() {
	c.FirstSweep = true
	c.absent.Veil()
}

// End implements mastership.Manager.
func (c *Core) End() {
	c.pkeys.Forget()
	c.Up = false
	c.takeover.Drop()
	c.links.ForgetTold()
	c.Abort()
	c.agenda.Drop()
}

// Succeed implements mastership.Manager.
func (c *Core) Succeed(gone ib.GUID) { c.takeover.Arm(gone) }

// Rediscover implements mastership.Manager.
func (c *Core) Rediscover(why string) {
	c.agenda.Want(why)
	if c.Phase != notice.PhaseIdle {
		c.Abort()
	}
}

// Abort implements mastership.Manager.
func (c *Core) Abort() {
	c.discovery.EndRegion()
	c.sweep.sound = false
	c.Engine.CancelAll()
	c.hurry.Forget()
	c.guids.DropAsked()
	c.pkeys.DropAsked()
	c.vports.DropAsked()
	c.dropMoves()
	c.mastership.Canceled()
	c.sweep.persistWait = false
	c.router.Stale()
	c.light.Disarm()
	c.schedule.retryAt = mad.Never
	c.install.Cancel()
	c.enter(notice.PhaseIdle)
}

// forgetTables: installed means read back in this mastership.
func (c *Core) forgetTables() {
	c.install.Reset()
	c.groups.Reset()
	c.lanes.Reset()
	c.guids.Reset()
	c.vports.Reset()
	c.placements.Reset()
}
