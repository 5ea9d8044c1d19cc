package daemon

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"heddle/api"
	"heddle/api/exporter"
	"heddle/api/metrics"
	"heddle/api/show"
	"heddle/mad"
	"heddle/perf"
	"heddle/shell"
)

// perfQueue is how many answers of performance agents may wait. The core has fewer requests in
// flight.
const perfQueue = 512

// perfSide is a Daemon's part of the performance manager. Without one its channel is nil, and the
// answers to other programs on the port are dropped as before.
type perfSide struct {
	packets chan *mad.Packet // nil: there is no performance manager
	mail    bell
	core    *perf.Core
	lost    atomic.Uint64 // answers for which there was no room
	unsent  atomic.Uint64
	worst   atomic.Pointer[worstPorts]
}

// startPerf makes the performance manager.
func (d *Daemon) startPerf(cfg perf.Config) {
	// It is one of several that send through the port, and gets at most half of what the port takes.
	if n := d.cfg.Port.MaxInFlight(); n > 0 {
		cfg.Window = min(cfg.Window, max(1, n/2))
	}
	cfg.FirstTID, cfg.TransportTimed = rand.Uint32(), d.cfg.Core.TransportTimed
	d.perf = perfSide{packets: make(chan *mad.Packet, perfQueue), mail: newBell(), core: perf.New(cfg)}
	d.shared.WakePerf = d.perf.mail.ring
	d.lookForFindings()
	if d.cfg.Meter == nil {
		d.cfg.Meter = show.RoundMeter(d.Round)
	}
}

// perfLoop is the goroutine that owns the performance manager's core. It implements
// shell.PerfEdge.
type perfLoop struct {
	d     *Daemon
	shell *shell.Perf
	alarm alarm
	told  noticeLimit
	burst mad.Burster   // nil: one packet at a time
	list  []*mad.Packet // those that one step takes
}

// perfTick is how often answers are taken while requests are in flight.
const perfTick = time.Millisecond

// readCounters starts the goroutine of the performance manager, if there is one; end stops it and
// waits for it.
func (d *Daemon) readCounters() (end func()) {
	if d.perf.packets == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	l := &perfLoop{d: d, alarm: newAlarm(), burst: burstsOf(d.cfg.Port)}
	l.shell = shell.NewPerf(d.perf.core, l, &d.shared)
	running.Go(func() { l.run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (l *perfLoop) run(ctx context.Context) {
	defer l.alarm.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.d.perf.mail:
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
	l.list = l.list[:0]
	for len(l.list) < perfQueue {
		select {
		case p := <-l.d.perf.packets:
			l.list = append(l.list, p)
			continue
		default:
		}
		break
	}
	if len(l.list) == 0 {
		l.shell.Step(perf.Timer{})
		return
	}
	l.shell.Step(perf.Received{List: l.list})
	for _, p := range l.list {
		l.d.free.put(p)
	}
}

func (l *perfLoop) Now() mad.Time { return l.d.now() }

// Send sends requests. The core repeats those that are not answered, so an error is only counted.
func (l *perfLoop) Send(list []mad.Packet) {
	if l.burst != nil {
		n, err := l.burst.TrySend(list)
		if list = list[n:]; err != nil && len(list) > 0 {
			l.d.perf.unsent.Add(1)
			list = list[1:]
		}
	}
	for i := range list { // those for which there was no room wait for it
		if err := l.d.cfg.Port.Send(&list[i]); err != nil {
			l.d.perf.unsent.Add(1)
		}
	}
}

func (l *perfLoop) Published(*perf.Round) {}

func (l *perfLoop) Wake(at mad.Time) {
	now := l.d.now()
	if l.d.perf.core.Waiting() {
		at = min(at, now.Add(perfTick))
	}
	l.alarm.set(now, at)
}

// Tell logs the core's notices and adds them to the events, within the limit.
func (l *perfLoop) Tell(notices []perf.Notice) {
	for i := range notices {
		n := &notices[i]
		if ok, _ := l.told.allow(l.d.now()); !ok {
			bump(&l.d.noticesCut)
			continue
		}
		level := slog.LevelInfo
		if n.Warn {
			level = slog.LevelWarn
		}
		l.d.note(level, n.Kind, n.Text, nil)
	}
}

// counted takes an answer of a performance agent, and returns a packet for the next receive.
func (d *Daemon) counted(p *mad.Packet) *mad.Packet {
	if d.perf.packets == nil {
		return p
	}
	select {
	case d.perf.packets <- p:
		// No r.handed: the SA's queries do not wait for counters.
		return d.packet(nil)
	default: // the core repeats the request
		bump(&d.perf.lost)
		return p
	}
}

// Round is the newest round of the performance manager; nil: there is none yet, or none at all.
func (d *Daemon) Round() *perf.Round { return d.shared.Round.Load() }

// Counters implements api.Backend, as do the methods below.
func (d *Daemon) Counters(q api.CountersQuery) (api.Counters, error) {
	return show.Counters(d.Round(), q)
}

func (d *Daemon) PortCounters(guid string, num int) (api.PortCounters, error) {
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
	if w := d.perf.worst.Load(); w != nil && w.round == r && w.limit == limit {
		return w.tables
	}
	w := &worstPorts{r, limit, show.Worst(r, limit)}
	d.perf.worst.Store(w)
	return w.tables
}

func (d *Daemon) CountersDump(mach bool) string {
	return show.CountersDump(d.Round(), d.clock.started, mach)
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
