package sm

import (
	"fmt"
	"slices"

	"heddle/ib"
	"heddle/internal/plural"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/store"
	"heddle/subnet"
)

// unstoredState is what the store does not take, or does not know (persist.go).
type unstoredState struct {
	retryAt mad.Time // when what the store did not take is tried again; mad.Never
	waiting bool     // ports wait for it, since the last sweep
	// unsure: the store could not be asked when this mastership began, so it may have what we do not
	// know. lacks: it certainly has.
	unsure, lacks bool
	failed        bool // the sweep ended because of it
}

// persist hands ops to the shell; the sweep waits for Persisted.
func (c *Core) persist(ops []store.Op) {
	c.Save(ops)
	c.sweep.persistWait = true
	c.unstored.retryAt = mad.Never
}

func (c *Core) onPersisted(ev Persisted) {
	if ev.Gen == c.SaveGen {
		c.unstored.retryAt = mad.Never
		switch {
		case ev.Err != nil:
			c.unstored.retryAt = c.Now.Add(c.Config.RetryInterval)
		default:
			c.Unsaved = nil
			c.tenure.Saved()
			if c.unstored.waiting && (!c.sweep.persistWait || c.Region) {
				c.AskFullSweep("what ports waited for is stored")
			}
			c.unstored.waiting = false
		}
	}
	c.pkeys.Saved(ev.Gen, ev.Err)
	c.placements.Saved(ev.Gen, ev.Err)
	if !c.sweep.persistWait || ev.Gen != c.SaveGen {
		return
	}
	c.sweep.persistWait = false
	if ev.Err != nil || c.unstored.lacks {
		ports, ok := c.withhold()
		n := notice.Notice{
			Kind: notice.KindPersistFailed, Level: notice.Error, Err: ev.Err,
			Text: "LIDs and keys could not be stored, so none are assigned. Look at the store: the state directory (space, disk), the partner, or etcd. The manager tries again",
		}
		switch {
		case ok && ports == 0:
			n.Text = "what this sweep found could not be stored; no port waits for it. Look at the store: the state directory (space, disk), the partner, or etcd. The manager tries again"
		case ok:
			n.Text = fmt.Sprintf("LIDs and keys could not be stored, so %s %s left out. Look at the store: the state directory (space, disk), the partner, or etcd. The manager tries again",
				plural.Of(ports, "port"), plural.Verb(ports, "is", "are"))
		}
		c.Notify(n)
		if !ok {
			c.Errs++
			c.unstored.failed = true
			c.endSweep()
			return
		}
	}
	if c.Phase == notice.PhaseAssign {
		c.assignedLIDs()
	}
}

// saveAgain tries to store what the store did not take.
func (c *Core) saveAgain() {
	c.unstored.retryAt = mad.Never
	if len(c.Unsaved) > 0 && c.State == subnet.Master {
		c.Save(nil)
	}
}

// withhold leaves those ports out of the sweep that are to get a LID or an M_Key that is not stored: one
// that nobody else knows would be given to two ports, or lock one permanently. It returns how many there
// are. All else is in the devices already: a record that is lost is made again from what they show. ok is
// false if the sweep needs what is not stored.
func (c *Core) withhold() (ports int, ok bool) {
	if c.unstored.lacks || c.tenure.MustSave() {
		return 0, false
	}
	lids, keys := map[ib.GUID]bool{}, map[ib.GUID]bool{}
	for i := range c.Unsaved {
		switch o := &c.Unsaved[i]; {
		case o.Kind == store.PutLID:
			lids[o.GUID] = true
		case o.Kind == store.PutMKey:
			keys[o.GUID] = true
		case o.Kind == store.PutRecord && o.Record.Table == store.TableFunctionLIDs:
			return 0, false // the LIDs of functions are routed without their port
		}
	}
	f := c.Fabric
	own := f.AgentPort(f.Self.Node, f.Self.Port)
	var list []int32
	for i := range f.Ports {
		p := &f.Ports[i]
		if !p.Has(topo.PortEnd) || p.LID == 0 {
			continue
		}
		newKey := p.Info.MKey != c.Config.MKey && (keys[0] || keys[p.GUID])
		if !newKey && (!lids[p.GUID] || c.hasLID(p)) {
			continue
		}
		if p == own {
			return 0, false
		}
		list = append(list, int32(i))
	}
	for _, i := range list {
		p := &f.Ports[i]
		p.LID, p.LMC = 0, 0
		p.Flags |= topo.PortLeftOut
		c.Problem(f.Where(p.Node, int(p.Num)), notice.Notice{
			Kind: notice.KindPersistFailed, Level: notice.Warn, Where: f.Where(p.Node, int(p.Num)),
			Text: "its LID or M_Key could not be stored: the port is left out until the store takes it",
		})
	}
	c.regionLIDs.added = slices.DeleteFunc(c.regionLIDs.added, func(i int32) bool { return f.Ports[i].LID == 0 })
	c.unstored.waiting = len(list) > 0
	return len(list), true
}

// hasLID reports whether a port uses the LID that it is to have, so that others see it too.
func (c *Core) hasLID(p *topo.Port) bool {
	if p.Info.LID != p.LID || p.Info.LMC != p.LMC {
		return false
	}
	if p.Num == 0 && c.Fabric.Nodes[p.Node].IsSwitch() {
		return p.Info.MasterSMLID != 0 // such a port has no state
	}
	return p.Info.PortState >= ib.StateArmed
}

// setUnsure takes what is known of the store, beside its answers. While we are unsure what it has,
// nothing is revoked that we do not know.
func (c *Core) setUnsure(ev SetUnsure) {
	was := c.unstored
	c.unstored.unsure, c.unstored.lacks = ev.Unsure, ev.Unsure && ev.Lacks
	c.tenure.SetUnsure(ev.Unsure)
	switch {
	case ev.Unsure && !was.unsure:
		c.pkeys.MeetAnew()
	case !ev.Unsure && was.unsure:
		if !c.tenure.Keeps() && c.State == subnet.Master {
			all := func(ib.GUID) bool { return true }
			c.pkeys.DropKept(all)
			c.placements.DropKept(all)
			c.pkeys.KeepsNothing()
			c.keeping.list, c.keeping.told = c.keptNow(), keptCounts{}
		}
		c.saveAgain()
		if was.lacks {
			c.AskFullSweep("the state of the other managers is known")
		}
	}
}
