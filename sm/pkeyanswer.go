package sm

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/pkey"
	"heddle/sm/work"
)

// onPKeys takes the answer to reading or writing a block.
func (c *Core) onPKeys(it work.Item, comp *mad.Completion) {
	h, block, ok := c.pkeyItem(it)
	if !ok {
		return // it left meanwhile
	}
	t := c.table(h)
	t.Asked = false
	var got smp.PKeyTable
	err := work.Answer(comp)
	if err == nil {
		err = got.Decode(smp.Data(comp.MAD))
	}
	read := it.Op() == work.OpPKeys || it.Op() == work.OpGetVPKeys
	switch {
	case err == nil && read:
		t.Tries = 0
		c.pkeysRead(h, block, &got)
	case err == nil:
		c.pkeysWritten(h, block, &got, comp)
	case read:
		c.pkeysUnread(h, err)
	default:
		c.pkeysFailed(h, comp, err)
	}
	switch c.Phase {
	case notice.PhaseAssign:
		if err == nil {
			c.pkeyStep(h, passGrant)
		}
	case notice.PhaseUpkeep:
		if !c.pkeyStep(h, c.pk.pass) && c.settled(h) {
			c.pkeySettled(h)
		}
	}
}

// pkeysRead takes a block as it was read.
func (c *Core) pkeysRead(h holder, b uint32, got *smp.PKeyTable) {
	t := c.table(h)
	capacity := c.pkeyCap(h)
	have := make([]ib.PKey, capacity)
	copy(have, t.Have)
	at := int(b) * smp.PKeyBlockLen
	if at >= capacity {
		return // it told of a larger table when it was asked
	}
	if known := t.Wrote || len(t.Have) > 0; known && c.Phase == notice.PhaseUpkeep && *got != pkey.Block(c.pkeyTarget(h, passGrant), b) && !c.pkeysAgain(h, got) {
		return
	}
	t.Claim, t.Claims = nil, 0
	if b < uint32(t.Blocks) && pkey.Block(have, b) != *got {
		t.Blocks, t.OKGen = uint16(b), 0 // somebody else wrote it, or the agent was reset
	}
	for i := range have[at:min(at+smp.PKeyBlockLen, capacity)] {
		if have[at+i] = got[i]; got[i].IsEmpty() {
			have[at+i] = 0
		}
	}
	t.Blocks = max(t.Blocks, uint16(b)+1)
	if b == 0 && h.v == nil {
		t.Sweep = 0
		if c.Phase != notice.PhaseUpkeep {
			t.Sweep = c.Sweeps + 1
		}
		p := h.p
		end := c.Fabric.AgentPort(p.Node, p.Num)
		t.Virgin = end.Info.LID == 0 && (p.Num == 0 || p.Info.PortState <= ib.StateInit) && *got == smp.PKeyTable{ib.PKeyDefaultFull} &&
			!end.Info.CapabilityMask.Has(ib.CapIsPKeyNVRAM)
		if t.Virgin { // a reset agent: the rest is empty
			clear(have[min(smp.PKeyBlockLen, capacity):])
			t.Blocks = pkey.Blocks(capacity)
		}
	}
	c.holds(h, have)
}

// pkeyClaims is how often a block is read that says something else each time before the
// holder is left alone for a while.
const pkeyClaims = 4

// pkeysAgain reports whether a block of a holder that was read or written before, and is not as
// it should be, says so for the second time in a row. It is read again if not: what would be written for nonsense takes keys away that
// are there.
func (c *Core) pkeysAgain(h holder, got *smp.PKeyTable) bool {
	t := c.table(h)
	if t.Claim != nil && *t.Claim == *got {
		return true
	}
	u := *got
	t.Claim = &u
	if t.Claims++; t.Claims >= pkeyClaims {
		t.Claim, t.Claims = nil, 0
		c.pkeyRetry(h, "its P_Key table is another one each time it is read", nil)
	}
	return false
}

