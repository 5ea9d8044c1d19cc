package sm

import (
	"slices"

	"heddle/ib"
	"heddle/mad"
	"heddle/partition"
	"heddle/sm/pkey"
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
	index0       bool // a partition wants index 0
	freed        map[ib.PKey][]string
	gen          uint64 // of what ports are to hold
	life         uint32 // of what is known of them
	tables       map[string][]ib.PKey

	queue  []partitionChange // asked for; the first is being stored if saving
	saving bool
	saveAt uint64 // PersistGen of it
	// againAt is when members are tried again that the store did not take: who set them
	// has them stored, and does not ask twice.
	againAt mad.Time

	applying bool // the end of the last change has not been told
	waiting  int  // ports that were told to be waited for
	tag      uint64

	pass    pkeyPass
	look    bool      // something may be to be done about any holder
	touched []ib.GUID // end ports about whose holders something may be to be done
	scope   []ib.GUID // those that the passes under way are about; nil: all
	todo    []holderRef
	asked   []*pkey.Table
	shown   []ref    // tables of ports that changed since the last snapshot
	news    bool     // the policy changed since the last snapshot
	retry   mad.Time // when the first holder is due that failed or is to be read again
	reread  mad.Time // when all are read again, because a predecessor's Sets may arrive late
}

func newPKeys() pkeys {
	k := pkeys{tables: map[string][]ib.PKey{}, pass: passDone, retry: mad.Never, reread: mad.Never, againAt: mad.Never, life: 1}
	k.adopt(partition.Default(), nil, partition.Default(), nil)
	k.again()
	return k
}

// adopt puts p in force, which is base with members. Who has to hold other keys by
// it is to be looked at: anybody (again), or those whom it names.
func (k *pkeys) adopt(base *partition.Policy, members []partition.Partition, p *partition.Policy, freed map[ib.PKey][]string) {
	k.base, k.members = base, members
	k.grants, k.trivial = partition.Resolve(p), trivialPolicy(p)
	k.index0 = slices.ContainsFunc(p.Partitions, func(q partition.Partition) bool { return q.Index0 })
	k.freed = freed
	k.news = true
}

// again: what ports are to hold may have changed.
func (k *pkeys) again() {
	k.gen++
	k.look, k.pass, k.scope, k.todo = true, passRevoke, nil, nil
}

// answered is called when no request is under way.
func (k *pkeys) answered() {
	for _, t := range k.asked {
		t.Asked = false
	}
	k.asked = k.asked[:0]
}

// partitionsSaved takes the result of a write of the store. Each write has
// all that was not known to be durable before it.
func (c *Core) partitionsSaved(ev Persisted) {
	k := &c.pk
	if !k.saving || ev.Gen < k.saveAt || ev.Err != nil && ev.Gen != c.SaveGen {
		return
	}
	k.saving = false
	if ev.Err != nil {
		c.Unsaved = slices.DeleteFunc(c.Unsaved, func(o store.Op) bool { return isPolicyOp(&o) })
		c.partitionsRefused(k.queue[0].tag, ev.Err)
		if k.queue[0].by == changeMembers {
			k.againAt = c.Now.Add(c.Config.RetryInterval)
		}
		k.queue = slices.Delete(k.queue, 0, 1)
		c.savePartitions()
		return
	}
	c.partitionsInForce()
	c.savePartitions()
}

// forgetPKeys: what ports hold is not known any more.
func (c *Core) forgetPKeys() { c.pk.life++ }
