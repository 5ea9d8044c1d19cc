package etcd

import (
	"context"
	"encoding/json"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A master without the term cannot see whether the owner of the term lives, if the two are in different
// parts of the subnet. It asks: it writes the key "question", and the owner, which reads it every
// AttendEvery, writes that it was answered. An owner that does not answer for answerWait is gone, or has
// lost etcd; either way it loses nothing if another one wins the term.

// AttendEvery is how often the owner of the term is to call Attend.
const AttendEvery = 2 * time.Second

// answerWait is how long a question waits for its answer.
const answerWait = 3 * AttendEvery

// question is the value of the key "question".
type question struct {
	Version int `json:"version"`
	// Claim is that of the term key: its owner is asked.
	Claim string `json:"claim"`
	// ID is random, so that an answer belongs to one question.
	ID       string `json:"id"`
	Answered bool   `json:"answered,omitempty"`
}

// readQuestion reads the key "question". One that this program does not know counts as none.
func readQuestion(kvs []*mvccpb.KeyValue) (q question) {
	if len(kvs) == 1 && json.Unmarshal(kvs[0].Value, &q) == nil && q.Version == formatVersion {
		return q
	}
	return question{}
}

// asked is a question that nobody had answered when this Store saw it first.
type asked struct {
	id string // "": there is none
	at time.Time
}

// Attend says that this Store, which has the term, lives, if another manager asks. It also finds out
// whether the term was lost, and whether etcd is away.
func (s *Store) Attend(ctx context.Context) error {
	err := s.converse(ctx, func(ctx context.Context) error {
		if !s.claim.held() {
			return s.noTerm()
		}
		get := []clientv3.Op{clientv3.OpGet(s.keys.term()), clientv3.OpGet(s.keys.question())}
		r, err := s.transact(ctx, nil, get, nil)
		if err != nil {
			return err
		}
		if term := r.Responses[0].GetResponseRange().Kvs; !s.holds(term) {
			return s.loseTerm(term)
		}
		t, err := decodeTerm([]byte(s.claim.value))
		if err != nil {
			return err
		}
		q := readQuestion(r.Responses[1].GetResponseRange().Kvs)
		if q.Answered || q.Claim != t.Claim {
			return nil
		}
		q.Answered = true
		_, err = s.transact(ctx, s.guard(), []clientv3.Op{clientv3.OpPut(s.keys.question(), encode(q))}, nil)
		return err
	})
	s.wentAway(err) // also if somebody else waits for etcd for so long
	return err
}

// Vacant reports whether nobody has the term: its last owner resigned, or did not answer. It has to be
// called again and again: the first call asks, a later one has the result.
func (s *Store) Vacant(ctx context.Context) (vacant bool, err error) {
	err = s.converse(ctx, func(ctx context.Context) error {
		vacant, err = s.ask(ctx)
		if err != nil || vacant {
			s.asked = asked{}
		}
		return err
	})
	return vacant, err
}

func (s *Store) ask(ctx context.Context) (vacant bool, err error) {
	r, err := s.transact(ctx, nil, []clientv3.Op{clientv3.OpGet(s.keys.term()), clientv3.OpGet(s.keys.question())}, nil)
	if err != nil {
		return false, err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return true, nil
	}
	t, err := decodeTerm(kvs[0].Value)
	if err != nil || t.Released {
		return t.Released, err
	}
	before := r.Responses[1].GetResponseRange().Kvs
	q := readQuestion(before)
	switch {
	case q.Claim == t.Claim && !q.Answered && q.ID != s.asked.id: // somebody else's: one is enough
		s.asked = asked{q.ID, time.Now()}
		return false, nil
	case q.Claim == t.Claim && !q.Answered:
		return time.Since(s.asked.at) >= answerWait, nil
	case q.Claim == t.Claim && time.Since(s.asked.at) < answerWait:
		return false, nil // it was answered: the next question has time
	}
	q = question{Version: formatVersion, Claim: t.Claim, ID: randomID()}
	s.asked = asked{q.ID, time.Now()}
	_, err = s.transact(ctx, []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.keys.term()), "=", kvs[0].ModRevision),
		clientv3.Compare(clientv3.ModRevision(s.keys.question()), "=", revOf(before)),
	}, []clientv3.Op{clientv3.OpPut(s.keys.question(), encode(q))}, nil)
	return false, err
}
