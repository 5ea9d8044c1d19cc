package process_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"heddle/daemon/process"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/etcdmodel"
	"heddle/mad"
	"heddle/sa"
	"heddle/sm"
	"heddle/sm/election"
	"heddle/store"
	"heddle/store/etcd"
)

// node is one manager of a campaign: the real store and the real rule of the term, over a model of etcd;
// and a mastership by the real rules of elections, over a model of the subnet.
type node struct {
	c        *campaign
	i        int
	priority uint8
	part     atomic.Int32 // of the subnet

	mu      sync.Mutex
	cancel  context.CancelFunc // nil: it is dead; guarded by mu
	ended   chan struct{}      // guarded by mu
	client  *etcdmodel.Client  // guarded by mu
	q       *process.Quorum    // nil: it is starting; guarded by mu
	store   *etcd.Store        // guarded by mu
	stopped chan struct{}      // not nil: the process is stopped; guarded by mu
	away    time.Time          // since when it is cut off from etcd; guarded by mu
	calm    time.Time          // since when it runs, and was not stopped; guarded by mu
	handed  bool               // a master hands the subnet over; guarded by mu
	core                       // guarded by mu
}

// core is what the cores of a mandate know.
type core struct {
	state    smp.SMState
	tookOver bool
	view     [campaignKeys]int // what the SA would answer
}

func (n *node) guid() ib.GUID { return ib.GUID(n.i + 1) }

// pause waits, and reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// start starts the process.
func (n *node) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(n.c.ctx)
	n.cancel, n.ended, n.client = cancel, make(chan struct{}), n.c.cluster.Client()
	n.client.Cut(!n.away.IsZero())
	n.calm, n.core, n.handed = time.Now(), core{state: smp.SMDiscovering}, false
	go n.live(ctx, n.client, n.ended)
}

// kill ends the process: nothing that it sends arrives any more.
func (n *node) kill() {
	n.stop(false)
	n.mu.Lock()
	cancel, ended := n.cancel, n.ended
	n.cancel, n.q = nil, nil
	if cancel != nil {
		n.client.Cut(true)
		cancel()
	}
	n.mu.Unlock()
	if cancel != nil {
		<-ended
	}
}

func (n *node) alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cancel != nil
}

// stop stops the process, as SIGSTOP does, and has it go on.
func (n *node) stop(stop bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.cancel == nil:
	case stop && n.stopped == nil:
		n.stopped = make(chan struct{})
		n.client.Stop(true)
	case !stop && n.stopped != nil:
		close(n.stopped)
		n.stopped, n.calm = nil, time.Now()
		n.client.Stop(false)
	}
}

// running waits until the process is not stopped.
func (n *node) running() {
	for {
		n.mu.Lock()
		stopped := n.stopped
		n.mu.Unlock()
		if stopped == nil {
			return
		}
		<-stopped
	}
}

// cut cuts the process off from etcd.
func (n *node) cut(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cut == !n.away.IsZero() {
		return
	}
	n.away = time.Time{}
	if cut {
		n.away = time.Now()
	} else {
		n.calm = time.Now()
	}
	if n.cancel != nil {
		n.client.Cut(cut)
	}
}

// look is how it stands; q is nil if it is dead or stopped.
func (n *node) look() (q *process.Quorum, client *etcdmodel.Client, calm time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped != nil {
		return nil, nil, time.Time{}
	}
	return n.q, n.client, n.calm
}

func (n *node) cutSince() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.away
}

func (n *node) isMaster() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cancel != nil && n.state == smp.SMMaster
}

func (n *node) served() [campaignKeys]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view
}

// values are those of the keys of a campaign in a state.
func values(st *store.State) (v [campaignKeys]int) {
	for _, k := range st.MKeys {
		if i := int(k.GUID) - 1; i < campaignKeys {
			v[i] = int(k.MKey)
		}
	}
	return v
}

// contents reads what etcd has.
func (n *node) contents() (v [campaignKeys]int, ok bool, err error) {
	n.mu.Lock()
	s := n.store
	n.mu.Unlock()
	if s == nil {
		return v, false, errors.New("it is starting")
	}
	st, _, err := s.Contents()
	if err != nil {
		return v, false, err
	}
	return values(st), true, nil
}

