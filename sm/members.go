package sm

import (
	"maps"
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/notice"
)

// Two parties say who has which P_Key: people, with a policy, and the address
// manager, with the memberships of virtual machines. What is in force is the one
// with the other added (partition.Policy.With). A change of either goes the same
// way: checked, what is freed by it stored, in force, carried out. The policy is
// stored here; members are with who sets them, so of those there is stored only
// what quarantine needs, the names of the partitions that they make.

// partitionChange is a SetPartitions or SetMembers under way.
type partitionChange struct {
	policy  *partition.Policy // nil: as it is
	encoded []byte            // of policy
	members []partition.Partition
	by      changeOf
	tag     uint64

	// What will be in force, from when it is being stored on.
	inForce *partition.Policy
	freed   map[ib.PKey][]string
}

// changeOf says whose change it is.
type changeOf uint8

const (
	changePolicy changeOf = iota
	changeMembers
)

// setPartitions begins a change of the policy.
func (c *Core) setPartitions(ev SetPartitions) {
	if c.Config.PlanOnly {
		return
	}
	b, err := encodePolicy(ev.Policy)
	if err != nil {
		c.partitionsRefused(ev.Tag, err)
		return
	}
	c.pk.queue = append(c.pk.queue, partitionChange{policy: ev.Policy, tag: ev.Tag, encoded: b})
	c.savePartitions()
}

// setMembers takes the memberships that are added to the policy's. Before Start
// they are only kept: what the store held is in force with them.
func (c *Core) setMembers(ev SetMembers) {
	if c.Config.PlanOnly {
		return
	}
	if !c.started {
		c.pk.members, c.pk.membersAsked = ev.Partitions, ev.Partitions
		return
	}
	c.pk.queue = append(c.pk.queue, partitionChange{members: ev.Partitions, by: changeMembers, tag: ev.Tag})
	c.savePartitions()
}

// membersAgain asks for the members again that could not be stored.
func (c *Core) membersAgain() {
	k := &c.pk
	if k.againAt > c.Now {
		return
	}
	k.againAt = mad.Never
	k.queue = append(k.queue, partitionChange{members: k.membersAsked, by: changeMembers})
	c.savePartitions()
}

func (c *Core) partitionsRefused(tag uint64, err error) {
	c.Notify(notice.Notice{
		Kind: notice.KindPartitionsRefused, Level: notice.Error, Err: err, Tag: tag,
		Text: "the partitions stay as they were, because the new ones were refused",
	})
}

// combine settles what will be in force after a change.
func (k *pkeys) combine(ch *partitionChange) (err error) {
	if ch.by == changeMembers {
		k.membersAsked = ch.members
		ch.inForce, err = k.base.With(ch.members)
		return err
	}
	// Members that were refused with the old policy may fit the new one.
	ch.members = k.membersAsked
	if ch.inForce, err = ch.policy.With(ch.members); err != nil {
		ch.members = k.members
		if p, err := ch.policy.With(ch.members); err == nil {
			ch.inForce = p
			return nil
		}
	}
	return err
}

// savePartitions begins the first change of the queue that changes something: it
// has stored what must be before it is in force.
func (c *Core) savePartitions() {
	k := &c.pk
	for !k.saving && len(k.queue) > 0 && c.started {
		ch := &k.queue[0]
		if err := k.combine(ch); err != nil {
			c.partitionsRefused(ch.tag, err)
			k.queue = slices.Delete(k.queue, 0, 1)
			continue
		}
		if ch.by == changeMembers && ch.inForce.Equal(k.grants.Policy()) {
			k.members = ch.members
			c.partitionsSame(ch.tag)
			k.queue = slices.Delete(k.queue, 0, 1)
			continue
		}
		ch.freed = freeing(k.grants.Policy(), ch.inForce, k.freed)
		base := k.base
		if ch.policy != nil {
			base = ch.policy
		}
		ops := freedOps(ch.freed, addedNames(base, ch.inForce))
		if ch.policy != nil {
			ops = append(policyOps(ch.encoded), ops...)
		} else if sameFreed(ch.freed, k.freed) && maps.Equal(addedNames(base, ch.inForce), addedNames(k.base, k.grants.Policy())) {
			c.partitionsInForce()
			continue
		}
		k.saving = true
		c.Save(ops)
		k.saveAt = c.SaveGen
	}
}

// partitionsSame: a change changes nothing. Who asked is told so.
func (c *Core) partitionsSame(tag uint64) {
	k := &c.pk
	if k.applying {
		k.tag = tag // told at the end
		return
	}
	if tag != 0 {
		c.Notify(notice.Notice{Kind: notice.KindPartitionsApplied, Level: notice.Debug, Tag: tag, Text: "the members change nothing"})
	}
}

