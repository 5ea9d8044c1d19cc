// Package live runs a simulated subnet in real time and lets several
// goroutines share it.
//
// A Driver owns a sim.Subnet: whoever touches the subnet does so between Begin
// and End (or inside Do), which hold one lock, first catch up with real time
// and afterwards arm one timer for the next event. One nanosecond of the
// simulation is one nanosecond of CLOCK_MONOTONIC since New.
//
// Callbacks from the subnet (Endpoint.OnPacket and its sisters) run under the
// lock, on whichever goroutine made the simulation move. They must only copy
// out or send into the subnet; who has input or output to do asks with
// AfterUnlock to be called when the lock is free again.
//
// Port is a port of the subnet in the same process; it implements
// mad.Transport. All methods of Driver and Port may be called concurrently,
// unless stated otherwise.
package live

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"heddle/mad"
	"heddle/sim"
)

// Flusher has work that must not be done under the lock of a Driver, such as
// writing packets to a socket.
type Flusher interface {
	// Flush does the work. It may run on several goroutines at once, and once
	// more than needed.
	Flush()
}

// Driver ties a subnet to real time.
//
// Lock order: Driver.mu before any lock that a callback or a Flusher takes.
type Driver struct {
	epoch time.Time
	base  mad.Time
	wake  int // eventfd that interrupts the timer thread
	done  chan struct{}

	mu     sync.Mutex
	s      *sim.Subnet // guarded by mu
	dirty  []Flusher   // guarded by mu
	armed  mad.Time    // when the timer thread will look next; guarded by mu
	closed bool        // guarded by mu
}

// ErrClosed is returned by operations on a closed driver or port.
var ErrClosed = errors.New("live: closed")

// New starts to run s in real time, from its present virtual time on. s must
// not be touched any more but through the driver.
func New(s *sim.Subnet) *Driver {
	d := &Driver{s: s, base: s.Now(), armed: mad.Never, done: make(chan struct{})}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		panic(fmt.Sprintf("live: eventfd: %v", err)) // out of descriptors at start
	}
	d.wake = fd
	d.epoch = time.Now()
	go d.timer()
	return d
}

// Now is the present time of the simulation.
func (d *Driver) Now() mad.Time { return d.base.Add(time.Since(d.epoch)) }

// Begin locks the subnet, runs everything that is due and returns it. End must
// follow, on the same goroutine.
func (d *Driver) Begin() *sim.Subnet {
	d.mu.Lock()
	d.s.RunUntil(d.Now())
	return d.s
}

// End unlocks the subnet, arms the timer and flushes what AfterUnlock noted.
func (d *Driver) End() {
	if next := d.s.NextEvent(); next < d.armed && !d.closed {
		d.armed = next
		d.kick() // under the lock: Close may not take the descriptor away
	}
	d.unlockAndFlush()
}

// Do calls fn between Begin and End.
func (d *Driver) Do(fn func(s *sim.Subnet)) {
	s := d.Begin()
	defer d.End()
	fn(s)
}

// AfterUnlock asks for f.Flush once the lock is free. It is called under the
// lock only: from callbacks of the subnet, or between Begin and End. A flusher
// should remember that it has asked and not ask again before Flush begins.
func (d *Driver) AfterUnlock(f Flusher) { d.dirty = append(d.dirty, f) }

func (d *Driver) unlockAndFlush() {
	if len(d.dirty) == 0 {
		d.mu.Unlock()
		return
	}
	// Through a small array, so that the list can be used again at once by
	// others and nothing is allocated.
	var buf [16]Flusher
	for {
		n := copy(buf[:], d.dirty)
		rest := copy(d.dirty, d.dirty[n:])
		clear(d.dirty[rest:])
		d.dirty = d.dirty[:rest]
		d.mu.Unlock()
		for _, f := range buf[:n] {
			f.Flush()
		}
		if rest == 0 {
			return
		}
		d.mu.Lock()
		if len(d.dirty) == 0 {
			d.mu.Unlock()
			return
		}
	}
}

func (d *Driver) kick() {
	one := [8]byte{1}
	_, _ = unix.Write(d.wake, one[:]) // full means a wake-up is already waiting
}

// spin is the longest wait that is not worth a sleep.
const spin = 5 * time.Microsecond

// timer runs what is due when nobody else makes the simulation move. It has a
// thread of its own with exact timers, because hops take less than a
// microsecond and the runtime's timers are good to a millisecond when idle.
func (d *Driver) timer() {
	defer close(d.done)
	runtime.LockOSThread() // and never unlock: the thread ends with its timer slack
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	fds := []unix.PollFd{{Fd: int32(d.wake), Events: unix.POLLIN}}
	var b [8]byte
	for {
		d.mu.Lock()
		if d.closed {
			d.mu.Unlock()
			return
		}
		d.s.RunUntil(d.Now())
		next := d.s.NextEvent()
		d.armed = next
		d.unlockAndFlush()

		if next == mad.Never {
			_, _ = unix.Ppoll(fds, nil, nil)
		} else if wait := next.Sub(d.Now()); wait > spin {
			ts := unix.NsecToTimespec(int64(wait))
			_, _ = unix.Ppoll(fds, &ts, nil)
		}
		if fds[0].Revents != 0 {
			_, _ = unix.Read(d.wake, b[:])
			fds[0].Revents = 0
		}
	}
}

// Close stops the clock. The subnet can still be looked at with Do; time does
// not pass by itself any more.
func (d *Driver) Close() {
	d.mu.Lock()
	was := d.closed
	if !was {
		d.closed = true
		d.kick()
	}
	d.mu.Unlock()
	<-d.done
	if !was {
		unix.Close(d.wake)
	}
}
