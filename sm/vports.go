package sm

import (
	"cmp"
	"slices"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/config"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/subnet"
)

// Which adapters there are, and what of them is to be looked at. What is then
// asked is in vportup.go, what comes of the answers in vportsmp.go.
//
// An adapter is treated as if nothing were known of it when its port is new or was
// found in Init, and by a new master; else only VPorts whose state differs are read
// again. VPortStateChange is cleared before the states are read, so that a change
// meanwhile sets it again.

// takeVirtuals joins the ports of a new discovery with the adapters that are
// known.
func (c *Core) takeVirtuals() {
	if c.Config.PlanOnly {
		return
	}
	k, f := &c.virt, c.Fabric
	known := len(k.list)
	c.Scope(func(p *topo.Port) {
		n := &f.Nodes[p.Node]
		if n.Info.NodeType != ib.NodeCA || p.Num == 0 {
			return
		}
		a := k.byPort[p.GUID]
		vports := c.Config.Virtualization != config.VirtualIgnore && p.Info.IsVirtualizationSupported()
		switch {
		case p.LID == 0 || !n.OK() || !vports && p.Info.GUIDCap <= 1:
			if a != nil && (p.LID != 0 || c.EndPort(p.GUID) == nil) {
				c.dropAdapter(a)
			}
			return
		case a == nil:
			a = &adapter{port: p.GUID, at: subnet.NoRef()}
			k.byPort[p.GUID] = a
			k.list = append(k.list, a)
		}
		back := a.at.Node < 0
		a.at = ref{Node: p.Node, Port: p.Num}
		if !vports {
			if a.model != subnet.SharedPort {
				c.downAll(a)
			}
			a.model, a.step, a.functions = subnet.SharedPort, adapterKnown, int(p.Info.GUIDCap)-1
			c.showAdapter(a)
			if back {
				c.adapterChanged(a) // leases wait for it, and what floats there needs more than a GUID
			}
			return
		}
		if back || a.model == subnet.SharedPort || n.Flags&topo.NodeNew != 0 || p.Info.PortState <= ib.StateInit || p.Info.LID != p.LID {
			c.freshAdapter(a)
		}
		if a.step < adapterKnown || len(a.look) > 0 || c.Config.SweepInterval <= 0 && !c.reg.on {
			c.lookAdapter(a)
		}
		if len(a.vports) > 0 {
			k.relist = true // entries of VPorts have a copy of the port's
		}
	})
	if !c.reg.on {
		for _, a := range k.list {
			if a.at.Node >= 0 && c.EndPort(a.port) == nil {
				c.dropAdapter(a)
			}
		}
	}
	if len(k.list) > known {
		slices.SortFunc(k.list, func(a, b *adapter) int { return cmp.Compare(a.port, b.port) })
	}
}

// forgetVirtuals is for a new mastership: nothing is known of any adapter.
func (c *Core) forgetVirtuals() {
	old := c.virt
	c.virt = newVirtuals()
	c.virt.byPort, c.virt.list = old.byPort, old.list
	for _, a := range old.list {
		*a = adapter{port: a.port, at: subnet.NoRef(), vports: a.vports}
		for _, v := range a.vports {
			if v != nil {
				*v = vport{index: v.index, state: ib.StateDown}
			}
		}
	}
}

// dropAskedVirtuals forgets what is known of VPorts whose answers will not be
// seen.
func (c *Core) dropAskedVirtuals() {
	for _, a := range c.virt.list {
		if a.asked == 0 {
			continue
		}
		a.asked = 0
		for _, v := range a.vports {
			if v != nil && v.asked > 0 {
				v.asked, v.blocks, v.sending, v.unsure, v.confirm = 0, 0, nil, true, confirmNothing
				v.known &^= knowInfo | knowGUIDs
				c.lookVPort(vportRef{a, v.index})
			}
		}
		if a.step != adapterRefused {
			c.lookAdapter(a)
		}
	}
}

// freshAdapter: nothing is known of an adapter, and nothing that was found is to
// be relied on. VPorts keep the state that they were last seen in until they are
// read.
func (c *Core) freshAdapter(a *adapter) {
	a.step, a.first, a.met, a.wasOn, a.running, a.tries, a.retryAt = adapterInfo, true, false, false, false, 0, 0
	if a.model == subnet.SharedPort {
		a.model, a.functions = subnet.NoFunctions, 0
		c.showAdapter(a)
	}
	for _, v := range a.vports {
		if v != nil {
			v.forget()
			v.seen = false
		}
	}
}

// dropAdapter: its port has left the subnet, and its VPorts with it.
func (c *Core) dropAdapter(a *adapter) {
	if a.at.Node < 0 {
		return
	}
	for _, v := range a.vports {
		if v != nil && v.state > ib.StateDown && v.known&knowInfo != 0 {
			for _, g := range append([]ib.GUID{v.info.PortGUID}, v.aliases()...) {
				if g != 0 && !slices.Contains(a.held, g) {
					a.held = append(a.held, g)
				}
			}
		}
	}
	c.downAll(a)
	a.at, a.look, a.shows, a.functions = subnet.NoRef(), a.look[:0], nil, 0
	for _, v := range a.vports {
		if v != nil {
			v.queued, v.entered = false, false
		}
	}
	c.virt.relist = true
	c.functionChanged(vportRef{a, 0})
}

