package sm

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
)

// P_Key tables. What a port holds is known only as it was read back or
// acknowledged in this mastership; what it is to hold follows from the policy
// in force (partition.Grants). The two are brought together
//
//   - in a sweep, before its link is moved to Armed, for a port that comes or
//     comes back: no data passes before its table is right;
//   - between sweeps, as upkeep, for all others (see partitions.go).
//
// Block 0 of every end port is read by each full discovery. The blocks above it
// are read once in a mastership, in the background for ports that are Active;
// they need not be where the port shows the state of a reset agent and keeps no
// keys over one (LID 0, the default key alone, no P_Key memory), which is how
// every port of a fresh fabric looks.

// pkeyTable is the P_Key table of an end port, or of an external port of a
// switch that faces one. The same one is used by the fabs of successive sweeps.
type pkeyTable struct {
	life    uint32   // the mastership that it belongs to
	sweep   uint64   // in which block 0 was last read, counted from 1; 0 = in none
	blocks  uint16   // how many blocks, from the first on, are known
	tries   uint8    // that failed in a row
	virgin  bool     // its agent was reset when it was read, and it was not written since
	refused bool     // the agent has no such table, or does not let us write it
	asked   bool     // a request is under way
	okGen   uint64   // of c.pk.gen for which it is as it should be
	retryAt mad.Time // not before
	wroteAt mad.Time // when a Set was last acknowledged; meaningful if wrote
	wrote   bool
	peer    ib.GUID // of the end port whose keys it has; external ports only
	// verifyAt is when to see whether enforcement is as it was set, because an
	// older Set(PortInfo) may arrive late; 0 = no need. External ports only.
	verifyAt mad.Time

	// have is what it holds, by index, without the empty entries at its end.
	// Snapshots share it.
	have    []ib.PKey
	sending []ib.PKey // of the Set under way
	// ghost are keys of earlier Sets of which the network may still deliver a
	// copy until ghostAt; then the table is read again.
	ghost   []ib.PKey
	ghostAt mad.Time
}

// pkeyPass is a step of bringing tables up to date. Keys are taken away, from
// hosts and switches at once: a host that is slow to give one up is cut off by
// its switch. What is given is first given to switch ports, then their
// enforcement is turned on, then to hosts: a member that was told never meets a
// switch that was not, and traffic of members that stay is never dropped.
type pkeyPass uint8

const (
	passRevoke pkeyPass = iota
	passSwitch
	passEnforce
	passGrant
	passDone
)

// pTable is the table of a port, made or taken over from the sweep before.
func (c *Core) pTable(p *port) *pkeyTable {
	if p.pk == nil && c.last != nil && c.last != c.f {
		f := c.f
		n := &f.nodes[p.node]
		if i, ok := c.last.find(n.info.NodeGUID); ok && c.last.nodes[i].info.NumPorts == n.info.NumPorts {
			p.pk = c.last.portOf(i, p.num).pk
		}
	}
	if p.pk == nil {
		p.pk = &pkeyTable{}
	}
	if p.pk.life != c.pk.life {
		*p.pk = pkeyTable{life: c.pk.life}
	}
	return p.pk
}

// pKeysOf is what a snapshot shows: nil if the table was not read in this
// mastership.
func (c *Core) pKeysOf(p *port) []ib.PKey {
	if t := p.pk; t != nil && t.life == c.pk.life {
		return t.have
	}
	return nil
}

// forget: the table has to be read again. What it held may still be there.
func (t *pkeyTable) forget() { t.blocks, t.okGen, t.virgin = 0, 0, false }

// virgin reports whether nobody can be using an index of a table: its agent was
// found reset by the sweep under way.
func (c *Core) virgin(t *pkeyTable) bool { return t.virgin && t.sweep == c.sweeps+1 }

// edge reports whether p is an external port of a switch that faces an end
// port.
func (c *Core) edge(p *port) bool {
	return p.num != 0 && c.f.nodes[p.node].isSwitch() && p.has(pLinked) && c.f.port(p.peer).has(pEnd) && !c.f.nodes[p.peer.Node].isSwitch()
}

// pkeyCap is how many entries the table of a port has.
func (c *Core) pkeyCap(p *port) int {
	n := &c.f.nodes[p.node]
	if n.isSwitch() && p.num != 0 {
		return int(n.sw.PartitionEnforcementCap)
	}
	return int(n.info.PartitionCap)
}

func pkeyBlocks(capacity int) uint16 {
	return uint16((capacity + smp.PKeyBlockLen - 1) / smp.PKeyBlockLen)
}

