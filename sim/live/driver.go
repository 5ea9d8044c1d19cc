// Package live runs a simulated subnet in real time and lets several goroutines
// share it.
//
// A Driver owns a sim.Subnet: code accesses the subnet only between Begin and
// End (or inside Do). They hold one lock; Begin catches up with real time, and
// End arms one timer for the next event. One nanosecond of the simulation is
// one nanosecond of CLOCK_MONOTONIC since New.
//
// Callbacks from the subnet (Endpoint.OnPacket and others) run under the lock,
// on the goroutine that advanced the simulation. They must only copy data or
// send into the subnet; a Flusher passed to AfterUnlock performs input and
// output once the lock is free.
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
	// Flush does the work. It may run on several goroutines concurrently, and once
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
	armed  mad.Time    // the timer thread's next deadline; guarded by mu
	closed bool        // guarded by mu
}

// ErrClosed is returned by operations on a closed driver or port.
var ErrClosed = errors.New("live: closed")

// New runs s in real time, from its current virtual time on. From now on s must
// be accessed only through the driver.
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

// Now is the current time of the simulation.
func (d *Driver) Now() mad.Time { return d.base.Add(time.Since(d.epoch)) }

// Begin locks the subnet, runs everything that is due and returns it. End must
// follow, on the same goroutine.
func (d *Driver) Begin() *sim.Subnet {
	d.mu.Lock()
	d.s.RunUntil(d.Now())
	return d.s
}

// End unlocks the subnet, arms the timer and flushes the flushers of
// AfterUnlock.
func (d *Driver) End() {
	if next := d.s.NextEvent(); next < d.armed && !d.closed {
		d.armed = next
		d.kick() // under the lock, so that Close cannot close the descriptor
	}
	d.unlockAndFlush()
}

// Do calls fn between Begin and End.
func (d *Driver) Do(fn func(s *sim.Subnet)) {
	s := d.Begin()
	defer d.End()
	fn(s)
}

// AfterUnlock requests f.Flush once the lock is free. It is called only under
// the lock: from callbacks of the subnet, or between Begin and End. A flusher
// should not request again before Flush begins.
func (d *Driver) AfterUnlock(f Flusher) { d.dirty = append(d.dirty, f) }

func (d *Driver) unlockAndFlush() {
	if len(d.dirty) == 0 {
		d.mu.Unlock()
		return
	}
	// Copied to a small array, so that others can use the list immediately and
	// nothing is allocated.
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

// spin is the longest wait that does not justify a sleep.
const spin = 5 * time.Microsecond

// timer runs due events while no other goroutine advances the simulation. It
// has a thread of its own with exact timers, because hops take less than a
// microsecond and the runtime's idle timers have millisecond accuracy.
func (d *Driver) timer() {
	defer close(d.done)
	runtime.LockOSThread() // never unlocked: the thread ends with its timer slack
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

// Close stops the clock. Do still gives access to the subnet.
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
