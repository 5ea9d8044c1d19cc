package ibsimd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/live"
	"heddle/transport/ibsim"
)

// star is one switch "S" with n hosts H1 … Hn.
func star(t testing.TB, n int) *fabric.Fabric {
	t.Helper()
	var b fabric.Builder
	sw := b.AddSwitch("S", n)
	for i := range n {
		b.Connect(sw, i+1, b.AddCA(fmt.Sprintf("H%d", i+1), 1), 1)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var names atomic.Int32

func sockName() string { return fmt.Sprintf("heddle-test-%d-%d", os.Getpid(), names.Add(1)) }

type testbed struct {
	drv *live.Driver
	srv *Server
}

// serve serves f until the test ends.
func serve(t testing.TB, f *fabric.Fabric, cfg sim.Config, o Options) *testbed {
	t.Helper()
	s, err := sim.New(f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if o.SockName == "" {
		o.SockName = sockName()
	}
	d := live.New(s)
	t.Cleanup(d.Close)
	srv, err := Listen(d, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		srv.Close()
	})
	return &testbed{d, srv}
}

func (b *testbed) dial(t testing.TB, node string) *ibsim.Conn {
	t.Helper()
	c, err := ibsim.Dial(t.Context(), ibsim.Options{Node: node, SockName: b.srv.SockName()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func drGet(tid uint64, attr ib.AttrID, path ...byte) *mad.Packet {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, attr, 0, 0, path)
	m.SetTID(tid)
	return &mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]}
}

func recv(t testing.TB, c mad.Transport) (*mad.Packet, *ib.MAD) {
	t.Helper()
	var p mad.Packet
	if err := c.Recv(&p); err != nil {
		t.Fatal(err)
	}
	if len(p.Data) < ib.MADLen {
		p.Data = append(p.Data, make([]byte, ib.MADLen-len(p.Data))...)
	}
	return &p, (*ib.MAD)(p.Data)
}

func send(t testing.TB, c mad.Transport, p *mad.Packet) {
	t.Helper()
	if err := c.Send(p); err != nil {
		t.Fatal(err)
	}
}

func TestDirectedRoute(t *testing.T) {
	b := serve(t, star(t, 3), sim.Config{}, Options{})
	c := b.dial(t, "H2")
	for _, tc := range []struct {
		path []byte
		guid ib.GUID
	}{{nil, 0x100001}, {[]byte{1}, 0x200000}, {[]byte{1, 3}, 0x100002}, {[]byte{1, 1}, 0x100000}} {
		send(t, c, drGet(0x1234_5678_9abc, smp.AttrNodeInfo, tc.path...))
		p, m := recv(t, c)
		var ni smp.NodeInfo
		if err := ni.Decode(smp.Data(m)); err != nil || p.Status != mad.Received {
			t.Fatalf("path %v: status %v, %v", tc.path, p.Status, err)
		}
		if m.TID()&tidMask != 0x1234_5678_9abc || smp.HopPointer(m) != 0 || !smp.Direction(m) || m.Method() != ib.MethodGetResp {
			t.Errorf("path %v: header % x", tc.path, m[:24])
		}
		if len(tc.path) > 0 && ni.NodeGUID&0xf00000 != tc.guid&0xf00000 {
			t.Errorf("path %v: node %v", tc.path, ni.NodeGUID)
		}
	}
}

func TestUndeliverableReturnsImmediately(t *testing.T) {
	b := serve(t, star(t, 2), sim.Config{}, Options{AnswerTimeout: -1})
	c := b.dial(t, "H1")
	q := drGet(7, smp.AttrNodeInfo, 1, 2, 1, 5) // the last hop does not exist
	send(t, c, q)
	p, m := recv(t, c)
	if p.Status != mad.Failed || m.TID()&tidMask != 7 || m.Method() != ib.MethodGet || smp.HopPointer(m) != 0 {
		t.Fatalf("status %v, header % x", p.Status, m[:24])
	}
}

func TestUnansweredReturnsOnce(t *testing.T) {
	b := serve(t, star(t, 2), sim.Config{}, Options{AnswerTimeout: 100 * time.Millisecond})
	sm, c, patient := b.dial(t, "H1"), newRaw(t, b.srv.SockName(), "H2", false), b.dial(t, "H2")
	if err := sm.SetIsSM(true); err != nil {
		t.Fatal(err)
	}
	// SMInfo is the only request that needs no LIDs and goes to a peer. A client with timers of its
	// own gets the answer however late it is.
	send(t, patient, drGet(98, smp.AttrSMInfo, 1, 1))
	early, em := recv(t, sm)
	ask := func(tid uint64) { c.send(t, (*ib.MAD)(drGet(tid, smp.AttrSMInfo, 1, 1).Data)) }
	ask(99)
	asked, am := recv(t, sm)
	if am.AttrID() != smp.AttrSMInfo || smp.HopPointer(am) != 0 {
		t.Fatalf("the SM got % x", am[:24])
	}
	d := c.recv(t)
	if d.Status() != statusTimedOut || d.MAD().TID()&tidMask != 99 {
		t.Fatalf("status %v, header % x", d.Status(), d.MAD()[:24])
	}
	smp.Respond(em, 0)
	send(t, sm, early)
	if p, m := recv(t, patient); p.Status != mad.Received || m.TID()&tidMask != 98 {
		t.Fatalf("status %v, header % x", p.Status, m[:24])
	}
	// The late answer must not come through; a new request's must, however slow this machine is.
	smp.Respond(am, 0)
	send(t, sm, asked)
	b.drv.Do(func(*sim.Subnet) { b.srv.opt.AnswerTimeout = need.Patience })
	ask(100)
	asked, am = recv(t, sm)
	smp.Respond(am, 0)
	send(t, sm, asked)
	d = c.recv(t)
	if m := d.MAD(); d.Status() != 0 || m.TID()&tidMask != 100 || m.Method() != ib.MethodGetResp || smp.HopPointer(m) != 0 {
		t.Fatalf("status %v, header % x", d.Status(), m[:24])
	}
}

func TestRequestsReachSMOnly(t *testing.T) {
	b := serve(t, star(t, 2), sim.Config{}, Options{})
	c, idle := b.dial(t, "H1"), b.dial(t, "H2")
	send(t, c, drGet(1, smp.AttrSMInfo, 1, 2))
	p, m := recv(t, c)
	if p.Status == mad.Received && m.Status() == 0 {
		t.Fatalf("somebody answered SMInfo: % x", m[:24])
	}
	send(t, idle, drGet(2, smp.AttrNodeInfo))
	if _, m := recv(t, idle); m.TID()&tidMask != 2 {
		t.Fatalf("a client that is no SM was given % x", m[:24])
	}
}

func TestIsSMIsExclusive(t *testing.T) {
	b := serve(t, star(t, 2), sim.Config{}, Options{})
	a, c, other := b.dial(t, "H1"), b.dial(t, "H1"), b.dial(t, "H2")
	if err := a.SetIsSM(true); err != nil {
		t.Fatal(err)
	}
	if err := c.SetIsSM(true); err == nil {
		t.Error("two clients of a port hold IsSM")
	}
	if _, err := ibsim.Dial(t.Context(), ibsim.Options{Node: "H1", SockName: b.srv.SockName(), IsSM: true}); err == nil {
		t.Error("connecting as SM was not refused")
	}
	if err := other.SetIsSM(true); err != nil {
		t.Error(err)
	}
	a.Close()
	if err := c.SetIsSM(true); err != nil {
		t.Errorf("after the holder left: %v", err)
	}
	isSM := func() bool {
		pi, err := c.PortInfo(0)
		if err != nil {
			t.Fatal(err)
		}
		return pi.CapabilityMask.Has(ib.CapIsSM)
	}
	if !isSM() {
		t.Error("IsSM is not set")
	}
	if err := c.SetIsSM(false); err != nil || isSM() {
		t.Errorf("IsSM is still set (%v)", err)
	}
}

func TestManyClientsAndSlotReuse(t *testing.T) {
	b := serve(t, star(t, 40), sim.Config{}, Options{})
	var cs []*ibsim.Conn
	for i := range 40 {
		cs = append(cs, b.dial(t, fmt.Sprintf("H%d", i+1)))
	}
	for i, c := range cs {
		send(t, c, drGet(uint64(i+1), smp.AttrNodeDescription))
		_, m := recv(t, c)
		want := fmt.Sprintf("H%d", i+1)
		if got := string(smp.Data(m)[:len(want)]); got != want {
			t.Errorf("client %d is on %q", i, got)
		}
	}
	cs[3].Close()
	r := newRaw(t, b.srv.SockName(), "S", false)
	if r.slot != 3 {
		t.Errorf("slot %d, want the free one, 3", r.slot)
	}
}

func TestRefusals(t *testing.T) {
	b := serve(t, star(t, 1), sim.Config{}, Options{MaxClients: 1})
	if _, err := ibsim.Dial(t.Context(), ibsim.Options{Node: "nobody", SockName: b.srv.SockName()}); err == nil {
		t.Error("an unknown node was not refused")
	}
	b.dial(t, "")
	if _, err := ibsim.Dial(t.Context(), ibsim.Options{SockName: b.srv.SockName()}); err == nil {
		t.Error("a client too many was not refused")
	}
	if _, err := Listen(b.drv, Options{SockName: b.srv.SockName()}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the name was taken twice: %v", err)
	}
}

func TestLongNodeID(t *testing.T) {
	var fb fabric.Builder
	sw := fb.AddSwitch("a-switch-with-a-very-long-name-indeed-it-is", 2)
	fb.Connect(sw, 1, fb.AddCA("H", 1), 1)
	f, err := fb.Build()
	if err != nil {
		t.Fatal(err)
	}
	b := serve(t, f, sim.Config{}, Options{})
	c := b.dial(t, f.Nodes[0].ID[:31])
	if c.PortNum() != 0 || c.PortGUID() != f.Nodes[0].Ports[0].GUID {
		t.Errorf("attached to port %d of %v", c.PortNum(), c.PortGUID())
	}
}

func TestControlOperations(t *testing.T) {
	f := star(t, 2)
	b := serve(t, f, sim.Config{}, Options{})
	r := newRaw(t, b.srv.SockName(), "H2", false)
	node, port := uint64(f.Nodes[2].GUID), uint64(f.Nodes[2].Ports[1].GUID)
	ne, be := binary.NativeEndian, binary.BigEndian
	ni := r.ask(t, opGetNodeInfo, nil)
	pi := r.ask(t, opGetPortInfo, []byte{0})
	var info smp.PortInfo
	if err := info.Decode(pi.Data[:]); err != nil {
		t.Fatal(err)
	}
	if guid := be.Uint64(ni.Data[12:]); info.LocalPortNum != 1 || guid+1 != port {
		t.Errorf("node GUID %#x, local port %d: the preload library computes a wrong port GUID", guid, info.LocalPortNum)
	}
	if v := r.ask(t, opGetVendor, nil); ne.Uint64(v.Data[16:]) != 1 {
		t.Errorf("firmware % x", v.Data[16:24])
	}
	if k := r.ask(t, opGetPKeys, nil); be.Uint16(k.Data[:]) != 0xffff || be.Uint16(k.Data[2:]) != 0 {
		t.Errorf("P_Keys % x", k.Data[:8])
	}
	if p := r.ask(t, opGetPort, nil); p.Data[2] != byte(ib.StateInit) {
		t.Errorf("port state %d", p.Data[2])
	}
	if g := r.ask(t, opGetGID, nil); be.Uint64(g.Data[8:]) != port {
		t.Errorf("GID % x", g.Data[:16])
	}
	if g := r.ask(t, opGetGUID, nil); ne.Uint64(g.Data[:]) != node {
		t.Errorf("GUID % x", g.Data[:8])
	}
	if u := r.ask(t, 77, []byte{1, 2, 3}); u.Op != 77 || u.Data[1] != 2 {
		t.Errorf("unknown operation answered %+v", u)
	}
	if got := InFlight(r.connected.Data[:]); got != inFlightLocal {
		t.Errorf("in flight %d", got)
	}
	sw := newRaw(t, b.srv.SockName(), "S", false)
	pi = sw.ask(t, opGetPortInfo, []byte{2})
	if err := info.Decode(pi.Data[:]); err != nil || info.LocalPortNum != 0 || info.PortState != ib.StateInit {
		t.Errorf("switch port 2: %v, local port %d, state %d", err, info.LocalPortNum, info.PortState)
	}
}

func TestUDP(t *testing.T) {
	port := need.Port(t, 4)
	b := serve(t, star(t, 2), sim.Config{}, Options{UDPPort: port})
	_ = b
	c, err := ibsim.Dial(t.Context(), ibsim.Options{Node: "H1", Server: "127.0.0.1", Port: port})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send(t, c, drGet(5, smp.AttrNodeInfo, 1))
	if p, m := recv(t, c); p.Status != mad.Received || m.TID()&tidMask != 5 {
		t.Fatalf("status %v, header % x", p.Status, m[:24])
	}
	if c.MaxInFlight() != inFlightUDP {
		t.Errorf("in flight %d", c.MaxInFlight())
	}
}

// A client that stops reading must not hold up another one, and what did not
// fit its queue must come back as not answered once it reads.
func TestSlowClient(t *testing.T) {
	b := serve(t, star(t, 2), sim.Config{}, Options{Queue: 16, AnswerTimeout: 50 * time.Millisecond})
	slow := newRaw(t, b.srv.SockName(), "H1", false)
	quick := b.dial(t, "H2")
	const n = 3000
	var m ib.MAD
	for i := range n {
		smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1})
		m.SetTID(uint64(i + 1))
		slow.send(t, &m)
		if i%100 == 0 {
			send(t, quick, drGet(uint64(i+1), smp.AttrNodeInfo, 1))
			recv(t, quick)
		}
	}
	seen := make([]int, n+1)
	returned := 0
	for range n {
		d := slow.recv(t)
		seen[d.MAD().TID()&tidMask]++
		if d.Status() == statusTimedOut {
			returned++
		}
	}
	for tid, k := range seen[1:] {
		if k != 1 {
			t.Fatalf("transaction %d was completed %d times", tid+1, k)
		}
	}
	if returned == 0 {
		t.Log("the socket took everything; the queue was never full")
	}
}

