package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokenOfBefore: if a manager does not know the token of a file that ctl found by itself, ctl names
// the file; it does not if the user named it, or for another refusal.
func TestTokenOfBefore(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HEDDLE_RUNTIME_DIR", dir)
	status := http.StatusUnauthorized
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	found := filepath.Join(dir, "token-"+port)
	whoami := func(args ...string) string {
		var out, errs strings.Builder
		code := run(context.Background(), append([]string{"ctl", "whoami", "--api", s.URL}, args...), strings.NewReader(""), &out, &errs)
		if code != 1 {
			t.Errorf("%v: exit status %d", args, code)
		}
		return errs.String()
	}
	if text := whoami(); strings.Contains(text, found) {
		t.Errorf("without a token: %s", text)
	}
	if err := os.WriteFile(found, []byte("of before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := whoami(); !strings.Contains(text, "The token is that of "+found+": if a daemon that has ended left this file, remove it.") {
		t.Errorf("with a token of before: %s", text)
	}
	if text := whoami("--token-file", found); strings.Contains(text, "remove it") {
		t.Errorf("with a token that the user named: %s", text)
	}
	status = http.StatusForbidden
	if text := whoami(); strings.Contains(text, "remove it") {
		t.Errorf("403: %s", text)
	}
}

// TestAddressOfPage: --api takes what "page:" and a browser show.
func TestAddressOfPage(t *testing.T) {
	t.Setenv("HEDDLE_RUNTIME_DIR", t.TempDir())
	for _, addr := range []string{"127.0.0.1:7480", "http://127.0.0.1:7480", "http://127.0.0.1:7480/"} {
		m, err := (&place{addr: addr}).locate()
		if err != nil || m.base != "http://127.0.0.1:7480" || m.addr != "127.0.0.1:7480" {
			t.Errorf("%s: %q at %q, %v", addr, m.base, m.addr, err)
		}
	}
}
