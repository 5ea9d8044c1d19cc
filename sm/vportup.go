package sm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm/guid"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// The state machine of an adapter and of a VPort: what is asked of it next. One
// step is taken when it is looked at; the answer has it looked at again.
//
// A VPort is made Active when what it is to hold is known (functionWanted), its GUID
// and P_Key tables are so, and nobody else has its GUID. Init to Active is one Set;
// where that is refused Armed goes before.

// upkeepVirtuals asks up to most adapters and virtual ports for the next thing.
func (c *Core) upkeepVirtuals(most int) {
	k := &c.virt
	c.wakeVirtuals()
	list := k.todo
	k.todo = nil // which may grow meanwhile
	kept, n := list[:0], 0
	for i, a := range list {
		if n >= c.Config.MaxVirtualPorts || c.Pending >= most {
			kept = append(kept, list[i:]...)
			break
		}
		if c.adapterWork(a, most) {
			kept = append(kept, a)
			n++
			continue
		}
		a.queued = false
	}
	k.todo = append(kept, k.todo...)
	if len(k.todo) == 0 {
		k.todo = nil
	}
}

// adapterReady reports whether an adapter can be asked: its port is in the subnet
// and up. One that is not is looked at again by the sweep that changes that.
func (c *Core) adapterReady(a *adapter) bool {
	if a.at.Node < 0 {
		return false
	}
	n, p := &c.Fabric.Nodes[a.at.Node], c.Fabric.Port(a.at)
	return n.OK() && n.Path.Set && p.GUID == a.port && p.LID != 0 && p.Info.PortState >= ib.StateArmed
}

func (c *Core) askAdapter(o work.Op, a *adapter, extra uint32) {
	a.asked++
	c.Add(work.Make(o, a.at.Node, a.at.Port, extra))
}

