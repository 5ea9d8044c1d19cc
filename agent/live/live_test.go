package live

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"heddle/agent"
	"heddle/agent/acm"
	"heddle/agent/rdmanl"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/need"
	"heddle/mad"
)

func gid(n int) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(0x100+n)) }

// fakePort is a port with an SA behind it that knows the paths to GIDs 1 to 99.
type fakePort struct {
	mu     sync.Mutex
	in     chan *mad.Packet
	closed bool
	silent bool
	asked  int // path queries
}

func newFakePort() *fakePort { return &fakePort{in: make(chan *mad.Packet, 1024)} }

func (p *fakePort) Send(k *mad.Packet) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("closed")
	}
	m := ib.MAD(k.Data[:ib.MADLen])
	if p.silent || m.Method().IsResponse() {
		return nil
	}
	switch m.AttrID() {
	case wire.AttrPathRecord:
		p.asked++
		var r wire.PathRecord
		_ = r.Decode(wire.Data(&m))
		n := int(r.DGID.GUID()) - 0x100
		if n < 1 || n > 99 {
			m.SetStatus(ib.StatusSANoRecords)
			break
		}
		if r.SGID.IsZero() {
			r.SGID = gid(1000)
		}
		r.SLID, r.DLID, r.Reserved3, r.PKey = 10, ib.LID(200+n), 1, ib.PKeyDefaultFull
		r.Put(wire.Data(&m))
	case wire.AttrPathChangeRecord:
		m.SetStatus(0x000C)
	}
	m[3] |= byte(ib.MethodResponseBit)
	if m.Method() == ib.MethodSet|ib.MethodResponseBit {
		m[3] = byte(ib.MethodGetResp)
	}
	p.in <- &mad.Packet{Addr: mad.Addr{LID: k.Addr.LID, QP: 1}, LocalQP: 1, Data: m[:]}
	return nil
}

func (p *fakePort) Recv(k *mad.Packet) error {
	x, ok := <-p.in
	if !ok {
		return errors.New("gone")
	}
	data := append(k.Data[:0], x.Data...)
	*k = *x
	k.Data = data
	return nil
}

func (p *fakePort) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.in)
	}
	return nil
}

func (p *fakePort) SetIsSM(bool) error   { return nil }
func (p *fakePort) PortGUID() ib.GUID    { return gid(1000).GUID() }
func (p *fakePort) SegmentsRMPP() bool   { return true }
func (p *fakePort) MaxInFlight() int     { return 64 }
func (p *fakePort) KeepsTime() bool      { return false }
func (p *fakePort) setSilent(v bool)     { p.mu.Lock(); p.silent = v; p.mu.Unlock() }
func (p *fakePort) queries() (asked int) { p.mu.Lock(); defer p.mu.Unlock(); return p.asked }

func (p *fakePort) State(bool) agent.Port {
	return agent.Port{Active: true, LID: 10, SM: mad.Addr{LID: 1}, GIDs: []ib.GID{gid(1000)}, PKeys: []ib.PKey{ib.PKeyDefaultFull}}
}

// serve runs a server on fake ports until the test ends.
func serve(t *testing.T, cfg Config, open func() (Port, error)) *Server {
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg.Core = agent.Defaults()
	// Ports here answer at once. No query is sent twice because a test waited for a processor.
	cfg.Core.Timeout = need.Patience
	if cfg.Wait == 0 {
		cfg.Wait = need.Patience
	}
	if cfg.KernelWait == 0 {
		cfg.KernelWait = need.Patience
	}
	if cfg.Addresses == nil {
		cfg.Addresses, _ = NewAddresses(strings.NewReader("10.0.0.5 " + gid(5).String() + " # a comment\nhost-6 " + gid(6).String()))
	}
	cfg.Ports = []PortConfig{{Device: "mlx5_0", Num: 1, Open: open}}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	// The first question is asked when the port is active.
	for l := s.ports[0]; !l.state.Load().Active; {
		l.call(t.Context(), func(mad.Time) {})
	}
	return s
}

