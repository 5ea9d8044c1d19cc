package boltdb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"heddle/store"
	"heddle/store/journal"
)

// What the journal keeps: the newest entries, as many as stay within both limits, and always
// the last one.
const (
	keepEntries = 10_000
	keepBytes   = 64 << 20
	trimAtOnce  = 64 // entries that one Apply deletes at most, so that none takes long
)

// log is what is known of the journal's size without reading it again.
type log struct {
	known bool // the rest is right
	count int
	size  int
	// The same after the transaction that is under way.
	nextCount, nextSize int
}

func (l *log) committed() { l.count, l.size = l.nextCount, l.nextSize }

// measure reads the journal's size if it is not known.
func (l *log) measure(bk *bolt.Bucket) error {
	if !l.known {
		l.count, l.size = 0, 0
		if err := bk.ForEach(func(_, v []byte) error {
			l.count++
			l.size += len(v)
			return nil
		}); err != nil {
			return err
		}
		l.known = true
	}
	l.nextCount, l.nextSize = l.count, l.size
	return nil
}

// add writes an entry and deletes those that are too many. log.measure comes before the first one
// of a transaction.
func (b *DB) add(tx *bolt.Tx, e *journal.Entry) error {
	v, err := journal.Append(nil, e)
	if err != nil {
		return err
	}
	bk := tx.Bucket(bucketJournal)
	bk.FillPercent = 1 // keys ascend
	if err := bk.Put(binary.BigEndian.AppendUint64(nil, e.Number), v); err != nil {
		return err
	}
	b.log.nextCount++
	b.log.nextSize += len(v)
	c := bk.Cursor()
	for range trimAtOnce {
		k, v := c.First()
		if k == nil || b.log.nextCount <= 1 || b.log.nextCount <= keepEntries && b.log.nextSize <= keepBytes {
			break
		}
		n := len(v)
		m, err := b.mark(k, v)
		if err != nil {
			return err
		}
		if err := c.Delete(); err != nil {
			return err
		}
		if err := setBegin(tx, m); err != nil {
			return err
		}
		b.log.nextCount--
		b.log.nextSize -= n
	}
	return nil
}

// mark reads the mark of an entry of the journal without its operations.
func (b *DB) mark(k, v []byte) (journal.Mark, error) {
	const at = 8 // of the mark in an entry
	if len(v) < at {
		return journal.Mark{}, b.damaged(k, journal.ErrShort)
	}
	m, err := journal.DecodeMark(v[at:])
	if err == nil && (len(k) != 8 || m.Number != binary.BigEndian.Uint64(k)) {
		err = fmt.Errorf("it has number %d", m.Number)
	}
	if err != nil {
		return journal.Mark{}, b.damaged(k, err)
	}
	return m, nil
}

func (b *DB) damaged(k []byte, err error) error {
	return &CorruptError{Path: b.path, What: fmt.Sprintf("bucket journal: entry %x", k), Err: err}
}

func setBegin(tx *bolt.Tx, m journal.Mark) error {
	v := journal.AppendMark(nil, m)
	return tx.Bucket(bucketMeta).Put(keyBegin, binary.BigEndian.AppendUint32(v, sum(keyBegin, v)))
}

// begin is the mark before the first entry that is kept.
func (b *DB) begin(tx *bolt.Tx) (journal.Mark, error) {
	m := tx.Bucket(bucketMeta)
	if m == nil {
		return journal.Mark{}, nil // its maker died before the first commit
	}
	v := m.Get(keyBegin)
	if v == nil {
		return journal.Mark{}, nil
	}
	n := len(v) - crc32.Size
	if n < 0 || sum(keyBegin, v[:n]) != binary.BigEndian.Uint32(v[n:]) {
		return journal.Mark{}, &CorruptError{Path: b.path, What: "bucket meta: begin", Err: errChecksum}
	}
	at, err := journal.DecodeMark(v[:n])
	if err != nil {
		return journal.Mark{}, &CorruptError{Path: b.path, What: "bucket meta: begin", Err: err}
	}
	return at, nil
}

func (b *DB) last(tx *bolt.Tx) (journal.Mark, error) {
	bk := tx.Bucket(bucketJournal)
	if bk == nil {
		return journal.Mark{}, nil // an older format, opened to be read
	}
	if k, v := bk.Cursor().Last(); k != nil {
		return b.mark(k, v)
	}
	return b.begin(tx)
}

// Last implements journal.Store.
func (b *DB) Last() (m journal.Mark, err error) {
	err = b.view(func(tx *bolt.Tx) error {
		m, err = b.last(tx)
		return err
	})
	return m, err
}

