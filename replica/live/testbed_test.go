package live

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/replica"
	"heddle/replica/wire"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/store"
	"heddle/store/boltdb"
)

// LIDs of the testbed, and ports of its switch.
const (
	lidSwitch = ib.LID(1)
	lidHost   = ib.LID(2) // of the first manager; the second one has the next
	lidOther  = ib.LID(4) // of a host without a manager
)

// testbed is a switch with the hosts of two managers, in real time.
type testbed struct {
	testing.TB
	d    *live.Driver
	site [2]*site
	tls  *tls.Config
	// Rules of both, but for the GUIDs.
	rules replica.Config
	log   *tail
	// direct: the streams do not go through the proxies.
	direct bool
	// Of each manager's Config.
	versions [2]wire.Versions
	clock    [2]func() int64
	notice   [2]func(replica.Notice)
	// masters: active managers answer SMInfo.
	masters bool
	// settings and differ are those of Config, by site. Set before the start.
	settings [2][]wire.Setting
	differ   [2]func([]string)
	// serve answers a request to the SA as the manager of a site; nil: none does. Set before the start.
	serve func(x *site, port mad.Transport, k *mad.Packet)
}

// site is the host of a manager, with its disk.
type site struct {
	b    *testbed
	i    int
	dir  string
	guid ib.GUID
	addr string // where it listens
	// mistaken is a wrong GUID of the peer; 0: it has the right one.
	mistaken ib.GUID
	proxy    *proxy // on the way to it

	// One process.
	db     *boltdb.DB
	run    atomic.Pointer[Pair]
	port   *live.Port
	cancel context.CancelFunc
	ended  chan struct{}

	active  atomic.Bool // between OnActive and OnStandby
	granted chan replica.Grant
	manager atomic.Pointer[mad.Transport]
}

// newTestbed has spans that are scale times the usual ones.
func newTestbed(t testing.TB, scale int) *testbed {
	t.Helper()
	var fb fabric.Builder
	sw := fb.AddSwitch("S", 4)
	for i := range 2 {
		fb.Connect(sw, i+1, fb.AddCA(fmt.Sprintf("M%d", i), 1), 1)
	}
	fb.Connect(sw, 3, fb.AddCA("H", 1), 1)
	f, err := fb.Build()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.New(f, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b := &testbed{TB: t, d: live.New(s), tls: certificate(t), log: &tail{}}
	t.Cleanup(b.d.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.log.String())
		}
	})
	r := replica.Defaults(0, 0)
	for _, d := range []*time.Duration{&r.Every, &r.Take, &r.Alone, &r.Lease, &r.Fence, &r.Left, &r.Stall, &r.Look, &r.Stale} {
		*d *= time.Duration(scale)
	}
	b.rules = r
	for i := range b.site {
		x := &site{b: b, i: i, dir: t.TempDir(), addr: need.Addr(t), granted: make(chan replica.Grant, 100)}
		x.proxy = newProxy(t, x.addr)
		b.site[i] = x
	}
	b.bringUp()
	return b
}

