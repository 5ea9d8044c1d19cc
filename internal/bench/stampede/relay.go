package stampede

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/internal/bench/rawibsim"
)

// A relay is between a manager and its simulator: it is the simulator for the manager, and a
// client for the simulator. It passes on what the two send to each other, except requests and
// answers of the SA: the hosts that ask are in the relay (crowd), so that a query costs the
// machine one datagram to the manager and one back, and not two of each and the simulator's work.
type relay struct {
	name      string
	up        *rawibsim.Client
	ctl, data int                // sockets of the manager's side
	manager   *unix.SockaddrUnix // its control socket
	attached  bool
	in, out   rawibsim.Burst
	raw       []rawMessage // to the manager, before all else
	crowd     *crowd
	next      atomic.Pointer[phase]
	stop      atomic.Bool
	done      chan error
}

type rawMessage [rawibsim.DataLen]byte

// What the relay changes in a CONNECT, and writes into data messages.
const (
	offExtCan = rawibsim.OffBody + 52 // extensions that the client can
	// canAddress says that an address follows some data messages; the relay has none of that.
	canAddress      = 1 << 1
	offFlags        = 20
	flagReassembles = 1
)

// portQueue is how many bytes of datagrams the manager's port holds: some 500 of 288 bytes, which
// take 768 with their bookkeeping, as many as the kernel has receive buffers for a device.
const portQueue = 512 * 768

// startRelay listens as a simulator called name, for one manager.
func startRelay(name, sim string) (r *relay, err error) {
	r = &relay{name: name, ctl: -1, data: -1, crowd: &crowd{}, done: make(chan error, 1)}
	if r.ctl, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if r.data, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		err = unix.Bind(r.ctl, rawibsim.Address(name, "ctl", -1))
	}
	if err == nil {
		r.up, err = rawibsim.Dial(sim, relayNumber)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	_ = unix.SetsockoptInt(r.data, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, portQueue/2) // the kernel doubles it
	r.in.Init()
	r.out.Init()
	go func() { r.done <- r.serve() }()
	return r, nil
}

func (r *relay) end() error {
	r.stop.Store(true)
	err := <-r.done
	r.close()
	return err
}

func (r *relay) close() {
	for _, fd := range []int{r.ctl, r.data} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if r.up != nil {
		r.up.CloseSockets()
	}
}

// relayNumber is that of the relay among the clients of its simulator; each has one relay.
const relayNumber = 300

// serve relays until end is called. Between datagrams it waits as long as the crowd says.
func (r *relay) serve() error {
	runtime.LockOSThread()
	// Without slack the kernel wakes the thread when it is due, not up to 50 µs later.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
	for !r.stop.Load() {
		if p := r.next.Swap(nil); p != nil {
			r.crowd = p.crowd
			r.crowd.begin(p)
		}
		wait := r.crowd.act(time.Now())
		full, err := r.send()
		if err != nil {
			return fmt.Errorf("to the manager: %w", err)
		}
		n, err := r.take(r.data)
		if err == nil && r.target() != r.data {
			var k int
			k, err = r.take(r.target())
			n += k
		}
		if err != nil {
			return fmt.Errorf("from the manager: %w", err)
		}
		if n > 0 || !full && (len(r.raw) > 0 || r.crowd.waiting() > 0) {
			continue
		}
		if err := r.poll(min(wait, 5*time.Millisecond), full); err != nil {
			return err
		}
	}
	return nil
}

// poll waits for datagrams, or for space in the manager's port, and serves the rest of the sockets.
func (r *relay) poll(wait time.Duration, full bool) error {
	fds := [...]unix.PollFd{
		{Fd: int32(r.data), Events: unix.POLLIN},
		{Fd: int32(r.ctl), Events: unix.POLLIN},
		{Fd: int32(r.up.Data), Events: unix.POLLIN},
		{Fd: int32(r.target()), Events: unix.POLLIN},
	}
	if full {
		fds[0].Events |= unix.POLLOUT
		fds[3].Events |= unix.POLLOUT
	}
	if len(r.raw) > 2*rawibsim.MaxBurst {
		fds[2].Events = 0
	}
	t := unix.NsecToTimespec(int64(max(wait, 0)))
	if _, err := unix.Ppoll(fds[:], &t, nil); err != nil && err != unix.EINTR {
		return err
	}
	if fds[1].Revents != 0 {
		if err := r.control(); err != nil {
			return fmt.Errorf("control: %w", err)
		}
	}
	if fds[2].Revents != 0 {
		return r.fromSim()
	}
	return nil
}

