package process

import (
	"context"
	"sync"
	"time"

	"heddle/sm"
	"heddle/subnet"
)

// prepareRest is how long the standby rests after it has prepared, in parts of the time that it took:
// a subnet that changes without a pause costs it a tenth of a processor.
const prepareRest = 9

// prepared is how the LIDs of the partner's port come to this manager's.
type prepared struct {
	mu    sync.Mutex       // held while it is computed
	of    *subnet.Snapshot // guarded by mu
	float *sm.Float        // nil: a sweep has to do it. Guarded by mu
	err   error            // why; guarded by mu
}

// prepare prepares for what the partner publishes, until ctx ends.
func (p *Pair) prepare(ctx context.Context) {
	for {
		select {
		case <-p.shown:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		if s := p.pair.Shown(); s != nil {
			p.prepareFor(s)
		}
		select {
		case <-time.After(prepareRest * time.Since(began)):
		case <-ctx.Done():
			return
		}
	}
}

// prepareFor returns what is prepared for a snapshot. It computes that if it is not.
func (p *Pair) prepareFor(s *subnet.Snapshot) *sm.Float {
	x := &p.prepared
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.float != nil && x.float.For(s, x.of) {
		x.of = s
		return x.float
	}
	was := x.err
	if x.float, x.err = p.cfg.Prepare(s); x.err != nil && (was == nil || was.Error() != x.err.Error()) {
		p.cfg.Log.Info("after a takeover a sweep brings the LID of the manager to this port", "kind", "sm_lid", "why", x.err)
	}
	x.of = s
	return x.float
}

// warm is what the partner published last, and how the LIDs of its port come to this manager's.
func (p *Pair) warm() (*subnet.Snapshot, *sm.Float) {
	s := p.pair.Warm()
	if s == nil || p.cfg.Prepare == nil {
		return s, nil
	}
	return s, p.prepareFor(s)
}
