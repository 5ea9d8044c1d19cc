package sm

import (
	"heddle/mad"
	"heddle/route/transition"
	"heddle/sm/forward"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// takeLFTs joins the switches of a new discovery with what is known of their
// tables. A switch that shows signs of a reset has lost them.
func (c *Core) takeLFTs() {
	f, audit := c.Fabric, c.agenda.Audit()
	c.ScopeNodes(func(ni int32, n *topo.Node) {
		if n.GraphSwitch < 0 {
			return
		}
		p0 := f.PortOf(ni, 0)
		reset := p0.Info.LID != p0.LID || p0.Info.MasterSMLID != c.links.SMLID() || c.Fabric.AllInit(ni)
		changed, foreign := c.install.Take(ni, reset, audit)
		if changed {
			c.router.Change()
		}
		if foreign {
			c.Notify(notice.Notice{
				Kind: notice.KindForeignChange, Level: notice.Warn, Where: f.Where(ni, -1),
				Text: "LinearFDBTop was changed by somebody else; the table is read back",
			})
		}
	})
}

func (c *Core) needReadback() bool {
	need := c.install.DoubtsLanes()
	c.install.Missing(func(int32, int) { need = true })
	c.groups.Missing(func(int32, uint16, uint8) { need = true })
	return need
}

// startReadback reads the blocks that are not known. A result of a job that
// still reads the rows is awaited first.
func (c *Core) startReadback() bool {
	c.enter(notice.PhaseReadback)
	return true
}

func (c *Core) readBack() bool {
	if c.router.Reading() {
		return false // a stale job still reads the rows; its result resumes us
	}
	if c.Total == 0 {
		c.install.Missing(func(ni int32, b int) {
			c.Report.BlocksRead++
			c.Add(work.Make(work.OpGetLFT, ni, 0, uint32(b)))
		})
		c.groups.Missing(func(ni int32, b uint16, pos uint8) {
			c.Report.BlocksRead++
			c.Add(work.Make(work.OpGetMFT, ni, pos, uint32(b)))
		})
		c.install.DoubtedLanes(func(ni int32, k forward.LaneKey) { c.Add(work.Make(work.OpBackSL, ni, k.Out, uint32(k.In))) })
		if c.Pending > 0 {
			return true
		}
	}
	c.enter(notice.PhaseRoute)
	return true
}

func (c *Core) onGetLFT(it work.Item, comp *mad.Completion) {
	l := c.Fabric.Nodes[it.Node()].LFT
	if c.Phase != notice.PhaseLight || l == nil {
		c.install.Answered(it, comp)
		return
	}
	c.light.Answered(it, comp)
}

// startDistribution begins a transition.
func (c *Core) startDistribution(r *job.Result) {
	c.install.Begin(r, func(failed string) {
		if failed != "" {
			c.endSweep()
			return
		}
		c.startLanes()
	})
}

// Enter implements install.Sweep.
func (c *Core) Enter(p notice.Phase) { c.enter(p) }

// TakeDown implements install.Sweep.
func (c *Core) TakeDown() { c.startDown() }

// TookDown implements install.Sweep.
func (c *Core) TookDown() int { return c.Report.Downed }

// AddLanes implements install.Sweep.
func (c *Core) AddLanes(list []transition.LaneTable) { c.lanes.Stage(list) }

// PublishTold implements install.Sweep.
func (c *Core) PublishTold() { c.publishSweep() }

// AuditAt implements install.Sweep.
func (c *Core) AuditAt(at mad.Time) { c.light.AuditAt(at) }

// BlockWritten implements install.Sweep.
func (c *Core) BlockWritten(s int32, block int) { c.router.Written(s, block) }

// GroupsChanged implements install.Sweep.
func (c *Core) GroupsChanged(block uint16) { c.groups.BlockChanged(block) }

// startDown takes every link down (static2003 only).
func (c *Core) startDown() {
	c.enter(notice.PhaseDiscard)
	c.discovery.Widen()
	c.links.TakeDown()
}

// needLanesFirst reports whether lanes have to be set up before the tables that need them are
// written: the subnet ran on tables with one lane so far.
func (c *Core) needLanesFirst() bool {
	return c.lanes.Matter() && !c.lanes.SetUp() && !c.FirstSweep && !c.install.Quiet()
}

// startLanes begins the phase in which SL-to-VL and VL arbitration tables are set up.
func (c *Core) startLanes() bool {
	c.enter(notice.PhaseLanes)
	c.lanes.Start()
	return true
}

// lanesSet ends the phase of startLanes, or that before the first tables that need lanes.
func (c *Core) lanesSet() bool {
	switch {
	case !c.lanes.First():
		c.lanes.Done(c.router.Changed())
		c.startArm()
	case c.Errs > 0:
		c.lanes.FirstDone()
		c.endSweep()
	default:
		c.lanes.FirstDone()
		c.startDistribution(c.install.Result())
	}
	return true
}