// downAll: all VPorts of an adapter are down.
func (c *Core) downAll(a *adapter) {
	for _, v := range a.vports {
		if v != nil {
			c.vportIs(vportRef{a, v.index}, ib.StateDown)
			v.forget()
		}
	}
}

// virtualsDue reports whether upkeep has something to do about virtual ports.
func (c *Core) virtualsDue() bool {
	k := &c.virt
	return len(k.todo) > 0 || k.retry <= c.Now
}

// lookVPort has a VPort looked at: what it is to hold may have changed. Index 0 is
// the adapter as a whole.
func (c *Core) lookVPort(r vportRef) {
	if r.index == 0 {
		c.lookAdapter(r.a)
		return
	}
	if r.a.at.Node < 0 {
		return
	}
	if v := r.a.ensure(r.index); !v.queued {
		v.queued = true
		r.a.look = append(r.a.look, r.index)
	}
	c.queueAdapter(r.a)
}

// lookAdapter has the states of all VPorts of an adapter read again.
func (c *Core) lookAdapter(a *adapter) {
	if a.at.Node < 0 || a.model == subnet.SharedPort {
		return
	}
	a.step = adapterInfo // what is under way may be of before
	a.clears = 0
	c.queueAdapter(a)
}

func (c *Core) queueAdapter(a *adapter) {
	if !a.queued {
		a.queued = true
		c.virt.todo = append(c.virt.todo, a)
	}
}

// wait has r looked at again at a time; what waits for it is in the adapter or
// VPort.
func (c *Core) wait(r vportRef, at mad.Time) {
	waiting := &r.a.waiting
	if r.index != 0 {
		waiting = &r.a.vports[r.index].waiting
	}
	if !*waiting {
		*waiting = true
		c.virt.later = append(c.virt.later, r)
	}
	c.virt.retry = min(c.virt.retry, at)
}

// wakeVirtuals queues what waited until now.
func (c *Core) wakeVirtuals() {
	k := &c.virt
	if k.retry > c.Now {
		return
	}
	k.retry = mad.Never
	list := k.later
	k.later = nil
	due := func(t *mad.Time) bool {
		if *t == 0 || *t > c.Now {
			return false
		}
		*t = 0
		return true
	}
	again := func(r vportRef, times ...mad.Time) {
		for _, t := range times {
			if t != 0 {
				c.wait(r, t)
			}
		}
	}
	for _, r := range list {
		if r.index == 0 {
			r.a.waiting = false
			if due(&r.a.retryAt) {
				c.queueAdapter(r.a)
			}
			again(r, r.a.retryAt)
			continue
		}
		v := r.vport()
		v.waiting = false
		if due(&v.checkAt) {
			v.unsure = true
			v.known &^= knowInfo | knowGUIDs
			v.blocks = 0
			c.lookVPort(r)
		}
		if retry, look := due(&v.retryAt), due(&v.lookAt); retry || look {
			c.lookVPort(r)
		}
		again(r, v.checkAt, v.retryAt, v.lookAt)
	}
}

// forget: what was read of a VPort may not be so any more.
func (v *vport) forget() {
	v.known, v.blocks, v.noGUIDs = 0, 0, false
	v.refused, v.refusals, v.tries, v.retryAt = nil, 0, 0, 0
	v.confirm = confirmNothing
	if v.pk != nil {
		v.pk.Forget()
	}
}

// vportIs notes the state of a VPort of which nothing else was read.
func (c *Core) vportIs(r vportRef, st ib.PortState) { c.vportBecomes(r, st, &r.vport().info) }

// vportBecomes notes the state of a VPort, which has shown info with it.
func (c *Core) vportBecomes(r vportRef, st ib.PortState, info *smp.VPortInfo) {
	if st < ib.StateDown || st > ib.StateActive {
		st = ib.StateDown // of one that does not exist, or nonsense
	}
	v := r.vport()
	old := v.state
	if old == st {
		return
	}
	v.state, v.info.VPortState = st, st
	c.virt.up[old]--
	c.virt.up[st]++
	if st < ib.StateArmed || old == ib.StateDown {
		v.met, v.anew = 0, false
	}
	switch {
	case st == ib.StateDown:
		c.releaseGUID(r, v.info.PortGUID)
		keep := v.known & knowInfo
		v.forget()
		if r.a.model == subnet.VSwitch {
			v.known = keep // its LID and GUID stay until they are taken away
		}
		v.guids, v.found, v.told = nil, false, false
	case st == ib.StateInit: // anew, maybe with somebody else in it
		v.forget()
		v.found = false
	case old == ib.StateDown:
		v.forget()
		v.found = true
	}
	if old >= ib.StateArmed || st >= ib.StateArmed {
		c.showVPort(r)
	}
	switch {
	case st == ib.StateActive:
		c.vportNotice(notice.KindVPortUp, r, info, "is Active", nil) // as what it is up
	case old == ib.StateActive:
		c.vportNotice(notice.KindVPortDown, r, &v.info, "went down", nil) // as what it was
	}
	c.functionChanged(r)
	c.vportChanged(r)
	c.lookVPort(r)
}