// pkeysWritten takes what an agent says that it holds after a Set.
func (c *Core) pkeysWritten(h holder, b uint32, got *smp.PKeyTable, comp *mad.Completion) {
	t := c.table(h)
	var sent smp.PKeyTable
	_ = sent.Decode(smp.Data(comp.Request))
	// The network may deliver an older copy of a Set late. Where two writes come
	// close to each other, what the first one wrote may come back for a while.
	if t.Wrote && c.Now.Sub(t.WroteAt) < mad.LateCopy {
		t.GhostOf(c.Now, t.Have)
		c.pk.retry = min(c.pk.retry, t.GhostAt)
	}
	t.Wrote, t.WroteAt = true, c.Now
	capacity := c.pkeyCap(h)
	have := make([]ib.PKey, capacity)
	copy(have, t.Have)
	at := min(int(b)*smp.PKeyBlockLen, capacity)
	same := true
	for i := range have[at:min(at+smp.PKeyBlockLen, capacity)] {
		k := got[i]
		if k.IsEmpty() {
			k = 0
		}
		same = same && k == sent[i]
		have[at+i] = k
	}
	t.Virgin = false
	c.holds(h, have)
	if same {
		t.Tries = 0
		return
	}
	c.pkeyRetry(h, "the agent keeps other P_Keys than it was sent", nil)
	if c.Phase == notice.PhaseUpkeep {
		t.Forget() // it is read before anything is written by what it said
	}
}

// pkeysUnread: a block could not be read.
func (c *Core) pkeysUnread(h holder, err error) {
	switch {
	case !mad.Unanswered(err):
		// Optional where enforcement is not built in; the default partition is
		// assumed.
		c.table(h).Refused = true
		if !c.isEdge(h) {
			c.noPTable(h, err)
		}
	case c.Phase == notice.PhaseDiscover: // asked again before its link comes up
	case c.Phase == notice.PhaseAssign:
		c.SetFailed(h.p.Node, int(h.p.Num), "Get(P_KeyTable)", err)
		c.pkeyBackoff(h)
	default:
		c.pkeyRetry(h, "its P_Key table could not be read; it is tried again", err)
	}
}

// noPTable tells of a port that is to have keys and has no table for them.
func (c *Core) noPTable(h holder, err error) {
	if len(c.granted(h)) > 1 {
		c.tellHolder("refused", h, notice.Notice{Kind: notice.KindPKeyRefused, Level: notice.Warn, Err: err, Text: "it shows no P_Key table, so it is a member of the default partition alone"})
	}
}

// pkeysFailed: a Set was refused, or its fate is not known.
func (c *Core) pkeysFailed(h holder, comp *mad.Completion, err error) {
	t := c.table(h)
	if mad.Unanswered(err) {
		var sent smp.PKeyTable
		_ = sent.Decode(smp.Data(comp.Request))
		t.GhostOf(c.Now, sent[:])
		t.Forget()
	}
	clean := t.Blocks > 0 && (c.isEdge(h) || !slices.ContainsFunc(t.Have, c.strange(h)))
	if c.Phase == notice.PhaseAssign && !clean { // its link stays down as long as it may hold what it must not
		c.SetFailed(h.p.Node, int(h.p.Num), "Set(P_KeyTable)", err)
		c.pkeyBackoff(h)
		return
	}
	c.pkeyRetry(h, "its P_Key table could not be written; it is tried again", err)
}

// pkeyRetry has a holder asked again later, for as long as it takes.
func (c *Core) pkeyRetry(h holder, text string, err error) {
	c.pkeyBackoff(h)
	c.tellHolder("failed", h, notice.Notice{Kind: notice.KindSetFailed, Level: notice.Warn, Err: err, Text: text})
}

func (c *Core) pkeyBackoff(h holder) {
	t := c.table(h)
	t.OKGen = 0
	t.RetryAt = c.Now.Add(c.Config.RetryInterval << min(t.Tries, 4))
	t.Tries = min(t.Tries+1, 4)
	c.pk.retry = min(c.pk.retry, t.RetryAt)
}

// dropAskedPKeys forgets what is known of holders whose answers will not be seen,
// and who was to be looked at: they may be elsewhere in the next fabric.
func (c *Core) dropAskedPKeys() {
	for _, t := range c.pk.asked {
		if t.Asked {
			t.Asked = false
			t.GhostOf(c.Now, t.Sending)
			t.Forget()
			c.pk.retry = min(c.pk.retry, t.GhostAt)
			c.pk.look = true
		}
	}
	c.pk.asked = c.pk.asked[:0]
	if len(c.pk.todo) > 0 {
		c.pk.todo, c.pk.look = nil, true
	}
}
