package vport

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/config"
	"heddle/sm/guid"
	"heddle/sm/notice"
	"heddle/sm/work"
)

// The requests about VPorts, and their answers. Only what was read or acknowledged is known. After a
// Set that was not answered VPortInfo is read back, and once more after the time in which a late copy
// of the Set may arrive.

// maxClears is how often VPortStateChange is cleared although it is set again, before the states are
// read.
const maxClears = 4

// Build fills the request of an item. It reports false if there is nothing to ask.
func (m *Manager) Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	f := m.Fabric
	a := m.byPort[f.PortOf(it.Node(), it.Port()).GUID]
	if a == nil {
		return false
	}
	index, block := uint16(it.Extra()), uint16(it.Extra()>>16)
	switch it.Op() {
	case work.OpGetVirt, work.OpLightVirt:
		get(smp.AttrVirtualizationInfo, 0)
	case work.OpSetVirt:
		i := a.info
		i.ClearForSet()
		i.VirtualizationEnable = m.Config.Virtualization == config.VirtualOn
		if it.Extra() == reregisterClients {
			i.VClientReregister = true
		} else {
			i.VPortStateChange = true // which clears it
		}
		i.Put(set(smp.AttrVirtualizationInfo, 0))
	case work.OpGetVStates:
		get(smp.AttrVPortState, it.Extra())
	case work.OpGetVPort:
		get(smp.AttrVPortInfo, smp.VPortMod(index))
	case work.OpGetVNode:
		get(smp.AttrVNodeInfo, smp.VPortMod(index))
	case work.OpGetVDesc:
		get(smp.AttrVNodeDescription, smp.VPortMod(index))
	case work.OpGetVGUIDs:
		get(smp.AttrVPortGUIDInfo, smp.VPortTableMod(index, block))
	case work.OpSetVPort:
		v := a.VPort(index)
		if v == nil || v.sending == nil {
			return false
		}
		v.sending.Put(set(smp.AttrVPortInfo, smp.VPortMod(index)))
		v.sending, v.lateUntil = nil, m.Now.Add(mad.LateCopy)
	case work.OpSetVGUIDs:
		v := a.VPort(index)
		if v == nil {
			return false
		}
		want := m.needs.Placements.Wanted(Ref{a, index})
		var b smp.VPortGUIDInfo
		for i := range b {
			switch k := int(block)*smp.GUIDBlockLen + i; {
			case k == 0:
				b[i] = v.info.PortGUID
			case k < int(v.info.GUIDCap):
				b[i] = guidWanted(v, &want, k)
			}
		}
		b.Put(set(smp.AttrVPortGUIDInfo, smp.VPortTableMod(index, block)))
	default:
		return false
	}
	return true
}

// Once reports whether a Set is not to be repeated: one that makes a VPort
// Active, see set.
func (m *Manager) Once(it work.Item) bool {
	a := m.byPort[m.Fabric.PortOf(it.Node(), it.Port()).GUID]
	if a == nil || !a.kind.hosted {
		return false
	}
	v := a.VPort(uint16(it.Extra()))
	return v != nil && v.sending != nil && v.sending.VPortState == ib.StateActive
}

// Answered takes the answer to a request about virtual ports.
func (m *Manager) Answered(it work.Item, comp *mad.Completion) {
	a := m.byPort[m.Fabric.PortOf(it.Node(), it.Port()).GUID]
	if a == nil {
		return
	}
	if it.Op() == work.OpLightVirt {
		m.answeredLight(a, comp)
		return
	}
	if a.asked == 0 {
		return // it was given up
	}
	a.asked--
	m.queue(a)
	switch it.Op() {
	case work.OpGetVirt, work.OpSetVirt:
		m.answeredInfo(a, it, comp)
	case work.OpGetVStates:
		m.answeredStates(a, it.Extra(), comp)
	default:
		r := Ref{a, uint16(it.Extra())}
		v := r.VPort()
		if v == nil || v.asked == 0 {
			return
		}
		if v.asked--; v.asked == 0 {
			m.Look(r)
		}
		m.answeredVPort(r, it, comp)
	}
}

