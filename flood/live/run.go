package live

import (
	"context"
	"time"

	"heddle/flood"
	"heddle/mad"
)

// Flooder is a flooder on its port.
type Flooder struct {
	*flood.Flooder
	Port *Port
}

// progressEvery is the interval between calls of watch.
const progressEvery = 200 * time.Millisecond

// Run runs a program on flooders until it is done, ctx ends or a port is lost.
// When ctx ends, the measurements stay and the error is nil. Watch, if not nil,
// is called periodically with every flooder at rest.
func Run(ctx context.Context, fs []Flooder, prog flood.Program, watch func()) error {
	wake := make(chan struct{}, 1)
	lost := make(chan error, len(fs))
	over := make(chan struct{})
	defer close(over)
	for _, f := range fs {
		// Step the program when a flooder becomes populated or idle.
		var populated, idle bool
		f.Port.use(f.Flooder, func() {
			p, i := f.Populated(), f.Idle()
			if p && !populated || i && !idle {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
			populated, idle = p, i
		})
		defer f.Port.use(nil, nil)
		go func() {
			select {
			case <-f.Port.lost:
				lost <- f.Port.failure()
			case <-over:
			}
		}()
	}
	r := runner{fs: fs}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var ticks <-chan time.Time
	if watch != nil {
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		ticks = t.C
	}
	for {
		next, done, now := r.step(prog)
		if done {
			return nil
		}
		if next != mad.Never {
			timer.Reset(max(0, next.Sub(now)))
		}
		select {
		case <-wake:
		case <-timer.C:
		case <-ticks:
			r.rest(func(mad.Time) { watch() })
		case err := <-lost:
			r.rest(prog.Cut)
			return err
		case <-ctx.Done():
			r.rest(prog.Cut)
			return nil
		}
	}
}

// runner locks the flooders. There is one, and it locks the ports in order.
type runner struct{ fs []Flooder }

// step runs the program's due steps, and sends the resulting packets.
func (r *runner) step(prog flood.Program) (next mad.Time, done bool, now mad.Time) {
	r.rest(func(t mad.Time) {
		now = t
		next, done = prog.Step(now)
	})
	for _, f := range r.fs {
		f.Port.mu.Lock()
		f.Port.poll(f.Port.now())
		f.Port.mu.Unlock()
	}
	return next, done, now
}

func (r *runner) rest(do func(mad.Time)) {
	for _, f := range r.fs {
		f.Port.mu.Lock()
	}
	do(r.fs[0].Port.now())
	for _, f := range r.fs {
		f.Port.mu.Unlock()
	}
}
