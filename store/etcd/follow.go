package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// followPoll is how often a follower reads by number although its watch brought nothing: after the
// restore of a backup a watch waits for a revision that may be far away.
const followPoll = 10 * time.Second

// Follow keeps the state up to date while another manager writes it, until ctx ends, so that Load
// and Win take no longer than the entries of the last moments. It returns the error that ended it:
// that of ctx, or one that asking again does not mend.
func (s *Store) Follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := s.followOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return s.unlessClosed(ctx.Err())
		case err == nil:
			pause = firstPause
		case refused(err) && !errors.Is(err, rpctypes.ErrCompacted):
			return err
		}
		if rest(ctx, pause) != nil {
			return s.unlessClosed(ctx.Err())
		}
	}
}

// followOnce reads by number what there is, and then follows one watch until it ends.
func (s *Store) followOnce(ctx context.Context) error {
	if err := s.readBounded(ctx); err != nil {
		return err
	}
	return s.watch(ctx, s.position().seen+1)
}

func (s *Store) readBounded(ctx context.Context) error {
	ctx, cancel := s.bound(ctx, s.readWait())
	defer cancel()
	return s.reading(ctx, s.catchUp)
}

// watch follows the entries that are written from a revision on.
func (s *Store) watch(ctx context.Context, rev int64) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	events := s.cli.Watch(clientv3.WithRequireLeader(watching), s.keys.journal(),
		clientv3.WithRange(s.keys.journalEnd()), clientv3.WithRev(rev), clientv3.WithFilterDelete())
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
			if err := s.readBounded(ctx); err != nil {
				return err
			}
		case w, ok := <-events:
			if !ok || w.Err() != nil { // compacted, or the member lost its leader: by number, then a new watch
				return w.Err()
			}
			for _, ev := range w.Events {
				known, err := s.brought(ctx, ev)
				if err == nil && !known {
					err = s.readBounded(ctx)
				}
				if err != nil {
					return err
				}
			}
		}
	}
}

// brought takes what a watch brought, if it is the next entry, complete, of the same term: only then it
// is sure that it follows what this Store has, and not an entry of a backup that was restored meanwhile.
// Everything else is read by number: then known is false.
func (s *Store) brought(ctx context.Context, ev *clientv3.Event) (known bool, err error) {
	n, p, ok := s.keys.parseEntry(string(ev.Kv.Key))
	if !ok || ev.Type != clientv3.EventTypePut {
		return false, nil
	}
	if p != 0 || n <= s.position().Number {
		return true, nil // a piece means nothing alone; an entry that we know, or wrote
	}
	if size, err := lengthOf(ev.Kv.Value); err != nil || size != len(ev.Kv.Value) {
		return false, nil
	}
	err = s.converse(ctx, func(ctx context.Context) error {
		at := s.position()
		if n != at.Number+1 || s.stale || s.claim.held() || s.doubt != nil {
			known = n <= at.Number
			return nil
		}
		e, raw, err := s.entryOf(ctx, ev.Kv)
		if err != nil {
			return err
		}
		if known = e.Term == at.Term; known {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.follow(&e, raw, ev.Kv.ModRevision)
		}
		return nil
	})
	return known, err
}
