// Package ring keeps numbered records in files, the newest ones within a size: the audit log, and
// whatever else is written all the time and need not be replicated.
//
// Numbers ascend and never start anew, not even after a crash or damage; a gap means that records were
// lost. A record is durable when Sync has returned. A ring whose records are read before that reserves
// numbers (Limits.Reserve), so that none is used twice if the power fails. The bytes are described in
// docs/format/ring.md.
//
// A ring of a directory belongs to one process. All methods may be called concurrently.
package ring

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Record is one record.
type Record struct {
	Number uint64 // 1 for the first
	Time   time.Time
	Data   []byte
}

// Sizes in bytes.
const (
	// MaxData is the longest Record.Data.
	MaxData = 1 << 20
	// LeastBytes is the smallest size of a ring.
	LeastBytes = 64 << 10

	headerLen = 24 // length, CRC-32C of what follows, number, nanoseconds since 1970
	segments  = 8  // full files that a ring has; the oldest is deleted as a whole
	mostFiles = 64 // full or not
)

const suffix = ".ring"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Limits say what a ring keeps. The oldest file goes as a whole, so it may keep an eighth more.
type Limits struct {
	// Bytes of records that are kept at most, about; at least LeastBytes.
	Bytes int64
	// Records: older ones than the newest so many go; 0: Bytes alone count.
	Records uint64
	// Age: records go when they are older; 0: at no age.
	Age time.Duration
	// Reserve is how many numbers are reserved at a time; 0: none, for rings whose records nobody reads
	// before Sync.
	Reserve uint64
}

// Ring is a ring of records.
type Ring struct {
	dir, name string
	size      int64 // of a file, about
	limits    Limits
	mark      mark // guarded by mu

	mu   sync.Mutex
	list []segment // oldest first; the last one is written; guarded by mu
	file *os.File  // of the last segment; nil: the next record makes a new one; guarded by mu
	next uint64    // number of the next record; guarded by mu
	more chan struct{}

	syncing sync.Mutex // held by one Sync at a time; taken before mu
	synced  uint64     // up to which records are durable; guarded by syncing

	// Without a directory records are kept in memory.
	memory []Record
	bytes  int64
}

// segment is a file of records, whose name has the number of the first.
type segment struct {
	first       uint64
	bytes       int64     // of whole records
	count       uint64    // of whole records
	began, last time.Time // of its first and its last record
}

// Open opens the ring called name in a directory, which is made if need be, and keeps about the newest
// bytes of records; at least LeastBytes. An empty dir is a ring in memory, for tests and for managers
// without a state directory.
func Open(dir, name string, bytes int64) (*Ring, error) {
	return OpenLimits(dir, name, Limits{Bytes: bytes})
}

// OpenLimits is Open with more to say.
func OpenLimits(dir, name string, l Limits) (*Ring, error) {
	r := &Ring{dir: dir, name: name, size: max(l.Bytes, LeastBytes) / segments, limits: l, next: 1, more: make(chan struct{})}
	if dir == "" {
		r.mark.ID = newID()
		return r, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, name+".*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	for _, n := range names {
		digits := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(n), name+"."), suffix)
		if first, err := strconv.ParseUint(digits, 10, 64); err == nil && first > 0 && len(digits) == 20 {
			r.list = append(r.list, segment{first: first})
		}
	}
	slices.SortFunc(r.list, func(a, b segment) int { return cmp.Compare(a.first, b.first) })
	whole := false
	for i := range r.list {
		if whole, err = r.measure(&r.list[i]); err != nil {
			return nil, fmt.Errorf("ring: %w", err)
		}
	}
	was := r.next
	r.restore()
	// Numbers of a file follow each other.
	if n := len(r.list); whole && r.next == was && r.list[n-1].bytes < r.size {
		if r.file, err = os.OpenFile(r.path(r.list[n-1].first), os.O_RDWR, 0o600); err != nil {
			return nil, fmt.Errorf("ring: %w", err)
		}
	}
	return r, nil
}

// measure reads the records of a file, and moves next behind everything that may have been in it. It
// reports whether the file has nothing but records.
func (r *Ring) measure(s *segment) (whole bool, err error) {
	b, err := os.ReadFile(r.path(s.first))
	if err != nil {
		return false, err
	}
	last := s.first - 1
	for {
		rec, n, err := decode(b[s.bytes:])
		if err != nil || rec.Number != last+1 {
			break
		}
		s.add(&rec, n)
		last = rec.Number
	}
	// What follows was torn by a crash, or is damaged. It stays as it is; records that may have been
	// in it keep their numbers.
	rest := int64(len(b)) - s.bytes
	r.next = max(r.next, last+1+uint64((rest+headerLen-1)/headerLen))
	return rest == 0, nil
}

// add counts a record of so many bytes.
func (s *segment) add(rec *Record, bytes int) {
	if s.count == 0 {
		s.began = rec.Time
	}
	s.bytes += int64(bytes)
	s.count++
	s.last = rec.Time
}

