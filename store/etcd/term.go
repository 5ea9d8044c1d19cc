package etcd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"heddle/ib"
	"heddle/store"
	"heddle/store/journal"
)

// Errors of a Store that has no term. Each is also store.ErrUnavailable.
var (
	// ErrSuperseded: another manager, or an import, has won the term since.
	ErrSuperseded = errors.New("the term was lost")
	// ErrNoTerm: this Store has not won the term, or has resigned.
	ErrNoTerm = errors.New("this manager has no term")
	// ErrForked: etcd lacks what it acknowledged, as after the restore of a backup.
	ErrForked = errors.New("etcd does not have the last entry that it acknowledged (was a backup restored?)")
)

// claim is a term key that this Store wrote.
type claim struct {
	value string
	rev   int64
}

func (c claim) held() bool { return c.rev != 0 }

// guard are the conditions of every write: the term is still this Store's. The revision says that
// nobody wrote the key since; the value, which is random, says so in the history of a restored backup
// too.
func (s *Store) guard() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.keys.term()), "=", s.claim.rev),
		clientv3.Compare(clientv3.Value(s.keys.term()), "=", s.claim.value),
	}
}

// holds reports whether the term key, as it was read, is the claim of this Store.
func (s *Store) holds(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) == 1 && kvs[0].ModRevision == s.claim.rev && string(kvs[0].Value) == s.claim.value
}

// noTerm is the error of a write without a term.
func (s *Store) noTerm() error {
	if s.lost != nil {
		return s.lost
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, ErrNoTerm)
}

// loseTerm gives up the claim because of the term key as it was read, and returns the error of all
// further writes.
func (s *Store) loseTerm(kvs []*mvccpb.KeyValue) error {
	by := ""
	if len(kvs) == 1 {
		if t, err := decodeTerm(kvs[0].Value); err == nil {
			by = " to " + t.String()
			if t.GUID == 0 {
				by += ", which replaces the state"
			}
		}
	}
	return s.drop(fmt.Errorf("%w: %w%s", store.ErrUnavailable, ErrSuperseded, by))
}

// drop gives up the claim because of err.
func (s *Store) drop(err error) error {
	if s.claim.held() {
		s.opt.Log.Warn("changes are refused", "err", err)
	}
	s.setClaim(claim{})
	s.lost = err
	return err
}

// fork gives up a claim whose history etcd no longer has.
func (s *Store) fork() error {
	s.stale = true
	return s.drop(fmt.Errorf("%w: %w", store.ErrUnavailable, ErrForked))
}

// setClaim changes the claim. The holder of the conversation calls it.
func (s *Store) setClaim(c claim) {
	s.claim = c
	s.holding.Store(c.held())
}

// Holds reports whether this Store has the term, as far as it knows. It does not wait.
func (s *Store) Holds() bool { return s.holding.Load() && !s.gaveUp.Load() }

func randomID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Claim takes the term from whoever has it, without an entry in the journal. From then on this Store can
// write, and the one that had the term cannot. Tools that replace the state use ClaimVacant.
func (s *Store) Claim(ctx context.Context, guid ib.GUID) error {
	return s.converse(ctx, func(ctx context.Context) error { return s.take(ctx, guid, nil) })
}

// Win is Claim for a manager that became master of the subnet: it also begins a term in the journal
// with an entry that has the reason. It returns the last entry before. If that is not the one up to
// which the manager's cores know the state, they must be started anew from Load.
func (s *Store) Win(ctx context.Context, guid ib.GUID, reason string) (had journal.Mark, err error) {
	if len(reason) > journal.MaxReason {
		reason = reason[:journal.MaxReason]
	}
	err = s.converse(ctx, func(ctx context.Context) error {
		if err := s.take(ctx, guid, nil); err != nil {
			return err
		}
		had = s.position().Mark
		b, err := newBatch([]journal.Entry{{
			Mark:  journal.Mark{Term: had.Term.Next(guid), Number: had.Number + 1},
			Wall:  time.Now().UnixNano(),
			Begin: &journal.Begin{Had: had, Reason: reason},
		}})
		if err == nil {
			err = s.write(ctx, b)
		}
		if err != nil && s.claim.held() {
			// Without this entry the next ones would seem to be of the term before.
			s.setClaim(claim{})
			s.lost, s.doubt = nil, nil
		}
		return err
	})
	return had, err
}

// take claims the term and reads what was written before. may refuses to take it from an owner; nil: from
// nobody.
func (s *Store) take(ctx context.Context, guid ib.GUID, may func(now termValue) error) error {
	mine := encode(termValue{Version: formatVersion, Claim: randomID(), Name: s.opt.Name, GUID: guid})
	// What an earlier claim of ours left in doubt can be written no more when this one succeeds. If
	// it has been written, it is read below like anybody's.
	s.setClaim(claim{})
	s.doubt, s.unsure = nil, false
	var c claim
	get := []clientv3.Op{clientv3.OpGet(s.keys.term())}
	r, err := s.transact(ctx, nil, get, nil)
	for err == nil {
		var seen int64
		if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 {
			if string(kvs[0].Value) == mine { // of an attempt without an answer
				c = claim{mine, kvs[0].ModRevision}
				break
			}
			now, err := decodeTerm(kvs[0].Value)
			if err == nil && may != nil {
				err = may(now)
			}
			if err != nil {
				return err
			}
			seen = kvs[0].ModRevision
		}
		// Without the condition an attempt that is late would take the term from its next owner.
		free := clientv3.Compare(clientv3.ModRevision(s.keys.term()), "=", seen)
		r, err = s.transact(ctx, []clientv3.Cmp{free}, []clientv3.Op{clientv3.OpPut(s.keys.term(), mine)}, get)
		if err == nil && r.Succeeded {
			c = claim{mine, r.Header.Revision}
			break
		}
	}
	if err != nil {
		return err
	}
	// As a reader: this Store may be so far behind that it has to begin with a snapshot.
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	s.setClaim(c)
	s.lost = nil
	return nil
}

// Resign gives the term back, when this manager is no longer master. It does nothing if it has none. If it
// fails, this Store has no term all the same.
func (s *Store) Resign(ctx context.Context) error {
	err := s.reading(ctx, func(ctx context.Context) error {
		if !s.claim.held() {
			return nil
		}
		t, err := decodeTerm([]byte(s.claim.value))
		if err != nil {
			return err
		}
		t.Released = true
		_, err = s.transact(ctx, s.guard(), []clientv3.Op{clientv3.OpPut(s.keys.term(), encode(t))}, nil)
		s.setClaim(claim{})
		s.lost = nil
		return err
	})
	if err != nil && s.Holds() {
		s.gaveUp.Store(true)
	}
	return err
}
