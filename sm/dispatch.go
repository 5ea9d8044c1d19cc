package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
)

// build turns an item into a request. It reports false if nothing is left to ask, because the node
// was excluded in the meantime.
func (c *Core) build(it work.Item, r *mad.Request) bool {
	f := c.Fabric
	n, p := it.Node(), it.Port()
	r.Addr = mad.Addr{LID: ib.LIDPermissive}
	r.Timeout, r.Retries, r.Priority = 0, 0, mad.Normal
	if n >= 0 && !f.Nodes[n].Path.Set {
		return false
	}
	if it.Op() == work.OpNodeInfo || it.Op() == work.OpLightProbe {
		c.discovery.BuildNodeInfo(it, r)
		return true
	}
	if !f.Nodes[n].OK() && it.Op() >= work.OpSetSwitch {
		return false
	}
	key := f.AgentPort(n, p).MKey
	get := func(attr ib.AttrID, mod uint32) { smp.NewDR(&r.MAD, ib.MethodGet, attr, mod, key, f.AgentPath(n, p)) }
	set := func(attr ib.AttrID, mod uint32) []byte {
		smp.NewDR(&r.MAD, ib.MethodSet, attr, mod, key, f.AgentPath(n, p))
		return smp.Data(&r.MAD)
	}
	switch it.Op() {
	case work.OpSetVPort:
		if c.vports.Once(it) {
			r.Retries = -1
		}
		return c.vports.Build(it, get, set)
	case work.OpNodeDesc, work.OpSwitchInfo, work.OpPortInfo, work.OpReread:
		c.discovery.Build(it, get)
	case work.OpLightSwitch, work.OpLightDesc, work.OpLightPort:
		return c.light.Build(it, get, set)
	case work.OpEnforced:
		get(smp.AttrPortInfo, smp.PortInfoMod(p, !f.PortOf(n, p).Has(topo.PortNoExt)))
	case work.OpSMInfo, work.OpLightSM:
		get(smp.AttrSMInfo, 0)
		switch {
		case c.Phase == notice.PhaseTakeover:
			c.takeover.Hasten(r)
		case c.mastership.Silent(f.AgentPort(n, p).GUID):
			c.mastership.Hasten(r)
		}
	case work.OpMapNode, work.OpMapSwitch, work.OpMapPort, work.OpMapBlock:
		c.takeover.Build(it, r, get)
	case work.OpMapWrite:
		c.takeover.BuildWrite(it, set)
	case work.OpPortAgain, work.OpSetSwitch, work.OpSetPort, work.OpEnforce, work.OpArm, work.OpActive, work.OpDown, work.OpDisable, work.OpEnable, work.OpTell:
		return c.links.Build(it, get, set)
	case work.OpPKeys, work.OpSetPKeys, work.OpGetVPKeys, work.OpSetVPKeys:
		return c.pkeys.Build(it, get, set)
	case work.OpGetLFT, work.OpSetLFT, work.OpGetMFT, work.OpSetMFT:
		return c.install.Build(it, get, set)
	case work.OpGetSL, work.OpSetSL, work.OpBackSL, work.OpReadSL, work.OpGetArb, work.OpSetArb, work.OpReadArb:
		return c.lanes.Build(it, get, set)
	case work.OpGetGUIDs, work.OpSetGUIDs:
		return c.guids.Build(it, get, set)
	default:
		return c.vports.Build(it, get, set)
	}
	return true
}

// onCompletion takes the end of a request.
func (c *Core) onCompletion(comp mad.Completion) {
	it := work.Item(comp.Token)
	if it.OutOfPhase() {
		c.answeredOutOfPhase(it, &comp)
		return
	}
	if comp.Hurried && mad.Unanswered(comp.Err) {
		c.hurry.Unanswered(it, &comp)
	}
	if it.Op() != work.OpReread || it.Extra() != work.RereadPath {
		c.peeks.Progress()
	}
	c.Finish()
	c.answered(it, &comp)
}

