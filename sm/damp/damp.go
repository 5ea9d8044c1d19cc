// Package damp decides which links are kept out of a subnet because they keep failing.
//
// The first Config.Free failures in a row cost nothing. After that a link is let back in only
// when it has stayed up for a while, twice as long after each failure. From Config.Hold failures
// on it is held down until nothing has been heard of it for Config.Quiet, doubled with each
// hold that follows closely, at most 16 times that.
//
// A link that is kept out carries no routes and nothing behind it is asked. Its ports are left
// alone in Init, where they carry no data: a port set to Disabled or Down would stay so if this
// manager died, or if the only way to it led over that very link.
package damp

import (
	"slices"
	"time"

	"heddle/ib"
	"heddle/mad"
)

// Config says when links are damped.
type Config struct {
	Free  int           // failures in a row that cost nothing
	Hold  int           // from this one on a link is held down; 0: no damping
	Delay time.Duration // before a link is let back in after failure Free+1, doubled with each further one
	Quiet time.Duration // how long a link that is held down must be quiet; also the longest of those delays
}

// most bounds the links that are remembered.
const most = 1024

// Port is one end of a link: a port of a switch.
type Port struct {
	Node ib.GUID
	Num  uint8
}

// Link is what is known of a link that failed.
type Link struct {
	A, B     Port // switch ports: a CA may be plugged in elsewhere. B.Node is 0 if the far end is a CA
	Failures int  // in a row
	Held     bool // held down, not only delayed
	// Last is the last failure, sign of life while the link was kept out, or release; Until is
	// when it is let back in, 0 if it is not kept out.
	Last, Until mad.Time

	holds int // in a row
}

func (l *Link) at(p Port) bool { return l.A == p || l.B.Node != 0 && l.B == p }

// Links are the links that failed lately.
type Links struct {
	cfg  Config
	list []*Link
	next mad.Time
}

// New returns an empty list.
func New(cfg Config) *Links { return &Links{cfg: cfg, next: mad.Never} }

// SetConfig changes when links are damped, from their next failure on.
func (l *Links) SetConfig(cfg Config) { l.cfg = cfg }

// Off reports whether nothing is damped.
func (l *Links) Off() bool { return l.cfg.Hold == 0 }

// Next is when Release is due, mad.Never if no link is kept out.
func (l *Links) Next() mad.Time { return l.next }

// find is what is known of the link at a port, nil if nothing.
func (l *Links) find(p Port) *Link {
	for _, k := range l.list {
		if k.at(p) {
			return k
		}
	}
	return nil
}

// Failed notes that an active link failed. b.Node is 0 if the far end is no switch. It returns a
// copy of what is known of the link, held if it is held down from now on.
func (l *Links) Failed(now mad.Time, a, b Port) (link Link, held bool) {
	if l.Off() {
		return Link{}, false
	}
	k := l.find(a)
	if k == nil && b.Node != 0 {
		k = l.find(b)
	}
	if k == nil {
		if len(l.list) >= most {
			l.forget(now)
			if len(l.list) >= most {
				return Link{}, false
			}
		}
		k = &Link{A: a, B: b}
		l.list = append(l.list, k)
	}
	if now.Sub(k.Last) > l.cfg.Quiet && k.Until <= now {
		if k.Failures = 0; now.Sub(k.Last) > 16*l.cfg.Quiet {
			k.holds = 0
		}
	}
	k.Failures++
	k.Last = now
	switch {
	case k.Failures >= l.cfg.Hold:
		k.Until = now.Add(l.quiet(k.holds))
		k.holds++
		k.Held, held = true, true
	case k.Failures > l.cfg.Free:
		k.Until = now.Add(l.delay(k.Failures))
	default:
		return *k, false
	}
	l.next = min(l.next, k.Until)
	return *k, held
}

// quiet is how long a link must be quiet after so many holds before.
func (l *Links) quiet(holds int) time.Duration { return l.cfg.Quiet << min(holds, 4) }

// delay is how long a link stays out after so many failures.
func (l *Links) delay(failures int) time.Duration {
	return min(l.cfg.Delay<<min(failures-l.cfg.Free-1, 10), l.cfg.Quiet)
}

// KeptOut reports whether the link at a port is kept out. changed says that its state changed
// again, so that the quiet time begins anew.
func (l *Links) KeptOut(now mad.Time, p Port, changed bool) bool {
	k := l.find(p)
	if k == nil || k.Until <= now {
		return false
	}
	if changed && k.Last < now {
		wait := l.quiet(max(k.holds-1, 0))
		if !k.Held {
			wait = l.delay(k.Failures)
		}
		k.Last = now
		k.Until = now.Add(wait)
	}
	return true
}

// Release lets links back in whose time is over and returns copies of them from before, Held if
// they were held down.
func (l *Links) Release(now mad.Time) (back []Link) {
	l.next = mad.Never
	for _, k := range l.list {
		switch {
		case k.Until == 0:
		case k.Until > now:
			l.next = min(l.next, k.Until)
		default:
			back = append(back, *k)
			k.Until = 0
			if k.Held {
				k.Held = false
				k.Last = now
				k.Failures = l.cfg.Hold - 1 // a failure soon after holds it again
			}
		}
	}
	l.forget(now)
	return back
}

// forget drops links that have been good for long.
func (l *Links) forget(now mad.Time) {
	l.list = slices.DeleteFunc(l.list, func(k *Link) bool {
		return k.Until == 0 && now.Sub(k.Last) > 16*l.cfg.Quiet
	})
}

// All are copies of the links that are kept out, in the order of their first failure.
func (l *Links) All(now mad.Time) (list []Link) {
	for _, k := range l.list {
		if k.Until > now {
			list = append(list, *k)
		}
	}
	return list
}
