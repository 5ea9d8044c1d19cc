// Package election has the rules by which managers of one subnet settle who is master (IBA
// §14.4.1). They are functions of what managers tell of themselves; who asks, waits and
// polls is the manager's core.
package election

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
)

// Other is another manager as its SMInfo last told.
type Other struct {
	Info smp.SMInfo
	At   subnet.Ref // its port in the topology of the discovery that found it
	Path []byte     // directed route to it
	MKey ib.MKey    // of its port
	LID  ib.LID
}

// Public is what snapshots show of o.
func (o *Other) Public() subnet.SM {
	return subnet.SM{
		GUID: o.Info.GUID, LID: o.LID, Priority: o.Info.Priority,
		State: subnet.SMState(o.Info.SMState), ActCount: o.Info.ActCount,
	}
}

// Own is what decides on our side.
type Own struct {
	Info smp.SMInfo // as we answer others
	// TookOver: this mastership came from a master that died.
	TookOver bool
	// Partner is a manager that does not count, whatever it says; 0: all do.
	Partner ib.GUID
}

// Beats reports whether o ranks above us: by priority, then by the lower GUID.
func (own *Own) Beats(o *smp.SMInfo) bool { return o.Beats(&own.Info) }

// YieldsTo reports whether a master that is us gives the subnet to o. A master that took over
// from a dead one keeps the subnet against an equal priority with a lower GUID: when the first
// comes back there is no second change unless its priority says so. Two masters that meet
// always settle it.
func (own *Own) YieldsTo(o *smp.SMInfo) bool {
	if own.TookOver && o.Priority == own.Info.Priority && o.SMState != smp.SMMaster {
		return false
	}
	return o.SMState != smp.SMNotActive && own.Beats(o)
}

// Trusts applies the SM_Key rule: another key means another subnet's manager, unless we have
// none.
func (own *Own) Trusts(o *smp.SMInfo) bool { return own.Info.SMKey == 0 || o.SMKey == own.Info.SMKey }

// Outcome is what a manager does after a discovery.
type Outcome uint8

// The outcomes.
const (
	Lead         Outcome = iota // be master and configure
	HandOver                    // give the subnet to a manager of higher rank
	AwaitMaster                 // a master of lower rank is there: it hands over when it sees us
	FollowMaster                // be standby: a master is there
	FollowHigher                // be standby: a manager of higher rank is starting
)

// Decide settles who is master among us and the others that a discovery found, and orders
// these by GUID. The second result is the manager that the outcome is about, nil for Lead.
func Decide(own *Own, others []Other) (Outcome, *Other) {
	slices.SortFunc(others, func(a, b Other) int { return cmp.Compare(a.Info.GUID, b.Info.GUID) })
	// A standby that ranks highest, to whom we do not yield, must not hide a master to whom we do.
	master, highest, next := own.master(others), (*Other)(nil), (*Other)(nil)
	for i := range others {
		o := &others[i]
		if !own.Counts(o.Info.GUID) || o.Info.SMState == smp.SMNotActive {
			continue
		}
		if highest == nil || o.Info.Beats(&highest.Info) {
			highest = o
		}
		if own.YieldsTo(&o.Info) && (next == nil || o.Info.Beats(&next.Info)) {
			next = o
		}
	}
	switch {
	case own.Info.SMState == smp.SMMaster && next != nil:
		return HandOver, next
	case own.Info.SMState == smp.SMMaster && master != nil:
		return AwaitMaster, master
	case own.Info.SMState == smp.SMMaster:
		return Lead, nil
	case master != nil:
		return FollowMaster, master
	case highest != nil && own.Beats(&highest.Info):
		return FollowHigher, highest
	}
	return Lead, nil
}

// Counts reports whether a manager takes part in elections with us.
func (own *Own) Counts(guid ib.GUID) bool { return own.Partner == 0 || guid != own.Partner }

// Master is the master among others, the highest if there are several; nil if there is none.
func Master(others []Other) *Other { return new(Own).master(others) }

// master is Master among those that count.
func (own *Own) master(others []Other) (master *Other) {
	for i := range others {
		o := &others[i]
		if own.Counts(o.Info.GUID) && o.Info.SMState == smp.SMMaster && (master == nil || o.Info.Beats(&master.Info)) {
			master = o
		}
	}
	return master
}

// Accepts reports whether a manager in a state takes a Set(SMInfo) with a signal (its attribute
// modifier) from one in state from. Everything else is answered with an error.
func Accepts(state subnet.SMState, signal uint32, from smp.SMState) bool {
	if signal == smp.SMModAcknowledge {
		return state == subnet.Master || state == subnet.Standby && from == smp.SMStandby
	}
	if from != smp.SMMaster {
		return false
	}
	switch state {
	case subnet.NotActive:
		return signal == smp.SMModStandby
	case subnet.Discovering, subnet.Master:
		return signal == smp.SMModHandover
	case subnet.Standby:
		return signal == smp.SMModHandover || signal == smp.SMModDisable || signal == smp.SMModDiscover
	}
	return false
}
