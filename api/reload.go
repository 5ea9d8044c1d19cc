package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"heddle/access"
)

// reloaded is what was read from files, and is read again when one of them changes. If that fails, the
// last value stays: a certificate and its key are not replaced at one moment.
type reloaded[T any] struct {
	files []string
	load  func() (T, error)
	// failed is called once for each change that cannot be read.
	failed func(error)

	mu    sync.Mutex
	seen  []stamp // of the files; guarded by mu
	value T       // guarded by mu
}

// stamp changes when a file is written or replaced.
type stamp struct {
	size int64
	mod  time.Time
	file os.FileInfo
}

func (s *stamp) same(o *stamp) bool {
	return s.size == o.size && s.mod.Equal(o.mod) && (s.file == nil) == (o.file == nil) && (s.file == nil || os.SameFile(s.file, o.file))
}

// newReloaded reads the files for the first time, and fails if they cannot be read.
func newReloaded[T any](load func() (T, error), failed func(error), files ...string) (*reloaded[T], error) {
	r := &reloaded[T]{files: files, load: load, failed: failed}
	r.seen = r.stamps()
	var err error
	r.value, err = load()
	return r, err
}

func (r *reloaded[T]) stamps() []stamp {
	list := make([]stamp, len(r.files))
	for i, f := range r.files {
		if fi, err := os.Stat(f); err == nil {
			list[i] = stamp{fi.Size(), fi.ModTime(), fi}
		}
	}
	return list
}

// get returns the value, read anew if a file has changed.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.stamps() // before the files are read: what changes while they are is read next time
	if slices.EqualFunc(now, r.seen, func(a, b stamp) bool { return a.same(&b) }) {
		return r.value
	}
	r.seen = now
	v, err := r.load()
	if err != nil {
		if r.failed != nil {
			r.failed(err)
		}
		return r.value
	}
	r.value = v
	return v
}

// LoadTLS returns a configuration of a server with the certificate and key of PEM files. With a file of
// authorities it asks clients for a certificate, and verifies one that is shown. The files are read
// again when they change; failed is called when they cannot be, and the last ones go on.
func LoadTLS(cert, key, authorities string, failed func(error)) (*tls.Config, error) {
	files := []string{cert, key}
	if authorities != "" {
		files = append(files, authorities)
	}
	r, err := newReloaded(func() (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
		}
		c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		if authorities == "" {
			return c, nil
		}
		b, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("authorities of client certificates: %w", err)
		}
		c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s has no certificate in PEM", authorities)
		}
		return c, nil
	}, failed, files...)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.get(), nil },
	}, nil
}

// LoadClients reads the roles of client certificates (access.ParseClients). The function returns them
// as they are now: the file is read again when it changes.
func LoadClients(file string, failed func(error)) (func() *access.Clients, error) {
	r, err := newReloaded(func() (*access.Clients, error) {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("roles of client certificates: %w", err)
		}
		c, err := access.ParseClients(f, file)
		return c, errors.Join(err, f.Close())
	}, failed, file)
	if err != nil {
		return nil, err
	}
	return r.get, nil
}
