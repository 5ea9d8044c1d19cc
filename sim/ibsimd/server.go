package ibsimd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"heddle/mad"
	"heddle/sim/live"
)

// Options configures a Server. The zero value serves on ibsim's default socket
// name only.
type Options struct {
	// SockName is the base of the abstract socket names, what clients have in
	// IBSIM_SOCKNAME; "" is "sim".
	SockName string
	// UDPPort, if not 0, is the control port on 127.0.0.1 (IBSIM_SERVER_PORT;
	// ibsim's is 7070). Client number i uses port UDPPort+1+i.
	UDPPort int
	// AnswerTimeout is how long a request may stay without a response before it is
	// returned with status 110, unless its client says that it has timers of its
	// own. 0 is DefaultAnswerTimeout; negative: without
	// limit, like ibsim.
	AnswerTimeout time.Duration
	// MaxClients bounds the clients; 0 is 65,535.
	MaxClients int
	// Queue is how many messages wait for a client that does not read; 0 is
	// 4096, rounded up to a power of two.
	Queue int
	// Spin is how long the serving thread polls for the next message before it
	// sleeps; normally 0. It pays only if a processor is free for it.
	Spin time.Duration
	// Log gets events of clients; nil: none.
	Log *slog.Logger
}

// DefaultAnswerTimeout is the default of Options.AnswerTimeout: about the time
// a kernel needs for all its tries.
const DefaultAnswerTimeout = 800 * time.Millisecond

// inFlight is the number of requests that a client may have in flight. Local
// sockets have back pressure and the queue takes the responses; a UDP socket
// drops what its buffer does not hold.
const (
	inFlightLocal = 1024
	inFlightUDP   = 64
)

// probeEvery is the interval between checks whether clients are alive.
const probeEvery = time.Second

// ErrClosed is returned by Serve after Close.
var ErrClosed = errors.New("ibsimd: server closed")

// Server serves one subnet to any number of clients.
type Server struct {
	drv *live.Driver
	opt Options
	log *slog.Logger

	epfd, wake int
	ctl, ctlIP int // control sockets; -1: none

	// Loop only.
	clients []*client // by slot; nil: free
	rx      mmsgs
	bufs    [batch]rxBuf
	reply   [ctlLen]byte
	probed  mad.Time
	busy    bool // the last wait returned many events

	// Guarded by the driver's lock.
	byTag []*client // by endpoint tag
	pkt   mad.Packet
	now   mad.Time // of the batch being handled

	// next is the earliest deadline of all clients, or earlier. Written under
	// the driver's lock.
	next atomic.Int64

	closeMu sync.Mutex
	closed  bool          // guarded by closeMu
	serving bool          // guarded by closeMu
	gone    bool          // descriptors are closed; guarded by closeMu
	done    chan struct{} // closed when Serve has ended
}

// rxBuf is larger than a message, to recognize longer ones.
type rxBuf [dataLen + addrLen + 8]byte

// Event data of sockets that are not clients'.
const (
	evCtl   = -1
	evCtlIP = -2
	evWake  = -3
)

// Listen opens the sockets. It fails if another simulator uses the name.
func Listen(d *live.Driver, o Options) (*Server, error) {
	if o.SockName == "" {
		o.SockName = "sim"
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = DefaultAnswerTimeout
	}
	if o.MaxClients <= 0 || o.MaxClients > 1<<16-1 {
		o.MaxClients = 1<<16 - 1
	}
	if o.Queue <= 0 {
		o.Queue = 4096
	}
	q := 16
	for q < o.Queue {
		q *= 2
	}
	o.Queue = q
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		drv: d, opt: o, log: o.Log, epfd: -1, wake: -1, ctl: -1, ctlIP: -1,
		done: make(chan struct{}),
	}
	s.next.Store(int64(mad.Never))
	for i := range s.bufs {
		s.rx.set(i, &s.bufs[i][0], len(s.bufs[i]))
	}
	if err := s.open(); err != nil {
		s.closeFDs()
		return nil, err
	}
	return s, nil
}

func (s *Server) open() (err error) {
	if s.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("ibsimd: epoll: %w", err)
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("ibsimd: eventfd: %w", err)
	}
	if s.ctl, err = bound(unix.AF_UNIX, &unix.SockaddrUnix{Name: ctlName(s.opt.SockName)}); err != nil {
		return fmt.Errorf("ibsimd: socket name %q: %w (does another simulator use it?)", s.opt.SockName, err)
	}
	if p := s.opt.UDPPort; p != 0 {
		if p < 0 || p > 65534 {
			return fmt.Errorf("ibsimd: UDP port %d is out of range", p)
		}
		if s.ctlIP, err = bound(unix.AF_INET, loopback(p)); err != nil {
			return fmt.Errorf("ibsimd: UDP port %d of 127.0.0.1: %w", p, err)
		}
	}
	for _, w := range []struct {
		fd int
		ev int32
	}{{s.wake, evWake}, {s.ctl, evCtl}, {s.ctlIP, evCtlIP}} {
		if w.fd < 0 {
			continue
		}
		if err := s.epoll(unix.EPOLL_CTL_ADD, w.fd, w.ev, unix.EPOLLIN); err != nil {
			return fmt.Errorf("ibsimd: epoll: %w", err)
		}
	}
	return nil
}

func (s *Server) epoll(op, fd int, id int32, events uint32) error {
	return unix.EpollCtl(s.epfd, op, fd, &unix.EpollEvent{Events: events, Fd: id})
}

// watch sets whether to wait for space in c's socket. c.sendMu is held.
func (s *Server) watch(c *client, out bool) {
	ev := uint32(unix.EPOLLIN)
	if out {
		ev |= unix.EPOLLOUT
	}
	_ = s.epoll(unix.EPOLL_CTL_MOD, c.fd, int32(c.slot), ev)
}

