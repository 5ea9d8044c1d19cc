package logs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// authority makes certificates of servers at 127.0.0.1 that verify by roots.
func authority(t *testing.T) (issue func(ip string, from, to time.Time) tls.Certificate, roots *x509.CertPool) {
	t.Helper()
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			parent, signer = template, key
		}
		b, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(b)
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	now := time.Now()
	ca, caKey := make(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	roots = x509.NewCertPool()
	roots.AddCert(ca)
	return func(ip string, from, to time.Time) tls.Certificate {
		c, key := make(&x509.Certificate{
			SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: to, IPAddresses: []net.IP{net.ParseIP(ip)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, ca, caKey)
		return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
	}, roots
}

// TestSyslogTLS: a server with a certificate of the right authority gets the lines; one whose certificate is
// another authority's, has expired or names another machine gets nothing, and neither does one without TLS.
func TestSyslogTLS(t *testing.T) {
	issue, roots := authority(t)
	_, others := authority(t)
	now := time.Now()
	good := issue("127.0.0.1", now.Add(-time.Hour), now.Add(time.Hour))
	for _, x := range []struct {
		name  string
		cert  tls.Certificate
		roots *x509.CertPool
		plain bool
		want  string // part of the error; empty: none
	}{
		{"right", good, roots, false, ""},
		{"another authority", good, others, false, "unknown authority"},
		{"the machine's authorities", good, nil, false, "certificate"},
		{"expired", issue("127.0.0.1", now.Add(-2*time.Hour), now.Add(-time.Hour)), roots, false, "expired"},
		{"another machine", issue("127.0.0.2", now.Add(-time.Hour), now.Add(time.Hour)), roots, false, "127.0.0.1"},
		{"without TLS", tls.Certificate{}, roots, true, "tls"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		type result struct {
			list [][]string
			err  error
		}
		got := make(chan result, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				got <- result{nil, err}
				return
			}
			defer c.Close()
			if x.plain {
				_, err := io.WriteString(c, "this is not TLS\n")
				got <- result{nil, err}
				return
			}
			list, err := messages(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{x.cert}}))
			got <- result{list, err}
		}()
		dial := dialer("tls", l.Addr().String(), x.roots)
		if x.want != "" {
			c, err := dial(t.Context())
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: %v", x.name, err)
			}
			if r := <-got; len(r.list) > 0 {
				t.Errorf("%s: it got %q", x.name, r.list)
			}
			l.Close()
			continue
		}
		s := newSyslog(dial, "host", 1, func(SyslogStatus) {})
		slog.New(s.Handler(slog.LevelInfo)).Warn("a secret line", "kind", "k")
		s.Close()
		if r := <-got; r.err != io.EOF || len(r.list) != 1 || r.list[0][len(r.list[0])-1] != "a secret line" {
			t.Errorf("%s: %q, %v", x.name, r.list, r.err)
		}
		l.Close()
	}
}
