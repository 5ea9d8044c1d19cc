package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"heddle/store"
	"heddle/store/journal"
)

// Limits of one transaction: etcd takes 128 operations.
const (
	batchEntries = 100
	batchBytes   = pieceLen
)

// waiter is one Apply or Append.
type waiter struct {
	ops   []store.Op
	entry *journal.Entry // of Append, whose mark is given; nil for Apply
	done  chan error     // has room for the result
	// taken: it is no longer in the queue.
	taken bool // guarded by Store.mu
}

// Apply implements store.Store. Those that come while a transaction is under way share the next one.
func (s *Store) Apply(ops []store.Op) error {
	for i := range ops {
		if err := ops[i].Check(); err != nil {
			return s.unlessClosed(err)
		}
	}
	if len(ops) == 0 {
		return s.unlessClosed(nil)
	}
	return s.submit(&waiter{ops: ops})
}

// Append implements journal.Store.
func (s *Store) Append(e *journal.Entry) error { return s.submit(&waiter{ops: e.Ops, entry: e}) }

func (s *Store) unlessClosed(err error) error {
	if s.life.Err() != nil {
		return errClosed
	}
	return err
}

// submit waits until the change is written, or refuses it.
func (s *Store) submit(w *waiter) error {
	ctx, cancel := s.bound(s.life, s.opt.Wait)
	defer cancel()
	w.done = make(chan error, 1)
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return errClosed
	case s.away != nil: // others have waited already
		defer s.mu.Unlock()
		return s.away
	}
	s.queue = append(s.queue, w)
	s.mu.Unlock()
	select {
	case err := <-w.done: // with somebody else's transaction
		return err
	case s.conversation <- struct{}{}:
		for !s.isTaken(w) && (ctx.Err() == nil || !s.withdraw(w)) {
			s.commit(ctx)
		}
		<-s.conversation
		if len(w.done) == 0 {
			return s.over(ctx.Err()) // withdrawn
		}
	case <-ctx.Done():
		if s.withdraw(w) {
			return s.over(ctx.Err())
		}
	}
	return <-w.done
}

func (s *Store) isTaken(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.taken
}

// withdraw removes w from the queue, if it is still there.
func (s *Store) withdraw(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.taken {
		return false
	}
	w.taken = true
	s.queue = slices.DeleteFunc(s.queue, func(q *waiter) bool { return q == w })
	return true
}

// commit writes what waits in the queue, as much as fits into a transaction.
func (s *Store) commit(ctx context.Context) {
	s.giveUp()
	err := s.settle(ctx)
	if err == nil && s.stale {
		err = s.catchUp(ctx)
	}
	if err == nil && !s.claim.held() {
		err = s.noTerm()
	}
	if err != nil {
		s.finish(s.fetch(), err)
		return
	}
	list, b := s.gather()
	if len(list) > 0 {
		s.finish(list, s.write(ctx, b))
	}
}

// fetch takes all that wait.
func (s *Store) fetch() []*waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.queue
	s.queue = nil
	for _, w := range list {
		w.taken = true
	}
	return list
}

func (s *Store) finish(list []*waiter, err error) {
	for _, w := range list {
		w.done <- err
	}
}

// gather takes from the queue what fits into one transaction, and numbers it. What cannot be written
// at all gets its error.
func (s *Store) gather() (list []*waiter, b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = &batch{}
	last, size := s.at.Mark, 0
	for len(s.queue) > 0 && len(list) < batchEntries {
		w := s.queue[0]
		e := journal.Entry{Mark: journal.Mark{Term: last.Term, Number: last.Number + 1}, Wall: time.Now().UnixNano(), Ops: w.ops}
		if w.entry != nil {
			e = *w.entry
		}
		err := journal.Follows(last, e.Mark)
		var raw []byte
		if err == nil {
			raw, err = journal.Append(nil, &e)
		}
		if size += len(raw); err == nil && len(list) > 0 && size > batchBytes {
			break // with the next transaction
		}
		w.taken = true
		s.queue = s.queue[1:]
		if err != nil {
			w.done <- err
			size -= len(raw)
			continue
		}
		list, last = append(list, w), e.Mark
		b.add(raw)
	}
	return list, b
}

// batch are entries that one transaction writes.
type batch struct {
	raw     [][]byte
	entries []journal.Entry // decoded from raw, so they share nothing with the callers
	// void is the entry that is written in the place of the first one, to make sure that the batch
	// never is; nil: not needed yet.
	void []byte
	// insist: it is what etcd must have before anything else, so it is written again instead.
	insist bool
}

