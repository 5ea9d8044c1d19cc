package live

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/replica"
	"heddle/replica/wire"
	"heddle/sim"
	"heddle/store"
	"heddle/store/boltdb"
	"heddle/store/journal"
)

func (x *site) link(up bool) {
	x.b.Helper()
	x.b.d.Do(func(s *sim.Subnet) {
		act := s.LinkDown
		if up {
			act = s.LinkUp
		}
		if err := act(x.name(), 1); err != nil {
			x.b.Fatal(err)
		}
	})
}

// TestPortDown: the active manager's port goes down, and it hands over by the stream.
func TestPortDown(t *testing.T) {
	b, a := begin(t, 2)
	b.put("before")
	a.link(false)
	o := a.other()
	b.eventually("the other one is active", func() bool { return o.active.Load() && !a.active.Load() })
	if why := a.pair().Status().Why; why != replica.WhyPort {
		t.Errorf("it gave up because %v", why)
	}
	b.put("after")
	b.paired()
	a.link(true)
	b.put("last")
	b.paired()
	for _, x := range b.site {
		if missing := x.lacks([]string{"before", "after", "last"}); len(missing) > 0 {
			t.Errorf("%s lacks %v", x.name(), missing)
		}
	}
}

// TestUnreachable: the active manager's host dies with its port. The other one takes over, and
// becomes the SM of that port when it is there again.
func TestUnreachable(t *testing.T) {
	b, _ := begin(t, 2)
	b.put("before")
	a := b.paired()
	a.link(false)
	a.kill()
	o := a.other()
	b.eventually("the other one is active", func() bool { return o.active.Load() })
	if by := b.put("after"); by != o {
		t.Error("another manager wrote")
	}
	was := a.smOf()
	a.link(true)
	b.eventually(fmt.Sprintf("the port that named LID %d names the active manager", was), func() bool { return a.smOf() == lidHost+ib.LID(o.i) })
	if !o.active.Load() {
		t.Error("it gave up")
	}
}

