package sm

import (
	"heddle/route"
	"heddle/route/transition"
	"heddle/sm/history"
	"heddle/sm/job"
)

// rememberTables is called before a transition writes anything.
func (c *Core) rememberTables(r *job.Result) {
	if len(r.Plan.Stages) == 0 || r.Installed == nil || r.Plan.SMPs == 0 && !r.Plan.NeedsRepath {
		return // what packets meet stays
	}
	if r.Transition.Quiet {
		c.past.Forget() // there are no packets that could remember anything
		return
	}
	for _, ni := range c.Fabric.SwitchNode {
		if l := c.Fabric.Nodes[ni].LFT; l != nil {
			l.Shared = true // rows that are remembered are not written into
		}
	}
	// A path by entries of two states goes by each at most as far as its own do.
	hops := history.LongestPath
	if r.Report != nil {
		hops = min(hops, 2*(r.Report.MaxHops+1))
	}
	steps := []*route.Tables{r.Installed, r.Tables}
	if f := r.Plan.Fitted; f != nil && f.First != nil && f.First != r.Installed && f.First != f.Tables {
		steps = []*route.Tables{r.Installed, f.First, r.Tables}
	}
	c.past.Begin(c.Fabric.Graph, r.Plan, hops, steps...)
}

// lostCables are the cables that packets under way may have come over until they were lost.
func (c *Core) lostCables() []transition.LeftCable {
	if c.served == nil {
		return c.past.Lost(c.Now, nil, c.Fabric.Graph)
	}
	return c.past.Lost(c.Now, c.served.Graph, c.Fabric.Graph)
}
