package daemon

import (
	"time"

	"heddle/mad"
)

// noticeLimit bounds the notices of one manager, so that they neither fill the log nor push other
// events out of the ring. It belongs to one goroutine.
type noticeLimit struct {
	began mad.Time
	told  int
	cut   int
}

// At most noticesPerSpan notices are logged in each noticeSpan.
const (
	noticesPerSpan = 200
	noticeSpan     = 10 * time.Second
)

// allow reports whether one more notice is admitted at now. If a new span begins, it also
// returns how many were suppressed in the last one.
func (n *noticeLimit) allow(now mad.Time) (ok bool, cut int) {
	if n.told == 0 || now.Sub(n.began) >= noticeSpan {
		cut = n.cut
		*n = noticeLimit{began: now}
	}
	if n.told < noticesPerSpan {
		n.told++
		return true, cut
	}
	n.cut++
	return false, cut
}
