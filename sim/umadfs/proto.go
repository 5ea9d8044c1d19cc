package umadfs

import (
	"encoding/binary"
	"syscall"
)

// The part of the FUSE protocol that a device directory needs (Linux
// include/uapi/linux/fuse.h, 7.31). All numbers are little-endian.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opSetattr     = 4
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opStatfs      = 17
	opRelease     = 18
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opInterrupt   = 36
	opDestroy     = 38
	opIoctl       = 39
	opPoll        = 40
	opBatchForget = 42

	protoMajor = 7
	protoMinor = 31

	initAsyncRead = 1
	initBigWrites = 1 << 5
	initMaxPages  = 1 << 22

	openDirectIO       = 1
	openNonSeekable    = 4
	openStream         = 16
	openNoFlush        = 32
	openParallelWrites = 64
	openDevice         = openDirectIO | openNonSeekable | openStream | openNoFlush | openParallelWrites

	notifyPoll         = 1
	pollScheduleNotify = 1

	inHeaderLen  = 40
	outHeaderLen = 16
	maxWrite     = 1 << 20
	maxPages     = 256
	// bufferLen holds the largest request.
	bufferLen = maxWrite + 8<<10
	// splitFrom is the size above which a read or write may be the first part
	// of a larger system call; kernels with a smaller page limit than ours
	// split at 128 KiB.
	splitFrom = 120 << 10
)

// poll(2) event bits.
const (
	pollIn  = 0x001 | 0x040 // POLLIN, POLLRDNORM
	pollOut = 0x004 | 0x100 // POLLOUT, POLLWRNORM
	pollErr = 0x008
)

var le = binary.LittleEndian

// request is one message from the kernel. body is valid until the next read.
type request struct {
	opcode uint32
	unique uint64
	nodeid uint64
	uid    uint32
	gid    uint32 // its first group; the kernel does not tell others
	tid    uint32 // calling thread in the mounter's PID namespace
	body   []byte
}

// parseRequest checks the header against the length read.
func parseRequest(b []byte) (r request, ok bool) {
	if len(b) < inHeaderLen || int(le.Uint32(b)) != len(b) {
		return r, false
	}
	return request{
		opcode: le.Uint32(b[4:]), unique: le.Uint64(b[8:]), nodeid: le.Uint64(b[16:]),
		uid: le.Uint32(b[24:]), gid: le.Uint32(b[28:]), tid: le.Uint32(b[32:]), body: b[inHeaderLen:],
	}, true
}

// bodyLens is the minimum length of a request's body.
var bodyLens = map[uint32]int{
	opLookup: 1, opSetattr: 88, opOpen: 8, opOpendir: 8, opRead: 40, opReaddir: 40, opWrite: 40,
	opRelease: 24, opReleasedir: 24, opInit: 16, opInterrupt: 8, opIoctl: 32, opPoll: 24,
}

// appendReply appends a reply's header; the length is set by finish.
func appendReply(b []byte, unique uint64, e syscall.Errno) []byte {
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(-int32(e)))
	return le.AppendUint64(b, unique)
}

func finish(b []byte) []byte {
	le.PutUint32(b, uint32(len(b)))
	return b
}

// attr holds the file attributes that stat returns.
type attr struct {
	ino, size uint64
	mode      uint32
	nlink     uint32
	uid, gid  uint32
}

func (a *attr) append(b []byte) []byte {
	b = le.AppendUint64(b, a.ino)
	b = le.AppendUint64(b, a.size)
	b = le.AppendUint64(b, (a.size+511)/512)
	b = append(b, make([]byte, 3*8+3*4)...) // times: the epoch
	b = le.AppendUint32(b, a.mode)
	b = le.AppendUint32(b, a.nlink)
	b = le.AppendUint32(b, a.uid)
	b = le.AppendUint32(b, a.gid)
	b = le.AppendUint32(b, 0) // rdev
	b = le.AppendUint32(b, 4096)
	return append(b, 0, 0, 0, 0)
}

// What a setattr request changes.
const (
	setMode = 1
	setUID  = 2
	setGID  = 4
)

// setPermissions has a setattr request change mode, owner and group.
func (n *node) setPermissions(body []byte) {
	valid := le.Uint32(body)
	if valid&setMode != 0 {
		n.mode = n.mode&^0o777 | le.Uint32(body[68:])&0o777
	}
	if valid&setUID != 0 {
		n.uid = le.Uint32(body[76:])
	}
	if valid&setGID != 0 {
		n.gid = le.Uint32(body[80:])
	}
}

// permits reports whether whoever sent an open request may open the file, as for any file of its
// mode, owner and group.
func (n *node) permits(r *request) bool {
	want := [4]uint32{4, 2, 6, 6}[le.Uint32(r.body)&3] // O_RDONLY, O_WRONLY, O_RDWR
	have := n.mode
	switch {
	case r.uid == 0:
		return true
	case r.uid == n.uid:
		have >>= 6
	case r.gid == n.gid:
		have >>= 3
	}
	return have&want == want
}

// appendDirent appends a directory entry, or reports that it does not fit.
func appendDirent(b []byte, limit int, ino, next uint64, typ uint32, name string) ([]byte, bool) {
	n := (24 + len(name) + 7) &^ 7
	if len(b)+n > limit {
		return b, false
	}
	end := len(b) + n
	b = le.AppendUint64(b, ino)
	b = le.AppendUint64(b, next)
	b = le.AppendUint32(b, uint32(len(name)))
	b = le.AppendUint32(b, typ)
	b = append(b, name...)
	for len(b) < end {
		b = append(b, 0)
	}
	return b, true
}
