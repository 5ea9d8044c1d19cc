package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"heddle/mad"
	"heddle/shell"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// loop is the goroutine that owns the subnet manager's core. It implements shell.SMEdge.
type loop struct {
	d     *Daemon
	ctx   context.Context
	shell *shell.SM
	alarm alarm
	burst mad.Burster    // nil: one packet at a time
	state subnet.SMState // as OnState was told; the core begins as NotActive

	row  []*mad.Packet // packets that the core gets, or has had; see next
	at   int           // the next one of row
	left int           // packets that may follow row before the loop looks for anything else

	told       eventLimit
	cut        alarm    // when what told left out is to be told
	stale      alarm    // when the published status is to be renewed
	statusNext mad.Time // not before then, unless the standing changes
	stopping   bool
	result     error
	claimed    bool         // IsSM was ours
	leads      bool         // Config.Lead was called last, not Led
	unsure     sm.SetUnsure // as the core was told
	sendFailed uint64

	changes map[uint64]chan<- error // of partitions, by tag: the callers that wait until they are stored
	tag     uint64                  // of the last one
}

func newLoop(ctx context.Context, d *Daemon) *loop {
	l := &loop{d: d, ctx: ctx, alarm: newAlarm(), burst: burstsOf(d.cfg.Port), cut: newAlarm(), stale: newAlarm(), changes: map[uint64]chan<- error{}}
	l.shell = shell.NewSM(d.core, l, &d.shared)
	return l
}

func (l *loop) run(stored *store.State) error {
	d := l.d
	l.shell.SetWarm(d.cfg.Warm)
	l.shell.SetFloat(d.cfg.Float)
	d.cfg.Warm, d.cfg.Float = nil, nil // the core keeps them for as long as it needs them
	h, _ := l.hint()
	l.shell.Step(sm.SetAllies{List: h.Allies}) // before it asks other managers
	l.shell.Start(stored, d.cfg.Partitions)
	if h.Warm != nil {
		l.shell.SetWarm(h.Warm)
	}
	if err := d.cfg.PartitionsErr; err != nil {
		d.note(slog.LevelError, sm.KindPartitionsRefused.String(), "the partitions given at the start cannot be read, so the stored ones stay in force: correct the file and send SIGHUP",
			map[string]string{"err": err.Error()})
	}
	cancelled := l.ctx.Done()
	var stopBy <-chan time.Time
	var progress <-chan time.Time
	if d.cfg.Progress != nil {
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		progress = t.C
	}
	for !l.shell.Halted() {
		select {
		case <-d.packets.Bell():
			l.received()
		case <-l.alarm.timer.C:
			l.alarm.rang()
			l.shell.Step(sm.Timer{})
		case <-l.cut.timer.C:
			l.cut.rang()
			d.tellCut(l.told.end())
		case <-l.stale.timer.C:
			l.stale.rang()
			l.publishStatus()
		case r := <-d.jobs:
			l.shell.Step(sm.JobDone{Result: r})
		case c := <-d.commands:
			l.command(c)
		case <-d.smMail:
			l.shell.Mail()
		case a := <-d.ask:
			a <- d.core.Status()
		case h := <-d.cfg.Hints:
			l.hinted(&h)
		case <-d.pulses.sm.ask:
		case <-progress:
			d.cfg.Progress(d.core.Status())
		case err := <-d.lost:
			if d.cfg.Revoked != nil && errors.Is(err, d.cfg.Revoked) {
				return ErrRevoked
			}
			if l.stopping {
				return l.result
			}
			l.shell.Step(sm.PortLost{})
			return fmt.Errorf("%w: %s: %w", ErrPortLost, d.cfg.PortName, err)
		case <-cancelled:
			cancelled = nil
			l.stop(nil)
		case <-stopBy:
			return errors.Join(l.result, errors.New("the manager did not stop in time; IsSM may still be set"))
		}
		if l.stopping && stopBy == nil {
			stopBy = time.After(stopTime)
		}
	}
	return l.result
}

// hint is one that waits, if there is one.
func (l *loop) hint() (h Hint, ok bool) {
	select {
	case h, ok = <-l.d.cfg.Hints:
	default:
	}
	return h, ok
}

// hinted passes a hint on to the core.
func (l *loop) hinted(h *Hint) {
	if h.Warm != nil {
		l.shell.SetWarm(h.Warm)
	}
	l.shell.Step(sm.SetAllies{List: h.Allies})
	if h.Unsure != l.unsure {
		l.unsure = h.Unsure
		l.shell.Step(h.Unsure)
	}
}

