package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/ib/smp"
)

// Sizes of the protocol's datagrams.
const (
	ctlLen  = 80
	dataLen = 288
	offMAD  = 32
)

// A client speaks ibsim's protocol with blocking sockets and little work of its
// own, so that the measurement is that of the server: it reads all queued
// responses with one call, and sends as many requests with another.
type client struct {
	ctl, data int
	slot      uint32
	in, out   burst
}

// maxBurst is how many datagrams one call moves.
const maxBurst = 64

type burst struct {
	hdr [maxBurst]struct {
		hdr unix.Msghdr
		len uint32
		_   [4]byte
	}
	iov [maxBurst]unix.Iovec
	buf [maxBurst][dataLen]byte
}

func (b *burst) init() {
	for i := range b.hdr {
		b.iov[i].Base = &b.buf[i][0]
		b.iov[i].SetLen(dataLen)
		b.hdr[i].hdr.Iov = &b.iov[i]
		b.hdr[i].hdr.SetIovlen(1)
	}
}

// attach connects client number n of this process to the first node.
func attach(name string, n int) (_ *client, err error) {
	c := &client{ctl: -1, data: -1}
	addr := func(kind string, id int) *unix.SockaddrUnix {
		s := "@" + name + ":" + kind
		if id >= 0 {
			s += fmt.Sprint(id)
		}
		return &unix.SockaddrUnix{Name: s + "\x00"}
	}
	id := os.Getpid()&(1<<22-1) | n<<22
	err = func() (err error) {
		for _, s := range []struct {
			fd   *int
			name *unix.SockaddrUnix
		}{{&c.ctl, addr("ctl", id)}, {&c.data, addr("in", id)}} {
			if *s.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			if err = unix.Bind(*s.fd, s.name); err != nil {
				return err
			}
			// A server that ended must not block the run.
			if err = unix.SetsockoptTimeval(*s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
				return err
			}
		}
		if err = unix.Connect(c.ctl, addr("ctl", -1)); err != nil {
			return err
		}
		var info [44]byte
		binary.NativeEndian.PutUint32(info[0:], uint32(id))
		if c.slot, err = c.control(0, 1, info[:]); err != nil {
			return err
		}
		return unix.Connect(c.data, addr("out", int(c.slot)))
	}()
	if err != nil {
		c.close()
		return nil, fmt.Errorf("attach to %s: %w", name, err)
	}
	c.in.init()
	c.out.init()
	for i := range c.out.buf {
		b := &c.out.buf[i]
		m := (*ib.MAD)(b[offMAD:])
		smp.NewDR(m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1})
		binary.BigEndian.PutUint32(b[0:], 0xffff0000) // the permissive LID, as source and destination
		binary.BigEndian.PutUint32(b[4:], 0xffff0000)
		binary.BigEndian.PutUint64(b[24:], ib.MADLen)
	}
	return c, nil
}

// control does one exchange and returns the first word of the reply.
func (c *client) control(slot, typ uint32, data []byte) (uint32, error) {
	var m [ctlLen]byte
	ne := binary.NativeEndian
	ne.PutUint32(m[0:], 0xdeadbeef)
	ne.PutUint32(m[4:], slot)
	ne.PutUint32(m[8:], typ)
	ne.PutUint32(m[12:], uint32(len(data)))
	copy(m[16:], data)
	if _, err := unix.Write(c.ctl, m[:]); err != nil {
		return 0, err
	}
	if _, err := unix.Read(c.ctl, m[:]); err != nil {
		return 0, err
	}
	if ne.Uint32(m[8:]) != typ {
		return 0, errors.New("refused")
	}
	return ne.Uint32(m[16:]), nil
}

func (c *client) close() {
	if c.ctl >= 0 {
		_, _ = c.control(c.slot, 2, nil)
		unix.Close(c.ctl)
	}
	if c.data >= 0 {
		unix.Close(c.data)
	}
}

// ask keeps window requests in flight until the deadline and returns how many
// were answered. Requests in flight at the deadline do not count.
func (c *client) ask(window int, until time.Time) (int, error) {
	tid := uint64(0)
	done, left, fly := 0, window, 0
	for round := 0; ; round++ {
		for left > 0 {
			k := min(left, maxBurst)
			for i := range k {
				tid++
				(*ib.MAD)(c.out.buf[i][offMAD:]).SetTID(tid)
			}
			n, err := c.call(unix.SYS_SENDMMSG, &c.out, k, 0)
			if err != nil {
				return done, fmt.Errorf("send: %w", err)
			}
			tid -= uint64(k - n)
			left -= n
			fly += n
		}
		n, err := c.call(unix.SYS_RECVMMSG, &c.in, maxBurst, unix.MSG_WAITFORONE)
		if err != nil {
			return done, fmt.Errorf("receive: %w", err)
		}
		for i := range n {
			b := &c.in.buf[i]
			if binary.BigEndian.Uint32(b[16:]) != 0 || !(*ib.MAD)(b[offMAD:]).Method().IsResponse() {
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

func (c *client) call(nr uintptr, b *burst, n int, flags uintptr) (int, error) {
	for {
		k, _, e := unix.Syscall6(nr, uintptr(c.data), uintptr(unsafe.Pointer(&b.hdr[0])), uintptr(n), flags, 0, 0)
		switch e {
		case 0:
			return int(k), nil
		case unix.EINTR:
			continue
		}
		return 0, e
	}
}
