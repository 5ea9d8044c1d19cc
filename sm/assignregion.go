package sm

// graphRegion brings the graph up to date with what a sweep of a region found.
// If nothing of it changed the graph stays the same.
func (c *Core) graphRegion() {
	f, r := c.Fabric, &c.reg
	if !r.born && !r.died && !r.anew && !c.router.Regranting() && !f.HostsMoved(r.nodes) {
		if f.UpdateChannels(r.nodes, c.Config.MaxOpVLs) {
			c.router.Change()
		}
		return
	}
	c.router.Change()
	if r.anew {
		f.ListGraph()
	} else {
		f.RelistGraph(r.nodes, r.added)
	}
	c.router.BuildGraph()
}
