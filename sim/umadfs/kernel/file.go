package kernel

import (
	"encoding/binary"
	"slices"
	"syscall"

	"heddle/internal/umadabi"
	"heddle/mad"
)

// File is one open of the port's umad device. It owns its agents, unread MADs
// and pending requests.
type File struct {
	// OnReady is called when a read would no longer block: a packet was queued or
	// the device was removed.
	OnReady func()

	port    *Port
	agents  [umadabi.MaxAgents]*agent
	used    bool // an agent was registered: the header's form is settled
	pkeyHdr bool // 64-byte header
	dead    bool // the device was removed
	sends   map[sendKey]*send
	recv    []*received // from head on
	head    int
	nrecv   int // received MADs in recv, completions apart
}

// received is a MAD or a completion waiting to be read.
type received struct {
	hdr  umadabi.Header
	data []byte
	// first is the minimum size of a read's buffer: the whole message, or the
	// first segment of a reassembled one.
	first int
}

// Open opens the umad device.
func (p *Port) Open() (*File, syscall.Errno) {
	if p.removed {
		return nil, syscall.ENXIO
	}
	f := &File{port: p, sends: map[sendKey]*send{}}
	p.files[f] = struct{}{}
	return f, 0
}

// Close releases the file and all it holds.
func (f *File) Close() {
	outer := f.port.enter()
	f.OnReady = nil
	f.dropAgents()
	for _, r := range f.recv[f.head:] {
		f.port.held -= len(r.data)
	}
	f.recv, f.head, f.nrecv = nil, 0, 0
	delete(f.port.files, f)
	f.port.leave(outer)
}

func (f *File) dropAgents() {
	for i, a := range f.agents {
		if a != nil {
			f.agents[i] = nil
			f.port.unregister(a)
		}
	}
	f.dropSends(nil)
}

// HeaderLen is the length of the header that precedes each MAD.
func (f *File) HeaderLen() int {
	if f.pkeyHdr {
		return umadabi.HeaderLen
	}
	return umadabi.OldHeaderLen
}

// Ioctl runs one ioctl with its argument in arg, which it changes as the kernel
// changes the caller's structure, also when it fails. The request code gives
// its length.
func (f *File) Ioctl(code uint32, arg []byte) syscall.Errno {
	if want, ok := ioctlSizes[code]; !ok {
		return syscall.ENOTTY
	} else if len(arg) < want {
		return syscall.EFAULT
	}
	outer := f.port.enter()
	defer f.port.leave(outer)
	switch code {
	case umadabi.RegisterAgent, umadabi.RegisterAgent2:
		return f.registerAgent(arg, code == umadabi.RegisterAgent2)
	case umadabi.UnregisterAgent:
		id := binary.LittleEndian.Uint32(arg)
		if id >= umadabi.MaxAgents || f.agents[id] == nil {
			return syscall.EINVAL
		}
		a := f.agents[id]
		f.agents[id] = nil
		f.port.unregister(a)
		return 0
	default: // EnablePKey
		if f.used {
			return syscall.EINVAL
		}
		f.pkeyHdr = true
		return 0
	}
}

var ioctlSizes = map[uint32]int{
	umadabi.RegisterAgent: umadabi.AgentLen, umadabi.RegisterAgent2: umadabi.Agent2Len,
	umadabi.UnregisterAgent: 4, umadabi.EnablePKey: 0,
}

func (f *File) registerAgent(arg []byte, second bool) syscall.Errno {
	if f.dead {
		return syscall.EPIPE
	}
	var reg umadabi.Agent
	if second {
		reg.Decode2(arg)
	} else {
		reg.Decode(arg)
	}
	if reg.QPN > 1 {
		return syscall.EINVAL
	}
	if reg.Flags&^umadabi.FlagUserRMPP != 0 {
		reg.Flags = umadabi.FlagUserRMPP // what is supported
		binary.LittleEndian.PutUint32(arg[12:], reg.Flags)
		return syscall.EINVAL
	}
	id := slices.Index(f.agents[:], nil)
	if id < 0 {
		return syscall.ENOMEM
	}
	if second && reg.Class != 0 && reg.OUI&0xFF000000 != 0 {
		return syscall.EINVAL
	}
	a, e := f.port.register(f, reg)
	if e != 0 {
		return e
	}
	a.id = uint32(id)
	f.agents[id] = a
	if !f.used {
		f.used = true
		f.pkeyHdr = f.pkeyHdr || second
	}
	binary.LittleEndian.PutUint32(arg, a.id)
	return 0
}

