// Package rawibsim speaks the protocol of ibsim with blocking sockets and little work of its own, so
// that what is measured is the other end: the simulator, or the manager behind it.
//
// A Client and a Burst belong to one goroutine each. Programs other than benchmarks use
// transport/ibsim.
package rawibsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/ib/smp"
)

// Sizes of the protocol's datagrams, and where the MAD is in one with data.
const (
	ControlLen = 80
	DataLen    = 288
	OffMAD     = 32
)

// Offsets of a control message.
const (
	OffSlot = 4
	OffType = 8
	offLen  = 12
	OffBody = 16
)

// Types of control messages.
const (
	Connect    = 1
	Disconnect = 2
	SetIsSM    = 9 // claims a port for a manager, which then receives requests
)

// A Client has the two sockets of a client of ibsim.
type Client struct {
	Control, Data int
	In, Out       Burst

	slot uint32
}

// Address is that of a socket of the simulator called name, or of a client: negative is no ID.
func Address(name, kind string, id int) *unix.SockaddrUnix {
	s := "@" + name + ":" + kind
	if id >= 0 {
		s += fmt.Sprint(id)
	}
	return &unix.SockaddrUnix{Name: s + "\x00"}
}

// ID is that of client number n of this process.
func ID(n int) int { return os.Getpid()&(1<<22-1) | n<<22 }

// Dial opens the sockets of client number n of this process, which is not attached to a node.
func Dial(name string, n int) (c *Client, err error) {
	c = &Client{Control: -1, Data: -1}
	for _, s := range []struct {
		fd   *int
		kind string
	}{{&c.Control, "ctl"}, {&c.Data, "in"}} {
		if *s.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Bind(*s.fd, Address(name, s.kind, ID(n)))
		}
		if err != nil {
			c.CloseSockets()
			return nil, err
		}
	}
	if err := unix.Connect(c.Control, Address(name, "ctl", -1)); err != nil {
		c.CloseSockets()
		return nil, err
	}
	c.In.Init()
	c.Out.Init()
	return c, nil
}

// Attach connects client number n of this process to the first node.
func Attach(name string, n int) (*Client, error) {
	c, err := Dial(name, n)
	if err == nil {
		if err = c.attach(name, n); err != nil {
			c.CloseSockets()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", name, err)
	}
	for i := range c.Out.Buf {
		b := &c.Out.Buf[i]
		m := (*ib.MAD)(b[OffMAD:])
		smp.NewDR(m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1})
		binary.BigEndian.PutUint32(b[0:], 0xffff0000) // the permissive LID, as source and destination
		binary.BigEndian.PutUint32(b[4:], 0xffff0000)
		binary.BigEndian.PutUint64(b[24:], ib.MADLen)
	}
	return c, nil
}

func (c *Client) attach(name string, n int) (err error) {
	for _, fd := range []int{c.Control, c.Data} { // a server that ended must not block the run
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
			return err
		}
	}
	var info [44]byte
	binary.NativeEndian.PutUint32(info[0:], uint32(ID(n)))
	if c.slot, err = c.Ask(Connect, info[:]); err != nil {
		return err
	}
	return unix.Connect(c.Data, Address(name, "out", int(c.slot)))
}

// Ask sends a control message and returns the first word of the reply.
func (c *Client) Ask(typ uint32, body []byte) (uint32, error) {
	var m [ControlLen]byte
	ne := binary.NativeEndian
	ne.PutUint32(m[0:], 0xdeadbeef)
	ne.PutUint32(m[OffSlot:], c.slot)
	ne.PutUint32(m[OffType:], typ)
	ne.PutUint32(m[offLen:], uint32(len(body)))
	copy(m[OffBody:], body)
	if _, err := unix.Write(c.Control, m[:]); err != nil {
		return 0, err
	}
	if _, err := unix.Read(c.Control, m[:]); err != nil {
		return 0, err
	}
	if ne.Uint32(m[OffType:]) != typ {
		return 0, errors.New("refused")
	}
	return ne.Uint32(m[OffBody:]), nil
}

// Close detaches an attached client and closes its sockets.
func (c *Client) Close() {
	_, _ = c.Ask(Disconnect, nil)
	c.CloseSockets()
}

// CloseSockets closes the sockets of a client that is not attached, or no longer.
func (c *Client) CloseSockets() {
	for _, fd := range []int{c.Control, c.Data} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Query keeps window directed-route NodeInfo requests of an attached client in flight until the
// deadline, and returns how many were answered. Requests in flight at the deadline do not count.
func (c *Client) Query(window int, until time.Time) (int, error) {
	tid := uint64(0)
	done, left, fly := 0, window, 0
	for round := 0; ; round++ {
		for left > 0 {
			k := min(left, MaxBurst)
			for i := range k {
				tid++
				(*ib.MAD)(c.Out.Buf[i][OffMAD:]).SetTID(tid)
			}
			n, err := c.Out.Send(c.Data, k)
			if err != nil {
				return done, fmt.Errorf("send: %w", err)
			}
			tid -= uint64(k - n)
			left -= n
			fly += n
		}
		n, err := c.In.Receive(c.Data, MaxBurst)
		if err != nil {
			return done, fmt.Errorf("receive: %w", err)
		}
		for i := range n {
			b := &c.In.Buf[i]
			if binary.BigEndian.Uint32(b[16:]) != 0 || !(*ib.MAD)(b[OffMAD:]).Method().IsResponse() {
				return done, errors.New("a request failed")
			}
		}
		done += n
		fly -= n
		left = window - fly
		if round&15 == 0 && time.Now().After(until) {
			return done, nil
		}
	}
}
