package process

import "sync"

// gate lets changes pass, or waits until none is under way and lets none pass. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	inside int           // changes under way; guarded by mu
	shut   bool          // guarded by mu
	empty  chan struct{} // closed when none is inside; nil: nobody waits. Guarded by mu
	open   chan struct{} // closed when it is not shut any more; nil: nobody waits. Guarded by mu
}

// enter reports whether a change may pass. It does not wait. After true the change has to leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Lock shuts the gate, and returns when no change is inside. One goroutine at a time has it shut.
func (g *gate) Lock() {
	g.mu.Lock()
	for g.shut {
		if g.open == nil {
			g.open = make(chan struct{})
		}
		open := g.open
		g.mu.Unlock()
		<-open
		g.mu.Lock()
	}
	g.shut = true
	if g.inside == 0 {
		g.mu.Unlock()
		return
	}
	empty := make(chan struct{})
	g.empty = empty
	g.mu.Unlock()
	<-empty
}

// Unlock opens the gate.
func (g *gate) Unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
}
