package sm

import (
	"slices"
	"strconv"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/election"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// own is our SMInfo.
func (c *Core) own() smp.SMInfo {
	return smp.SMInfo{
		GUID: c.Config.PortGUID, SMKey: c.Config.SMKey, ActCount: c.actCount,
		Priority: c.Config.Priority, SMState: smp.SMState(c.State),
	}
}

// candidate is what decides on our side of an election.
func (c *Core) candidate() *election.Own {
	return &election.Own{Info: c.own(), TookOver: c.tookOver}
}

func (c *Core) onSMInfo(it work.Item, comp *mad.Completion) {
	f := c.Fabric
	n, num := it.Node(), it.Port()
	p := f.PortOf(n, num)
	var si smp.SMInfo
	err := work.Answer(comp)
	if err == nil {
		err = si.Decode(smp.Data(comp.MAD))
	}
	if err != nil {
		// The IsSM bit may be on with nobody behind it any more.
		c.Notify(notice.Notice{Kind: notice.KindOtherSM, Level: notice.Debug, Where: f.Where(n, int(num)), Err: err, Text: "IsSM is set but no manager answers"})
		return
	}
	if si.GUID != p.GUID {
		c.Notify(notice.Notice{
			Kind: notice.KindOtherSM, Level: notice.Warn, Where: f.Where(n, int(num)),
			Text: "a manager answers with the port GUID " + si.GUID.String() + ", which is not that of its port; it is ignored",
		})
		return
	}
	if !c.candidate().Trusts(&si) {
		if !c.ignoredSMs[si.GUID] {
			c.ignoredSMs[si.GUID] = true
			c.Notify(notice.Notice{
				Kind: notice.KindOtherSM, Level: notice.Warn, Where: f.Where(n, int(num)),
				Text: "a manager with another SM_Key is ignored: give both the same key if they are to share the subnet",
			})
		}
		return
	}
	delete(c.ignoredSMs, si.GUID)
	at := ref{Node: n, Port: num}
	c.others = slices.DeleteFunc(c.others, func(o election.Other) bool { return o.At == at || c.reg.on && o.Info.GUID == si.GUID })
	c.others = append(c.others, election.Other{
		Info: si, At: at,
		Path: slices.Clone(f.AgentPath(n, num)), MKey: f.AgentPort(n, num).MKey, LID: p.Info.LID,
	})
}

// decide settles who is master, after a discovery.
func (c *Core) decide() bool {
	outcome, who := election.Decide(c.candidate(), c.others)
	if c.Config.PlanOnly {
		if m := election.Master(c.others); m != nil {
			c.master = *m
		}
		return c.configure()
	}
	switch outcome {
	case election.HandOver:
		c.handover(*who)
	case election.AwaitMaster:
		c.awaitHandover(*who)
	case election.FollowMaster:
		c.becomeStandby(*who, "a master is there: "+who.Info.GUID.String())
	case election.FollowHigher:
		c.becomeStandby(*who, "a manager of higher rank is starting: "+who.Info.GUID.String())
	case election.Lead:
		if c.State == subnet.Master {
			c.WaitHandover = false
			c.stopPolling()
		} else {
			c.becomeMaster("no other manager ranks above us")
		}
		return c.configure()
	}
	return true
}

func (c *Core) setState(s subnet.SMState, why string) {
	if c.State == s {
		return
	}
	c.Notify(notice.Notice{Kind: notice.KindState, Level: notice.Info, Text: c.State.String() + " to " + s.String() + ": " + why})
	c.State = s
	c.publishState()
}

func (c *Core) becomeDiscovering(why string) {
	c.stopPolling()
	c.Up = false
	c.setState(subnet.Discovering, why)
	c.wantSweep, c.sweepWhy = true, why
	if c.Phase != notice.PhaseIdle {
		c.abortSweep()
	}
}

func (c *Core) becomeMaster(why string) {
	if c.State == subnet.Master {
		return
	}
	c.stopPolling()
	c.master = election.Other{}
	c.firstTime, c.veiled = true, true
	c.attempts = 0
	c.forgetTables()
	c.masterPKeys()
	clear(c.lids)
	c.setState(subnet.Master, why)
}

// forgetTables: installed means read back in this mastership.
func (c *Core) forgetTables() {
	clear(c.lfts)
	clear(c.mfts)
	c.heldTrees = heldTrees{}
	clear(c.lanesOf)
	c.forgetGUIDs()
	c.forgetVirtuals()
	c.forgetLeases()
	c.forgetLanes()
	c.served, c.current, c.held, c.lanesSetUp = nil, nil, nil, false
}

func (c *Core) becomeStandby(m election.Other, why string) {
	c.tookOver = false
	c.WaitHandover = false
	c.forgetPKeys()
	c.Up = false
	c.abortSweep()
	c.wantSweep = false
	c.master = m
	c.setState(subnet.Standby, why)
	c.startPolling()
	c.publish()
	if m.Info.SMState == smp.SMMaster && !c.Fabric.Port(c.Fabric.Self).Info.CapabilityMask.Has(ib.CapIsCapabilityMaskNoticeSupported) {
		c.trapToMaster(0) // our own agent cannot tell the master that we are here
	}
}

func (c *Core) becomeNotActive(why string) {
	c.stopPolling()
	c.forgetPKeys()
	c.Up = false
	c.abortSweep()
	c.wantSweep = false
	c.setState(subnet.NotActive, why)
}

// abortSweep drops what is under way; nothing that was written is undone.
func (c *Core) abortSweep() {
	c.endRegion()
	c.sound = false
	c.Engine.CancelAll()
	c.dropAskedGUIDs()
	c.dropAskedPKeys()
	c.dropAskedVirtuals()
	c.dropMoves()
	c.pollBusy = false
	c.persistWait = false
	c.jobGen++
	c.jobDone = nil
	c.resumeAt, c.lightAt, c.retryAt, c.auditAt = mad.Never, mad.Never, mad.Never, mad.Never
	c.enter(notice.PhaseIdle)
}

// handover gives the subnet to a manager of higher rank.
func (c *Core) handover(to election.Other) {
	c.Notify(notice.Notice{Kind: notice.KindHandover, Level: notice.Info, Text: "handing over to " + to.Info.GUID.String() + " priority " + strconv.Itoa(int(to.Info.Priority))})
	own := c.own() // the data of the Set still says Master
	c.becomeStandby(to, "handed over to "+to.Info.GUID.String())
	c.submitSM(work.OpHandover, ib.MethodSet, smp.SMModHandover, &to, &own)
}

// awaitHandover: another master of lower rank exists. It finds us at its next
// sweep and hands over; until then we configure nothing and poll it.
func (c *Core) awaitHandover(m election.Other) {
	c.Notify(notice.Notice{Kind: notice.KindHandover, Level: notice.Info, Text: "waiting for the handover of " + m.Info.GUID.String()})
	c.abortSweep()
	c.WaitHandover = true
	c.master = m
	c.startPolling()
	c.trapToMaster(smp.ChangeSMPriority)
}

func (c *Core) startPolling() {
	c.polling = true
	c.pollMissed, c.pollBusy, c.called = 0, false, false
	c.pollAt = c.Now.Add(c.Config.PollInterval)
}

func (c *Core) stopPolling() {
	c.polling, c.pollBusy = false, false
	c.pollAt = mad.Never
	c.Engine.Cancel(uint64(work.OpPoll)<<56, uint64(work.OpPoll)<<56|1<<56-1)
}

func (c *Core) onPollTimer() {
	c.pollAt = mad.Never
	if !c.polling {
		return
	}
	if c.pollBusy { // the answer of the last poll is still awaited
		c.pollAt = c.Now.Add(c.Config.PollInterval)
		return
	}
	c.pollAt = c.Now.Add(c.Config.PollInterval)
	c.pollBusy = true
	c.submitSM(work.OpPoll, ib.MethodGet, 0, &c.master, nil)
}

// submitSM sends an SMInfo request to another manager by directed route.
func (c *Core) submitSM(o work.Op, method ib.Method, mod uint32, to *election.Other, data *smp.SMInfo) {
	r := mad.Request{Token: uint64(work.Make(o, -1, 0, 0)), Priority: mad.Urgent, Addr: mad.Addr{LID: ib.LIDPermissive}}
	smp.NewDR(&r.MAD, method, smp.AttrSMInfo, mod, to.MKey, to.Path)
	if data != nil {
		data.Put(smp.Data(&r.MAD))
	}
	if o == work.OpPoll {
		r.Retries = -1 // the next poll is the retry
	}
	_ = c.Engine.Submit(&r) // a full queue is a missed poll: the timer asks again
}

// onPoll takes the answer of the manager we poll, or its absence.
func (c *Core) onPoll(comp *mad.Completion) {
	c.pollBusy = false
	if !c.polling {
		return
	}
	var si smp.SMInfo
	err := work.Answer(comp)
	if err == nil {
		err = si.Decode(smp.Data(comp.MAD))
	}
	alive := err == nil && si.GUID == c.master.Info.GUID &&
		(si.SMState == smp.SMMaster || (si.SMState == smp.SMStandby || si.SMState == smp.SMDiscovering) && c.candidate().Beats(&si))
	if !alive {
		c.pollMissed++
		// An answer that says it is no longer master needs no more proof.
		if err == nil || c.pollMissed > c.Config.PollRetries {
			c.masterLost(err)
		}
		return
	}
	c.pollMissed = 0
	c.master.Info = si
	switch {
	case si.SMState != smp.SMMaster:
	case c.WaitHandover && c.candidate().Beats(&si):
		c.WaitHandover = false // it has been given a higher priority: settle it anew
		c.AskFullSweep("the other master now ranks above us")
	case c.WaitHandover || si.Priority < c.Config.Priority:
		c.callMaster(smp.ChangeSMPriority)
	case !c.called && !c.candidate().Beats(&si):
		// It may keep the subnet against an equal priority, so it is told once.
		c.called = true
		c.callMaster(smp.ChangeSMPriority)
	}
}

// callMaster tells the master that we are here, from the LID that our port has
// by now: when we looked the master may not have given it one yet, and then
// our agent's trap about IsSM was lost too.
func (c *Core) callMaster(flags smp.ChangeFlags) {
	self := c.Fabric.Self
	r := mad.Request{Token: uint64(work.Make(work.OpOwnInfo, -1, 0, uint32(flags))), Addr: mad.Addr{LID: ib.LIDPermissive}}
	smp.NewDR(&r.MAD, ib.MethodGet, smp.AttrPortInfo, smp.PortInfoMod(self.Port, false), c.Fabric.AgentPort(self.Node, self.Port).MKey, nil)
	_ = c.Engine.Submit(&r) // the next poll calls again
}

func (c *Core) onOwnInfo(it work.Item, comp *mad.Completion) {
	var pi smp.PortInfo
	if work.Answer(comp) != nil || pi.Decode(smp.Data(comp.MAD)) != nil || !c.polling || c.Fabric.Self == subnet.NoRef {
		return
	}
	c.Fabric.AgentPort(c.Fabric.Self.Node, c.Fabric.Self.Port).Info = pi
	c.trapToMaster(smp.ChangeFlags(it.Extra()))
}

func (c *Core) masterLost(err error) {
	why := "the master " + c.master.Info.GUID.String() + " does not answer any more"
	if err == nil {
		why = c.master.Info.GUID.String() + " is no longer master"
	}
	c.Notify(notice.Notice{Kind: notice.KindOtherSM, Level: notice.Warn, Err: err, Text: why})
	wasMaster := c.master.Info.SMState == smp.SMMaster
	c.master = election.Other{}
	if c.State == subnet.Master {
		c.WaitHandover = false
		c.firstTime, c.veiled = true, true
		c.stopPolling()
		c.AskFullSweep(why)
		return
	}
	c.tookOver = wasMaster
	c.becomeDiscovering(why)
}

// onHandoverDone: the receiver of our handover answered, or did not.
func (c *Core) onHandoverDone(comp *mad.Completion) {
	if err := work.Answer(comp); err != nil && c.State == subnet.Standby {
		c.Notify(notice.Notice{Kind: notice.KindHandover, Level: notice.Warn, Err: err, Text: "the handover was not accepted; looking again"})
		c.tookOver = false
		c.becomeDiscovering("the handover was not accepted")
	}
}

// onGetSMInfo answers another manager, or sminfo.
func (c *Core) onGetSMInfo(p *mad.Packet, m *ib.MAD) {
	prot, key, locked := c.ownProtection()
	ok := !locked || smp.MKey(m) == key
	if !ok && prot >= 2 {
		return
	}
	own := c.own()
	if !ok && prot == 1 {
		own.SMKey = 0
	}
	c.reply(p, m, &own, 0)
}

// ownProtection is how our own port's M_Key guards it.
func (c *Core) ownProtection() (prot uint8, key ib.MKey, locked bool) {
	if c.Fabric == nil || c.Fabric.Self.Node < 0 {
		return 0, 0, false
	}
	p := c.Fabric.AgentPort(c.Fabric.Self.Node, c.Fabric.Self.Port)
	return p.Info.MKeyProtectBits, p.Info.MKey, p.Info.MKey != 0
}

// reply answers an SMInfo request in the class it came in.
func (c *Core) reply(p *mad.Packet, m *ib.MAD, own *smp.SMInfo, st ib.Status) {
	r := *m
	clear(smp.Data(&r))
	own.Put(smp.Data(&r))
	smp.Respond(&r, st)
	q := mad.Packet{Addr: p.Addr, LocalQP: 0, Data: r[:]}
	c.actCount++
	c.out.send(&q)
}

// onSetSMInfo takes a signal of another manager. The answer carries our
// SMInfo from before the transition.
func (c *Core) onSetSMInfo(p *mad.Packet, m *ib.MAD) {
	if _, key, locked := c.ownProtection(); locked && smp.MKey(m) != key {
		return
	}
	var from smp.SMInfo
	own := c.own()
	if from.Decode(smp.Data(m)) != nil || !c.candidate().Trusts(&from) {
		c.reply(p, m, &own, ib.StatusInvalidField)
		return
	}
	sig := m.AttrMod()
	if c.Config.PlanOnly || !election.Accepts(c.State, sig, from.SMState) {
		c.reply(p, m, &own, ib.StatusInvalidField)
		return
	}
	c.reply(p, m, &own, 0)
	sender := c.senderOf(p, m, from)
	switch {
	case sig == smp.SMModHandover:
		c.Notify(notice.Notice{Kind: notice.KindHandover, Level: notice.Info, Text: "handover received from " + from.GUID.String()})
		c.onHandover(sender)
	case sig == smp.SMModAcknowledge:
	case c.State == subnet.NotActive: // STANDBY
		c.tookOver = false
		c.master = sender
		c.setState(subnet.Standby, "told to by "+from.GUID.String())
		c.startPolling()
	case sig == smp.SMModDisable:
		c.becomeNotActive("told to by " + from.GUID.String())
	case sig == smp.SMModDiscover:
		c.becomeDiscovering("told to by " + from.GUID.String())
	}
}

func (c *Core) onHandover(from election.Other) {
	switch c.State {
	case subnet.Discovering:
		c.AskFullSweep("handover while discovering")
	case subnet.Standby:
		c.tookOver = false
		c.becomeMaster("handover from " + from.Info.GUID.String())
		c.wantSweep, c.sweepWhy = true, "handover"
		c.acknowledge(from)
	case subnet.Master:
		c.WaitHandover = false
		c.stopPolling()
		c.firstTime, c.veiled = true, true
		c.forgetTables()
		clear(c.lids)
		c.AskFullSweep("handover")
		c.acknowledge(from)
	}
}

// acknowledge tells the old master that the handover arrived. OpenSM does not
// need it and may answer with an error, which is ignored.
func (c *Core) acknowledge(to election.Other) {
	own := c.own()
	own.SMState = smp.SMStandby // legal from a Standby: what we were when the signal came
	if to.Path == nil {
		return
	}
	c.submitSM(work.OpAcknowledge, ib.MethodSet, smp.SMModAcknowledge, &to, &own)
}

// senderOf finds the directed route to the sender of a signal: from the last
// discovery, else the way the signal came, turned round.
func (c *Core) senderOf(p *mad.Packet, m *ib.MAD, from smp.SMInfo) election.Other {
	for i := range c.others {
		if c.others[i].Info.GUID == from.GUID {
			o := c.others[i]
			o.Info = from
			return o
		}
	}
	o := election.Other{Info: from, LID: p.Addr.LID}
	if m.Class() == ib.ClassSubnDR {
		n := int(smp.HopCount(m))
		if n <= smp.MaxHops {
			for h := n; h >= 1; h-- {
				o.Path = append(o.Path, smp.ReturnPath(m)[h])
			}
		}
	}
	return o
}
