package process

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heddle/shell"
)

// TestHang: a loop that is in one step for less than 3 s never counts as one that hangs. One that is
// longer does from then on, until it turns; if another manager has taken over meanwhile, nothing is sent.
func TestHang(t *testing.T) {
	const every = 250 * time.Millisecond
	for _, c := range []struct {
		step  time.Duration
		leads bool
		hangs bool
		after uint16 // what the port names as LID of the SM after the step
		sent  bool
	}{
		{step: time.Second, leads: true, after: 1, sent: true},
		{step: shell.StandInTime - time.Millisecond, leads: true, after: 1, sent: true},
		{step: shell.StandInTime + every + time.Millisecond, leads: true, hangs: true, after: 1, sent: true},
		{step: 10 * time.Second, leads: true, hangs: true, after: 2, sent: false},
		{step: 10 * time.Second, leads: false, after: 1, sent: true}, // on standby
	} {
		synctest.Test(t, func(t *testing.T) {
			w := watch(t, names(1))
			defer w.close()
			ctx, cancel := context.WithCancel(t.Context())
			ask := make(chan struct{})
			var mu sync.Mutex
			began := time.Now()      // guarded by mu
			var told []time.Duration // when it began to hang, and no more; guarded by mu
			h := hangs{
				every: every,
				turns: func(ctx context.Context) error {
					select {
					case ask <- struct{}{}:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				},
				leads: func() bool { return c.leads },
				tell: func(hung bool) {
					mu.Lock()
					defer mu.Unlock()
					if hung != (len(told)%2 == 1) {
						told = append(told, time.Since(began))
					}
				},
				doubt: w.kept.look.doubt,
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				h.watch(ctx)
			}()
			loop := func(d time.Duration) {
				for end := time.After(d); ; {
					select {
					case <-ask:
					case <-end:
						return
					}
				}
			}
			loop(10 * time.Second)
			mu.Lock()
			if len(told) > 0 {
				t.Errorf("a loop that turns hangs after %v", told)
			}
			began = time.Now()
			mu.Unlock()
			<-time.After(c.step - time.Millisecond)
			w.answers(names(1))
			if c.after == 2 {
				w.answers(names(2)) // it has been taken over
			}
			<-time.After(time.Millisecond)
			w.all(w.send(1), c.sent)
			loop(time.Second)
			cancel()
			<-done
			switch {
			case !c.hangs && len(told) > 0:
				t.Errorf("a step of %v counts as hanging after %v", c.step, told[0])
			case c.hangs && (len(told) != 2 || told[0] < shell.StandInTime || told[0] > shell.StandInTime+every || told[1] != c.step):
				t.Errorf("a step of %v: hangs, and turns again, after %v", c.step, told)
			}
		})
	}
}
