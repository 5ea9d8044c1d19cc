package daemon

import (
	"context"
	"log/slog"
	"time"

	"heddle/ib"
	"heddle/mad"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// saLoop is the goroutine that owns the SA's core: what changes groups,
// services, subscriptions and alias GUIDs, and the Reports. Queries do not
// pass through it.
type saLoop struct {
	d      *Daemon
	core   *sa.Core
	out    sa.Output
	seen   *subnet.Snapshot // the core knows it
	alarm  alarm
	told   eventLimit
	failed error // of the store, the last one
	cut    alarm // when what told left out is to be told

	src   sa.Source
	req   sa.Request
	reply mad.Packet
	buf   []byte
	batch [maxChanges]query
	n     int          // of batch, whose packets have not been given back
	list  []sa.Request // of batch, those that the core is to see
	of    []int        // where they stand in batch
}

func newSALoop(d *Daemon) *saLoop {
	cfg := d.cfg.Registry
	cfg.SAKey, cfg.TrustLocal = d.cfg.SA.SAKey, d.cfg.SA.TrustLocal
	cfg.FirstTID, cfg.TransportTimed = d.cfg.Core.FirstTID, d.cfg.Core.TransportTimed
	if d.cfg.Core.NoReregister {
		cfg.RejoinTime = 0 // nobody was asked to join again
	}
	l := &saLoop{d: d, alarm: newAlarm(), cut: newAlarm(), core: sa.NewCore(cfg)}
	return l
}

// start restores what the store held, before the first answer.
func (l *saLoop) start(records []store.Record) {
	l.step(sa.Start{Records: records, Wall: time.Now().UnixNano()})
}

func (l *saLoop) run(ctx context.Context) {
	defer l.alarm.timer.Stop()
	defer l.cut.timer.Stop()
	d := l.d
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.published:
			l.look()
		case <-d.changes.bell:
			l.look()
			l.change()
		case t := <-d.traps:
			l.look()
			l.step(t)
		case p := <-d.reports:
			if p.Status == mad.Failed {
				bump(&d.sa.reportsBack)
			}
			l.step(sa.Received{P: p})
			d.free.put(p)
		case <-l.alarm.timer.C:
			l.alarm.rang()
			l.step(sa.Timer{})
		case <-l.cut.timer.C:
			l.cut.rang()
			d.tellCut(l.told.end())
		}
	}
}

// look shows the core the newest snapshot. The loop does so before anything
// that rests on it: a requester that the workers know, the core knows too.
func (l *saLoop) look() {
	if s := l.d.snap.Load(); s != l.seen {
		l.seen = s
		l.step(sa.Published{Snap: s})
	}
}

// change takes what waits, up to a batch, and makes one step of it: one write
// to the store for all.
func (l *saLoop) change() {
	d := l.d
	l.n = d.changes.take(l.batch[:], l.batch[:l.n], 1)
	if l.n == 0 {
		return
	}
	now := d.now()
	l.list, l.of = l.list[:0], l.of[:0]
	for i := range l.batch[:l.n] {
		q := &l.batch[i]
		if now.Sub(q.at) > lateAfter {
			d.busy(q.p, busyLate, &d.sa.changing)
			continue
		}
		switch d.answer(q.p, &l.src, &l.req, &l.reply, &l.buf, &d.sa.changing) {
		case sa.Drop:
			bump(&d.sa.changing.dropped)
		case sa.Answered: // refused: nothing to change
			d.sa.changing.took[attrSlot(q.p.Data)].addTime(d.now().Sub(q.at))
		case sa.ForCore:
			l.list, l.of = append(l.list, l.req), append(l.of, i)
		}
	}
	if len(l.list) == 0 {
		return
	}
	d.sa.batches.add(uint64(len(l.list)), uint64(len(l.list)))
	l.step(sa.Requests{List: l.list})
	now = d.now()
	for _, i := range l.of {
		q := &l.batch[i]
		d.sa.changing.took[attrSlot(q.p.Data)].addTime(now.Sub(q.at))
	}
	clear(l.list) // the packets go back
}

// step hands the core one event and does what it asks for, in the order of
// sa.Output.
func (l *saLoop) step(ev sa.Event) {
	d := l.d
	for ev != nil {
		l.out.Reset()
		l.core.Step(d.now(), ev, &l.out)
		ev = nil
		out := &l.out
		if len(out.Persist) > 0 || out.PersistGen != 0 {
			begin := d.now()
			err := d.cfg.Store.Apply(out.Persist)
			d.sa.persist.addTime(d.now().Sub(begin))
			ev = sa.Persisted{Gen: out.PersistGen, Err: err}
			if err != nil {
				l.failed = err
			}
		}
		if out.Publish != nil {
			d.view.Store(out.Publish)
		}
		l.waits() // before anybody is told
		for i := range out.Replies {
			r := &out.Replies[i]
			l.reply = mad.Packet{Addr: r.To, LocalQP: 1, Data: r.Data}
			if err := d.cfg.Port.Send(&l.reply); err != nil {
				d.unsent(askedFor(&l.reply), err, &d.sa.changing)
			}
		}
		for i := range out.Sends {
			p := &out.Sends[i]
			if ib.Method(p.Data[3]) == ib.MethodReport {
				bump(&d.sa.reports)
			}
			if err := d.cfg.Port.Send(p); err != nil {
				bump(&d.sa.changing.unsent) // the core repeats a Report that is not answered
			}
		}
		if out.GroupsChanged {
			d.groups.put(withStanding(out.Groups, d.cfg.Groups))
		}
		if out.AliasesChanged {
			d.aliases.put(out.Aliases)
		}
		if len(out.Read) > 0 {
			d.reads.update(func(waiting []ib.GUID) []ib.GUID { return append(waiting, out.Read...) })
		}
		l.tell(out.Notices)
		l.alarm.set(d.now(), out.Timer)
	}
}

// waits says whether acknowledged changes wait for the store, for the readiness probe.
func (l *saLoop) waits() {
	n := l.core.Unsaved()
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

// unsavedChanges are changes that the SA has acknowledged and the store has not taken.
type unsavedChanges struct {
	n   int
	err error
}

// withStanding adds the groups that are always there to those of the SA,
// unless the SA has their MGID or MLID.
func withStanding(groups []subnet.Group, standing []sm.Group) []subnet.Group {
	if len(standing) == 0 {
		return groups
	}
	mgids, mlids := map[ib.GID]bool{}, map[ib.LID]bool{}
	for i := range groups {
		mgids[groups[i].MGID], mlids[groups[i].MLID] = true, true
	}
	out := append([]subnet.Group(nil), groups...)
	for _, g := range standing {
		if !mgids[g.MGID] && !mlids[g.MLID] {
			out = append(out, g)
		}
	}
	return out
}

// tell logs what the SA has to say and keeps it as events, as far as the
// limit goes.
func (l *saLoop) tell(notices []sa.Notice) {
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

// noticeLimit keeps hosts that join and leave all day from filling the log
// and from pushing other events out of the ring.
type noticeLimit struct {
	began mad.Time
	told  int
	cut   int
}

// At most noticesPerSpan notices are told in noticeSpan.
const (
	noticesPerSpan = 200
	noticeSpan     = 10 * time.Second
)

// allow reports whether one more notice may be told at now, and how many were
// not told before a new span began.
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