// vportByGUID finds the VPort that is known by a port GUID; if several show it,
// the one that has it.
func (c *Core) vportByGUID(g ib.GUID) (vportRef, bool) {
	r, ok := c.virt.byGUID[g]
	return r, ok
}

// claimGUID: r is known and not Down, and shows a GUID. The first that was Active
// keeps it; among others, one that may not come up gives way.
func (c *Core) claimGUID(r vportRef) {
	k := &c.virt
	v := r.vport()
	g := v.info.PortGUID
	h, ok := k.byGUID[g]
	switch {
	case g == 0 || ok && h == r:
		return
	case !ok:
	case h.vport().state < ib.StateArmed && (v.state >= ib.StateArmed || !c.functionWanted(h).up && c.functionWanted(r).up):
		c.rival(h, g)
	default:
		c.rival(r, g)
		return
	}
	k.byGUID[g] = r
	c.memberMoved(g)
	c.showVPort(r)
}

func (c *Core) rival(r vportRef, g ib.GUID) {
	if l := c.virt.rivals[g]; !slices.Contains(l, r) {
		c.virt.rivals[g] = append(l, r)
	}
	c.showVPort(r)
}

// releaseGUID: r does not show a GUID any more.
func (c *Core) releaseGUID(r vportRef, g ib.GUID) {
	k := &c.virt
	l := slices.DeleteFunc(k.rivals[g], func(o vportRef) bool { return o == r })
	if len(l) == 0 {
		delete(k.rivals, g)
	} else {
		k.rivals[g] = l
	}
	if k.byGUID[g] != r {
		return
	}
	delete(k.byGUID, g)
	delete(k.rivals, g)
	c.memberMoved(g)
	for _, o := range l {
		if ov := o.vport(); ov.state > ib.StateDown && ov.known&knowInfo != 0 && ov.info.PortGUID == g {
			c.claimGUID(o)
			c.functionChanged(o)
			c.lookVPort(o)
		}
	}
}

// lidOfVPort is the LID that leads to a VPort: its own, that of the VPort whose LID
// it uses, or the port's; 0 if it has none yet. wait: that of the other VPort is
// not known, or will be another.
func (c *Core) lidOfVPort(r vportRef) (lid ib.LID, wait bool) {
	a, v := r.a, r.vport()
	if v.info.LIDRequired {
		return v.info.VPortLID, false
	}
	port := c.Fabric.Port(a.at).LID
	i := v.info.LIDByVPortIndex
	if i == 0 || i == r.index || i > a.info.VPortIndexTop {
		return port, false
	}
	o := a.ensure(i)
	if o.known&knowInfo == 0 {
		return 0, true
	}
	if !o.info.LIDRequired {
		return port, false
	}
	return o.info.VPortLID, o.info.VPortLID == 0 || o.info.VPortLID != c.functionWanted(vportRef{a, i}).lid
}

// vportInfoRead takes a VPortInfo that a VPort showed.
func (c *Core) vportInfoRead(r vportRef, info *smp.VPortInfo) {
	v := r.vport()
	v.readAt = c.Now
	c.vportBecomes(r, info.VPortState, info)
	if r.a.model == subnet.VPorts && v.state > ib.StateDown {
		switch {
		case v.met == 0 || v.state < ib.StateArmed:
			v.met = info.PortGUID
		case v.met != info.PortGUID:
			// Its host gave it to somebody else while a Set was on its way that was
			// meant for the one before, and so were its P_Keys.
			v.anew = true
		}
	}
	if v.known&knowInfo != 0 && v.info == *info {
		return
	}
	old := v.info
	v.info = *info
	v.info.ClientReregister = false
	v.known |= knowInfo
	v.seen, v.unsure = true, false
	if old.PortGUID != info.PortGUID {
		c.releaseGUID(r, old.PortGUID)
	}
	if v.state > ib.StateDown {
		c.claimGUID(r)
	}
	c.showVPort(r)
	c.functionChanged(r)
	if old.PortGUID != info.PortGUID {
		c.vportChanged(r)
	}
	if old.VPortLID == info.VPortLID && old.LIDRequired == info.LIDRequired && !v.needed {
		return
	}
	for _, o := range r.a.vports { // those that use its LID
		if o != nil && o.state > ib.StateDown && !o.info.LIDRequired && o.info.LIDByVPortIndex == r.index {
			c.showVPort(vportRef{r.a, o.index})
			c.lookVPort(vportRef{r.a, o.index})
		}
	}
}
