package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"heddle/congestion"
	"heddle/mad"
	"heddle/perf"
)

// agentQueue is how many answers of agents may wait for a manager. Its core has fewer requests in
// flight.
const agentQueue = 512

// agentSide is a Daemon's part of a manager that asks agents: the performance manager, and the
// congestion control manager.
type agentSide struct {
	packets chan *mad.Packet // answers; nil: there is no such manager
	mail    bell
	lost    atomic.Uint64 // answers for which there was no room
	unsent  atomic.Uint64
}

func (a *agentSide) open() { a.packets, a.mail = make(chan *mad.Packet, agentQueue), newBell() }

// answered takes an answer of an agent, and returns a packet for the next receive. Without a manager
// the answer is dropped: another program on the port asked for it. The SA's queries do not wait for
// these answers, so the receiver does not count them as handed over.
func (d *Daemon) answered(a *agentSide, p *mad.Packet) *mad.Packet {
	if a.packets == nil {
		return p
	}
	select {
	case a.packets <- p:
		return d.packet(nil)
	default: // the core repeats the request
		bump(&a.lost)
		return p
	}
}

// agentLoop is what the goroutines of these managers have in common.
type agentLoop struct {
	d     *Daemon
	side  *agentSide
	alarm alarm
	told  noticeLimit
	burst mad.Burster   // nil: one packet at a time
	list  []*mad.Packet // those that one step takes
}

func (d *Daemon) newAgentLoop(side *agentSide) agentLoop {
	return agentLoop{d: d, side: side, alarm: newAlarm(), burst: burstsOf(d.cfg.Port)}
}

// background starts a goroutine; end stops it and waits for it.
func background(run func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// take adds the answers that wait to the list, so that one step takes them and the requests that it
// makes leave together.
func (l *agentLoop) take() {
	for len(l.list) < agentQueue {
		select {
		case p := <-l.side.packets:
			l.list = append(l.list, p)
		default:
			return
		}
	}
}

// recycle gives the packets of the list back, and empties it.
func (l *agentLoop) recycle() {
	for _, p := range l.list {
		l.d.free.put(p)
	}
	l.list = l.list[:0]
}

func (l *agentLoop) Now() mad.Time { return l.d.now() }

// Send sends requests. The core repeats those that are not answered, so an error is only counted.
func (l *agentLoop) Send(list []mad.Packet) {
	unsent, _ := sendAll(l.d.cfg.Port, l.burst, list)
	l.side.unsent.Add(unsent)
}

// tell logs a notice of a core and adds it to the events, within the limit.
func (l *agentLoop) tell(kind string, warn bool, text string) {
	if ok, _ := l.told.allow(l.d.now()); !ok {
		l.d.noticesCut.Add(1)
		return
	}
	level := slog.LevelInfo
	if warn {
		level = slog.LevelWarn
	}
	l.d.note(level, kind, text, nil)
}

// sendAll sends a list, in a burst or a batch if the port does that. It returns how many the port
// refused, and why it refused the last of them.
func sendAll(port mad.Transport, burst mad.Burster, list []mad.Packet) (unsent uint64, why error) {
	refused := func(err error) {
		unsent++
		why = err
		list = list[1:]
	}
	if burst != nil {
		n, err := burst.TrySend(list)
		if list = list[n:]; err != nil && len(list) > 0 {
			refused(err)
		}
	}
	batch, _ := port.(mad.Batcher)
	for len(list) > 0 { // those for which there was no room wait for it
		n, err := 0, error(nil)
		if batch != nil {
			n, err = batch.SendAll(list)
		} else if err = port.Send(&list[0]); err == nil {
			n = 1
		}
		if list = list[n:]; err != nil {
			refused(err)
		}
	}
	return unsent, why
}

// agentWindows are how many requests the performance manager, perf of them unless 0, and the
// congestion control manager may have in flight on a port that takes most; 0: any number. They are two
// of several that send through the port, and get at most half of it together, also while congestion
// control is off: its mode may change.
func agentWindows(most, perf, congestion int) (p, c int) {
	half := most / 2
	if most <= 0 || perf+congestion <= half {
		return perf, congestion
	}
	c = max(1, min(congestion, max(half/2, half-perf)))
	if perf > 0 {
		perf = max(1, min(perf, half-c))
	}
	return perf, c
}

// startAgents makes the performance manager, if there is to be one, and the congestion control manager.
func (d *Daemon) startAgents() {
	counters, settings := d.cfg.Perf, d.cfg.Congestion
	settings.Window = cmp.Or(settings.Window, congestion.Defaults().Window)
	most := d.cfg.Port.MaxInFlight()
	if counters != nil {
		c := *counters
		c.Window, settings.Window = agentWindows(most, cmp.Or(c.Window, perf.Defaults().Window), settings.Window)
		d.startPerf(c)
	} else {
		_, settings.Window = agentWindows(most, 0, settings.Window)
	}
	d.startCongestion(settings)
}