// bringUp does what a manager does: LIDs, tables, links Active.
func (b *testbed) bringUp() {
	p, err := b.d.Port("M0")
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	tid := uint64(0)
	do := func(method ib.Method, attr ib.AttrID, mod uint32, path []byte, body interface{ Put([]byte) }) *ib.MAD {
		var m ib.MAD
		smp.NewDR(&m, method, attr, mod, 0, path)
		if body != nil {
			body.Put(smp.Data(&m))
		}
		tid++
		m.SetTID(tid)
		if err := p.Send(&mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}); err != nil {
			b.Fatal(err)
		}
		var q mad.Packet
		if err := p.Recv(&q); err != nil {
			b.Fatal(err)
		}
		r := (*ib.MAD)(q.Data)
		if st := r.Status() & 0x7FFF; q.Status != mad.Received || st != 0 {
			b.Fatalf("attribute %#x at %v: %v", attr, path, st)
		}
		return r
	}
	change := func(path []byte, num uint32, fn func(*smp.PortInfo)) {
		var pi smp.PortInfo
		if err := pi.Decode(smp.Data(do(ib.MethodGet, smp.AttrPortInfo, num, path, nil))); err != nil {
			b.Fatal(err)
		}
		pi.ClearForSet()
		fn(&pi)
		do(ib.MethodSet, smp.AttrPortInfo, num, path, &pi)
	}
	lid := func(l ib.LID) func(*smp.PortInfo) {
		return func(pi *smp.PortInfo) { pi.LID, pi.MasterSMLID, pi.NeighborMTU = l, lidHost, 4 }
	}
	paths := [][]byte{{}, {1}, {1, 2}, {1, 3}} // M0, the switch, M1, H
	change(paths[1], 0, lid(lidSwitch))
	change(paths[0], 1, lid(lidHost))
	change(paths[2], 1, lid(lidHost+1))
	change(paths[3], 1, lid(lidOther))
	var table smp.LFT
	for i := range table {
		table[i] = smp.PortDrop
	}
	table[lidSwitch], table[lidHost], table[lidHost+1], table[lidOther] = 0, 1, 2, 3
	do(ib.MethodSet, smp.AttrLFT, 0, paths[1], &table)
	var si smp.SwitchInfo
	if err := si.Decode(smp.Data(do(ib.MethodGet, smp.AttrSwitchInfo, 0, paths[1], nil))); err != nil {
		b.Fatal(err)
	}
	si.PortStateChange, si.LinearFDBTop = false, lidOther
	do(ib.MethodSet, smp.AttrSwitchInfo, 0, paths[1], &si)
	for _, st := range []ib.PortState{ib.StateArmed, ib.StateActive} {
		to := func(pi *smp.PortInfo) { pi.PortState = st }
		change(paths[0], 1, to)
		change(paths[1], 1, to)
		change(paths[1], 2, to)
		change(paths[2], 1, to)
		change(paths[1], 3, to)
		change(paths[3], 1, to)
	}
	for _, x := range b.site {
		b.d.Do(func(s *sim.Subnet) {
			n, err := s.Node(x.name())
			if err != nil {
				b.Fatal(err)
			}
			x.guid = ib.GUID(s.Fabric().Nodes[n].Ports[1].GUID)
		})
	}
}

func (x *site) pair() *Pair  { return x.run.Load() }
func (x *site) name() string { return fmt.Sprintf("M%d", x.i) }
func (x *site) other() *site { return x.b.site[1-x.i] }