// Append implements journal.Store: one transaction, synced before it returns.
func (b *DB) Append(e *journal.Entry) error {
	return b.AppendAll([]journal.Entry{*e})
}

// AppendAll implements journal.Grouper: one transaction, synced before it returns.
func (b *DB) AppendAll(list []journal.Entry) error {
	if len(list) == 0 {
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
		for i := range list {
			e := &list[i]
			if err := journal.Follows(last, e.Mark); err != nil {
				return err
			}
			if err := b.add(tx, e); err != nil {
				return err
			}
			if err := carryOut(tx, e.Ops); err != nil {
				return err
			}
			last = e.Mark
		}
		return nil
	})
}

// Entries implements journal.Store.
func (b *DB) Entries(from uint64, size int) (list []journal.Entry, err error) {
	err = b.view(func(tx *bolt.Tx) error {
		begin, err := b.begin(tx)
		if err != nil {
			return err
		}
		bk := tx.Bucket(bucketJournal)
		if bk == nil || from <= begin.Number {
			return journal.ErrTrimmed
		}
		c := bk.Cursor()
		next := from
		for k, v := c.Seek(binary.BigEndian.AppendUint64(nil, from)); k != nil; k, v = c.Next() {
			if size -= len(v); size < 0 && len(list) > 0 {
				return nil
			}
			if m, err := b.mark(k, v); err != nil {
				return err
			} else if m.Number != next {
				return b.damaged(k, fmt.Errorf("entry %d is missing before it", next))
			}
			e, n, err := journal.Decode(bytes.Clone(v))
			if err == nil && n != len(v) {
				err = fmt.Errorf("%d bytes after its end", len(v)-n)
			}
			if err != nil {
				return b.damaged(k, err)
			}
			list = append(list, e)
			next++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// checkJournal reads all entries.
func (b *DB) checkJournal(last journal.Mark) error {
	var begin journal.Mark
	if err := b.view(func(tx *bolt.Tx) (err error) {
		begin, err = b.begin(tx)
		return err
	}); err != nil {
		return err
	}
	for next := begin; next.Number < last.Number; {
		list, err := b.Entries(next.Number+1, 8<<20)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return &CorruptError{Path: b.path, What: fmt.Sprintf("bucket journal: entry %d is missing", next.Number+1)}
		}
		for i := range list {
			if err := journal.Follows(next, list[i].Mark); err != nil {
				return &CorruptError{Path: b.path, What: "bucket journal", Err: err}
			}
			next = list[i].Mark
		}
	}
	return nil
}

// Replace implements journal.Store: one transaction.
func (b *DB) Replace(s *store.State, at journal.Mark) error {
	ops := s.Ops()
	for i := range ops {
		if err := ops[i].Check(); err != nil {
			return err
		}
	}
	return b.update(func(tx *bolt.Tx) error {
		names := [][]byte{bucketJournal}
		for i := range entryKinds {
			names = append(names, entryKinds[i].bucket)
		}
		for _, n := range names {
			if err := tx.DeleteBucket(n); err != nil {
				return err
			}
			if _, err := tx.CreateBucket(n); err != nil {
				return err
			}
		}
		b.log = log{known: true}
		if err := tx.Bucket(bucketMeta).Put(keyVersion, []byte{Format}); err != nil {
			return err
		}
		if err := setBegin(tx, at); err != nil {
			return err
		}
		return carryOut(tx, ops)
	})
}

// Note implements journal.Store.
func (b *DB) Note() (note []byte, err error) {
	err = b.view(func(tx *bolt.Tx) error {
		m := tx.Bucket(bucketMeta)
		if m == nil {
			return nil // its maker died before the first commit
		}
		v := m.Get(keyNote)
		if v == nil {
			return nil
		}
		n := len(v) - crc32.Size
		if n < 0 || sum(keyNote, v[:n]) != binary.BigEndian.Uint32(v[n:]) {
			return &CorruptError{Path: b.path, What: "bucket meta: note", Err: errChecksum}
		}
		note = bytes.Clone(v[:n])
		return nil
	})
	return note, err
}

// SetNote implements journal.Store.
func (b *DB) SetNote(note []byte) error {
	return b.update(func(tx *bolt.Tx) error {
		b.log.nextCount, b.log.nextSize = b.log.count, b.log.size
		v := bytes.Clone(note)
		return tx.Bucket(bucketMeta).Put(keyNote, binary.BigEndian.AppendUint32(v, sum(keyNote, v)))
	})
}
