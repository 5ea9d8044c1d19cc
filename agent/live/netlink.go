package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"heddle/agent"
	"heddle/agent/rdmanl"
	"heddle/mad"
)

// Netlink is a socket on which the kernel asks for paths.
type Netlink struct {
	f  *os.File
	mu sync.Mutex // one write at a time
	b  []byte     // guarded by mu
}

// receiveBuffer holds some 10,000 questions: after an event the kernel asks for all peers at
// once.
const receiveBuffer = 4 << 20

// OpenNetlink joins the group in which the kernel asks for paths. It needs CAP_NET_ADMIN in
// the initial network namespace.
func OpenNetlink() (*Netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, rdmanl.Protocol)
	if err != nil {
		return nil, netlinkError("open", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: rdmanl.Group}); err != nil {
		unix.Close(fd)
		return nil, netlinkError("join the group of", err)
	}
	return NewNetlink(fd), nil
}

// NewNetlink takes a socket that is bound to the group, as systemd passes it.
func NewNetlink(fd int) *Netlink {
	_ = unix.SetNonblock(fd, true)
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	return &Netlink{f: os.NewFile(uintptr(fd), "rdma-netlink")}
}

func netlinkError(op string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT):
		hint = " (the kernel has no RDMA netlink here: ib_core is not loaded)"
	case errors.Is(err, unix.EPERM):
		hint = " (needs CAP_NET_ADMIN in the initial network namespace)"
	}
	return fmt.Errorf("%s the RDMA netlink: %w%s", op, err, hint)
}

// Close ends Read.
func (n *Netlink) Close() error { return n.f.Close() }

// write sends one message, which build appends.
func (n *Netlink) write(build func(b []byte) []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.b = build(n.b[:0])
	_, err := n.f.Write(n.b)
	return err
}

// SetTimeout tells the kernel how long to wait for an answer before it asks the SA itself. The
// kernel acknowledges it.
func (n *Netlink) SetTimeout(d time.Duration) error {
	d = min(max(d, rdmanl.MinTimeout), rdmanl.MaxTimeout)
	return n.write(func(b []byte) []byte { return rdmanl.AppendTimeout(b, timeoutSeq, d) })
}

// timeoutSeq is the sequence number of SetTimeout.
const timeoutSeq = 0x7E0

// kernelSlack is how much longer the kernel waits than an answer takes at most.
const kernelSlack = 50 * time.Millisecond

// serveNetlink answers the kernel until ctx ends.
func (s *Server) serveNetlink(ctx context.Context, n *Netlink) {
	stop := context.AfterFunc(ctx, func() { n.Close() })
	defer stop()
	if err := n.SetTimeout(s.cfg.KernelWait + kernelSlack); err != nil {
		s.cfg.Log.Warn("the kernel keeps its own time-out", "err", err)
	}
	buf := make([]byte, 64<<10)
	for {
		k, err := n.f.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			s.counts.nlOverruns.Add(1) // the kernel asks the SA after its time-out
			continue
		case err != nil:
			if ctx.Err() == nil {
				s.cfg.Log.Warn("the kernel's questions are no longer answered", "err", err)
			}
			return
		}
		for b := buf[:k]; len(b) > 0; {
			var m rdmanl.Message
			if m, b, err = rdmanl.Decode(b); err != nil {
				s.counts.nlBad.Add(1)
				continue
			}
			s.answerNetlink(n, &m)
		}
	}
}

// answerNetlink takes one message of the kernel.
func (s *Server) answerNetlink(n *Netlink, m *rdmanl.Message) {
	if m.Ack {
		if m.Seq == timeoutSeq {
			s.served.Store(m.Errno == 0)
		}
		if m.Errno != 0 {
			s.cfg.Log.Warn("the kernel refuses a message", "err", unix.Errno(m.Errno))
		}
		return
	}
	s.counts.nlQuestions.Add(1)
	seq, op := m.Seq, m.Op
	miss := func() {
		s.counts.nlMisses.Add(1)
		s.nlWrite(n, func(b []byte) []byte { return rdmanl.AppendMiss(b, op, seq) })
	}
	if m.Op == rdmanl.IPResolve {
		if t, ok := s.cfg.Addresses.IP(m.IP); ok {
			s.counts.nlPaths.Add(1)
			s.nlWrite(n, func(b []byte) []byte { return rdmanl.AppendGID(b, seq, t.GID) })
			return
		}
		miss()
		return
	}
	for _, l := range s.ports {
		if l.cfg.Device != m.Device || l.cfg.Num != m.Port {
			continue
		}
		q := question{agent.Ask{Query: agent.Query{Mask: m.Mask, Record: m.Record}, Wait: s.cfg.KernelWait}, func(a *agent.Answer) {
			if a.Result != agent.Found {
				miss()
				return
			}
			s.counts.nlPaths.Add(1)
			s.nlWrite(n, func(b []byte) []byte { return rdmanl.AppendPath(b, seq, a.Record) })
		}}
		if l.submit(q) {
			return
		}
		break
	}
	miss()
}

func (s *Server) nlWrite(n *Netlink, build func(b []byte) []byte) {
	if err := n.write(build); err != nil {
		s.counts.nlBad.Add(1)
		s.cfg.Log.Debug("answer to the kernel", "err", err)
	}
}

// stats are the counts of all ports.
func (s *Server) stats(ctx context.Context) []agent.Stats {
	list := make([]agent.Stats, len(s.ports))
	for i, l := range s.ports {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		var st agent.Stats
		if l.call(ctx, func(mad.Time) { st = l.core.Stats() }) {
			list[i] = st
		}
		cancel()
	}
	return list
}