// TestFirstSign: two managers that never had a stream hear each other in band, although one of them
// has an empty store and cannot know the other one's LID.
func TestFirstSign(t *testing.T) {
	b := newTestbed(t, 2)
	x, y := b.site[0], b.site[1]
	x.proxy.setCut(true)
	y.proxy.setCut(true)
	db, err := boltdb.Open(filepath.Join(x.dir, boltdb.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Apply([]store.Op{{Kind: store.PutLID, GUID: y.guid, LID: lidHost + 1}}); err != nil {
		t.Fatal(err)
	}
	db.Close()
	x.start()
	y.start()
	b.eventually("both heard a sign in band", func() bool {
		return x.pair().Status().Signs[replica.Fabric] > 0 && y.pair().Status().Signs[replica.Fabric] > 0
	})
}

// TestFork: a standby that lacks entries takes over because an operator says so. The entries that
// it lacked are saved when their manager copies its journal.
func TestFork(t *testing.T) {
	b, _ := begin(t, 1)
	var lost []string
	a := b.paired()
	o := a.other()
	o.kill()
	b.eventually("alone", func() bool { return a.pair().Status().State == Alone })
	for i := range 5 {
		k := fmt.Sprint("lost", i)
		if err := a.put(k); err != nil {
			t.Fatal(err)
		}
		lost = append(lost, k)
	}
	a.kill()
	o.start()
	b.eventually("the standby runs", func() bool { return o.pair().Status().State != Starting })
	if err := o.pair().Takeover(context.Background(), false); !errors.Is(err, ErrMayLack) && !errors.Is(err, ErrActive) {
		t.Errorf("a takeover of a standby that lacks entries: %v", err)
	}
	if err := o.pair().Takeover(context.Background(), true); err != nil && !errors.Is(err, ErrActive) {
		t.Fatal(err)
	}
	b.eventually("active", func() bool { return o.active.Load() })
	if g := <-o.granted; !g.Stale && o.pair().Status().Why != replica.WhyStale {
		for len(o.granted) > 0 {
			g = <-o.granted
		}
		if !g.Stale {
			t.Errorf("%+v does not say that entries may be missing", g)
		}
	}
	b.put("other history")
	a.start()
	b.eventually("paired with the history of the standby", func() bool {
		return b.paired() == o
	})
	if missing := a.lacks(append([]string{"other history"}, lost...)); len(missing) != len(lost) {
		t.Errorf("the old manager lacks %v", missing)
	}
	forks, err := a.pair().Forks()
	if err != nil || len(forks) != 1 || a.pair().Status().Forks != 1 {
		t.Fatalf("forks %+v, %v", forks, err)
	}
	f := forks[0]
	if f.Damage != "" || f.Entries < len(lost) || f.Last.Number != f.First.Number+uint64(f.Entries)-1 {
		t.Errorf("%+v", f)
	}
	raw, err := os.ReadFile(f.File)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for len(raw) > 0 {
		e, n, err := journal.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range e.Ops {
			have[string(op.Record.Key)] = true
		}
		raw = raw[n:]
	}
	for _, k := range lost {
		if !have[k] {
			t.Errorf("%s is not in the fork file", k)
		}
	}
	if forks, err := o.pair().Forks(); err != nil || len(forks) != 0 {
		t.Errorf("the other manager has forks %+v, %v", forks, err)
	}
}

// TestCopied: entries that a standby copied while it ran are no fork when a state replaces them.
func TestCopied(t *testing.T) {
	s := journal.NewMemory(5)
	d := &disk{p: &Pair{cfg: Config{Store: s, ForkDir: t.TempDir(), Rules: replica.Config{Me: 1, Peer: 2}}}}
	d.p.log = quiet
	d.p.known.replaced(&d.p.cfg.Rules, &store.State{})
	appendEntry := func(term uint64, owner ib.GUID, number uint64) {
		t.Helper()
		e := journal.Entry{Mark: journal.Mark{Term: journal.Term{Number: term, Owner: owner}, Number: number}}
		if did := d.carryOut(replica.Append{Entry: e}); did.Err != nil {
			t.Fatal(did.Err)
		}
	}
	replace := func(fork, at uint64) []Fork {
		t.Helper()
		did := d.carryOut(replica.Replace{State: &store.State{}, At: journal.Mark{Term: journal.Term{Number: 1, Owner: 2}, Number: at}, Fork: fork, Counted: true})
		if did.Err != nil {
			t.Fatal(did.Err)
		}
		list, err := d.p.Forks()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for n := range uint64(4) {
		appendEntry(1, 1, n+1)
	}
	for n := range uint64(3) {
		appendEntry(1, 2, n+5)
	}
	// Of its own 1 to 4 the peer has 1, and the journal keeps 3 to 7.
	forks := replace(1, 50)
	if len(forks) != 1 || forks[0].First.Number != 3 || forks[0].Last.Number != 4 {
		t.Fatalf("%+v", forks)
	}
	appendEntry(1, 2, 51)
	if again := replace(1, 60); len(again) != 1 {
		t.Errorf("copied entries are a fork: %+v", again)
	}
	appendEntry(2, 1, 61)
	dropped := replica.Replace{State: &store.State{}, At: journal.Mark{Term: journal.Term{Number: 3, Owner: 2}, Number: 61}, Fork: 60}
	if did := d.carryOut(dropped); did.Err != nil || d.p.Status().Forks != 1 {
		t.Errorf("entries that nobody was told of are a fork: %v", did.Err)
	}
	appendEntry(4, 1, 62)
	d.p.cfg.ForkDir += "/none"
	if did := d.carryOut(replica.Replace{State: &store.State{}, At: journal.Mark{Number: 70}, Fork: 61, Counted: true}); did.Err == nil || did.Mark.Number != 62 {
		t.Errorf("a fork that cannot be saved: %v, at %v", did.Err, did.Mark)
	}
}

// TestGate: a manager whose process was stopped, and whose peer took over meanwhile, sends nothing
// more.
func TestGate(t *testing.T) {
	b, a := begin(t, 2)
	mute := func(s *sim.Subnet, on bool) {
		if err := s.MuteSMA(a.name(), on); err != nil {
			t.Error(err)
		}
	}
	// Looks at the port fail, as if the process did not run.
	b.d.Do(func(s *sim.Subnet) { mute(s, true) })
	g := &a.pair().gate
	b.eventually("the last look is old", func() bool {
		return a.active.Load() && mad.Time(g.seen.Load()) < a.pair().now().Add(-g.fresh())
	})
	port := *a.manager.Load()
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1, 2})
	sent := make(chan error, 1)
	var before uint64
	b.d.Do(func(s *sim.Subnet) { before = s.Stats().Delivered })
	go func() { sent <- port.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}) }()
	b.d.Do(func(s *sim.Subnet) {
		mute(s, false)
		a.setSM(s, lidHost+ib.LID(a.other().i))
	})
	if err := <-sent; !errors.Is(err, ErrCut) {
		t.Errorf("sent: %v (%d packets before)", err, before)
	}
	b.eventually("it gave up", func() bool { return a.pair().Status().Why == replica.WhyChallenged || !a.active.Load() })
	b.put("after")
	b.paired()
}

// setSM writes the SM of a manager's port, from the other one's host.
func (x *site) setSM(s *sim.Subnet, lid ib.LID) {
	ep, err := s.Attach(x.other().name())
	if err != nil {
		x.b.Error(err)
		return
	}
	defer ep.Close()
	var set ib.MAD
	smp.NewLID(&set, ib.MethodSet, smp.AttrPortInfo, 0, 0)
	n, _ := s.Node(x.name())
	pi := s.PortInfo(n, 1)
	pi.ClearForSet()
	pi.MasterSMLID = lid
	pi.Put(smp.Data(&set))
	ep.Send(&mad.Packet{Addr: mad.Addr{LID: lidHost + ib.LID(x.i)}, Data: set[:]})
}

