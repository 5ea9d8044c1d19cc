package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// Scheme begins the URLs of ParseURL.
const Scheme = "etcd://"

// ParseURL reads etcd://HOST:PORT[,HOST:PORT…][/PREFIX]. The URL has no secret, so that it may be
// logged: one with a user is refused, and not repeated in the error.
func ParseURL(url string) (endpoints []string, prefix string, err error) {
	rest, ok := strings.CutPrefix(url, Scheme)
	switch {
	case strings.Contains(url, "@"):
		return nil, "", errors.New("a user and a password do not belong into the URL; give --etcd-user and --etcd-password-file")
	case !ok:
		return nil, "", fmt.Errorf("%q: want %sHOST:PORT[,HOST:PORT...][/PREFIX]", url, Scheme)
	case strings.ContainsAny(rest, "?#"):
		return nil, "", fmt.Errorf("%q: options do not belong into the URL; see --etcd-ca and the settings after it", url)
	}
	hosts, prefix, _ := strings.Cut(rest, "/")
	for e := range strings.SplitSeq(hosts, ",") {
		host, port, err := net.SplitHostPort(e)
		if err != nil || host == "" || port == "" {
			return nil, "", fmt.Errorf("%q: %q is no HOST:PORT, such as manager-1:2379", url, e)
		}
		endpoints = append(endpoints, e)
	}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix == "" {
		return endpoints, DefaultPrefix, nil
	}
	return endpoints, "/" + prefix, nil
}

// LoadTLS reads the files of a TLS client: the authority of the members' certificates, and a
// certificate with its key, or "" for none.
func LoadTLS(authority, certificate, key string) (*tls.Config, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate (PEM)", authority)
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