// kernel is the other end of a socket that the server takes for the RDMA netlink.
func kernel(t *testing.T) (*Netlink, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	k := os.NewFile(uintptr(fds[1]), "kernel")
	_ = k.SetReadDeadline(time.Now().Add(need.Patience))
	t.Cleanup(func() { k.Close() })
	return NewNetlink(fds[0]), k
}

// kernelQuestion is a RESOLVE as the kernel sends it.
func kernelQuestion(seq uint32, device string, port uint8, dst ib.GID) []byte {
	attr := func(b []byte, typ uint16, v []byte) []byte {
		b = binary.NativeEndian.AppendUint16(b, uint16(4+len(v)))
		b = binary.NativeEndian.AppendUint16(b, typ|1<<13)
		return append(b, v...)
	}
	family := make([]byte, 68)
	copy(family, device)
	family[64] = port
	src := gid(1000)
	body := attr(attr(family, 4, dst[:]), 5, src[:])
	b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.NativeEndian.AppendUint16(b, 0x1000)
	b = binary.NativeEndian.AppendUint16(b, 1)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = append(b, 0, 0, 0, 0)
	return append(b, body...)
}

// TestKernelQuestions: the kernel gets its time-out, paths, and the answer that makes it ask
// the SA itself; nonsense gets none.
func TestKernelQuestions(t *testing.T) {
	n, k := kernel(t)
	p := newFakePort()
	serve(t, Config{Netlink: n}, func() (Port, error) { return p, nil })
	read := func() []byte {
		t.Helper()
		b := make([]byte, 4096)
		m, err := k.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return b[:m]
	}
	if b := read(); !bytes.Equal(b, rdmanl.AppendTimeout(nil, timeoutSeq, rdmanl.MaxTimeout)) && b[4] != 1 {
		t.Fatalf("the first message is not SET_TIMEOUT: % x", b)
	}
	for _, junk := range [][]byte{{1}, make([]byte, 100), bytes.Repeat([]byte{0xFF}, 200), kernelQuestion(1, "mlx5_0", 1, gid(1))[:40]} {
		if _, err := k.Write(junk); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		b    []byte
		path bool
	}{
		{kernelQuestion(11, "mlx5_0", 1, gid(7)), true},
		{kernelQuestion(12, "mlx5_0", 1, gid(7)), true},    // from the cache
		{kernelQuestion(13, "mlx5_0", 1, gid(500)), false}, // no such path
		{kernelQuestion(14, "mlx5_0", 2, gid(7)), false},   // another port
		{kernelQuestion(15, "mlx4_0", 1, gid(7)), false},   // another device
	} {
		if _, err := k.Write(c.b); err != nil {
			t.Fatal(err)
		}
		b := read()
		if seq := binary.NativeEndian.Uint32(b[8:]); seq != uint32(11+i) {
			t.Fatalf("question %d: sequence %d", i, seq)
		}
		flags := binary.NativeEndian.Uint16(b[6:])
		if c.path != (len(b) == 92) || c.path != (flags == 0) || !c.path && flags != 0x100 {
			t.Errorf("question %d: % x", i, b)
		}
	}
	if n := p.queries(); n != 2 {
		t.Errorf("%d queries", n)
	}
}

// TestKernelDoesNotWait: with a silent SA the kernel gets its answer within KernelWait.
func TestKernelDoesNotWait(t *testing.T) {
	n, k := kernel(t)
	p := newFakePort()
	serve(t, Config{Netlink: n, KernelWait: 50 * time.Millisecond}, func() (Port, error) { return p, nil })
	b := make([]byte, 4096)
	if _, err := k.Read(b); err != nil { // SET_TIMEOUT
		t.Fatal(err)
	}
	p.setSilent(true)
	for i := range 200 { // at once
		if _, err := k.Write(kernelQuestion(uint32(i), "mlx5_0", 1, gid(1+i%50))); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		if _, err := k.Read(b); err != nil {
			t.Fatal(err)
		}
		if flags := binary.NativeEndian.Uint16(b[6:]); flags != 0x100 {
			t.Fatalf("flags %#x", flags)
		}
	}
}

