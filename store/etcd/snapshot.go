package etcd

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"heddle/store"
	"heddle/store/journal"
)

// snapshotBytes is the size of entries after which a snapshot is due even if they are few.
const snapshotBytes = 64 << 20

// snapshotWait bounds the writing of one snapshot; after that the next entry begins another one.
const snapshotWait = 5 * time.Minute

// snapshotIfDue begins to write a snapshot when there are enough entries since the last one. The
// holder of the conversation and of mu calls it.
func (s *Store) snapshotIfDue() {
	if s.snapping || s.closed || !s.claim.held() || s.at.Number-s.head.Number < uint64(s.opt.SnapshotEvery) && s.bytes < snapshotBytes {
		return
	}
	st, err := s.state.Load()
	if err != nil {
		return // closed
	}
	s.snapping = true
	at, guard, old := s.at.Mark, s.guard(), s.head
	s.jobs.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, snapshotWait)
		defer cancel()
		err := s.saveSnapshot(ctx, st, at, guard, old)
		if err != nil && s.life.Err() == nil {
			s.opt.Log.Warn("no snapshot was written; it is tried again", "err", err)
		}
		// Also when the wait has ended: else there would never be another one.
		_ = s.converse(s.life, func(context.Context) error {
			s.snapping = false
			return nil
		})
	})
}

// errLost: somebody else has the term, or has replaced the state, so nothing was changed.
var errLost = errors.New("etcd: the term was lost, or there is a newer snapshot")

// stillHead is the condition that a snapshot is the newest one.
func (s *Store) stillHead(h snapshotHead) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(s.keys.head()), "=", h.rev)
}

// saveSnapshot writes a snapshot, deletes what it makes superfluous, and asks for compaction. The
// entries since the snapshot before stay, so that a manager that is a little behind need not read all.
func (s *Store) saveSnapshot(ctx context.Context, st *store.State, at journal.Mark, guard []clientv3.Cmp, old snapshotHead) error {
	head, err := s.writeSnapshot(ctx, st, at, guard)
	if err != nil {
		return err
	}
	then := append(
		s.replaceHead(head),
		clientv3.OpDelete(s.keys.journal(), clientv3.WithRange(s.keys.entry(old.Number+1))),
	)
	if head.rev, err = s.commitHead(ctx, head, append(guard, s.stillHead(old)), then); err != nil {
		return err
	}
	if err := s.converse(ctx, func(context.Context) error {
		s.head, s.bytes = head, 0
		return nil
	}); err != nil {
		return err
	}
	if s.opt.NoCompact || old.rev == 0 {
		return nil
	}
	// Watches that are behind the snapshot before begin anew.
	if _, err := s.cli.Compact(ctx, old.rev); err != nil && s.life.Err() == nil {
		s.opt.Log.Debug("etcd was not compacted", "err", err)
	}
	return nil
}

// writeSnapshot writes the pieces of a snapshot, which mean nothing before the key "snapshot" has them.
func (s *Store) writeSnapshot(ctx context.Context, st *store.State, at journal.Mark, guard []clientv3.Cmp) (snapshotHead, error) {
	raw, err := journal.Append(nil, &journal.Entry{Mark: at, Wall: time.Now().UnixNano(), Ops: st.Ops()})
	if err != nil {
		return snapshotHead{}, err
	}
	head := snapshotHead{Version: formatVersion, ID: randomID(), Term: at.Term.Number, Owner: at.Term.Owner, Number: at.Number, Length: len(raw)}
	for p := range head.pieces() {
		v := raw[p*pieceLen : min((p+1)*pieceLen, len(raw))]
		r, err := s.transact(ctx, guard, []clientv3.Op{clientv3.OpPut(s.keys.snapshotPiece(head.ID, p), string(v))}, nil)
		if err != nil {
			return head, err
		}
		if !r.Succeeded {
			return head, errLost
		}
	}
	return head, nil
}

// replaceHead are the operations that make a snapshot the newest one, and delete all others.
func (s *Store) replaceHead(head snapshotHead) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpPut(s.keys.head(), encode(head)),
		clientv3.OpDelete(s.keys.snapshots(), clientv3.WithRange(s.keys.snapshot(head.ID))),
		clientv3.OpDelete(s.keys.snapshotEnd(head.ID), clientv3.WithRange(s.keys.snapshotsEnd())),
	}
}

// commitHead carries out what makes a snapshot the newest one, and returns the revision at which it
// became that. It may do so twice without harm.
func (s *Store) commitHead(ctx context.Context, head snapshotHead, guard []clientv3.Cmp, then []clientv3.Op) (rev int64, err error) {
	r, err := s.transact(ctx, guard, then, []clientv3.Op{clientv3.OpGet(s.keys.head())})
	switch {
	case err != nil:
		return 0, err
	case r.Succeeded:
		return r.Header.Revision, nil
	}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 && string(kvs[0].Value) == encode(head) {
		return kvs[0].ModRevision, nil
	}
	return 0, errLost
}

// Replace implements journal.Store. If it fails for want of an answer it may have been carried out;
// the state is then read anew.
func (s *Store) Replace(st *store.State, at journal.Mark) error {
	for _, o := range st.Ops() {
		if err := o.Check(); err != nil {
			return err
		}
	}
	ctx, cancel := s.bound(s.life, s.readWait())
	defer cancel()
	return s.reading(ctx, func(ctx context.Context) error {
		if !s.claim.held() {
			return s.noTerm()
		}
		// A snapshot that is being written would delete the pieces of this one.
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		was := s.head
		head, err := s.writeSnapshot(ctx, st, at, s.guard())
		if err == nil {
			s.stale = true
			_, err = s.commitHead(ctx, head, append(s.guard(), s.stillHead(was)), append(
				s.replaceHead(head),
				clientv3.OpDelete(s.keys.journal(), clientv3.WithRange(s.keys.journalEnd())),
			))
		}
		if err != nil && !errors.Is(err, errLost) {
			return err
		}
		return errors.Join(err, s.catchUp(ctx))
	})
}
