package boltdb

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"heddle/store"
)

// WriteOlder makes a new state file of an older format, 1 or 2, for a program that does not know
// the present one. Format 1 has no records. Such a file has no journal: the program that wrote it
// here converts it when it opens it again, and numbers changes from 1.
func WriteOlder(path string, s *store.State, format uint8) (err error) {
	if format < 1 || format >= Format {
		return fmt.Errorf("store: %d is no format without a journal", format)
	}
	for i := range s.Records {
		if t := s.Records[i].Table; format > 1 && t.Format() > format {
			return fmt.Errorf("store: format %d has no table %v", format, t)
		}
	}
	if format < 2 && len(s.Records) > 0 {
		return fmt.Errorf("store: format %d has no records, and there are %d", format, len(s.Records))
	}
	ops := s.Ops()
	for i := range ops {
		if err := ops[i].Check(); err != nil {
			return err
		}
	}
	b := &DB{path: path}
	if err := b.bolt(true, false); err != nil {
		return err
	}
	err = b.db.Update(func(tx *bolt.Tx) error {
		m, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		for i := range entryKinds {
			if e := &entryKinds[i]; e.since <= format {
				if _, err := tx.CreateBucket(e.bucket); err != nil {
					return err
				}
			}
		}
		if err := carryOut(tx, ops); err != nil {
			return err
		}
		return m.Put(keyVersion, []byte{format})
	})
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("store: writing %s: %w", path, err)
	}
	return nil
}
