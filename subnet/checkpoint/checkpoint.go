// Package checkpoint keeps what a manager published last while it is restarted, so that the next one
// can answer queries before it has read the subnet (docs/upgrade.md).
//
//	w, err := checkpoint.Begin(dir, snapshot) // while the manager still answers
//	err = w.Commit(last, mark)                // when it has stopped
//
//	f, err := checkpoint.Read(dir)            // at the next start; nil: there is none
//	err = checkpoint.Remove(dir)              // before anything is done with it
//	err = f.Fits(want, now)
//
// A checkpoint is valid for one start. It names the last entry of the store's journal, and a manager
// writes an entry when it starts: so one that is left behind by a crash fits no later start. It is
// written in a manager that is stopped, and never by one that dies.
//
// docs/format/checkpoint.md has the bytes. Decode trusts none of them: it decodes a file as a whole or
// not at all, and takes memory in proportion to it.
package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"heddle/ib"
	"heddle/store/journal"
	"heddle/subnet"
	"heddle/subnet/mirror"
)

const (
	// magic begins a file; its last byte is the version of the format.
	magic = "HCP\x01"
	// headerLen is the length of a header: magic, mark, port GUID, prefix, LMC, time, the lengths of
	// two messages, and the checksum.
	headerLen = len(magic) + 24 + 8 + 8 + 1 + 8 + 8 + 8 + 4
	// maxFile is the most bytes of a file, that of one message. At 11,664 hosts it has 30 MB.
	maxFile = mirror.MaxMessage
	// MaxAge is how long a checkpoint counts. It is as long as what a dead master published counts for
	// its standby.
	MaxAge = time.Minute
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Identity says whose state a checkpoint is, and of which moment.
type Identity struct {
	// Last is the last entry of the store's journal.
	Last   journal.Mark
	Port   ib.GUID // of the manager
	Prefix ib.SubnetPrefix
	LMC    uint8
}

// File is a checkpoint that was read.
type File struct {
	Identity
	Written  time.Time
	Snapshot *subnet.Snapshot // of a master whose subnet was up
}

// Fits returns nil if the state may be used by a manager that wants this one at a moment, and otherwise
// why not.
func (f *File) Fits(want Identity, now time.Time) error {
	age := now.Sub(f.Written)
	switch {
	case f.Port != want.Port:
		return fmt.Errorf("it is of the manager on port %v, and this is port %v", f.Port, want.Port)
	case f.Prefix != want.Prefix:
		return fmt.Errorf("it has subnet prefix %v, and the setting is %v", f.Prefix, want.Prefix)
	case f.LMC != want.LMC:
		return fmt.Errorf("it has LMC %d, and the setting is %d", f.LMC, want.LMC)
	case f.Last != want.Last:
		return fmt.Errorf("it is as of %v, and the store as of %v", f.Last, want.Last)
	case age < 0:
		return fmt.Errorf("the clock is %v before the time at which it was written", -age)
	case age > MaxAge:
		return fmt.Errorf("it is %v old, and counts for %v", age.Round(time.Second), MaxAge)
	}
	return nil
}

// header returns the first bytes of a file with messages of these lengths.
func header(id Identity, written time.Time, first, second int) []byte {
	b := make([]byte, 0, headerLen)
	b = append(b, magic...)
	b = journal.AppendMark(b, id.Last)
	b = binary.BigEndian.AppendUint64(b, uint64(id.Port))
	b = binary.BigEndian.AppendUint64(b, uint64(id.Prefix))
	b = append(b, id.LMC)
	b = binary.BigEndian.AppendUint64(b, uint64(written.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, uint64(first))
	b = binary.BigEndian.AppendUint64(b, uint64(second))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Decode reads the bytes of a file. The error says what is wrong with them. Snapshots share no memory
// with b.
func Decode(b []byte) (*File, error) {
	switch {
	case len(b) > maxFile:
		return nil, fmt.Errorf("it has %d bytes, and %d at most are read", len(b), maxFile)
	case len(b) < headerLen || !bytes.Equal(b[:3], []byte(magic[:3])):
		return nil, errors.New("it is no checkpoint, or cut off")
	case b[3] != magic[3]:
		return nil, fmt.Errorf("it has version %d, and this program knows version %d", b[3], magic[3])
	case crc32.Checksum(b[:headerLen-4], castagnoli) != binary.BigEndian.Uint32(b[headerLen-4:]):
		return nil, errors.New("its header is damaged")
	}
	r := journal.Reader{B: b[len(magic):headerLen]}
	f := &File{}
	f.Last = r.Mark()
	f.Port, f.Prefix, f.LMC = ib.GUID(r.Uint64()), ib.SubnetPrefix(r.Uint64()), r.Uint8()
	f.Written = time.Unix(0, int64(r.Uint64()))
	first, second := r.Uint64(), r.Uint64()
	rest := uint64(len(b) - headerLen)
	if first > rest || second != rest-first {
		return nil, fmt.Errorf("it has %d bytes after its header, which says %d and %d", rest, first, second)
	}
	var m mirror.Mirror
	err := m.Apply(b[headerLen : headerLen+int(first)])
	if err == nil && second > 0 {
		err = m.Apply(b[headerLen+int(first):])
	}
	if err != nil {
		return nil, err
	}
	s := m.Snapshot()
	if s.State != subnet.Master || !s.Up || s.Tables == nil || s.PortGUID != f.Port || s.Prefix != f.Prefix {
		return nil, errors.New("it does not show a subnet that this manager had brought up")
	}
	f.Snapshot = s
	return f, nil
}
