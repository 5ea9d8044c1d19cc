package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSecrets: reading on loopback needs no token, but secrets do: any token shows
// Q_Keys of groups, only the write token shows the SA key.
func TestSecrets(t *testing.T) {
	const write, read = "write-token-0123456789", "read-token-0123456789"
	for _, c := range []struct {
		name     string
		o        Options
		token    string
		qkey     bool
		sakey    int
		readable int
	}{
		{"no token", Options{Token: write}, "", false, 401, 200},
		{"a wrong token", Options{Token: write}, "x" + write, false, 401, 401},
		{"no token is configured", Options{}, "", false, 401, 200},
		{"the token", Options{Token: write}, write, true, 200, 200},
		{"the token to read", Options{Token: write, ReadToken: read}, read, true, 403, 200},
		{"no token, reading needs one", Options{Token: write, ReadToken: read}, "", false, 401, 401},
		{"the owner's socket", Options{AllowWrite: true}, "", true, 200, 200},
	} {
		f := newFake(0)
		f.groups = []Group{{MGID: "ff12::1", QKey: "0x00000b1b"}}
		h := New(f, c.o)
		get := func(path string) (int, string) {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		code, body := get("/v1/groups")
		f.groups[0].QKey = "0x00000b1b"
		if code != c.readable || code == 200 && strings.Contains(body, "0b1b") != c.qkey {
			t.Errorf("%s: groups: %d %s", c.name, code, body)
		}
		for _, path := range []string{"/v1/sa-key", "/v1/%73a-key"} {
			if code, body := get(path); code != c.sakey || strings.Contains(body, "1122334455667788") != (c.sakey == 200) {
				t.Errorf("%s: %s: %d %s, want %d", c.name, path, code, body, c.sakey)
			}
		}
		if code, body := get("/v1/backup"); code != c.sakey || strings.Contains(body, "the backup") != (c.sakey == 200) {
			t.Errorf("%s: backup: %d %s, want %d", c.name, code, body, c.sakey)
		}
	}
}

// TestBackupFails: an error before the first byte is told, and no part of a backup is sent.
func TestBackupFails(t *testing.T) {
	f := newFake(0)
	f.backupErr = errors.New("the file is damaged")
	w := httptest.NewRecorder()
	New(f, Options{AllowWrite: true}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/backup", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "the file is damaged") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