// answeredOutOfPhase takes the end of a request that belongs to no phase.
func (c *Core) answeredOutOfPhase(it work.Item, comp *mad.Completion) {
	switch it.Op() {
	case work.OpPoll:
		c.mastership.Polled(comp)
	case work.OpHandover:
		c.mastership.HandoverDone(comp)
	case work.OpDescNow, work.OpImageNow, work.OpCapsNow, work.OpSMNow:
		c.traps.Answered(it, comp)
	case work.OpOwnInfo:
		c.mastership.OwnInfo(it, comp)
	case work.OpPeek, work.OpPeekPort:
		c.peeks.Answered(it, comp)
	case work.OpLate:
		c.hurry.Answered(it, comp)
	}
}

// answered takes the end of a request of the phase.
func (c *Core) answered(it work.Item, comp *mad.Completion) {
	switch it.Op() {
	case work.OpNodeInfo, work.OpNodeDesc, work.OpSwitchInfo, work.OpPortInfo, work.OpReread:
		if c.discovery.Answered(it, comp); c.discovery.CutFound() {
			c.peeks.Progress()
		}
	case work.OpSMInfo:
		c.mastership.Read(it, comp, c.Region)
	case work.OpLightSwitch, work.OpLightProbe, work.OpLightDesc, work.OpLightPort:
		c.light.Answered(it, comp)
	case work.OpMapNode, work.OpMapSwitch, work.OpMapPort, work.OpMapBlock, work.OpMapWrite, work.OpTell:
		c.takeoverAnswered(it, comp)
	case work.OpLightSM:
		c.mastership.Seen(it, comp)
	case work.OpPKeys, work.OpSetPKeys, work.OpGetVPKeys, work.OpSetVPKeys, work.OpEnforce, work.OpEnforced:
		c.pkeys.Answered(it, comp)
	case work.OpPortAgain, work.OpSetSwitch, work.OpSetPort, work.OpArm, work.OpActive, work.OpDown, work.OpDisable, work.OpEnable:
		c.links.Answered(it, comp)
	case work.OpGetLFT:
		if c.Phase == notice.PhaseLight && c.Fabric.Nodes[it.Node()].LFT != nil {
			c.light.Answered(it, comp) // of an audit
		} else {
			c.install.Answered(it, comp)
		}
	case work.OpSetLFT, work.OpGetMFT, work.OpSetMFT:
		c.install.Answered(it, comp)
	case work.OpGetSL, work.OpSetSL, work.OpBackSL, work.OpReadSL, work.OpGetArb, work.OpSetArb, work.OpReadArb:
		c.lanes.Answered(it, comp)
	case work.OpGetGUIDs, work.OpSetGUIDs:
		c.guids.Answered(it, comp)
	default:
		c.vports.Answered(it, comp)
	}
}

// SetFailed implements env.Sweeper: it reports a Set that did not have its effect, and has the
// sweep repeated.
func (c *Core) SetFailed(n int32, p int, what string, err error) {
	c.Errs++
	if p >= 0 {
		c.Fabric.PortOf(n, uint8(p)).Flags |= topo.PortFailed
	}
	kind, text := notice.KindSetFailed, what+" failed; it is tried again"
	if mad.Unanswered(err) && c.Fabric.AgentPort(n, uint8(max(p, 0))).Info.MKeyProtectBits != 0 {
		kind, text = notice.KindMKeyRefused, what+" gets no answer: the port is locked with an M_Key that the manager does not have; configure that key (--m-key)"
	}
	c.Problem(notice.Where{}, notice.Notice{Kind: kind, Level: notice.Warn, Where: c.Fabric.Where(n, p), Err: err, Text: text})
}

// skip finishes an item about a node that is not asked, because it does not answer.
func (c *Core) skip(it work.Item) {
	c.Finish()
	switch it.Op() {
	case work.OpPKeys, work.OpSetPKeys, work.OpGetVPKeys, work.OpSetVPKeys:
		c.pkeys.Skipped(it)
	default:
		if c.absent.Skipped(it) {
			c.install.NotTaken()
		}
	}
}
