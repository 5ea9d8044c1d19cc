package daemon

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
)

// TestNotReadyWhileUnsaved: while an acknowledged change is not stored, the readiness probe
// fails, from before the answer is sent until the change is stored.
func TestNotReadyWhileUnsaved(t *testing.T) {
	snap := bringUp(t, "xgft", "1", "4", "1")
	from := lids(snap)
	synctest.Test(t, func(t *testing.T) {
		var d *Daemon
		answers, readyAtAnswer := 0, false
		d, _ = newPiped(func(p *mad.Packet) error {
			answers++
			readyAtAnswer = d.unsaved.Load() == nil
			if st := statusOf(p.Data); st != 0 {
				t.Errorf("status %v", st)
			}
			return nil
		}, Config{})
		mem := d.cfg.Store.(*store.Memory)
		d.shared.Snap.Store(snap)
		d.status.Store(&sm.Status{Up: true, State: snap.State})
		l := newSALoop(d)
		l.shell.Start(nil, 0)
		l.shell.Mail()
		register := func(id uint64) {
			var m ib.MAD
			wire.New(&m, ib.MethodSet, wire.AttrServiceRecord, 0, wire.ServiceCompServiceID|wire.ServiceCompServiceGID)
			r := wire.ServiceRecord{ServiceID: id, ServiceGID: snap.GID(snap.PortByLID(from[0]))}
			r.Put(wire.Data(&m))
			l.shell.Step(sa.Requests{List: []sa.Request{{From: mad.Addr{LID: from[0], QP: 1}, Data: m[:]}}})
			l.settle()
		}
		ready := func(want bool, has string) {
			t.Helper()
			if ok, why := d.Ready(); ok != want || !strings.Contains(why, has) {
				t.Errorf("ready %v, %q", ok, why)
			}
		}
		register(1)
		ready(true, "subnet up")
		mem.FailNext = 2
		register(2)
		register(3)
		if answers != 3 || readyAtAnswer {
			t.Errorf("%d answers; ready when the last was sent: %v", answers, readyAtAnswer)
		}
		ready(false, "2 acknowledged changes")
		mem.FailNext = 1
		<-time.After(11 * time.Second)
		l.shell.Step(sa.Timer{})
		l.settle()
		ready(false, "2 acknowledged changes")
		<-time.After(11 * time.Second)
		l.shell.Step(sa.Timer{})
		l.settle()
		ready(true, "subnet up")
		if st, err := mem.Load(); err != nil || len(st.Records) < 3 {
			t.Errorf("%d records are stored, %v", len(st.Records), err)
		}
	})
}