// packetsInARow is how many packets the loop takes before it looks for anything else.
const packetsInARow = 256

// received passes packets that wait to the core, and those that have come since: to wait for all that
// the loop waits for takes longer than the answer to an SMP.
func (l *loop) received() {
	l.left = packetsInARow
	l.shell.Steps(l.next)
}

// next returns the next packet of a row, nil after the last one.
func (l *loop) next() sm.Event {
	if l.shell.Halted() {
		return nil
	}
	if l.at == len(l.row) {
		l.row, l.at = l.d.packets.Take(l.row, l.left), 0
		if l.left -= len(l.row); len(l.row) == 0 {
			return nil
		}
	}
	p := l.row[l.at]
	l.at++
	return sm.Received{P: p}
}

// stop ends the run with err when the core has stopped.
func (l *loop) stop(err error) {
	if l.stopping {
		return
	}
	l.stopping = true
	l.result = err
	l.d.settled = l.d.core.Settled()
	l.shell.Step(sm.Stop{})
}

func (l *loop) Now() mad.Time { return l.d.now() }

func (l *loop) Apply(ops []store.Op) error {
	if err := l.lead(); err != nil {
		return err
	}
	return l.d.store(&l.d.pulses.sm, ops)
}

// lead tells Config when a mastership begins or ends. After an error nothing more is stored or sent.
func (l *loop) lead() error {
	cfg := &l.d.cfg
	switch {
	case cfg.Lead == nil:
		return nil
	case l.shell.Halted():
		return l.result
	}
	state := l.d.core.Standing().State
	if state == subnet.Standby {
		l.d.standby.begin()
	}
	master := state == subnet.Master
	if master == l.leads {
		return nil
	}
	l.leads = master
	if !master {
		cfg.Led()
		return nil
	}
	dropped := l.d.standby.end()
	if err := cfg.Lead(dropped); err != nil {
		l.result = err
		l.shell.Halt()
		return err
	}
	if h, ok := l.hint(); ok {
		l.hinted(&h)
	}
	return nil
}

func (l *loop) SetIsSM(on bool) error {
	d := l.d
	first := on && !l.claimed
	var err error
	if first {
		err = l.claim()
	} else {
		err = d.cfg.Port.SetIsSM(on)
	}
	if err != nil && first {
		l.result = fmt.Errorf("%w: %s: %w", ErrBusy, d.cfg.PortName, err)
		return l.result
	}
	l.claimed = l.claimed || on
	if err != nil {
		d.note(slog.LevelError, "issm", "IsSM of the port cannot be changed", map[string]string{"err": err.Error()})
	}
	return nil
}

// claimEvery is the interval of attempts to claim a port that another process has.
const claimEvery = 50 * time.Millisecond

// claim sets IsSM of the port. If a killed manager still holds it, because the kernel or the
// simulator has not released it yet, claim waits.
func (l *loop) claim() error {
	d := l.d
	err := d.cfg.Port.SetIsSM(true)
	wait := d.cfg.ClaimWait
	if err == nil || wait <= 0 {
		return err
	}
	d.note(slog.LevelWarn, "issm", "the port is claimed by another manager, which may have been killed just now: waiting up to "+wait.String(),
		map[string]string{"err": err.Error()})
	limit, again := time.NewTimer(wait), time.NewTicker(claimEvery)
	defer limit.Stop()
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err = d.cfg.Port.SetIsSM(true); err == nil {
				return nil
			}
		case <-limit.C:
			return fmt.Errorf("after %v: %w", wait, err)
		case <-l.ctx.Done():
			return err
		}
	}
}

func (l *loop) Send(list []mad.Packet) {
	if l.lead() != nil {
		return
	}
	unsent, err := sendAll(l.d.cfg.Port, l.burst, list)
	if unsent == 0 {
		return
	}
	was := l.sendFailed
	if l.sendFailed += unsent; was == 0 || was/1000 != l.sendFailed/1000 {
		l.d.note(slog.LevelWarn, "send_failed", "the port refused a MAD, which will be sent again",
			map[string]string{"err": err.Error(), "count": fmt.Sprint(l.sendFailed)})
	}
}

func (l *loop) Compute(j *sm.Job) { go l.d.compute(j) }

