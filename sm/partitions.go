package sm

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/store"
)

// A change of partitions is a transaction: the policy is checked, stored, and
// only then in force; nothing of a policy that does not get so far is ever
// seen by a port. From then on every port that it concerns is brought up to
// date, for as long as that takes, whoever does not answer meanwhile.
//
// The P_Key of a partition that ends, or that passes to a partition of another
// name, is in quarantine: ports that have it under the old partition lose it,
// ports that have it under both keep it, and nobody else is given it before the
// last of the others is known to have lost it, or has left the subnet (it is
// cleaned before it comes back). Known means: acknowledged, and no copy of an
// earlier Set can still be under way. The quarantine is stored with the policy, so
// that a manager that is started anew keeps it.

// pkeys is what a manager knows and does about partitions.
type pkeys struct {
	base         *partition.Policy     // that people gave
	members      []partition.Partition // that are added to it
	membersAsked []partition.Partition // that were last asked for: those, or some that were refused
	grants       *partition.Grants     // of what is in force: base with members
	trivial      bool
	index0       func(ib.PKey) bool // nil if no partition wants index 0
	freed        map[ib.PKey][]string
	gen          uint64 // of what ports are to hold
	life         uint32 // of what is known of them
	tables       map[string][]ib.PKey

	queue  []partitionChange // asked for; the first is being stored if saving
	saving bool
	saveAt uint64 // PersistGen of it

	applying bool // the end of the last change has not been told
	waiting  int  // ports that were told to be waited for
	tag      uint64

	pass   pkeyPass
	look   bool // something may be to be done about any port
	todo   []ref
	asked  []*pkeyTable
	shown  []ref    // tables that changed since the last snapshot
	news   bool     // the policy changed since the last snapshot
	retry  mad.Time // when the first port is due that failed or is to be read again
	reread mad.Time // when all are read again, because a predecessor's Sets may arrive late
}

func newPKeys() pkeys {
	k := pkeys{tables: map[string][]ib.PKey{}, pass: passDone, retry: mad.Never, reread: mad.Never, life: 1}
	k.adopt(partition.Default(), nil, partition.Default(), nil)
	return k
}

// adopt puts p in force, which is base with members.
func (k *pkeys) adopt(base *partition.Policy, members []partition.Partition, p *partition.Policy, freed map[ib.PKey][]string) {
	k.base, k.members = base, members
	k.grants, k.trivial, k.index0 = partition.Resolve(p), trivialPolicy(p), nil
	if slices.ContainsFunc(p.Partitions, func(q partition.Partition) bool { return q.Index0 }) {
		k.index0 = k.grants.WantsIndex0
	}
	k.freed = freed
	k.again()
	k.news = true
}

// again: what ports are to hold may have changed.
func (k *pkeys) again() {
	k.gen++
	k.look, k.pass, k.todo = true, passRevoke, nil
}

// answered is called when no request is under way.
func (k *pkeys) answered() {
	for _, t := range k.asked {
		t.asked = false
	}
	k.asked = k.asked[:0]
}

// partitionsSaved takes the result of a write of the store. Each write has
// all that was not known to be durable before it.
func (c *Core) partitionsSaved(ev Persisted) {
	k := &c.pk
	if !k.saving || ev.Gen < k.saveAt || ev.Err != nil && ev.Gen != c.persistGen {
		return
	}
	k.saving = false
	if ev.Err != nil {
		c.unsaved = slices.DeleteFunc(c.unsaved, func(o store.Op) bool { return isPolicyOp(&o) })
		c.partitionsRefused(k.queue[0].tag, ev.Err)
		k.queue = slices.Delete(k.queue, 0, 1)
		c.savePartitions()
		return
	}
	c.partitionsInForce()
	c.savePartitions()
}

// forgetPKeys: what ports hold is not known any more.
func (c *Core) forgetPKeys() { c.pk.life++ }

// masterPKeys is for a new mastership. What a predecessor sent last may still
// arrive, so tables that matter are read once more when it has.
func (c *Core) masterPKeys() {
	c.pk.look = true
	c.pk.applying = c.pk.applying || !c.pk.trivial
	if !c.pk.trivial || len(c.pk.freed) > 0 {
		c.pk.reread = c.now.Add(suspectTime)
	}
}

// touchPKeys: an end port may be to hold other keys than before.
func (c *Core) touchPKeys(guid ib.GUID) {
	p := c.endPort(guid)
	if p == nil || p.pk == nil {
		return
	}
	p.pk.okGen = 0
	if p.has(pLinked) {
		if q := c.f.port(p.peer); q.pk != nil {
			q.pk.okGen = 0
		}
	}
	c.pk.look = true
}

// pkeysDue reports whether upkeep has something to do about tables.
func (c *Core) pkeysDue() bool {
	k := &c.pk
	return k.look || k.pass != passDone || min(k.retry, k.reread) <= c.now
}

// upkeepPKeys asks up to most ports for the next thing about their tables.
func (c *Core) upkeepPKeys(most int) {
	k := &c.pk
	for c.pend < most {
		if len(k.todo) > 0 {
			r := k.todo[0]
			k.todo = k.todo[1:]
			c.pkeyDo(c.f.port(r))
			continue
		}
		switch {
		case c.pend > 0:
			return // the next pass begins when this one is done
		case k.look || min(k.retry, k.reread) <= c.now:
			k.look = false
			k.pass = passRevoke
		case k.pass != passDone:
			k.pass++
		}
		if k.pass == passDone {
			c.pkeysDone()
			if k.pass == passDone && !k.look {
				return
			}
			continue
		}
		c.scanPKeys()
	}
}