// newBatch encodes entries.
func newBatch(list []journal.Entry) (*batch, error) {
	b := &batch{}
	for i := range list {
		raw, err := journal.Append(nil, &list[i])
		if err != nil {
			return nil, err
		}
		b.add(raw)
	}
	return b, nil
}

func (b *batch) add(raw []byte) {
	e, _, err := journal.Decode(raw)
	if err != nil {
		panic("etcd: an entry that was just encoded: " + err.Error())
	}
	b.raw, b.entries = append(b.raw, raw), append(b.entries, e)
}

func (b *batch) first() uint64 { return b.entries[0].Number }

// write writes a batch in one transaction. If it is not known whether it has been carried out, it is
// left in doubt, for settle.
func (s *Store) write(ctx context.Context, b *batch) error {
	s.doubt = b
	var puts []clientv3.Op
	for i, raw := range b.raw {
		if len(raw) > pieceLen { // alone in its batch
			if err := s.writePieces(ctx, b.first(), raw); err != nil {
				// A piece may still arrive, so no other entry can have this number.
				s.wentAway(err)
				return err
			}
			raw = raw[:pieceLen]
		}
		puts = append(puts, clientv3.OpPut(s.keys.entry(b.entries[i].Number), string(raw)))
	}
	at, err := s.place(ctx, b.first(), puts, b.raw[0])
	if other := (*otherError)(nil); errors.As(err, &other) {
		s.doubt = nil
		return s.fork()
	}
	if err != nil {
		s.wentAway(err)
		return err
	}
	s.doubt = nil
	s.accept(b, at)
	return nil
}

// writePieces writes all of a large entry but its first piece, without which the others are nothing.
// Once something is in its place, a piece that is late changes nothing.
func (s *Store) writePieces(ctx context.Context, n uint64, raw []byte) error {
	for p := 1; p*pieceLen < len(raw); p++ {
		v := raw[p*pieceLen : min((p+1)*pieceLen, len(raw))]
		free := append(s.guard(), clientv3.Compare(clientv3.CreateRevision(s.keys.entry(n)), "=", 0))
		r, err := s.transact(ctx, free, []clientv3.Op{clientv3.OpPut(s.keys.piece(n, p), string(v))}, []clientv3.Op{clientv3.OpGet(s.keys.term())})
		switch {
		case err != nil:
			return err
		case r.Succeeded:
		case s.holds(r.Responses[0].GetResponseRange().Kvs):
			return nil // the entry is there; whose it is, place finds out
		default:
			s.doubt = nil
			return s.loseTerm(r.Responses[0].GetResponseRange().Kvs)
		}
	}
	return nil
}

// otherError: an entry of ours is where another one should be placed.
type otherError struct{ kv *mvccpb.KeyValue }

func (*otherError) Error() string { return "etcd: the entry has been written before" }

// place carries out puts, the first of which writes entry n with the value want, if the term is ours,
// the entry before is the one that we know, and there is no entry n. It returns the revision at which
// n was written, now or by an earlier attempt. A value other than want is an *otherError.
func (s *Store) place(ctx context.Context, n uint64, puts []clientv3.Op, want []byte) (rev int64, err error) {
	at := s.position()
	when := append(
		s.guard(),
		clientv3.Compare(clientv3.ModRevision(s.keys.entry(at.Number)), "=", at.rev),
		clientv3.Compare(clientv3.CreateRevision(s.keys.entry(n)), "=", 0),
	)
	r, err := s.transact(ctx, when, puts, []clientv3.Op{
		clientv3.OpGet(s.keys.term()), clientv3.OpGet(s.keys.entry(n)), clientv3.OpGet(s.keys.entry(at.Number)),
	})
	if err != nil {
		return 0, err
	}
	if r.Succeeded {
		return r.Header.Revision, nil
	}
	term, there, before := r.Responses[0].GetResponseRange().Kvs, r.Responses[1].GetResponseRange().Kvs, r.Responses[2].GetResponseRange().Kvs
	if len(there) == 1 && string(there[0].Value) == string(want[:min(len(want), pieceLen)]) {
		return there[0].ModRevision, nil // even if the term has been lost since
	}
	switch {
	case !s.holds(term):
		s.doubt = nil
		return 0, s.loseTerm(term)
	case revOf(before) == at.rev && len(there) == 1:
		return 0, &otherError{there[0]}
	}
	s.doubt = nil
	return 0, s.fork()
}

