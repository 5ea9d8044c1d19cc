package ring

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
)

// mark is what a ring says of its numbers apart from its records. It is written in place, because a
// full disk has room for that.
type mark struct {
	// ID is of this ring alone, in 16 hexadecimal digits.
	ID string
	// base is the next number when the mark was written, and next one that was not used before the
	// mark is written again.
	base, next uint64
	// boot is the system start in which records reach their file although they are not synced; zero: all
	// that was numbered is in files, or it is not known.
	boot [16]byte
}

const (
	markSuffix = ".mark"
	markLen    = 8 + 8 + 8 + 16 + 4
	markMagic  = "hdlring1"
)

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func (m *mark) encode() []byte {
	b := []byte(markMagic)
	id, err := hex.DecodeString(m.ID)
	if err != nil || len(id) != 8 {
		id = make([]byte, 8)
	}
	b = append(b, id...)
	b = binary.BigEndian.AppendUint64(b, m.base)
	b = binary.BigEndian.AppendUint64(b, m.next)
	b = append(b, m.boot[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeMark reads a mark; ok is false if it is damaged.
func decodeMark(b []byte) (m mark, ok bool) {
	if len(b) != len(markMagic)+markLen || string(b[:8]) != markMagic {
		return m, false
	}
	end := len(b) - 4
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return m, false
	}
	m.ID = hex.EncodeToString(b[8:16])
	m.base, m.next = binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])
	copy(m.boot[:], b[32:48])
	return m, true
}

// bootID is the start of this system; zero: not known.
var bootID = func() (id [16]byte) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(b)), "-", ""))
	if err == nil && len(raw) == len(id) {
		copy(id[:], raw)
	}
	return id
}

func (r *Ring) markPath() string { return filepath.Join(r.dir, r.name+markSuffix) }

// restore moves next behind all numbers that were used, by the mark, and writes a new one.
func (r *Ring) restore() {
	if r.limits.Reserve == 0 {
		return
	}
	b, err := os.ReadFile(r.markPath())
	m, ok := decodeMark(b)
	switch boot := bootID(); {
	case ok && m.boot != [16]byte{} && m.boot == boot && r.next >= m.base:
		// The kernel has all that was written, whatever became of the process.
	case ok:
		r.next = max(r.next, m.next)
	case os.IsNotExist(err) && len(r.list) == 0: // a new ring
		m.ID = newID()
	default:
		r.next += r.limits.Reserve
		m.ID = newID()
	}
	r.mark.ID = m.ID
	if !r.setMark(mark{ID: m.ID, base: r.next, next: r.next + r.limits.Reserve, boot: bootID()}) && ok {
		r.next = max(r.next, m.next) // what is on the disk may be older than what was numbered
	}
}

// reserve writes the mark again if the numbers that it reserves are used up. The holder of mu calls it.
func (r *Ring) reserve() {
	if r.limits.Reserve > 0 && r.next+r.limits.Reserve/2 > r.mark.next {
		r.setMark(mark{ID: r.mark.ID, base: r.next, next: r.next + r.limits.Reserve, boot: r.mark.boot})
	}
}

// doubt says in the mark that numbers were given to records that are in no file. The holder of mu
// calls it.
func (r *Ring) doubt() {
	if r.limits.Reserve > 0 && r.mark.boot != [16]byte{} {
		r.setMark(mark{ID: r.mark.ID, base: r.next, next: r.next + r.limits.Reserve})
	}
}

// settle says in the mark which number is the next. The holder of mu calls it.
func (r *Ring) settle() {
	if r.limits.Reserve > 0 && r.dir != "" {
		r.setMark(mark{ID: r.mark.ID, base: r.next, next: r.next})
	}
}

// setMark writes a mark, and reports whether it is on the disk. If not it is tried again with the next
// records, and the numbers go on.
func (r *Ring) setMark(m mark) bool {
	f, err := os.OpenFile(r.markPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	_, err = f.WriteAt(m.encode(), 0)
	if err == nil {
		err = f.Sync()
	}
	if f.Close() != nil || err != nil {
		return false
	}
	r.mark = m
	return true
}

// ID distinguishes the numbers of this ring from those of others, in 16 hexadecimal digits. Rings in
// memory and rings without Limits.Reserve have another one at each start.
func (r *Ring) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mark.ID == "" {
		r.mark.ID = newID()
	}
	return r.mark.ID
}
