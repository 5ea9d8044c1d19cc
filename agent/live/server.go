package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heddle/agent"
	"heddle/agent/acm"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
)

// Config is what a Server serves, and where.
type Config struct {
	Ports []PortConfig
	Core  agent.Config
	// ACM are the stream sockets of ibacm's protocol; the Server closes them.
	ACM []net.Listener
	// Netlink, if set, is the socket of the kernel's questions.
	Netlink *Netlink
	// NetlinkMissing says why there is none, for the status.
	NetlinkMissing string
	// Wait bounds the answer to a program, KernelWait that to the kernel, which then asks the
	// SA itself.
	Wait, KernelWait time.Duration
	// Addresses knows the GIDs of IP addresses and names.
	Addresses *Addresses
	Log       *slog.Logger
}

// Server serves path caches.
type Server struct {
	cfg    Config
	epoch  time.Time
	ports  []*portLoop
	counts counts
	served atomic.Bool // the kernel took the time-out: it asks this Server
	conns  chan struct{}
}

// counts are of requests.
type counts struct {
	acmRequests, acmResolves, acmErrors, acmNoData, acmRefused atomic.Uint64
	acmConns                                                   atomic.Int64
	addrQueries, addrHits                                      atomic.Uint64
	nlQuestions, nlPaths, nlMisses, nlOverruns                 atomic.Uint64
	nlBad                                                      atomic.Uint64
}

// maxConns bounds the connections of programs; each holds a goroutine.
const maxConns = 8192

// New opens the ports.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, epoch: time.Now(), conns: make(chan struct{}, maxConns)}
	var errs []error
	for _, pc := range cfg.Ports {
		l, err := newPortLoop(pc, cfg.Core, s.epoch, cfg.Log)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.ports = append(s.ports, l)
	}
	if len(errs) > 0 {
		for _, l := range s.ports {
			l.port.Close()
		}
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// Run serves until ctx ends, then answers all who wait.
func (s *Server) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, l := range s.ports {
		wg.Go(func() { l.run(ctx) })
	}
	for _, l := range s.cfg.ACM {
		wg.Go(func() { s.serveACM(ctx, l) })
	}
	if s.cfg.Netlink != nil {
		wg.Go(func() { s.serveNetlink(ctx, s.cfg.Netlink) })
	}
	wg.Wait()
}

// portOf is the port that a path begins at: the one with its SGID or SLID, otherwise the first
// that is active, otherwise the first.
func (s *Server) portOf(mask wire.CompMask, r *wire.PathRecord) *portLoop {
	var active *portLoop
	for _, l := range s.ports {
		st := l.state.Load()
		if mask.Has(wire.PathCompSGID) && slices.ContainsFunc(st.GIDs, func(g ib.GID) bool { return sameGID(g, r.SGID) }) {
			return l
		}
		if mask.Has(wire.PathCompSLID) && st.LID != 0 && r.SLID >= st.LID && int(r.SLID) < int(st.LID)+1<<st.LMC {
			return l
		}
		if active == nil && st.Active {
			active = l
		}
	}
	if active == nil {
		active = s.ports[0]
	}
	return active
}

// sameGID compares GIDs; the default prefix stands for the subnet's.
func sameGID(a, b ib.GID) bool {
	return a == b || a.GUID() == b.GUID() && (a.Prefix() == ib.DefaultSubnetPrefix || b.Prefix() == ib.DefaultSubnetPrefix)
}

// portName is the name of a port in messages and metrics.
func portName(device string, num uint8) string { return fmt.Sprintf("%s/%d", device, num) }

// statusOf is the status of an answer of the ACM protocol.
func statusOf(r agent.Result) acm.Status {
	switch r {
	case agent.Found:
		return acm.OK
	case agent.TimedOut:
		return acm.TimedOut
	case agent.Down:
		return acm.NotConnected
	case agent.Busy:
		return acm.NoMemory
	}
	return acm.NoData
}

// Flush removes entries of all ports, and returns how many there were.
func (s *Server) Flush(ctx context.Context, f agent.Flush) (n int) {
	for _, l := range s.ports {
		gone := 0
		if l.call(ctx, func(mad.Time) {
			before := l.core.Stats().Flushed
			l.step(f)
			gone = int(l.core.Stats().Flushed - before)
		}) {
			n += gone
		}
	}
	return n
}
