package process_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"heddle/internal/etcdmodel"
	"heddle/internal/need"
)

// What a client did to one key. Values are unique; 0 is none.
type input struct {
	key   int
	kind  byte // w: write value; m: the same, refused; u: undo of that; r: read
	value int
}

// register is the model of one key. A write that was refused may have been carried out; then it may be
// undone, as long as nothing was written since. A read sees the newest value.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		parts = make([][]porcupine.Operation, campaignKeys)
		for _, o := range history {
			k := o.Input.(input).key
			parts[k] = append(parts[k], o)
		}
		return parts
	},
	Init: func() any { return [2]int{} }, // now, and what an undo of it brings back
	Step: func(state, in, out any) (bool, any) {
		v, i := state.([2]int), in.(input)
		switch {
		case i.kind == 'w':
			return true, [2]int{i.value}
		case i.kind == 'm':
			return true, [2]int{i.value, v[0]}
		case i.kind == 'u' && v[0] == i.value:
			return true, [2]int{v[1]}
		case i.kind == 'u': // there was nothing to undo, or the next master took it as it was
			return true, v
		}
		return v[0] == out.(int), v
	},
}

const (
	campaignKeys = 4
	// campaignTime is how long things go wrong in a schedule, and campaignCalm how long nothing does
	// after that.
	campaignTime = 15 * time.Second
	campaignCalm = 20 * time.Second
	// campaignLate is how long a manager may take a term for its own that another one has won.
	campaignLate = 6 * time.Second
)

// campaign is a schedule of three managers.
type campaign struct {
	seed    uint64
	broken  mutation
	cluster *etcdmodel.Cluster
	nodes   [3]*node
	began   time.Time
	ctx     context.Context

	mu      sync.Mutex
	rng     *rand.Rand
	loss    float64 // of questions in the subnet
	value   int
	history []porcupine.Operation
	refused []porcupine.Operation // whose fate is open
	owner   *etcdmodel.Client     // who wrote the term last
	owned   time.Time             // when
	acked   int
	wins    int
	errs    []error
}

func (c *campaign) failf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) < 5 {
		c.errs = append(c.errs, fmt.Errorf("after %v: "+format, append([]any{time.Since(c.began)}, args...)...))
	}
}

// now is a moment of the history.
func (c *campaign) now() int64 { return int64(time.Since(c.began)) }

// roll is a random number below n.
func (c *campaign) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// wrote sees each write before it takes effect: only the owner of the term changes the journal.
func (c *campaign) wrote(by *etcdmodel.Client, puts map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range puts {
		switch {
		case key == "/heddle/term":
			if c.owner != by {
				c.owner, c.owned = by, time.Now()
				c.wins++
			}
		case key == "/heddle/question":
		case c.owner != by:
			c.errs = append(c.errs, fmt.Errorf("after %v: a manager without the term wrote %s", time.Since(c.began), key))
		}
	}
}

// acknowledged adds a change that succeeded. What was refused before it began is settled when it ends.
func (c *campaign) acknowledged(client int, in input, call, back int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked++
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: 0, Return: back})
	open := c.refused[:0]
	for _, o := range c.refused {
		if o.Return < call {
			o.Return = back
			c.history = append(c.history, o)
		} else {
			open = append(open, o)
		}
	}
	c.refused = open
}

// doubtful adds a change that was refused.
func (c *campaign) doubtful(client int, in input, call, back int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range "mu" {
		in.kind = byte(kind)
		c.refused = append(c.refused, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: 0, Return: back})
	}
}

func (c *campaign) read(client int, got [campaignKeys]int, call, back int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, v := range got {
		c.history = append(c.history, porcupine.Operation{ClientId: client, Input: input{key: k, kind: 'r'}, Call: call, Output: v, Return: back})
	}
}

// served adds what a master answers for a key.
func (c *campaign) served(client, key, value int, call, back int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: client + 20, Input: input{key: key, kind: 'r'}, Call: call, Output: value, Return: back})
}

// begin starts three managers; end ends them.
func (c *campaign) begin() (end func()) {
	c.began = time.Now()
	c.rng = rand.New(rand.NewPCG(c.seed, 3))
	c.cluster = etcdmodel.New(c.seed)
	c.cluster.OnWrite = c.wrote
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	for i := range c.nodes {
		c.nodes[i] = &node{c: c, i: i, priority: uint8(c.roll(2))}
		c.nodes[i].start()
	}
	return func() {
		for _, n := range c.nodes {
			n.kill()
		}
		cancel()
	}
}

// run runs a schedule, and returns what was wrong.
func (c *campaign) run() error {
	end := c.begin()
	ctx := c.ctx
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		c.watch(ctx)
	}()
	pause(ctx, 3*time.Second)
	for time.Since(c.began) < campaignTime {
		c.mishap()
		pause(ctx, time.Duration(50+c.roll(1500))*time.Millisecond)
	}
	c.heal()
	pause(ctx, campaignCalm)
	c.settled()
	end()
	<-watching
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.refused {
		o.Return = math.MaxInt64
		c.history = append(c.history, o)
	}
	if len(c.errs) == 0 && porcupine.CheckOperationsTimeout(register, c.history, 5*time.Second) == porcupine.Illegal {
		c.errs = append(c.errs, fmt.Errorf("the history of %d operations is not linearizable", len(c.history)))
	}
	return errors.Join(c.errs...)
}

