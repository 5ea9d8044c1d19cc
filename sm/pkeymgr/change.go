package pkeymgr

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/internal/plural"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/notice"
	"heddle/store"
	"heddle/subnet"
)

// P_Keys come from two sources: the policy of administrators, and the memberships of virtual machines,
// which the address manager sets. In force is the policy with the memberships added
// (partition.Policy.With). Changes of both take the same way: they are checked, the P_Keys that they
// free are stored, then they are in force and are carried out. The policy is stored here. Memberships
// are stored by who sets them. Of those this package stores only what quarantine needs: the names
// of the partitions that they make.

// change is a change of the policy or of the members under way.
type change struct {
	policy  *partition.Policy // nil: as it is
	was     *partition.Policy // that policy replaces; nil: any
	encoded []byte            // of policy
	members []partition.Partition
	by      source
	tag     uint64
	// decided are the P_Keys about which a policy says something else than the one before.
	// An administrator set it while the manager ran, so it applies to what is kept, too. The
	// policy of the start does not: it was not made for what a later takeover finds.
	decided []ib.PKey
	decides bool

	// What will be in force, from when it is being stored on.
	inForce *partition.Policy
	freed   map[ib.PKey][]string
}

// source says who asked for a change.
type source uint8

const (
	changePolicy source = iota
	changeMembers
)

// ErrOtherPolicy: the policy that was to be replaced is not in force any more.
var ErrOtherPolicy = errors.New("the partitions have changed meanwhile: read them again")

// Set begins a change of the policy, which is to replace was; nil: any. Notices about it have the tag.
func (m *Manager) Set(policy, was *partition.Policy, tag uint64) {
	if m.Config.PlanOnly {
		return
	}
	b, err := encodePolicy(policy)
	if err != nil {
		m.refuse(tag, err)
		return
	}
	m.queue = append(m.queue, change{policy: policy, was: was, tag: tag, encoded: b, decides: m.State == subnet.Master || m.State == subnet.Standby})
	m.storeNext()
}

// SetMembers takes the memberships that are added to those of the policy. Before Load they are only
// kept: they are in force with what the store held.
func (m *Manager) SetMembers(list []partition.Partition, tag uint64) {
	if m.Config.PlanOnly {
		return
	}
	if !m.started {
		m.members, m.membersAsked = list, list
		return
	}
	m.queue = append(m.queue, change{members: list, by: changeMembers, tag: tag})
	m.storeNext()
}

// RetryMembers begins the change of members again that could not be stored, if it is due.
func (m *Manager) RetryMembers() {
	if m.againAt > m.Now {
		return
	}
	m.againAt = mad.Never
	m.queue = append(m.queue, change{members: m.membersAsked, by: changeMembers})
	m.storeNext()
}

func (m *Manager) refuse(tag uint64, err error) {
	level := notice.Error
	if errors.Is(err, ErrOtherPolicy) {
		level = notice.Info // another administrator was faster: who asked hears of it
	}
	m.Notify(notice.Notice{
		Kind: notice.KindPartitionsRefused, Level: level, Err: err, Tag: tag,
		Text: "the partitions stay as they were, because the new ones were refused",
	})
}

// combine settles what will be in force after a change.
func (m *Manager) combine(ch *change) (err error) {
	if ch.by == changeMembers {
		m.membersAsked = ch.members
		ch.inForce, err = m.base.With(ch.members)
		return err
	}
	if ch.was != nil && !ch.was.Equal(m.base) {
		return ErrOtherPolicy
	}
	// Members that were refused with the old policy may fit the new one.
	ch.members = m.membersAsked
	if ch.inForce, err = ch.policy.With(ch.members); err != nil {
		ch.members = m.members
		if p, err := ch.policy.With(ch.members); err == nil {
			ch.inForce = p
			return nil
		}
	}
	return err
}

// Start begins the changes that were asked for before Load.
func (m *Manager) Start() { m.storeNext() }

// storeNext begins the first change of the queue that changes something. What must be durable before it
// is in force is stored.
func (m *Manager) storeNext() {
	for !m.saving && len(m.queue) > 0 && m.started {
		ch := &m.queue[0]
		if err := m.combine(ch); err != nil {
			m.refuse(ch.tag, err)
			m.queue = slices.Delete(m.queue, 0, 1)
			continue
		}
		if ch.by == changeMembers && ch.inForce.Equal(m.grants.Policy()) {
			m.members = ch.members
			m.unchanged(ch.tag)
			m.queue = slices.Delete(m.queue, 0, 1)
			continue
		}
		ch.freed = freeing(m.grants.Policy(), ch.inForce, m.freed)
		if ch.decides {
			ch.decided = decided(m.base, ch.policy)
			ch.freed = freeingKept(ch.freed, m.keptOf(ch.decided))
		}
		names := addedNames(m.baseAfter(ch), ch.inForce)
		ops := freedOps(ch.freed, names)
		if ch.policy != nil {
			ops = append(policyOps(ch.encoded), ops...)
			ops = append(ops, m.needs.Keeper.Decide(ch.decided)...)
		} else if sameFreed(ch.freed, m.freed) && maps.Equal(names, addedNames(m.base, m.grants.Policy())) {
			m.apply() // nothing of it is stored
			continue
		}
		m.saving = true
		m.Save(ops)
		m.saveAt = m.SaveGen
	}
}

