package mad

import (
	"testing"
	"time"

	"heddle/ib"
)

// TestHurry: tries of a request that is hurried follow each other soon, and there are as many
// as of one that is not.
func TestHurry(t *testing.T) {
	e := NewEngine(Config{Timeout: 200 * time.Millisecond, Retries: 3})
	for i := range uint64(3) {
		r := dr(ib.MethodGet, 0x15, 0, byte(i))
		r.Token = i
		if err := e.Submit(&r); err != nil {
			t.Fatal(err)
		}
	}
	now := Time(0)
	poll := func() { e.Poll(now, func(*Packet) {}) }
	poll()
	ended := map[uint64]Completion{}
	at := map[uint64]Time{}
	for hurried := false; len(ended) < 3; {
		if now = e.NextTimer(); !hurried && now >= Time(50*time.Millisecond) {
			hurried, now = true, Time(50*time.Millisecond)
			e.Hurry(now, 15*time.Millisecond, func(token uint64) bool { return token != 2 })
		}
		e.Expire(now, func(c Completion) { ended[c.Token], at[c.Token] = c, now })
		poll()
	}
	for token, want := range map[uint64]time.Duration{0: 95 * time.Millisecond, 1: 95 * time.Millisecond, 2: 3 * time.Second} {
		c := ended[token]
		if c.Tries != 4 || !Unanswered(c.Err) || c.Hurried != (token < 2) || at[token] != Time(want) {
			t.Errorf("request %d ends at %v after %d tries, hurried %v: %v", token, time.Duration(at[token]), c.Tries, c.Hurried, c.Err)
		}
	}
}

// TestHurryTimed: a transport that times tries itself may still wait for the one before.
func TestHurryTimed(t *testing.T) {
	e := NewEngine(Config{Timeout: 200 * time.Millisecond, Retries: 3, TransportTimed: true})
	r := dr(ib.MethodGet, 0x15, 0, 1)
	if err := e.Submit(&r); err != nil {
		t.Fatal(err)
	}
	var tries []ib.MAD
	var waits []time.Duration
	poll := func(now Time) {
		e.Poll(now, func(p *Packet) {
			tries, waits = append(tries, *(*ib.MAD)(p.Data)), append(waits, p.Timeout)
		})
	}
	poll(0)
	now := Time(100 * time.Millisecond)
	e.Hurry(now, 15*time.Millisecond, func(uint64) bool { return true })
	e.Expire(now, func(c Completion) { t.Fatalf("it ends: %v", c.Err) })
	poll(now)
	if len(tries) != 2 || tries[0].TID() == tries[1].TID() || waits[1] != 15*time.Millisecond {
		t.Fatalf("%d tries, which wait %v", len(tries), waits)
	}
	if _, k := e.Receive(now, &Packet{Status: Failed, Data: tries[0][:]}); k != KindStale {
		t.Errorf("the end of the try before is %v", k)
	}
	m := respond(&tries[1])
	if c, k := e.Receive(now, &Packet{Data: m[:]}); k != KindCompletion || c.Err != nil || c.Tries != 2 {
		t.Errorf("the answer: %v, %v after %d tries", k, c.Err, c.Tries)
	}
}
