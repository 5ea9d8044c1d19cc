package process

import (
	"sync"
	"testing"
	"testing/synctest"
)

// TestGate: who shuts the gate waits for those inside and for who has it shut, and nobody enters meanwhile.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		if !g.enter() {
			t.Fatal("the gate is open")
		}
		var wg sync.WaitGroup
		var order []int
		for i := range 2 {
			wg.Go(func() {
				g.Lock()
				order = append(order, i)
				g.Unlock()
			})
		}
		synctest.Wait()
		if len(order) > 0 || g.enter() {
			t.Fatal("it was shut with somebody inside, or is open while one waits for that")
		}
		g.leave()
		wg.Wait()
		if len(order) != 2 || !g.enter() {
			t.Fatal("it does not open")
		}
		g.leave()
	})
}
