package members

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"heddle/replica"
	"heddle/replica/wire"
	"heddle/subnet"
	"heddle/subnet/mirror"
)

// streamsMost bounds the connections of others: anybody can connect.
const streamsMost = 64

// accept shows what this manager publishes to those that connect, until ctx ends.
func (m *Members) accept(ctx context.Context, l net.Listener) {
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, streamsMost)
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.log.Warn("a stream was not accepted", "err", err)
			pause(ctx, Every) // out of descriptors, say
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		running.Go(func() {
			defer func() { <-places }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			if err := m.show(ctx, conn); err != nil && ctx.Err() == nil {
				m.log.Debug("a stream to another manager ended", "to", conn.RemoteAddr().String(), "err", err)
			}
		})
	}
}

// bounded gives each write to a connection its own deadline.
type bounded struct{ *tls.Conn }

func (b bounded) Write(p []byte) (int, error) {
	if err := b.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	return b.Conn.Write(p)
}

// show sends signs and what this manager publishes, until the stream ends.
func (m *Members) show(ctx context.Context, conn net.Conn) error {
	t := tls.Server(conn, m.config())
	_ = t.SetDeadline(time.Now().Add(patience))
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	_, as, err := m.greet(t)
	if err != nil {
		return err
	}
	w := wire.NewWriter(bounded{t}, as)
	tick := time.NewTicker(Every)
	defer tick.Stop()
	seq, signed := uint64(0), time.Now()
	sign := func() *wire.Sign {
		active := m.now().active
		seq++
		signed = time.Now()
		s := replica.Sign{Boot: m.boot, Seq: seq, Active: active}
		if m.cfg.Last != nil {
			s.Last = m.cfg.Last()
		}
		if active {
			s.Wall = m.Wall()
		}
		return &wire.Sign{Sign: s}
	}
	none := func() *wire.Sign { return nil }
	between := func() *wire.Sign { // the frames of a large message
		if time.Since(signed) < Every {
			return nil
		}
		return sign()
	}
	enc := mirror.NewEncoder(m.boot)
	ready := make(chan []byte, 1)
	var last *subnet.Snapshot
	var compared *[]wire.Setting
	busy := false
	for {
		now := m.now()
		if s := now.shown; s != nil && s != last && !busy {
			last, busy = s, true
			go func() { ready <- bytes.Clone(enc.Next(s)) }() // a whole one takes long; signs go on
		}
		if now.settings != compared && as.Compares() {
			compared = now.settings
			if err := w.Write(wire.NewDigests(*compared, nil), none); err != nil {
				return err
			}
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			err = w.Write(sign(), none)
		case <-now.news:
			err = w.Write(sign(), none)
		case b := <-ready:
			busy = false
			err = w.Write(&wire.Shown{Last: true, Piece: b}, between)
		}
		if err != nil {
			return err
		}
	}
}
