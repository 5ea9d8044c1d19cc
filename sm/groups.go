package sm

import "heddle/route"

// setGroups takes the multicast groups of the subnet.
func (c *Core) setGroups(groups []Group) {
	c.groups = groups
}

func (j *Job) withTrees(t *route.Tables, o route.Options) *route.Tables { return t }