// failed: a request about an adapter as a whole was not answered, or was refused.
func (m *Manager) failed(a *Adapter, what string, err error) {
	w := m.Fabric.Where(a.at.Node, int(a.at.Port))
	if !mad.Unanswered(err) {
		m.downAll(a)
		a.step, a.kind, a.functions = adapterRefused, noKind, 0
		m.needs.Discovery.AdapterMet()
		m.showAdapter(a)
		m.needs.Placements.Changed(Ref{a, 0})
		m.touchKeys(Ref{a, 0})
		if m.NoteOnce("virtual " + a.port.String()) {
			m.Notify(notice.Notice{
				Kind: notice.KindVPortRefused, Level: notice.Warn, Where: w, Err: err,
				Text: what + " was refused: its virtual ports are left alone until the port is reset",
			})
		}
		return
	}
	a.step = adapterInfo
	a.retryAt = m.Now.Add(m.Config.RetryInterval << min(a.tries, 4))
	a.tries = min(a.tries+1, 4)
	m.wait(Ref{a, 0}, a.retryAt)
	if m.NoteOnce("virtual " + a.port.String() + what) {
		m.Notify(notice.Notice{
			Kind: notice.KindSetFailed, Level: notice.Warn, Where: w, Err: err, Text: what + " failed; it is tried again",
		})
	}
}

// answeredInfo takes VirtualizationInfo as it was read or set.
func (m *Manager) answeredInfo(a *Adapter, it work.Item, comp *mad.Completion) {
	var i smp.VirtualizationInfo
	what := "reading its VirtualizationInfo"
	if it.Op() == work.OpSetVirt {
		what = "setting its VirtualizationInfo"
	}
	err := work.Answer(comp)
	if err == nil {
		err = i.Decode(smp.Data(comp.MAD))
	}
	if err == nil && i.VirtualizationRevision != smp.VirtualizationRevision {
		const known = smp.VirtualizationRevision
		err = fmt.Errorf("VirtualizationRevision is %d, only %d is known", i.VirtualizationRevision, known)
	}
	if err != nil {
		m.failed(a, what, err)
		return
	}
	a.tries = 0
	if it.Op() == work.OpGetVirt && !a.met {
		a.met, a.wasOn = true, i.VirtualizationEnable
	}
	i.VPortIndexTop = min(i.VPortIndexTop, i.VPortCap)
	changed := i.VPortStateChange
	i.ClearForSet()
	if i != a.info || a.shows == nil {
		a.info, a.functions = i, int(i.VPortCap)
		k := vportKind
		if i.CapabilityMask&smp.VirtCapIsVSwitch != 0 {
			k = vswitchKind
		}
		m.is(a, k)
		m.showAdapter(a)
	}
	on := m.Config.Virtualization == config.VirtualOn
	switch {
	case it.Op() == work.OpSetVirt && a.step != adapterEnable:
		return // VClientReregister, or something came between
	case on && (!i.VirtualizationEnable || changed && a.clears < maxClears):
		if it.Op() == work.OpSetVirt {
			if a.clears++; a.clears >= maxClears && !i.VirtualizationEnable {
				m.failed(a, what, errKeeps)
				return
			}
		}
		a.step = adapterEnable
	case on:
		a.step = adapterStates
	case i.VirtualizationEnable && it.Op() == work.OpSetVirt:
		m.failed(a, what, errKeeps)
	case i.VirtualizationEnable:
		a.step = adapterEnable
	default: // it is off, and is to be
		m.downAll(a)
		a.step, a.kind, a.functions = adapterRefused, noKind, 0
		m.needs.Discovery.AdapterMet()
		m.showAdapter(a)
		m.touchKeys(Ref{a, 0})
	}
}

// answeredStates takes a block of the states of VPorts.
func (m *Manager) answeredStates(a *Adapter, block uint32, comp *mad.Completion) {
	var t smp.VPortState
	err := work.Answer(comp)
	if err == nil {
		err = t.Decode(smp.Data(comp.MAD))
	}
	if err != nil {
		m.statesFailed(a, err)
		return
	}
	for k, st := range t {
		if i := block*smp.VPortsPerBlock + uint32(k); i != 0 && i <= uint32(a.info.VPortIndexTop) {
			m.stateRead(a, uint16(i), st)
		}
	}
	if a.step != adapterStates || a.statesAsked() {
		return
	}
	for i := int(a.info.VPortIndexTop) + 1; i < len(a.vports); i++ { // those that were taken away
		if v := a.vports[i]; v != nil {
			m.setState(Ref{a, v.index}, ib.StateDown)
			v.forget()
		}
	}
	a.step = adapterKnown
	m.needs.Placements.Changed(Ref{a, 0})
	m.touchKeys(Ref{a, 0})
}

