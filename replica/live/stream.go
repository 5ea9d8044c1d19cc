package live

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"heddle/mad"
	"heddle/replica"
	"heddle/replica/wire"
	"heddle/store/journal"
)

const (
	// silentSigns is how many signs a stream may miss until it counts as broken: a connection
	// whose packets are dropped says nothing by itself.
	silentSigns = 10
	// greetings is how many connections may be without a greeting at once, and greetingsEach how
	// many of one host: anybody can connect, and shall not take the peer's place.
	greetings     = 64
	greetingsEach = 4
)

// streams are the connections to the peer.
type streams struct {
	p        *Pair
	tls      *tls.Config
	listener net.Listener
	ctx      context.Context // of attempts to connect
	cancel   context.CancelFunc
	mine     *stream // this manager made it; nil: none
	theirs   *stream // the peer made it
	dialing  bool
	dialAt   mad.Time
	// toldVersions: people know that the managers have no version in common.
	toldVersions bool
}

func (s *streams) init(p *Pair) {
	s.p = p
	s.ctx, s.cancel = context.WithCancel(context.Background())
	c := p.cfg.TLS.Clone()
	c.MinVersion = tls.VersionTLS13
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.SessionTicketsDisabled = true
	if c.ServerName == "" {
		if host, _, err := net.SplitHostPort(p.cfg.Peer); err == nil {
			c.ServerName = host
		}
	}
	// Both sides check the name, so that another certificate of the same authority is no peer.
	name := c.ServerName
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return errors.New("replica: the peer has no certificate")
		}
		return cs.PeerCertificates[0].VerifyHostname(name)
	}
	s.tls = c
}

// stream is a connection. Its writer and its reader have a goroutine each.
type stream struct {
	p    *Pair
	conn *tls.Conn
	mine bool
	as   wire.Agreed

	mu     sync.Mutex
	queue  []any      // guarded by mu
	bytes  int        // of queue, about; guarded by mu
	sign   *wire.Sign // the latest that was not sent; guarded by mu
	closed bool       // guarded by mu
	show   showing    // what the managers publish, for the peer; guarded by mu
	// relayed are queries, or answers to such, that are passed on; guarded by mu.
	relayed      []*wire.Relayed
	relayedBytes int           // of relayed, about; guarded by mu
	wake         chan struct{} // something to write
	telling
}

// silence is how long a stream may be silent.
func (p *Pair) silence() time.Duration { return silentSigns * p.cfg.Rules.Every }

// listen accepts the peer's streams until end is called.
func (s *streams) listen() (end func(), err error) {
	if s.listener, err = net.Listen("tcp", s.p.cfg.Listen); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	s.p.mu.Lock()
	s.p.st.Listening = s.listener.Addr().String()
	s.p.mu.Unlock()
	var running sync.WaitGroup
	var places places
	running.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				if s.ctx.Err() != nil {
					return
				}
				s.p.log.Warn("a stream of the peer was not accepted", "err", err)
				select { // out of descriptors, say
				case <-time.After(s.p.cfg.Rules.Every):
				case <-s.ctx.Done():
				}
				continue
			}
			host := hostOf(conn.RemoteAddr())
			if !places.take(host) {
				conn.Close()
				continue
			}
			running.Go(func() {
				defer places.leave(host)
				s.accept(conn)
			})
		}
	})
	return func() {
		s.cancel()
		s.listener.Close()
		running.Wait()
	}, nil
}

// places are those of connections without a greeting.
type places struct {
	mu   sync.Mutex
	each map[netip.Prefix]int // guarded by mu
	all  int                  // guarded by mu
}

func (x *places) take(host netip.Prefix) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all >= greetings || x.each[host] >= greetingsEach {
		return false
	}
	if x.each == nil {
		x.each = map[netip.Prefix]int{}
	}
	x.all++
	x.each[host]++
	return true
}

func (x *places) leave(host netip.Prefix) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all--
	if x.each[host]--; x.each[host] == 0 {
		delete(x.each, host)
	}
}

