package daemon

import (
	"testing"

	"heddle/mad"
)

// TestNoticeLimit: notices above the limit are counted, and reported when the next span begins.
func TestNoticeLimit(t *testing.T) {
	var n noticeLimit
	told := 0
	for i := range 3 * noticesPerSpan {
		if ok, _ := n.allow(mad.Time(i)); ok {
			told++
		}
	}
	if told != noticesPerSpan {
		t.Errorf("%d were logged, want %d", told, noticesPerSpan)
	}
	if ok, cut := n.allow(mad.Time(0).Add(noticeSpan)); !ok || cut != 2*noticesPerSpan {
		t.Errorf("in the next span: %v, %d left out", ok, cut)
	}
}