// config is that of the pair's manager here.
func (x *site) config() Config {
	rules := x.b.rules
	rules.Me, rules.Peer = x.guid, x.other().guid
	if x.mistaken != 0 {
		rules.Peer = x.mistaken
	}
	peer := x.other().proxy.addr()
	if x.b.direct {
		peer = x.other().addr
	}
	return Config{
		Rules: rules, Store: x.db, Port: x.port, ClaimWait: need.Patience,
		Listen: x.addr, Peer: peer, TLS: x.b.tls, Secret: []byte("a secret of the pair"),
		Priority: 7, SMKey: 1, ForkDir: x.dir,
		Log: slog.New(slog.NewTextHandler(x.b.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("site", x.i),
		OnActive: func(g replica.Grant) {
			port := x.pair().ManagerPort()
			x.manager.Store(&port)
			x.active.Store(true)
			go func() { // a manager reads its port
				var k mad.Packet
				for port.Recv(&k) == nil {
					x.master(port, &k)
				}
			}()
			select {
			case x.granted <- g:
			default:
			}
		},
		OnStandby: func(replica.Why) { x.active.Store(false) },
		Versions:  x.b.versions[x.i], Clock: x.b.clock[x.i], OnNotice: x.b.notice[x.i],
		Settings: x.b.settings[x.i], OnDiffer: x.b.differ[x.i],
	}
}

// master answers SMInfo as a manager that is master.
func (x *site) master(port mad.Transport, k *mad.Packet) {
	if x.b.serve != nil && k.Status == mad.Received && ib.Class(k.Data[1]) == ib.ClassSA {
		x.b.serve(x, port, k)
		return
	}
	if !x.b.masters || k.Status != mad.Received || len(k.Data) < ib.MADLen {
		return
	}
	m := *(*ib.MAD)(k.Data)
	if !m.Class().IsSMP() || m.AttrID() != smp.AttrSMInfo || m.Method() != ib.MethodGet {
		return
	}
	clear(smp.Data(&m))
	(&smp.SMInfo{GUID: x.guid, Priority: 7, SMState: smp.SMMaster}).Put(smp.Data(&m))
	smp.Respond(&m, ib.StatusOK)
	_ = port.Send(&mad.Packet{Addr: k.Addr, LocalQP: k.LocalQP, Data: m[:]})
}

// start starts the process.
func (x *site) start() {
	x.b.Helper()
	var err error
	if x.db, err = boltdb.Open(filepath.Join(x.dir, boltdb.FileName)); err != nil {
		x.b.Fatal(err)
	}
	if x.port, err = x.b.d.Port(x.name()); err != nil {
		x.b.Fatal(err)
	}
	pair, err := New(x.config())
	if err != nil {
		x.b.Fatal(err)
	}
	x.run.Store(pair)
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel, x.ended = cancel, make(chan struct{})
	ended := x.ended
	go func() {
		defer close(ended)
		if err := pair.Run(ctx); err != nil {
			x.b.Errorf("%s: %v", x.name(), err)
		}
	}()
	x.b.Cleanup(x.kill)
}

// kill ends the process without a word to the peer.
func (x *site) kill() {
	if x.cancel == nil {
		return
	}
	x.cancel()
	<-x.ended
	x.port.Close()
	x.db.Close()
	x.active.Store(false)
	x.cancel = nil
}

// eventually waits for something that must happen.
func (b *testbed) eventually(what string, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(need.Patience); !ok(); {
		if time.Now().After(end) {
			for _, x := range b.site {
				if x.pair() != nil {
					b.Logf("%s: %+v", x.name(), x.pair().Status())
				}
			}
			b.Fatalf("not: %s", what)
		}
		pause()
	}
}

// pause gives the processor to others for a moment.
func pause() { <-time.After(time.Millisecond) }

// paired waits until one manager is active and both have all entries, and returns it.
func (b *testbed) paired() (active *site) {
	b.Helper()
	b.eventually("paired", func() bool {
		for _, x := range b.site {
			if s, o := x.pair().Status(), x.other().pair().Status(); x.active.Load() && s.Role == replica.Active && s.State == Paired && o.State == Paired && o.Role == replica.Standby {
				active = x
				return true
			}
		}
		return false
	})
	return active
}

// put writes a record at whichever manager takes it, and returns that one.
func (b *testbed) put(key string) (by *site) {
	b.Helper()
	b.eventually("a manager takes "+key, func() bool {
		for _, x := range b.site {
			if x.cancel == nil || !x.active.Load() {
				continue
			}
			if err := x.put(key); err == nil {
				by = x
				return true
			}
		}
		return false
	})
	return by
}

func (x *site) put(key string) error {
	return x.pair().Store().Apply([]store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TableServices, Key: []byte(key), Value: []byte(key)}}})
}

// putLIDs writes down the LIDs of both managers, as a manager does.
func (b *testbed) putLIDs() {
	b.Helper()
	b.eventually("a manager takes the LIDs", func() bool {
		for _, x := range b.site {
			if !x.active.Load() {
				continue
			}
			var ops []store.Op
			for i, y := range b.site {
				ops = append(ops, store.Op{Kind: store.PutLID, GUID: y.guid, LID: lidHost + ib.LID(i)})
			}
			if x.pair().Store().Apply(ops) == nil {
				return true
			}
		}
		return false
	})
}