// hostOf is a connection's host: its address, or its network where a host has many (IPv6).
func hostOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := t.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // bits are those of an address
	return p
}

func (s *streams) accept(conn net.Conn) {
	t := tls.Server(conn, s.tls)
	as, err := s.greet(t)
	if need := uint8(s.p.known.needs.Load()); err == nil && as.Journal < need {
		err = fmt.Errorf("%w: the other one has version %d of the journal, and what is stored here needs version %d; that one is older: upgrade it",
			wire.ErrVersions, as.Journal, need)
	}
	if err != nil {
		s.p.log.Debug("a connection is not one of the peer", "from", conn.RemoteAddr().String(), "err", err)
		t.Close()
		s.p.post(func() { s.unlike(err) })
		return
	}
	if !s.p.post(func() { s.opened(t, false, as) }) {
		t.Close()
	}
}

// unlike tells people once that the managers have no version in common.
func (s *streams) unlike(err error) {
	if !errors.Is(err, wire.ErrVersions) || s.toldVersions {
		return
	}
	s.toldVersions = true
	s.p.notice(&replica.Notice{Kind: replica.NoticeVersions, Err: err})
	s.p.set(func(st *Status) { st.StreamError = err.Error() })
}

// greet makes a connection a stream.
func (s *streams) greet(t *tls.Conn) (as wire.Agreed, err error) {
	stop := context.AfterFunc(s.ctx, func() { t.Close() })
	defer stop()
	rules := &s.p.cfg.Rules
	if err := t.SetDeadline(time.Now().Add(s.p.silence())); err != nil {
		return as, err
	}
	if err := t.HandshakeContext(s.ctx); err != nil {
		return as, err
	}
	mine := wire.Greeting{From: rules.Me, To: rules.Peer, LID: s.p.answer.lid(), Versions: s.p.cfg.Versions}
	if _, err := t.Write(mine.Put(nil)); err != nil {
		return as, err
	}
	var g wire.Greeting
	if err := g.Read(t); err != nil {
		return as, err
	}
	if g.From != rules.Peer || g.To != rules.Me {
		return as, fmt.Errorf("replica: the other end is the manager of port %v and wants that of %v, not %v and %v", g.From, g.To, rules.Peer, rules.Me)
	}
	s.p.known.met(g.From, g.LID)
	if as, err = mine.Versions.Agree(&g.Versions); err != nil {
		return as, err
	}
	return as, t.SetDeadline(time.Time{})
}

// tick connects a standby to the peer.
func (s *streams) tick(now mad.Time) mad.Time {
	if s.mine != nil || s.dialing || s.p.core.Role() != replica.Standby {
		return mad.Never
	}
	if now < s.dialAt {
		return s.dialAt
	}
	s.dialing = true
	go s.dial()
	return mad.Never
}

func (s *streams) dial() {
	var as wire.Agreed
	t, err := func() (*tls.Conn, error) {
		ctx, cancel := context.WithTimeout(s.ctx, s.p.silence())
		defer cancel()
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.p.cfg.Peer)
		if err != nil {
			return nil, err
		}
		t := tls.Client(conn, s.tls)
		if as, err = s.greet(t); err != nil {
			t.Close()
			return nil, err
		}
		return t, nil
	}()
	ok := s.p.post(func() {
		s.dialing = false
		// Not all at the same moment, and not too often.
		every := s.p.cfg.Rules.Every
		if now := s.p.now(); s.p.hurries(now) {
			s.dialAt = now.Add(every / 10)
		} else {
			s.dialAt = now.Add(every/2 + rand.N(every))
		}
		s.p.set(func(st *Status) {
			if st.StreamError = ""; err != nil {
				st.StreamError = err.Error()
			}
		})
		switch {
		case err != nil:
			s.unlike(err)
		case s.mine != nil || s.p.core.Role() != replica.Standby:
			t.Close()
		default:
			s.opened(t, true, as)
		}
	})
	if !ok && t != nil {
		t.Close()
	}
}

// of is the stream of one direction.
func (s *streams) of(mine bool) **stream {
	if mine {
		return &s.mine
	}
	return &s.theirs
}

