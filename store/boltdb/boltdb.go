// Package boltdb implements store.Store on one bbolt file in the state directory
// of a daemon.
package boltdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"heddle/ib"
	"heddle/store"
	"heddle/store/journal"
)

// FileName is the store's file in a state directory.
const FileName = "heddle.db"

// Formats of the file. Version 1 had no records, version 2 no journal; opening such a file makes it one of
// Format. It becomes one of a newer format with its first record that needs it (store.Table.Format), so
// that an older program can go on with it until then.
const Format uint8 = 3

// newestFormat goes up with the versions of the journal, the first of which is in format 3.
var newestFormat = Format - 1 + journal.Versions().Newest

var (
	bucketMeta      = []byte("meta")
	bucketLIDs      = []byte("guid2lid")
	bucketMKeys     = []byte("guid2mkey")
	bucketNeighbors = []byte("neighbors")
	bucketRecords   = []byte("records")
	bucketJournal   = []byte("journal")
	keyVersion      = []byte("version")
	keyBegin        = []byte("begin")
	keyNote         = []byte("note")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// CorruptError reports a file that Apply did not write. The file stays
// unchanged: the operator removes it (LIDs are then read from the fabric) or
// restores a backup.
type CorruptError struct {
	Path string
	What string
	Err  error
	// Foreign: it does not begin as a state file does, so it likely is another kind of file.
	Foreign bool
}

// Error implements error.
func (e *CorruptError) Error() string {
	if e.Foreign {
		return fmt.Sprintf("store: %s is not a Heddle store: it does not begin as one; name a state file or its directory; if it was one, move it away and restore a copy", e.Path)
	}
	s := fmt.Sprintf("store: %s is damaged: %s", e.Path, e.What)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; the file was left as it is: restore a copy, or move it away to take the LIDs from the fabric"
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// DB is a journal.Store in one bbolt file of mode 0600. Every Apply is one synced
// transaction.
type DB struct {
	path   string
	closed atomic.Bool
	write  sync.Mutex // held by one change at a time
	log    log        // guarded by write

	converted *Conversion // set by Open

	// reads guards what follows. It is locked while a transaction is committed, so none reads what
	// is not durable; a transaction that reads holds it only while it begins.
	reads sync.RWMutex
	db    *bolt.DB
	file  *os.File // the same file, to write its headers; nil if it is only read
	undo  *undo    // a failed commit that is yet to be undone; db may be nil then
}

// Open opens or creates the store file at path. It waits up to a second for
// another process to close it. It converts a file of an older format in one
// transaction, and keeps a copy of it as it was: see Converted.
func Open(path string) (*DB, error) { return OpenWith(path, Options{}) }

// OpenWith is Open with more to say.
func OpenWith(path string, o Options) (*DB, error) { return open(path, false, o) }

// Read returns the contents of the store file at path without changing it, even
// if it has an older format.
func Read(path string) (*store.State, error) {
	s, _, err := ReadContents(path)
	return s, err
}

// ReadContents is Read with the mark of the last entry.
func ReadContents(path string) (*store.State, journal.Mark, error) {
	if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Size() == 0 {
		return &store.State{}, journal.Mark{}, nil // its maker died before it wrote anything
	}
	b, err := open(path, true, Options{})
	if err != nil {
		return nil, journal.Mark{}, err
	}
	defer b.Close()
	return b.Contents()
}

// Check reads the whole file at path, with its journal and the bookkeeping of its pages, and
// returns the first damage. It changes nothing.
func Check(path string) error {
	fi, err := os.Stat(path)
	if err == nil && fi.Mode().IsRegular() && fi.Size() == 0 {
		return nil // as in ReadContents
	}
	b, err := open(path, true, Options{})
	if err != nil {
		return err
	}
	defer b.Close()
	_, last, err := b.Contents()
	if err != nil {
		return err
	}
	if _, err := b.Note(); err != nil {
		return err
	}
	if err := b.checkJournal(last); err != nil {
		return err
	}
	return b.view(func(tx *bolt.Tx) error {
		// A page behind the end of the file would end the process: bbolt reads in a goroutine.
		if fi.Size() < tx.Size() {
			return &CorruptError{Path: b.path, What: fmt.Sprintf("it is cut off: %d bytes, and its pages take %d", fi.Size(), tx.Size())}
		}
		if err := b.checkOverflow(tx); err != nil {
			return err
		}
		var first error
		for err := range tx.Check() { // it must be read to its end
			if first == nil {
				first = &CorruptError{Path: b.path, What: "pages", Err: err}
			}
		}
		return first
	})
}

// checkOverflow finds pages that claim more pages after them than there are: bbolt's check would
// count up to 2^32 of them.
func (b *DB) checkOverflow(tx *bolt.Tx) error {
	total := int(tx.Size() / int64(b.db.Info().PageSize))
	for id := 0; id < total; id++ {
		p, err := tx.Page(id)
		if err != nil {
			return &CorruptError{Path: b.path, What: fmt.Sprintf("page %d", id), Err: err}
		}
		if p.Type == "free" {
			continue // it has the bytes of what was there before
		}
		if p.OverflowCount < 0 || p.OverflowCount >= total-id {
			return &CorruptError{Path: b.path, What: fmt.Sprintf("page %d takes %d pages of %d", id, p.OverflowCount+1, total)}
		}
		id += p.OverflowCount
	}
	return nil
}

func open(path string, readOnly bool, o Options) (s *DB, err error) {
	fresh := true
	if fi, err := os.Stat(path); err == nil {
		if !fi.Mode().IsRegular() {
			return nil, fmt.Errorf("store: %s is not a regular file", path)
		}
		if fresh = fi.Size() == 0; !fresh {
			if err := headerCheck(path); err != nil {
				return nil, err
			}
		}
		if fi.Mode().Perm()&0o077 != 0 { // after the kind: another file may have any mode
			return nil, fmt.Errorf("store: %s holds keys but has mode %#o: run chmod 600 on it", path, fi.Mode().Perm())
		}
	} else if readOnly || !os.IsNotExist(err) {
		return nil, fmt.Errorf("store: %w", err)
	} else if err := create(path); err != nil {
		return nil, err
	} else {
		return open(path, false, o)
	}
	defer func() {
		if r := recover(); r != nil { // bbolt panics on some kinds of damage
			s, err = nil, &CorruptError{Path: path, What: fmt.Sprint(r)}
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	b := &DB{path: path}
	if err := b.bolt(fresh, readOnly); err != nil {
		return nil, err
	}
	if err := b.init(fresh, readOnly, o); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// headerCheck refuses a file that does not begin as bbolt's do before bbolt
// may touch it.
func headerCheck(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	var b [32]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("store: %w", err)
	}
	const boltMagic = 0xED0CDAED
	if binary.NativeEndian.Uint32(b[16:]) != boltMagic {
		return &CorruptError{Path: path, What: "no bbolt file", Foreign: true}
	}
	return nil
}

// init creates the buckets of a new file, or checks those of an old one and
// adds missing ones.
func (b *DB) init(fresh, readOnly bool, o Options) error {
	version := uint8(0)
	if !fresh {
		err := b.view(func(tx *bolt.Tx) (err error) {
			version, err = b.check(tx)
			return err
		})
		if err != nil || readOnly {
			return err
		}
		if version != 0 && version < Format { // one with damage stays as it is
			if _, _, err := b.Contents(); err != nil {
				return err
			}
		}
	}
	if err := b.settle(); err != nil || version >= Format {
		return err
	}
	if version != 0 {
		if err := b.copied(version, o); err != nil {
			return err
		}
	}
	return b.update(func(tx *bolt.Tx) error {
		b.log.nextCount, b.log.nextSize = b.log.count, b.log.size
		if version == 0 {
			if _, err := tx.CreateBucketIfNotExists(bucketMeta); err != nil {
				return err
			}
		}
		for i := range entryKinds {
			if _, err := tx.CreateBucketIfNotExists(entryKinds[i].bucket); err != nil {
				return err
			}
		}
		if _, err := tx.CreateBucketIfNotExists(bucketJournal); err != nil {
			return err
		}
		return tx.Bucket(bucketMeta).Put(keyVersion, []byte{Format})
	})
}

// check returns the format of a file. It refuses an unknown format and a file
// that lacks a bucket of its format. 0: bbolt created the file, but its process
// died before the first commit.
func (b *DB) check(tx *bolt.Tx) (version uint8, err error) {
	if first, _ := tx.Cursor().First(); first == nil && tx.ID() <= 1 {
		return 0, nil
	}
	m := tx.Bucket(bucketMeta)
	if m == nil {
		return 0, &CorruptError{Path: b.path, What: "it has no bucket meta"}
	}
	v := m.Get(keyVersion)
	if len(v) != 1 {
		return 0, &CorruptError{Path: b.path, What: "no format version"}
	}
	if v[0] == 0 || v[0] > newestFormat {
		return 0, formatError(b.path, v[0])
	}
	for i := range entryKinds {
		if e := &entryKinds[i]; e.since <= v[0] && tx.Bucket(e.bucket) == nil {
			return 0, &CorruptError{Path: b.path, What: fmt.Sprintf("it has no bucket %s", e.bucket)}
		}
	}
	if v[0] >= 3 && tx.Bucket(bucketJournal) == nil {
		return 0, &CorruptError{Path: b.path, What: "it has no bucket journal"}
	}
	return v[0], nil
}

// Load implements Store.
func (b *DB) Load() (*store.State, error) {
	out, _, err := b.Contents()
	return out, err
}

// Contents implements journal.Store.
func (b *DB) Contents() (*store.State, journal.Mark, error) {
	out := &store.State{}
	var at journal.Mark
	err := b.view(func(tx *bolt.Tx) error {
		for i := range entryKinds {
			if err := b.scan(tx, &entryKinds[i], out); err != nil {
				return err
			}
		}
		var err error
		at, err = b.last(tx)
		return err
	})
	if err != nil {
		return nil, journal.Mark{}, err
	}
	return out, at, nil
}

// view runs one transaction that reads. bbolt panics on some kinds of damage.
func (b *DB) view(f func(tx *bolt.Tx) error) (err error) {
	if b.closed.Load() {
		return store.ErrClosed
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // pages beyond the end of a cut-off file
	tx, err := b.reading()
	if err != nil {
		return err
	}
	return errors.Join(b.guard(func() error { return f(tx) }), tx.Rollback())
}

func guid(b []byte) ib.GUID { return ib.GUID(binary.BigEndian.Uint64(b)) }

// entryKind is one kind of entry, each in its bucket: keys of klen bytes,
// values of vlen bytes (any length if it is < 0; take checks them) and a
// checksum over key and value.
type entryKind struct {
	bucket     []byte
	since      byte // first format with the bucket
	klen, vlen int
	take       func(st *store.State, k, v []byte) error // k and v are bbolt's
}

var entryKinds = [...]entryKind{
	{bucketLIDs, 1, 8, 3, func(st *store.State, k, v []byte) error {
		e := store.LIDEntry{GUID: guid(k), LID: ib.LID(binary.BigEndian.Uint16(v)), LMC: v[2]}
		op := store.Op{Kind: store.PutLID, GUID: e.GUID, LID: e.LID, LMC: e.LMC}
		if err := op.Check(); err != nil {
			return err
		}
		st.LIDs = append(st.LIDs, e)
		return nil
	}},
	{bucketMKeys, 1, 8, 8, func(st *store.State, k, v []byte) error {
		st.MKeys = append(st.MKeys, store.MKeyEntry{GUID: guid(k), MKey: ib.MKey(binary.BigEndian.Uint64(v))})
		return nil
	}},
	{bucketNeighbors, 1, 9, 8, func(st *store.State, k, v []byte) error {
		st.Neighbors = append(st.Neighbors, store.NeighborEntry{Node: guid(k), Port: k[8], Peer: guid(v)})
		return nil
	}},
	{bucketRecords, 2, -1, -1, func(st *store.State, k, v []byte) error {
		op := store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.Table(k[0]), Key: k[1:], Value: v}}
		if err := op.Check(); err != nil {
			return err
		}
		st.Records = append(st.Records, store.Record{Table: store.Table(k[0]), Key: bytes.Clone(k[1:]), Value: bytes.Clone(v)})
		return nil
	}},
}

// decode appends the entry to st, or returns an error and appends nothing.
func (e *entryKind) decode(st *store.State, k, v []byte) error {
	n := len(v) - 4
	switch {
	case e.klen >= 0 && (len(k) != e.klen || n != e.vlen):
		return fmt.Errorf("it has %d+%d bytes instead of %d+%d", len(k), len(v), e.klen, e.vlen+4)
	case len(k) == 0 || n < 0:
		return fmt.Errorf("it has %d+%d bytes, too few for a table and a checksum", len(k), len(v))
	case sum(k, v[:n]) != binary.BigEndian.Uint32(v[n:]):
		return errChecksum
	}
	return e.take(st, k, v[:n])
}

var errChecksum = errors.New("it fails its checksum")

func (b *DB) scan(tx *bolt.Tx, e *entryKind, st *store.State) error {
	bk := tx.Bucket(e.bucket)
	if bk == nil && b.file == nil {
		return nil // check let it pass: the format has none
	}
	if bk == nil {
		return &CorruptError{Path: b.path, What: fmt.Sprintf("it has no bucket %s", e.bucket)}
	}
	return bk.ForEach(func(k, v []byte) error {
		if err := e.decode(st, k, v); err != nil {
			return &CorruptError{Path: b.path, What: fmt.Sprintf("bucket %s: entry %x", e.bucket, k), Err: err}
		}
		return nil
	})
}

func sum(k, v []byte) uint32 {
	return crc32.Update(crc32.Checksum(k, castagnoli), castagnoli, v)
}

// Apply implements Store: one transaction, synced before it returns.
func (b *DB) Apply(ops []store.Op) error {
	if b.closed.Load() {
		return store.ErrClosed
	}
	for i := range ops {
		if err := ops[i].Check(); err != nil {
			return err
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return b.update(func(tx *bolt.Tx) error {
		last, err := b.last(tx)
		if err != nil {
			return err
		}
		if err := b.log.measure(tx.Bucket(bucketJournal)); err != nil {
			return err
		}
		e := journal.Entry{Mark: journal.Mark{Term: last.Term, Number: last.Number + 1}, Wall: time.Now().UnixNano(), Ops: ops}
		if err := b.add(tx, &e); err != nil {
			return err
		}
		return carryOut(tx, ops)
	})
}

func carryOut(tx *bolt.Tx, ops []store.Op) error {
	lids, mkeys, nbrs, recs := tx.Bucket(bucketLIDs), tx.Bucket(bucketMKeys), tx.Bucket(bucketNeighbors), tx.Bucket(bucketRecords)
	var err error
	for i := range ops {
		o := &ops[i]
		k := binary.BigEndian.AppendUint64(nil, uint64(o.GUID))
		switch o.Kind {
		case store.PutLID:
			err = put(lids, k, append(binary.BigEndian.AppendUint16(nil, uint16(o.LID)), o.LMC))
		case store.DeleteLID:
			err = lids.Delete(k)
		case store.PutMKey:
			err = put(mkeys, k, binary.BigEndian.AppendUint64(nil, uint64(o.MKey)))
		case store.DeleteMKey:
			err = mkeys.Delete(k)
		case store.PutNeighbor:
			err = put(nbrs, append(k, o.Port), binary.BigEndian.AppendUint64(nil, uint64(o.Peer)))
		case store.DeleteNeighbor:
			err = nbrs.Delete(append(k, o.Port))
		case store.PutRecord:
			r := &o.Record
			v := append(make([]byte, 0, len(r.Value)+4), r.Value...) // bbolt keeps it until the end
			if err = atLeast(tx, r.Table.Format()); err == nil {
				err = put(recs, recordEntry(r), v)
			}
		case store.DeleteRecord:
			if err = atLeast(tx, o.Record.Table.Format()); err == nil { // the journal has it
				err = recs.Delete(recordEntry(&o.Record))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// atLeast makes the file one of the given format, unless it has that or a newer one.
func atLeast(tx *bolt.Tx, format uint8) error {
	m := tx.Bucket(bucketMeta)
	if format <= Format || m.Get(keyVersion)[0] >= format { // init has written it
		return nil
	}
	return m.Put(keyVersion, []byte{format})
}

// recordEntry is the key of a record in its bucket.
func recordEntry(r *store.Record) []byte {
	return append([]byte{byte(r.Table)}, r.Key...)
}

func put(bk *bolt.Bucket, k, v []byte) error {
	return bk.Put(k, binary.BigEndian.AppendUint32(v, sum(k, v)))
}