// baseAfter is the policy of administrators after a change.
func (m *Manager) baseAfter(ch *change) *partition.Policy {
	if ch.policy != nil {
		return ch.policy
	}
	return m.base
}

// unchanged: a change has no effect. Who asked is told so.
func (m *Manager) unchanged(tag uint64) {
	if m.applying {
		m.tag = tag // told at the end
		return
	}
	if tag != 0 {
		m.Notify(notice.Notice{
			Kind: notice.KindPartitionsApplied, Level: notice.Debug, Tag: tag, Text: "the members change nothing",
		})
	}
}

// apply puts the first change of the queue in force.
func (m *Manager) apply() {
	ch := m.queue[0]
	m.queue = slices.Delete(m.queue, 0, 1)
	base := m.baseAfter(&ch)
	old, trivial := m.grants.Policy(), m.trivial
	guids, all := partition.Changed(old, ch.inForce)
	all = all || !sameFreed(m.freed, ch.freed)
	m.adopt(base, ch.members, ch.inForce, ch.freed)
	all = m.decideKept(ch.decided) || all
	m.pruneKept()
	if all || trivial != m.trivial || !m.touchMembers(guids) {
		m.again()
	}
	m.applying, m.waiting, m.tag = true, 0, ch.tag
	n := len(ch.inForce.Partitions)
	text := plural.Of(n, "partition") + " " + plural.Verb(n, "is", "are") + " in force; ports are brought up to date"
	level := notice.Info
	if ch.by == changeMembers { // which is frequent
		level, text = notice.Debug, "members were added to partitions, or taken from them; ports are brought up to date"
	}
	m.Notify(notice.Notice{Kind: notice.KindPartitions, Level: level, Tag: ch.tag, Text: text})
	for _, key := range sortedKeys(ch.freed) {
		if p := ch.inForce.Find(key); p != nil {
			m.Notify(notice.Notice{
				Kind: notice.KindPKeyQuarantined, Level: notice.Info, Tag: ch.tag,
				Text: "P_Key " + key.String() + " was another partition's: " + strconv.Quote(p.Name) +
					" receives it when every port has given it up",
			})
		}
	}
	if m.BetweenSweeps() && m.Snapshot != nil && m.Phase == notice.PhaseIdle {
		m.needs.Discovery.Publish()
	}
}

// freeing lists the keys that are in quarantine when policy p follows old, with the names of the
// partitions that had them. freed are those that are in it already.
func freeing(old, p *partition.Policy, freed map[ib.PKey][]string) map[ib.PKey][]string {
	out := map[ib.PKey][]string{}
	for key, names := range freed {
		out[key] = slices.Clone(names)
	}
	for i := range old.Partitions {
		q := &old.Partitions[i]
		n := p.Find(q.PKey)
		if q.PKey == partition.DefaultKey || n != nil && n.Name == q.Name {
			continue
		}
		if !slices.Contains(out[q.PKey], q.Name) {
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

// Load takes the records of the store, with the members that are known. Changes that were asked for
// before are begun by Start.
func (m *Manager) Load(records []store.Record) {
	m.started = true
	st, err := decodePartitions(records)
	if err != nil {
		// A damaged file must not let ports meet that were kept apart.
		m.Notify(notice.Notice{
			Kind: notice.KindPartitionsRefused, Level: notice.Error, Err: err,
			Text: "the stored partitions cannot be read, so every port is a limited member of the default partition alone: " +
				"set the partitions again",
		})
		st = storedPartitions{policy: closedPolicy()}
	}
	if st.policy == nil {
		st.policy = partition.Default()
	}
	inForce := m.withMembers(st.policy)
	// If the members made a partition when they were last in force, and do not make it now, it ended
	// while no manager ran.
	freed := freeing(st.before(), inForce, st.freed)
	m.adopt(st.policy, m.members, inForce, freed)
	m.again()
	if names := addedNames(st.policy, inForce); !sameFreed(freed, st.freed) || !maps.Equal(names, st.added) {
		m.Save(freedOps(freed, names))
	}
}

// withMembers is a policy with the members that are known at the start. Members that cannot be added
// are left out, so that the others keep their keys.
func (m *Manager) withMembers(p *partition.Policy) *partition.Policy {
	if out, err := p.With(m.members); err == nil {
		return out
	}
	var fit []partition.Partition
	for i := range m.members {
		one := m.members[i : i+1]
		next, err := p.With(one)
		if err != nil {
			m.refuse(0, err)
			continue
		}
		p, fit = next, append(fit, one...)
	}
	m.members = fit
	return p
}

// closedPolicy lets ports talk to the manager alone.
func closedPolicy() *partition.Policy {
	return &partition.Policy{Partitions: []partition.Partition{{
		Name: "Default", PKey: partition.DefaultKey,
		Members: []partition.Member{{Kind: partition.All, As: partition.Limited}, {Kind: partition.Self, As: partition.Full}},
	}}}
}
