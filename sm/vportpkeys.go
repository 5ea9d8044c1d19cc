package sm

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/sm/pkey"
	"heddle/sm/topo"
)

// vportKeysDone reports whether the P_Key table of a virtual port is as it should
// be, or can be no better, and the switch port before it lets its keys pass, so
// that it may become Active. If not, that is seen to, and the virtual port is
// looked at again when it is done. What was in the table when it came up counts
// for nothing: it is read first, and where a copy of an older Set may have undone
// what was written since, again.
func (c *Core) vportKeysDone(r vportRef) bool {
	p := c.EndPort(r.a.port)
	if p == nil || r.vport() == nil {
		return false
	}
	h := holder{p, r.a, r.vport()}
	if !h.v.takesPart() {
		return false
	}
	t := c.metVPort(h)
	t.OKGen = 0 // it may be made ready for somebody else than before
	switch {
	case !c.settled(h) || !c.edgeLets(h):
	case h.v.state < ib.StateActive && h.v.confirm == confirmNothing && c.mayRevert(h):
		h.v.confirm = confirmKeys
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
	if h.v.known&knowPKeys == 0 {
		h.v.known |= knowPKeys
		t.Forget()
		t.Refused, t.Tries, t.RetryAt = false, 0, 0
	}
	return t
}

// vportChanged is told when a virtual port came, went, changed its state, or has
// other GUIDs than before: its keys, and those of the switch port before it, may
// have to be others. Index 0 is the adapter as a whole.
func (c *Core) vportChanged(r vportRef) { c.touchPKeys(r.a.port) }

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
	a := c.virt.byPort[p.GUID]
	if a == nil {
		return
	}
	for _, v := range a.vports {
		if v == nil || v.pk == nil || v.pk.Life != c.pk.life {
			continue
		}
		h := holder{p, a, v}
		if strange := c.strange(h); !slices.ContainsFunc(v.pk.Have, strange) && !slices.ContainsFunc(v.pk.Ghost, strange) {
			continue
		}
		v.pk.Forget()
		v.pk.RetryAt = 0
		c.pkeyStep(h, passGrant)
	}
}
