package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heddle/settings"
)

func ctlHACerts() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "certs --dir DIR HOST HOST...",
		Short: "Make the certificates and the secret of managers that share a state",
		Long: `Makes a directory for each host below DIR, two for a pair or more for managers
that share a state in etcd. Each has ` + settings.HACertificate + `, ` + settings.HAKey + `, ` + settings.HAAuthority + ` and ` + settings.HASecret + `. Copy each
to its host, as a directory that only the manager's user can read, and name it with
--ha-dir. HOST is the name or the address of the host in the other managers' --peer.

The certificates are valid for ten years. The key of their authority is not kept:
to renew them, run the command again, stop the standby, replace both directories,
restart the active manager, and start the standby.`,
		Example: `  heddle ctl ha certs --dir pair manager-1 manager-2
  scp -r pair/manager-2 manager-2:/etc/heddle/pair`,
		Args: func(_ *cobra.Command, args []string) error {
			if names := slices.Sorted(slices.Values(args)); len(args) < 2 || len(slices.Compact(names)) < len(args) {
				return usagef("name two hosts or more, each once")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, hosts []string) error {
			if dir == "" {
				return usagef("name a directory with --dir")
			}
			if err := makePair(dir, hosts, time.Now()); err != nil {
				return err
			}
			for i, h := range hosts {
				args := fmt.Sprintf("--peer %s:7482 --peer-guid GUID", hosts[(i+1)%2])
				if len(hosts) > 2 {
					others := slices.DeleteFunc(slices.Clone(hosts), func(o string) bool { return o == h })
					args = fmt.Sprintf("--store etcd://... --peer %s:7482", strings.Join(others, ":7482,"))
				}
				fmt.Fprintf(cmd.OutOrStdout(), "on %s: heddle sm %s --ha-dir DIR, with DIR a copy of %s\n", h, args, filepath.Join(dir, fileName(h)))
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "`DIR` to make the directories in")
	return c
}

// certTime is how long the certificates of a pair are valid.
const certTime = 10 * 365 * 24 * time.Hour

// fileName makes a name of a directory of a host's name.
func fileName(host string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator {
			return '_'
		}
		return r
	}, host)
}

// makePair makes the files of some hosts. It replaces no file.
func makePair(dir string, hosts []string, now time.Time) error {
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Heddle pair " + strings.Join(hosts, " and ")},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certTime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	var secret [32]byte
	rand.Read(secret[:]) // never fails
	for i, host := range hosts {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 2), Subject: pkix.Name{CommonName: host},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = []net.IP{ip}
		} else {
			c.DNSNames = []string{host}
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
		if err != nil {
			return err
		}
		keyDER, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return err
		}
		at := filepath.Join(dir, fileName(host))
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
		for name, b := range map[string][]byte{
			settings.HACertificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			settings.HAKey:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
			settings.HAAuthority:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
			settings.HASecret:      []byte(hex.EncodeToString(secret[:]) + "\n"),
		} {
			if err := writeNew(filepath.Join(at, name), b); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeNew writes a file that only its owner can read, and that is not there yet.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: remove it, or name another directory", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
