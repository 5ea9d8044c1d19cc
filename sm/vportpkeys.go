package sm

import (
	"heddle/ib"
	"heddle/mad"
)

// vportKeysDone reports whether the P_Key table of a VPort is as it should be, or
// can be no better, so that the VPort may become Active. If not, what is next is
// asked, or has been.
func (c *Core) vportKeysDone(r vportRef) bool { return true }

func (c *Core) buildVPKeys(it item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	return false
}

func (c *Core) onVPKeys(it item, comp *mad.Completion) {}