// Publishing has the mastership begin or end before the SA sees it: an SA that is master stores what it
// acknowledges.
func (l *loop) Publishing() { _ = l.lead() } // an error halts the manager

func (l *loop) Published(s *subnet.Snapshot) {
	l.d.dates.of(s.Gen, time.Now())
	if s.State != subnet.Master {
		return
	}
	l.d.history.published(s)
	l.d.finder.cables.published(s)
	if l.d.cfg.OnPublish != nil {
		l.d.cfg.OnPublish(s)
	}
}

func (l *loop) TrapLost() {
	bump(&l.d.sa.lostTraps)
	l.d.note(slog.LevelDebug, "trap_not_forwarded", "too many traps at a time: this one is not forwarded to subscribers", nil)
}

func (l *loop) Tell(list []sm.Notice) {
	for i := range list {
		n := &list[i]
		l.tell(n)
		switch n.Kind {
		case sm.KindPartitions, sm.KindPartitionsRefused:
			l.changed(n)
		}
	}
}

// tell logs a notice, within the limit of its kind.
func (l *loop) tell(n *sm.Notice) {
	if limited[n.Kind] && n.Level > sm.Debug {
		ok, cut := l.told.allow(l.d.now(), n.Kind.String(), n.Where.LID)
		l.d.tellCut(cut)
		l.cut.set(l.d.now(), l.told.due())
		if !ok {
			l.d.noticesCut.Add(1)
			return
		}
	}
	l.d.tell(n)
}

func (l *loop) Planned(p *sm.Plan) {
	if l.d.cfg.OnPlan != nil && !l.stopping {
		l.d.cfg.OnPlan(p)
		l.stop(nil)
	}
}

func (l *loop) Wake(at mad.Time) { l.alarm.set(l.d.now(), at) }

// statusEvery is the least time between two published statuses of equal standing. A move of a LID
// sends several notices, and in a full subnet a status takes as long as half of the move: statusShare
// times as long passes before the next.
const (
	statusEvery = 100 * time.Millisecond
	statusShare = 200
)

// publishStatus publishes the status for readers that the loop keeps waiting (fresh).
func (l *loop) publishStatus() {
	began := l.d.now()
	st := l.d.core.Status()
	l.d.status.Store(&st)
	now := l.d.now()
	l.statusNext = now.Add(max(statusEvery, min(statusShare*now.Sub(began), time.Second)))
	l.stale.set(now, mad.Never)
}

// changedStatus publishes the status now if the standing has changed, else soon.
func (l *loop) changedStatus(s sm.Standing) {
	was := l.d.status.Load()
	if was == nil || s != (sm.Standing{State: was.State, Up: was.Up, Master: was.Master}) || l.d.now() >= l.statusNext {
		l.publishStatus()
		return
	}
	l.stale.set(l.d.now(), l.statusNext)
}

// Stepped publishes the status after a notice or snapshot; fresh reads a newer one from the
// loop. With Once it ends the run when nothing is left to wait for.
func (l *loop) Stepped(_ sm.Event, out *sm.Output) {
	d := l.d
	if l.lead() != nil {
		d.recv.standIn.Silence()
		return
	}
	d.recv.standIn.Publish(d.core)
	if len(out.Notices) == 0 && out.Publish == nil {
		return
	}
	st := d.core.Standing()
	l.changedStatus(st)
	if st.State != l.state {
		d.events.SetSpare(st.State == subnet.Standby)
		if d.cfg.OnState != nil {
			d.cfg.OnState(st.State)
		}
	}
	l.state = st.State
	switch {
	case !st.Up:
		d.upAt.Store(0)
	case d.upAt.Load() == 0:
		d.upAt.Store(time.Now().UnixNano())
	}
	var up bool
	var refused error
	for i := range out.Notices {
		switch n := &out.Notices[i]; n.Kind {
		case sm.KindSubnetUp:
			up = true
		case sm.KindRouteRefused, sm.KindPortDown:
			refused = fmt.Errorf("%w: %s", ErrRefused, n)
		}
	}
	if up && d.cfg.OnUp != nil {
		d.cfg.OnUp(d.Snapshot())
	}
	if !d.cfg.Once || l.stopping {
		return
	}
	switch {
	case up:
		l.stop(nil)
	case refused != nil:
		l.stop(refused)
	case st.State == subnet.Standby:
		l.stop(fmt.Errorf("%w: port GUID %v, priority %d", ErrStandby, st.Master.GUID, st.Master.Priority))
	}
}
