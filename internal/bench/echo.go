package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"heddle/ib"
)

// ctlSetIsSM is the control message that claims a port for a manager, which
// then receives requests.
const ctlSetIsSM = 9

// echoing answers SA requests with themselves, on one thread and with little
// work of its own: an upper bound for the rate of any SA.
type echoing struct {
	c    *client
	stop chan struct{}
	done chan error
}

// startEcho takes the place of the manager on the first node.
func startEcho(name string) (*echoing, error) {
	c, err := attach(name, 500)
	if err != nil {
		return nil, err
	}
	var on [4]byte
	binary.NativeEndian.PutUint32(on[:], 1)
	if _, err := c.control(c.slot, ctlSetIsSM, on[:]); err != nil {
		c.close()
		return nil, fmt.Errorf("claim the port: %w", err)
	}
	// Wake the loop periodically, so that it can end.
	if err := unix.SetsockoptTimeval(c.data, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100000}); err != nil {
		c.close()
		return nil, err
	}
	e := &echoing{c: c, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { e.done <- e.serve() }()
	return e, nil
}

// end stops the echo and returns its error.
func (e *echoing) end() error {
	close(e.stop)
	err := <-e.done
	e.c.close()
	return err
}

func (e *echoing) serve() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := e.c
	be := binary.BigEndian
	for {
		n, err := c.call(unix.SYS_RECVMMSG, &c.in, maxBurst, unix.MSG_WAITFORONE)
		select {
		case <-e.stop:
			return nil
		default:
		}
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		k := 0
		for i := range n {
			in := &c.in.buf[i]
			m := (*ib.MAD)(in[offMAD:])
			if m.Class() != ib.ClassSA || m.Method().IsResponse() {
				continue
			}
			out := &c.out.buf[k]
			*out = *in
			clear(out[:32])
			copy(out[0:2], in[4:6])    // back to the source's LID
			copy(out[8:12], in[12:16]) // and QP
			copy(out[12:16], in[8:12])
			be.PutUint64(out[24:], ib.MADLen)
			(*ib.MAD)(out[offMAD:]).SetMethod(m.Method() | ib.MethodResponseBit)
			k++
		}
		for k > 0 {
			sent, err := c.call(unix.SYS_SENDMMSG, &c.out, k, 0)
			if err != nil {
				return fmt.Errorf("send: %w", err)
			}
			k -= sent
			copy(c.out.buf[:k], c.out.buf[sent:sent+k]) // a burst is sent from its start
		}
	}
}
