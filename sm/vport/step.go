package vport

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/guid"
	"heddle/sm/notice"
	"heddle/sm/work"
)

// The state machines of an adapter and of a VPort: what is asked next. Upkeep takes one step when it
// looks at one of them, and the answer has it looked at again.
//
// A VPort becomes Active when it holds what it is to hold (Placements.Wanted), its GUID and P_Key tables
// are right, and nothing else has its GUID. One Set takes it from Init to Active. If that is refused,
// Armed comes between.

// Upkeep asks up to most adapters and virtual ports for the next thing.
func (m *Manager) Upkeep(most int) {
	m.wake()
	list := m.todo
	m.todo = nil // which may grow meanwhile
	kept, n := list[:0], 0
	for i, a := range list {
		if n >= m.Config.MaxVirtualPorts || m.Pending >= most {
			kept = append(kept, list[i:]...)
			break
		}
		if m.treat(a, most) {
			kept = append(kept, a)
			n++
			continue
		}
		a.queued = false
	}
	m.todo = append(kept, m.todo...)
	if len(m.todo) == 0 {
		m.todo = nil
	}
}

// ready reports whether an adapter can be asked: its port is in the subnet and up. If not, the sweep
// that changes that has it looked at again.
func (m *Manager) ready(a *Adapter) bool {
	if a.at.Node < 0 {
		return false
	}
	n, p := &m.Fabric.Nodes[a.at.Node], m.Fabric.Port(a.at)
	return n.OK() && n.Path.Set && p.GUID == a.port && p.LID != 0 && p.Info.PortState >= ib.StateArmed
}

func (m *Manager) askAdapter(o work.Op, a *Adapter, extra uint32) {
	a.asked++
	m.Add(work.Make(o, a.at.Node, a.at.Port, extra))
}

// treat asks for the next things about an adapter. It reports whether there is more, or may be.
func (m *Manager) treat(a *Adapter, most int) bool {
	if !m.ready(a) || a.retryAt > m.Now {
		return false
	}
	switch a.step {
	case adapterInfo:
		if a.asked == 0 {
			m.askAdapter(work.OpGetVirt, a, 0)
		}
	case adapterEnable:
		m.askAdapter(work.OpSetVirt, a, 0)
	case adapterStates:
		for b := uint32(0); b <= uint32(a.info.VPortIndexTop)/smp.VPortsPerBlock; b++ {
			m.askAdapter(work.OpGetVStates, a, b)
		}
	case adapterKnown:
		for len(a.look) > 0 && m.Pending < most {
			i := a.look[0]
			a.look = a.look[1:]
			a.vports[i].queued = false
			m.step(Ref{a, i})
		}
		if len(a.look) == 0 {
			a.look = nil
			return a.asked > 0 || m.reregister(a)
		}
	default:
		for _, i := range a.look {
			a.vports[i].queued = false
		}
		a.look = nil
		return false
	}
	return true
}

// reregister ends the first treatment of an adapter. Clients of VPorts that an earlier manager brought
// up are asked to register again, but not before the SA can know these VPorts. Until a snapshot shows
// them the adapter waits. It reports whether there is more to do now.
func (m *Manager) reregister(a *Adapter) bool {
	if !a.first {
		return false
	}
	if a.running && !m.Config.NoReregister {
		if m.Unshown() {
			m.flush = true
			m.unseen = append(m.unseen, a)
			return false
		}
		m.askAdapter(work.OpSetVirt, a, reregisterClients)
	}
	a.first, a.running = false, false
	m.needs.Discovery.AdapterMet()
	return a.asked > 0
}

// reregisterClients is the extra of work.OpSetVirt that asks for VClientReregister.
const reregisterClients = 1

func (m *Manager) ask(o work.Op, r Ref, block int) {
	r.VPort().asked++
	m.askAdapter(o, r.Adapter, uint32(block)<<16|uint32(r.Index))
}

// step asks a VPort for the next thing.
func (m *Manager) step(r Ref) {
	v := r.VPort()
	if v.asked > 0 || v.retryAt > m.Now {
		return // it is looked at again
	}
	if v.state <= ib.StateDown {
		m.downStep(r)
		return
	}
	if m.read(r) {
		return
	}
	want := m.needs.Placements.Wanted(r)
	if v.anew {
		m.takeDown(r, &want)
		return
	}
	if m.writeGUIDs(r, &want) {
		return
	}
	keys := false
	hold := m.held(r, &want)
	if v.asked > 0 {
		return
	}
	if !hold && want.Up || v.state >= ib.StateArmed {
		keys = m.needs.PKeys.Ready(r)
	}
	m.set(r, &want, hold, keys)
}

