package api

import (
	"context"
	"crypto/rand"
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
	return err == nil && !isLoopback(host)
}

// Listen opens the address for the API. An address that is not loopback is refused without TLS.
func Listen(addr string, tlsConf *tls.Config) (net.Listener, error) {
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

// ListenUFM opens the address for the UFM calls. Their password crosses the net
// with every request, so an address that is not loopback is refused without TLS.
func ListenUFM(addr string, tlsConf *tls.Config) (net.Listener, error) {
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
	l = bound(l, maxConns, reserveConns)
	if tlsConf != nil {
		l = tls.NewListener(l, tlsConf)
	}
	return l, nil
}

// ListenUnix opens the owner's socket, which its user and root alone can open.
// The socket file of a dead daemon is replaced.
func ListenUnix(path string) (net.Listener, error) {
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
	return bound(l, maxConns, reserveConns), nil
}

// graceTime is how long requests may go on after the end. Event streams end at once.
var graceTime = time.Second

// Serve answers on l until ctx ends, then lets requests finish for a moment.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
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
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
		defer cancel()
		if s.Shutdown(grace) != nil {
			s.Close()
		}
		<-done
		return nil
	}
}

// NewToken writes a fresh random token to path, readable by its owner alone,
// and returns it.
func NewToken(path string) (string, error) {
	token := rand.Text()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("api token: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".token-*") // created with mode 0600
	if err != nil {
		return "", fmt.Errorf("api token: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(token + "\n")
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return "", fmt.Errorf("api token: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return "", fmt.Errorf("api token: %w", err)
	}
	return token, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
