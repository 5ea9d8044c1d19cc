package ibsim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// Options selects the port to attach to.
type Options struct {
	// Node is the node's ID in the netlist, or its description; at most 31 bytes.
	// Empty: the first node. A CA is attached at port 1, a switch at port 0.
	Node string
	// SockName is the base name of the server's sockets; default "sim".
	SockName string
	// Server is the host of a server in remote (UDP) mode; empty = local
	// sockets. Port is its control port; default 7070.
	Server string
	Port   int
	// IsSM claims the port as SM immediately; refused if another client of the
	// node did.
	IsSM bool
	// Reassembles says that the caller reassembles RMPP messages (transport/rmpp),
	// so responses may be segmented.
	Reassembles bool
}

func (o *Options) where() string {
	if o.Server != "" {
		return fmt.Sprintf("%s port %d", o.Server, o.Port)
	}
	return fmt.Sprintf("socket name %q", o.SockName)
}

// Errors that Dial and a Conn wrap.
var (
	// ErrNoServer: no server uses that name or address.
	ErrNoServer = errors.New("no simulator is serving there")
	// ErrRefused: the server has no such node, no free client slot, or another SM
	// client on the node.
	ErrRefused = errors.New("the simulator refused")
	// ErrSilent: there is a server, and it does not answer in time.
	ErrSilent = errors.New("the simulator does not answer")
	// ErrLost: the server ended.
	ErrLost = errors.New("the simulator is gone")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("port is closed")
)

// Conn is a client of one port. It implements mad.Transport.
type Conn struct {
	o        Options
	slot     uint32
	node     string
	maxFly   int
	served   bool // by our own server, not ibsim
	portGUID ib.GUID
	portNum  uint8
	// Server capabilities: it reports for each request whether its sender
	// reassembles; it supports whole addresses.
	tells, addresses bool

	control int // fd
	data    int // fd

	closed atomic.Bool
	lost   atomic.Bool
	heard  atomic.Uint64 // calls that fetched something
	quit   chan struct{} // ends watch
	watch  sync.WaitGroup

	ctlMu sync.Mutex // one control exchange at a time
	isSM  bool       // guarded by ctlMu

	sendMu sync.Mutex
	out    outgoing // guarded by sendMu

	recvMu sync.Mutex
	in     batch  // guarded by recvMu
	wait   waiter // guarded by recvMu
}

var _ interface {
	mad.Transport
	mad.Burster
} = (*Conn)(nil)

// dialTimeout bounds the start where the context has no deadline.
const dialTimeout = 5 * time.Second

// Dial attaches to a port. It fails immediately if no server uses the name, and
// when ctx ends (after 5 s if it has no deadline) if the server does not
// answer.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	if o.SockName == "" {
		o.SockName = "sim"
	}
	if o.Port == 0 {
		o.Port = 7070
	}
	c, err := dial(ctx, o)
	if err != nil {
		node := "its first node"
		if o.Node != "" {
			node = fmt.Sprintf("node %q", o.Node)
		}
		return nil, fmt.Errorf("ibsim: attach to %s at %s: %w", node, o.where(), err)
	}
	return c, nil
}

func dial(ctx context.Context, o Options) (_ *Conn, err error) {
	if len(o.Node) >= nodeIDLen {
		return nil, fmt.Errorf("the protocol carries names of at most %d bytes", nodeIDLen-1)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialTimeout)
		defer cancel()
	}
	c := &Conn{o: o, control: -1, data: -1, maxFly: stockInFlight(o.Server != "")}
	defer func() {
		if err != nil {
			c.closeFDs()
		}
	}()
	id, peer, err := c.open(ctx)
	if err != nil {
		return nil, err
	}

	var info [offExtCan + 4]byte
	ne := binary.NativeEndian
	ne.PutUint32(info[0:], id)
	if o.IsSM {
		ne.PutUint32(info[8:], 1)
	}
	copy(info[12:], o.Node)
	can := uint32(canAddress | canTime)
	if o.Reassembles {
		can |= canReassemble
	}
	ne.PutUint32(info[offExtMagic:], extAsk)
	ne.PutUint32(info[offExtCan:], can)
	r, err := c.exchange(ctx, ctlConnect, info[:])
	if err != nil {
		if errors.Is(err, ErrRefused) {
			err = fmt.Errorf("%w: no such node, no free client slot, or the node has an SM already", ErrRefused)
		}
		return nil, err
	}
	b := r.data()
	c.slot, c.isSM = ne.Uint32(b[0:]), o.IsSM
	c.node = text(b[12:44])
	if c.served = ne.Uint32(b[offExtMagic:]) == extMagic; c.served {
		if n := ne.Uint32(b[offExtMax:]); n > 0 && n <= 1<<16 {
			c.maxFly = int(n)
		}
		can := ne.Uint32(b[offExtCan:])
		c.tells, c.addresses = can&canReassemble != 0, can&canAddress != 0
	}
	to, err := peer(c.slot)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(c.data, to); err != nil {
		return nil, fmt.Errorf("connect data socket of slot %d: %w", c.slot, err)
	}
	if err := c.learnPort(ctx); err != nil {
		return nil, err
	}
	c.wait.open(c.data, c.ended)
	c.in.init()
	c.quit = make(chan struct{})
	c.watch.Go(c.watchServer)
	return c, nil
}

