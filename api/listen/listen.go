// Package listen opens the addresses of the API and serves HTTP on them: a bound of connections that
// nobody can use up for others, and the process at the other end of a Unix socket.
package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Outside reports whether an address can be reached from other machines: there reading needs a token or
// a certificate too (Options.Login).
func Outside(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && !IsLoopback(host)
}

// API opens the address for the API. An address that is not loopback is refused without TLS.
func API(addr string, tlsConf *tls.Config) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("api address %q: want HOST:PORT: %w", addr, err)
	}
	if Outside(addr) && tlsConf == nil {
		return nil, fmt.Errorf("api address %q can be reached from outside this machine: give --api-tls-cert and --api-tls-key, or use 127.0.0.1", addr)
	}
	l, err := listen(addr, tlsConf)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("api address %q: %w; is another manager running? --api names another address, --api \"\" none", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("api address %q: %w", addr, err)
	}
	return l, nil
}

// UFM opens the address for the UFM calls. Their password crosses the net
// with every request, so an address that is not loopback is refused without TLS.
func UFM(addr string, tlsConf *tls.Config) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("UFM API address %q: want HOST:PORT: %w", addr, err)
	}
	if Outside(addr) && tlsConf == nil {
		return nil, fmt.Errorf("UFM API address %q can be reached from outside this machine, and their password would be sent in the clear: give --ufm-tls-cert and --ufm-tls-key, or use 127.0.0.1", addr)
	}
	l, err := listen(addr, tlsConf)
	if err != nil {
		return nil, fmt.Errorf("UFM API address %q: %w", addr, err)
	}
	return l, nil
}

func listen(addr string, tlsConf *tls.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	l = Bound(l, maxConns, reserveConns)
	if tlsConf != nil {
		l = tls.NewListener(l, tlsConf)
	}
	return l, nil
}

// Unix opens the owner's socket, which its user and root alone can open.
// The socket file of a dead daemon is replaced.
func Unix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("api socket: %w", err)
	}
	switch c, err := net.Dial("unix", path); {
	case err == nil:
		c.Close()
		fallthrough
	case errors.Is(err, syscall.EAGAIN): // it lives, and is late with its connections
		return nil, fmt.Errorf("api socket %s: another daemon serves it", path)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("api socket %s: there is a file that is no socket; name another place or remove it", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("api socket: %w", err)
	}
	// On Linux the file takes the mode of the socket, so that there is no
	// moment at which others may connect.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }), err)
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("api socket: %w", err)
	}
	return Bound(l, maxConns, reserveConns), nil
}

// graceTime is how long requests may go on after the end. Event streams end at once.
const graceTime = time.Second

// Serve answers on l until ctx ends, then lets requests finish for a moment.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return ServeFor(ctx, l, h, graceTime)
}

// ServeFor is Serve; requests may go on for so long after the end.
func ServeFor(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration) error {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       connContext,
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if s.Shutdown(end) != nil {
			s.Close()
		}
		<-done
		return nil
	}
}

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
