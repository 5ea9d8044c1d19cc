// Package lockstep runs workers that wait for each other again and again: the
// windows of a parallel simulation. It is the only package of the simulator that
// starts goroutines, and none outlives a call of Run.
package lockstep

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Run calls work once for each worker 0 to n-1, at the same time, and returns when
// all have returned. The caller's goroutine is worker 0; with n = 1 there is no
// other. Workers meet by calling wait, which returns when all have called it: all
// must call it equally often. What a worker has written before is seen by all
// after.
//
// A panic of a worker is passed on to the caller. The others get one of their
// own at their next wait, so that nobody waits forever.
func Run(n int, work func(worker int, wait func())) {
	if n <= 1 {
		work(0, func() {})
		return
	}
	g := &gate{n: int32(n)}
	g.open.L = &g.mu
	if runtime.GOMAXPROCS(0) >= n { // else who is waited for may need this processor
		g.spins = maxSpins
	}
	var all sync.WaitGroup
	for k := 1; k < n; k++ {
		all.Go(func() {
			defer g.broken()
			work(k, g.wait)
		})
	}
	func() {
		defer g.broken()
		work(0, g.wait)
	}()
	all.Wait()
	if g.cause != nil {
		panic(g.cause)
	}
}

// maxSpins is how often a worker looks before it sleeps: some 10 µs. Workers with
// equal work are apart by less, and one whose peer has no processor must not use
// its own for nothing.
const maxSpins = 10_000

// gate is a barrier.
type gate struct {
	n, spins int32
	arrived  atomic.Int32
	round    atomic.Uint32
	sleeping atomic.Int32
	torn     atomic.Bool // a worker has panicked

	mu    sync.Mutex
	open  sync.Cond
	cause any // of the panic
}

// errTorn ends workers whose peer has panicked.
type errTorn struct{}

func (g *gate) wait() {
	round := g.round.Load()
	if g.arrived.Add(1) == g.n {
		g.arrived.Store(0)
		g.release()
		return
	}
	for range g.spins {
		if g.round.Load() != round {
			g.check()
			return
		}
	}
	g.mu.Lock()
	g.sleeping.Add(1) // before the look at round, as release looks in the other order
	for g.round.Load() == round && !g.torn.Load() {
		g.open.Wait()
	}
	g.sleeping.Add(-1)
	g.mu.Unlock()
	g.check()
}

// release lets those who wait go on.
func (g *gate) release() {
	g.round.Add(1)
	if g.sleeping.Load() > 0 {
		g.mu.Lock()
		g.open.Broadcast()
		g.mu.Unlock()
	}
}

func (g *gate) check() {
	if g.torn.Load() {
		panic(errTorn{})
	}
}

// broken notes the first panic and frees those who wait.
func (g *gate) broken() {
	x := recover()
	if x == nil {
		return
	}
	if _, ok := x.(errTorn); ok {
		return
	}
	g.mu.Lock()
	if g.cause == nil {
		g.cause = x
	}
	g.torn.Store(true)
	g.mu.Unlock()
	g.release()
}
