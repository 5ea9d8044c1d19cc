package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/partition"
	"heddle/sm/notice"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// P_Key tables. What a holder has is known only as it was read back or
// acknowledged in this mastership; what it is to hold follows from the partitions
// in force (partition.Grants). The two are brought together
//
//   - in a sweep, before its link is moved to Armed, for a port that comes or
//     comes back, and for the virtual ports that are behind it: no data passes
//     before its table is right;
//   - between sweeps, as upkeep, for all others (see pkeypass.go).
//
// Block 0 of every end port is read by each full discovery. The blocks above it
// are read once in a mastership, in the background for ports that are Active;
// they need not be where the port shows the state of a reset agent and keeps no
// keys over one (LID 0, the default key alone, no P_Key memory), which is how
// every port of a fresh fabric looks. Tables of virtual ports are read whole, each
// time that they come up.

// virgin reports whether nobody can be using an index of a table: its agent was
// found reset by the sweep under way, or it is a virtual port that is not up yet.
func (c *Core) virgin(h holder) bool {
	if h.v != nil {
		return h.v.State() == ib.StateInit
	}
	return c.reset(h.p.PKeys)
}

// reset reports whether the agent of a port was found reset by the sweep under
// way.
func (c *Core) reset(t *pkey.Table) bool { return t.Virgin && t.Sweep == c.Sweeps+1 }

// pkeyTarget is what a table is to hold at the end of a pass. Who cannot send yet, a
// virtual port that is not up, is given what it is to have at once: where a table is
// written once, no older copy of a Set can undo it.
func (c *Core) pkeyTarget(h holder, pass pkeyPass) []ib.PKey {
	t := c.table(h)
	want := c.pkeysWanted(h)
	if pass == passRevoke && (h.v == nil || !c.virgin(h)) {
		return partition.Only(t.Have, want)
	}
	table, err := partition.Place(partition.Placing{
		Table: t.Have, Cap: c.pkeyCap(h), Want: want, Index0: c.index0(h), Fresh: c.virgin(h),
	})
	if err != nil && !c.isEdge(h) { // there it is told what is not enforced
		c.tellHolder("overflow", h, notice.Notice{Kind: notice.KindPKeyRefused, Level: notice.Warn, Err: err, Text: "not every key could be given"})
	}
	return table
}

// pkeyPass is the pass that a Set is made for.
func (c *Core) pkeyPass() pkeyPass {
	if c.Phase == notice.PhaseUpkeep {
		return c.pk.pass
	}
	return passGrant
}

// pkeyStep asks for the next thing about the table of a holder: a block that is
// not known, or one that is to be written. It reports whether there is one.
func (c *Core) pkeyStep(h holder, pass pkeyPass) bool {
	t := c.table(h)
	capacity := c.pkeyCap(h)
	switch {
	case t.Asked, t.Refused, t.RetryAt > c.Now:
		return false
	case capacity == 0:
		if !c.isEdge(h) {
			c.noPTable(h, nil)
		}
		return false
	case t.Blocks < pkey.Blocks(capacity):
		c.askPKeys(work.OpPKeys, h, uint32(t.Blocks))
		return true
	}
	target := c.pkeyTarget(h, pass)
	for b := range uint32(pkey.Blocks(capacity)) {
		if pkey.Block(t.Have, b) != pkey.Block(target, b) {
			c.askPKeys(work.OpSetPKeys, h, b)
			return true
		}
	}
	return false
}

// askPKeys asks for a block of a table, or writes one: o is opPKeys or opSetPKeys.
func (c *Core) askPKeys(o work.Op, h holder, block uint32) {
	t := c.table(h)
	t.Asked = true
	c.pk.asked = append(c.pk.asked, t)
	extra := block
	if h.v != nil {
		extra = block<<16 | uint32(h.v.Index())
		if o == work.OpPKeys {
			o = work.OpGetVPKeys
		} else {
			o = work.OpSetVPKeys
		}
	}
	c.Add(work.Make(o, h.p.Node, h.p.Num, extra))
}

