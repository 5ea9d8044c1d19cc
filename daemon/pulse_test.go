package daemon

import (
	"context"
	"strings"
	"testing"

	"heddle/mad"
	"heddle/store"
)

// TestTurns: a loop that turns answers, one that waits for the store is excused, and one that does
// neither is named.
func TestTurns(t *testing.T) {
	d, _ := newPiped(func(*mad.Packet) error { return nil }, Config{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	turn := func(p *pulse) (stop func()) {
		end, ask := make(chan struct{}), p.ask // which changes below
		go func() {
			for {
				select {
				case <-ask:
				case <-end:
					return
				}
			}
		}()
		return func() { close(end) }
	}
	stopSM, stopSA := turn(&d.pulses.sm), turn(&d.pulses.sa)
	defer stopSM()
	stopVM := turn(&d.pulses.vm)
	if err := d.Turns(t.Context()); err != nil {
		t.Errorf("all loops turn: %v", err)
	}
	stopVM()
	stopSA()
	stuck, in := make(chan struct{}), make(chan struct{})
	d.cfg.Store = &watchedStore{store.NewMemory(), func([]store.Op) { close(in); <-stuck }, nil}
	go d.store(&d.pulses.vm, nil)
	<-in
	if err := d.Turns(ended); err == nil || !strings.Contains(err.Error(), "SA") && !strings.Contains(err.Error(), "manager") {
		t.Errorf("no loop was asked in time: %v", err)
	}
	d.pulses.sm.storing.Store(true)
	d.pulses.sa.storing.Store(true)
	if err := d.Turns(ended); err != nil {
		t.Errorf("all loops wait for the store: %v", err)
	}
	d.pulses.sa.storing.Store(false)
	d.pulses.sa.ask = nil // never answers
	if err := d.Turns(ended); err == nil || !strings.Contains(err.Error(), "loop of the SA") {
		t.Errorf("the SA's loop does not turn: %v", err)
	}
	close(stuck)
}

// TestStandbyDrops: what a manager on standby would store is dropped, and known to have been.
func TestStandbyDrops(t *testing.T) {
	var s standby
	if s.drops() || s.end() {
		t.Error("nobody is on standby")
	}
	s.begin()
	if s.begin(); s.end() {
		t.Error("nothing was to be stored")
	}
	s.begin()
	if !s.drops() || !s.end() {
		t.Error("it was stored, or forgotten")
	}
	if s.drops() || s.end() {
		t.Error("the manager is master")
	}
}
