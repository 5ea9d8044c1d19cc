package etcd

import (
	"context"
	"encoding/json"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"heddle/ib"
)

// A master without the term cannot see whether the owner of the term lives, if the two are in different
// parts of the subnet. It asks: it writes the key "question", and the owner, which reads it every
// AttendEvery, writes that it was answered. An owner that does not answer for AnswerWait is gone, or has
// lost etcd; either way it loses nothing if another one wins the term.

// AttendEvery is how often the owner of the term is to call Attend.
const AttendEvery = 2 * time.Second

// AnswerWait is how long a question waits for its answer.
const AnswerWait = 3 * AttendEvery

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

// verdict is what is known of the owner of the term.
type verdict uint8

const (
	pending  verdict = iota // it has been asked, and has time to answer
	answered                // it lives
	vacant                  // it resigned, or did not answer, or there is none
)

// Vacant reports whether nobody has the term: its last owner resigned, or did not answer. It has to be
// called again and again: the first call asks, a later one has the result.
func (s *Store) Vacant(ctx context.Context) (bool, error) {
	var v verdict
	err := s.converse(ctx, func(ctx context.Context) (err error) {
		_, v, err = s.ask(ctx)
		if err != nil || v == vacant {
			s.asked = asked{}
		}
		return err
	})
	return v == vacant, err
}

// OwnerError: the owner of the term lives.
type OwnerError struct{ Owner string }

// Error implements error.
func (e *OwnerError) Error() string {
	return "in use by " + e.Owner + ", which has the term"
}

// askPause is between two looks for an answer.
const askPause = 100 * time.Millisecond

// ClaimVacant is Claim if nobody has the term. Else it returns an *OwnerError. asking is called with the
// owner that is asked whether it lives: its answer may take AnswerWait.
func (s *Store) ClaimVacant(ctx context.Context, guid ib.GUID, asking func(owner string)) error {
	for first := true; ; first = false {
		var t termValue
		var v verdict
		err := s.converse(ctx, func(ctx context.Context) (err error) {
			t, v, err = s.ask(ctx)
			if err != nil || v == pending {
				return err
			}
			s.asked = asked{}
			if v == answered {
				return &OwnerError{t.String()}
			}
			return s.take(ctx, guid, func(now termValue) error {
				if now.Released || now.Claim == t.Claim {
					return nil
				}
				return &OwnerError{now.String()}
			})
		})
		if err != nil || v != pending {
			return err
		}
		if first {
			asking(t.String())
		}
		if err := rest(ctx, askPause); err != nil {
			return s.over(err)
		}
	}
}

// ask looks for the answer to a question, and asks it if nobody has. It returns the owner of the term too.
func (s *Store) ask(ctx context.Context) (t termValue, v verdict, err error) {
	r, err := s.transact(ctx, nil, []clientv3.Op{clientv3.OpGet(s.keys.term()), clientv3.OpGet(s.keys.question())}, nil)
	if err != nil {
		return t, pending, err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return t, vacant, nil
	}
	if t, err = decodeTerm(kvs[0].Value); err != nil {
		return t, pending, err
	}
	before := r.Responses[1].GetResponseRange().Kvs
	q := readQuestion(before)
	switch mine := q.Claim == t.Claim; {
	case t.Released:
		return t, vacant, nil
	case mine && !q.Answered && q.ID != s.asked.id: // somebody else's: one is enough
		s.asked = asked{q.ID, time.Now()}
		return t, pending, nil
	case mine && !q.Answered && time.Since(s.asked.at) >= AnswerWait:
		return t, vacant, nil
	case mine && !q.Answered:
		return t, pending, nil
	case mine && time.Since(s.asked.at) < AnswerWait: // the next question has time
		return t, answered, nil
	}
	q = question{Version: formatVersion, Claim: t.Claim, ID: randomID()}
	s.asked = asked{q.ID, time.Now()}
	_, err = s.transact(ctx, []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.keys.term()), "=", kvs[0].ModRevision),
		clientv3.Compare(clientv3.ModRevision(s.keys.question()), "=", revOf(before)),
	}, []clientv3.Op{clientv3.OpPut(s.keys.question(), encode(q))}, nil)
	return t, pending, err
}