func (s *streams) opened(t *tls.Conn, mine bool, as wire.Agreed) {
	if s.toldVersions {
		s.toldVersions = false
		s.p.set(func(st *Status) { st.StreamError = "" })
	}
	x := s.of(mine)
	if *x != nil { // a peer that connects again has lost the old one
		s.ended(*x)
	}
	st := &stream{p: s.p, conn: t, mine: mine, as: as, wake: make(chan struct{}, 1), telling: newTelling(s.ctx)}
	*x = st
	go st.write()
	go st.read()
	if !mine {
		st.tell()
		st.showLatest()
	}
	st.compare()
	s.p.step(replica.Opened{Mine: mine})
}

// ended is called when a stream has ended by itself.
func (s *streams) ended(st *stream) {
	x := s.of(st.mine)
	if *x != st {
		return
	}
	*x = nil
	st.close()
	s.p.step(replica.Closed{Mine: st.mine})
	s.p.band.pollNow()
	s.p.band.ending.begin(&s.p.band)
}

// drop closes a stream for the core.
func (s *streams) drop(mine bool) {
	x := s.of(mine)
	if *x != nil {
		(*x).close()
		*x = nil
	}
}

func (s *streams) close() {
	s.cancel()
	s.drop(true)
	s.drop(false)
}

// send queues a message. A standby that does not take them in time loses its stream: it connects
// again and goes on where it was.
func (s *streams) send(m replica.Message) {
	st := s.theirs
	switch m.(type) {
	case replica.Hello, replica.Ack:
		st = s.mine
	case replica.Refused:
		if s.mine != nil {
			st = s.mine
		}
	}
	if st == nil {
		return
	}
	if !st.put(m, 2*s.p.cfg.Rules.Waiting) {
		s.p.log.Warn("the peer takes the journal too slowly: its stream is closed, and begins anew where the peer is")
		s.ended(st)
	}
}

// sign sends a sign on every stream, ahead of what waits.
func (s *streams) sign(sign *replica.Sign) {
	for _, st := range []*stream{s.mine, s.theirs} {
		if st != nil {
			st.mu.Lock()
			st.sign = &wire.Sign{Sign: *sign}
			st.mu.Unlock()
			st.ring()
		}
	}
}

// put queues a message unless more than most bytes wait.
func (st *stream) put(m any, most int) bool {
	n := sizeOf(m)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.bytes > 0 && st.bytes+n > most {
		return false
	}
	st.queue = append(st.queue, m)
	st.bytes += n
	st.ring()
	return true
}

// sizeOf is about what a message takes in memory.
func sizeOf(m any) int {
	n := 64
	switch m := m.(type) {
	case replica.Entries:
		for i := range m.List {
			n += sizeOfEntry(&m.List[i])
		}
	case replica.Snapshot:
		n += 32 * (len(m.State.LIDs) + len(m.State.MKeys) + len(m.State.Neighbors))
		for i := range m.State.Records {
			n += 64 + len(m.State.Records[i].Key) + len(m.State.Records[i].Value)
		}
	}
	return n
}

func sizeOfEntry(e *journal.Entry) int {
	n := 64
	for i := range e.Ops {
		r := &e.Ops[i].Record
		n += 96 + len(r.Key) + len(r.Value)
	}
	return n
}

func (st *stream) ring() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

func (st *stream) close() {
	st.mu.Lock()
	was := st.closed
	st.closed, st.queue, st.sign = true, nil, nil
	st.show, st.relayed = showing{}, nil
	st.mu.Unlock()
	st.telling.end()
	if was {
		return
	}
	// Without a word: to take leave would wait for a peer that takes nothing.
	st.conn.NetConn().Close()
	st.ring()
}

// write sends what waits until the stream is closed.
func (st *stream) write() {
	w := wire.NewWriter(st.conn, st.as)
	for range st.wake {
		for {
			m, size, closed := st.take()
			if closed {
				return
			}
			if m == nil {
				break
			}
			err := w.Write(m, st.urgent)
			st.mu.Lock()
			st.bytes -= size
			st.mu.Unlock()
			if err != nil {
				st.failed(err)
				return
			}
		}
	}
}