// Readable reports whether a read would not block.
func (f *File) Readable() bool { return f.dead || f.head < len(f.recv) }

// Dead reports whether the device was removed while the file was open.
func (f *File) Dead() bool { return f.dead }

// Read takes the next packet for a buffer of size bytes. With no error, msg is
// header and data and belongs to the caller. With ENOSPC, msg is what the
// kernel leaves in the buffer, header and first segment, and the packet stays
// at the head of the queue. EAGAIN: the queue is empty.
func (f *File) Read(size int) (msg []byte, e syscall.Errno) {
	h := f.HeaderLen()
	if size < h {
		return nil, syscall.EINVAL
	}
	if f.dead {
		return nil, syscall.EIO
	}
	if f.head == len(f.recv) {
		return nil, syscall.EAGAIN
	}
	r := f.recv[f.head]
	if size < h+r.first {
		return nil, syscall.EINVAL
	}
	if size < h+len(r.data) {
		msg = make([]byte, h+r.first)
		r.hdr.Put(msg, h)
		copy(msg[h:], r.data)
		return msg, syscall.ENOSPC
	}
	f.recv[f.head] = nil
	f.head++
	if f.head == len(f.recv) {
		f.recv, f.head = f.recv[:0], 0
	} else if f.head >= 1024 && f.head*2 >= len(f.recv) {
		f.recv = slices.Delete(f.recv, 0, f.head)
		f.head = 0
	}
	f.port.held -= len(r.data)
	if r.hdr.Status == 0 {
		f.nrecv--
	}
	msg = make([]byte, h+len(r.data))
	r.hdr.Put(msg, h)
	copy(msg[h:], r.data)
	return msg, 0
}

// NextLen is the length of the next packet with its header, 0 if none.
func (f *File) NextLen() int {
	if f.dead || f.head == len(f.recv) {
		return 0
	}
	return f.HeaderLen() + len(f.recv[f.head].data)
}

func (f *File) ready() {
	if f.OnReady != nil {
		f.OnReady()
	}
}

// queue puts a received MAD, or a reassembled message, where its file reads
// it. Above the limits it is lost, as on a real host.
func (a *agent) queue(pk *mad.Packet, m []byte, message bool) {
	f := a.file
	if f.nrecv >= maxQueued || f.port.held+len(m) > maxHeld {
		f.port.dropped++
		return
	}
	r := &received{hdr: umadabi.Header{
		ID: a.id, Length: uint32(f.HeaderLen() + len(m)),
		QPN: pk.Addr.QP, LID: uint16(pk.Addr.LID), SL: uint8(pk.Addr.SL), PathBits: pk.Addr.PathBits,
		PKeyIndex: pk.Addr.PKeyIndex,
	}}
	if pk.Addr.HasGRH {
		g := &pk.Addr.GRH
		r.hdr.GRHPresent, r.hdr.GIDIndex, r.hdr.HopLimit = true, g.GIDIndex, g.HopLimit
		r.hdr.TrafficClass, r.hdr.GID, r.hdr.FlowLabel = g.TrafficClass, g.GID, g.FlowLabel
	}
	r.first = min(len(m), 256)
	if message {
		r.data = m // made for us
	} else {
		r.data = slices.Clone(m[:r.first])
	}
	f.nrecv++
	f.put(r)
}

// complete queues the completion of a request that was not answered.
func (f *File) complete(s *send) {
	r := &received{hdr: s.hdr, data: slices.Clone(s.packet.Data[:umadabi.MADHeaderLen]), first: umadabi.MADHeaderLen}
	r.hdr.Status = umadabi.StatusTimedOut
	f.put(r)
}

func (f *File) put(r *received) {
	f.recv = append(f.recv, r)
	f.port.held += len(r.data)
	f.ready()
}
