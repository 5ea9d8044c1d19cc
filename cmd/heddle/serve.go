package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"heddle/api"
	"heddle/api/listen"
	"heddle/api/ufm"
	"heddle/daemon/eventlog"
	"heddle/daemon/process"
	"heddle/store/ring"
	"heddle/subnet/past"
)

// serving serves l in the background until ctx ends; then the channel is
// closed.
func serving(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := listen.Serve(ctx, l, h); err != nil {
			log.Error("the API ended", "addr", l.Addr().String(), "err", err)
		}
	}()
	return done
}

// readToken is the token that the API asks of who reads, empty if none.
func (f smFlags) readToken() (string, error) {
	if f.API.ReadToken == "" {
		return "", nil
	}
	b, err := os.ReadFile(f.API.ReadToken)
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.From("api-read-token-file"), err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 16 {
		return "", usagef("%s %q: want a file with at least 16 characters", f.From("api-read-token-file"), f.API.ReadToken)
	}
	return token, nil
}

// writeToken makes the token that writing needs, and returns its file.
func (f smFlags) writeToken(addr string, o *api.Options) (file string, err error) {
	file = f.API.Token
	if file == "" {
		file = tokenPath(addr)
		err = makePrivate(runtimeDir())
	}
	if err == nil {
		o.Token, err = api.NewToken(file)
	}
	return file, err
}

// serve starts the API as configured. quiet omits the default address, for a
// manager that ends within a second.
func (f smFlags) serve(ctx context.Context, live *running, m managed, quiet bool) (servers []chan struct{}, err error) {
	p, limits := live.p, live.limits
	o := api.Options{Hosts: f.API.Hosts, Limits: limits, Webhooks: live.hooks.Status, Log: m.recent.Lines, Flight: m.flight}
	// ctl of this user finds the API by its announcement.
	atEnd := func(do func()) {
		done := make(chan struct{})
		servers = append(servers, done)
		go func() {
			defer close(done)
			<-ctx.Done()
			do()
		}()
	}
	tell := func(addr, token string) {
		withdraw, err := announce(addr, token)
		if err != nil {
			m.log.Warn("'heddle ctl' needs --api "+addr+": the address cannot be announced", "err", err)
		}
		atEnd(withdraw)
	}
	start := func(l net.Listener, o api.Options) {
		servers = append(servers, serving(ctx, l, p.Handler(o), m.log))
	}
	if f.API.Socket != "" {
		l, err := listen.Unix(f.API.Socket)
		if err != nil {
			return nil, err
		}
		own := o
		own.AllowWrite = true
		start(l, own)
		if f.API.Addr == "" || quiet {
			path, err := filepath.Abs(f.API.Socket)
			if err != nil {
				return nil, err
			}
			tell("unix:"+path, "")
		}
	}
	if f.API.Addr == "" || quiet {
		return servers, nil
	}
	l, tlsConf, err := f.listen(&o, m.log)
	if err != nil {
		return nil, err
	}
	file, err := f.writeToken(l.Addr().String(), &o)
	if err != nil {
		m.log.Warn("the API is read-only", "err", err)
	} else if f.API.Token == "" {
		atEnd(func() { // withdraw the token
			if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == o.Token {
				os.Remove(file)
			}
		})
	}
	if tlsConf == nil && f.API.ReadToken == "" {
		if file, err = filepath.Abs(file); err != nil {
			return nil, err
		}
		tell(l.Addr().String(), file)
	}
	m.log.Info("serving the API", "addr", l.Addr().String(), "token_file", file)
	if m.page != nil {
		scheme := "http"
		if tlsConf != nil {
			scheme = "https"
		}
		m.page(scheme + "://" + l.Addr().String() + "/")
	}
	start(l, o)
	return servers, nil
}

// listen opens the address of the API, and reads the files of its settings.
func (f smFlags) listen(o *api.Options, log *slog.Logger) (net.Listener, *tls.Config, error) {
	tlsConf, err := f.readTLS("api", f.API.Certificate, f.API.TLSKey, f.API.ClientCA, log)
	if err != nil {
		return nil, nil, err
	}
	if o.ReadToken, err = f.readToken(); err != nil {
		return nil, nil, err
	}
	if f.API.Clients != "" {
		if o.Clients, err = api.LoadClients(f.API.Clients, unread(log)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.From("api-clients"), err)
		}
	}
	o.Login = listen.Outside(f.API.Addr)
	l, err := listen.API(f.API.Addr, tlsConf)
	return l, tlsConf, err
}

