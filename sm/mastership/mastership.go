// Package mastership is the part of a subnet manager that deals with other managers: it keeps
// what they tell of themselves, polls the master, answers SMInfo, and moves between the states
// of IBA §14.4.1. The rules by which two managers settle who is master are in package election.
package mastership

import (
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/election"
	"heddle/sm/env"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// Manager is the rest of the manager, which a change of state concerns.
type Manager interface {
	// Begin is called when a mastership begins: no table counts as installed.
	Begin()
	// Restart is Begin for a master whom another master hands its part of the subnet.
	Restart()
	// ReadAnew has the next sweep treat the subnet as one that it meets for the first time.
	ReadAnew()
	// Other is called when another manager is known to be, or to have been, master of the subnet
	// or of a part of it.
	Other(guid ib.GUID)
	// Succeed is called when our master is gone, or has handed the subnet over: a sweep follows. gone is
	// the one that is gone, 0 if it lives.
	Succeed(gone ib.GUID)
	// End is called when a mastership, or the attempt at one, ends: what is under way is dropped.
	End()
	// Abort drops the sweep under way. Nothing that was written is undone.
	Abort()
	// Rediscover has a sweep begin now, in place of the one under way.
	Rediscover(why string)
	// AskFullSweep asks for a sweep that reads everything.
	AskFullSweep(why string)
	// Publish publishes a new snapshot, PublishState the last one with our new state.
	Publish()
	PublishState()
}

// Machine keeps the state of our mastership. It alone writes Env.State and Env.WaitHandover.
type Machine struct {
	*env.Env
	manager Manager

	others   []election.Other // managers that the last discovery found, ascending GUID
	ignored  map[ib.GUID]bool // managers with another SM_Key, which were told of
	master   election.Other   // the master we poll; GUID 0 if none
	tookOver bool             // this mastership came from a master that died, or was granted
	granted  bool             // the next discovery makes us master (config.Granted)
	early    bool             // we are master before we have read the subnet: Manager.Begin is still to come

	polling bool
	pollAt  mad.Time // of the next poll; mad.Never
	busy    bool     // a poll is not answered
	missed  int      // polls in a row that were not answered
	silence error    // of the last of them
	allies  map[ib.GUID]bool
	silent  map[ib.GUID]bool // allies with a channel on which they were not heard
	called  bool             // an equal master was told of us
}

// New returns the machine of a manager that is not active.
func New(e *env.Env, m Manager) *Machine {
	e.State = subnet.NotActive
	return &Machine{Env: e, manager: m, ignored: map[ib.GUID]bool{}, pollAt: mad.Never}
}

// own is our SMInfo.
func (s *Machine) own() smp.SMInfo {
	state := s.State
	if s.granted {
		state = subnet.Master
	}
	return smp.SMInfo{
		GUID: s.Config.PortGUID, SMKey: s.Config.SMKey, ActCount: s.ActCount,
		Priority: s.Config.Priority, SMState: smp.SMState(state),
	}
}

// candidate is what decides on our side of an election.
func (s *Machine) candidate() *election.Own {
	return &election.Own{Info: s.own(), TookOver: s.tookOver, Partner: s.Config.Partner}
}

// Next is when something is due.
func (s *Machine) Next() mad.Time { return s.pollAt }

// Master is the other manager that is master, with GUID 0 if we know of none.
func (s *Machine) Master() subnet.SM { return s.master.Public() }

// Others are the managers that the last discovery found.
func (s *Machine) Others() []election.Other { return s.others }

// Forget drops the other managers, before a discovery finds them again.
func (s *Machine) Forget() { s.others = s.others[:0] }

// Decide settles who is master, after a discovery. It reports whether we are to configure the
// subnet; if not, the sweep has ended.
func (s *Machine) Decide() bool {
	if s.granted {
		s.granted = false
		s.tookOver = true // nobody of our priority is to have the subnet for its lower GUID
		if s.Config.MayLack {
			s.manager.Other(s.Config.Partner)
		}
		s.lead("the mastership was granted")
	}
	outcome, who := election.Decide(s.candidate(), s.others)
	if s.Config.PlanOnly {
		if m := election.Master(s.others); m != nil {
			s.master = *m
		}
		return true
	}
	switch outcome {
	case election.HandOver:
		s.handOver(*who)
	case election.AwaitMaster:
		s.awaitHandover(*who)
	case election.FollowMaster:
		s.follow(*who, "a master is there: "+who.Info.GUID.String())
	case election.FollowHigher:
		s.follow(*who, "a manager of higher rank is starting: "+who.Info.GUID.String())
	case election.Lead:
		if s.State == subnet.Master && !s.early {
			s.WaitHandover = false
			s.stopPolling()
		} else {
			s.lead("no other manager ranks above us")
		}
		return true
	}
	return false
}

func (s *Machine) setState(to subnet.SMState, why string) {
	if s.State == to {
		return
	}
	s.Notify(notice.Notice{Kind: notice.KindState, Level: notice.Info, Text: s.State.String() + " to " + to.String() + ": " + why})
	s.State = to
	s.early = s.early && to == subnet.Master
	s.manager.PublishState()
}

// Discover enters the state Discovering and has a sweep begin.
func (s *Machine) Discover(why string) {
	s.stopPolling()
	s.Up = false
	s.setState(subnet.Discovering, why)
	s.manager.Rediscover(why)
}

// Start has the first sweep begin. With config.Granted we are master as far as others can see: only
// the discovery shows who was master before, which a mastership begins with.
func (s *Machine) Start() {
	if s.Config.Inactive && !s.Config.PlanOnly {
		s.Notify(notice.Notice{Kind: notice.KindState, Level: notice.Warn, Text: "inactive: the subnet is left alone until 'heddle ctl ha activate'"})
		s.manager.PublishState()
		return
	}
	s.granted = s.Config.Granted && !s.Config.PlanOnly
	s.Discover("started")
}

// NoLink is called when our port has no link, so that there is no subnet to be master of.
func (s *Machine) NoLink() { s.setState(subnet.Discovering, "our port has no link") }

// Leads reports whether no other manager that is known is master, or ranks above us.
func (s *Machine) Leads() bool {
	outcome, _ := election.Decide(s.candidate(), s.others)
	return outcome == election.Lead
}

// MayTakeOver reports whether TakeOver would have us be master, as other managers are known now.
func (s *Machine) MayTakeOver() bool {
	if s.State == subnet.Master {
		return true
	}
	outcome, who := election.Decide(s.candidate(), s.others)
	if outcome == election.AwaitMaster {
		_, ally := s.allies[who.Info.GUID]
		return ally
	}
	return outcome == election.Lead
}

// TakeOver has us be master before we have read the subnet, unless we are already. The discovery that
// follows decides again. It reports false if another manager forbids that: we follow that one, or, if
// our own mastership was granted, a discovery is to decide.
func (s *Machine) TakeOver(why string) bool {
	if s.State == subnet.Master {
		s.manager.PublishState()
		return true
	}
	switch outcome, who := election.Decide(s.candidate(), s.others); outcome {
	case election.Lead:
	case election.FollowMaster, election.FollowHigher:
		s.follow(*who, "another manager takes the subnet over: "+who.Info.GUID.String())
		return false
	case election.HandOver:
		if _, ally := s.allies[who.Info.GUID]; ally {
			s.handOver(*who)
		}
		return false
	case election.AwaitMaster:
		if _, ally := s.allies[who.Info.GUID]; !ally {
			return false
		}
		// Both succeed the same master, and the one that ranks below yields.
	default:
		return false
	}
	s.stopPolling()
	s.master = election.Other{}
	s.early = true
	s.setState(subnet.Master, why)
	return true
}

// other notes that another manager is or was master. What an ally gave is in the store that it shares.
func (s *Machine) other(guid ib.GUID) {
	if _, ally := s.allies[guid]; !ally {
		s.manager.Other(guid)
	}
}

// lead enters the state Master.
func (s *Machine) lead(why string) {
	if s.State == subnet.Master && !s.early {
		return
	}
	s.stopPolling()
	s.WaitHandover, s.early = false, false
	s.master = election.Other{}
	s.manager.Begin()
	s.setState(subnet.Master, why)
}

// follow enters the state Standby, with a manager to poll.
func (s *Machine) follow(m election.Other, why string) {
	s.granted = false // what was granted is given away before a discovery could take it up
	s.tookOver = false
	s.WaitHandover = false
	s.manager.End()
	s.master = m
	if m.Info.SMState == smp.SMMaster {
		s.other(m.Info.GUID)
	}
	s.setState(subnet.Standby, why)
	s.startPolling()
	s.manager.Publish()
	if m.Info.SMState == smp.SMMaster && !s.Fabric.Port(s.Fabric.Self).Info.CapabilityMask.Has(ib.CapIsCapabilityMaskNoticeSupported) {
		s.trapToMaster(0) // our own agent cannot tell the master that we are here
	}
}

// rest enters the state NotActive.
func (s *Machine) rest(why string) {
	s.stopPolling()
	s.manager.End()
	s.setState(subnet.NotActive, why)
}

// handOver gives the subnet to a manager of higher rank.
func (s *Machine) handOver(to election.Other) {
	s.Notify(notice.Notice{Kind: notice.KindHandover, Level: notice.Info, Text: "handing over to " + to.Info.GUID.String() + " priority " + strconv.Itoa(int(to.Info.Priority))})
	own := s.own() // the data of the Set still says Master
	s.follow(to, "handed over to "+to.Info.GUID.String())
	s.other(to.Info.GUID)
	s.submit(work.OpHandover, ib.MethodSet, smp.SMModHandover, &to, &own)
}

// awaitHandover: another master of lower rank exists. It finds us at its next sweep and hands
// over. Until then we configure nothing and poll it.
func (s *Machine) awaitHandover(m election.Other) {
	s.Notify(notice.Notice{Kind: notice.KindHandover, Level: notice.Info, Text: "waiting for the handover of " + m.Info.GUID.String()})
	s.manager.Abort()
	s.other(m.Info.GUID)
	s.WaitHandover = true
	s.master = m
	s.startPolling()
	s.trapToMaster(smp.ChangeSMPriority)
}

// takeHandover takes the subnet from a master that hands it over.
func (s *Machine) takeHandover(from election.Other) {
	s.other(from.Info.GUID)
	switch s.State {
	case subnet.Discovering:
		s.manager.AskFullSweep("handover while discovering")
	case subnet.Standby:
		s.tookOver = false
		s.manager.Succeed(0)
		s.lead("handover from " + from.Info.GUID.String())
		s.manager.Rediscover("handover")
		s.acknowledge(from)
	case subnet.Master:
		s.WaitHandover = false
		s.stopPolling()
		s.manager.Restart()
		s.manager.AskFullSweep("handover")
		s.acknowledge(from)
	}
}

// acknowledge tells the old master that the handover arrived. OpenSM does not need it and may
// answer with an error, which is ignored.
func (s *Machine) acknowledge(to election.Other) {
	own := s.own()
	own.SMState = smp.SMStandby // legal from a Standby: what we were when the signal came
	if to.Path == nil {
		return
	}
	s.submit(work.OpAcknowledge, ib.MethodSet, smp.SMModAcknowledge, &to, &own)
}

// masterLost is called when the master does not answer, or says that it is not master.
func (s *Machine) masterLost(err error) {
	why := "the master " + s.master.Info.GUID.String() + " does not answer any more"
	if err == nil {
		why = s.master.Info.GUID.String() + " is no longer master"
	}
	s.Notify(notice.Notice{Kind: notice.KindOtherSM, Level: notice.Warn, Err: err, Text: why})
	gone, wasMaster := s.master.Info.GUID, s.master.Info.SMState == smp.SMMaster
	if err == nil {
		gone = 0
	}
	if wasMaster {
		s.other(s.master.Info.GUID)
	}
	s.master = election.Other{}
	if s.State == subnet.Master {
		s.WaitHandover = false
		s.manager.ReadAnew()
		s.stopPolling()
		s.manager.AskFullSweep(why)
		return
	}
	s.tookOver = wasMaster
	if wasMaster {
		s.manager.Succeed(gone)
	}
	s.Discover(why)
}

// HandoverDone takes the answer to our handover, or its absence.
func (s *Machine) HandoverDone(comp *mad.Completion) {
	if err := work.Answer(comp); err != nil && s.State == subnet.Standby {
		s.Notify(notice.Notice{Kind: notice.KindHandover, Level: notice.Warn, Err: err, Text: "the handover was not accepted; looking again"})
		s.tookOver = false
		s.Discover("the handover was not accepted")
	}
}
