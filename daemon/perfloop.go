package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"heddle/api"
	"heddle/api/exporter"
	"heddle/api/metrics"
	"heddle/api/show"
	"heddle/mad"
	"heddle/perf"
	"heddle/shell"
	"heddle/subnet"
)

// perfSide is a Daemon's part of the performance manager.
type perfSide struct {
	agentSide
	core  *perf.Core
	hot   *shell.HotSpots
	spots hotSpots
	// rounds wait for the goroutine that evaluates them. None is left out: if that takes longer than
	// a period, reading waits.
	rounds chan *perf.Round
	worst  atomic.Pointer[worstPorts]
	ends   atomic.Int64 // mad.Time at which the round under way is to end; 0: none has begun
}

// startPerf makes the performance manager.
func (d *Daemon) startPerf(cfg perf.Config) {
	cfg.FirstTID, cfg.TransportTimed = rand.Uint32(), d.cfg.Core.TransportTimed
	d.perf.open()
	d.perf.core = perf.New(cfg)
	d.perf.rounds = make(chan *perf.Round, 1)
	d.shared.WakePerf = d.perf.mail.ring
	d.lookForFindings()
	d.lookForHotSpots(d.cfg.DFTree)
	if d.cfg.Meter == nil {
		d.cfg.Meter = show.RoundMeter(d.Round)
	}
}

// perfLoop is the goroutine that owns the performance manager's core. It implements
// shell.PerfEdge.
type perfLoop struct {
	agentLoop
	shell *shell.Perf
	over  <-chan struct{} // closed at the end
	doze  mad.Time        // until when the loop sleeps by itself; mad.Never: the alarm wakes it
}

// readCounters starts the goroutine of the performance manager, if there is one; end stops it and
// waits for it.
func (d *Daemon) readCounters() (end func()) {
	if d.perf.packets == nil {
		return func() {}
	}
	l := &perfLoop{agentLoop: d.newAgentLoop(&d.perf.agentSide), doze: mad.Never}
	l.shell = shell.NewPerf(d.perf.core, l, &d.shared)
	endRead, endEvaluate := background(l.run), background(d.evaluate)
	return func() {
		endRead()
		endEvaluate()
	}
}

// evaluate is the goroutine on which cores work on rounds. It takes milliseconds, and tens of them
// where much has changed, so it leaves the processors to the SA, as a routing job does.
func (d *Daemon) evaluate(ctx context.Context) {
	giveWay()
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-d.perf.rounds:
			for _, fn := range d.shared.OnRound {
				fn(r)
			}
		}
	}
}

func (l *perfLoop) run(ctx context.Context) {
	defer l.alarm.timer.Stop()
	l.over = ctx.Done()
	for {
		if l.doze != mad.Never {
			pause(l.doze.Sub(l.d.now()))
			l.doze = mad.Never
			select {
			case <-ctx.Done():
				return
			case <-l.side.mail:
				l.shell.Mail()
			default:
			}
			l.received()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-l.side.mail:
			l.shell.Mail()
		case <-l.alarm.timer.C:
			l.alarm.rang()
			l.received()
		}
	}
}

// received takes all answers that wait in one step, whose requests then leave together. Nobody is
// woken when an answer comes: with thousands a second a wake-up for each would cost more than all the
// rest, and they are not urgent. The SA shares the processors.
func (l *perfLoop) received() {
	l.take()
	if len(l.list) == 0 {
		l.shell.Step(perf.Timer{})
		return
	}
	l.shell.Step(perf.Received{List: l.list})
	l.recycle()
}

func (l *perfLoop) Published(r *perf.Round) {
	select {
	case l.d.perf.rounds <- r:
	case <-l.over:
	}
}

func (l *perfLoop) Wake(at mad.Time) {
	now := l.d.now()
	l.d.perf.ends.Store(int64(l.d.perf.core.Ends()))
	if l.d.perf.core.Waiting() {
		at = min(at, now.Add(l.d.perf.core.Gap()))
	}
	// Timers of the runtime are late by up to a millisecond, and all that is due by then would be
	// sent at once.
	if at.Sub(now) <= shortest {
		l.doze, at = at, mad.Never
	} else {
		l.doze = mad.Never
	}
	l.alarm.set(now, at)
}

// Tell logs the core's notices and adds them to the events.
func (l *perfLoop) Tell(notices []perf.Notice) {
	for i := range notices {
		l.tell(notices[i].Kind, notices[i].Warn, notices[i].Text)
	}
}

// Round is the newest round of the performance manager; nil: there is none yet, or none at all.
func (d *Daemon) Round() *perf.Round { return d.shared.Round.Load() }

// unread is why no round of counters has ended yet, with what to do about it; "": one has.
func (d *Daemon) unread() string {
	if d.Round() != nil {
		return ""
	}
	switch s := d.Snapshot(); {
	case d.perf.packets == nil:
		return "port counters are not read: start the manager with --perf 10s, which reads them every 10 s"
	case s == nil || s.State != subnet.Master || !s.Up:
		return notMaster
	}
	if left := mad.Time(d.perf.ends.Load()).Sub(d.now()); left > 0 {
		return fmt.Sprintf("the first round of reading port counters ends in %d s", int(math.Ceil(left.Seconds())))
	}
	return "the first round of reading port counters ends soon; ask again in some seconds"
}

// Counters implements api.Backend, as do the methods below.
func (d *Daemon) Counters(q api.CountersQuery) (api.Counters, error) {
	c, err := show.Counters(d.Round(), q)
	c.Note = d.outdated()
	return c, err
}

func (d *Daemon) PortCounters(guid string, num int) (api.PortCounters, error) {
	if why := d.unread(); why != "" {
		return api.PortCounters{}, errors.New(why)
	}
	return show.PortCounters(d.Round(), guid, num)
}

// worstPorts are the tables of a round. Pages ask for them every two seconds, all with one limit.
type worstPorts struct {
	round  *perf.Round
	limit  int
	tables api.Worst
}

func (d *Daemon) Worst(limit int) api.Worst {
	r := d.Round()
	w := d.perf.worst.Load()
	if w == nil || w.round != r || w.limit != limit {
		w = &worstPorts{r, limit, show.Worst(r, limit)}
		d.perf.worst.Store(w)
	}
	out := w.tables
	out.Note = d.outdated()
	return out
}

func (d *Daemon) CountersDump(mach bool) (string, error) {
	if why := d.unread(); why != "" {
		return "", errors.New(why)
	}
	return show.CountersDump(d.Round(), d.clock.started, mach), nil
}

func (d *Daemon) FabricMetrics(w io.Writer, q api.FabricMetrics) error {
	r := d.Round()
	o := exporter.Options{Shard: q.Shard, Of: q.Of, Sparse: q.Sparse}
	if q.Guilbaults {
		o.Names = exporter.Guilbaults
	}
	if r != nil {
		o.Ended = d.clock.started.Add(time.Duration(r.Ended))
	}
	return exporter.Write(w, r, o)
}

// perfValues are the counters of the performance manager; nil: there is none.
func (d *Daemon) perfValues() *metrics.Perf {
	if d.perf.packets == nil {
		return nil
	}
	x := &metrics.Perf{Lost: d.perf.lost.Load(), Unsent: d.perf.unsent.Load()}
	if r := d.Round(); r != nil {
		x.Status = r.Status
	}
	return x
}
