package sm

// graphRegion brings the graph up to date with what a sweep of a region found.
// If nothing of it changed the graph stays the same.
func (c *Core) graphRegion() {
	f, nodes := c.Fabric, c.discovery.Nodes()
	if !c.discovery.Joined() && !c.discovery.Left() && !c.regionLIDs.anew && !c.router.Regranting() && !f.HostsMoved(nodes) {
		if f.UpdateChannels(nodes, c.Config.MaxOpVLs) {
			c.router.Change()
		}
		return
	}
	c.router.Change()
	if c.regionLIDs.anew {
		f.ListGraph()
	} else {
		f.RelistGraph(nodes, c.regionLIDs.added)
	}
	c.router.BuildGraph()
}
