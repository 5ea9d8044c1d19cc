package pkeymgr

import (
	"maps"
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/notice"
	"heddle/store"
)

// Two parties say who has which P_Key: people, with a policy, and the address
// manager, with the memberships of virtual machines. What is in force is the one
// with the other added (partition.Policy.With). A change of either goes the same
// way: checked, what is freed by it stored, in force, carried out. The policy is
// stored here; members are with who sets them, so of those there is stored only
// what quarantine needs, the names of the partitions that they make.

// change is a SetPartitions or SetMembers under way.
type change struct {
	policy  *partition.Policy // nil: as it is
	encoded []byte            // of policy
	members []partition.Partition
	by      source
	tag     uint64

	// What will be in force, from when it is being stored on.
	inForce *partition.Policy
	freed   map[ib.PKey][]string
}

// source says whose change it is.
type source uint8

const (
	changePolicy source = iota
	changeMembers
)

// Set begins a change of the policy.
func (m *Manager) Set(policy *partition.Policy, tag uint64) {
	if m.Config.PlanOnly {
		return
	}
	b, err := encodePolicy(policy)
	if err != nil {
		m.refuse(tag, err)
		return
	}
	m.queue = append(m.queue, change{policy: policy, tag: tag, encoded: b})
	m.storeNext()
}

// SetMembers takes the memberships that are added to the policy's. Before Start
// they are only kept: what the store held is in force with them.
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

// RetryMembers asks for the members again that could not be stored.
func (m *Manager) RetryMembers() {
	if m.againAt > m.Now {
		return
	}
	m.againAt = mad.Never
	m.queue = append(m.queue, change{members: m.membersAsked, by: changeMembers})
	m.storeNext()
}

func (m *Manager) refuse(tag uint64, err error) {
	m.Notify(notice.Notice{
		Kind: notice.KindPartitionsRefused, Level: notice.Error, Err: err, Tag: tag,
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

// storeNext begins the first change of the queue that changes something: it
// has stored what must be before it is in force.
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
		base := m.base
		if ch.policy != nil {
			base = ch.policy
		}
		ops := freedOps(ch.freed, addedNames(base, ch.inForce))
		if ch.policy != nil {
			ops = append(policyOps(ch.encoded), ops...)
		} else if sameFreed(ch.freed, m.freed) && maps.Equal(addedNames(base, ch.inForce), addedNames(m.base, m.grants.Policy())) {
			m.apply()
			continue
		}
		m.saving = true
		m.Save(ops)
		m.saveAt = m.SaveGen
	}
}

// unchanged: a change changes nothing. Who asked is told so.
func (m *Manager) unchanged(tag uint64) {
	if m.applying {
		m.tag = tag // told at the end
		return
	}
	if tag != 0 {
		m.Notify(notice.Notice{Kind: notice.KindPartitionsApplied, Level: notice.Debug, Tag: tag, Text: "the members change nothing"})
	}
}

// apply puts the first change of the queue in force.
func (m *Manager) apply() {
	ch := m.queue[0]
	m.queue = slices.Delete(m.queue, 0, 1)
	base := m.base
	if ch.policy != nil {
		base = ch.policy
	}
	old, trivial := m.grants.Policy(), m.trivial
	guids, all := partition.Changed(old, ch.inForce)
	all = all || !sameFreed(m.freed, ch.freed)
	m.adopt(base, ch.members, ch.inForce, ch.freed)
	if all || trivial != m.trivial || !m.touchMembers(guids) {
		m.again()
	}
	m.applying, m.waiting, m.tag = true, 0, ch.tag
	text := strconv.Itoa(len(ch.inForce.Partitions)) + " partitions are in force; ports are brought up to date"
	level := notice.Info
	if ch.by == changeMembers { // these come often
		level, text = notice.Debug, "members were added to partitions, or taken from them; ports are brought up to date"
	}
	m.Notify(notice.Notice{Kind: notice.KindPartitions, Level: level, Tag: ch.tag, Text: text})
	for _, key := range sortedKeys(ch.freed) {
		if p := ch.inForce.Find(key); p != nil {
			m.Notify(notice.Notice{
				Kind: notice.KindPKeyQuarantined, Level: notice.Info, Tag: ch.tag,
				Text: "P_Key " + key.String() + " was another partition's: " + strconv.Quote(p.Name) + " is given it when every port has let go of it",
			})
		}
	}
	if m.BetweenSweeps() && m.Snapshot != nil && m.Phase == notice.PhaseIdle {
		m.needs.Discovery.Publish()
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

// Load takes the records of the store, with the members that are known. Changes that were asked for
// before are begun by Start.
func (m *Manager) Load(records []store.Record) {
	m.started = true
	st, err := decodePartitions(records)
	if err != nil {
		// Whoever was kept apart must not be joined by a damaged file.
		m.Notify(notice.Notice{
			Kind: notice.KindPartitionsRefused, Level: notice.Error, Err: err,
			Text: "the stored partitions cannot be read, so every port is a limited member of the default partition alone: set the partitions again",
		})
		st = storedPartitions{policy: closedPolicy()}
	}
	if st.policy == nil {
		st.policy = partition.Default()
	}
	inForce := m.withMembers(st.policy)
	// A partition that the members made when they were last in force, and do not
	// make any more, was freed when nobody saw it.
	freed := freeing(st.before(), inForce, st.freed)
	m.adopt(st.policy, m.members, inForce, freed)
	m.again()
	if names := addedNames(st.policy, inForce); !sameFreed(freed, st.freed) || !maps.Equal(names, st.added) {
		m.Save(freedOps(freed, names))
	}
}

// withMembers is a policy with the members that are known at the start. What
// cannot be added is left out: the others must not lose their keys by it.
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

// closedPolicy joins nobody but with the manager.
func closedPolicy() *partition.Policy {
	return &partition.Policy{Partitions: []partition.Partition{{
		Name: "Default", PKey: partition.DefaultKey,
		Members: []partition.Member{{Kind: partition.All, As: partition.Limited}, {Kind: partition.Self, As: partition.Full}},
	}}}
}