// mishap has something go wrong, or right again.
func (c *campaign) mishap() {
	n := c.nodes[c.roll(3)]
	if o := c.master(); o != nil && c.roll(2) == 0 {
		n = o // most of it concerns who is master
	}
	switch c.roll(13) {
	case 0:
		n.kill()
	case 1:
		n.kill()
		n.start()
	case 2, 3:
		for _, o := range c.nodes {
			if !o.alive() {
				o.start()
			}
		}
	case 4:
		n.stop(true)
		go func() {
			pause(c.ctx, time.Duration(c.roll(6000))*time.Millisecond)
			n.stop(false)
		}()
	case 5:
		n.part.Store(int32(c.roll(2)))
	case 6:
		for _, o := range c.nodes {
			o.part.Store(0)
		}
	case 7:
		n.cut(true)
	case 8:
		for _, o := range c.nodes {
			o.cut(false)
		}
	case 9:
		c.cluster.Elect(time.Duration(100+c.roll(2000)) * time.Millisecond)
	case 10:
		c.away()
	default:
		f := etcdmodel.Faults{}
		if c.roll(3) > 0 {
			x := func() float64 { return 0.2 * float64(c.roll(3)) / 2 }
			f = etcdmodel.Faults{Lost: x(), Late: x(), Skip: x(), Break: x()}
		}
		c.cluster.Set(f)
		c.mu.Lock()
		c.loss = 0.1 * float64(c.rng.IntN(3)) / 2
		c.mu.Unlock()
	}
}

// heal ends all that is wrong.
func (c *campaign) heal() {
	c.cluster.Set(etcdmodel.Faults{})
	c.mu.Lock()
	c.loss = 0
	c.mu.Unlock()
	for _, n := range c.nodes {
		n.cut(false)
		n.stop(false)
		n.part.Store(0)
		if !n.alive() {
			n.start()
		}
	}
}

// master is one that believes to be it, nil if there is none.
func (c *campaign) master() *node {
	for _, n := range c.nodes {
		if n.alive() && n.isMaster() {
			return n
		}
	}
	return nil
}

// watch looks at the managers: who has lost the term, or etcd, does not say for long that it has it.
func (c *campaign) watch(ctx context.Context) {
	for pause(ctx, 250*time.Millisecond) {
		for _, n := range c.nodes {
			q, client, calm := n.look()
			if q == nil || time.Since(calm) < campaignLate || q.HA().State != "term" {
				continue
			}
			c.mu.Lock()
			owner, owned := c.owner, c.owned
			c.mu.Unlock()
			if owner != client && time.Since(owned) > campaignLate {
				c.failf("manager %d has not noticed that another one has the term", n.i)
			}
			if since := n.cutSince(); !since.IsZero() && time.Since(since) > campaignLate {
				c.failf("manager %d has not noticed that etcd is away", n.i)
			}
		}
	}
}

// settled judges the end, when nothing has gone wrong for a while.
func (c *campaign) settled() {
	masters := 0
	var first *node
	for _, n := range c.nodes {
		if n.isMaster() {
			masters++
			first = n
		}
	}
	if masters != 1 {
		c.failf("%d masters in the end", masters)
		for _, n := range c.nodes {
			q, _, _ := n.look()
			if q != nil {
				c.failf("manager %d: %+v, state %s %s", n.i, n.own(), q.HA().State, q.HA().Why)
			}
		}
		return
	}
	if q, _, _ := first.look(); q.HA().State != "term" {
		c.failf("the master %d is %s in the end: %s", first.i, q.HA().State, q.HA().Why)
	}
	call := c.now()
	for _, n := range c.nodes {
		got, _, err := n.contents()
		if err != nil {
			c.failf("manager %d cannot read: %v", n.i, err)
			return
		}
		c.read(900+n.i, got, call, c.now())
		if n != first {
			continue
		}
		if view := n.served(); view != got {
			c.failf("the master serves %v, and etcd has %v", view, got)
		}
	}
}

// TestCampaign: three managers with one state, and with all that can go wrong between them, in virtual
// time. Never do two have changes that count; what was acknowledged is there, what was refused is not;
// who has lost the term or etcd knows it soon; and in the end one is master and stores changes.
func TestCampaign(t *testing.T) {
	acked, wins := 0, 0
	seeds := need.Seeds(40, 2000)
	for _, seed := range seeds {
		var c *campaign
		var err error
		synctest.Test(t, func(*testing.T) {
			c = &campaign{seed: seed}
			err = c.run()
		})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			if t.Failed() && len(seeds) > 1 {
				break
			}
		}
		acked, wins = acked+c.acked, wins+c.wins
	}
	t.Logf("%d schedules: %d changes acknowledged, the term changed hands %d times", len(seeds), acked, wins)
}

// TestSplitOwnerDies: the subnet falls into two parts with a master each. The one that won the term last
// stores changes, and the other one is refused. When the first dies, the other one gets the term by
// itself, and not before.
func TestSplitOwnerDies(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			c := &campaign{seed: seed}
			defer c.begin()()
			pause(c.ctx, 3*time.Second)
			stays := c.master()
			owner := c.nodes[(stays.i+1)%3]
			third := c.nodes[(stays.i+2)%3]
			third.kill()
			owner.part.Store(1)
			pause(c.ctx, 30*time.Second)
			state := stateOf
			if !owner.isMaster() || state(owner) != "term" || !stays.isMaster() || state(stays) != "refused" {
				t.Fatalf("seed %d: the one who won the term last is %s, the other one %s", seed, state(owner), state(stays))
			}
			owner.kill()
			pause(c.ctx, 10*time.Second)
			if !stays.isMaster() || state(stays) != "term" {
				t.Errorf("seed %d: 10 s after the death of the owner the other master is %s", seed, state(stays))
			}
		})
	}
}
