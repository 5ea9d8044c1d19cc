package api

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
)

// Limits on what clients may hold open. Anyone who can reach the address may connect (on
// loopback, every local user), so no client may exclude others.
const (
	// maxConns bounds the ordinary connections of a listener, and reserveConns the
	// additional ones for health probes and requests with a token. When the reserve is
	// full, its oldest connection is closed.
	maxConns     = 256
	reserveConns = 64
	// maxStreams bounds the event streams of clients without a token, and those of clients
	// with one; maxClientStreams those of one address, or of loopback, without a token.
	maxStreams       = 64
	maxClientStreams = 32
)

// boundListener bounds the open connections of a listener. It accepts all, so that a probe is
// answered however many are held open.
type boundListener struct {
	net.Listener
	most, reserve int

	mu     sync.Mutex
	open   int          // ordinary connections; guarded by mu
	spares []*boundConn // oldest first; guarded by mu
}

// bound lets most connections of l be open at a time, and reserve more with fewer rights.
func bound(l net.Listener, most, reserve int) net.Listener {
	return &boundListener{Listener: l, most: most, reserve: reserve}
}

func (b *boundListener) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := &boundConn{Conn: c, of: b}
	b.mu.Lock()
	var oldest *boundConn
	if n.spare = b.open >= b.most; n.spare {
		if b.spares = append(b.spares, n); len(b.spares) > b.reserve {
			oldest = b.spares[0]
		}
	} else {
		b.open++
	}
	b.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	return n, nil
}

type boundConn struct {
	net.Conn
	of    *boundListener
	spare bool
	once  sync.Once
}

func (c *boundConn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		if !c.spare {
			c.of.open--
		} else if i := slices.Index(c.of.spares, c); i >= 0 {
			c.of.spares = slices.Delete(c.of.spares, i, i+1)
		}
	})
	return c.Conn.Close()
}

type spareKey struct{}

// connContext records whether a connection belongs to the reserve, and who is at the other end of a
// Unix socket.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	b, ok := c.(*boundConn)
	if !ok {
		return ctx
	}
	if b.spare {
		ctx = context.WithValue(ctx, spareKey{}, true)
	}
	if u, ok := b.Conn.(*net.UnixConn); ok {
		ctx = context.WithValue(ctx, peerKey{}, peerOf(u))
	}
	return ctx
}

// peer is the process that connected to a Unix socket.
type peer struct{ uid, pid int }

type peerKey struct{}

// unknownUID is the uid of a process of which the kernel says nothing: that of no user. 65534 is one in
// some containers.
const unknownUID = -1

func peerOf(c *net.UnixConn) peer {
	p := peer{uid: unknownUID}
	raw, err := c.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) { // an error leaves it unknown
		if u, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			p = peer{int(u.Uid), int(u.Pid)}
		}
	})
	return p
}

// crowded reports whether a request came over a connection of the reserve.
func crowded(r *http.Request) bool { return r.Context().Value(spareKey{}) != nil }

func isProbe(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// streamLimit bounds the event streams that are open.
type streamLimit struct {
	mu       sync.Mutex
	token    int            // with a token; guarded by mu
	open     int            // without; guarded by mu
	byClient map[string]int // of those; guarded by mu
}

// begin takes a place for a stream; end, which is nil if there is none, gives it back.
func (l *streamLimit) begin(r *http.Request) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if callerOf(r.Context()).Known {
		if l.token >= maxStreams {
			return nil
		}
		l.token++
		return func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.token--
		}
	}
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || isLoopback(client) {
		client = "loopback" // it has as many addresses as anybody likes
	}
	if l.open >= maxStreams || l.byClient[client] >= maxClientStreams {
		return nil
	}
	if l.byClient == nil {
		l.byClient = map[string]int{}
	}
	l.open++
	l.byClient[client]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		if l.byClient[client]--; l.byClient[client] == 0 {
			delete(l.byClient, client)
		}
	}
}