func revOf(kvs []*mvccpb.KeyValue) int64 {
	if len(kvs) == 0 {
		return 0
	}
	return kvs[0].ModRevision
}

// accept carries out what has been written at a revision.
func (s *Store) accept(b *batch, rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.entries {
		s.follow(&b.entries[i], b.raw[i], rev)
	}
	s.snapshotIfDue()
}

// follow carries out the entry after the last one. The holder of mu calls it.
func (s *Store) follow(e *journal.Entry, raw []byte, rev int64) {
	if err := s.state.Apply(e.Ops); err != nil {
		panic("etcd: operations that were checked: " + err.Error()) // Memory fails in no other way
	}
	s.at.Mark, s.at.rev, s.at.sum = e.Mark, rev, sumOf(raw)
	s.synced = time.Now()
	s.bytes += len(raw)
}

// sumOf is the checksum at the end of an entry.
func sumOf(raw []byte) uint32 { return binary.BigEndian.Uint32(raw[len(raw)-4:]) }

// settle finds out what became of a batch in doubt, and sees to it that it has no effect: its callers
// have been told that it has none. Where it was not carried out, an entry without operations takes its
// place, so that it never is. Where it was, its operations are undone by the next entry.
func (s *Store) settle(ctx context.Context) error {
	for s.doubt != nil {
		b := s.doubt
		if b.insist {
			if err := s.write(ctx, b); err != nil {
				return err
			}
			continue
		}
		if b.void == nil {
			raw, err := journal.Append(nil, &journal.Entry{Mark: b.entries[0].Mark, Wall: time.Now().UnixNano()})
			if err != nil {
				return err
			}
			b.void = raw
		}
		rev, err := s.place(ctx, b.first(), []clientv3.Op{clientv3.OpPut(s.keys.entry(b.first()), string(b.void))}, b.void)
		other := (*otherError)(nil)
		switch {
		case err == nil:
			v := &batch{}
			v.add(b.void)
			s.doubt = nil
			s.accept(v, rev)
		case errors.As(err, &other):
			if string(other.kv.Value) != string(b.raw[0][:min(len(b.raw[0]), pieceLen)]) {
				s.doubt = nil
				return s.fork()
			}
			undo, err := s.undo(b)
			if err != nil {
				return err
			}
			s.accept(b, other.kv.ModRevision)
			s.doubt = undo // nil if there is nothing to undo
		default:
			s.wentAway(err)
			return err
		}
	}
	return nil
}

// undo returns the entry after b that gives the state its contents before b; nil if b has no
// operations.
func (s *Store) undo(b *batch) (*batch, error) {
	var ops []store.Op
	for i := range b.entries {
		ops = append(ops, b.entries[i].Ops...)
	}
	if len(ops) == 0 {
		return nil, nil
	}
	last := b.entries[len(b.entries)-1].Mark
	e := journal.Entry{Mark: journal.Mark{Term: last.Term, Number: last.Number + 1}, Wall: time.Now().UnixNano(), Ops: s.state.Undo(ops)}
	u, err := newBatch([]journal.Entry{e})
	if err != nil {
		return nil, fmt.Errorf("etcd: undo: %w", err)
	}
	u.insist = true
	return u, nil
}

// wentAway has changes refused without a wait from now on, until etcd answers again. Anybody may call it.
func (s *Store) wentAway(err error) {
	if !errors.Is(err, store.ErrUnavailable) || !s.Holds() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil || s.closed {
		return
	}
	s.away = err
	s.opt.Log.Error("etcd is away: changes are refused until it answers", "err", err)
	s.jobs.Go(s.awaitReturn)
}

// awaitReturn asks etcd until it answers, and settles what was in doubt.
func (s *Store) awaitReturn() {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		ctx, cancel := s.bound(s.life, s.opt.Wait)
		err := s.reading(ctx, s.catchUp)
		cancel()
		if s.life.Err() != nil {
			return
		}
		if err == nil || !errors.Is(err, store.ErrUnavailable) || !s.Holds() {
			s.mu.Lock()
			s.away = nil
			s.mu.Unlock()
			if err != nil {
				s.opt.Log.Warn("etcd is back, but the state cannot be read", "err", err)
			} else {
				s.opt.Log.Info("etcd is back")
			}
			return
		}
		if rest(s.life, pause) != nil {
			return
		}
	}
}

// Away returns why changes are refused at present without being tried, or nil.
func (s *Store) Away() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}