// adapterWork asks an adapter for the next things. It reports whether there is, or
// may be, more.
func (c *Core) adapterWork(a *adapter, most int) bool {
	if !c.adapterReady(a) || a.retryAt > c.Now {
		return false
	}
	switch a.step {
	case adapterInfo:
		if a.asked == 0 {
			c.askAdapter(work.OpGetVirt, a, 0)
		}
	case adapterEnable:
		c.askAdapter(work.OpSetVirt, a, 0)
	case adapterStates:
		for b := uint32(0); b <= uint32(a.info.VPortIndexTop)/smp.VPortsPerBlock; b++ {
			c.askAdapter(work.OpGetVStates, a, b)
		}
	case adapterKnown:
		for len(a.look) > 0 && c.Pending < most {
			i := a.look[0]
			a.look = a.look[1:]
			a.vports[i].queued = false
			c.vportStep(vportRef{a, i})
		}
		if len(a.look) == 0 {
			a.look = nil
			return a.asked > 0 || c.reregisterVPorts(a)
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

// reregisterVPorts ends the first treatment of an adapter: clients of VPorts that
// an earlier manager brought up are asked to register again, once the SA can know
// them: the adapter is queued again when the next snapshot shows them. It reports
// whether there is more to do now.
func (c *Core) reregisterVPorts(a *adapter) bool {
	if !a.first {
		return false
	}
	if a.running && !c.Config.NoReregister {
		if c.virt.unshown() {
			c.virt.flush = true
			c.virt.unseen = append(c.virt.unseen, a)
			return false
		}
		c.askAdapter(work.OpSetVirt, a, virtReregister)
	}
	a.first, a.running = false, false
	c.veilMoved()
	return a.asked > 0
}

// virtReregister is extra of opSetVirt: VClientReregister.
const virtReregister = 1

func (c *Core) askVPort(o work.Op, r vportRef, block int) {
	r.vport().asked++
	c.askAdapter(o, r.a, uint32(block)<<16|uint32(r.index))
}

// vportStep asks a VPort for the next thing.
func (c *Core) vportStep(r vportRef) {
	v := r.vport()
	if v.asked > 0 || v.retryAt > c.Now {
		return // it is looked at again
	}
	if v.state <= ib.StateDown {
		c.downStep(r)
		return
	}
	if c.readVPort(r) {
		return
	}
	want := c.functionWanted(r)
	if v.anew {
		c.downVPort(r, &want)
		return
	}
	if c.setVGUIDs(r, &want) {
		return
	}
	keys := false
	hold := c.vportHeld(r, &want)
	if v.asked > 0 {
		return
	}
	if !hold && want.up || v.state >= ib.StateArmed {
		keys = c.vportKeysDone(r)
	}
	c.setVPort(r, &want, hold, keys)
}

// downStep is for a VPort that is down. Functions of a vSwitch have their
// addresses while they are down; of others it is of interest only for those that
// share their LID.
func (c *Core) downStep(r vportRef) {
	v := r.vport()
	if r.index > r.a.info.VPortIndexTop {
		return
	}
	want := c.functionWanted(r)
	if v.unsure || r.a.wasOn && !v.seen { // it may have what an earlier manager gave it
		c.askVPort(work.OpGetVPort, r, 0)
		return
	}
	if r.a.model != subnet.VSwitch {
		stale := v.info.LIDRequired && v.info.VPortLID != 0 && want.lid == 0 // it is at another place now, or nowhere
		switch {
		case (v.needed || stale) && v.known&knowInfo == 0:
			c.askVPort(work.OpGetVPort, r, 0)
		case stale:
			c.setVPort(r, &want, false, false)
		}
		return
	}
	if v.known&knowInfo == 0 {
		if want.lid != 0 || want.guid != 0 || v.needed {
			c.askVPort(work.OpGetVPort, r, 0)
		}
		return
	}
	c.setVPort(r, &want, false, false)
}

// readVPort asks for what is not known of a VPort. It reports whether there is
// something.
func (c *Core) readVPort(r vportRef) bool {
	v := r.vport()
	miss := knowAll &^ v.known
	if miss&knowInfo != 0 {
		c.askVPort(work.OpGetVPort, r, 0) // first, for one that is not there has nothing else either
		return true
	}
	if miss&knowNode != 0 {
		c.askVPort(work.OpGetVNode, r, 0)
	}
	if miss&knowDesc != 0 {
		c.askVPort(work.OpGetVDesc, r, 0)
	}
	if miss&knowGUIDs != 0 {
		c.askVPort(work.OpGetVGUIDs, r, int(v.blocks))
	}
	return v.asked > 0
}

// vGUIDWanted is what entry i of the GUID table of a VPort is to hold. Of one that
// was up when this manager met it entries that nobody names stay: they are in use.
func vGUIDWanted(v *vport, want *functionWant, i int) ib.GUID {
	switch {
	case i > 0 && i <= len(want.aliases):
		return want.aliases[i-1]
	case v.found:
		return guid.At(v.guids, i)
	}
	return 0
}

// setVGUIDs has a block of the GUID table of a VPort written that is not as it
// should be. It reports whether there is one.
func (c *Core) setVGUIDs(r vportRef, want *functionWant) bool {
	v := r.vport()
	if v.noGUIDs {
		return false
	}
	most := int(v.info.GUIDCap)
	if len(want.aliases) >= max(most, 1) {
		c.refuseFunction(r, want, fmt.Errorf("its GUID table has %d entries, %d are to be in it", most, len(want.aliases)+1))
		return true
	}
	for i := 1; i < most; i++ {
		if vGUIDWanted(v, want, i) != guid.At(v.guids, i) {
			c.askVPort(work.OpSetVGUIDs, r, i/smp.GUIDBlockLen)
			return true
		}
	}
	return false
}

// downVPort takes a VPort down that must not be up, and was not made so on purpose.
// It comes back to Init if its host wants it up, and is met as if it were new.
func (c *Core) downVPort(r vportRef, want *functionWant) {
	v := r.vport()
	if v.refused != nil && v.refused.same(want) {
		return
	}
	s := v.info
	s.ClearForSet()
	s.VPortState = ib.StateDown
	if r.a.model == subnet.VSwitch {
		s.VPortLID, s.PortGUID = 0, 0
	}
	v.sending = &s
	c.askVPort(work.OpSetVPort, r, 0)
}

// vportHeld reports whether a VPort must not come up, whatever is wanted: somebody
// else has its GUID, or the VPort whose LID it uses has none yet. It is looked at
// again when that changes. One that is up and has the GUID of another is taken down.
func (c *Core) vportHeld(r vportRef, want *functionWant) bool {
	v := r.vport()
	g := v.info.PortGUID
	switch {
	case want.guid != 0:
		g = want.guid
	case r.a.model == subnet.VSwitch && !want.up:
		return false // what it shows is to be taken from it
	}
	who := ""
	if h, ok := c.virt.byGUID[g]; ok && h != r {
		// One that may not come up itself has nothing to keep.
		if hv := h.vport(); hv.state >= ib.StateArmed || c.functionWanted(h).up {
			who = "VPort " + strconv.Itoa(int(h.index)) + " of port " + h.a.port.String()
			c.rival(r, g)
		} else {
			c.claimGUID(r)
		}
	} else if c.EndPort(g) != nil {
		who = "the port of the subnet with this GUID"
	} else if port := c.guids.Holder(g); port != 0 {
		who = "port " + port.String() + ", whose alias it is,"
	}
	switch {
	case g == 0:
		c.vportTrouble(notice.KindVPortRefused, r, "it has no port GUID and is not brought up", nil)
	case who != "":
		c.vportTrouble(notice.KindVPortDuplicate, r, who+" has it; this one is not brought up as long", nil)
	default:
		lid, wait := c.lidOfVPort(r)
		if !wait || v.info.LIDRequired {
			return false
		}
		if o := r.a.ensure(v.info.LIDByVPortIndex); lid == 0 && !o.needed {
			o.needed = true
			c.lookVPort(vportRef{r.a, o.index})
		}
		return true
	}
	if v.state >= ib.StateArmed {
		c.downVPort(r, want)
		return true
	}
	v.lookAt = c.Now.Add(c.Config.RetryInterval)
	c.wait(r, v.lookAt)
	return true
}

// vportFresh is how old what is known of a VPort may be for it to be made Active.
const vportFresh = 5 * time.Millisecond

// setVPort has VPortInfo set if it is not as it should be. A host may give a VPort to
// somebody else at any moment, and a Set that then comes makes it Active with the
// P_Keys of the one before; the answer tells, and it is taken down again. To keep the
// time short in which that can happen, VPortInfo is read just before, and the Set is
// not repeated if no answer comes, but VPortInfo read again.
func (c *Core) setVPort(r vportRef, want *functionWant, hold, keys bool) {
	v := r.vport()
	if v.refused != nil {
		if v.refused.same(want) {
			return
		}
		v.refused, v.refusals = nil, 0
	}
	s := v.info
	s.ClearForSet()
	wrong := false
	if v.info.LIDRequired {
		s.VPortLID = want.lid
		wrong = v.info.VPortLID != want.lid
	}
	if r.a.model == subnet.VSwitch {
		s.PortGUID = want.guid
		switch {
		case want.guid != 0:
			wrong = wrong || v.info.PortGUID != want.guid
		case v.own == 0 || v.own != v.info.PortGUID:
			// Whether it has its own GUID is not known. Nobody meets it while it is
			// down and has no LID.
			wrong = wrong || v.state > ib.StateDown || v.info.VPortLID != 0
		}
	}
	switch {
	case hold && (want.up || !wrong):
		return
	case v.state == ib.StateDown:
		if !wrong {
			return
		}
	case !want.up:
		// One that is up with the right address stays up: a new manager has not
		// routed its LID yet, and it may well work.
		if !wrong {
			return
		}
		if v.state >= ib.StateArmed {
			s.VPortState = ib.StateDown
		}
	case v.state < ib.StateActive:
		if !keys {
			return // who completes them has it looked at again
		}
		if r.a.model == subnet.VPorts && c.Now.Sub(v.readAt) > vportFresh {
			v.confirm = confirmInfo
			c.askVPort(work.OpGetVPort, r, 0)
			return
		}
		s.VPortState = ib.StateActive
		if v.state == ib.StateInit && v.refusals > 0 {
			s.VPortState = ib.StateArmed
		}
	case !wrong:
		return
	}
	s.ClientReregister = want.up && (!v.told || wrong) && s.VPortState != ib.StateArmed && v.state > ib.StateDown && !c.Config.NoReregister
	v.sending = &s
	c.askVPort(work.OpSetVPort, r, 0)
}

// same reports whether two wants are equal.
func (w *functionWant) same(o *functionWant) bool {
	return w.lid == o.lid && w.guid == o.guid && w.up == o.up && slices.Equal(w.aliases, o.aliases)
}

// refuseFunction: a VPort does not take what is wanted.
func (c *Core) refuseFunction(r vportRef, want *functionWant, err error) {
	v := r.vport()
	if v.refused != nil && v.refused.same(want) {
		return
	}
	w := *want
	v.refused = &w
	c.vportTrouble(notice.KindVPortRefused, r, "it does not take what it is to hold, and stays as it is until that changes or it comes up anew", err)
	c.functionRefused(r, err)
}

var errKeeps = errors.New("the device keeps what it had")