// downStep is step for a VPort that is down. Functions of a vSwitch have addresses while they are
// down. Others matter only to VPorts that share their LID.
func (m *Manager) downStep(r Ref) {
	v := r.VPort()
	if r.Index > r.Adapter.info.VPortIndexTop {
		return
	}
	want := m.needs.Placements.Wanted(r)
	if v.unsure || r.Adapter.wasOn && !v.seen { // it may have what an earlier manager gave it
		m.ask(work.OpGetVPort, r, 0)
		return
	}
	if !r.Adapter.kind.assigned {
		stale := v.info.LIDRequired && v.info.VPortLID != 0 && want.LID == 0 // it is at another place now, or nowhere
		switch {
		case (v.needed || stale) && v.known&knowInfo == 0:
			m.ask(work.OpGetVPort, r, 0)
		case stale:
			m.set(r, &want, false, false)
		}
		return
	}
	if v.known&knowInfo == 0 {
		if want.LID != 0 || want.GUID != 0 || v.needed {
			m.ask(work.OpGetVPort, r, 0)
		}
		return
	}
	m.set(r, &want, false, false)
}

// read asks for what is not known of a VPort. It reports whether there is
// something.
func (m *Manager) read(r Ref) bool {
	v := r.VPort()
	miss := knowAll &^ v.known
	if miss&knowInfo != 0 {
		m.ask(work.OpGetVPort, r, 0) // first, for one that is not there has nothing else either
		return true
	}
	if miss&knowNode != 0 {
		m.ask(work.OpGetVNode, r, 0)
	}
	if miss&knowDesc != 0 {
		m.ask(work.OpGetVDesc, r, 0)
	}
	if miss&knowGUIDs != 0 {
		m.ask(work.OpGetVGUIDs, r, int(v.blocks))
	}
	return v.asked > 0
}

// guidWanted is what entry i of the GUID table of a VPort is to hold. If the VPort was up when this
// manager met it, entries that nobody names stay, because they are in use.
func guidWanted(v *Port, want *Want, i int) ib.GUID {
	switch {
	case i > 0 && i <= len(want.Aliases):
		return want.Aliases[i-1]
	case v.found:
		return guid.At(v.guids, i)
	}
	return 0
}

// writeGUIDs has a block of the GUID table of a VPort written that is not as it
// should be. It reports whether there is one.
func (m *Manager) writeGUIDs(r Ref, want *Want) bool {
	v := r.VPort()
	if v.noGUIDs {
		return false
	}
	most := int(v.info.GUIDCap)
	if len(want.Aliases) >= max(most, 1) {
		m.refuse(r, want, fmt.Errorf("its GUID table has %d entries, %d are to be in it", most, len(want.Aliases)+1))
		return true
	}
	for i := 1; i < most; i++ {
		if guidWanted(v, want, i) != guid.At(v.guids, i) {
			m.ask(work.OpSetVGUIDs, r, i/smp.GUIDBlockLen)
			return true
		}
	}
	return false
}

// takeDown takes a VPort down that must not be up. If its host wants it up it comes back to Init, and
// is treated like a new one.
func (m *Manager) takeDown(r Ref, want *Want) {
	v := r.VPort()
	if v.refused != nil && v.refused.same(want) {
		return
	}
	s := v.info
	s.ClearForSet()
	s.VPortState = ib.StateDown
	if r.Adapter.kind.assigned {
		s.VPortLID, s.PortGUID = 0, 0
	}
	v.sending = &s
	m.ask(work.OpSetVPort, r, 0)
}

