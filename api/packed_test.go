package api

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"heddle/access"
)

// TestPacked: large answers are compressed for who takes that, byte for byte the same; keys, answers to
// changes and streams are not.
func TestPacked(t *testing.T) {
	o, tokens := everything(t)
	h := New(newFake(400), o)
	get := func(method, path string, head ...string) *httptest.ResponseRecorder {
		return ask(h, method, path, nil, append(head, "Authorization: Bearer "+tokens[access.Admin])...)
	}
	for _, path := range []string{"/openapi.json", "/shell.js"} {
		plain, packed := get("GET", path), get("GET", path, "Accept-Encoding: gzip")
		if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" || !strings.Contains(packed.Header().Get("Vary"), "Accept-Encoding") {
			t.Fatalf("%s: %v, %v", path, plain.Header(), packed.Header())
		}
		z, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		n := packed.Body.Len()
		b, err := io.ReadAll(z)
		if err != nil || string(b) != plain.Body.String() || 2*n > len(b) {
			t.Errorf("%s: %d bytes of %d, %v", path, n, len(b), err)
		}
		if w := get("GET", path, "Accept-Encoding: gzip, deflate, br, zstd"); w.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s for a browser: %v", path, w.Header())
		}
	}
	for _, r := range Routes() {
		keys := r.Path == "/v1/sa-key" || r.Path == "/v1/backup" || r.Path == "/v1/support"
		if r.packed(r.Method) != (r.Method == "GET" && !keys && r.Path != "/v1/events/stream") {
			t.Errorf("%s %s: packed %v", r.Method, r.Path, r.packed(r.Method))
		}
	}
	if w := get("GET", "/v1/backup", "Accept-Encoding: gzip"); w.Header().Get("Content-Encoding") != "" {
		t.Error("a backup is compressed")
	}
}