// buildPKeys makes the request of an item about a table. It reports false if its
// holder is gone.
func (c *Core) buildPKeys(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	h, block, ok := c.pkeyItem(it)
	if !ok {
		return false
	}
	attr, mod := smp.AttrPKeyTable, block
	switch {
	case h.v != nil:
		attr, mod = smp.AttrVPortPartitionTable, smp.VPortTableMod(h.v.Index(), uint16(block))
	case c.Fabric.Nodes[h.p.Node].IsSwitch():
		mod = smp.PKeyMod(h.p.Num, uint16(block))
	}
	if it.Op() == work.OpPKeys || it.Op() == work.OpGetVPKeys {
		get(attr, mod)
		return true
	}
	list := pkey.Block(c.pkeyTarget(h, c.pkeyPass()), block)
	c.table(h).Sending = slices.Clone(list[:])
	list.Put(set(attr, mod))
	return true
}

// pkeyItem is the holder and the block that an item is about; false if the holder
// is gone.
func (c *Core) pkeyItem(it work.Item) (h holder, block uint32, ok bool) {
	r := holderRef{ref: ref{Node: it.Node(), Port: it.Port()}}
	block = it.Extra()
	if o := it.Op(); o == work.OpGetVPKeys || o == work.OpSetVPKeys {
		r.index, block = uint16(block), block>>16
	}
	h, ok = c.holder(r)
	return h, block, ok
}

// settled reports whether the table of a holder is as it should be, or can be no
// better.
func (c *Core) settled(h holder) bool {
	t := c.table(h)
	if t.OKGen == c.pk.gen {
		return true
	}
	if !c.tableKnown(h) || c.isEdge(h) && c.blind(h.p) {
		return false
	}
	return t.Refused || c.pkeyCap(h) == 0 || slices.Equal(t.Have, c.pkeyTarget(h, passGrant))
}

// pkeySettled notes that there is nothing left to do about a table. A virtual port
// that waited for it goes on.
func (c *Core) pkeySettled(h holder) {
	switch {
	case c.isEdge(h) && c.enforceBits(h.p) != enforced(&h.p.Info):
		return
	case h.v != nil && h.v.State() < ib.StateActive:
		if !c.edgeLets(h) {
			return
		}
		c.table(h).OKGen = c.pk.gen
		c.vports.Look(h.a.Ref(h.v.Index()))
		c.vports.KeysConfirmed(h.a.Ref(h.v.Index()))
		return
	}
	c.table(h).OKGen = c.pk.gen
}

// sweepPKeys has the table of a port put right that comes, before its link is
// moved to Armed.
func (c *Core) sweepPKeys(p *topo.Port) {
	n := &c.Fabric.Nodes[p.Node]
	if !n.OK() || !p.Has(topo.PortKnown) || c.Config.PlanOnly {
		return
	}
	up := p.Info.PortState > ib.StateInit
	switch {
	case p.Has(topo.PortEnd) && p.LID != 0:
		t := c.pTable(p)
		switch reset := p.Info.LID != p.LID; {
		case c.reset(t):
		case t.Sweep == c.Sweeps+1 && reset:
			t.Blocks, t.OKGen = min(t.Blocks, 1), 0 // of which block 0 was read just now
		case t.Sweep != c.Sweeps+1 && (reset || !up):
			t.Forget()
		}
		// One that joins while it is Active comes from another part of the
		// fabric, where this manager could not reach it.
		// Port 0 of a switch that was reset is new too, whatever state it shows.
		if up && !c.reset(t) && (n.Flags&topo.NodeNew == 0 || c.Snapshot == nil || !c.Snapshot.Up) {
			return
		}
		c.sweepVPKeys(p)
	case c.edge(p) && c.enforcing():
		if up {
			return
		}
		c.pTable(p).Forget() // the switch may have been reset
	default:
		return
	}
	c.pTable(p).RetryAt = 0
	c.pkeyStep(holder{p: p}, passGrant)
}

// share returns a table equal to list that all ports with such a table share.
func (k *pkeys) share(list []ib.PKey) []ib.PKey {
	list = partition.Trim(list)
	b := make([]byte, 0, 128)
	for _, x := range list {
		b = append(b, byte(x>>8), byte(x))
	}
	if t, ok := k.tables[string(b)]; ok {
		return t
	}
	t := append([]ib.PKey{}, list...)
	k.tables[string(b)] = t
	return t
}
