package sm

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/vport"
)

// vportKeysDone reports whether the P_Key table of a virtual port is as it should
// be, or can be no better, and the switch port before it lets its keys pass, so
// that it may become Active. If not, that is seen to, and the virtual port is
// looked at again when it is done. What was in the table when it came up counts
// for nothing: it is read first, and where a copy of an older Set may have undone
// what was written since, again.
func (c *Core) vportKeysDone(r vport.Ref) bool {
	p := c.EndPort(r.Adapter.PortGUID())
	if p == nil || r.VPort() == nil {
		return false
	}
	h := holder{p, r.Adapter, r.VPort()}
	if !h.v.TakesPart() {
		return false
	}
	t := c.metVPort(h)
	t.OKGen = 0 // it may be made ready for somebody else than before
	switch {
	case !c.settled(h) || !c.edgeLets(h):
	case h.v.State() < ib.StateActive && !h.v.Confirming() && c.mayRevert(h):
		h.v.ConfirmKeys()
		t.Forget()
		if c.pkeyStep(h, passGrant) {
			return false
		}
	default:
		t.OKGen = c.pk.gen
		return true
	}
	c.touchPKeys(p.GUID)
	return false
}

// mayRevert reports whether the network may still deliver a copy of an older Set to
// the table of a holder: of one of ours that another one followed soon, or of what a
// predecessor sent.
func (c *Core) mayRevert(h holder) bool {
	t := c.table(h)
	if t.Refused || c.pkeyCap(h) == 0 {
		return false
	}
	return t.Ghost != nil && t.GhostAt > c.Now || c.pk.reread != mad.Never && c.pk.reread > c.Now
}

// metVPort is the table of a virtual port; of one that came up nothing is known of
// it any more.
func (c *Core) metVPort(h holder) *pkey.Table {
	t := c.table(h)
	if h.v.MeetKeys() {
		t.Forget()
		t.Refused, t.Tries, t.RetryAt = false, 0, 0
	}
	return t
}

// edgeLets reports whether the switch port before a virtual port lets packets with
// all its keys pass.
func (c *Core) edgeLets(h holder) bool {
	q := c.edgeOf(h.p)
	if q == nil || enforced(&q.Info) == (enforcement{}) {
		return true
	}
	have := c.pKeysOf(q)
	return !slices.ContainsFunc(edgeKeys(c.pkeysWanted(h)), func(k ib.PKey) bool { return !slices.Contains(have, k) && !slices.Contains(have, k|0x8000) })
}

// sweepVPKeys has the tables of virtual ports put right whose port comes back, if
// they held what they must not hold any more. The state of a virtual port outlasts
// its port's link: those that were Active are so at once when the link is. Whoever
// came to one meanwhile is in Init, and seen to before that is Active.
func (c *Core) sweepVPKeys(p *topo.Port) {
	a := c.vports.Adapter(p.GUID)
	if a == nil {
		return
	}
	for _, v := range a.VPorts() {
		if v == nil || v.Keys == nil || v.Keys.Life != c.pk.life {
			continue
		}
		h := holder{p, a, v}
		if strange := c.strange(h); !slices.ContainsFunc(v.Keys.Have, strange) && !slices.ContainsFunc(v.Keys.Ghost, strange) {
			continue
		}
		v.Keys.Forget()
		v.Keys.RetryAt = 0
		c.pkeyStep(h, passGrant)
	}
}
