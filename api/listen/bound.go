package listen

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
)

// Bounded bounds the open connections of a listener. It accepts all, so that a probe is
// answered however many are held open.
type Bounded struct {
	net.Listener
	most, reserve int

	mu     sync.Mutex
	open   int          // ordinary connections; guarded by mu
	spares []*boundConn // oldest first; guarded by mu
}

// Bound lets most connections of l be open at a time, and reserve more with fewer rights.
func Bound(l net.Listener, most, reserve int) *Bounded {
	return &Bounded{Listener: l, most: most, reserve: reserve}
}

// Open is how many ordinary connections are open.
func (b *Bounded) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// Accept implements net.Listener.
func (b *Bounded) Accept() (net.Conn, error) {
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
	of    *Bounded
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
		ctx = WithPeer(ctx, peerOf(u))
	}
	return ctx
}

// Peer is the process that connected to a Unix socket.
type Peer struct{ UID, PID int }

type peerKey struct{}

// WithPeer is the context of requests of a process.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerOf is the process that makes a request; false: the request came over no Unix socket of this package.
func PeerOf(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// UnknownUID is the uid of a process of which the kernel says nothing: that of no user. 65534 is one in
// some containers.
const UnknownUID = -1

func peerOf(c *net.UnixConn) Peer {
	p := Peer{UID: UnknownUID}
	raw, err := c.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) { // an error leaves it unknown
		if u, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			p = Peer{int(u.Uid), int(u.Pid)}
		}
	})
	return p
}

// Crowded reports whether a request came over a connection of the reserve.
func Crowded(r *http.Request) bool { return r.Context().Value(spareKey{}) != nil }
