package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sa"
	"heddle/settings"
	"heddle/shell"
	"heddle/store"
)

// saLoop is the goroutine that owns the SA's core: changes of groups, services, subscriptions
// and alias GUIDs, and the Reports. Queries do not pass through it. It implements shell.SAEdge.
type saLoop struct {
	d      *Daemon
	shell  *shell.SA
	core   *sa.Core
	alarm  alarm
	told   eventLimit
	failed error // of the store, the last one
	cut    alarm // when suppressed notices are to be logged

	src   sa.Source
	req   sa.Request
	reply mad.Packet
	buf   []byte
	batch [maxChanges]query
	// answers are those that are being sent.
	answers [maxBatch]mad.Packet
	n       int          // of batch, whose packets have not been returned
	saved   chan saved   // results of Save
	saves   int          // writes under way, at most one
	burst   mad.Burster  // nil: the port sends one answer at a time
	list    []sa.Request // those of batch for the core
}

// saved is the result of a write to the store.
type saved struct {
	gen  uint64
	err  error
	took time.Duration
}

// maxWaiting is how many answers may wait for the store. Then requests that may change something wait in
// their queue.
const maxWaiting = 4 * maxChanges

func newSALoop(d *Daemon) *saLoop {
	cfg := d.cfg.Registry
	cfg.SAKey, cfg.TrustLocal, cfg.QoS = d.cfg.SA.SAKey, d.cfg.SA.TrustLocal, d.cfg.SA.QoS != nil
	cfg.PathCaching, cfg.VirtHopLimit = d.cfg.SA.PathCaching, d.cfg.SA.VirtHopLimit
	cfg.FirstTID, cfg.TransportTimed = d.cfg.Core.FirstTID, d.cfg.Core.TransportTimed
	if d.cfg.Core.NoReregister {
		cfg.RejoinTime = 0 // no host was asked to join again
	}
	cfg.WaitPerRequester = cmp.Or(d.cfg.QueuePerRequester, settings.DefaultQueueEach)
	alarm := newAlarm()
	alarm.nap = newNap()
	l := &saLoop{d: d, alarm: alarm, cut: newAlarm(), core: sa.NewCore(cfg), saved: make(chan saved, 1), burst: burstsOf(d.cfg.Port)}
	l.shell = shell.NewSA(l.core, l, &d.shared)
	d.held = l.core.Held()
	return l
}

func (l *saLoop) run(ctx context.Context) {
	defer l.alarm.timer.Stop()
	defer l.cut.timer.Stop()
	d := l.d
	for {
		select {
		case <-ctx.Done():
			l.settle()
			return
		case r := <-l.saved:
			l.written(r)
		case <-d.pulses.sa.ask:
		case <-d.saMail:
			l.shell.Mail()
		case <-d.changes.bell:
			l.shell.Mail()
			l.change()
		case p := <-d.reports:
			if p.Status == mad.Failed {
				bump(&d.sa.reportsBack)
			}
			l.shell.Step(sa.Received{P: p})
			d.free.put(p)
		case q := <-d.signalAsks:
			l.answerSignals(q)
		case <-l.alarm.timer.C:
			l.alarm.rang()
			l.shell.Step(sa.Timer{})
		case <-l.alarm.nap.bell:
			l.alarm.rang()
			l.shell.Step(sa.Timer{})
		case <-l.cut.timer.C:
			l.cut.rang()
			d.tellCut(l.told.end())
		}
	}
}

// change takes the waiting changes, up to a batch, as one step of the core, so that they share
// one write to the store.
func (l *saLoop) change() {
	d := l.d
	if l.core.Waiting() >= maxWaiting {
		return // written rings the bell again
	}
	l.n = d.changes.take(l.batch[:], l.batch[:l.n], 1)
	if l.n == 0 {
		return
	}
	now := d.now()
	l.list = l.list[:0]
	for i := range l.batch[:l.n] {
		q := &l.batch[i]
		if now.Sub(q.at) > lateAfter {
			d.busy(q.p, busyLate, &d.sa.changing)
			continue
		}
		switch d.answer(q.p, &l.src, &l.req, &l.reply, &l.buf, &d.sa.changing) {
		case sa.Drop:
			bump(&d.sa.changing.dropped)
		case sa.Answered: // refused, so nothing changes
			d.sa.changing.took[attrSlot(q.p.Data)].addTime(d.now().Sub(q.at))
		case sa.ForCore:
			l.req.Asked = q.at
			l.list = append(l.list, l.req)
		}
	}
	if len(l.list) == 0 {
		return
	}
	d.sa.batches.add(uint64(len(l.list)), uint64(len(l.list)))
	p := d.cfg.Promises
	l.shell.Step(sa.Requests{List: l.list, Unsure: p != nil && p.Unsure()})
	clear(l.list) // the packets are returned
}

