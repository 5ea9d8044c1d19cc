package sm

import (
	"fmt"

	"heddle/internal/plural"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/sm/work"
	"heddle/subnet"
)

// beginTakeover begins the takeover that comes before the first sweep of a manager that knows what its
// predecessor published. It reports false if that is of no use.
func (c *Core) beginTakeover() bool {
	c.beginFloating()
	if why := c.takeover.Begin(); why != "" {
		c.refuseTakeover(why)
		return false
	}
	c.discovery.EndRegion()
	c.cancelAll()
	c.pkeys.DropAsked()
	c.mastership.Canceled()
	c.mastership.Forget()
	c.sweep.start = c.Now
	c.enter(notice.PhaseTakeover)
	c.takeover.Ask()
	return true
}

func (c *Core) refuseTakeover(why string) {
	c.Notify(notice.Notice{
		Kind: notice.KindTakeover, Level: notice.Warn,
		Text: "what the last master published is not used: " + why + "; the subnet is read first",
	})
}

// takeoverDone is called in the takeover when no item is pending.
func (c *Core) takeoverDone() bool {
	switch {
	case c.takeover.Asking():
		if !c.mastership.MayTakeOver() {
			c.takeover.Forgo() // nothing is written in the subnet of another master
		} else if c.takeover.More() {
			return c.Pending > 0
		} else if c.takeover.CheckFirst() {
			return true
		}
	case c.takeover.Checked():
	case c.takeover.Next() == mad.Never:
		c.endTakeover()
		return true
	case c.out.Publish != nil:
		return false // what it shows is to be seen before the rest, which takes a while
	default:
		c.takeover.Check()
		return true
	}
	why := c.takeover.Refused()
	if why == "" {
		was := c.Snapshot
		c.Snapshot = c.takeover.Serve()
		if c.mastership.TakeOver(c.agenda.Why()) || c.State == subnet.Standby {
			return true
		}
		c.Snapshot, why = was, "another manager is master, or ranks above us"
	}
	c.takeover.Drop()
	c.refuseTakeover(why)
	c.enter(notice.PhaseIdle)
	return true
}

// takeoverAnswered takes the end of a request of the takeover.
func (c *Core) takeoverAnswered(it work.Item, comp *mad.Completion) {
	if it.Op() == work.OpTell {
		c.takeover.Told(c.links.AnsweredTell(it, comp))
		return
	}
	if c.takeover.Answered(it, comp) {
		return
	}
	c.refuseTakeover(c.takeover.Refused())
	c.cancelAll()
	c.mastership.Canceled()
	c.enter(notice.PhaseIdle)
	c.PublishState()
}

// endTakeover ends the check. The sweep that follows reads everything.
func (c *Core) endTakeover() {
	moved := c.takeover.Floated()
	r, s := c.takeover.End(c.Snapshot)
	if s != nil {
		c.Snapshot = s
		c.PublishState()
	}
	whose := "the last master published"
	if r.Restarted {
		whose = "this manager published before its restart"
	}
	text := fmt.Sprintf("the SA answers from what %s; %s checked", whose, plural.Of(r.Switches, "switch"))
	if r.Lost > 0 {
		text += fmt.Sprintf(", %d of them lost", r.Lost)
	}
	if r.Restarted && r.Told == 0 {
		text += fmt.Sprintf("; %s of hosts read", plural.Of(r.Hosts, "port"))
	} else {
		text += fmt.Sprintf("; %d of %s told of their new manager", r.Told, plural.Of(r.Hosts, "port"))
	}
	if moved != nil {
		text += fmt.Sprintf("; LID %v of the manager came to this port by %s in %s",
			c.OwnLID(), plural.Of(moved.Blocks(), "LFT block"), plural.Of(moved.Stages(), "stage"))
	}
	if r.Changed > 0 {
		text += "; " + plural.Of(r.Changed, "port") + " changed"
	}
	c.Notify(notice.Notice{Kind: notice.KindTakeover, Level: notice.Info, Dur: c.Now.Sub(c.sweep.start), Text: text})
	c.enter(notice.PhaseIdle)
}

// settleTakeover is called when a sweep ends; again says that another one follows immediately.
func (c *Core) settleTakeover(again bool) {
	if c.Up || !again && !c.unstored.failed { // which says nothing of what the last master published
		c.takeover.Settled()
	}
	if c.Up { // until then another sweep takes all nodes for new
		c.links.ForgetTold()
	}
}
