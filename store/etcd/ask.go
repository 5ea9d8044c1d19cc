package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"heddle/store"
)

// Pauses between attempts.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = time.Second
)

// attempts of a change fit into Options.Wait: the client asks another member in each, and one of them
// may be stopped without having closed its connections. Reads may bring much, so they have longer.
const (
	attempts    = 4
	attemptMost = time.Second
	readMost    = 5 * time.Second
)

// attempt is how long one attempt may take.
func (s *Store) attempt(then []clientv3.Op) time.Duration {
	if slices.ContainsFunc(then, func(o clientv3.Op) bool { return !o.IsGet() }) {
		return min(s.opt.Wait/attempts, attemptMost)
	}
	return min(s.opt.Wait, readMost)
}

// transact carries out a transaction: again and again, until etcd answers or ctx ends. So it may be
// carried out more than once, and after an error: conditions must see to it that this does no harm.
func (s *Store) transact(ctx context.Context, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	var last error
	limit := s.attempt(then)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		a, cancel := context.WithTimeout(ctx, limit)
		r, err := s.cli.Txn(a).If(when...).Then(then...).Else(otherwise...).Commit()
		cancel()
		switch {
		case err == nil:
			return r, nil
		case refused(err):
			return nil, fmt.Errorf("etcd: %w", err)
		case ctx.Err() == nil || last == nil:
			last = err // the end of ctx says less than what came before
		}
		if rest(ctx, min(pause, limit)) != nil {
			return nil, s.over(last)
		}
	}
}

// rest waits, and returns the error of ctx if that ends before.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused reports whether etcd will give the same answer again.
func refused(err error) bool {
	switch {
	case errors.Is(err, rpctypes.ErrInvalidAuthToken), errors.Is(err, rpctypes.ErrAuthOldRevision):
		return false // the client asks for a new token
	case errors.Is(err, rpctypes.ErrCompacted):
		return true
	}
	c := codeOf(err)
	return c == codes.PermissionDenied || c == codes.Unauthenticated || c == codes.InvalidArgument || c == codes.FailedPrecondition || c == codes.Unimplemented
}

func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}

// unavailable is ErrUnavailable with what etcd, or the way to it, said.
func unavailable(err error) error {
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return err
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: the data base of etcd is full: compact and defragment it, then disarm the alarm (docs/ha.md)", store.ErrUnavailable)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: etcd does not answer, or has no majority", store.ErrUnavailable)
	}
	return fmt.Errorf("%w: etcd: %w", store.ErrUnavailable, err)
}
