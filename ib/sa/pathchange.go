package sa

import "heddle/ib"

// PathChangeRecordLen is the size of PathChangeRecord in bytes.
const PathChangeRecordLen = 80

// Component bits of PathChangeRecord. A query with any other bit is invalid.
const (
	PathChangeCompGeneration CompMask = 1 << 0 // the generation that the requester has
	PathChangeCompSGID       CompMask = 1 << 3 // the port whose paths are asked for; default: the requester's
)

// PathChangeRecord answers the question which paths of a port changed since a generation. It is
// this module's own attribute; unmodified clients neither ask for it nor see it
// (docs/signalling.md). The first record of an answer is the head: it has the generation that
// the answer brings the requester to, and no path. Each further record has one changed path.
type PathChangeRecord struct {
	// Generation of the path state. In a query: the newest that the requester has, 0 if none. In
	// the head: the newest of all. In other records: that of the last change of the path. The
	// upper 32 bits name the history, which no other manager continues without its store; the
	// lower 32 bits count.
	Generation uint64
	Head       bool // the first record of an answer
	// All is set in the head only: any path of the port may have changed, and no records follow.
	All bool
	// Lost: the path does not exist any more. Path has its ends.
	Lost bool
	// Path is the path as a query for SGID, DGID and DLID is answered now. If only its ends are
	// set, it has to be queried.
	Path PathRecord
}

const (
	pathChangeHead = 0x80
	pathChangeAll  = 0x40
	pathChangeLost = 0x20
)

// Decode reads the record.
func (r *PathChangeRecord) Decode(b []byte) error {
	b, err := rec("PathChangeRecord", b, PathChangeRecordLen, PathChangeRecordLen)
	if err != nil {
		return err
	}
	r.Generation = be.Uint64(b)
	r.Head, r.All, r.Lost = bit(b[8], pathChangeHead), bit(b[8], pathChangeAll), bit(b[8], pathChangeLost)
	return r.Path.Decode(b[16:])
}

// Put writes the 80 bytes.
func (r *PathChangeRecord) Put(b []byte) {
	b = b[:PathChangeRecordLen]
	be.PutUint64(b, r.Generation)
	clear(b[8:16])
	b[8] = flag(r.Head, pathChangeHead) | flag(r.All, pathChangeAll) | flag(r.Lost, pathChangeLost)
	r.Path.Put(b[16:])
}

// PathNotice is what follows the 80 bytes of the Notice in a Report of trap 68 or 69: the
// PathRecord (IBA §13.4.8.2, with the component mask in smp.DetailPath), and, in bytes that the
// IBA leaves unused, this module's generations. Managers without them send zeros there.
type PathNotice struct {
	Path PathRecord
	// Generation is the newest one; the Report alone brings its receiver there if it has Before.
	Generation uint64
	// Before is the generation up to which the receiver acknowledged Reports. A receiver that
	// has an earlier one, or More set, asks for the changes since its own.
	Before uint64
	// More: further Reports follow before the receiver has Generation.
	More bool
}

// PathNoticeLen is the size of PathNotice in bytes.
const PathNoticeLen = PathRecordLen + 24

// Decode reads what follows a Notice, of PathNoticeLen bytes or more.
func (r *PathNotice) Decode(b []byte) error {
	if len(b) < PathNoticeLen {
		return ib.CheckLen("PathNotice", b, PathNoticeLen)
	}
	r.Generation, r.Before, r.More = be.Uint64(b[64:]), be.Uint64(b[72:]), bit(b[80], 0x80)
	return r.Path.Decode(b[:PathRecordLen])
}

// Put writes the PathNoticeLen bytes.
func (r *PathNotice) Put(b []byte) {
	b = b[:PathNoticeLen]
	r.Path.Put(b)
	be.PutUint64(b[64:], r.Generation)
	be.PutUint64(b[72:], r.Before)
	clear(b[80:])
	b[80] = flag(r.More, 0x80)
}
