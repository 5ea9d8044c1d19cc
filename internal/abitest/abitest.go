// Package abitest is a conformance suite for user MAD devices, as checks that a
// program runs against the real kernel's (transport/umad/kerneltest, in a
// virtual machine) and against the one that sim/umadfs emulates. The same list
// runs on both, so that a difference shows.
//
// The checks use plain system calls on one or two devices whose ports reach
// each other, often the same one. They need all agents of the ports for
// themselves.
package abitest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/internal/umadabi"
)

// Env describes the devices and their capabilities.
type Env struct {
	Sys, Dev string // usually /sys and /dev/infiniband
	A, B     string // requester and responder: umad devices, may be the same
	Issm     string // issm device of A
	CA       string // RDMA device of A
	Port     int    // and its port number
	// To is how a MAD from A is addressed to B: LID, or GRH with GID.
	To umadabi.Header
	// SMI says that the ports have a QP0.
	SMI bool
	// ShortTID says that the path between the ports keeps only the lower 48
	// bits of a transaction ID.
	ShortTID bool
	// WakesReads says that removing the device ends a blocking read. Linux 6.1
	// wakes only pollers.
	WakesReads bool
	// Remove takes the device A away, for the last check; nil skips it.
	Remove func() error
}

// Check is one thing to check.
type Check struct {
	Name string
	Run  func(e *Env) error
}

// Run runs all checks and prints a line for each: "ok NAME" or "FAIL NAME:
// reason". It returns how many failed.
func Run(e *Env, w io.Writer) (failed int) {
	for _, c := range Checks {
		if c.Name == "hot removal" && e.Remove == nil {
			fmt.Fprintf(w, "-- %s: cannot be done here\n", c.Name)
			continue
		}
		start := time.Now()
		if err := c.Run(e); err != nil {
			failed++
			fmt.Fprintf(w, "FAIL %s: %v\n", c.Name, err)
			continue
		}
		fmt.Fprintf(w, "ok %s (%v)\n", c.Name, time.Since(start).Round(time.Millisecond))
	}
	return failed
}

// dev is one open device, non-blocking, without the runtime's poller.
type dev struct {
	fd  int
	hdr int // header length
}

func (e *Env) open(name string, pkey bool) (*dev, error) {
	fd, err := unix.Open(filepath.Join(e.Dev, name), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	d := &dev{fd: fd, hdr: umadabi.OldHeaderLen}
	if pkey {
		if err := d.ioctl(umadabi.EnablePKey, nil); err != nil {
			d.close()
			return nil, fmt.Errorf("ENABLE_PKEY: %w", err)
		}
		d.hdr = umadabi.HeaderLen
	}
	return d, nil
}

func (d *dev) close() { unix.Close(d.fd) }

func (d *dev) ioctl(code uint32, arg []byte) error {
	var p unsafe.Pointer
	if len(arg) > 0 {
		p = unsafe.Pointer(&arg[0])
	}
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), uintptr(code), uintptr(p)); no != 0 {
		return no
	}
	return nil
}

func (d *dev) register(a umadabi.Agent) (uint32, error) {
	b := make([]byte, umadabi.AgentLen)
	a.Put(b)
	if err := d.ioctl(umadabi.RegisterAgent, b); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (d *dev) register2(a umadabi.Agent) (id, flags uint32, err error) {
	b := make([]byte, umadabi.Agent2Len)
	a.Put2(b)
	err = d.ioctl(umadabi.RegisterAgent2, b)
	return binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[12:]), err
}

func (d *dev) unregister(id uint32) error {
	return d.ioctl(umadabi.UnregisterAgent, binary.LittleEndian.AppendUint32(nil, id))
}

// write sends m with header h.
func (d *dev) write(h umadabi.Header, m []byte) error {
	b := make([]byte, d.hdr+len(m))
	h.Put(b, d.hdr)
	copy(b[d.hdr:], m)
	n, err := unix.Write(d.fd, b)
	if err == nil && n != len(b) {
		return fmt.Errorf("write returned %d of %d", n, len(b))
	}
	return err
}