func (r *Ring) path(first uint64) string {
	return filepath.Join(r.dir, fmt.Sprintf("%s.%020d%s", r.name, first, suffix))
}

// encode appends the encoding of a record.
func encode(b []byte, rec *Record) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(rec.Data)))
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, rec.Number)
	b = binary.BigEndian.AppendUint64(b, uint64(rec.Time.UnixNano()))
	b = append(b, rec.Data...)
	sum := crc32.Update(crc32.Checksum(b[at:at+4], castagnoli), castagnoli, b[at+8:])
	binary.BigEndian.PutUint32(b[at+4:], sum)
	return b
}

var errDamaged = errors.New("ring: the record is cut off or damaged")

// decode reads the record at the beginning of b, whose bytes it shares, and its length.
func decode(b []byte) (rec Record, n int, err error) {
	if len(b) < headerLen {
		return Record{}, 0, errDamaged
	}
	length := binary.BigEndian.Uint32(b)
	if length > MaxData || int(length) > len(b)-headerLen {
		return Record{}, 0, errDamaged
	}
	n = headerLen + int(length)
	sum := crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:n])
	rec = Record{
		Number: binary.BigEndian.Uint64(b[8:]), Time: time.Unix(0, int64(binary.BigEndian.Uint64(b[16:]))),
		Data: b[headerLen:n:n],
	}
	if sum != binary.BigEndian.Uint32(b[4:]) || rec.Number == 0 {
		return Record{}, 0, errDamaged
	}
	return rec, n, nil
}

// Append writes a record and returns its number. It is durable after the next Sync; a process that is
// killed does not lose it. After an error the record is not in the ring, and its number is not used
// again.
func (r *Ring) Append(at time.Time, data []byte) (uint64, error) {
	return r.AppendAll([]Record{{Time: at, Data: data}})
}