// kick interrupts the loop. It may be called at any time, even after the end.
func (s *Server) kick() {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	if s.gone {
		return
	}
	one := [8]byte{1}
	_, _ = unix.Write(s.wake, one[:])
}

// SockName is the base of the abstract socket names.
func (s *Server) SockName() string { return s.opt.SockName }

// wakeAt has the loop look for requests to return at a time, which it returns. The driver's lock is
// held.
func (s *Server) wakeAt(at mad.Time) mad.Time {
	if int64(at) < s.next.Load() {
		s.next.Store(int64(at))
	}
	return at
}

// tagged is the client whose request had this transaction ID, or nil.
func (s *Server) tagged(tid uint64) *client {
	if t := int(tid >> 48); t < len(s.byTag) {
		return s.byTag[t]
	}
	return nil
}

// Serve serves until ctx ends (it then returns nil) or Close is called (it
// then returns ErrClosed). It can be called once.
func (s *Server) Serve(ctx context.Context) error {
	s.closeMu.Lock()
	if s.closed || s.serving {
		s.closeMu.Unlock()
		return ErrClosed
	}
	s.serving = true
	s.closeMu.Unlock()
	stop := context.AfterFunc(ctx, s.kick)
	defer close(s.done)
	defer stop()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.loop(ctx)
	for _, c := range s.clients {
		if c != nil {
			s.release(c, "server ends")
		}
	}
	return err
}

// Close ends Serve and frees the sockets.
func (s *Server) Close() error {
	s.closeMu.Lock()
	was, serving := s.closed, s.serving
	s.closed = true
	s.closeMu.Unlock()
	if was {
		return nil
	}
	if serving {
		s.kick()
		<-s.done
	}
	s.closeFDs()
	return nil
}

func (s *Server) isClosed() bool {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	return s.closed
}

func (s *Server) closeFDs() {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	s.gone = true
	for _, fd := range []int{s.epfd, s.wake, s.ctl, s.ctlIP} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (s *Server) loop(ctx context.Context) error {
	evs := make([]unix.EpollEvent, 64)
	s.probed = s.drv.Now()
	for {
		n, err := s.wait(evs)
		if err != nil {
			return fmt.Errorf("ibsimd: epoll: %w", err)
		}
		for _, e := range evs[:n] {
			switch e.Fd {
			case evCtl:
				s.control(s.ctl, false)
			case evCtlIP:
				s.control(s.ctlIP, true)
			case evWake:
				var b [8]byte
				_, _ = unix.Read(s.wake, b[:])
				if s.isClosed() {
					return ErrClosed
				}
				if ctx.Err() != nil {
					return nil
				}
				s.reap()
			default:
				if c := s.clients[e.Fd]; c != nil {
					s.ready(c, e.Events)
				}
			}
		}
		s.timers()
	}
}

// wait waits for events, until the next deadline or probe. While there is work
// it polls without sleeping, which is the cheaper call.
func (s *Server) wait(evs []unix.EpollEvent) (int, error) {
	if s.busy {
		n, e := epollNow(s.epfd, evs)
		if e == 0 && n == 0 && s.opt.Spin > 0 {
			for end := time.Now().Add(s.opt.Spin); n == 0 && e == 0 && time.Now().Before(end); {
				n, e = epollNow(s.epfd, evs)
			}
		}
		if e != 0 && e != unix.EINTR {
			return 0, e
		}
		if n > 0 {
			return n, nil
		}
	}
	n, err := unix.EpollWait(s.epfd, evs, s.patience())
	// More than one event, or a full batch, suggests that more will follow.
	s.busy = n > 1 || s.opt.Spin > 0
	if err == unix.EINTR {
		return 0, nil
	}
	return n, err
}

// patience is how long to wait, in milliseconds.
func (s *Server) patience() int {
	ms := -1
	if len(s.clients) > 0 {
		ms = int(probeEvery.Milliseconds())
	}
	if next := mad.Time(s.next.Load()); next != mad.Never {
		d := next.Sub(s.drv.Now())
		left := int(max(0, min(d, time.Hour)).Milliseconds()) + 1
		if ms < 0 || left < ms {
			ms = left
		}
	}
	return ms
}

// timers returns unanswered requests and checks for dead clients.
func (s *Server) timers() {
	now := s.drv.Now()
	if mad.Time(s.next.Load()) <= now {
		s.drv.Begin()
		s.now = s.drv.Now()
		next := mad.Never
		for _, c := range s.clients {
			if c != nil {
				next = min(next, c.expire(s.now))
			}
		}
		s.next.Store(int64(next))
		s.drv.End()
	}
	if now.Sub(s.probed) >= probeEvery {
		s.probed = now
		s.probe()
	}
}

// ready serves one client's socket.
func (s *Server) ready(c *client, ev uint32) {
	if ev&unix.EPOLLOUT != 0 {
		c.Flush()
	}
	if ev&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP) == 0 {
		return
	}
	n, e := recvBatch(c.fd, &s.rx)
	switch e {
	case 0:
	case unix.EAGAIN, unix.EINTR:
		return
	default:
		s.release(c, e.Error())
		return
	}
	if n > 1 {
		s.busy = true
	}
	s.drv.Begin()
	s.now = s.drv.Now()
	for i := range n {
		switch n := s.rx.hdrs[i].len; {
		case n == dataLen, n == dataLen+addrLen && c.extAddr:
			c.handle((*dataMsg)(s.bufs[i][:]), n > dataLen, s.now)
		}
	}
	s.drv.End()
}