// statesFailed: a block of the states of VPorts could not be read. One that is refused may be above a
// top index that has changed, so VirtualizationInfo is read again, at most maxClears times.
func (m *Manager) statesFailed(a *Adapter, err error) {
	if a.step != adapterStates {
		return
	}
	if mad.Unanswered(err) || a.clears >= maxClears {
		m.failed(a, "reading the states of its virtual ports", err)
		return
	}
	n := a.clears + 1
	m.lookAdapter(a)
	a.clears = n
}

// stateRead takes the state of VPort i as a block of states shows it.
func (m *Manager) stateRead(a *Adapter, i uint16, st ib.PortState) {
	v := a.VPort(i)
	held := a.wasOn || a.kind.assigned && m.Config.VSwitchPrepopulate // it may hold an address
	if v == nil && st <= ib.StateDown && !(a.first && held) {
		return
	}
	v = a.ensure(i)
	r := Ref{a, v.index}
	if st == ib.StateInit && v.state == st {
		tries, at := v.tries, v.retryAt
		v.forget() // it may have been down since the last read
		v.tries, v.retryAt = tries, at
	}
	if st >= ib.StateArmed && v.state == st && m.Now < v.lateUntil {
		v.known &^= knowInfo // a copy of our last Set may have brought it up again after it was down
	}
	m.setState(r, st)
	if st > ib.StateDown || a.first {
		m.Look(r)
	}
	a.running = a.running || a.first && v.state == ib.StateActive && v.found
}

// statesAsked reports whether blocks of states are still to come. While they are
// asked nothing else is.
func (a *Adapter) statesAsked() bool { return a.asked > 0 }

// answeredVPort takes an answer about one VPort.
func (m *Manager) answeredVPort(r Ref, it work.Item, comp *mad.Completion) {
	v := r.VPort()
	err := work.Answer(comp)
	if mad.Unanswered(err) {
		if it.Op() == work.OpSetVPort || it.Op() == work.OpSetVGUIDs { // its fate is not known
			v.known &^= knowInfo
			v.unsure = true
			m.checkLate(r)
		}
		if it.Op() == work.OpSetVGUIDs {
			v.known &^= knowGUIDs
			v.blocks = 0
		}
		if it.Op() == work.OpSetVPort && comp.Tries == 1 {
			if v.lost++; int(v.lost) <= m.Config.SMPRetries {
				return // it was sent once; now it is read
			}
		}
		v.lost, v.confirm = 0, confirmNothing
		v.retryAt = m.Now.Add(m.Config.RetryInterval << min(v.tries, 4))
		v.tries = min(v.tries+1, 4)
		m.wait(r, v.retryAt)
		m.trouble(notice.KindSetFailed, r, "requests about it are not answered; they are repeated later", err)
		return
	}
	if err == nil {
		v.tries = 0
		if it.Op() == work.OpSetVPort {
			v.lost = 0
		}
	}
	switch it.Op() {
	case work.OpGetVPort:
		m.answeredVPortInfo(r, comp, err)
	case work.OpSetVPort:
		m.answeredSet(r, comp, err)
	case work.OpGetVNode:
		var n smp.VNodeInfo
		if err == nil {
			err = n.Decode(smp.Data(comp.MAD))
		}
		v.node = n // of one that shows none, none
		m.knows(r, knowNode, err)
	case work.OpGetVDesc:
		var d smp.VNodeDescription
		if err == nil {
			err = d.Decode(smp.Data(comp.MAD))
		}
		v.desc = d.String()
		m.knows(r, knowDesc, err)
	case work.OpGetVGUIDs, work.OpSetVGUIDs:
		m.answeredGUIDs(r, it, comp, err)
	}
}

// knows notes that something of a VPort was read, or cannot be.
func (m *Manager) knows(r Ref, what knowledge, err error) {
	if err != nil {
		m.trouble(notice.KindVPortRefused, r, "an attribute of it cannot be read", err)
	}
	r.VPort().known |= what
	if what == knowNode {
		m.touchKeys(r)
	}
	m.Show(r)
	m.needs.Placements.Changed(r)
}

// checkLate has VPortInfo read again when no copy of an earlier Set can arrive any more.
func (m *Manager) checkLate(r Ref) {
	v := r.VPort()
	v.checkAt = m.Now.Add(mad.LateCopy)
	m.wait(r, v.checkAt)
}

// KeysConfirmed tells that the P_Key table of a VPort is as it should be (ConfirmKeys).
func (m *Manager) KeysConfirmed(r Ref) { m.confirmed(r, confirmKeys) }

