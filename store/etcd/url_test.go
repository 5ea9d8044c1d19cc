package etcd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heddle/internal/etcdtest"
	"heddle/store"
	"heddle/store/etcd"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct{ url, endpoints, prefix, err string }{
		{"etcd://a:2379", "a:2379", "/heddle", ""},
		{"etcd://a:2379,[fe80::1]:2379,10.0.0.3:1/ib/north/", "a:2379 [fe80::1]:2379 10.0.0.3:1", "/ib/north", ""},
		{"etcd://a:1/", "a:1", "/heddle", ""},
		{"http://a:1", "", "", "want etcd://HOST:PORT"},
		{"etcd://", "", "", "is no HOST:PORT"},
		{"etcd://a", "", "", "is no HOST:PORT"},
		{"etcd://a:1,", "", "", "is no HOST:PORT"},
		{"etcd://:2379", "", "", "is no HOST:PORT"},
		{"etcd://a:1/p?user=x", "", "", "options do not belong into the URL"},
		{"etcd://root:secret@a:1", "", "", "do not belong into the URL"},
	} {
		endpoints, prefix, err := etcd.ParseURL(c.url)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", c.url, err)
			}
			continue
		}
		if err != nil || strings.Join(endpoints, " ") != c.endpoints || prefix != c.prefix {
			t.Errorf("%s: %v, %q, %v", c.url, endpoints, prefix, err)
		}
	}
}

// FuzzParseURL: what is accepted has endpoints and a prefix, and no secret is repeated.
func FuzzParseURL(f *testing.F) {
	f.Add("etcd://a:1,b:2/p")
	f.Add("etcd://u:p@a:1")
	f.Fuzz(func(t *testing.T, url string) {
		endpoints, prefix, err := etcd.ParseURL(url)
		if err != nil {
			return
		}
		if len(endpoints) == 0 || !strings.HasPrefix(prefix, "/") || len(prefix) < 2 || strings.HasSuffix(prefix, "/") || strings.Contains(url, "@") {
			t.Errorf("%q: %v, %q", url, endpoints, prefix)
		}
		again, p, err := etcd.ParseURL("etcd://" + strings.Join(endpoints, ",") + prefix)
		if err != nil || strings.Join(again, ",") != strings.Join(endpoints, ",") || p != prefix {
			t.Errorf("%q became %v, %q, %v", url, again, p, err)
		}
	})
}

// certificates makes an authority, and certificates of etcd and of a client.
func certificates(t *testing.T) (server, client etcdtest.TLS) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newKey := func(name string) (*ecdsa.PrivateKey, string) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		return k, write(name+".key", "EC PRIVATE KEY", der)
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootKey, _ := newKey("ca")
	issue := func(c *x509.Certificate, k *ecdsa.PrivateKey, name string) string {
		der, err := x509.CreateCertificate(rand.Reader, c, root, &k.PublicKey, rootKey)
		if err != nil {
			t.Fatal(err)
		}
		return write(name+".pem", "CERTIFICATE", der)
	}
	ca := issue(root, rootKey, "ca")
	leaf := func(name string, serial int64) etcdtest.TLS {
		k, key := newKey(name)
		return etcdtest.TLS{CA: ca, Key: key, Cert: issue(&x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}, k, name)}
	}
	return leaf("server", 2), leaf("client", 3)
}

// TestTLSAndUser: certificates on both sides, and a user who may write below the prefix alone.
func TestTLSAndUser(t *testing.T) {
	server, client := certificates(t)
	c := etcdtest.StartTLS(t, 1, server)
	tls := []string{"--cacert", client.CA, "--cert", client.Cert, "--key", client.Key}
	for _, args := range [][]string{
		{"user", "add", "root:root"},
		{"user", "add", "heddle:secret"},
		{"role", "add", "manager"},
		{"role", "grant-permission", "manager", "--prefix=true", "readwrite", "/mine/"},
		{"role", "grant-permission", "manager", "readwrite", "/mine"},
		{"user", "grant-role", "root", "root"},
		{"user", "grant-role", "heddle", "manager"},
		{"auth", "enable"},
	} {
		c.Ctl(append(tls, args...)...)
	}
	o := options(c)
	o.Prefix, o.User, o.Password, o.SnapshotEvery = "/mine", "heddle", "secret", 5
	var err error
	if o.TLS, err = etcd.LoadTLS(client.CA, client.Cert, client.Key); err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	win(t, s, 1)
	for i := range 20 {
		if err := s.Apply(put(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a snapshot is written", func() bool {
		if err := s.Apply(put(1)); err != nil {
			t.Fatal(err)
		}
		_, err := s.Entries(1, 1)
		return err != nil
	})
	if st, err := open(t, o).Load(); err != nil || len(st.MKeys) != 20 {
		t.Errorf("%v", err)
	}
	refused := func(what string, o etcd.Options) {
		t.Helper()
		s, err := etcd.Open(patient(t), o)
		if err == nil || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			s.Close()
		}
		if err != nil && strings.Contains(err.Error(), "guess") {
			t.Errorf("%s: the error has the password: %v", what, err)
		}
	}
	wrong := o
	wrong.Password = "guess"
	refused("a wrong password", wrong)
	elsewhere := o
	elsewhere.Prefix = "/yours"
	refused("a prefix of others", elsewhere)
}
