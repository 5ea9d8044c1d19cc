package process_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"heddle/ib"
	"heddle/internal/etcdmodel"
	"heddle/store"
	"heddle/store/etcd"
	"heddle/store/journal"
)

// lenient leaves conditions out.
type lenient struct {
	*etcdmodel.Client
	broken mutation
}

func (l lenient) Txn(ctx context.Context) clientv3.Txn {
	return lenientTxn{l.Client.Txn(ctx), l.broken}
}

type lenientTxn struct {
	clientv3.Txn
	broken mutation
}

func (x lenientTxn) If(list ...clientv3.Cmp) clientv3.Txn {
	var kept []clientv3.Cmp
	for _, c := range list {
		key := string(c.GetCompare().Key)
		_, create := c.GetCompare().TargetUnion.(*pb.Compare_CreateRevision)
		if x.broken == noTermGuard && strings.HasSuffix(key, "/term") || x.broken == noNumberGuard && create {
			continue
		}
		kept = append(kept, c)
	}
	return x.Txn.If(kept...)
}

// mutant is a store with a broken guard.
type mutant struct {
	*etcd.Store
	broken mutation
	mu     sync.Mutex
	known  journal.Mark // up to which cores have read the state; guarded by mu
}

func (m *mutant) Followed() (*store.State, journal.Mark, error) {
	st, at, err := m.Store.Followed()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = at
	return st, at, err
}

func (m *mutant) Synced() (journal.Mark, time.Time) {
	at, when := m.Store.Synced()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken == noRestart && !m.Holds() {
		at = m.known
	}
	return at, when
}

func (m *mutant) Win(ctx context.Context, guid ib.GUID, reason string) (journal.Mark, error) {
	had, err := m.Store.Win(ctx, guid, reason)
	m.mu.Lock()
	defer m.mu.Unlock()
	if (m.broken == noRestart || m.broken == noSecondRestart) && err == nil {
		return m.known, nil
	}
	return had, err
}

func (m *mutant) Apply(ops []store.Op) error {
	err := m.Store.Apply(ops)
	if m.broken == acknowledgesAll && errors.Is(err, store.ErrUnavailable) {
		return nil
	}
	return err
}

func (m *mutant) Vacant(ctx context.Context) (bool, error) {
	vacant, err := m.Store.Vacant(ctx)
	return vacant && m.broken != neverVacant, err
}

// TestCampaignMutations: a campaign finds each broken guard.
func TestCampaignMutations(t *testing.T) {
	for broken := sound + 1; broken < mutations; broken++ {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			for seed := range uint64(400) {
				var err error
				synctest.Test(t, func(*testing.T) { err = (&campaign{seed: seed, broken: broken}).run() })
				if err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no schedule found it")
		})
	}
}