// control passes a control message to the simulator, and the answer back.
func (r *relay) control() error {
	var m [rawibsim.ControlLen]byte
	if _, err := unix.Read(r.ctl, m[:]); err != nil {
		return err
	}
	ne := binary.NativeEndian
	connect := ne.Uint32(m[rawibsim.OffType:]) == rawibsim.Connect
	id := ne.Uint32(m[rawibsim.OffBody:])
	if connect {
		r.manager = rawibsim.Address(r.name, "ctl", int(id))
		ne.PutUint32(m[rawibsim.OffBody:], uint32(rawibsim.ID(relayNumber)))
		ne.PutUint32(m[offExtCan:], ne.Uint32(m[offExtCan:])&^canAddress)
	}
	if _, err := unix.Write(r.up.Control, m[:]); err != nil {
		return err
	}
	if _, err := unix.Read(r.up.Control, m[:]); err != nil {
		return err
	}
	if connect && ne.Uint32(m[rawibsim.OffType:]) == rawibsim.Connect && !r.attached {
		slot := ne.Uint32(m[rawibsim.OffBody:])
		ne.PutUint32(m[offExtCan:], ne.Uint32(m[offExtCan:])&^canAddress)
		if err := errors.Join(unix.Connect(r.up.Data, rawibsim.Address(r.sim(), "out", int(slot))),
			unix.Bind(r.data, rawibsim.Address(r.name, "out", int(slot))),
			unix.Connect(r.data, rawibsim.Address(r.name, "in", int(id)))); err != nil {
			return err
		}
		r.attached = true
	}
	return unix.Sendto(r.ctl, m[:], 0, r.manager)
}

// sim is the name of the simulator.
func (r *relay) sim() string { return r.name[:len(r.name)-len(relaySuffix)] }

// relaySuffix makes the name of the relay from that of its simulator.
const relaySuffix = "-relay"

// fromSim takes datagrams of the simulator for the manager.
func (r *relay) fromSim() error {
	n, err := r.up.In.TryReceive(r.up.Data)
	if err != nil {
		return fmt.Errorf("from the simulator: %w", err)
	}
	for i := range n {
		r.raw = append(r.raw, r.up.In.Buf[i])
	}
	return nil
}

// target is whom the crowd asks: the manager, or the echo in its place.
func (r *relay) target() int {
	if p := r.crowd.phase; p != nil && p.echo {
		return r.crowd.echo
	}
	return r.data
}

// take takes datagrams of the manager, for the crowd or for the simulator, or of the echo.
func (r *relay) take(from int) (int, error) {
	if !r.attached {
		return 0, nil
	}
	n, err := r.in.TryReceive(from)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	forward := 0
	for i := range n {
		b := &r.in.Buf[i]
		m := (*ib.MAD)(b[rawibsim.OffMAD:])
		lid := ib.LID(binary.BigEndian.Uint16(b[0:]))
		switch {
		case m.Class() != ib.ClassSA:
			r.up.Out.Buf[forward] = *b
			forward++
		case m.Method() == ib.MethodReport:
			m.SetMethod(ib.MethodReportResp)
			r.raw = append(r.raw, rawMessage{})
			putQuery(&r.raw[len(r.raw)-1], lid, r.crowd.manager, m)
			r.crowd.notified(lid, now)
		default:
			r.crowd.answered(lid, m, now)
		}
	}
	for k := 0; k < forward; {
		// The manager limits what is in flight, so this cannot block for long.
		sent, err := r.up.Out.Send(r.up.Data, forward)
		if err != nil {
			return n, fmt.Errorf("to the simulator: %w", err)
		}
		if k += sent; k < forward {
			copy(r.up.Out.Buf[:], r.up.Out.Buf[sent:forward])
			forward, k = forward-sent, 0
		}
	}
	return n, nil
}

// send fills the manager's port. It reports whether that is full.
func (r *relay) send() (full bool, err error) {
	if !r.attached {
		return false, nil
	}
	n := min(len(r.raw), rawibsim.MaxBurst)
	for i := range n {
		r.out.Buf[i] = r.raw[i]
	}
	sent, err := r.out.TrySend(r.data, n)
	if err != nil {
		return false, err
	}
	r.raw = r.raw[:copy(r.raw, r.raw[sent:])]
	k := r.crowd.take(r.out.Buf[:])
	asked, err := r.out.TrySend(r.target(), k)
	r.crowd.took(asked)
	return sent < n || asked < k, err
}

// putQuery writes a data message from a host.
func putQuery(b *rawMessage, from, to ib.LID, m *ib.MAD) {
	clear(b[:rawibsim.OffMAD])
	be := binary.BigEndian
	be.PutUint16(b[0:], uint16(to))
	be.PutUint16(b[4:], uint16(from))
	be.PutUint32(b[8:], 1)
	be.PutUint32(b[12:], 1)
	b[offFlags+3] = flagReassembles
	be.PutUint64(b[24:], ib.MADLen)
	copy(b[rawibsim.OffMAD:], m[:])
}

// pathRequest is a query for the path between two LIDs.
func pathRequest(from, to ib.LID, tid uint64) (m ib.MAD) {
	wire.New(&m, ib.MethodGet, wire.AttrPathRecord, 0, wire.PathCompDLID|wire.PathCompSLID|wire.PathCompNumbPath)
	p := wire.PathRecord{DLID: to, SLID: from, NumbPath: 1}
	p.Put(wire.Data(&m))
	m.SetTID(tid)
	return m
}
