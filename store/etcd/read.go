package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"heddle/store"
	"heddle/store/journal"
)

// readAtOnce is how many keys one request reads: at most as many MiB.
const readAtOnce = 32

// CorruptError reports a key that this program did not write. Nothing is changed.
type CorruptError struct {
	Key string
	Err error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("etcd: key %s is damaged: %v; nothing was changed: restore a backup (docs/ha.md)", e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// errTrimmed: what was to be read has been deleted meanwhile, because there is a newer snapshot.
var errTrimmed = errors.New("etcd: the journal moved on")

// catchUp reads what the journal has after the last entry that this Store knows, until the cluster
// says that there is no more. If the journal does not continue what this Store has, the state is read
// anew from the snapshot.
func (s *Store) catchUp(ctx context.Context) error {
	loaded, failed := int64(-1), int64(-2) // revisions of snapshots
	for {
		if s.stale {
			switch err := s.reload(ctx); {
			case errors.Is(err, errTrimmed) && ctx.Err() == nil:
				continue
			case err != nil:
				return err
			}
			s.stale, loaded = false, s.head.rev
		}
		more, err := s.readOn(ctx)
		if errors.Is(err, errTrimmed) {
			s.stale = true
			if loaded == failed { // but only a newer snapshot deletes entries
				return &CorruptError{s.keys.journal(), fmt.Errorf("entries after %d are missing", s.position().Number)}
			}
			if loaded >= 0 {
				failed = loaded
			}
			continue
		}
		if err != nil || !more {
			if err == nil {
				s.mu.Lock()
				s.synced = time.Now()
				s.mu.Unlock()
			}
			return err
		}
	}
}

// readOn reads some entries after the last one.
func (s *Store) readOn(ctx context.Context) (more bool, err error) {
	at := s.position()
	r, err := s.transact(ctx, nil, []clientv3.Op{
		clientv3.OpGet(s.keys.term()), clientv3.OpGet(s.keys.head()), clientv3.OpGet(s.keys.entry(at.Number)),
		clientv3.OpGet(s.keys.entry(at.Number+1), clientv3.WithRange(s.keys.journalEnd()), clientv3.WithLimit(readAtOnce)),
	}, nil)
	if err != nil {
		return false, err
	}
	answer := func(i int) []*mvccpb.KeyValue { return r.Responses[i].GetResponseRange().Kvs }
	if s.claim.held() && !s.holds(answer(0)) {
		s.loseTerm(answer(0)) //nolint:errcheck // reading goes on, and writing says it
	}
	head, err := s.readHead(answer(1))
	if err != nil {
		return false, err
	}
	if !s.continues(at, head, answer(2)) {
		if s.claim.held() {
			s.fork() //nolint:errcheck // the same
		}
		if at.rev != 0 && head.Number < at.Number { // no snapshot has taken the place of the entry
			s.opt.Log.Error("etcd does not have the last entry that this manager has read (was a backup restored?); what etcd has counts", "had", at.Mark.String())
		}
		return false, errTrimmed
	}
	s.head = head
	next := at.Number + 1
	for _, kv := range answer(3) {
		n, p, ok := s.keys.parseEntry(string(kv.Key))
		switch {
		case !ok:
			return false, &CorruptError{string(kv.Key), errors.New("this is no number of an entry")}
		case p != 0:
			continue // read with the first piece, or left over by a manager that lost its term
		case n != next:
			return false, errTrimmed
		}
		e, raw, err := s.entryOf(ctx, kv)
		if err != nil {
			return false, err
		}
		if err := journal.Follows(s.position().Mark, e.Mark); err != nil {
			return false, &CorruptError{string(kv.Key), err}
		}
		s.mu.Lock()
		s.follow(&e, raw, kv.ModRevision)
		s.mu.Unlock()
		next++
	}
	if r.Responses[3].GetResponseRange().More {
		return true, nil
	}
	s.mu.Lock()
	s.at.seen = r.Header.Revision
	s.mu.Unlock()
	return false, nil
}

func (s *Store) readHead(kvs []*mvccpb.KeyValue) (snapshotHead, error) {
	if len(kvs) == 0 {
		return snapshotHead{}, nil
	}
	h, err := decodeHead(kvs[0].Value)
	if err != nil {
		return h, &CorruptError{s.keys.head(), err}
	}
	h.rev = kvs[0].ModRevision
	return h, nil
}

// continues reports whether a journal with this snapshot and this key of the last entry is the one
// that was read up to there. The history of a restored backup may have the same revisions, so the
// checksum counts too.
func (s *Store) continues(at position, head snapshotHead, last []*mvccpb.KeyValue) bool {
	if at.rev == 0 {
		return len(last) == 0 && head.ID == s.head.ID
	}
	if revOf(last) != at.rev {
		return false
	}
	v := last[0].Value
	if n, err := lengthOf(v); err != nil || n > len(v) {
		return err == nil // a large one: its checksum is in its last piece
	}
	return sumOf(v) == at.sum
}

// lengthOf is the length of the entry that begins with a value.
func lengthOf(v []byte) (int, error) {
	if len(v) < 8 {
		return 0, journal.ErrShort
	}
	n := int(binary.BigEndian.Uint32(v[4:]))
	if n < 8 || n > journal.MaxEntry {
		return 0, fmt.Errorf("etcd: an entry cannot have %d bytes", n)
	}
	return n, nil
}

// entryOf returns the entry whose first piece is kv.
func (s *Store) entryOf(ctx context.Context, kv *mvccpb.KeyValue) (journal.Entry, []byte, error) {
	raw := kv.Value
	fail := func(err error) (journal.Entry, []byte, error) {
		return journal.Entry{}, nil, &CorruptError{string(kv.Key), err}
	}
	n, err := lengthOf(raw)
	if err != nil {
		return fail(err)
	}
	number, _, _ := s.keys.parseEntry(string(kv.Key))
	for p := 1; len(raw) < n; p++ {
		r, err := s.transact(ctx, nil, []clientv3.Op{clientv3.OpGet(s.keys.piece(number, p))}, nil)
		if err != nil {
			return journal.Entry{}, nil, err
		}
		kvs := r.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 {
			if p > 1 || len(raw) == pieceLen {
				return journal.Entry{}, nil, s.unlessThere(ctx, kv, p)
			}
			return fail(journal.ErrShort)
		}
		raw = append(raw, kvs[0].Value...)
	}
	e, used, err := journal.Decode(raw)
	switch {
	case err != nil:
		return fail(err)
	case used != len(raw):
		return fail(fmt.Errorf("%d bytes after its end", len(raw)-used))
	case e.Number != number:
		return fail(fmt.Errorf("it has number %d", e.Number))
	}
	return e, raw, nil
}

// unlessThere is errTrimmed if the entry has been deleted, else an error: a piece of it is missing.
func (s *Store) unlessThere(ctx context.Context, kv *mvccpb.KeyValue, piece int) error {
	r, err := s.transact(ctx, nil, []clientv3.Op{clientv3.OpGet(string(kv.Key))}, nil)
	if err != nil {
		return err
	}
	if revOf(r.Responses[0].GetResponseRange().Kvs) != kv.ModRevision {
		return errTrimmed
	}
	return &CorruptError{string(kv.Key), fmt.Errorf("piece %d is missing", piece)}
}

// reload reads the state from the newest snapshot, without the entries after it.
func (s *Store) reload(ctx context.Context) error {
	r, err := s.transact(ctx, nil, []clientv3.Op{
		clientv3.OpGet(s.keys.head()),
		clientv3.OpGet(s.keys.journal(), clientv3.WithRange(s.keys.journalEnd()), clientv3.WithLimit(1), clientv3.WithKeysOnly()),
	}, nil)
	if err != nil {
		return err
	}
	head, err := s.readHead(r.Responses[0].GetResponseRange().Kvs)
	if err != nil {
		return err
	}
	state, at := store.NewMemory(), position{}
	if head.ID == "" {
		if kvs := r.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 && string(kvs[0].Key) != s.keys.entry(1) {
			return &CorruptError{string(kvs[0].Key), errors.New("the journal begins here, but there is no snapshot")}
		}
	} else {
		e, err := s.readSnapshot(ctx, head, r.Header.Revision)
		if err != nil {
			return err
		}
		if err := state.Apply(e.Ops); err != nil {
			return &CorruptError{s.keys.head(), err}
		}
		at.Mark = e.Mark
		if at.rev, at.sum, err = s.keyOf(ctx, e.Mark); err != nil {
			return err
		}
	}
	s.head, s.bytes = head, 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.at = state, at
	return nil
}

// readSnapshot reads the pieces of a snapshot as of a revision: newer ones do not disturb it, unless
// etcd has been compacted.
func (s *Store) readSnapshot(ctx context.Context, head snapshotHead, rev int64) (journal.Entry, error) {
	raw := make([]byte, 0, head.Length)
	for p := range head.pieces() {
		key := s.keys.snapshotPiece(head.ID, p)
		r, err := s.transact(ctx, nil, []clientv3.Op{clientv3.OpGet(key, clientv3.WithRev(rev))}, nil)
		if errors.Is(err, rpctypes.ErrCompacted) {
			return journal.Entry{}, errTrimmed
		}
		if err != nil {
			return journal.Entry{}, err
		}
		kvs := r.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 {
			return journal.Entry{}, &CorruptError{key, errors.New("it is missing")}
		}
		raw = append(raw, kvs[0].Value...)
	}
	e, n, err := journal.Decode(raw)
	switch {
	case err == nil && (n != len(raw) || n != head.Length):
		err = fmt.Errorf("%d bytes, not %d", len(raw), head.Length)
	case err == nil && e.Mark != head.mark():
		err = fmt.Errorf("it holds the state as of %v, not %v", e.Mark, head.mark())
	}
	if err != nil {
		return e, &CorruptError{s.keys.snapshot(head.ID), err}
	}
	return e, nil
}

// keyOf is the revision and the checksum of an entry; 0 if it is not kept.
func (s *Store) keyOf(ctx context.Context, m journal.Mark) (rev int64, sum uint32, err error) {
	r, err := s.transact(ctx, nil, []clientv3.Op{clientv3.OpGet(s.keys.entry(m.Number))}, nil)
	if err != nil {
		return 0, 0, err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return 0, 0, nil
	}
	e, raw, err := s.entryOf(ctx, kvs[0])
	if err == nil && e.Mark != m {
		err = errTrimmed // the journal was replaced meanwhile
	}
	if err != nil {
		return 0, 0, err
	}
	return kvs[0].ModRevision, sumOf(raw), nil
}

// Entries implements journal.Store.
func (s *Store) Entries(from uint64, size int) (list []journal.Entry, err error) {
	ctx, cancel := s.bound(s.life, s.readWait())
	defer cancel()
	err = s.reading(ctx, func(ctx context.Context) error {
		list, err = s.entriesFrom(ctx, from, size)
		return err
	})
	return list, err
}

func (s *Store) entriesFrom(ctx context.Context, from uint64, size int) (list []journal.Entry, err error) {
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	last := s.position().Number
	if from > last {
		return nil, nil
	}
	for next := from; next <= last; {
		r, err := s.transact(ctx, nil, []clientv3.Op{
			clientv3.OpGet(s.keys.entry(next), clientv3.WithRange(s.keys.journalEnd()), clientv3.WithLimit(readAtOnce)),
		}, nil)
		if err != nil {
			return nil, err
		}
		was := next
		for _, kv := range r.Responses[0].GetResponseRange().Kvs {
			n, p, ok := s.keys.parseEntry(string(kv.Key))
			if ok && p != 0 {
				continue
			}
			if !ok || n != next || n == 0 {
				return nil, journal.ErrTrimmed
			}
			e, raw, err := s.entryOf(ctx, kv)
			if errors.Is(err, errTrimmed) {
				return nil, journal.ErrTrimmed
			}
			if err != nil {
				return nil, err
			}
			if size -= len(raw); size < 0 && len(list) > 0 {
				return list, nil
			}
			list = append(list, e)
			next++
		}
		if next == was {
			return nil, journal.ErrTrimmed // Replace left no entry
		}
	}
	return list, nil
}