// AppendAll writes records, whose numbers it sets, in one go. It returns the number of the first. After
// an error none of them is in the ring, and their numbers are not used again; they are set unless
// a record is too long.
func (r *Ring) AppendAll(list []Record) (first uint64, err error) {
	for i := range list {
		if len(list[i].Data) > MaxData {
			return 0, fmt.Errorf("ring: a record of %d bytes is longer than %d", len(list[i].Data), MaxData)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.next
	for i := range list {
		list[i].Number = first + uint64(i)
	}
	r.next += uint64(len(list))
	if len(list) == 0 {
		return first, nil
	}
	if r.dir == "" {
		for i := range list {
			rec := list[i]
			rec.Data = slices.Clone(rec.Data)
			r.keep(rec)
		}
	} else {
		r.reserve()
		if err := r.write(list); err != nil {
			r.doubt()
			return first, err
		}
	}
	close(r.more)
	r.more = make(chan struct{})
	return first, nil
}

// OnDisk reports whether the ring has a directory.
func (r *Ring) OnDisk() bool { return r.dir != "" }

// Next is the number that the next record will have.
func (r *Ring) Next() uint64 { return r.Last() + 1 }

// keep adds a record in memory. The holder of mu calls it.
func (r *Ring) keep(rec Record) {
	r.memory = append(r.memory, rec)
	r.bytes += int64(headerLen + len(rec.Data))
	drop := 0
	for ; drop < len(r.memory)-1 && (r.bytes > r.size*segments || r.limits.Records > 0 && uint64(len(r.memory)-drop) > r.limits.Records); drop++ {
		r.bytes -= int64(headerLen + len(r.memory[drop].Data))
	}
	r.memory = r.memory[drop:] // readers may have the old slice
}

// write adds records to the last file, or to a new one. The holder of mu calls it.
func (r *Ring) write(list []Record) error {
	if r.file == nil || r.full(&r.list[len(r.list)-1], list[0].Time) {
		if err := r.begin(list[0].Number, list[0].Time); err != nil {
			return err
		}
	}
	last := &r.list[len(r.list)-1]
	var b []byte
	for i := range list {
		b = encode(b, &list[i])
	}
	if _, err := r.file.WriteAt(b, last.bytes); err != nil {
		r.abandon()
		return fmt.Errorf("ring: %w", err)
	}
	for i := range list {
		last.add(&list[i], headerLen+len(list[i].Data))
	}
	return nil
}

// full reports whether the next record begins a new file.
func (r *Ring) full(s *segment, now time.Time) bool {
	l := &r.limits
	return s.bytes >= r.size || l.Records > 0 && s.count >= max(l.Records/segments, 1) || l.Age > 0 && s.count > 0 && now.Sub(s.began) > l.Age/segments
}

// begin makes a new file, and deletes the oldest ones. The holder of mu calls it.
func (r *Ring) begin(number uint64, now time.Time) error {
	if r.file != nil {
		err := errors.Join(r.file.Sync(), r.file.Close())
		if r.file = nil; err != nil {
			return fmt.Errorf("ring: %w", err)
		}
	}
	f, err := os.OpenFile(r.path(number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	if err := syncDir(r.dir); err != nil {
		return errors.Join(fmt.Errorf("ring: %w", err), f.Close())
	}
	r.file = f
	r.list = append(r.list, segment{first: number})
	r.prune(now)
	return nil
}

// prune deletes the oldest files while there is more than the limits permit. The holder of mu calls it.
func (r *Ring) prune(now time.Time) {
	l := &r.limits
	bytes, count := int64(0), uint64(0)
	for _, s := range r.list {
		bytes += s.bytes
		count += s.count
	}
	for len(r.list) > 1 {
		s := &r.list[0]
		// A ring of records keeps more files than one of bytes: files that were begun early, by age or
		// after errors, are small.
		many := len(r.list) > mostFiles
		old := l.Age > 0 && s.count > 0 && now.Sub(s.last) > l.Age
		if !many && !old && bytes <= (segments-1)*r.size && (l.Records == 0 || count-s.count < l.Records) {
			return
		}
		if err := os.Remove(r.path(s.first)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return // it is tried again with the next file
		}
		bytes -= s.bytes
		count -= s.count
		r.list = r.list[1:]
	}
}

// abandon leaves a file whose contents are in doubt after an error; the next record begins a new one.
// The holder of mu calls it.
func (r *Ring) abandon() {
	_ = r.file.Close() // the error that led here is the one to report
	r.file = nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Sync makes all records durable that Append returned before. Those who wait for one Sync share the
// next.
func (r *Ring) Sync() error {
	r.mu.Lock()
	want := r.next - 1
	r.mu.Unlock()
	r.syncing.Lock()
	defer r.syncing.Unlock()
	if r.synced >= want {
		return nil
	}
	r.mu.Lock()
	f, last := r.file, r.next-1
	r.mu.Unlock()
	if f != nil {
		if err := f.Sync(); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.file == f {
				// The kernel may have dropped the pages: what was written since the last sync is in doubt.
				r.abandon()
				return fmt.Errorf("ring: %w", err)
			} // else it is full: it was synced when the next file began
		}
	}
	r.synced = last
	return nil
}

// Last is the highest number that may have been used; 0: none.
func (r *Ring) Last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next - 1
}

// More returns a channel that is closed at the next record.
func (r *Ring) More() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.more
}

// Read calls f with the records after a number that are kept, oldest first, until f returns false.
// Damaged records are left out. An error is that of a file that cannot be read.
func (r *Ring) Read(after uint64, f func(Record) bool) error {
	r.mu.Lock()
	list, memory := slices.Clone(r.list), r.memory
	r.mu.Unlock()
	for _, rec := range memory {
		if rec.Number > after && !f(rec) {
			return nil
		}
	}
	for i, s := range list {
		if i+1 < len(list) && list[i+1].first <= after+1 {
			continue
		}
		b, err := readFirst(r.path(s.first), s.bytes)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("ring: %w", err)
		}
		for len(b) > 0 {
			rec, n, err := decode(b)
			if err != nil {
				break
			}
			if rec.Number > after && !f(rec) {
				return nil
			}
			b = b[n:]
		}
	}
	return nil
}

// ReadBack is Read from the newest record to the oldest, of those before a number; 0: of all.
func (r *Ring) ReadBack(before uint64, f func(Record) bool) error {
	r.mu.Lock()
	list, memory := slices.Clone(r.list), r.memory
	r.mu.Unlock()
	if before == 0 {
		before = ^uint64(0)
	}
	for _, rec := range slices.Backward(memory) {
		if rec.Number < before && !f(rec) {
			return nil
		}
	}
	for _, s := range slices.Backward(list) {
		if s.first >= before {
			continue
		}
		b, err := readFirst(r.path(s.first), s.bytes)
		if errors.Is(err, os.ErrNotExist) {
			return nil // deleted meanwhile, as are all before it
		}
		if err != nil {
			return fmt.Errorf("ring: %w", err)
		}
		records := make([]Record, 0, s.count)
		for len(b) > 0 {
			rec, n, err := decode(b)
			if err != nil || rec.Number >= before {
				break
			}
			records = append(records, rec)
			b = b[n:]
		}
		for _, rec := range slices.Backward(records) {
			if !f(rec) {
				return nil
			}
		}
	}
	return nil
}

// First is the number of the oldest record that is kept, or the next number if there is none.
func (r *Ring) First() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.memory) > 0:
		return r.memory[0].Number
	case len(r.list) > 0:
		return r.list[0].first
	}
	return r.next
}

// readFirst reads the first n bytes of a file.
func readFirst(name string, n int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, n))
	return b, err
}

// Close makes all records durable and releases the ring. Append makes a new file afterward.
func (r *Ring) Close() error {
	err := r.Sync()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
		r.file = nil
	}
	if err == nil {
		r.settle()
	}
	return err
}
