package pkeymgr

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/pkey"
	"heddle/sm/work"
)

// Answered takes the answer to a request about a table, or about enforcement.
func (m *Manager) Answered(it work.Item, comp *mad.Completion) {
	switch it.Op() {
	case work.OpEnforce, work.OpEnforced:
		m.answeredEnforce(it, comp)
	default:
		m.answeredTable(it, comp)
	}
}

// Skipped takes an item whose holder is not asked, because it does not answer.
func (m *Manager) Skipped(it work.Item) {
	if h, _, ok := m.item(it); ok {
		m.table(h).Asked = false
		m.backOff(h)
	}
}

// Canceled takes an item about enforcement whose answer will not be awaited.
func (m *Manager) Canceled(it work.Item) {
	t := m.portTable(m.Fabric.PortOf(it.Node(), it.Port()))
	t.VerifyAt = m.Now.Add(mad.LateCopy)
	m.retry = min(m.retry, t.VerifyAt)
}

// answeredTable takes the answer to reading or writing a block.
func (m *Manager) answeredTable(it work.Item, comp *mad.Completion) {
	h, block, ok := m.item(it)
	if !ok {
		return // it left meanwhile
	}
	t := m.table(h)
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
		m.read(h, block, &got)
	case err == nil:
		m.written(h, block, &got, comp)
	case read:
		m.unread(h, err)
	default:
		m.writeFailed(h, comp, err)
	}
	switch m.Phase {
	case notice.PhaseAssign:
		if err == nil {
			m.step(h, passGrant)
		}
	case notice.PhaseUpkeep:
		if !m.step(h, m.pass) && m.settled(h) {
			m.settle(h)
		}
	}
}

// read takes a block as it was read.
func (m *Manager) read(h holder, b uint32, got *smp.PKeyTable) {
	t := m.table(h)
	capacity := m.capacity(h)
	have := make([]ib.PKey, capacity)
	copy(have, t.Have)
	at := int(b) * smp.PKeyBlockLen
	if at >= capacity {
		return // it told of a larger table when it was asked
	}
	known := t.Wrote || len(t.Have) > 0
	if known && m.Phase == notice.PhaseUpkeep && *got != pkey.Block(m.target(h, passGrant), b) && !m.confirmed(h, got) {
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
		if m.Phase != notice.PhaseUpkeep {
			t.Sweep = m.Sweeps + 1
		}
		p := h.p
		end := m.Fabric.AgentPort(p.Node, p.Num)
		t.Virgin = end.Info.LID == 0 && (p.Num == 0 || p.Info.PortState <= ib.StateInit) &&
			*got == smp.PKeyTable{ib.PKeyDefaultFull} && !end.Info.CapabilityMask.Has(ib.CapIsPKeyNVRAM)
		if t.Virgin { // a reset agent: the rest is empty
			clear(have[min(smp.PKeyBlockLen, capacity):])
			t.Blocks = pkey.Blocks(capacity)
		}
	}
	m.holds(h, have)
}

// maxClaims is how often a block is read that has other contents each time, before the holder is left
// alone for a while.
const maxClaims = 4

// confirmed reports whether a block that is not as it should be was read twice in a row with the same
// contents. If not it is read again: to act on a false answer could take keys away that are there.
func (m *Manager) confirmed(h holder, got *smp.PKeyTable) bool {
	t := m.table(h)
	if t.Claim != nil && *t.Claim == *got {
		return true
	}
	u := *got
	t.Claim = &u
	if t.Claims++; t.Claims >= maxClaims {
		t.Claim, t.Claims = nil, 0
		m.retryLater(h, "its P_Key table is different each time it is read", nil)
	}
	return false
}

// written takes what an agent says that it holds after a Set.
func (m *Manager) written(h holder, b uint32, got *smp.PKeyTable, comp *mad.Completion) {
	t := m.table(h)
	var sent smp.PKeyTable
	_ = sent.Decode(smp.Data(comp.Request))
	// The network may deliver a copy of an earlier Set late. If two writes follow each other closely,
	// what the first one wrote may come back for a while.
	if t.Wrote && m.Now.Sub(t.WroteAt) < mad.LateCopy {
		t.GhostOf(m.Now, t.Have)
		m.retry = min(m.retry, t.GhostAt)
	}
	t.Wrote, t.WroteAt = true, m.Now
	capacity := m.capacity(h)
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
	m.holds(h, have)
	if same {
		t.Tries = 0
		return
	}
	m.retryLater(h, "the agent keeps other P_Keys than those it was sent", nil)
	if m.Phase == notice.PhaseUpkeep {
		t.Forget() // it is read before anything is written by what it said
	}
}

// unread: a block could not be read.
func (m *Manager) unread(h holder, err error) {
	switch {
	case work.Refusal(err):
		// Optional where enforcement is not built in; the default partition is
		// assumed.
		m.table(h).Refused = true
		if !m.isEdge(h) {
			m.noTable(h, err)
		}
	case m.Phase == notice.PhaseDiscover: // asked again before its link comes up
	case m.Phase == notice.PhaseAssign:
		m.Sweeper.SetFailed(h.p.Node, int(h.p.Num), "Get(P_KeyTable)", err)
		m.backOff(h)
	default:
		m.retryLater(h, "its P_Key table could not be read; it is tried again", err)
	}
}

// noTable tells of a port that is to have several keys and has no table for them.
func (m *Manager) noTable(h holder, err error) {
	if len(m.granted(h)) > 1 {
		m.tell("refused", h, notice.Notice{
			Kind: notice.KindPKeyRefused, Level: notice.Warn, Err: err,
			Text: "it shows no P_Key table, so it is a member of the default partition alone",
		})
	}
}

// writeFailed: a Set was refused, or its fate is not known.
func (m *Manager) writeFailed(h holder, comp *mad.Completion, err error) {
	t := m.table(h)
	if mad.Unanswered(err) {
		var sent smp.PKeyTable
		_ = sent.Decode(smp.Data(comp.Request))
		t.GhostOf(m.Now, sent[:])
		t.Forget()
	}
	clean := t.Blocks > 0 && (m.isEdge(h) || !slices.ContainsFunc(t.Have, m.strange(h)))
	if m.Phase == notice.PhaseAssign && !clean { // its link stays down as long as it may hold what it must not
		m.Sweeper.SetFailed(h.p.Node, int(h.p.Num), "Set(P_KeyTable)", err)
		m.backOff(h)
		return
	}
	m.retryLater(h, "its P_Key table could not be written; it is tried again", err)
}

// retryLater has a holder asked again later, until it succeeds.
func (m *Manager) retryLater(h holder, text string, err error) {
	m.backOff(h)
	m.tell("failed", h, notice.Notice{Kind: notice.KindSetFailed, Level: notice.Warn, Err: err, Text: text})
}

func (m *Manager) backOff(h holder) {
	t := m.table(h)
	t.OKGen = 0
	t.RetryAt = m.Now.Add(m.Config.RetryInterval << min(t.Tries, 4))
	t.Tries = min(t.Tries+1, 4)
	m.retry = min(m.retry, t.RetryAt)
}

// DropAsked forgets what is known of holders whose requests were canceled, and which holders were to be
// looked at: they may be elsewhere in the next discovery.
func (m *Manager) DropAsked() {
	for _, t := range m.asked {
		if t.Asked {
			t.Asked = false
			t.GhostOf(m.Now, t.Sending)
			t.Forget()
			m.retry = min(m.retry, t.GhostAt)
			m.look = true
		}
	}
	m.asked = m.asked[:0]
	if len(m.todo) > 0 {
		m.todo, m.look = nil, true
	}
}
