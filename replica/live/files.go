package live

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"heddle/replica/wire"
)

// LoadTLS reads a certificate with its key and the authorities of the peer's certificate, PEM
// files, for Config.TLS. The certificate is read again for each connection, so that it can be
// renewed while the program runs.
func LoadTLS(cert, key, ca string) (*tls.Config, error) {
	load := func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("replica: certificate %s with key %s: %w", cert, key, err)
		}
		return &c, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("replica: authorities of the peer's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("replica: %s has no certificate in PEM", ca)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    pool, ClientCAs: pool,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() },
	}, nil
}

// LoadSecret reads Config.Secret from a file: its bytes without white space at the ends, at least
// 16. A file that others than its owner can read is refused.
func LoadSecret(file string) ([]byte, error) {
	fi, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("replica: secret of the pair: %w", err)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("replica: secret of the pair: others can read %s: chmod 600 %s", file, file)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("replica: secret of the pair: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) < wire.MinSecret {
		return nil, fmt.Errorf("replica: secret of the pair: %s has %d bytes, at least %d are needed", file, len(b), wire.MinSecret)
	}
	return b, nil
}
