package sm

// graphRegion brings the graph up to date with what a sweep of a region found.
// If nothing of it changed the graph stays the same.
func (c *Core) graphRegion() {
	f, r := c.Fabric, &c.reg
	if !r.born && !r.died && !r.anew && !c.routing.regrant && !f.HostsMoved(r.nodes) {
		c.routing.changed = f.UpdateChannels(r.nodes, c.Config.MaxOpVLs) || c.routing.changed
		return
	}
	c.routing.changed = true
	if r.anew {
		f.ListGraph()
	} else {
		f.RelistGraph(r.nodes, r.added)
	}
	c.buildGraph()
}
