package main

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/daemon"
	"heddle/daemon/eventlog"
	"heddle/daemon/process"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/store"
)

// TestService: the service manager hears that a process is ready, its state, the sign for the
// watchdog, and that it stops.
func TestService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.SetReadDeadline(time.Now().Add(need.Patience)); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000", "WATCHDOG_PID": "7"}
	s := newService(func(k string) string { return env[k] }, 7, slog.New(slog.DiscardHandler))
	if s.watchdog != 30*time.Millisecond {
		t.Fatalf("watchdog %v", s.watchdog)
	}
	p := process.New(process.Config{
		Authority: &process.Single{Open: func(context.Context) (mad.Transport, error) { return nil, nil }, State: store.NewMemory()},
		New:       func(*process.Mandate, *eventlog.Log) (*daemon.Daemon, error) { return nil, nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	go s.run(ctx, p)
	hear := func() string {
		t.Helper()
		b := make([]byte, 4096)
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	if got := hear(); got != "STATUS=waiting for the port\nWATCHDOG=1\nREADY=1" {
		t.Errorf("first: %q", got)
	}
	if got := hear(); got != "STATUS=waiting for the port\nWATCHDOG=1" {
		t.Errorf("then: %q", got)
	}
	cancel()
	for !strings.Contains(hear(), "STOPPING=1") { // more signs may have been under way
	}
	other := newService(func(k string) string { return env[k] }, 8, slog.New(slog.DiscardHandler))
	if other.watchdog != 0 {
		t.Error("the watchdog of another process counts")
	}
}
