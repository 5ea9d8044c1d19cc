package etcd_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"heddle/internal/etcdtest"
	"heddle/store"
	"heddle/store/boltdb"
)

// BenchmarkJoins stores joins as the SA does: one record for each, many in one Apply (at most 1,024,
// daemon.maxChanges), by one or more callers. joins/s is what the SA can acknowledge.
func BenchmarkJoins(b *testing.B) {
	for _, members := range []int{0, 1, 3} {
		name := "bbolt"
		if members > 0 {
			name = fmt.Sprintf("members=%d", members)
		}
		b.Run(name, func(b *testing.B) {
			create := func(b *testing.B) store.Store {
				s, err := boltdb.Open(filepath.Join(b.TempDir(), boltdb.FileName))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { s.Close() })
				return s
			}
			if members > 0 {
				c := etcdtest.Start(b, members)
				o := options(c)
				create = func(b *testing.B) store.Store {
					o.Prefix = options(c).Prefix
					s := open(b, o)
					win(b, s, 1)
					return s
				}
			}
			for _, x := range []struct{ callers, joins int }{{1, 1}, {1, 64}, {1, 1024}, {3, 64}, {64, 1}} {
				b.Run(fmt.Sprintf("callers=%d/joins=%d", x.callers, x.joins), func(b *testing.B) { joins(b, create(b), x.callers, x.joins) })
			}
		})
	}
}

func joins(b *testing.B, s store.Store, callers, each int) {
	var next atomic.Uint64
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				ops := make([]store.Op, each)
				for i := range ops {
					key := make([]byte, 32)
					binary.BigEndian.PutUint64(key[24:], next.Add(1)%46656)
					ops[i] = store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableMembers, Key: key, Value: make([]byte, 48)}}
				}
				if err := s.Apply(ops); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N*each)/b.Elapsed().Seconds(), "joins/s")
}