// open creates and binds both sockets (the server connects to the data socket
// when it processes CONNECT) and connects the control socket. It returns the ID
// for the server, and the address of slot n's data socket.
func (c *Conn) open(ctx context.Context) (id uint32, peer func(slot uint32) (unix.Sockaddr, error), err error) {
	if c.o.Server != "" {
		return c.openUDP(ctx)
	}
	if c.control, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, nil, err
	}
	if c.data, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, nil, err
	}
	// To ibsim the ID is a process ID, but any free number works: one process may
	// attach many times.
	for n := uint32(0); ; n++ {
		id = uint32(os.Getpid())&(1<<22-1) | n<<22
		err = unix.Bind(c.control, c.name("ctl", int(id)))
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EADDRINUSE) || n == 511 {
			return 0, nil, fmt.Errorf("bind control socket: %w", err)
		}
	}
	if err := unix.Bind(c.data, c.name("in", int(id))); err != nil {
		return 0, nil, fmt.Errorf("bind data socket: %w", err)
	}
	if err := unix.Connect(c.control, c.name("ctl", -1)); err != nil {
		if errors.Is(err, unix.ECONNREFUSED) {
			err = ErrNoServer
		}
		return 0, nil, err
	}
	return id, func(slot uint32) (unix.Sockaddr, error) { return c.name("out", int(slot)), nil }, nil
}

// name is an abstract socket name. The protocol counts the NUL after it.
func (c *Conn) name(kind string, n int) *unix.SockaddrUnix {
	s := "@" + c.o.SockName + ":" + kind
	if n >= 0 {
		s += fmt.Sprint(n)
	}
	return &unix.SockaddrUnix{Name: s + "\x00"}
}

func (c *Conn) openUDP(ctx context.Context) (id uint32, peer func(slot uint32) (unix.Sockaddr, error), err error) {
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip4", c.o.Server)
	if err != nil {
		return 0, nil, err
	}
	at := func(port int) unix.Sockaddr {
		a := &unix.SockaddrInet4{Port: port}
		copy(a.Addr[:], ips[0].To4())
		return a
	}
	for _, fd := range []*int{&c.control, &c.data} {
		if *fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return 0, nil, err
		}
	}
	if err := unix.Bind(c.data, &unix.SockaddrInet4{}); err != nil {
		return 0, nil, fmt.Errorf("bind data socket: %w", err)
	}
	sa, err := unix.Getsockname(c.data)
	if err != nil {
		return 0, nil, err
	}
	if err := unix.Connect(c.control, at(c.o.Port)); err != nil {
		return 0, nil, err
	}
	id = uint32(sa.(*unix.SockaddrInet4).Port)
	return id, func(slot uint32) (unix.Sockaddr, error) {
		if slot > 1<<15 {
			return nil, fmt.Errorf("server gave slot %d", slot)
		}
		return at(c.o.Port + 1 + int(slot)), nil
	}, nil
}

// learnPort reads the attached port's NodeInfo by SMP, because the control
// channel does not report the port.
func (c *Conn) learnPort(ctx context.Context) error {
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, nil)
	m.SetTID(ownTID)
	var b message
	for {
		putPacket(&b, &mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]})
		if _, err := unix.Write(c.data, b[:dataLen]); err != nil {
			return c.ioError("ask for NodeInfo", err)
		}
		one, cancel := context.WithTimeout(ctx, learnEvery)
		err := c.learn(one)
		cancel()
		if !errors.Is(err, ErrSilent) || ctx.Err() != nil {
			return err
		}
	}
}

// learnEvery is the retry interval of learnPort: a simulator may lose the request. Where it is only
// late, both requests are answered, and Recv ignores the second answer.
const learnEvery = 250 * time.Millisecond

