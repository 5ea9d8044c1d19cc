package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"heddle/api/listen"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	der, key := a.sign(pkix.Name{CommonName: "authority"}, true)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

func (a *authority) sign(subject pkix.Name, ca bool) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(a.n), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: ca, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, by := tmpl, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	if ca {
		tmpl.KeyUsage = x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// put replaces a file as tools do: under its name when it is complete.
func put(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func keyDER(t *testing.T, k *ecdsa.PrivateKey) []byte {
	t.Helper()
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCertificateIsExchanged: a certificate and its key are replaced, one after the other, under clients
// that connect all the time. No request fails, and the next connection shows the new certificate.
func TestCertificateIsExchanged(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca := newAuthority(t)
	der, k := ca.sign(pkix.Name{CommonName: "one"}, false)
	put(t, cert, "CERTIFICATE", der)
	put(t, key, "PRIVATE KEY", keyDER(t, k))
	var failed atomic.Int32
	conf, err := LoadTLS(cert, key, "", func(error) { failed.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.API("127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- listen.Serve(ctx, l, New(newFake(0), Options{})) }()
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	get := func(c *http.Client) (serial int64, err error) {
		resp, err := c.Get("https://" + l.Addr().String() + "/healthz")
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode != 200 {
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64(), err
	}
	fresh := func() *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
	}
	var load sync.WaitGroup
	var asked atomic.Int32
	done := make(chan struct{})
	for range 3 {
		load.Go(func() {
			c := fresh()
			for {
				if _, err := get(c); err != nil {
					t.Error(err)
				}
				asked.Add(1)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	c := fresh()
	for range 8 {
		before := ca.n
		der, k := ca.sign(pkix.Name{CommonName: "next"}, false)
		put(t, cert, "CERTIFICATE", der)
		if n, err := get(c); err != nil || n != before {
			t.Errorf("a certificate whose key is not there yet: serial %d, want %d, %v", n, before, err)
		}
		put(t, key, "PRIVATE KEY", keyDER(t, k))
		if n, err := get(c); err != nil || n != ca.n {
			t.Errorf("after the exchange: serial %d, want %d, %v", n, ca.n, err)
		}
	}
	close(done)
	load.Wait()
	if failed.Load() < 8 || failed.Load() > 16 {
		t.Errorf("%d files were said to be unreadable, want one for each exchange or two", failed.Load())
	}
	if asked.Load() < 3 {
		t.Errorf("%d requests under way", asked.Load())
	}
	// Files that go away leave the last certificate.
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if n, err := get(c); err != nil || n != ca.n {
		t.Errorf("without a key: serial %d, %v", n, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := LoadTLS(cert, key, "", nil); err == nil {
		t.Error("a start without a key")
	}
}

// TestClientCertificates: a certificate of the authority has the role of its subject, as the file says
// at the time of the request; a token counts before it.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, other := newAuthority(t), newAuthority(t)
	der, k := ca.sign(pkix.Name{CommonName: "server"}, false)
	put(t, file("cert"), "CERTIFICATE", der)
	put(t, file("key"), "PRIVATE KEY", keyDER(t, k))
	put(t, file("ca"), "CERTIFICATE", ca.cert.Raw)
	roles := func(text string) {
		t.Helper()
		if err := os.WriteFile(file("roles"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roles("operator CN=alice,O=Example\nviewer CN=bob,O=Example\n")
	conf, err := LoadTLS(file("cert"), file("key"), file("ca"), nil)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := LoadClients(file("roles"), nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &diary{}
	o := Options{Clients: clients, Login: true, Token: "the daemon's own token", Audit: log}
	l, err := listen.API("127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- listen.Serve(ctx, l, New(newFake(0), o)) }()
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	client := func(a *authority, cn string) *http.Client {
		conf := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		if a != nil {
			der, k := a.sign(pkix.Name{CommonName: cn, Organization: []string{"Example"}}, false)
			pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k}
			// Also one that the server's list of authorities does not name.
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	}
	ask := func(c *http.Client, method, path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, "https://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := c.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	alice, bob, eve, fake, nobody := client(ca, "alice"), client(ca, "bob"), client(ca, "eve"), client(other, "alice"), client(nil, "")
	for _, c := range []struct {
		name         string
		c            *http.Client
		method, path string
		token        string
		want         int
		has          string
	}{
		{"alice", alice, "GET", "/v1/whoami", "", 200, `"name":"cert:CN=alice,O=Example","role":"operator"`},
		{"alice", alice, "POST", "/v1/sweep", "", 202, ""},
		{"alice", alice, "GET", "/v1/backup", "", 403, "operator"},
		{"alice with a token", alice, "GET", "/v1/whoami", o.Token, 200, "write-token"},
		{"bob", bob, "GET", "/v1/status", "", 200, ""},
		{"bob", bob, "POST", "/v1/sweep", "", 403, "viewer"},
		{"eve", eve, "GET", "/v1/status", "", 401, "has no role"},
		{"another authority", fake, "GET", "/v1/status", "", 0, ""},
		{"nobody", nobody, "GET", "/v1/status", "", 401, ""},
	} {
		code, text := ask(c.c, c.method, c.path, c.token)
		if code != c.want || !strings.Contains(text, c.has) {
			t.Errorf("%s, %s: %d %s", c.name, c.path, code, text)
		}
	}
	if e := log.entries; len(e) != 3 || e[0].Who != "cert:CN=alice,O=Example" || e[1].Status != 403 || e[2].Status != 403 {
		t.Errorf("%+v", log.entries)
	}
	roles("viewer CN=eve,O=Example\n# alice left\n")
	for c, want := range map[*http.Client]int{alice: 401, bob: 401, eve: 200} {
		if code, text := ask(c, "GET", "/v1/status", ""); code != want {
			t.Errorf("after the file changed: %d %s, want %d", code, text, want)
		}
	}
	roles("nonsense")
	if code, _ := ask(eve, "GET", "/v1/status", ""); code != 200 {
		t.Errorf("after the file was damaged: %d", code)
	}
	put(t, file("ca"), "CERTIFICATE", other.cert.Raw)
	alice.CloseIdleConnections()
	eve.CloseIdleConnections()
	if code, text := ask(eve, "GET", "/v1/status", ""); code != 0 {
		t.Errorf("the authority was replaced: %d %s", code, text)
	}
	for _, c := range []*http.Client{alice, bob, eve, fake, nobody} {
		c.CloseIdleConnections()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
