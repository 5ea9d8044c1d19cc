package sm

// setGroups takes the multicast groups of the subnet.
func (c *Core) setGroups(groups []Group) {
	c.groups = groups
}
