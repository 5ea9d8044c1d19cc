package daemon

import (
	"testing"
	"time"

	"heddle/mad"
	"heddle/sm"
	"heddle/subnet"
)

// TestStatusIsNotMadForEachNotice: a status counts every LID and virtual port, which takes longer
// than a move of a LID. So notices publish one only now and then, but a new standing at once.
func TestStatusIsNotMadForEachNotice(t *testing.T) {
	d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
	l := newLoop(t.Context(), d)
	defer l.stale.timer.Stop()
	out := &sm.Output{Notices: []sm.Notice{{}}}
	l.Stepped(nil, out)
	first := d.status.Load()
	if first == nil {
		t.Fatal("the first notice published no status")
	}
	l.statusNext = d.now().Add(time.Hour) // however slow this machine is
	for range 100 {
		l.Stepped(nil, out)
	}
	if d.status.Load() != first {
		t.Error("a status was made for a notice that changes nothing")
	}
	if l.stale.due == mad.Never {
		t.Error("no status is due after a notice")
	}
	other := *first
	other.State, other.Master = subnet.Standby, subnet.SM{GUID: 7}
	d.status.Store(&other)
	l.Stepped(nil, out)
	if st := d.status.Load(); st == &other || st.State != first.State {
		t.Error("a new standing was not published")
	}
	if l.stale.due != mad.Never {
		t.Error("a fresh status is due again")
	}
}
