package saload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/internal/bench/rawibsim"
)

// echoing answers SA requests with themselves, on one thread and with little
// work of its own: an upper bound for the rate of any SA.
type echoing struct {
	c    *rawibsim.Client
	stop chan struct{}
	done chan error
}

// startEcho takes the place of the manager on the first node.
func startEcho(name string) (*echoing, error) {
	c, err := rawibsim.Attach(name, 500)
	if err != nil {
		return nil, err
	}
	var on [4]byte
	binary.NativeEndian.PutUint32(on[:], 1)
	if _, err := c.Ask(rawibsim.SetIsSM, on[:]); err != nil {
		c.Close()
		return nil, fmt.Errorf("claim the port: %w", err)
	}
	// Wake the loop periodically, so that it can end.
	if err := unix.SetsockoptTimeval(c.Data, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100000}); err != nil {
		c.Close()
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
	e.c.Close()
	return err
}

func (e *echoing) serve() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := e.c
	be := binary.BigEndian
	for {
		n, err := c.In.Receive(c.Data, rawibsim.MaxBurst)
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
			in := &c.In.Buf[i]
			m := (*ib.MAD)(in[rawibsim.OffMAD:])
			if m.Class() != ib.ClassSA || m.Method().IsResponse() {
				continue
			}
			out := &c.Out.Buf[k]
			*out = *in
			clear(out[:32])
			copy(out[0:2], in[4:6])    // back to the source's LID
			copy(out[8:12], in[12:16]) // and QP
			copy(out[12:16], in[8:12])
			be.PutUint64(out[24:], ib.MADLen)
			(*ib.MAD)(out[rawibsim.OffMAD:]).SetMethod(m.Method() | ib.MethodResponseBit)
			k++
		}
		for k > 0 {
			sent, err := c.Out.Send(c.Data, k)
			if err != nil {
				return fmt.Errorf("send: %w", err)
			}
			k -= sent
			copy(c.Out.Buf[:k], c.Out.Buf[sent:sent+k]) // a burst is sent from its start
		}
	}
}