// partitionsInForce puts the first change of the queue in force.
func (c *Core) partitionsInForce() {
	k := &c.pk
	ch := k.queue[0]
	k.queue = slices.Delete(k.queue, 0, 1)
	base := k.base
	if ch.policy != nil {
		base = ch.policy
	}
	old, trivial := k.grants.Policy(), k.trivial
	guids, all := partition.Changed(old, ch.inForce)
	all = all || !sameFreed(k.freed, ch.freed)
	k.adopt(base, ch.members, ch.inForce, ch.freed)
	if all || trivial != k.trivial || !c.touchMembers(guids) {
		k.again()
	}
	k.applying, k.waiting, k.tag = true, 0, ch.tag
	text := strconv.Itoa(len(ch.inForce.Partitions)) + " partitions are in force; ports are brought up to date"
	level := notice.Info
	if ch.by == changeMembers { // these come often
		level, text = notice.Debug, "members were added to partitions, or taken from them; ports are brought up to date"
	}
	c.Notify(notice.Notice{Kind: notice.KindPartitions, Level: level, Tag: ch.tag, Text: text})
	for _, key := range sortedKeys(ch.freed) {
		if p := ch.inForce.Find(key); p != nil {
			c.Notify(notice.Notice{
				Kind: notice.KindPKeyQuarantined, Level: notice.Info, Tag: ch.tag,
				Text: "P_Key " + key.String() + " was another partition's: " + strconv.Quote(p.Name) + " is given it when every port has let go of it",
			})
		}
	}
	if c.BetweenSweeps() && c.Snapshot != nil && c.Phase == notice.PhaseIdle {
		c.publishHeld()
	}
}

// freeing lists the keys that are in quarantine when one policy follows another,
// with the names of the partitions that had them; freed is what is in it already.
func freeing(old, p *partition.Policy, freed map[ib.PKey][]string) map[ib.PKey][]string {
	out := map[ib.PKey][]string{}
	for key, names := range freed {
		out[key] = slices.Clone(names)
	}
	for i := range old.Partitions {
		q := &old.Partitions[i]
		if n := p.Find(q.PKey); q.PKey != partition.DefaultKey && (n == nil || n.Name != q.Name) && !slices.Contains(out[q.PKey], q.Name) {
			out[q.PKey] = append(out[q.PKey], q.Name)
		}
	}
	for key, names := range out {
		if n := p.Find(key); n != nil && len(names) == 1 && names[0] == n.Name {
			delete(out, key) // it comes back before anybody else had it
		}
	}
	return out
}

// addedNames are the names of the partitions that are in force and that the
// policy does not have.
func addedNames(base, inForce *partition.Policy) map[ib.PKey]string {
	out := map[ib.PKey]string{}
	for i := range inForce.Partitions {
		if q := &inForce.Partitions[i]; base.Find(q.PKey) == nil {
			out[q.PKey] = q.Name
		}
	}
	return out
}

func sameFreed(a, b map[ib.PKey][]string) bool { return maps.EqualFunc(a, b, slices.Equal[[]string]) }

// loadPartitions takes what the store held, with the members that are known.
func (c *Core) loadPartitions(st storedPartitions, err error) {
	k := &c.pk
	if err != nil {
		// Whoever was kept apart must not be joined by a damaged file.
		c.Notify(notice.Notice{
			Kind: notice.KindPartitionsRefused, Level: notice.Error, Err: err,
			Text: "the stored partitions cannot be read, so every port is a limited member of the default partition alone: set the partitions again",
		})
		st = storedPartitions{policy: closedPolicy()}
	}
	if st.policy == nil {
		st.policy = partition.Default()
	}
	inForce := c.withMembers(st.policy)
	// A partition that the members made when they were last in force, and do not
	// make any more, was freed when nobody saw it.
	freed := freeing(st.before(), inForce, st.freed)
	k.adopt(st.policy, k.members, inForce, freed)
	k.again()
	if names := addedNames(st.policy, inForce); !sameFreed(freed, st.freed) || !maps.Equal(names, st.added) {
		c.Save(freedOps(freed, names))
	}
}

// withMembers is a policy with the members that are known at the start. What
// cannot be added is left out: the others must not lose their keys by it.
func (c *Core) withMembers(p *partition.Policy) *partition.Policy {
	k := &c.pk
	if out, err := p.With(k.members); err == nil {
		return out
	}
	var fit []partition.Partition
	for i := range k.members {
		one := k.members[i : i+1]
		next, err := p.With(one)
		if err != nil {
			c.partitionsRefused(0, err)
			continue
		}
		p, fit = next, append(fit, one...)
	}
	k.members = fit
	return p
}

// closedPolicy joins nobody but with the manager.
func closedPolicy() *partition.Policy {
	return &partition.Policy{Partitions: []partition.Partition{{
		Name: "Default", PKey: partition.DefaultKey,
		Members: []partition.Member{{Kind: partition.All, As: partition.Limited}, {Kind: partition.Self, As: partition.Full}},
	}}}
}
