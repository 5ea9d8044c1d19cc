package umad

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"heddle/ib"
	"heddle/internal/umadabi"
	"heddle/mad"
)

// file is one open umad device. Reads come from one goroutine at a time.
type file struct {
	dev Device
	f   *os.File
	rd  []byte // reader only
	wt  waiter

	mu  sync.Mutex
	wr  []byte                  // guarded by mu
	qps [umadabi.MaxAgents]byte // QP of each agent; written before it can receive
}

// readSize is the reader's standing buffer: large enough for every single MAD,
// small enough that the kernel need not pin many pages for each read.
const readSize = umadabi.HeaderLen + 4096

// maxMessage bounds the buffer of a read.
const maxMessage = 256 << 20

func openFile(dir string, d Device) (*file, error) {
	u := &file{dev: d, rd: make([]byte, readSize)}
	var err error
	if u.f, err = u.wt.open(filepath.Join(dir, d.Umad)); err != nil {
		return nil, wrap("open", d.Name(), err)
	}
	// The 64-byte header must be enabled before the first agent registers.
	if err := u.ioctl(umadabi.EnablePKey, nil); err != nil {
		u.f.Close()
		return nil, wrap("enable P_Key indices on", d.Name(), err)
	}
	return u, nil
}

// close ends a read in progress.
func (u *file) close() error {
	u.wt.end()
	return u.f.Close()
}

// ioctl runs one ioctl. It uses SyscallConn, because Fd would make the
// descriptor blocking.
func (u *file) ioctl(code uint32, arg []byte) error {
	rc, err := u.f.SyscallConn()
	if err != nil {
		return err
	}
	var p unsafe.Pointer
	if len(arg) > 0 {
		p = unsafe.Pointer(&arg[0])
	}
	var no syscall.Errno
	if err := rc.Control(func(fd uintptr) {
		_, _, no = unix.Syscall(unix.SYS_IOCTL, fd, uintptr(code), uintptr(p))
	}); err != nil {
		return err
	}
	if no != 0 {
		return no
	}
	return nil
}

// register makes an agent and returns its number.
func (u *file) register(a umadabi.Agent) (uint32, error) {
	var b [umadabi.AgentLen]byte
	a.Put(b[:])
	if err := u.ioctl(umadabi.RegisterAgent, b[:]); err != nil {
		return 0, err
	}
	id := binary.LittleEndian.Uint32(b[:])
	if id >= umadabi.MaxAgents {
		return 0, syscall.EPROTO
	}
	u.qps[id] = byte(a.QPN)
	return id, nil
}

// send writes p through an agent.
func (u *file) send(id uint32, retries uint32, p *mad.Packet) error {
	h := umadabi.Header{
		ID: id, TimeoutMS: millis(p.Timeout), Retries: retries,
		QPN: p.Addr.QP, LID: uint16(p.Addr.LID), SL: uint8(p.Addr.SL), PathBits: p.Addr.PathBits,
		PKeyIndex: p.Addr.PKeyIndex,
	}
	if u.qps[id] == 1 {
		h.QKey = uint32(cmp.Or(p.Addr.QKey, ib.QKeyGSI))
	}
	if p.Addr.HasGRH {
		g := &p.Addr.GRH
		h.GRHPresent, h.GIDIndex, h.HopLimit = true, g.GIDIndex, g.HopLimit
		h.TrafficClass, h.GID, h.FlowLabel = g.TrafficClass, g.GID, g.FlowLabel
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	n := umadabi.HeaderLen + max(len(p.Data), umadabi.RMPPHeaderLen)
	if cap(u.wr) < n {
		u.wr = make([]byte, n)
	}
	b := u.wr[:n]
	h.Put(b, umadabi.HeaderLen)
	clear(b[umadabi.HeaderLen+copy(b[umadabi.HeaderLen:], p.Data):])
	if _, err := u.f.Write(b); err != nil {
		return wrap("send through", u.dev.Name(), err)
	}
	return nil
}

// millis rounds a time-out up to the device's unit.
func millis(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32(min((d+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
}

// recv reads the next packet into p.
func (u *file) recv(p *mad.Packet) error {
	b, err := u.read(u.wt.read)
	if err != nil {
		return wrap("receive from", u.dev.Name(), err)
	}
	u.decode(p, b)
	return nil
}

// tryRecv is recv without waiting; false if there is no packet.
func (u *file) tryRecv(p *mad.Packet) (bool, error) {
	if !u.wt.worth() {
		return false, nil
	}
	b, err := u.read(u.wt.try)
	u.wt.tried(err == nil)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false, nil
	case err != nil:
		return false, wrap("receive from", u.dev.Name(), err)
	}
	u.decode(p, b)
	return true, nil
}

// decode fills p from the bytes read.
func (u *file) decode(p *mad.Packet, b []byte) {
	var h umadabi.Header
	h.Decode(b, umadabi.HeaderLen)
	data := p.Data[:0]
	*p = mad.Packet{
		Addr: mad.Addr{
			LID: ib.LID(h.LID), QP: h.QPN, SL: ib.SL(h.SL), PathBits: h.PathBits,
			PKeyIndex: h.PKeyIndex, HasGRH: h.GRHPresent,
		},
		LocalQP: uint32(u.qps[h.ID%umadabi.MaxAgents]),
		Data:    append(data, b[umadabi.HeaderLen:]...),
	}
	if h.GRHPresent {
		p.Addr.GRH = mad.GRH{
			GID: h.GID, GIDIndex: h.GIDIndex, HopLimit: h.HopLimit,
			TrafficClass: h.TrafficClass, FlowLabel: h.FlowLabel,
		}
	}
	if h.Status != 0 {
		p.Status = mad.Failed
	}
}

// read returns the next packet with its header, valid until the next call.
// get reads from the device, and may wait or not.
func (u *file) read(get func(*os.File, []byte) (int, error)) ([]byte, error) {
	for {
		clear(u.rd[16:20])
		n, err := get(u.f, u.rd)
		if err == nil {
			if n < umadabi.HeaderLen+umadabi.MADHeaderLen {
				continue // not a MAD: nothing anybody could use
			}
			return u.rd[:n], nil
		}
		need := int(binary.LittleEndian.Uint32(u.rd[16:]))
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case need > len(u.rd) && need <= maxMessage &&
			(errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EIO)):
			// An RMPP message that does not fit: the kernel left its length in the
			// buffer. (A device served by FUSE reports this as EIO.) The large buffer is
			// for this message only.
			big := make([]byte, need)
			n, err := u.wt.read(u.f, big)
			if err != nil {
				return nil, err
			}
			return big[:n], nil
		default:
			return nil, err
		}
	}
}