// learn takes the answer.
func (c *Conn) learn(ctx context.Context) error {
	var b message
	var p mad.Packet
	for {
		n, err := await(ctx, c.data, b[:])
		if err != nil {
			return c.ioError("wait for NodeInfo", err)
		}
		if !getPacket(&p, b[:n]) || len(p.Data) < ib.MADLen {
			continue
		}
		r := (*ib.MAD)(p.Data)
		if !own(&p) || !r.Method().IsResponse() || r.AttrID() != smp.AttrNodeInfo {
			continue
		}
		var ni smp.NodeInfo
		if err := ni.Decode(smp.Data(r)[:smp.NodeInfoLen]); err != nil {
			return fmt.Errorf("NodeInfo of the attached port: %w", err)
		}
		c.portGUID, c.portNum = ni.PortGUID, ni.LocalPortNum
		return nil
	}
}

// exchange does one control request.
func (c *Conn) exchange(ctx context.Context, typ uint32, data []byte) (*ctl, error) {
	if c.lost.Load() {
		return nil, ErrLost
	}
	var m ctl
	m.set(c.slot, typ, data)
	if _, err := unix.Write(c.control, m[:]); err != nil {
		return nil, c.ioError("control request", err)
	}
	for {
		n, err := await(ctx, c.control, m[:])
		if err != nil {
			return nil, c.ioError("control request", err)
		}
		if n != ctlLen || binary.NativeEndian.Uint32(m[0:]) != ctlMagic {
			continue
		}
		switch m.typ() {
		case typ:
			return &m, nil
		case ctlError:
			return nil, ErrRefused
		}
		// Otherwise the late answer to a request that was given up.
	}
}

// await waits for a datagram as long as ctx allows.
func await(ctx context.Context, fd int, b []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if err == nil {
			return n, nil
		}
		if err == unix.EINTR {
			continue
		}
		if err != unix.EAGAIN {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = ErrSilent
			}
			return 0, err
		}
		// Short slices, so that a canceled context is noticed.
		wait := 50 * time.Millisecond
		if dl, ok := ctx.Deadline(); ok {
			wait = max(time.Millisecond, min(wait, time.Until(dl)))
		}
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds[:], int(wait.Milliseconds())+1); err != nil && err != unix.EINTR {
			return 0, err
		}
	}
}

// ioError turns the symptoms of a vanished server into ErrLost or ErrNoServer.
func (c *Conn) ioError(what string, err error) error {
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOTCONN), errors.Is(err, unix.ECONNRESET):
		if c.portGUID == 0 {
			return fmt.Errorf("%s: %w", what, ErrNoServer)
		}
		c.fail()
		return fmt.Errorf("ibsim: %s: %s at %s: %w", what, c.node, c.o.where(), ErrLost)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// fail marks the server as gone and wakes Recv and Send.
func (c *Conn) fail() {
	if !c.lost.Swap(true) {
		c.interrupt()
	}
}

// interrupt permanently unblocks Recv and Send: a socket that is shut down is
// always ready. It is called after closed or lost is set.
func (c *Conn) interrupt() { _ = unix.Shutdown(c.data, unix.SHUT_RDWR) }

// ended is the error after Close or loss, nil before.
func (c *Conn) ended() error {
	switch {
	case c.closed.Load():
		return fmt.Errorf("ibsim: %s at %s: %w", c.node, c.o.where(), ErrClosed)
	case c.lost.Load():
		return fmt.Errorf("ibsim: %s at %s: %w", c.node, c.o.where(), ErrLost)
	}
	return nil
}

// Send implements mad.Transport. MADs longer than 256 bytes do not pass.
func (c *Conn) Send(p *mad.Packet) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if err := c.put(0, p); err != nil {
		return err
	}
	if err := c.ended(); err != nil {
		return err
	}
	var end time.Time
	for {
		_, err := c.out.send(c.data, 1)
		switch {
		case err == nil:
			return nil
		case c.ended() != nil:
			return c.ended()
		case err != unix.EAGAIN:
			return c.ioError("send", err)
		}
		// The server's queue is full. A second is long for it.
		if end.IsZero() {
			end = time.Now().Add(sendTimeout)
		}
		left := time.Until(end)
		if left <= 0 {
			return fmt.Errorf("ibsim: send: the simulator at %s does not take packets", c.o.where())
		}
		fds := [1]unix.PollFd{{Fd: int32(c.data), Events: unix.POLLOUT}}
		if _, err := unix.Poll(fds[:], int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return err
		}
	}
}

