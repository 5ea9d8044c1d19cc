package mastership

import (
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/election"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// Read takes the SMInfo of a port. In a region sweep a manager may be known from another port.
func (s *Machine) Read(it work.Item, comp *mad.Completion, region bool) {
	f := s.Fabric
	n, num := it.Node(), it.Port()
	p := f.PortOf(n, num)
	var si smp.SMInfo
	err := work.Answer(comp)
	if err == nil {
		err = si.Decode(smp.Data(comp.MAD))
	}
	if err != nil {
		// The IsSM bit may be on with nobody behind it any more.
		s.Notify(notice.Notice{Kind: notice.KindOtherSM, Level: notice.Debug, Where: f.Where(n, int(num)), Err: err, Text: "IsSM is set but no manager answers"})
		return
	}
	if si.GUID != p.GUID {
		s.Notify(notice.Notice{
			Kind: notice.KindOtherSM, Level: notice.Warn, Where: f.Where(n, int(num)),
			Text: "a manager answers with the port GUID " + si.GUID.String() + ", which is not that of its port; it is ignored",
		})
		return
	}
	if !s.candidate().Trusts(&si) {
		if !s.ignored[si.GUID] {
			s.ignored[si.GUID] = true
			s.Notify(notice.Notice{
				Kind: notice.KindOtherSM, Level: notice.Warn, Where: f.Where(n, int(num)),
				Text: "a manager with another SM_Key is ignored: give both the same key if they are to share the subnet",
			})
		}
		return
	}
	delete(s.ignored, si.GUID)
	at := subnet.Ref{Node: n, Port: num}
	s.others = slices.DeleteFunc(s.others, func(o election.Other) bool { return o.At == at || region && o.Info.GUID == si.GUID })
	s.others = append(s.others, election.Other{
		Info: si, At: at,
		Path: slices.Clone(f.AgentPath(n, num)), MKey: f.AgentPort(n, num).MKey, LID: p.Info.LID,
	})
}

// AskAll asks the other managers whether they are there, in a light sweep.
func (s *Machine) AskAll() {
	for i := range s.others {
		s.Add(work.Make(work.OpLightSM, s.others[i].At.Node, s.others[i].At.Port, 0))
	}
}

// Seen takes the answer of another manager in a light sweep.
func (s *Machine) Seen(it work.Item, comp *mad.Completion) {
	var si smp.SMInfo
	i := slices.IndexFunc(s.others, func(o election.Other) bool { return o.At == subnet.Ref{Node: it.Node(), Port: it.Port()} })
	if i < 0 {
		return
	}
	if err := work.Answer(comp); err != nil || si.Decode(smp.Data(comp.MAD)) != nil || si.GUID != s.others[i].Info.GUID {
		s.Notify(notice.Notice{Kind: notice.KindOtherSM, Level: notice.Info, Where: s.Fabric.Where(it.Node(), int(it.Port())), Err: err, Text: "a standby manager does not answer any more"})
		s.others = slices.Delete(s.others, i, i+1)
		s.manager.PublishState()
		return
	}
	s.others[i].Info = si
	if own := s.candidate(); own.Counts(si.GUID) && own.Trusts(&si) && (si.SMState == smp.SMMaster || own.YieldsTo(&si)) {
		s.manager.AskFullSweep("another manager is master or ranks above us: " + si.GUID.String())
	}
}

// Gone forgets the manager at a port.
func (s *Machine) Gone(at subnet.Ref) {
	s.others = slices.DeleteFunc(s.others, func(o election.Other) bool { return o.At == at })
}

// Refresh brings the paths to the other managers up to date, and forgets those whose port is
// gone.
func (s *Machine) Refresh() {
	f := s.Fabric
	s.others = slices.DeleteFunc(s.others, func(o election.Other) bool {
		return f.Nodes[o.At.Node].Flags&topo.NodeGone != 0 || !f.Port(o.At).Has(topo.PortKnown)
	})
	for i := range s.others {
		o := &s.others[i]
		o.Path = slices.Clone(f.AgentPath(o.At.Node, o.At.Port))
	}
}

func (s *Machine) startPolling() {
	s.polling = true
	s.missed, s.busy, s.called = 0, false, false
	every, _ := s.rhythm()
	s.pollAt = s.Now.Add(every)
}

func (s *Machine) stopPolling() {
	s.polling, s.busy = false, false
	s.pollAt = mad.Never
	s.Engine.Cancel(uint64(work.OpPoll)<<56, uint64(work.OpPoll)<<56|1<<56-1)
}

// Canceled is called when all requests were canceled, a poll too.
func (s *Machine) Canceled() { s.busy = false }

// Due polls the master when it is time.
func (s *Machine) Due() {
	if s.pollAt > s.Now {
		return
	}
	s.pollAt = mad.Never
	if !s.polling {
		return
	}
	every, _ := s.rhythm()
	s.pollAt = s.Now.Add(every)
	if s.busy { // the answer of the last poll is still awaited
		return
	}
	s.busy = true
	s.submit(work.OpPoll, ib.MethodGet, 0, &s.master, nil)
}

// PollNow has the master polled at once: it is told if we rank above it now.
func (s *Machine) PollNow() {
	if s.polling {
		s.called = false
		s.pollAt = s.Now
	}
}

// submit sends an SMInfo request to another manager by directed route.
func (s *Machine) submit(o work.Op, method ib.Method, mod uint32, to *election.Other, data *smp.SMInfo) {
	r := mad.Request{Token: uint64(work.Make(o, -1, 0, 0)), Priority: mad.Urgent, Addr: mad.Addr{LID: ib.LIDPermissive}}
	smp.NewDR(&r.MAD, method, smp.AttrSMInfo, mod, to.MKey, to.Path)
	if data != nil {
		data.Put(smp.Data(&r.MAD))
	}
	if o == work.OpPoll {
		r.Retries = -1 // the next poll is the retry
		if every, _ := s.rhythm(); every < s.Config.SMPTimeout {
			r.Timeout = every
		}
	}
	_ = s.Engine.Submit(&r) // a full queue is a missed poll: the timer asks again
}

// Polled takes the answer of the manager we poll, or its absence.
func (s *Machine) Polled(comp *mad.Completion) {
	s.busy = false
	if !s.polling {
		return
	}
	var si smp.SMInfo
	err := work.Answer(comp)
	if err == nil {
		err = si.Decode(smp.Data(comp.MAD))
	}
	alive := err == nil && si.GUID == s.master.Info.GUID &&
		(si.SMState == smp.SMMaster || (si.SMState == smp.SMStandby || si.SMState == smp.SMDiscovering) && s.candidate().Beats(&si))
	if !alive {
		s.missed++
		s.silence = err
		// An answer that says it is no longer master needs no more proof.
		if _, misses := s.rhythm(); err == nil || s.missed >= misses {
			s.masterLost(err)
		}
		return
	}
	s.missed = 0
	s.master.Info = si
	switch {
	case si.SMState != smp.SMMaster:
	case s.WaitHandover && s.candidate().Beats(&si):
		s.WaitHandover = false // it has been given a higher priority: settle it anew
		s.manager.AskFullSweep("the other master now ranks above us")
	case s.WaitHandover || si.Priority < s.Config.Priority:
		s.callMaster(smp.ChangeSMPriority)
	case !s.called && !s.candidate().Beats(&si):
		// It may keep the subnet against an equal priority, so it is told once.
		s.called = true
		s.callMaster(smp.ChangeSMPriority)
	}
}

// callMaster tells the master that we are here, from the LID that our port has
// by now: when we looked the master may not have given it one yet, and then
// our agent's trap about IsSM was lost too.
func (s *Machine) callMaster(flags smp.ChangeFlags) {
	self := s.Fabric.Self
	r := mad.Request{Token: uint64(work.Make(work.OpOwnInfo, -1, 0, uint32(flags))), Addr: mad.Addr{LID: ib.LIDPermissive}}
	smp.NewDR(&r.MAD, ib.MethodGet, smp.AttrPortInfo, smp.PortInfoMod(self.Port, false), s.Fabric.AgentPort(self.Node, self.Port).MKey, nil)
	_ = s.Engine.Submit(&r) // the next poll calls again
}

// OwnInfo takes what our own port says of itself.
func (s *Machine) OwnInfo(it work.Item, comp *mad.Completion) {
	var pi smp.PortInfo
	if work.Answer(comp) != nil || pi.Decode(smp.Data(comp.MAD)) != nil || !s.polling || s.Fabric.Self == subnet.NoRef() {
		return
	}
	s.Fabric.AgentPort(s.Fabric.Self.Node, s.Fabric.Self.Port).Info = pi
	s.trapToMaster(smp.ChangeFlags(it.Extra()))
}

// trapToMaster tells the master that we are here: trap 144, about our
// priority if flags say so.
func (s *Machine) trapToMaster(flags smp.ChangeFlags) {
	if s.Fabric == nil || s.Fabric.Self == subnet.NoRef() || s.Config.PlanOnly {
		return
	}
	own := s.Fabric.AgentPort(s.Fabric.Self.Node, s.Fabric.Self.Port)
	to := s.master.LID
	if own.Info.MasterSMLID.IsUnicast() && !(s.WaitHandover && to.IsUnicast()) {
		to = own.Info.MasterSMLID // of two masters each may have told our port of itself
	}
	if !own.Info.LID.IsUnicast() || !to.IsUnicast() || own.Info.PortState != ib.StateActive && !s.Fabric.Nodes[s.Fabric.Self.Node].IsSwitch() {
		return // nothing is routed yet; the master's sweep finds the IsSM bit
	}
	n := smp.NewTrap(smp.TrapLocalChange, smp.ProducerCA, own.Info.LID, smp.DetailChange{
		LID: own.Info.LID, OtherLocalChanges: flags != 0, ChangeFlags: flags, CapabilityMask: own.Info.CapabilityMask | ib.CapIsSM,
	})
	var m ib.MAD
	smp.NewLID(&m, ib.MethodTrap, smp.AttrNotice, 0, 0)
	m.SetTID(uint64(0x7FFF0000 | (s.ActCount+1)&0xFFFF))
	n.Put(smp.Data(&m))
	q := mad.Packet{Addr: mad.Addr{LID: to, SL: own.Info.MasterSMSL}, Data: m[:]}
	s.Send(&q)
}
