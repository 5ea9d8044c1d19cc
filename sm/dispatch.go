package sm

import (
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/topo"
	"heddle/subnet"
)

// build turns an item into a request. It reports false if there is nothing
// left to ask (the node was left out meanwhile).
func (c *Core) build(it item, r *mad.Request) bool {
	f := c.f
	n, p, x := it.node(), it.port(), it.extra()
	r.Addr = mad.Addr{LID: ib.LIDPermissive}
	r.Timeout, r.Retries, r.Priority = 0, 0, mad.Normal
	if n >= 0 && !f.Nodes[n].Path.Set {
		return false
	}
	if it.op() == opNodeInfo || it.op() == opLightProbe {
		key, _ := c.mkeyGuess(ref{Node: n, Port: p}, x)
		var path []byte
		if n >= 0 {
			var buf [smp.MaxHops + 1]byte
			path = append(append(buf[:0], f.AgentPath(n, p)...), p)
		}
		if x > 0 { // another key: one try after the first is enough
			r.Retries = 1
		}
		if n >= 0 && f.Nodes[n].Flags&topo.NodeUnseen != 0 && it.op() == opNodeInfo {
			r.Retries = -1 // what is in the way may let nothing pass
		}
		smp.NewDR(&r.MAD, ib.MethodGet, smp.AttrNodeInfo, 0, key, path)
		return true
	}
	if !f.Nodes[n].OK() && it.op() >= opSetSwitch {
		return false
	}
	key := f.AgentPort(n, p).MKey
	get := func(attr ib.AttrID, mod uint32) { smp.NewDR(&r.MAD, ib.MethodGet, attr, mod, key, f.AgentPath(n, p)) }
	set := func(attr ib.AttrID, mod uint32) []byte {
		smp.NewDR(&r.MAD, ib.MethodSet, attr, mod, key, f.AgentPath(n, p))
		return smp.Data(&r.MAD)
	}
	switch it.op() {
	case opSetVPort:
		if c.vportOnce(it) {
			r.Retries = -1
		}
		return c.buildVirtual(it, get, set)
	case opImageNow:
		get(smp.AttrNodeInfo, 0)
	case opNodeDesc, opLightDesc, opDescNow:
		get(smp.AttrNodeDescription, 0)
	case opSwitchInfo, opLightSwitch, opPeek:
		get(smp.AttrSwitchInfo, 0)
	case opPortInfo:
		get(smp.AttrPortInfo, smp.PortInfoMod(p, x&1 == 0))
	case opLightPort, opPortAgain, opReread, opEnforced, opPeekPort:
		get(smp.AttrPortInfo, smp.PortInfoMod(p, !f.PortOf(n, p).Has(topo.PortNoExt)))
	case opSMInfo, opLightSM:
		get(smp.AttrSMInfo, 0)
	case opSetSwitch:
		c.buildSetSwitch(n, x, set(smp.AttrSwitchInfo, 0))
	case opSetPort, opEnforce:
		pi, ext, ok := c.portWanted(n, p)
		if !ok {
			return false
		}
		pi.Put(set(smp.AttrPortInfo, smp.PortInfoMod(p, ext)))
	case opArm, opActive, opDown:
		// What is wanted, not what was read: an answer with nonsense in it must
		// not become the port's key or LID.
		pi, _, _ := c.portWanted(n, p)
		pi.LinkWidthEnabled, pi.LinkSpeedEnabled, pi.LinkSpeedExtEnabled = 0, 0, 0
		pi.OperationalVLs, pi.ClientReregister = 0, false
		switch it.op() {
		case opArm:
			pi.PortState = ib.StateArmed
		case opActive:
			pi.PortState = ib.StateActive
		default:
			pi.PortState = ib.StateDown
		}
		pi.Put(set(smp.AttrPortInfo, smp.PortInfoMod(p, false)))
	case opPKeys, opSetPKeys, opGetVPKeys, opSetVPKeys:
		return c.buildPKeys(it, get, set)
	case opGetLFT:
		get(smp.AttrLFT, x)
	case opSetLFT:
		c.buildStage(n, uint16(x), (*[64]byte)(set(smp.AttrLFT, x)))
	case opGetMFT:
		get(smp.AttrMFT, smp.MFTMod(uint16(x), p))
	case opSetMFT:
		c.buildMFT(n, uint16(x), p, set(smp.AttrMFT, smp.MFTMod(uint16(x), p)))
	case opGetSL, opBackSL:
		get(smp.AttrSLtoVL, slMod(&f.Nodes[n], uint8(x), p))
	case opSetSL:
		t := c.slWanted(n, uint8(x), p)
		mod := slMod(&f.Nodes[n], uint8(x), p)
		if x&slAllIn != 0 {
			mod = smp.SLtoVLAllIn | uint32(p)
		}
		t.Put(set(smp.AttrSLtoVL, mod))
	case opGetArb:
		get(smp.AttrVLArb, smp.VLArbMod(uint16(x), arbPort(&f.Nodes[n], p)))
	case opSetArb:
		t := c.arbWanted(n, p, uint16(x))
		t.Put(set(smp.AttrVLArb, smp.VLArbMod(uint16(x), arbPort(&f.Nodes[n], p))))
	case opReadSL, opReadArb:
		c.buildRead(it, get)
	case opGetGUIDs:
		get(smp.AttrGUIDInfo, x)
	case opSetGUIDs:
		t := c.buildGUIDs(f.PortOf(n, p), int(x))
		t.Put(set(smp.AttrGUIDInfo, x))
	default:
		return c.buildVirtual(it, get, set)
	}
	return true
}