// sendTimeout is how long Send waits for a server that does not read.
const sendTimeout = time.Second

// put writes p to slot i of the batch; sendMu is held.
func (c *Conn) put(i int, p *mad.Packet) error {
	if len(p.Data) < 24 || len(p.Data) > ib.MADLen {
		return fmt.Errorf("ibsim: send: %d bytes are not one MAD", len(p.Data))
	}
	m, n := &c.out.msg[i], dataLen
	putPacket(m, p)
	if c.addresses {
		n = putAddr(m, &p.Addr)
	}
	c.out.set(i, &m[0], n)
	return nil
}

// Bursts implements mad.Burster.
func (c *Conn) Bursts() bool { return true }

// BurstsRMPP implements mad.Burster.
func (c *Conn) BurstsRMPP() bool { return false }

// TrySend implements mad.Burster.
func (c *Conn) TrySend(ps []mad.Packet) (n int, err error) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	for n < len(ps) {
		k := 0
		for ; k < batchLen && n+k < len(ps); k++ {
			if err := c.put(k, &ps[n+k]); err != nil {
				return n, err
			}
		}
		if err := c.ended(); err != nil {
			return n, err
		}
		k, err := c.out.send(c.data, k)
		n += k
		switch {
		case err == nil:
		case err == unix.EAGAIN:
			return n, nil
		case c.ended() != nil:
			return n, c.ended()
		default:
			return n, c.ioError("send", err)
		}
	}
	return n, nil
}

// Recv implements mad.Transport.
func (c *Conn) Recv(p *mad.Packet) error {
	_, err := c.recv(p, true)
	return err
}

// TryRecv implements mad.Burster.
func (c *Conn) TryRecv(p *mad.Packet) (bool, error) { return c.recv(p, false) }

// recv returns the next packet, or false if there is none and wait is not set.
func (c *Conn) recv(p *mad.Packet, wait bool) (bool, error) {
	c.recvMu.Lock()
	defer c.recvMu.Unlock()
	for {
		for c.in.next < c.in.n {
			if getPacket(p, c.in.take()) && !own(p) {
				p.SingleMAD = p.SingleMAD && c.tells
				return true, nil
			}
		}
		if err := c.ended(); err != nil {
			return false, err
		}
		if !wait && c.in.dry {
			c.in.dry = false
			return false, nil
		}
		switch err := c.fill(wait); {
		case err == nil:
			c.heard.Add(1)
		case err == unix.EINTR:
		case err == unix.EAGAIN && !wait:
			return false, nil
		case c.ended() != nil:
			return false, c.ended()
		default:
			return false, c.ioError("receive", err)
		}
	}
}

// watchServer detects the end of a server that sends nothing.
func (c *Conn) watchServer() {
	t := time.NewTicker(probeEvery)
	defer t.Stop()
	for last := uint64(0); ; {
		select {
		case <-c.quit:
			return
		case <-t.C:
		}
		n := c.heard.Load()
		if n == last && !c.serverLives() {
			c.fail()
			return
		}
		last = n
	}
}

// serverLives probes the server's control socket by connecting to it, which
// sends nothing. Over UDP only a send can tell.
func (c *Conn) serverLives() bool {
	if c.o.Server != "" {
		return true
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return !errors.Is(unix.Connect(fd, c.name("ctl", -1)), unix.ECONNREFUSED)
}

// Close clears IsSM, gives the client slot back and ends Recv.
func (c *Conn) Close() error {
	c.ctlMu.Lock()
	if c.closed.Load() {
		c.ctlMu.Unlock()
		return nil
	}
	if !c.lost.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		if c.isSM {
			c.exchange(ctx, ctlSetIsSM, make([]byte, 4))
		}
		c.exchange(ctx, ctlDisconnect, nil)
		cancel()
	}
	c.closed.Store(true)
	c.ctlMu.Unlock()
	close(c.quit)
	c.watch.Wait()
	c.interrupt()
	// Both calls have left the descriptors once their locks are ours.
	c.recvMu.Lock()
	defer c.recvMu.Unlock()
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.ctlMu.Lock()
	defer c.ctlMu.Unlock()
	c.closeFDs()
	return nil
}

func (c *Conn) closeFDs() {
	c.wait.close()
	for _, fd := range []*int{&c.control, &c.data} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// text is a NUL-terminated string.
func text(b []byte) string {
	for i, v := range b {
		if v == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