// has reports what of keys a manager's disk lacks.
func (x *site) lacks(keys []string) (missing []string) {
	x.b.Helper()
	st, err := x.pair().Store().Load()
	if err != nil {
		x.b.Fatal(err)
	}
	have := map[string]bool{}
	for _, r := range st.Records {
		have[string(r.Key)] = true
	}
	for _, k := range keys {
		if !have[k] {
			missing = append(missing, k)
		}
	}
	return missing
}

// puts writes records until stop, one after the other, and returns those that were acknowledged.
func (b *testbed) puts(name string, stop *atomic.Bool) (acked []string) {
	for i := 0; !stop.Load(); i++ {
		key := fmt.Sprintf("%s-%06d", name, i)
		for _, x := range b.site {
			if x.active.Load() && x.put(key) == nil {
				acked = append(acked, key)
				break
			}
		}
	}
	return acked
}

var quiet = slog.New(slog.DiscardHandler)

// tail keeps the log for a test that fails.
type tail struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.b = append(t.b, b...); len(t.b) > 100_000 {
		t.b = t.b[len(t.b)-100_000:]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// certificate makes one for 127.0.0.1 that both managers have, in files.
func certificate(t testing.TB) *tls.Config {
	t.Helper()
	cert, key := writeCertificate(t, t.TempDir(), net.IPv4(127, 0, 0, 1))
	c, err := LoadTLS(cert, key, cert)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func writeCertificate(t testing.TB, dir string, ip net.IP) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(crand.Reader, &tmpl, &tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	kb, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for _, f := range []struct {
		name, kind string
		b          []byte
	}{{cert, "CERTIFICATE", der}, {key, "PRIVATE KEY", kb}} {
		if err := os.WriteFile(f.name, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.b}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// proxy is on the way of a stream. It can end connections, refuse them, or take them and pass
// nothing on.
type proxy struct {
	l    net.Listener
	to   string
	cut  atomic.Bool // refuse, and end what is open
	hold atomic.Bool // pass nothing on

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); p.setCut(true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) setCut(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut.Store(on)
	if on {
		for c := range p.conns {
			c.Close()
		}
	}
}

func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut.Load() {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) serve(c net.Conn) {
	if !p.add(c) {
		return
	}
	d, err := net.Dial("tcp", p.to)
	if err != nil || !p.add(d) {
		c.Close()
		return
	}
	var wg sync.WaitGroup
	for _, x := range [][2]net.Conn{{c, d}, {d, c}} {
		wg.Go(func() {
			_, _ = io.Copy(x[0], held{p, x[1]})
			x[0].Close()
			x[1].Close()
		})
	}
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, c)
	delete(p.conns, d)
	p.mu.Unlock()
}

// held reads, but returns nothing while the proxy holds.
type held struct {
	p *proxy
	c net.Conn
}

func (h held) Read(b []byte) (int, error) {
	n, err := h.c.Read(b)
	for h.p.hold.Load() {
		if h.p.cut.Load() {
			return 0, errors.New("cut")
		}
		pause()
	}
	return n, err
}

// ask asks the other manager's port for SMInfo, from a port of its own on the same host.
func (b *testbed) ask(_ mad.Transport, to *site, method ib.Method) *ib.MAD {
	b.Helper()
	p, err := b.d.Port(to.other().name())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	var m ib.MAD
	smp.NewLID(&m, method, smp.AttrSMInfo, 0, 0)
	m.SetTID(9)
	if err := p.Send(&mad.Packet{Addr: mad.Addr{LID: lidHost + ib.LID(to.i)}, Data: m[:]}); err != nil {
		b.Fatal(err)
	}
	var k mad.Packet
	if err := p.Recv(&k); err != nil {
		b.Fatal(err)
	}
	if k.Status != mad.Received {
		b.Fatalf("%v: no answer", method)
	}
	return (*ib.MAD)(k.Data)
}