// TestThird: a third manager takes the port of the active one, which may hide that the peer did. It
// does not go alone.
func TestThird(t *testing.T) {
	b, _ := begin(t, 1)
	b.eventually("the port names the active manager", func() bool {
		a := b.paired()
		return a.smOf() == lidHost+ib.LID(a.i)
	})
	a := b.paired()
	b.d.Do(func(s *sim.Subnet) { a.setSM(s, lidSwitch) })
	b.eventually("the manager saw it", func() bool {
		st := a.pair().Status()
		return st.SMOfPort == lidSwitch && st.LID == lidHost+ib.LID(a.i)
	})
	a.other().kill()
	b.eventually("it gave up", func() bool { return a.pair().Status().Why == replica.WhyChallenged })
}

// TestStrangers: only the peer gets a stream.
func TestStrangers(t *testing.T) {
	b, a := begin(t, 2)
	rules := a.pair().cfg.Rules
	cert, key := writeCertificate(t, t.TempDir(), net.IPv4(127, 0, 0, 1))
	other, err := LoadTLS(cert, key, cert)
	if err != nil {
		t.Fatal(err)
	}
	other.InsecureSkipVerify = true
	peer := b.tls.Clone()
	peer.ServerName = "127.0.0.1"
	bare := peer.Clone()
	bare.GetClientCertificate = nil
	old := peer.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for _, c := range []struct {
		name string
		tls  *tls.Config
		g    wire.Greeting
	}{
		{"another authority", other, wire.Greeting{From: rules.Peer, To: rules.Me}},
		{"no certificate", bare, wire.Greeting{From: rules.Peer, To: rules.Me}},
		{"TLS 1.2", old, wire.Greeting{From: rules.Peer, To: rules.Me}},
		{"another port", peer, wire.Greeting{From: 77, To: rules.Me}},
		{"for another port", peer, wire.Greeting{From: rules.Peer, To: 77}},
	} {
		conn, err := net.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		x := tls.Client(conn, c.tls)
		_, _ = x.Write(c.g.Put(nil)) // may fail in the handshake
		// The greeting of the manager may come; a message never does.
		n, err := io.Copy(io.Discard, x)
		if err == nil && n > 32 || n > 32 {
			t.Errorf("%s: %d bytes, %v", c.name, n, err)
		}
		x.Close()
	}
	if st := a.pair().Status(); st.State != Paired && st.State != Waiting && st.State != Alone {
		t.Errorf("%+v", st)
	}
	b.put("after")
	b.paired()
}

// TestForgedSigns: signs in band count only if the peer made them, for this start.
func TestForgedSigns(t *testing.T) {
	b := newTestbed(t, 2)
	x := b.site[0]
	x.start() // alone
	b.eventually("the manager knows its port", func() bool { return x.pair().Status().PortUsable })
	p, err := b.d.Port(x.other().name())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	key, err := wire.NewKey([]byte("a secret of the pair"))
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := wire.NewKey([]byte("another secret of a pair"))
	if err != nil {
		t.Fatal(err)
	}
	send := func(d wire.Datagram, k *wire.Key) {
		var m ib.MAD
		d.Put(&m, k)
		if err := p.Send(&mad.Packet{Addr: mad.Addr{LID: lidHost, QP: 1}, LocalQP: 1, Data: m[:]}); err != nil {
			t.Fatal(err)
		}
	}
	sign := replica.Sign{Boot: uint64(time.Now().Unix()), Seq: 1, Term: journal.Term{Number: 9, Owner: x.other().guid}}
	genuine := wire.Datagram{From: x.other().guid, To: x.guid, Nonce: 5, Echo: x.pair().nonce, Sign: sign}
	send(genuine, &wrong)
	stranger := genuine
	stranger.From = 99
	send(stranger, &key)
	b.eventually("forged signs are counted", func() bool { return x.pair().Status().Forged == 2 })
	recorded := genuine
	recorded.Echo = 1234 // of an earlier start
	send(recorded, &key)
	// What is sent later is taken later: when the next one counts, this one did not.
	sign.Seq, sign.Term.Number = 2, 8
	genuine.Sign = sign
	if st := x.pair().Status(); st.PeerTerm.Number != 0 || st.Signs[replica.Fabric] >= 0 {
		t.Errorf("a sign that was recorded counts: %+v", st)
	}
	send(genuine, &key)
	b.eventually("the sign counts", func() bool { return x.pair().Status().Signs[replica.Fabric] >= 0 })
	if st := x.pair().Status(); st.PeerTerm.Number != 8 {
		t.Errorf("%+v", st)
	}
}

