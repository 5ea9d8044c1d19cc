package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestListenNeedsTLSOffLoopback(t *testing.T) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, c := range []struct {
		addr    string
		tls     *tls.Config
		ok      bool
		outside bool
	}{
		{"127.0.0.1:0", nil, true, false},
		{"localhost:0", nil, true, false},
		{"127.0.0.1:0", conf, true, false},
		{"0.0.0.0:0", nil, false, true},
		{":0", nil, false, true},
		{"[::]:0", nil, false, true},
		{"192.0.2.1:0", nil, false, true},
		{"sm.example.org:0", nil, false, true},
		{"0.0.0.0:0", conf, true, true},
		{"127.0.0.1", nil, false, false},
		{"", nil, false, false},
	} {
		if got := Outside(c.addr); got != c.outside {
			t.Errorf("Outside(%q) is %v", c.addr, got)
		}
		l, err := API(c.addr, c.tls)
		if err == nil {
			l.Close()
		}
		if (err == nil) != c.ok {
			t.Errorf("API(%q, TLS %v): %v", c.addr, c.tls != nil, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.addr) {
			t.Errorf("the error does not name the address: %v", err)
		}
	}
}

func TestListenReportsBusyAddress(t *testing.T) {
	l, err := API("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := API(l.Addr().String(), nil); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--api") {
		t.Errorf("a port in use: %v", err)
	}
}

// TestLateDaemonKeepsItsSocket: a daemon that has not accepted connections for a while is no dead one.
func TestLateDaemonKeepsItsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	full := false
	for range 10 {
		c, err := net.Dial("unix", path)
		if full = errors.Is(err, syscall.EAGAIN); full {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if l, err := Unix(path); err == nil || !full {
		l.Close()
		t.Errorf("the socket was taken over; no room for connections: %v", full)
	}
}