// TestManyPrograms: programs at once share queries; each gets its own answer.
func TestManyPrograms(t *testing.T) {
	l, err := ListenACM(filepath.Join(t.TempDir(), "acm"))
	if err != nil {
		t.Fatal(err)
	}
	p := newFakePort()
	serve(t, Config{ACM: []net.Listener{l}}, func() (Port, error) { return p, nil })
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			c, err := net.Dial("unix", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for n := range 20 {
				want := 1 + (i+n)%10
				e := acm.Endpoint{Type: acm.TypePath}
				r := wire.PathRecord{DGID: gid(want)}
				r.Put(e.Info[:])
				if _, err := c.Write(acm.Append(nil, acm.Header{Op: acm.Resolve, TID: uint64(n)}, e)); err != nil {
					t.Error(err)
					return
				}
				b := make([]byte, acm.HeaderLen+acm.EndpointLen)
				if _, err := io.ReadFull(c, b); err != nil {
					t.Error(err)
					return
				}
				var got wire.PathRecord
				if err := got.Decode(b[acm.HeaderLen+8:]); err != nil || got.DLID != ib.LID(200+want) || binary.NativeEndian.Uint32(b[16:]) != acm.PathFlags || binary.NativeEndian.Uint64(b[8:]) != uint64(n) {
					t.Errorf("%v: %+v", err, got)
				}
			}
		})
	}
	wg.Wait()
	if n := p.queries(); n != 10 {
		t.Errorf("%d queries for 10 paths", n)
	}
}

// TestLostPort: a device that goes is opened again, and programs get an answer meanwhile.
func TestLostPort(t *testing.T) {
	var mu sync.Mutex
	var all []*fakePort
	open := func() (Port, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(all) == 1 && !all[0].isClosed() {
			return nil, errors.New("busy")
		}
		p := newFakePort()
		all = append(all, p)
		return p, nil
	}
	s := serve(t, Config{Wait: time.Second}, open)
	ask := func(wait time.Duration) agent.Answer {
		q := agent.Query{Mask: wire.PathCompDGID, Record: wire.PathRecord{DGID: gid(3)}}
		return s.ports[0].ask(t.Context(), agent.Ask{Query: q, Wait: wait})
	}
	if a := ask(need.Patience); a.Result != agent.Found {
		t.Fatalf("%+v", a)
	}
	all[0].Close()
	for limit := time.Now().Add(need.Patience); ; {
		a := ask(time.Second)
		mu.Lock()
		back := len(all) == 2
		mu.Unlock()
		if back && a.Result == agent.Found {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("%+v", a)
		}
	}
}

