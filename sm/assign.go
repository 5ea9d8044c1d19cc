package sm

import (
	"heddle/sm/lid"
	"heddle/store"
)

// regionLIDs is what the assignment in a sweep of a region changed.
type regionLIDs struct {
	added []int32 // end ports that have LIDs now, as indices in Topology.Ports
	anew  bool    // the LIDs of the whole subnet were assigned
}

func (c *Core) lidRules() lid.Rules {
	return lid.Rules{LMC: c.Config.LMC, LMCPort0: c.Config.LMCPort0, FirstSweep: c.FirstSweep}
}

// assignLIDs gives every end port its LID. It returns what is to be stored.
func (c *Core) assignLIDs() []store.Op {
	ops := c.lids.AssignPorts(c.Fabric, c.lidRules(), c.placements.Reserve, func(r lid.Report) {
		if r.Problem {
			c.Problem(r.Where, r.Notice)
		} else {
			c.Notify(r.Notice)
		}
	})
	if !c.Config.FloatLID {
		ops = append(ops, c.lids.DropManager()...)
	}
	return ops
}

// assignRegion gives LIDs to the end ports that a sweep of a region found: those that they had
// before, if no other port has them, else it does what a full sweep does. It reports false if
// everything must be read.
func (c *Core) assignRegion() (ops []store.Op, ok bool) {
	if !c.discovery.Joined() {
		return nil, true
	}
	added, ops, outcome := c.lids.AssignRegion(c.Fabric, c.discovery.Nodes(), c.lidRules())
	switch outcome {
	case lid.SmallerTable:
		c.discovery.GiveUp("a switch with a smaller forwarding table joined")
		return nil, false
	case lid.NeedAll:
		return c.assignAnew()
	}
	c.regionLIDs.added = added
	return ops, true
}

// assignAnew assigns the LIDs of the whole subnet, as a full sweep does. Ports that have one keep
// it.
func (c *Core) assignAnew() ([]store.Op, bool) {
	f := c.Fabric
	if len(f.Problems) > 0 {
		c.discovery.GiveUp("LIDs are needed, and an earlier sweep had problems")
		return nil, false
	}
	for i := range f.Ports {
		f.Ports[i].LID, f.Ports[i].LMC = 0, 0
	}
	out := f.Excluded()
	ops := c.assignLIDs()
	if len(f.Problems) > 0 || f.Excluded() != out {
		c.Unsaved = append(c.Unsaved, ops...)
		c.discovery.GiveUp("a port got no LID")
		return nil, false
	}
	c.regionLIDs.anew = true
	return ops, true
}
