package sm

import (
	"time"

	"heddle/internal/plural"
	"heddle/mad"
	"heddle/sm/notice"
	"heddle/subnet"
)

// A change of routes that repairs nothing, as where a link is drained or another engine is chosen, may have to wait a
// minute until packets have left. Nobody else waits for it: hosts that come up, VMs that move, ports whose P_Keys
// change. If one of them asks for something in such a wait, the change stays where it is, which is free of cycles and
// loops; what was asked for is done; and the change goes on when the wait would have ended.

const (
	// giveWayAfter is the longest wait that others do wait for.
	giveWayAfter = time.Second
	// maxGiveWay is how often a change gives way. Then it is carried through, or it would never end where hosts
	// come up all the time.
	maxGiveWay = 8
)

// waits reports whether a change that repairs nothing waits for packets, and until when.
func (c *Core) waits() (until mad.Time, ok bool) {
	until = c.install.Next()
	return until, c.Phase == notice.PhaseDrain && until != mad.Never && until.Sub(c.Now) > giveWayAfter && c.install.MayGiveWay() && !c.router.Repairs()
}

// giveWay leaves the change under way if it only waits, and somebody asks for something else. It reports whether
// there is more to do now.
func (c *Core) giveWay() bool {
	until, ok := c.waits()
	if !ok || c.breaking.gaveWay >= maxGiveWay || c.breaking.at != mad.Never || !c.breakable() {
		return false
	}
	why, asked := c.asked()
	if !asked {
		return false
	}
	c.breaking.gaveWay++
	c.links.PutOff(until)
	c.install.GiveWay()
	c.Notify(notice.Notice{
		Kind: notice.KindGaveWay, Level: notice.Info, Dur: until.Sub(c.Now),
		Text: "the change of routes gives way while it waits for packets to leave: " + why + "; it goes on in about " +
			plural.Of(int(until.Sub(c.Now)/time.Second)+1, "second"),
	})
	c.breakOff(why)
	return true
}

// unbroken notes that a sweep came to its end.
func (c *Core) unbroken(finished bool) {
	c.breaking.count, c.breaking.at = 0, mad.Never
	if finished && !c.links.PuttingOff() {
		c.breaking.gaveWay = 0
	}
}

// asked reports whether somebody asks for something that comes after the sweep under way, and what it is.
func (c *Core) asked() (what string, ok bool) {
	if what, ok = c.agenda.Demanded(); ok {
		return what, true
	}
	switch {
	case c.State != subnet.Master || !c.MayUpkeep():
		return "", false
	case c.placements.Waiting():
		return "addresses of virtual functions change", true
	case c.pkeys.Waiting() && c.placements.FunctionsRead():
		return "P_Keys of ports change", true
	case c.guids.Waiting():
		return "alias GUIDs of ports change", true
	case c.vports.Waiting():
		return "virtual ports change", true
	}
	return "", false
}
