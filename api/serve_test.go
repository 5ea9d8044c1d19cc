package api

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestListenStaysAtHome(t *testing.T) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, c := range []struct {
		addr  string
		tls   *tls.Config
		token string
		ok    bool
	}{
		{"127.0.0.1:0", nil, "", true},
		{"localhost:0", nil, "", true},
		{"127.0.0.1:0", conf, "", true},
		{"0.0.0.0:0", nil, "", false},
		{":0", nil, "", false},
		{"[::]:0", nil, "", false},
		{"192.0.2.1:0", nil, "", false},
		{"sm.example.org:0", nil, "", false},
		{"0.0.0.0:0", conf, "", false},
		{"0.0.0.0:0", nil, "a token of some length", false},
		{"0.0.0.0:0", conf, "a token of some length", true},
		{"127.0.0.1", nil, "", false},
		{"", nil, "", false},
	} {
		l, err := Listen(c.addr, c.tls, c.token)
		if err == nil {
			l.Close()
		}
		if (err == nil) != c.ok {
			t.Errorf("Listen(%q, TLS %v, token %v): %v", c.addr, c.tls != nil, c.token != "", err)
		}
		if err != nil && !strings.Contains(err.Error(), c.addr) {
			t.Errorf("the error does not name the address: %v", err)
		}
	}
}

func TestListenTellsWhoIsThere(t *testing.T) {
	l, err := Listen("127.0.0.1:0", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(l.Addr().String(), nil, ""); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--api") {
		t.Errorf("a port in use: %v", err)
	}
}

func TestOwnersSocket(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "run", "api.sock")
	l, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory %v, %v", st.Mode(), err)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	f := newFake(0)
	go func() { ended <- Serve(ctx, l, New(f, Options{AllowWrite: true})) }()
	if _, err := ListenUnix(path); err == nil {
		t.Error("a socket that another daemon serves was taken over")
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	resp, err := client.Post("http://heddle/v1/sweep", "", nil)
	if err != nil || resp.StatusCode != http.StatusAccepted || f.sweeps != 1 {
		t.Errorf("a sweep over the socket: %v, %v", resp, err)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	// What a daemon that was killed leaves behind is replaced …
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err = ListenUnix(path)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	l.Close()
	// … but nothing else.
	file := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(file); err == nil {
		t.Error("a file was replaced by the socket")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "x" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

func TestToken(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "run", "token")
	a, err := NewToken(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewToken(path)
	if err != nil {
		t.Fatal(err)
	}
	if a == b || len(a) < 20 {
		t.Errorf("tokens %q, %q", a, b)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(text)) != b {
		t.Errorf("the file has %q, %v", text, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("left over: %v, %v", list, err)
	}
	if _, err := NewToken("/proc/no/token"); err == nil {
		t.Error("no error where nothing can be written")
	}
}

// endless is a listener to which somebody always connects.
type endless struct{ net.Listener }

type still struct{ net.Conn }

func (still) Close() error                    { return nil }
func (endless) Accept() (net.Conn, error)     { return still{}, nil }
func (endless) Close() error                  { return nil }
func accept(l net.Listener, to chan net.Conn) { c, _ := l.Accept(); to <- c }

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bound(endless{}, 2)
		got := make(chan net.Conn, 4)
		for range 4 {
			go accept(l, got)
		}
		synctest.Wait()
		if len(got) != 2 {
			t.Fatalf("%d connections at once, want 2", len(got))
		}
		c := <-got
		c.Close()
		c.Close() // closing twice gives back one place
		synctest.Wait()
		if len(got) != 2 {
			t.Fatalf("%d connections after one was closed, want 2", len(got))
		}
		l.Close()
		l.Close()
		synctest.Wait()
		if len(got) != 3 {
			t.Fatal("Close does not wake who waits in Accept")
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v", err)
		}
	})
}

// TestServeEnds: a stream that nobody ends does not hold up the end.
func TestServeEnds(t *testing.T) {
	l, err := Listen("127.0.0.1:0", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Serve(ctx, l, New(newFake(1), Options{})) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/v1/events/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream did not end well: %v", err)
	}
}