func TestDeadClientIsFreed(t *testing.T) {
	b := serve(t, star(t, 2), sim.Config{}, Options{})
	r := newRaw(t, b.srv.SockName(), "H1", true)
	c := b.dial(t, "H1")
	if err := c.SetIsSM(true); err == nil {
		t.Fatal("IsSM was given twice")
	}
	// Whoever comes next finds what it left at once: a manager that is started again.
	r.die()
	if err := c.SetIsSM(true); err != nil {
		t.Fatalf("IsSM of a dead client was not freed: %v", err)
	}
	if again := newRaw(t, b.srv.SockName(), "S", false); again.slot != r.slot {
		t.Errorf("slot %d, want %d", again.slot, r.slot)
	}
}

// raw speaks the protocol without help, as a client built in C would.
type raw struct {
	base      string
	id        int
	ctl, fd   int
	slot      int
	connected ctlMsg
}

func newRaw(t testing.TB, base, node string, issm bool) *raw {
	t.Helper()
	r := &raw{base: base, id: 1<<20 + int(names.Add(1))}
	var err error
	if r.ctl, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	if r.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Bind(r.ctl, &unix.SockaddrUnix{Name: fmt.Sprintf("@%s:ctl%d\x00", base, r.id)}))
	must(unix.Connect(r.ctl, &unix.SockaddrUnix{Name: ctlName(base)}))
	must(unix.Bind(r.fd, &unix.SockaddrUnix{Name: inName(base, uint32(r.id))}))
	in := clientInfo{ID: uint32(r.id), IsSM: issm, NodeID: node}
	var d [ctlPayload]byte
	in.Put(&d)
	r.connected = r.ask(t, opConnect, d[:44])
	if r.connected.Op == opError {
		t.Fatal("refused")
	}
	r.slot = int(binary.NativeEndian.Uint32(r.connected.Data[:]))
	must(unix.Connect(r.fd, &unix.SockaddrUnix{Name: outName(base, r.slot)}))
	t.Cleanup(r.die)
	return r
}

