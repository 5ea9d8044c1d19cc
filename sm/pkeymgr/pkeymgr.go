// Package pkeymgr programs P_Key tables and the enforcement of partitions by switches.
//
// Manager is a part of a subnet manager. It owns the partitions in force, and what is known of each
// P_Key table: those of end ports, of switch ports that face them, and of virtual ports. Its inputs
// are policies and memberships (Set, SetMembers), the result of writing the store (Saved), discoveries
// (Sweep), changes that other parts tell of (Touch), and answers (Answered). Its outputs are records
// to store, items on the work list, which Build makes into SMPs, and notices.
//
// A change of partitions is a transaction: the policy is checked, stored, and only then in force. No
// port ever sees anything of a policy that does not get so far. From then on every port that it
// concerns is brought up to date, for as long as that takes, whoever does not answer meanwhile.
//
// When a partition ends, or its P_Key passes to a partition of another name, the P_Key is in
// quarantine. Ports that have it under the old partition lose it, and ports that have it under both
// keep it. Nobody else receives it before the last of the others is known to have lost it, or has
// left the subnet; who left is cleaned before it comes back. Known means: acknowledged, and no copy
// of an earlier Set can still be under way. The quarantine is stored with the policy, so it
// survives a restart.
package pkeymgr

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/env"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/store"
	"heddle/subnet"
)

// Aliases is the part that programs alias GUIDs.
type Aliases interface {
	// Carried are the aliases by which a port is a member of partitions.
	Carried(port ib.GUID) []ib.GUID
	// Holder is the port that holds an alias, and Owner the one that is to hold it; 0: none.
	Holder(g ib.GUID) ib.GUID
	Owner(g ib.GUID) ib.GUID
	// TellUnowned tells of aliases that partitions name and that no administrator gave. renamed: the
	// partitions in force are others than when it was called last.
	TellUnowned(renamed bool)
}

// VPorts is the part that manages virtual ports.
type VPorts interface {
	Adapter(port ib.GUID) *vport.Adapter
	All() []*vport.Adapter
	// KnownBehind reports whether all VPorts behind a port are known that may send.
	KnownBehind(p *topo.Port) bool
	// Look has a VPort looked at, Show has it shown in the next snapshot.
	Look(r vport.Ref)
	Show(r vport.Ref)
	// KeysConfirmed tells that the P_Keys of a VPort that is about to be Active are right.
	KeysConfirmed(r vport.Ref)
}

// Placements is the part that gives addresses to virtual functions.
type Placements interface {
	// Wanted is what a VPort is to hold now.
	Wanted(r vport.Ref) vport.Want
	// Expects reports whether a VPort may have to hold something else in a moment.
	Expects(p subnet.Place) bool
	// PortOf is the port behind which the placement of a GUID is; 0: none.
	PortOf(g ib.GUID) ib.GUID
	// EachPortWithAlias calls fn for the port of each placement one of whose aliases is named.
	EachPortWithAlias(named func(ib.GUID) bool, fn func(port ib.GUID))
}

// Discovery is the part that finds the ports of the subnet.
type Discovery interface {
	// Last is the subnet as the sweep before found it, nil if there was none.
	Last() *topo.Topology
	// Plausible returns an error if a PortInfo cannot be that of a port that was read before.
	Plausible(p *topo.Port, info *smp.PortInfo) error
	// AskRegion asks for a sweep that looks at a node.
	AskRegion(node int32, why string)
	// Publish publishes what changed since the last snapshot.
	Publish()
}

// Needs are the parts that a Manager depends on.
type Needs struct {
	Aliases    Aliases
	VPorts     VPorts
	Placements Placements
	Discovery  Discovery
	Keeper     Keeper
}