// scanPKeys lists the ports that the pass may concern.
func (c *Core) scanPKeys() {
	k, f := &c.pk, c.f
	k.todo = k.todo[:0]
	if k.reread <= c.now {
		k.reread = mad.Never
		for _, pi := range f.epPort {
			c.pTable(&f.ports[pi]).forget()
		}
	}
	k.retry = mad.Never
	add := func(p *port, now bool) { // now: this pass is about it
		t := c.pTable(p)
		if t.ghost != nil && t.ghostAt <= c.now {
			t.ghost = nil
			t.forget()
		}
		if t.ghost != nil {
			k.retry = min(k.retry, t.ghostAt)
		}
		if t.verifyAt != 0 {
			if t.verifyAt <= c.now {
				t.okGen = 0
			} else {
				k.retry = min(k.retry, t.verifyAt)
			}
		}
		if t.okGen == k.gen {
			return
		}
		if t.retryAt > c.now {
			k.retry = min(k.retry, t.retryAt)
			return
		}
		if !now {
			return
		}
		k.todo = append(k.todo, ref{Node: p.node, Port: p.num})
	}
	for _, pi := range f.epPort {
		p := &f.ports[pi]
		if p.has(pLinked) {
			if q := f.port(p.peer); c.edge(q) && (c.enforcing() || enforced(&q.info) != enforcement{}) {
				if t := c.pTable(q); t.peer != p.guid {
					t.peer, t.okGen = p.guid, 0
				}
				add(q, k.pass != passGrant)
			}
		}
		add(p, k.pass == passRevoke || k.pass == passGrant)
	}
}

// pkeyDo does for a port what the pass is about.
func (c *Core) pkeyDo(p *port) {
	if !c.f.nodes[p.node].ok() || p.lid == 0 && !c.edge(p) {
		return // it left meanwhile
	}
	pass, edge := c.pk.pass, c.edge(p)
	switch {
	case edge && pass == passEnforce:
		if c.enforceStep(p) {
			return
		}
	case edge && c.enforceWanted(p) == (enforcement{}):
		return
	case c.pkeyStep(p, pass):
		return
	}
	switch {
	case edge && pass == passEnforce && (c.enforceWanted(p) == (enforcement{}) || c.settled(p)), !edge && pass == passGrant && c.settled(p):
		c.pkeySettled(p)
	}
}

// pkeysDone ends the passes: keys come out of quarantine, which begins them
// anew, or the end of a change is told.
func (c *Core) pkeysDone() {
	k := &c.pk
	if c.releaseKeys() {
		k.again()
		return
	}
	if !k.applying {
		return
	}
	if k.reread != mad.Never {
		return
	}
	open, late := c.openPKeys(c.f), 0
	for _, pi := range c.f.epPort {
		if p := &c.f.ports[pi]; p.pk.okGen == k.gen && slices.ContainsFunc(p.pk.ghost, c.strange(p)) {
			late++ // a copy of an earlier Set may still undo it
		}
	}
	blocked := 0
	for key := range k.freed {
		if k.grants.Policy().Find(key) != nil {
			blocked++
		}
	}
	switch {
	case open+late+blocked == 0:
		k.applying = false
		c.out.notify(Notice{Kind: KindPartitionsApplied, Level: Info, Tag: k.tag, Text: "every port of the subnet holds the P_Keys that it is given, and no other"})
	case open != k.waiting && open > 0:
		k.waiting = open
		c.out.notify(Notice{Kind: KindPartitionsWaiting, Level: Warn, Tag: k.tag, Text: strconv.Itoa(open) + " ports could not be brought up to date yet; they are asked again"})
	}
}

// strange returns a function that reports whether a port is not to hold a key.
func (c *Core) strange(p *port) func(ib.PKey) bool {
	want := c.granted(p)
	return func(k ib.PKey) bool {
		return !k.IsEmpty() && !slices.Contains(want, k) && !slices.Contains(want, k|0x8000)
	}
}

// releaseKeys lets keys out of quarantine that nobody holds any more who is
// not given them. It reports whether there were any that somebody waits for.
func (c *Core) releaseKeys() bool {
	k, f := &c.pk, c.f
	if len(k.freed) == 0 || k.reread != mad.Never {
		return false
	}
	held := map[ib.PKey]bool{}
	for _, pi := range f.epPort {
		p := &f.ports[pi]
		t := c.pTable(p)
		if t.refused || c.pkeyCap(p) == 0 {
			continue
		}
		if t.asked || t.blocks < pkeyBlocks(c.pkeyCap(p)) {
			return false // it may hold anything
		}
		var strange func(ib.PKey) bool
		for _, list := range [2][]ib.PKey{t.have, t.ghost} {
			for _, x := range list {
				if k.freed[x.Base()] == nil || held[x.Base()] {
					continue
				}
				if strange == nil {
					strange = c.strange(p)
				}
				held[x.Base()] = strange(x)
			}
		}
	}
	// Who is linked and does not answer may hold what it had.
	for i := range f.ports {
		if p := &f.ports[i]; p.has(pSilent) && p.info.PortState >= ib.StateArmed {
			return false
		}
	}
	out := false
	freed := map[ib.PKey][]string{}
	for key, names := range k.freed {
		if held[key] {
			freed[key] = names
			continue
		}
		out = out || k.grants.Policy().Find(key) != nil
	}
	if len(freed) == len(k.freed) {
		return false
	}
	k.freed = freed
	if !k.saving { // a change that is being stored has them all, which is safe
		c.save(freedOps(freed, addedNames(k.base, k.grants.Policy())))
	}
	return out
}

func sortedKeys[V any](m map[ib.PKey]V) []ib.PKey {
	out := make([]ib.PKey, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
