package live

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"heddle/agent"
	"heddle/ib"
	"heddle/mad"
)

// Port is an open port, with what the host's software knows of it.
type Port interface {
	mad.Transport
	// State reads the state of the port. quick: its tables may be those of the last call.
	State(quick bool) agent.Port
	// KeepsTime reports whether the port times requests itself (mad.Config.TransportTimed).
	KeepsTime() bool
}

// PortConfig is a port to serve.
type PortConfig struct {
	Device string // "mlx5_0"
	Num    uint8
	// NodeGUID is that of the device, for EP_QUERY.
	NodeGUID ib.GUID
	// Open opens the port, at the start and after it was lost.
	Open func() (Port, error)
}

const (
	// stateTime is the time between full readings of a port's state, and between tries to open
	// a port that was lost.
	stateTime = 2 * time.Second
	// quickTime is the most that the state may be old when a question is answered.
	quickTime = 50 * time.Millisecond
	// maxAsks bounds the questions that wait for a port's goroutine.
	maxAsks = 1024
)

// portLoop owns a core and its port.
type portLoop struct {
	cfg   PortConfig
	epoch time.Time
	log   *slog.Logger
	core  *agent.Core
	asks  chan question
	calls chan func(now mad.Time)
	state atomic.Pointer[agent.Port] // as the core has it

	// Loop only:
	port    Port
	lost    chan error
	packets chan *mad.Packet
	spare   chan *mad.Packet
	read    time.Time // when the state was read
	out     agent.Output
	tokens  uint64
	waiting map[uint64]func(*agent.Answer)
}

// question is an Ask and what takes its answer, which must not block.
type question struct {
	ask  agent.Ask
	done func(*agent.Answer)
}

func newPortLoop(cfg PortConfig, core agent.Config, epoch time.Time, log *slog.Logger) (*portLoop, error) {
	p, err := cfg.Open()
	if err != nil {
		return nil, err
	}
	core.TransportTimed = p.KeepsTime()
	core.Window = min(core.Window, max(p.MaxInFlight(), 1))
	l := &portLoop{
		cfg: cfg, epoch: epoch, log: log.With("port", cfg.name()), core: agent.New(core), port: p,
		asks: make(chan question, maxAsks), calls: make(chan func(mad.Time)),
		packets: make(chan *mad.Packet, 64), spare: make(chan *mad.Packet, 64), lost: make(chan error, 1),
		waiting: map[uint64]func(*agent.Answer){},
	}
	l.state.Store(&agent.Port{})
	return l, nil
}

func (c *PortConfig) name() string { return portName(c.Device, c.Num) }

func (l *portLoop) now() mad.Time { return mad.Time(time.Since(l.epoch)) }

// run serves the port until ctx ends.
func (l *portLoop) run(ctx context.Context) {
	l.receive(ctx)
	tick := time.NewTicker(stateTime)
	defer tick.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	l.refresh(ctx, false)
	for {
		if l.out.Timer != mad.Never {
			timer.Reset(max(time.Duration(l.out.Timer-l.now()), 0))
		} else {
			timer.Stop()
		}
		select {
		case q := <-l.asks:
			if time.Since(l.read) > quickTime {
				l.refresh(ctx, true)
			}
			l.tokens++
			q.ask.Token = l.tokens
			l.waiting[l.tokens] = q.done
			l.step(q.ask)
		case f := <-l.calls:
			f(l.now())
		case p := <-l.packets:
			l.step(agent.Received{P: p})
			select {
			case l.spare <- p:
			default:
			}
		case <-timer.C:
			l.step(agent.Timer{})
		case <-tick.C:
			l.refresh(ctx, false)
		case err := <-l.lost:
			l.close(err)
		case <-ctx.Done():
			l.close(nil)
			return
		}
	}
}

// step applies one event, and carries out what it asks for.
func (l *portLoop) step(ev agent.Event) {
	l.out.Reset()
	l.core.Step(l.now(), ev, &l.out)
	for i := range l.out.Sends {
		s := &l.out.Sends[i]
		if l.port == nil {
			break
		}
		err := l.port.Send(&mad.Packet{Addr: s.Addr, LocalQP: 1, Timeout: s.Timeout, Data: s.MAD[:]})
		if err != nil {
			l.log.Debug("send", "err", err) // the core repeats it
		}
	}
	for i := range l.out.Answers {
		a := &l.out.Answers[i]
		done := l.waiting[a.Token]
		delete(l.waiting, a.Token)
		if done != nil {
			done(a)
		}
	}
	for _, n := range l.out.Notices {
		level := slog.LevelInfo
		if n.Kind == "noticed" {
			level = slog.LevelDebug // one a Report
		}
		l.log.Log(context.Background(), level, n.Text, "kind", n.Kind)
	}
	if l.out.Refresh {
		l.read = time.Time{} // the next question or tick reads the state
	}
}

// refresh reports the state of the port to the core. A port that was lost is opened again.
func (l *portLoop) refresh(ctx context.Context, quick bool) {
	l.read = time.Now()
	if l.port == nil {
		p, err := l.cfg.Open()
		if err != nil {
			l.log.Debug("the port is still lost", "err", err)
			return
		}
		l.log.Info("the port is back")
		l.port = p
		l.receive(ctx)
	}
	s := l.port.State(quick)
	l.state.Store(&s)
	l.step(agent.SetPort{Port: s})
}

// receive starts the goroutine that reads packets, until the port is closed or lost.
func (l *portLoop) receive(ctx context.Context) {
	p, lost := l.port, make(chan error, 1)
	l.lost = lost
	go func() {
		for {
			var k *mad.Packet
			select {
			case k = <-l.spare:
			default:
				k = &mad.Packet{}
			}
			if err := p.Recv(k); err != nil {
				lost <- err
				return
			}
			select {
			case l.packets <- k:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// close gives up the port, and answers all who wait.
func (l *portLoop) close(err error) {
	if l.port != nil {
		l.port.Close()
		l.port = nil
	}
	if err != nil {
		l.log.Warn("the port is lost; it is opened again when it is back", "err", err)
	}
	l.state.Store(&agent.Port{})
	l.step(agent.SetPort{})
}

// submit passes a question to the loop. It reports false if too many wait.
func (l *portLoop) submit(q question) bool {
	select {
	case l.asks <- q:
		return true
	default:
		return false
	}
}

// ask asks, and waits for the answer at most wait and a little more.
func (l *portLoop) ask(ctx context.Context, a agent.Ask) agent.Answer {
	got := make(chan agent.Answer, 1)
	if !l.submit(question{a, func(x *agent.Answer) { got <- *x }}) {
		return agent.Answer{Result: agent.Busy, Source: agent.FromNone}
	}
	limit := time.NewTimer(a.Wait + askSlack)
	defer limit.Stop()
	select {
	case x := <-got:
		return x
	case <-limit.C:
	case <-ctx.Done():
	}
	return agent.Answer{Result: agent.TimedOut, Source: agent.FromNone}
}

// askSlack is what a question may take beyond its time before the loop counts as stuck.
const askSlack = 200 * time.Millisecond

// call runs f in the loop. It reports false if ctx ended.
func (l *portLoop) call(ctx context.Context, f func(now mad.Time)) bool {
	done := make(chan struct{})
	select {
	case l.calls <- func(now mad.Time) { f(now); close(done) }:
	case <-ctx.Done():
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