// Manager is what a subnet manager knows and does about partitions.
type Manager struct {
	*env.Env
	needs Needs

	started      bool                  // Load was called
	base         *partition.Policy     // that administrators gave
	members      []partition.Partition // that are added to it
	membersAsked []partition.Partition // that were last asked for: those, or some that were refused
	grants       *partition.Grants     // of what is in force: base with members
	trivial      bool                  // every port is a full member of the only partition
	anyIndex0    bool                  // a partition wants index 0
	freed        map[ib.PKey][]string  // keys in quarantine, with the names of the partitions that had them
	kept         keptKeys              // keys that stay although nothing in force gives them
	gen          uint64                // of what ports are to hold
	life         uint32                // of what is known of them
	tables       map[string][]ib.PKey  // each different table once

	queue  []change // asked for; the first is being stored if saving
	saving bool
	saveAt uint64 // Env.SaveGen of it
	// againAt is when members are tried again that the store did not take: who set them has
	// them stored, and does not ask twice.
	againAt mad.Time

	applying bool // the end of the last change has not been told
	waiting  int  // ports that were told to be waited for
	tag      uint64

	pass    pass
	look    bool      // something may be to be done about any holder
	touched []ib.GUID // end ports about whose holders something may be to be done
	scope   []ib.GUID // those that the passes under way are about; nil: all
	todo    []holderRef
	asked   []*pkey.Table
	shown   []subnet.Ref // ports whose table or enforcement changed since the last snapshot
	news    bool         // the policy changed since the last snapshot
	renamed bool         // and since Aliases.TellUnowned was called
	retry   mad.Time     // when the first holder is due that failed or is to be read again
	reread  mad.Time     // when all are read again, because a predecessor's Sets may arrive late
}

// New returns a manager with the default partition, to which Load adds what the store held.
func New(e *env.Env, needs Needs) *Manager {
	m := &Manager{
		Env: e, needs: needs, tables: map[string][]ib.PKey{}, pass: passDone,
		retry: mad.Never, reread: mad.Never, againAt: mad.Never, life: 1,
	}
	m.kept.init()
	m.adopt(partition.Default(), nil, partition.Default(), nil)
	m.again()
	return m
}

// InForce is the policy in force, members included.
func (m *Manager) InForce() *partition.Policy { return m.grants.Policy() }

// Base is the policy that administrators gave.
func (m *Manager) Base() *partition.Policy { return m.base }

// Names reports whether the partitions in force name a GUID.
func (m *Manager) Names(g ib.GUID) bool { return m.grants.Names(g) }

// LookAll has all tables looked at.
func (m *Manager) LookAll() { m.look = true }

// NextMembers is when members are tried again that the store did not take.
func (m *Manager) NextMembers() mad.Time { return m.againAt }

// Next is when tables are due that failed or are to be read again.
func (m *Manager) Next() mad.Time { return min(m.retry, m.reread) }

// adopt puts p in force, which is base with members. The caller has the tables looked at that it
// concerns.
func (m *Manager) adopt(
	base *partition.Policy, members []partition.Partition, p *partition.Policy, freed map[ib.PKey][]string,
) {
	m.base, m.members = base, members
	m.grants, m.trivial = partition.Resolve(p), p.Trivial()
	m.anyIndex0 = slices.ContainsFunc(p.Partitions, func(q partition.Partition) bool { return q.Index0 })
	m.freed = freed
	m.news, m.renamed = true, true
}

// again: what any port is to hold may have changed.
func (m *Manager) again() {
	m.gen++
	m.look, m.pass, m.scope, m.todo = true, passRevoke, nil, nil
}

// PhaseEnded notes that no request is under way.
func (m *Manager) PhaseEnded() {
	for _, t := range m.asked {
		t.Asked = false
	}
	m.asked = m.asked[:0]
}

// Saved takes the result of a write of the store, the one with number gen. Each write has all that
// was not known to be durable before it.
func (m *Manager) Saved(gen uint64, err error) {
	if !m.saving || gen < m.saveAt || err != nil && gen != m.SaveGen {
		return
	}
	m.saving = false
	if err != nil {
		m.Unsave(func(o *store.Op) bool { return isPolicyOp(o) })
		m.refuse(m.queue[0].tag, err)
		if m.queue[0].by == changeMembers {
			m.againAt = m.Now.Add(m.Config.RetryInterval)
		}
		m.queue = slices.Delete(m.queue, 0, 1)
		m.storeNext()
		return
	}
	m.apply()
	m.storeNext()
}

// Forget discards all known P_Key table contents.
func (m *Manager) Forget() { m.life++ }