// held reports whether a VPort must not come up, whatever is wanted: something else has its GUID, or
// the VPort whose LID it uses has none yet. It is looked at again when that changes. A VPort that is up
// and has the GUID of another is taken down.
func (m *Manager) held(r Ref, want *Want) bool {
	v := r.VPort()
	g := v.info.PortGUID
	switch {
	case want.GUID != 0:
		g = want.GUID
	case r.Adapter.kind.assigned && !want.Up:
		return false // what it shows is to be taken from it
	}
	who := ""
	if h, ok := m.byGUID[g]; ok && h != r {
		// One that may not come up itself has nothing to keep.
		if hv := h.VPort(); hv.state >= ib.StateArmed || m.needs.Placements.Wanted(h).Up {
			who = "VPort " + strconv.Itoa(int(h.Index)) + " of port " + h.Adapter.port.String()
			m.rival(r, g)
		} else {
			m.claim(r)
		}
	} else if m.EndPort(g) != nil {
		who = "the port of the subnet with this GUID"
	} else if port := m.needs.Aliases.Holder(g); port != 0 {
		who = "port " + port.String() + " (as an alias)"
	}
	switch {
	case g == 0:
		m.trouble(notice.KindVPortRefused, r, "it has no port GUID and is not brought up", nil)
	case who != "":
		m.trouble(notice.KindVPortDuplicate, r, who+" has this GUID; this VPort stays down until that one gives it up", nil)
	default:
		lid, wait := m.lidOf(r)
		if !wait || v.info.LIDRequired {
			return false
		}
		if o := r.Adapter.ensure(v.info.LIDByVPortIndex); lid == 0 && !o.needed {
			o.needed = true
			m.Look(Ref{r.Adapter, o.index})
		}
		return true
	}
	if v.state >= ib.StateArmed {
		m.takeDown(r, want)
		return true
	}
	v.lookAt = m.Now.Add(m.Config.RetryInterval)
	m.wait(r, v.lookAt)
	return true
}

// maxAge is how old what is known of a VPort may be for it to be made Active.
const maxAge = 5 * time.Millisecond

// set has VPortInfo set if it is not as it should be. A host may give a VPort to another VM at any
// moment. A Set that arrives then makes it Active with the P_Keys of the VM before. The answer shows
// that, and the VPort is taken down again. To keep this time short, VPortInfo is read just before. If
// the Set is not answered it is not repeated: VPortInfo is read again.
func (m *Manager) set(r Ref, want *Want, hold, keys bool) {
	v := r.VPort()
	if v.refused != nil {
		if v.refused.same(want) {
			return
		}
		v.refused, v.refusals = nil, 0
	}
	s, wrong := addressed(r, want)
	switch {
	case hold && (want.Up || !wrong):
		return
	case v.state == ib.StateDown:
		if !wrong {
			return
		}
	case !want.Up:
		// One that is up with the right address stays up: a new manager has not
		// routed its LID yet, and it may well work.
		if !wrong && (!want.Away || v.state < ib.StateArmed) {
			return
		}
		if v.state >= ib.StateArmed {
			s.VPortState = ib.StateDown
		}
	case v.state < ib.StateActive:
		if !keys {
			return // who completes them has it looked at again
		}
		if r.Adapter.kind.hosted && m.Now.Sub(v.readAt) > maxAge {
			v.confirm = confirmInfo
			m.ask(work.OpGetVPort, r, 0)
			return
		}
		s.VPortState = ib.StateActive
		if v.state == ib.StateInit && v.refusals > 0 {
			s.VPortState = ib.StateArmed
		}
	case !wrong:
		return
	}
	s.ClientReregister = want.Up && (!v.told || wrong) && s.VPortState != ib.StateArmed &&
		v.state > ib.StateDown && !m.Config.NoReregister
	v.sending = &s
	m.ask(work.OpSetVPort, r, 0)
}

// addressed is the VPortInfo that gives a VPort the wanted address. It reports whether the VPort has
// another.
func addressed(r Ref, want *Want) (s smp.VPortInfo, wrong bool) {
	v := r.VPort()
	s = v.info
	s.ClearForSet()
	if v.info.LIDRequired {
		s.VPortLID = want.LID
		wrong = v.info.VPortLID != want.LID
	}
	if !r.Adapter.kind.assigned {
		return s, wrong
	}
	s.PortGUID = want.GUID
	switch {
	case want.GUID != 0:
		wrong = wrong || v.info.PortGUID != want.GUID
	case v.own == 0 || v.own != v.info.PortGUID:
		// It is not known whether the VPort has its own GUID. The GUID does no harm while
		// the VPort is down and has no LID.
		wrong = wrong || v.state > ib.StateDown || v.info.VPortLID != 0
	}
	return s, wrong
}

// refuse: a VPort does not take what it is to hold.
func (m *Manager) refuse(r Ref, want *Want, err error) {
	v := r.VPort()
	if v.refused != nil && v.refused.same(want) {
		return
	}
	w := *want
	v.refused = &w
	const text = "it does not accept its address, and stays as it is until the address changes or it comes up again"
	m.trouble(notice.KindVPortRefused, r, text, err)
	m.needs.Placements.Refused(r, err)
}

var errKeeps = errors.New("the device keeps what it had")