// TestAddresses: the file, and what is wrong in one.
func TestAddresses(t *testing.T) {
	a, err := NewAddresses(strings.NewReader("# addresses\n10.0.0.5 fe80::5\nfd00::1 fe80::6 # v6\n\nhost fe80::7\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ip, gid string }{{"10.0.0.5", "fe80::5"}, {"::ffff:10.0.0.5", "fe80::5"}, {"fd00::1", "fe80::6"}} {
		if g, ok := a.IP(netip.MustParseAddr(c.ip)); !ok || g.GID.String() != c.gid {
			t.Errorf("%s: %v %v", c.ip, g, ok)
		}
	}
	if g, ok := a.Name("host"); !ok || g.GID.String() != "fe80::7" {
		t.Errorf("%v %v", g, ok)
	}
	if _, ok := a.IP(netip.MustParseAddr("10.0.0.6")); ok {
		t.Error("an unknown address has a GID")
	}
	for _, bad := range []string{"10.0.0.5", "10.0.0.5 x", "a b c"} {
		if _, err := NewAddresses(strings.NewReader("\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestNeighbor: a message of the kernel's neighbor table, of an IPoIB interface.
func TestNeighbor(t *testing.T) {
	g := gid(9)
	hw := append([]byte{0x80, 0, 0, 0x48}, g[:]...)
	msg := func(state uint16) []byte {
		b := make([]byte, ndLen)
		b[0] = 2
		binary.NativeEndian.PutUint32(b[4:], 6)
		binary.NativeEndian.PutUint16(b[8:], state)
		b = append(b, 8, 0, 1, 0, 10, 0, 0, 9)
		b = append(b, 24, 0, 2, 0)
		return append(b, hw...)
	}
	index, ip, got, ok := neighbor(msg(0x02))
	if x, isIB := ipoibGID(got); !ok || index != 6 || ip.String() != "10.0.0.9" || !isIB || x != g {
		t.Errorf("%d %v % x %v", index, ip, got, ok)
	}
	if _, _, _, ok := neighbor(msg(0x20)); ok {
		t.Error("a failed neighbor has an address")
	}
}

// FuzzNeighbor: hostile messages are read without harm.
func FuzzNeighbor(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(_ *testing.T, b []byte) { neighbor(b) })
}

// FuzzFlush: a body is refused, or names at most a GID and a LID.
func FuzzFlush(f *testing.F) {
	f.Add([]byte(`{"gid":"fe80::1","lid":3}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"gid":"::"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeFlush(bytes.NewReader(b))
		if err == nil && q.LID != 0 && !q.LID.IsUnicast() {
			t.Fatalf("%+v", q)
		}
	})
}

// TestControl: show, flush and metrics; what is wrong is refused and removes nothing.
func TestControl(t *testing.T) {
	p := newFakePort()
	s := serve(t, Config{NetlinkMissing: "off"}, func() (Port, error) { return p, nil })
	h := httptest.NewServer(s.Control())
	defer h.Close()
	for _, n := range []int{3, 4} {
		q := agent.Query{Mask: wire.PathCompDGID, Record: wire.PathRecord{DGID: gid(n)}}
		if a := s.ports[0].ask(t.Context(), agent.Ask{Query: q, Wait: need.Patience}); a.Result != agent.Found {
			t.Fatalf("%+v", a)
		}
	}
	post := func(body string) (code int, text string) {
		r, err := h.Client().Post(h.URL+"/v1/flush", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(b)
	}
	for _, bad := range []string{`{"gid":"x"}`, `{"all":true}`, `{"lid":49152}`, `{"gid":"::"}`, strings.Repeat("[", 10000)} {
		if code, text := post(bad); code != 400 {
			t.Errorf("%.20s: %d %s", bad, code, text)
		}
	}
	var st Status
	get(t, h, "/v1/agent", &st)
	if st.Ports[0].Entries != 2 || st.Ports[0].Queries != 2 || st.Netlink.Served || st.Netlink.Why != "off" {
		t.Fatalf("%+v", st)
	}
	if code, text := post(`{"gid":"` + gid(3).String() + `"}`); code != 200 || !strings.Contains(text, `"flushed":1`) {
		t.Errorf("%d %s", code, text)
	}
	var paths []Path
	get(t, h, "/v1/paths", &paths)
	if len(paths) != 1 || paths[0].DLID != 204 || paths[0].State != "fresh" || paths[0].LeftSeconds <= 0 {
		t.Errorf("%+v", paths)
	}
}

func get(t *testing.T, h *httptest.Server, path string, v any) {
	t.Helper()
	r, err := h.Client().Get(h.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		t.Fatal(err)
	}
}

// TestListenACM: the file is for all users, its link goes with it, a live service is not
// displaced, and no other machine is served.
func TestListenACM(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	l, err := ListenACM(path + "=" + link)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(link); err != nil || st.Mode().Perm() != 0o777 {
		t.Errorf("%v %v", st, err)
	}
	if _, err := ListenACM(path); err == nil || !strings.Contains(err.Error(), "another service") {
		t.Errorf("%v", err)
	}
	l.Close()
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link is left")
	}
	// A service that has not accepted connections for a while is no dead one.
	late := filepath.Join(dir, "c")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		err = errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: late}), unix.Listen(fd, 0))
	}
	for err == nil {
		var c net.Conn
		if c, err = net.Dial("unix", late); err == nil {
			defer c.Close()
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	if _, err := ListenACM(late); err == nil || !strings.Contains(err.Error(), "another service") {
		t.Errorf("a late service is displaced: %v", err)
	}
	for _, far := range []string{"0.0.0.0:6125", "10.0.0.1:6125", "6125"} {
		if l, err := ListenACM(far); err == nil {
			l.Close()
			t.Errorf("%s is served", far)
		}
	}
}

func (p *fakePort) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}