// serveUFM serves the UFM calls until ctx ends, if configured. The channel is
// closed then.
func (f smFlags) serveUFM(ctx context.Context, p *process.Process, m managed) (running []chan struct{}, err error) {
	if f.UFM.Addr == "" {
		return nil, nil
	}
	b, err := os.ReadFile(f.UFM.Password)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.From("ufm-password-file"), err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" {
		return nil, usagef("%s %q: the file is empty", f.From("ufm-password-file"), f.UFM.Password)
	}
	tlsConf, err := f.readTLS("ufm", f.UFM.Certificate, f.UFM.TLSKey, "", m.log)
	if err != nil {
		return nil, err
	}
	l, err := listen.UFM(f.UFM.Addr, tlsConf)
	if err != nil {
		return nil, err
	}
	m.log.Info("serving the UFM calls", "addr", l.Addr().String(), "tls", tlsConf != nil)
	h := api.NewBasic(ufm.New(p.Memberships()), api.BasicOptions{User: f.UFM.User, Password: password, Kind: "ufm", Body: ufm.MaxBody, Audit: p.Auditor()})
	return []chan struct{}{serving(ctx, l, h, m.log)}, nil
}

// readTLS reads a certificate and its key, and the authorities of client certificates, if they are
// given; nil if there is no certificate. The settings begin with prefix.
func (f smFlags) readTLS(prefix, certFile, keyFile, authorities string, log *slog.Logger) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	c, err := api.LoadTLS(certFile, keyFile, authorities, unread(log))
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", f.From(prefix+"-tls-cert"), f.From(prefix+"-tls-key"), err)
	}
	return c, nil
}

// unread logs that files which changed cannot be read.
func unread(log *slog.Logger) func(error) {
	return func(err error) {
		log.Error("a file that changed cannot be read; what it had before stays in force", "kind", "files_unread", "err", err)
	}
}

// Place and size of the audit log.
const (
	auditDir   = "audit" // in the state directory
	auditName  = "audit"
	auditBytes = 32 << 20
)

// Place of what the subnet looked like.
const (
	historyDir  = "history" // in the state directory
	historyName = "history"
)

// openRings opens the events and the history of m. The returned function closes both.
func (f smFlags) openRings(m *managed) (end func()) {
	events, history := f.openEvents(m), f.openHistory(m)
	return func() { history(); events() }
}

// openHistory opens what the subnet looked like for m; nil, which means memory, without a state
// directory and where it cannot be opened. The returned function closes it.
func (f smFlags) openHistory(m *managed) (end func()) {
	if f.Files.State == "" {
		return func() {}
	}
	r, err := ring.Open(filepath.Join(f.Files.State, historyDir), historyName, past.Bytes)
	if err != nil {
		m.log.Error("the history of the subnet cannot be opened; it is kept in memory", "kind", "history_failed", "err", err)
		return func() {}
	}
	m.history = r
	return func() {
		if err := r.Close(); err != nil {
			m.log.Error("the last states of the history may not be written", "kind", "history_failed", "err", err)
		}
	}
}

// auditLog opens the audit log; without a state directory it is in memory.
func (f smFlags) auditLog() (*ring.Ring, error) {
	dir := ""
	if f.Files.State != "" {
		dir = filepath.Join(f.Files.State, auditDir)
	}
	r, err := ring.Open(dir, auditName, auditBytes)
	if err != nil {
		return nil, fmt.Errorf("the audit log: %w", err)
	}
	return r, nil
}

// eventsDir is the place of the events in the state directory.
const eventsDir = "events"

// eventLog opens the events; without a state directory, or if that fails, they are in memory.
func (f smFlags) eventLog(log *slog.Logger) *eventlog.Log {
	host, _ := os.Hostname() // without one events do not name it
	if f.Files.State == "" {
		return eventlog.New()
	}
	r, err := ring.OpenLimits(filepath.Join(f.Files.State, eventsDir), eventsDir, eventlog.Limits())
	if err != nil {
		log.Error("the events of earlier runs cannot be read; events are kept in memory", "kind", "events_unsaved", "err", err)
		return eventlog.New()
	}
	return eventlog.Open(r, host)
}

// openEvents opens the events of m, if it has none yet. The returned function closes them.
func (f smFlags) openEvents(m *managed) (end func()) {
	if m.events == nil {
		m.events = f.eventLog(m.log)
	}
	return func() {
		if err := m.events.Close(); err != nil {
			m.log.Error("the last events may not be written", "kind", "events_unsaved", "err", err)
		}
	}
}
