package install

import (
	"fmt"
	"time"

	"heddle/mad"
	"heddle/sm/notice"
)

// hostWait is the part of a stage's wait that is for hosts to use new service levels.
type hostWait struct {
	repath time.Duration // of the stage; 0: this wait is for packets only
	limit  mad.Time      // the wait is not prolonged beyond it
	left   int           // subscribers that have not acknowledged a notice about a new level
	asked  bool          // left was not 0 when the wait came to its end
}

// HostsLeft says how many subscribers have not acknowledged the notice about the new service
// levels of the wait under way.
func (x *Installer) HostsLeft(n int) { x.hosts.left = n }

// WaitsForHosts reports whether a stage waits for hosts to use new service levels.
func (x *Installer) WaitsForHosts() bool { return x.resumeAt != mad.Never && x.hosts.repath > 0 }

// prolong is called when the wait of a stage is over. A host that received its notice late, because
// earlier ones were lost, has had no time to use the new levels yet: the wait goes on while
// acknowledgments are missing, and a quarter of it longer, up to twice its length in all. After
// that a host that does not answer delays nobody: it is reported.
func (x *Installer) prolong() bool {
	w := &x.hosts
	switch {
	case w.repath <= 0 || w.left == 0 && !w.asked:
		return false
	case x.Now >= w.limit:
		x.giveUp()
		return false
	}
	w.asked = w.left > 0
	x.resumeAt = min(w.limit, x.Now.Add(w.repath/4))
	return true
}

// giveUp reports hosts that may still use the old levels.
func (x *Installer) giveUp() {
	if w := &x.hosts; w.left > 0 {
		x.Notify(notice.Notice{
			Kind: notice.KindLevelsUnanswered, Level: notice.Warn,
			Text: fmt.Sprintf("%d subscribers to path notices have not acknowledged their new service levels after %v; "+
				"their packets on the old ones are a risk; 'heddle ctl signals' lists them", w.left, 2*w.repath),
		})
	}
}