func (r *raw) ask(t testing.TB, op ctlOp, payload []byte) ctlMsg {
	t.Helper()
	m := ctlMsg{Client: uint32(r.slot), Op: op, Len: uint32(len(payload))}
	copy(m.Data[:], payload)
	var b [ctlLen + 1]byte
	m.Put((*[ctlLen]byte)(b[:]))
	if _, err := unix.Write(r.ctl, b[:ctlLen]); err != nil {
		t.Fatal(err)
	}
	n, err := unix.Read(r.ctl, b[:])
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Decode(b[:n]); err != nil {
		t.Fatal(err)
	}
	return m
}

func (r *raw) send(t testing.TB, m *ib.MAD) {
	var d dataMsg
	d.PutHeader(ib.LIDPermissive, ib.LIDPermissive, 0, 0, 0, ib.MADLen)
	*d.MAD() = *m
	r.write(t, d[:dataLen])
}

func (r *raw) write(t testing.TB, b []byte) {
	if _, err := unix.Write(r.fd, b); err != nil {
		t.Fatal(err)
	}
}

func (r *raw) recv(t testing.TB) *dataMsg {
	var b dataMsg
	n, err := unix.Read(r.fd, b[:])
	if err != nil || n != dataLen {
		t.Fatalf("%d bytes, %v", n, err)
	}
	return &b
}

// die closes the sockets without a word.
func (r *raw) die() {
	if r.fd >= 0 {
		unix.Close(r.fd)
		unix.Close(r.ctl)
		r.fd = -1
	}
}

// Serving must not allocate: the number of messages is in the millions.
func TestNoAllocationPerRequest(t *testing.T) {
	b := serve(t, star(t, 2), sim.Config{}, Options{})
	c := newRaw(t, b.srv.SockName(), "H1", false)
	var d dataMsg
	smp.NewDR(d.MAD(), ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1, 2})
	d.PutHeader(ib.LIDPermissive, ib.LIDPermissive, 0, 0, 0, ib.MADLen)
	in := make([]byte, dataLen)
	round := func() {
		if _, err := unix.Write(c.fd, d[:dataLen]); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Read(c.fd, in); err != nil {
			t.Fatal(err)
		}
	}
	round()
	if n := testing.AllocsPerRun(2000, round); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}
