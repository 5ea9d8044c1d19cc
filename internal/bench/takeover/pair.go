package takeover

import (
	"fmt"
	"syscall"
	"time"

	"heddle/api"
	"heddle/internal/bench/pair"
	"heddle/internal/bench/testbed"
	"heddle/sim"
	"heddle/store"
)

// pairDuo is a pair of Heddle's managers.
type pairDuo struct {
	*pair.Pair
	s    *scene
	cut  [2]bool // its host's cable is pulled out
	cold bool    // the standby followed nothing when the last fault was made

	ending chan time.Duration // of a planned end under way: after what time the process had ended; or nil
	end    time.Duration      // the last of these; 0: the last fault was another one
}

// endLimit is when a process must have ended after SIGTERM; docs/ha.md says 5 s.
const endLimit = 10 * time.Second

// startPair brings a subnet up with two managers.
func startPair(b *testbed.Testbed, hosts int) (*scene, *pairDuo, error) {
	s, err := newScene(hosts, b.Name())
	if err != nil {
		return nil, nil, err
	}
	p := &pairDuo{s: s}
	if p.Pair, err = pair.New(b, s.managersAt()); err != nil {
		s.end()
		return nil, nil, err
	}
	for i := 0; i < 2 && err == nil; i++ {
		err = p.start(i)
	}
	if err == nil {
		_, err = p.settled()
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, p.Tail())
		p.stop()
		s.end()
		return nil, nil, err
	}
	return s, p, nil
}

func (p *pairDuo) stop() { p.Kill() }

// start starts manager i, on a host that works.
func (p *pairDuo) start(i int) (err error) {
	if p.ending != nil {
		select {
		case p.end = <-p.ending:
			p.ending = nil
		case <-time.After(endLimit):
			return fmt.Errorf("after SIGTERM the process has not ended within %v", endLimit)
		}
		if err := p.Programs[i].Err(); err != nil {
			return fmt.Errorf("after SIGTERM: %w", err)
		}
	}
	if p.cut[i] {
		testbed.Kill(p.Programs[i]) // it must not wake up on a host that works
		p.s.d.Do(func(net *sim.Subnet) { err = net.LinkUp(p.s.nodes[i], 1) })
		if err != nil {
			return err
		}
		p.cut[i] = false
	}
	return p.Start(i)
}

// settled waits until both have all entries, the standby follows what the active one publishes, the
// subnet is up, and all hosts are members.
func (p *pairDuo) settled() (int, error) {
	return p.Until("a warm pair", func(active int, h *[2]api.HA) (bool, error) {
		var st api.Status
		if err := p.Ask(active, "/v1/status", &st); err != nil || !st.SubnetUp || !h[1-active].Pair.Warm {
			return false, err
		}
		return p.s.joinedAll(p.s.lidOf(active)), nil
	})
}

// fail notes whether the standby is warm, and has the active manager fail.
func (p *pairDuo) fail(i int, how string) error {
	h, err := p.Status()
	if err != nil {
		return err
	}
	if !h[i].Active {
		return errMoved
	}
	p.cold, p.end = !h[1-i].Pair.Warm, 0
	switch how {
	case killed:
		p.Programs[i].Signal(syscall.SIGKILL)
	case dead:
		p.Programs[i].Signal(syscall.SIGSTOP)
		p.s.d.Do(func(net *sim.Subnet) { err = net.LinkDown(p.s.nodes[i], 1) })
		p.cut[i] = true
		return err
	case ended:
		prog, begin, ending := p.Programs[i], time.Now(), make(chan time.Duration, 1)
		prog.Signal(testbed.EndSignal)
		go func() {
			<-prog.Done()
			ending <- time.Since(begin)
		}()
		p.ending = ending
	case handover:
		return p.Handover(i)
	}
	return nil
}

func (p *pairDuo) last(i int) (uint64, error) {
	var h api.HA
	err := p.Ask(i, "/v1/ha", &h)
	if err != nil {
		return 0, err
	}
	return h.Pair.Entry, nil
}

func (p *pairDuo) joins(i int, after uint64) (n int, err error) {
	list, err := p.Entries(i, after)
	for _, e := range list {
		for _, o := range e.Ops {
			if o.Kind == store.PutRecord && o.Record.Table == store.TableMembers {
				n++
			}
		}
	}
	return n, err
}
