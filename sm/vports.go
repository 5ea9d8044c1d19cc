package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/subnet"
)

// takeVirtuals joins the ports of a new discovery with the adapters that are
// known.
func (c *Core) takeVirtuals() {}

// forgetVirtuals is for a new mastership: nothing is known of any adapter.
func (c *Core) forgetVirtuals() {}

// virtualsDue reports whether upkeep has something to do about virtual ports.
func (c *Core) virtualsDue() bool { return false }

// upkeepVirtuals asks up to most adapters and virtual ports for the next thing.
func (c *Core) upkeepVirtuals(most int) {}

// lookVPort has a VPort looked at: what it is to hold may have changed. Index 0 is
// the adapter as a whole.
func (c *Core) lookVPort(r vportRef) {}

// lightVirtuals asks adapters in a light sweep whether a VPort changed state.
func (c *Core) lightVirtuals() {}

// dropAskedVirtuals forgets what is known of VPorts whose answers will not be
// seen.
func (c *Core) dropAskedVirtuals() {}

// onVirtualTrap takes a trap about virtual ports. It reports whether it was one.
func (c *Core) onVirtualTrap(n *smp.Notice, issuer ib.LID) bool { return false }

func (c *Core) buildVirtual(it item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	return false
}

func (c *Core) onVirtual(it item, comp *mad.Completion) {}

// showVPorts appends the virtual ports to a new snapshot; portAt gives the index
// in Snapshot.Ports of a port of c.f.
func (c *Core) showVPorts(s *subnet.Snapshot, portAt []int32) {}
