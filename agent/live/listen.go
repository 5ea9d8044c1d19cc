package live

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
)

// ListenACM opens a socket for ibacm's protocol: a path, or HOST:PORT on this machine alone.
// All users may connect to a path; another path with which it is linked may be given after "=".
func ListenACM(spec string) (net.Listener, error) {
	path, link, _ := strings.Cut(spec, "=")
	if !strings.HasPrefix(path, "/") {
		return listenTCP(spec)
	}
	if err := vacant(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("ACM socket: %w", err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		l.Close()
		return nil, fmt.Errorf("ACM socket: %w", err)
	}
	if link == "" {
		return l, nil
	}
	if st, err := os.Lstat(link); err == nil && st.Mode()&(os.ModeSymlink|os.ModeSocket) != 0 {
		os.Remove(link)
	}
	if err := os.Symlink(path, link); err != nil {
		l.Close()
		return nil, fmt.Errorf("ACM socket: %w", err)
	}
	return &linked{l, path, link}, nil
}

// linked removes the link with its listener.
type linked struct {
	net.Listener
	path, link string
}

func (l *linked) Close() error {
	if to, err := os.Readlink(l.link); err == nil && to == l.path {
		os.Remove(l.link)
	}
	return l.Listener.Close()
}

// vacant removes the socket of a service that is gone.
func vacant(path string) error {
	switch c, err := net.Dial("unix", path); {
	case err == nil:
		c.Close()
		fallthrough
	case errors.Is(err, syscall.EAGAIN): // it lives, and is late with its connections
		return fmt.Errorf("ACM socket %s: another service answers there; stop it (systemctl stop ibacm.socket ibacm.service), or name another place with --acm", path)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode()&(os.ModeSocket|os.ModeSymlink) == 0 {
		return fmt.Errorf("ACM socket %s: there is a file that is no socket", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("ACM socket: %w", err)
	}
	return nil
}

func listenTCP(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("ACM socket %q: want a path or HOST:PORT", addr)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("ACM socket %q: the protocol has no credentials, so only this machine may connect; use 127.0.0.1", addr)
	}
	return net.Listen("tcp", addr)
}
