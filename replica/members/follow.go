package members

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"heddle/replica/wire"
	"heddle/subnet/mirror"
)

// errSelf: the address is this manager's own.
var errSelf = errors.New("members: this is this manager's own address")

// follow connects to another manager, again and again until ctx ends.
func (m *Members) follow(ctx context.Context, p *peer) {
	wait := redial
	for ctx.Err() == nil {
		err := m.followOnce(ctx, p)
		m.mu.Lock()
		if err != nil && p.err != err.Error() && ctx.Err() == nil {
			m.log.Info("no stream from another manager", "peer", p.address, "err", err)
		}
		if p.open && p.warm != nil {
			p.ended = time.Now()
		}
		p.open, p.err = false, fmt.Sprint(err)
		m.mu.Unlock()
		m.tell()
		if errors.Is(err, errSelf) {
			wait = time.Minute // it may move to another manager
		} else {
			wait = redial
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

func (m *Members) tell() {
	if m.cfg.Changed != nil {
		m.cfg.Changed()
	}
}

// followOnce follows one stream until it ends.
func (m *Members) followOnce(ctx context.Context, p *peer) error {
	host, _, err := net.SplitHostPort(p.address)
	if err != nil {
		return err
	}
	dial := &net.Dialer{Timeout: patience}
	conn, err := dial.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	cfg := m.config()
	cfg.ServerName = host
	t := tls.Client(conn, cfg)
	_ = t.SetDeadline(time.Now().Add(patience))
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	g, as, err := m.greet(t)
	if err != nil {
		return err
	}
	m.mu.Lock()
	p.guid = g.From
	if !as.Compares() {
		p.digests = nil // it may be of another version than before
		m.compare(p)
	}
	if g.From == m.guid {
		m.mu.Unlock()
		return errSelf
	}
	p.open, p.err, p.last = true, "", time.Now()
	p.sign.Active = false
	m.mu.Unlock()
	m.log.Info("stream from another manager", "peer", p.address, "guid", g.From.String())
	return m.read(t, p)
}

// messages is how many messages may wait to be applied.
const messages = 64

// read takes signs and what is shown.
func (m *Members) read(t *tls.Conn, p *peer) error {
	alive := func() {
		_ = t.SetReadDeadline(time.Now().Add(patience))
		m.mu.Lock()
		p.last = time.Now()
		m.mu.Unlock()
	}
	alive()
	shown, ended := make(chan []byte, messages), make(chan struct{})
	go func() {
		defer close(ended)
		m.apply(shown, p)
	}()
	defer func() { close(shown); <-ended }()
	r := wire.NewReader(bufio.NewReaderSize(t, wire.MaxFrame))
	for {
		x, err := r.Next(alive)
		if err != nil {
			return err
		}
		switch x := x.(type) {
		case *wire.Sign:
			m.mu.Lock()
			was := p.sign
			p.sign = x.Sign
			m.heard(&x.Sign)
			m.mu.Unlock()
			if was.Active != x.Active {
				m.tell()
			}
		case *wire.Digests:
			m.mu.Lock()
			p.digests = x
			m.compare(p)
			m.mu.Unlock()
		case *wire.Shown:
			if !x.Last {
				return errors.New("members: a message in pieces")
			}
			select {
			case shown <- x.Piece:
			default:
				return errors.New("members: too many messages wait")
			}
		default:
			return fmt.Errorf("members: a %T on this stream", x)
		}
	}
}

// apply applies what is shown. That takes a while, so signs are taken meanwhile.
func (m *Members) apply(shown <-chan []byte, p *peer) {
	var copied mirror.Mirror
	failed := false
	for b := range shown {
		if failed {
			continue
		}
		if err := copied.Apply(b); err != nil {
			m.log.Warn("what another manager publishes is not followed: a takeover reads the subnet first", "peer", p.address, "err", err)
			failed = true
			m.mu.Lock()
			p.warm = nil
			m.mu.Unlock()
			continue
		}
		if len(shown) > 0 {
			continue // a newer one waits
		}
		s := copied.Snapshot()
		m.mu.Lock()
		p.warm, p.ended = s, time.Time{}
		if !p.open {
			p.ended = time.Now()
		}
		m.mu.Unlock()
		m.tell()
	}
}

// greet makes a connection a stream. Both send first: what the other one is, decides each.
func (m *Members) greet(t *tls.Conn) (g wire.Greeting, as wire.Agreed, err error) {
	m.mu.Lock()
	mine := wire.Greeting{From: m.guid, Versions: wire.Own()}
	m.mu.Unlock()
	if _, err := t.Write(mine.Put(nil)); err != nil {
		return g, as, err
	}
	if err := g.Read(t); err != nil {
		return g, as, err
	}
	if g.From == 0 || g.To != 0 {
		return g, as, errors.New("members: the other end is a manager of a pair, not of a state in etcd")
	}
	if as, err = mine.Versions.Agree(&g.Versions); err != nil {
		return g, as, err
	}
	return g, as, t.SetDeadline(time.Time{})
}

// config is that of both ends: each demands a certificate of the authority with the name of a member.
func (m *Members) config() *tls.Config {
	c := m.cfg.TLS.Clone()
	c.MinVersion = tls.VersionTLS13
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.SessionTicketsDisabled = true
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return errors.New("members: the other end has no certificate")
		}
		for _, p := range m.peers {
			if host, _, err := net.SplitHostPort(p.address); err == nil && cs.PeerCertificates[0].VerifyHostname(host) == nil {
				return nil
			}
		}
		return errors.New("members: the certificate of the other end names none of the managers")
	}
	return c
}