// events polls the device once.
func (d *dev) events(wait time.Duration) (int16, error) {
	end := time.Now().Add(wait)
	for {
		fds := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, int(max(time.Until(end), 0)/time.Millisecond))
		if err == unix.EINTR {
			continue
		}
		return fds[0].Revents, err
	}
}

var errNothing = errors.New("nothing came")

// read waits for a packet and reads it into a buffer of size bytes.
func (d *dev) read(size int, wait time.Duration) (h umadabi.Header, m []byte, err error) {
	ev, err := d.events(wait)
	if err != nil {
		return h, nil, err
	}
	if ev&(unix.POLLIN|unix.POLLERR) == 0 {
		return h, nil, errNothing
	}
	b := make([]byte, size)
	n, err := unix.Read(d.fd, b)
	if size >= d.hdr {
		h.Decode(b, d.hdr)
	}
	if err != nil {
		return h, b[min(d.hdr, size):], err
	}
	return h, b[d.hdr:n], nil
}

// patience is how long something may take that needs no time-out, and answered, in ms, the time-out
// of a request that gets its response: longer than any machine starves a process.
const (
	patience = 3 * time.Minute
	answered = uint32(patience / time.Millisecond)
)

// quiet is how long no packet must arrive for a check of silence.
const quiet = 250 * time.Millisecond

// request makes a 256-byte MAD.
func request(class, version uint8, method ib.Method, tid uint32) []byte {
	var m ib.MAD
	m.SetHeader(ib.Class(class), version, method, 0x10, 0)
	m.SetTID(uint64(tid))
	for i := 64; i < len(m); i++ {
		m[i] = byte(i)
	}
	return m[:]
}

// answerTo derives the header of a response from the one received.
func answerTo(h umadabi.Header, id uint32) umadabi.Header {
	h.ID, h.Status, h.TimeoutMS, h.Retries, h.Length = id, 0, 0, 0, 0
	return h
}

func (e *Env) to(id, timeout, retries uint32) umadabi.Header {
	h := e.To
	h.ID, h.TimeoutMS, h.Retries, h.QPN, h.QKey = id, timeout, retries, 1, uint32(ib.QKeyGSI)
	return h
}

// want checks an errno.
func want(what string, err error, no syscall.Errno) error {
	switch {
	case no == 0 && err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case no != 0 && err == nil:
		return fmt.Errorf("%s: worked, want %s", what, unix.ErrnoName(no))
	case no != 0 && !errors.Is(err, no):
		return fmt.Errorf("%s: %v, want %s", what, err, unix.ErrnoName(no))
	}
	return nil
}

// capMask reads the port's capability mask from sysfs.
func (e *Env) capMask() (uint32, error) {
	b, err := os.ReadFile(filepath.Join(e.Sys, "class/infiniband", e.CA, "ports", fmt.Sprint(e.Port), "cap_mask"))
	if err != nil {
		return 0, err
	}
	var v uint32
	_, err = fmt.Sscanf(strings.TrimSpace(string(b)), "0x%x", &v)
	return v, err
}

// pair is a requester and a responder of one class on two open files.
type pair struct {
	a, b       *dev
	aid, bid   uint32
	class, ver uint8
}

// pairOf opens A and B; the responder takes the methods given.
func (e *Env) pairOf(class, ver, rmpp uint8, methods ...ib.Method) (*pair, error) {
	p := &pair{class: class, ver: ver}
	var err error
	if p.a, err = e.open(e.A, true); err != nil {
		return nil, err
	}
	if p.b, err = e.open(e.B, true); err != nil {
		p.a.close()
		return nil, err
	}
	reg := umadabi.Agent{QPN: 1, Class: class, Version: ver, RMPP: rmpp}
	if p.aid, err = p.a.register(reg); err == nil {
		reg.Methods = umadabi.MaskOf(methods...)
		p.bid, err = p.b.register(reg)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("register class %#x: %w", class, err)
	}
	return p, nil
}

func (p *pair) close() {
	p.a.close()
	p.b.close()
}
