package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"heddle/mad"
	"heddle/shell"
	"heddle/store"
	"heddle/subnet"
	"heddle/vm"
)

// vmLoop is the goroutine that owns the address manager's core: interfaces of virtual machines,
// memberships, and placements for the subnet manager. Its writes to the store delay neither the
// subnet manager nor the SA. It implements shell.VMEdge.
type vmLoop struct {
	d     *Daemon
	shell *shell.VM
	alarm alarm
	told  noticeLimit
}

func newVMLoop(d *Daemon, core shell.VMCore) *vmLoop {
	l := &vmLoop{d: d, alarm: newAlarm()}
	l.shell = shell.NewVM(core, l, &d.shared)
	return l
}

func (l *vmLoop) run(ctx context.Context) {
	defer l.alarm.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.d.pulses.vm.ask:
		case <-l.d.vmMail:
			l.shell.Mail()
		case <-l.alarm.timer.C:
			l.alarm.rang()
			l.shell.Step(vm.Timer{})
		}
	}
}

func (l *vmLoop) Now() mad.Time { return l.d.now() }

func (l *vmLoop) Apply(ops []store.Op) error { return l.d.store(&l.d.pulses.vm, ops) }

func (l *vmLoop) Published(v *vm.View) {
	l.d.feed.published(v)
	l.d.vm.published()
}

func (l *vmLoop) Answered(op vm.Op, r *vm.Reply, took time.Duration) { l.d.vm.stats.add(op, r, took) }

func (l *vmLoop) Wake(at mad.Time) { l.alarm.set(l.d.now(), at) }

// Reported counts the subnet manager's reports.
func (l *vmLoop) Reported(list []subnet.PlacementReport) {
	s := &l.d.vm.stats
	for i := range list {
		switch r := &list[i]; r.State {
		case subnet.PlacementPlaced:
			bump(&s.placed)
			s.blocks.Store(s.blocks.Load() + uint64(max(0, r.SMPs)))
		case subnet.PlacementRefused:
			bump(&s.refused)
		}
	}
}

// Tell logs the core's notices and adds them to the events, within the limit.
func (l *vmLoop) Tell(notices []vm.Notice) {
	for i := range notices {
		n := &notices[i]
		allowed, cut := l.told.allow(l.d.now())
		if cut > 0 {
			l.d.note(slog.LevelWarn, "vm_notices_cut", fmt.Sprintf("%d notices about interfaces of virtual machines were not logged: their number exceeds the limit", cut), nil)
		}
		if !allowed {
			bump(&l.d.vm.stats.noticesCut)
			continue
		}
		level := slog.LevelInfo
		if n.Warn {
			level = slog.LevelWarn
		}
		l.d.note(level, n.Kind, n.Text, nil)
	}
}