// live is the life of a process.
func (n *node) live(ctx context.Context, client *etcdmodel.Client, ended chan struct{}) {
	defer close(ended)
	var s *etcd.Store
	for {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		var err error
		s, err = etcd.Over(limited, n.c.broken.cluster(client), etcd.Options{Wait: time.Second, SnapshotEvery: 20})
		cancel()
		if ctx.Err() != nil {
			if err == nil {
				s.Close()
			}
			return
		}
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrUnavailable) {
			n.c.failf("manager %d cannot open the store: %v", n.i, err)
			return
		}
	}
	defer s.Close()
	q := &process.Quorum{
		Single: process.Single{Open: func(context.Context) (mad.Transport, error) {
			return &port{closed: make(chan struct{}), guid: n.guid()}, nil
		}},
		Terms: n.c.broken.terms(s), Wait: time.Second,
	}
	n.mu.Lock()
	if n.cancel != nil {
		n.q, n.store = q, s
	}
	n.mu.Unlock()
	ran := make(chan struct{})
	whole, end := context.WithCancel(context.WithoutCancel(ctx)) // as Process.Run has it
	go func() {
		defer close(ran)
		if err := q.Run(whole); err != nil {
			n.c.failf("manager %d: %v", n.i, err)
		}
	}()
	read := make(chan struct{})
	go func() { // beside the cores: while etcd is away a read waits for long
		defer close(read)
		n.readOn(whole)
	}()
	for ctx.Err() == nil {
		m, err := q.Await(ctx)
		if err != nil {
			break
		}
		err = n.reign(ctx, m)
		if again, err := q.Ended(m, err); !again {
			if ctx.Err() == nil {
				n.c.failf("manager %d ended: %v", n.i, err)
			}
			break
		}
	}
	end()
	<-ran
	s.Close() // which ends a read
	<-read
}

// reign runs the cores of a mandate.
func (n *node) reign(ctx context.Context, m *process.Mandate) error {
	var conf sm.Config
	m.Configure(&conf, &sa.Config{})
	st, err := m.Store.Load()
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.core = core{state: smp.SMDiscovering, view: values(st)}
	if conf.Granted {
		n.state, n.tookOver = smp.SMMaster, true
	}
	n.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the port is closed if the cores are to be started anew
		_ = m.Port.Recv(&mad.Packet{})
		cancel()
	}()
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel()
	for w := range 2 {
		writing.Go(func() { n.write(ctx, m, w) })
	}
	return n.manage(ctx, m, conf.Granted)
}

// manage is the mastership: what sm/mastership does, without a subnet.
func (n *node) manage(ctx context.Context, m *process.Mandate, lead bool) error {
	leads := false // Lead was called
	become := func(state smp.SMState, tookOver bool) error {
		n.mu.Lock()
		n.tookOver = tookOver
		if state != smp.SMMaster {
			n.state = state
		}
		n.mu.Unlock()
		if leads && state != smp.SMMaster {
			leads = false
			m.Led()
		}
		if !leads && state == smp.SMMaster {
			leads = true
			if err := m.Lead(false); err != nil {
				return err
			}
			n.running()
			n.mu.Lock()
			n.state = state
			n.mu.Unlock()
		}
		return nil
	}
	if lead {
		if err := become(smp.SMMaster, true); err != nil {
			return err
		}
	}
	var master *node
	missed := 0
	for {
		state := n.info().SMState
		if !pause(ctx, map[smp.SMState]time.Duration{smp.SMMaster: 700 * time.Millisecond, smp.SMStandby: 80 * time.Millisecond}[state]+time.Duration(1+n.c.roll(20e6))) {
			return nil
		}
		n.running()
		if n.takeHandover() {
			if err := become(smp.SMMaster, false); err != nil {
				return err
			}
			continue
		}
		if state == smp.SMStandby {
			si, ok := n.ask(ctx, master)
			own := n.own()
			switch {
			case ok && (si.SMState == smp.SMMaster || own.Beats(&si)):
				missed = 0
				continue
			case !ok:
				if missed++; missed < 3 {
					continue
				}
			}
			missed = 0
			if err := become(smp.SMDiscovering, !ok); err != nil {
				return err
			}
		}
		others := map[ib.GUID]*node{}
		var list []election.Other
		for _, o := range n.c.nodes {
			if o == n {
				continue
			}
			si, ok := n.ask(ctx, o)
			if !ok {
				si, ok = n.ask(ctx, o)
			}
			if ok {
				list, others[o.guid()] = append(list, election.Other{Info: si}), o
			}
		}
		own := n.own()
		outcome, who := election.Decide(&own, list)
		switch outcome {
		case election.Lead:
			if err := become(smp.SMMaster, own.TookOver); err != nil {
				return err
			}
		case election.AwaitMaster:
		default:
			master = others[who.Info.GUID]
			if err := become(smp.SMStandby, false); err != nil {
				return err
			}
			if outcome == election.HandOver {
				master.hand()
			}
		}
	}
}

