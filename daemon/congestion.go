package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"

	"heddle/api"
	"heddle/api/metrics"
	"heddle/api/show"
	"heddle/congestion"
	"heddle/mad"
	"heddle/shell"
)

// congestionSide is a Daemon's part of the congestion control manager. In the mode Off it waits for
// another one.
type congestionSide struct {
	agentSide
	core *congestion.Core
}

// startCongestion makes the congestion control manager.
func (d *Daemon) startCongestion(cfg congestion.Config) {
	cfg.FirstTID, cfg.TransportTimed = rand.Uint32(), d.cfg.Core.TransportTimed
	c := &d.congestion
	c.open()
	c.core = congestion.New(cfg)
	d.shared.WakeCongestion = c.mail.ring
}

// congestionLoop is the goroutine that owns the congestion control manager's core. It implements
// shell.CongestionEdge.
type congestionLoop struct {
	agentLoop
	shell *shell.Congestion
}

// controlCongestion starts the goroutine of the congestion control manager; end stops it and waits
// for it.
func (d *Daemon) controlCongestion() (end func()) {
	l := &congestionLoop{agentLoop: d.newAgentLoop(&d.congestion.agentSide)}
	l.shell = shell.NewCongestion(d.congestion.core, l, &d.shared)
	return background(l.run)
}

func (l *congestionLoop) run(ctx context.Context) {
	defer l.alarm.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.side.mail:
			l.shell.Mail()
		case p := <-l.side.packets:
			l.received(p)
		case <-l.alarm.timer.C:
			l.alarm.rang()
			l.shell.Step(congestion.Timer{})
		}
	}
}

// received takes all answers that wait in one step, whose requests then leave together.
func (l *congestionLoop) received(first *mad.Packet) {
	l.list = append(l.list, first)
	l.take()
	l.shell.Step(congestion.Received{List: l.list})
	l.recycle()
}

func (l *congestionLoop) Published(*congestion.View) {}

func (l *congestionLoop) Wake(at mad.Time) { l.alarm.set(l.d.now(), at) }

// Tell logs the core's notices and adds them to the events.
func (l *congestionLoop) Tell(notices []congestion.Notice) {
	for i := range notices {
		l.tell(notices[i].Kind, notices[i].Warn, notices[i].Text)
	}
}

// Congestion implements api.Backend, as does the method below.
func (d *Daemon) Congestion(q api.CongestionQuery) (api.Congestion, error) {
	return show.Congestion(d.shared.Congestion.Load(), d.clock.started, q)
}

func (d *Daemon) SetCongestionMode(name string) error {
	m, ok := congestion.ModeOf(name)
	if !ok {
		return fmt.Errorf("%q is no mode: there are off, observe, act and withdraw", name)
	}
	d.shared.SetCongestionMode(m)
	return nil
}

// congestionValues are the counters of the congestion control manager; nil: nobody wanted it yet.
func (d *Daemon) congestionValues() *metrics.Congestion {
	x := &metrics.Congestion{Mode: d.cfg.Congestion.Mode.String(), Lost: d.congestion.lost.Load(), Unsent: d.congestion.unsent.Load()}
	switch v := d.shared.Congestion.Load(); {
	case v != nil:
		x.Status, x.Mode = v.Status, v.Mode.String()
	case d.cfg.Congestion.Mode == congestion.Off:
		return nil
	}
	return x
}