// pkeyMod is the modifier of a block of the table of p.
func (c *Core) pkeyMod(p *port, block uint32) uint32 {
	if !c.f.nodes[p.node].isSwitch() {
		return block
	}
	return smp.PKeyMod(p.num, uint16(block))
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

// holds notes what a port holds.
func (c *Core) holds(p *port, have []ib.PKey) {
	t := p.pk
	have = c.pk.share(have)
	if slices.Equal(have, t.have) && t.have != nil {
		return
	}
	t.have = have
	c.pk.shown = append(c.pk.shown, ref{Node: p.node, Port: p.num})
}

// granted lists the keys that an end port is to have, quarantined ones too.
func (c *Core) granted(p *port) []ib.PKey {
	class := partition.CA
	switch c.f.nodes[p.node].info.NodeType {
	case ib.NodeSwitch:
		class = partition.Switch
	case ib.NodeRouter:
		class = partition.Router
	}
	var aliases []ib.GUID
	if t := c.guids.byPort[p.guid]; t != nil {
		aliases = t.have
		if len(t.want) > 0 {
			aliases = slices.Concat(t.have, t.want)
		}
	}
	return c.pk.grants.Of(class, p.guid, aliases, p == c.f.agentPort(c.f.self.Node, c.f.self.Port))
}

// pkeysWanted lists the keys that an end port, or the end port that a switch
// port faces, may have now. Keys in quarantine stay where they are and are
// given to nobody else. The list is not to be changed.
func (c *Core) pkeysWanted(p *port) []ib.PKey {
	if c.edge(p) {
		q := c.f.port(p.peer)
		return edgeKeys(c.pkeysWanted(q))
	}
	want := c.granted(p)
	if len(c.pk.freed) == 0 || !slices.ContainsFunc(want, func(k ib.PKey) bool { return c.pk.freed[k.Base()] != nil }) {
		return want
	}
	var have []ib.PKey
	if p.pk != nil && p.pk.life == c.pk.life {
		have = p.pk.have
	}
	out := make([]ib.PKey, 0, len(want))
	for _, k := range want {
		switch {
		case c.pk.freed[k.Base()] == nil, slices.Contains(have, k):
			out = append(out, k)
		case k.IsFull() && slices.Contains(have, k.Base()) && !slices.Contains(want, k.Base()):
			out = append(out, k.Base()) // not yet more than it was
		case !k.IsFull() && slices.Contains(have, k|0x8000) && !slices.Contains(want, k|0x8000):
			out = append(out, k)
		}
	}
	return out
}

// edgeKeys are the entries of the switch port that faces an end port with
// these keys. They are full ones: by IBA §10.9.3 two limited members do not
// match, so a limited entry would stop the packets of the limited member
// itself.
func edgeKeys(want []ib.PKey) []ib.PKey {
	out := make([]ib.PKey, 0, len(want))
	for _, k := range want {
		if k |= 0x8000; len(out) == 0 || out[len(out)-1] != k {
			out = append(out, k)
		}
	}
	return out
}

// pkeyTarget is what a table is to hold at the end of a pass.
func (c *Core) pkeyTarget(p *port, pass pkeyPass) []ib.PKey {
	t := p.pk
	want := c.pkeysWanted(p)
	if pass == passRevoke {
		return partition.Only(t.have, want)
	}
	table, err := partition.Place(partition.Placing{
		Table: t.have, Cap: c.pkeyCap(p), Want: want, Index0: c.pk.index0, Fresh: c.virgin(t),
	})
	if err != nil && c.noteOnce("pkeys overflow "+p.guid.String()+strconv.Itoa(int(p.num))) {
		c.out.notify(Notice{Kind: KindPKeyRefused, Level: Warn, Where: c.f.where(p.node, int(p.num)), Err: err, Text: "not every key could be given"})
	}
	return table
}

// pkeyPass is the pass that a Set is made for.
func (c *Core) pkeyPass() pkeyPass {
	if c.phase == PhaseUpkeep {
		return c.pk.pass
	}
	return passGrant
}

// pkeyStep asks for the next thing about the table of a port: a block that is
// not known, or one that is to be written. It reports whether there is one.
func (c *Core) pkeyStep(p *port, pass pkeyPass) bool {
	t := c.pTable(p)
	capacity := c.pkeyCap(p)
	switch {
	case t.asked, t.refused, t.retryAt > c.now:
		return false
	case capacity == 0:
		if !c.edge(p) {
			c.noPTable(p, nil)
		}
		return false
	case t.blocks < pkeyBlocks(capacity):
		c.askPKeys(opPKeys, p, uint32(t.blocks))
		return true
	}
	target := c.pkeyTarget(p, pass)
	for b := range uint32(pkeyBlocks(capacity)) {
		if pkeyBlock(t.have, b) != pkeyBlock(target, b) {
			c.askPKeys(opSetPKeys, p, b)
			return true
		}
	}
	return false
}

func (c *Core) askPKeys(o op, p *port, block uint32) {
	p.pk.asked = true
	c.pk.asked = append(c.pk.asked, p.pk)
	c.add(mk(o, p.node, p.num, block))
}

func pkeyBlock(list []ib.PKey, block uint32) (t smp.PKeyTable) {
	if at := int(block) * smp.PKeyBlockLen; at < len(list) {
		copy(t[:], list[at:])
	}
	return t
}

// settled reports whether the table of a port is as it should be, or can be no
// better.
func (c *Core) settled(p *port) bool {
	t := c.pTable(p)
	if t.okGen == c.pk.gen {
		return true
	}
	capacity := c.pkeyCap(p)
	if !t.refused && t.blocks < pkeyBlocks(capacity) {
		return false
	}
	return t.refused || capacity == 0 || slices.Equal(t.have, c.pkeyTarget(p, passGrant))
}

// sweepPKeys has the table of a port put right that comes, before its link is
// moved to Armed.
func (c *Core) sweepPKeys(p *port) {
	n := &c.f.nodes[p.node]
	if !n.ok() || !p.has(pKnown) || c.cfg.PlanOnly {
		return
	}
	up := p.info.PortState > ib.StateInit
	switch {
	case p.has(pEnd) && p.lid != 0:
		t := c.pTable(p)
		switch reset := p.info.LID != p.lid; {
		case c.virgin(t):
		case t.sweep == c.sweeps+1 && reset:
			t.blocks = min(t.blocks, 1) // of which block 0 was read just now
		case t.sweep != c.sweeps+1 && (reset || !up):
			t.forget()
		}
		// One that joins while it is Active comes from another part of the
		// fabric, where this manager could not reach it.
		if up && (n.flags&nNew == 0 || c.snap == nil || !c.snap.Up) {
			return
		}
	case c.edge(p) && c.enforcing():
		if up {
			return
		}
		c.pTable(p).forget() // the switch may have been reset
	default:
		return
	}
	c.pTable(p).retryAt = 0
	c.pkeyStep(p, passGrant)
}

// onPKeys takes the answer to reading or writing a block.
func (c *Core) onPKeys(it item, comp *mad.Completion) {
	p := c.f.portOf(it.node(), it.port())
	t := c.pTable(p)
	t.asked = false
	var got smp.PKeyTable
	err := answer(comp)
	if err == nil {
		err = got.Decode(smp.Data(comp.MAD))
	}
	switch {
	case err == nil && it.op() == opPKeys:
		t.tries = 0
		c.pkeysRead(p, it.extra(), &got)
	case err == nil:
		c.pkeysWritten(p, it.extra(), &got, comp)
	case it.op() == opPKeys:
		c.pkeysUnread(p, err)
	default:
		c.pkeysFailed(p, comp, err)
	}
	switch c.phase {
	case PhaseAssign:
		if err == nil {
			c.pkeyStep(p, passGrant)
		}
	case PhaseUpkeep:
		if !c.pkeyStep(p, c.pk.pass) && c.settled(p) {
			c.pkeySettled(p)
		}
	}
}

// pkeySettled notes that there is nothing left to do about a table.
func (c *Core) pkeySettled(p *port) {
	if !c.edge(p) || c.enforceBits(p) == enforced(&p.info) {
		p.pk.okGen = c.pk.gen
	}
}

// pkeysRead takes a block as it was read.
func (c *Core) pkeysRead(p *port, b uint32, got *smp.PKeyTable) {
	t := p.pk
	capacity := c.pkeyCap(p)
	have := make([]ib.PKey, capacity)
	copy(have, t.have)
	at := int(b) * smp.PKeyBlockLen
	if b < uint32(t.blocks) && pkeyBlock(have, b) != *got {
		t.blocks, t.okGen = uint16(b), 0 // somebody else wrote it, or the agent was reset
	}
	for i := range have[at:min(at+smp.PKeyBlockLen, capacity)] {
		if have[at+i] = got[i]; got[i].IsEmpty() {
			have[at+i] = 0
		}
	}
	t.blocks = max(t.blocks, uint16(b)+1)
	if b == 0 {
		t.sweep = 0
		if c.phase != PhaseUpkeep {
			t.sweep = c.sweeps + 1
		}
		end := c.f.agentPort(p.node, p.num)
		t.virgin = end.info.LID == 0 && (p.num == 0 || p.info.PortState <= ib.StateInit) && *got == smp.PKeyTable{ib.PKeyDefaultFull} &&
			!end.info.CapabilityMask.Has(ib.CapIsPKeyNVRAM)
		if t.virgin { // a reset agent: the rest is empty
			clear(have[min(smp.PKeyBlockLen, capacity):])
			t.blocks = pkeyBlocks(capacity)
		}
	}
	c.holds(p, have)
}

// pkeysWritten takes what an agent says that it holds after a Set.
func (c *Core) pkeysWritten(p *port, b uint32, got *smp.PKeyTable, comp *mad.Completion) {
	t := p.pk
	var sent smp.PKeyTable
	_ = sent.Decode(smp.Data(comp.Request))
	// The network may deliver an older copy of a Set late. Where two writes come
	// close to each other, what the first one wrote may come back for a while.
	if t.wrote && c.now.Sub(t.wroteAt) < suspectTime {
		t.ghostOf(c.now, t.have)
		c.pk.retry = min(c.pk.retry, t.ghostAt)
	}
	t.wrote, t.wroteAt = true, c.now
	capacity := c.pkeyCap(p)
	have := make([]ib.PKey, capacity)
	copy(have, t.have)
	at := int(b) * smp.PKeyBlockLen
	same := true
	for i := range have[at:min(at+smp.PKeyBlockLen, capacity)] {
		k := got[i]
		if k.IsEmpty() {
			k = 0
		}
		same = same && k == sent[i]
		have[at+i] = k
	}
	t.virgin = false
	c.holds(p, have)
	if same {
		t.tries = 0
		return
	}
	c.pkeyRetry(p, "the agent keeps other P_Keys than it was sent", nil)
}

func (t *pkeyTable) ghostOf(now mad.Time, list []ib.PKey) {
	for _, k := range list {
		if !k.IsEmpty() && !slices.Contains(t.ghost, k) {
			t.ghost = append(t.ghost, k)
		}
	}
	t.ghostAt = now.Add(suspectTime)
}

// pkeysUnread: a block could not be read.
func (c *Core) pkeysUnread(p *port, err error) {
	switch {
	case !mad.Unanswered(err):
		// Optional where enforcement is not built in; the default partition is
		// assumed.
		p.pk.refused = true
		if !c.edge(p) {
			c.noPTable(p, err)
		}
	case c.phase == PhaseDiscover: // asked again before its link comes up
	case c.phase == PhaseAssign:
		c.setFailed(p.node, int(p.num), "Get(P_KeyTable)", err)
		c.pkeyBackoff(p)
	default:
		c.pkeyRetry(p, "its P_Key table could not be read; it is tried again", err)
	}
}

// noPTable tells of a port that is to have keys and has no table for them.
func (c *Core) noPTable(p *port, err error) {
	if len(c.granted(p)) > 1 && c.noteOnce("pkeys refused "+p.guid.String()) {
		c.out.notify(Notice{
			Kind: KindPKeyRefused, Level: Warn, Where: c.f.where(p.node, int(p.num)), Err: err,
			Text: "it shows no P_Key table, so it is a member of the default partition alone",
		})
	}
}

// pkeysFailed: a Set was refused, or its fate is not known.
func (c *Core) pkeysFailed(p *port, comp *mad.Completion, err error) {
	t := p.pk
	if mad.Unanswered(err) {
		var sent smp.PKeyTable
		_ = sent.Decode(smp.Data(comp.Request))
		t.ghostOf(c.now, sent[:])
		t.forget()
	}
	clean := t.blocks > 0 && (c.edge(p) || !slices.ContainsFunc(t.have, c.strange(p)))
	if c.phase == PhaseAssign && !clean { // its link stays down as long as it may hold what it must not
		c.setFailed(p.node, int(p.num), "Set(P_KeyTable)", err)
		c.pkeyBackoff(p)
		return
	}
	c.pkeyRetry(p, "its P_Key table could not be written; it is tried again", err)
}

// pkeyRetry has a port asked again later, for as long as it takes.
func (c *Core) pkeyRetry(p *port, text string, err error) {
	c.pkeyBackoff(p)
	if c.noteOnce("pkeys failed " + p.guid.String() + strconv.Itoa(int(p.num))) {
		c.out.notify(Notice{Kind: KindSetFailed, Level: Warn, Where: c.f.where(p.node, int(p.num)), Err: err, Text: text})
	}
}

func (c *Core) pkeyBackoff(p *port) {
	t := p.pk
	t.okGen = 0
	t.retryAt = c.now.Add(c.cfg.RetryInterval << min(t.tries, 4))
	t.tries = min(t.tries+1, 4)
	c.pk.retry = min(c.pk.retry, t.retryAt)
}

// dropAskedPKeys forgets what is known of ports whose answers will not be seen.
func (c *Core) dropAskedPKeys() {
	for _, t := range c.pk.asked {
		if t.asked {
			t.asked = false
			t.ghostOf(c.now, t.sending)
			t.forget()
			c.pk.retry = min(c.pk.retry, t.ghostAt)
			c.pk.look = true
		}
	}
	c.pk.asked = c.pk.asked[:0]
}