// take is the next message to write, nil if none waits.
func (st *stream) take() (m any, size int, closed bool) {
	if s := st.urgent(); s != nil {
		return s, 0, false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.queue) > 0 {
		m = st.queue[0]
		st.queue[0] = nil
		st.queue = st.queue[1:]
		size = sizeOf(m)
	} else if m = st.relayedNext(); m != nil {
		return m, 0, st.closed
	} else if e := st.telling.next(); e != nil {
		return e, 0, st.closed
	} else if piece := st.show.piece(st); piece != nil {
		m = piece
	}
	return m, size, st.closed
}

// urgent is a sign that waits.
func (st *stream) urgent() *wire.Sign {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.sign
	st.sign = nil
	return s
}

func (st *stream) failed(err error) {
	p := st.p
	p.post(func() {
		if *p.streams.of(st.mine) == st {
			p.log.Debug("a stream ended", "mine", st.mine, "err", err)
			p.set(func(s *Status) { s.StreamError = err.Error() })
			if errors.Is(err, journal.ErrNewer) { // the change was written while the stream began
				p.streams.unlike(fmt.Errorf("%w: %w", wire.ErrVersions, err))
			}
			p.streams.ended(st)
		}
	})
}

// read takes messages until the stream ends.
func (st *stream) read() {
	p := st.p
	alive := func() { _ = st.conn.SetReadDeadline(time.Now().Add(p.silence())) }
	alive()
	seen := newSeen(p)
	defer seen.end()
	r := wire.NewReader(bufio.NewReaderSize(st.conn, wire.MaxFrame))
	for {
		m, err := r.Next(alive)
		if err == nil && !st.may(m) {
			err = fmt.Errorf("replica: a %T on the wrong stream", m)
		}
		if err != nil {
			st.failed(err)
			return
		}
		if piece, is := m.(*wire.Shown); is {
			p.relayIdle() // the subnet is up
			seen.take(piece)
			continue
		}
		if q, is := m.(*wire.Relayed); is {
			p.relayed(st, q)
			continue
		}
		if e, is := m.(*wire.Told); is {
			if p.cfg.OnTold == nil {
				continue
			}
			if err := p.cfg.OnTold(e.Data); err != nil {
				p.log.Warn("the events of the other manager are not followed", "err", err)
			}
			continue
		}
		ok := p.post(func() {
			if *p.streams.of(st.mine) != st {
				return // the stream was closed before this arrived
			}
			switch m := m.(type) {
			case *wire.Sign:
				p.heard(replica.Stream, m.Sign)
			case *wire.Digests:
				p.comparing.theirs = m
				p.compare()
			case replica.Message:
				p.step(replica.Received{Message: m})
			}
		})
		if !ok {
			return
		}
	}
}

// may reports whether the peer may send a message on this stream.
func (st *stream) may(m any) bool {
	switch m := m.(type) {
	case replica.Hello, replica.Ack:
		return !st.mine
	case replica.Entries, replica.Snapshot, replica.Pair, replica.Over, *wire.Shown:
		return st.mine
	case *wire.Relayed:
		return st.as.Relays() && m.Answer == st.mine
	case *wire.Told:
		return st.as.Tells() && st.mine
	case *wire.Digests:
		return st.as.Compares()
	}
	return true
}

// heard takes a sign of the peer.
func (p *Pair) heard(ch replica.Channel, s replica.Sign) {
	p.heardAt[ch] = p.now()
	if p.core.Role() == replica.Standby {
		p.clock.Heard(p.heardAt[ch], s.Boot, s.Wall)
	}
	p.step(replica.Heard{Channel: ch, Sign: s})
	if len(p.taking) > 0 && s.Active && p.core.Role() == replica.Standby && p.core.View(p.now()).Peer == s {
		release(&p.taking, ErrPeerActive) // the core no longer takes over for it
	}
}
