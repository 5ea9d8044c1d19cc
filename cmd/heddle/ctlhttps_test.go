package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHTTPS: ctl verifies the manager's certificate, shows its own and a token from a file, and sends no
// token that it found for another manager.
func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(runtimeVariable, dir)
	var seen struct {
		token string
		certs int
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.token, seen.certs = r.Header.Get("Authorization"), len(r.TLS.PeerCertificates)
		_, _ = w.Write([]byte(`{"level":"info"}`))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	write := func(name string, b []byte) string {
		t.Helper()
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	pair := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ca := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	keyFile := write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	token := write("token", []byte("secret\n"))
	write("token-7480", []byte("of another manager\n"))
	for _, c := range []struct {
		args  []string
		want  string // in the output or the error
		token string
		certs int
	}{
		{[]string{"--api", s.URL, "--ca", ca}, "info", "", 0},
		{[]string{"--api", s.URL + "/", "--ca", ca, "--token-file", token}, "info", "Bearer secret", 0},
		{[]string{"--api", s.URL, "--ca", ca, "--cert", ca, "--key", keyFile}, "info", "", 1},
		{[]string{"--api", s.URL}, "certificate", "", 0},
		{[]string{"--api", s.URL, "--ca", keyFile}, "no certificate in PEM", "", 0},
		{[]string{"--api", s.URL, "--ca", ca, "--cert", ca}, "both --cert and --key", "", 0},
		{[]string{"--api", "127.0.0.1:1", "--ca", ca}, "are for --api https", "", 0},
	} {
		seen.token, seen.certs = "", 0
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(append([]string{"ctl", "loglevel"}, c.args...))
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.ExecuteContext(t.Context())
		text := out.String()
		if err != nil {
			text += err.Error()
		}
		if !strings.Contains(text, c.want) || seen.token != c.token || seen.certs != c.certs {
			t.Errorf("%v: %s\ntoken %q, %d certificates", c.args[1:], text, seen.token, seen.certs)
		}
	}
}
