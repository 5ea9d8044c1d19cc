package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// service tells the service manager how a process does (sd_notify(3)): that it is ready, its state,
// that its loops turn, and that it reads its files again. Without a service manager it does nothing.
type service struct {
	watchdog time.Duration // at least one sign in each; 0: none wanted
	log      *slog.Logger

	mu   sync.Mutex
	send func(string) error // guarded by mu; nil: nobody is to be told
}

// watched is what a service is told about; a process.Process.
type watched interface {
	Ready() (bool, string)
	// Healthy returns nil when each loop has turned since the call, and an error if one has not
	// when ctx ends.
	Healthy(ctx context.Context) error
}

// newService reads the environment that a service manager gives.
func newService(getenv func(string) string, pid int, log *slog.Logger) *service {
	s := &service{log: log}
	if name := getenv("NOTIFY_SOCKET"); name != "" {
		s.send = func(text string) error { return notify(name, text) }
	}
	if own := getenv("WATCHDOG_PID"); own == "" || own == strconv.Itoa(pid) {
		if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
			s.watchdog = time.Duration(us) * time.Microsecond
		}
	}
	return s
}

// notify sends one datagram to a service manager's socket.
func notify(name, text string) error {
	if strings.HasPrefix(name, "@") {
		name = "\x00" + name[1:] // an abstract socket
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(text))
	return err
}

// listens reports whether anybody is to be told.
func (s *service) listens() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send != nil
}

// tell sends lines such as READY=1.
func (s *service) tell(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.send == nil {
		return
	}
	if err := s.send(strings.Join(lines, "\n")); err != nil {
		s.log.Warn("the service manager cannot be told", "err", err)
		s.send = nil // once is enough
	}
}

// statusEvery is the time between two states without a watchdog.
const statusEvery = 10 * time.Second

// run tells that p is ready, and then its state again and again until ctx ends. The watchdog hears
// nothing while a loop does not turn, so the service manager ends the process: of three signs in its
// time two may be missed. The API serves before run is called.
func (s *service) run(ctx context.Context, p watched) {
	if !s.listens() {
		return
	}
	every := statusEvery
	if s.watchdog > 0 {
		every = s.watchdog / 3
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ready := false; ; {
		lines := s.state(ctx, p, every)
		if !ready {
			ready = true
			lines = append(lines, "READY=1")
		}
		s.tell(lines...)
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.tell("STOPPING=1")
			return
		}
	}
}

// state are the lines about the process now.
func (s *service) state(ctx context.Context, p watched, limit time.Duration) []string {
	_, why := p.Ready()
	lines := []string{"STATUS=" + strings.ReplaceAll(why, "\n", " ")}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch err := p.Healthy(ctx); {
	case err != nil:
		s.log.Error("a loop of this process does not turn", "err", err)
		return append(lines, "STATUS="+err.Error())
	case s.watchdog > 0:
		lines = append(lines, "WATCHDOG=1")
	}
	return lines
}

// reloading tells that the process reads its files again while do runs.
func (s *service) reloading(do func()) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		s.log.Warn("the clock cannot be read", "err", err)
	}
	// The time tells the answer to this reload from that to an earlier one.
	s.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
	defer s.tell("READY=1")
	do()
}

// start starts run in the background; the channel is closed at its end.
func (s *service) start(ctx context.Context, p watched) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx, p)
	}()
	return done
}
