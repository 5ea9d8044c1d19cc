package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"heddle/daemon/process"
)

// service tells the service manager how a process does (sd_notify(3)): that it is ready, its state,
// and that its loops turn. Without a service manager it does nothing.
type service struct {
	socket   string
	watchdog time.Duration // at least one sign in each; 0: none wanted
	log      *slog.Logger
}

// newService reads the environment that a service manager gives.
func newService(getenv func(string) string, pid int, log *slog.Logger) *service {
	s := &service{socket: getenv("NOTIFY_SOCKET"), log: log}
	if own := getenv("WATCHDOG_PID"); own == "" || own == strconv.Itoa(pid) {
		if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
			s.watchdog = time.Duration(us) * time.Microsecond
		}
	}
	return s
}

// tell sends lines such as READY=1.
func (s *service) tell(lines ...string) {
	if s.socket == "" {
		return
	}
	name := s.socket
	if strings.HasPrefix(name, "@") {
		name = "\x00" + name[1:] // an abstract socket
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(strings.Join(lines, "\n")))
		c.Close()
	}
	if err != nil {
		s.log.Warn("the service manager cannot be told", "socket", s.socket, "err", err)
		s.socket = "" // once is enough
	}
}

// statusEvery is the time between two states without a watchdog.
const statusEvery = 10 * time.Second

// run tells that p is ready, and then its state again and again until ctx ends. The watchdog hears
// nothing while a loop does not turn, so the service manager ends the process.
func (s *service) run(ctx context.Context, p *process.Process) {
	if s.socket == "" {
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
func (s *service) state(ctx context.Context, p *process.Process, limit time.Duration) []string {
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

// underService starts run in the background; the channel is closed at its end.
func underService(ctx context.Context, p *process.Process, log *slog.Logger) chan struct{} {
	done := make(chan struct{})
	s := newService(os.Getenv, os.Getpid(), log)
	go func() {
		defer close(done)
		s.run(ctx, p)
	}()
	return done
}