// onCompletion takes the end of a request.
func (c *Core) onCompletion(comp mad.Completion) {
	it := item(comp.Token)
	switch it.op() {
	case opPoll:
		c.onPoll(&comp)
		return
	case opHandover:
		c.onHandoverDone(&comp)
		return
	case opAcknowledge:
		return
	case opDescNow:
		c.onDescNow(it, &comp)
		return
	case opOwnInfo:
		c.onOwnInfo(it, &comp)
		return
	case opPeek:
		c.onPeek(it, &comp)
		return
	case opPeekPort:
		c.onPeekPort(it, &comp)
		return
	case opImageNow:
		c.onImageNow(it, &comp)
		return
	}
	if it.op() != opReread || it.extra() != rereadPath {
		c.moving()
	}
	c.finishItem()
	switch it.op() {
	case opNodeInfo:
		c.onNodeInfo(it, &comp)
	case opNodeDesc:
		c.onNodeDesc(it, &comp)
	case opSwitchInfo:
		c.onSwitchInfo(it, &comp)
	case opPortInfo:
		c.onPortInfo(it, &comp)
	case opPKeys, opSetPKeys, opGetVPKeys, opSetVPKeys:
		c.onPKeys(it, &comp)
	case opEnforce, opEnforced:
		c.onEnforce(it, &comp)
	case opSMInfo:
		c.onSMInfo(it, &comp)
	case opSetSwitch:
		c.onSetSwitch(it, &comp)
	case opSetPort:
		c.onSetPort(it, &comp)
	case opArm, opActive:
		c.onSetState(it, &comp)
	case opDown:
		c.onDownDone(it, &comp)
	case opGetLFT:
		c.onGetLFT(it, &comp)
	case opSetLFT:
		c.onSetLFT(it, &comp)
	case opGetMFT:
		c.onGetMFT(it, &comp)
	case opSetMFT:
		c.onSetMFT(it, &comp)
	case opGetSL:
		c.onGetSL(it, &comp)
	case opBackSL:
		c.onBackSL(it, &comp)
	case opGetArb:
		c.onGetArb(it, &comp)
	case opSetSL, opSetArb:
		c.onSetLane(it, &comp)
	case opPortAgain:
		c.onPortAgain(it, &comp)
	case opReread:
		c.onReread(it, &comp)
	case opReadSL, opReadArb:
		c.onReadLane(it, &comp)
	case opGetGUIDs, opSetGUIDs:
		c.onGUIDs(it, &comp)
	case opGetVirt, opSetVirt, opGetVStates, opGetVPort, opSetVPort, opGetVNode, opGetVDesc, opGetVGUIDs, opSetVGUIDs, opLightVirt:
		c.onVirtual(it, &comp)
	case opLightSwitch:
		c.onLightSwitch(it, &comp)
	case opLightProbe:
		c.onLightProbe(it, &comp)
	case opLightDesc:
		c.onNodeDesc(it, &comp)
		c.descRead = c.descRead || c.f.Nodes[it.node()].Flags&topo.NodeDesc != 0
	case opLightSM:
		c.onLightSM(it, &comp)
	case opLightPort:
		c.onLightPort(it, &comp)
	}
}

// setFailed reports a Set that did not do what it should, and makes the sweep
// end with another try to come.
func (c *Core) setFailed(n int32, p int, what string, err error) {
	c.errs++
	if p >= 0 {
		c.f.PortOf(n, uint8(p)).Flags |= topo.PortFailed
	}
	kind, text := KindSetFailed, what+" failed; it is tried again"
	if mad.Unanswered(err) && c.f.AgentPort(n, uint8(max(p, 0))).Info.MKeyProtectBits != 0 {
		kind, text = KindMKeyRefused, what+" is not answered: the port is locked with an M_Key we do not have; give it with the configuration"
	}
	c.problem(Where{}, Notice{Kind: kind, Level: Warn, Where: c.f.Where(n, p), Err: err, Text: text})
}

func (c *Core) ownLID() ib.LID {
	if c.f == nil || c.f.Self == subnet.NoRef {
		return 0
	}
	p := c.f.AgentPort(c.f.Self.Node, c.f.Self.Port)
	if p.LID != 0 && p.Info.LID == p.LID {
		return p.LID
	}
	return p.Info.LID
}