// info is its SMInfo.
func (n *node) info() smp.SMInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return smp.SMInfo{GUID: n.guid(), Priority: n.priority, SMState: n.state}
}

func (n *node) own() election.Own {
	own := election.Own{Info: n.info()}
	n.mu.Lock()
	defer n.mu.Unlock()
	own.TookOver = n.tookOver
	return own
}

// ask asks another manager for its SMInfo.
func (n *node) ask(ctx context.Context, o *node) (si smp.SMInfo, ok bool) {
	n.c.mu.Lock()
	lost := n.c.rng.Float64() < n.c.loss
	d := time.Duration(n.c.rng.IntN(2e6))
	n.c.mu.Unlock()
	pause(ctx, d)
	o.mu.Lock()
	dead := o.cancel == nil || o.stopped != nil || o.q == nil
	o.mu.Unlock()
	if lost || dead || o.part.Load() != n.part.Load() {
		pause(ctx, 60*time.Millisecond)
		n.running()
		return si, false
	}
	return o.info(), true
}

// hand hands the subnet over to n.
func (n *node) hand() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handed = n.cancel != nil && n.state != smp.SMMaster
}

func (n *node) takeHandover() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.handed
	n.handed = false
	return was
}

// write makes changes while the manager is master: the SA's loop, or the manager's. Each has keys of its
// own. Who was refused goes on with the keys when a change of a key that nobody reads has succeeded.
func (n *node) write(ctx context.Context, m *process.Mandate, w int) {
	client := 3*w + n.i
	doubtful := false
	for pause(ctx, time.Duration(50+n.c.roll(500))*time.Millisecond) {
		n.running()
		if !n.isMaster() {
			continue
		}
		n.c.mu.Lock()
		n.c.value++
		in := input{key: 2*w + n.c.rng.IntN(2), kind: 'w', value: n.c.value}
		n.c.mu.Unlock()
		if doubtful {
			in.key = 100 + w
		}
		call := n.c.now()
		err := m.Store.Apply([]store.Op{{Kind: store.PutMKey, GUID: ib.GUID(in.key + 1), MKey: ib.MKey(in.value)}})
		n.running()
		back := n.c.now()
		switch {
		case err == nil && doubtful:
			doubtful = false
		case err == nil:
			n.c.acknowledged(client, in, call, back)
			n.mu.Lock()
			// It had the term when that was written, so what it answers of the other key is right.
			n.c.served(client, in.key^1, n.view[in.key^1], call, back)
			n.view[in.key] = in.value
			n.mu.Unlock()
		case errors.Is(err, etcd.ErrNoTerm), errors.Is(err, etcd.ErrSuperseded): // it was not carried out
		case errors.Is(err, store.ErrClosed):
			if in.key < campaignKeys {
				n.c.doubtful(client, in, call, back)
			}
			return
		case errors.Is(err, store.ErrUnavailable):
			if in.key < campaignKeys && back > call { // else it was refused without being tried
				n.c.doubtful(client, in, call, back)
				doubtful = true
			}
		default:
			n.c.failf("manager %d: %v", n.i, err)
			return
		}
	}
}

// readOn reads what etcd has, now and then.
func (n *node) readOn(ctx context.Context) {
	for pause(ctx, time.Duration(200+n.c.roll(1500))*time.Millisecond) {
		n.running()
		call := n.c.now()
		got, ok, _ := n.contents()
		if n.running(); ok {
			n.c.read(10+n.i, got, call, n.c.now())
		}
	}
}

// mutation is a guard that is broken, to see that a campaign finds it.
type mutation int

const (
	sound           mutation = iota
	noTermGuard              // writes do not ask for the term
	noNumberGuard            // an entry may be written twice
	noRestart                // cores go on although others have changed the state
	noSecondRestart          // the same, if the store then turns out to have more than was followed
	acknowledgesAll          // a change that was refused is acknowledged
	neverVacant              // the term of a dead owner stays
	mutations
)

func (x mutation) cluster(c *etcdmodel.Client) etcd.Cluster {
	if x == noTermGuard || x == noNumberGuard {
		return lenient{c, x}
	}
	return c
}

func (x mutation) terms(s *etcd.Store) process.Terms {
	if x == sound {
		return s
	}
	return &mutant{Store: s, broken: x}
}