// TestCopiedSigns: a copy of a sign, from another port, says nothing.
func TestCopiedSigns(t *testing.T) {
	b := newTestbed(t, 1)
	x := b.site[0]
	port, err := b.d.Port(x.name())
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	x.port, x.db = port, nil
	cfg := x.config()
	cfg.Store = journal.NewMemory(5)
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.known.replaced(&cfg.Rules, &store.State{})
	d := wire.Datagram{Nonce: 5, Echo: p.nonce, Sign: replica.Sign{Boot: 7, Seq: 1}}
	p.band.signed(&d, 3)
	at := p.heardAt[replica.Fabric]
	if got := p.known.peerLID(&cfg.Rules, 0); got != 3 || at == 0 {
		t.Fatalf("the sign did not count: LID %d, heard at %d", got, at)
	}
	p.band.signed(&d, 9)
	if got := p.known.peerLID(&cfg.Rules, 0); got != 3 || p.heardAt[replica.Fabric] != at {
		t.Errorf("the copy counts: LID %d, heard at %d, the sign at %d", got, p.heardAt[replica.Fabric], at)
	}
	old := wire.Datagram{Nonce: 4, Echo: 1234, Sign: replica.Sign{Boot: 6, Seq: 9}}
	p.band.signed(&old, 9)
	if p.band.echo != d.Nonce {
		t.Errorf("a sign of an earlier start has the manager answer the nonce %d, not %d", p.band.echo, d.Nonce)
	}
	d.Sign.Boot = 8 // the peer started again, and numbers from 1
	p.band.signed(&d, 4)
	if got := p.known.peerLID(&cfg.Rules, 0); got != 4 {
		t.Errorf("the peer's new start has no LID: %d", got)
	}
}

// TestSlowPeer: what waits for a peer that takes nothing is bounded.
func TestSlowPeer(t *testing.T) {
	const most = 1 << 20
	st := &stream{wake: make(chan struct{}, 1)}
	e := replica.Entries{List: []journal.Entry{{Ops: []store.Op{{Record: store.Record{Value: make([]byte, 100_000)}}}}}}
	n := 0
	for st.put(e, most) {
		if n++; n > 20 {
			t.Fatalf("%d bytes wait", st.bytes)
		}
	}
	if n < 9 || st.bytes > most {
		t.Errorf("%d messages of 100 kB, %d bytes", n, st.bytes)
	}
	for len(st.queue) > 0 {
		_, size, _ := st.take()
		st.bytes -= size
	}
	if st.bytes != 0 {
		t.Errorf("%d bytes wait in an empty queue", st.bytes)
	}
	// One message may be larger than all that may wait.
	if !st.put(e, 1000) {
		t.Error("a large message can never be sent")
	}
}

func TestNew(t *testing.T) {
	b := newTestbed(t, 1)
	x := b.site[0]
	x.start()
	good := x.config()
	for name, change := range map[string]func(*Config){
		"no store":        func(c *Config) { c.Store = nil },
		"no address":      func(c *Config) { c.Listen = "" },
		"no peer":         func(c *Config) { c.Peer = "" },
		"no TLS":          func(c *Config) { c.TLS = nil },
		"short secret":    func(c *Config) { c.Secret = []byte("short") },
		"another port":    func(c *Config) { c.Rules.Me = 77 },
		"twice one port":  func(c *Config) { c.Rules.Peer = c.Rules.Me },
		"no GUID of peer": func(c *Config) { c.Rules.Peer = 0 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	b.eventually("it runs", func() bool { return x.pair().Status().Listening != "" })
	if err := x.pair().Run(context.Background()); err == nil {
		t.Error("a pair runs twice")
	}
	p, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Store().Load(); err != nil {
		t.Error(err)
	}
	if err := p.ManagerPort().Send(&mad.Packet{}); !errors.Is(err, ErrCut) {
		t.Errorf("the port of a manager that is not active: %v", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, net.IPv4(127, 0, 0, 1))
	for _, c := range [][3]string{{cert + "x", key, cert}, {cert, cert, cert}, {cert, key, key}, {cert, key, key + "x"}} {
		if _, err := LoadTLS(c[0], c[1], c[2]); err == nil {
			t.Errorf("%v: accepted", c)
		}
	}
	name := dir + "/secret"
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"0123456789abcdef\n", 0o600, "0123456789abcdef"},
		{"0123456789abcdef", 0o644, ""},
		{" 0123456789abcde\n", 0o600, ""},
	} {
		if err := os.WriteFile(name, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := LoadSecret(name)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q of mode %o: %q, %v", c.text, c.mode, got, err)
		}
	}
	if _, err := LoadSecret(name + "x"); err == nil {
		t.Error("a file that is not there")
	}
}
