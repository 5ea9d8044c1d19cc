package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Note implements journal.Store. All managers share the note. It does not change any more after that,
// unless somebody sets it: a note whose SetNote failed is there, or never will be.
func (s *Store) Note() (note []byte, err error) {
	ctx, cancel := s.bound(s.life, s.readWait())
	defer cancel()
	err = s.converse(ctx, func(ctx context.Context) error {
		kvs, err := s.readNote(ctx)
		if err == nil && s.unsure && s.claim.held() {
			// An attempt that is late finds another revision then.
			kvs, err = s.placeNote(ctx, kvs, string(valueOf(kvs)))
		}
		note = valueOf(kvs)
		return err
	})
	return note, err
}

func valueOf(kvs []*mvccpb.KeyValue) []byte {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0].Value
}

func (s *Store) readNote(ctx context.Context) ([]*mvccpb.KeyValue, error) {
	r, err := s.transact(ctx, nil, []clientv3.Op{clientv3.OpGet(s.keys.note())}, nil)
	if err != nil {
		return nil, err
	}
	return r.Responses[0].GetResponseRange().Kvs, nil
}

// SetNote implements journal.Store. If it fails, the note may be the old or the new one; Note says which.
func (s *Store) SetNote(b []byte) error {
	ctx, cancel := s.bound(s.life, s.opt.Wait)
	defer cancel()
	return s.converse(ctx, func(ctx context.Context) error {
		if !s.claim.held() {
			return s.noTerm()
		}
		was, err := s.readNote(ctx)
		if err == nil {
			_, err = s.placeNote(ctx, was, string(b))
		}
		return err
	})
}

// placeNote writes the note in the place of one that was read. Each write has the condition that nobody
// wrote since, so that none of its attempts, or of those before, is carried out after it.
func (s *Store) placeNote(ctx context.Context, was []*mvccpb.KeyValue, value string) ([]*mvccpb.KeyValue, error) {
	for {
		when := append(s.guard(), clientv3.Compare(clientv3.ModRevision(s.keys.note()), "=", revOf(was)))
		s.unsure = true
		r, err := s.transact(ctx, when, []clientv3.Op{clientv3.OpPut(s.keys.note(), value)},
			[]clientv3.Op{clientv3.OpGet(s.keys.term()), clientv3.OpGet(s.keys.note())})
		if err != nil {
			return nil, err
		}
		if r.Succeeded {
			s.unsure = false
			return []*mvccpb.KeyValue{{Value: []byte(value), ModRevision: r.Header.Revision}}, nil
		}
		if term := r.Responses[0].GetResponseRange().Kvs; !s.holds(term) {
			s.unsure = false
			return nil, s.loseTerm(term)
		}
		// An attempt without an answer was carried out: this one, or one before.
		if was = r.Responses[1].GetResponseRange().Kvs; len(was) == 1 && string(was[0].Value) == value {
			s.unsure = false
			return was, nil
		}
	}
}
