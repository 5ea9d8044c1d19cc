package main

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/replica/live"
	"heddle/settings"
)

// TestPairFiles: each of the two managers accepts the other one by the files that ctl ha certs makes,
// under the names that it was given, and no file is replaced.
func TestPairFiles(t *testing.T) {
	dir := t.TempDir()
	hosts := []string{"manager-1", "10.0.0.2"}
	if err := makePair(dir, hosts, time.Now()); err != nil {
		t.Fatal(err)
	}
	var conf [2]*tls.Config
	var secrets [2][]byte
	for i, h := range hosts {
		f := settings.HA{Dir: filepath.Join(dir, h), Peer: "x:1"}.Complete()
		var err error
		if conf[i], err = live.LoadTLS(f.Certificate, f.Key, f.Authority); err != nil {
			t.Fatal(err)
		}
		if secrets[i], err = live.LoadSecret(f.Secret); err != nil {
			t.Fatal(err)
		}
	}
	if string(secrets[0]) != string(secrets[1]) {
		t.Error("the secrets differ")
	}
	for i, h := range hosts {
		for _, name := range []string{h, "elsewhere"} {
			server, client := conf[i].Clone(), conf[1-i].Clone()
			server.ClientAuth, client.ServerName = tls.RequireAndVerifyClientCert, name
			if err := shake(t, server, client); (err == nil) != (name == h) {
				t.Errorf("the certificate of %s as %s: %v", h, name, err)
			}
		}
	}
	if err := makePair(dir, hosts, time.Now()); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a second time: %v", err)
	}
	fi, err := os.Stat(filepath.Join(dir, hosts[0], settings.HAKey))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", fi.Mode(), err)
	}
}

// shake has a client and a server agree over a connection, and returns the first error.
func shake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(b, server)
		done <- s.Handshake()
		b.Close()
	}()
	err := tls.Client(a, client).Handshake()
	a.Close()
	if err2 := <-done; err == nil {
		err = err2
	}
	return err
}