func (l *saLoop) Now() mad.Time { return l.d.now() }

// Save stores ops on another goroutine: while a disk, a partner or etcd is silent, requests that change
// nothing are answered.
func (l *saLoop) Save(gen uint64, ops []store.Op) {
	l.saves++
	d := l.d
	go func() {
		begin := d.now()
		err := d.apply(ops)
		l.saved <- saved{gen, err, d.now().Sub(begin)}
	}()
}

// written passes the result of a write to the core, and then the requests that waited.
func (l *saLoop) written(r saved) {
	l.saves--
	l.d.sa.persist.addTime(r.took)
	if r.err != nil {
		l.failed = r.err
	}
	l.shell.Step(sa.Persisted{Gen: r.gen, Err: r.err})
	if n, _ := l.d.changes.load(); n > 0 { // they may have waited for this
		l.d.changes.bell.ring()
	}
}

// settle waits until nothing is being written.
func (l *saLoop) settle() {
	for l.saves > 0 {
		l.written(<-l.saved)
	}
}

func (l *saLoop) Published(*sa.View) {}

func (l *saLoop) Promised(list []store.Record) { l.d.cfg.Promises.Promise(list) }

// Unsaved reports, for the readiness probe, whether acknowledged changes wait for the store.
func (l *saLoop) Unsaved(n int) {
	was := l.d.unsaved.Load()
	switch {
	case n > 0:
		if was == nil || was.n != n || was.err != l.failed {
			l.d.unsaved.Store(&unsavedChanges{n, l.failed})
		}
	case was != nil:
		l.d.unsaved.Store(nil)
	}
}

// Replies sends answers, several at once if the port does that: those of one write to the store become
// due together.
func (l *saLoop) Replies(list []sa.Reply) {
	for len(list) > 0 {
		n := l.sendSome(list)
		now := l.d.now()
		for i := range list[:n] {
			r := &list[i]
			l.d.sa.changing.took[attrSlot(r.Data)].addTime(now.Sub(r.Asked))
		}
		list = list[n:]
	}
}

// sendSome sends the first of some answers, and as many more as the port takes without waiting. It returns
// how many are done with.
func (l *saLoop) sendSome(list []sa.Reply) (done int) {
	if l.burst != nil {
		n := 0
		for n < min(len(list), len(l.answers)) && (l.burst.BurstsRMPP() || !segmented(list[n].Data)) {
			l.answers[n] = mad.Packet{Addr: list[n].To, LocalQP: 1, Data: list[n].Data}
			n++
		}
		if n > 1 {
			if done, _ = l.burst.TrySend(l.answers[:n]); done > 0 {
				return done
			}
		}
	}
	p := mad.Packet{Addr: list[0].To, LocalQP: 1, Data: list[0].Data}
	if err := l.d.cfg.Port.Send(&p); err != nil {
		l.d.unsent(askedFor(&p), err, &l.d.sa.changing)
	}
	return 1
}

func (l *saLoop) Report(p *mad.Packet) {
	if ib.Method(p.Data[3]) == ib.MethodReport {
		bump(&l.d.sa.reports)
	}
	if err := l.d.cfg.Port.Send(p); err != nil {
		bump(&l.d.sa.changing.unsent) // the core repeats a Report that is not answered
	}
}

func (l *saLoop) Wake(at mad.Time) { l.alarm.set(l.d.now(), at) }

// unsavedChanges are changes that the SA has acknowledged and the store has not saved.
type unsavedChanges struct {
	n   int
	err error
}

// Tell logs the SA's notices and adds them to the events, within the limit.
func (l *saLoop) Tell(notices []sa.Notice) {
	for i := range notices {
		n := &notices[i]
		allowed, cut := l.told.allow(l.d.now(), n.Kind, n.By)
		l.d.tellCut(cut)
		if !allowed {
			bump(&l.d.sa.noticesCut)
			continue
		}
		level := slog.LevelInfo
		if n.Warn {
			level = slog.LevelWarn
		}
		l.d.note(level, n.Kind, n.Text, nil)
	}
	l.cut.set(l.d.now(), l.told.due())
}