// confirmed continues at once with a VPort that waited for what: the less time passes until it is
// Active, the less can change.
func (m *Manager) confirmed(r Ref, what confirmation) {
	v := r.VPort()
	if v.confirm != what {
		return
	}
	if m.ready(r.Adapter) && r.Adapter.step == adapterKnown {
		m.step(r)
	}
	if v.confirm == what {
		v.confirm = confirmNothing
	}
}

func (m *Manager) answeredVPortInfo(r Ref, comp *mad.Completion, err error) {
	var i smp.VPortInfo
	if err == nil {
		err = i.Decode(smp.Data(comp.MAD))
	}
	if err == nil {
		m.infoRead(r, &i)
		m.confirmed(r, confirmInfo)
		return
	}
	// It does not exist any more, or all are off: what is there is to be read.
	v := r.VPort()
	v.confirm = confirmNothing
	v.retryAt = m.Now.Add(m.Config.RetryInterval << min(v.tries, 4))
	v.tries = min(v.tries+1, 4)
	m.wait(r, v.retryAt)
	if r.Adapter.doubtAt <= m.Now {
		r.Adapter.doubtAt = v.retryAt
		m.lookAdapter(r.Adapter)
	}
	m.trouble(notice.KindVPortRefused, r, "its VPortInfo cannot be read; it is tried again", err)
}

// answeredSet takes the answer to a Set(VPortInfo). A Set may be refused because the host took the
// VPort down meanwhile. So its state is read before anything is concluded.
func (m *Manager) answeredSet(r Ref, comp *mad.Completion, err error) {
	v := r.VPort()
	var asked, i smp.VPortInfo
	_ = asked.Decode(smp.Data(comp.Request))
	if err == nil {
		err = i.Decode(smp.Data(comp.MAD))
	}
	if comp.Tries > 1 {
		m.checkLate(r)
	}
	want := m.needs.Placements.Wanted(r)
	if err == nil {
		m.infoRead(r, &i)
		switch {
		case v.info.LIDRequired && v.info.VPortLID != asked.VPortLID,
			asked.VPortState >= ib.StateArmed && i.VPortState < asked.VPortState,
			r.Adapter.kind.assigned && asked.PortGUID != 0 && i.PortGUID != asked.PortGUID:
			err = errKeeps
		default:
			v.refusals = 0
			if r.Adapter.kind.assigned && asked.PortGUID == 0 {
				v.own = i.PortGUID
			}
			v.told = v.told || asked.ClientReregister || i.VPortState == ib.StateActive
			return
		}
	}
	v.known &^= knowInfo
	if v.refusals++; v.refusals > 2 {
		m.refuse(r, &want, err)
	}
}

// answeredGUIDs takes a block of the GUID table of a VPort as it was read or set.
func (m *Manager) answeredGUIDs(r Ref, it work.Item, comp *mad.Completion, err error) {
	v := r.VPort()
	block := int(it.Extra() >> 16)
	var b, asked smp.VPortGUIDInfo
	if err == nil {
		err = b.Decode(smp.Data(comp.MAD))
	}
	set := it.Op() == work.OpSetVGUIDs
	want := m.needs.Placements.Wanted(r)
	if err != nil {
		v.noGUIDs = true
		if set || len(want.Aliases) > 0 {
			m.refuse(r, &want, err)
		}
		m.knows(r, knowGUIDs, nil)
		return
	}
	if set {
		_ = asked.Decode(smp.Data(comp.Request))
		if comp.Tries > 1 {
			m.checkLate(r)
		}
	}
	most := int(v.info.GUIDCap)
	have := slices.Clone(v.guids)
	inUse := false
	for k, g := range b {
		i := block*smp.GUIDBlockLen + k
		if i == 0 || i >= most {
			continue
		}
		have = guid.Put(have, i, g)
		inUse = inUse || g != 0
		if set && g != asked[k] && !v.noGUIDs {
			v.noGUIDs = true
			m.refuse(r, &want, errKeeps)
		}
	}
	if have = guid.Trim(have); !slices.Equal(have, v.guids) {
		v.guids = have
		m.Show(r)
		m.touchKeys(r)
	}
	if set {
		m.needs.Placements.Changed(r)
		return
	}
	// A further block is read where the one before it is in use: tables are
	// filled from the start.
	if v.blocks = uint8(block) + 1; !inUse || int(v.blocks)*smp.GUIDBlockLen >= most {
		m.knows(r, knowGUIDs, nil)
	}
}
