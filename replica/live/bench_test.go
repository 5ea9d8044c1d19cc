package live

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"heddle/store"
	"heddle/store/boltdb"
)

// BenchmarkJoins stores joins as the SA does (store/etcd has the same for etcd), by turns in one
// file, in two files at once, and in a pair: both managers in this process, each with its file, and
// TCP with TLS between them. Two files at once are what one machine can do at best that has the
// disks of both managers. Turns, because the speed of a shared machine changes from minute to
// minute.
//
// joins/s is what the SA can acknowledge. The latencies are those of an Apply.
func BenchmarkJoins(b *testing.B) {
	for _, x := range []struct{ callers, joins int }{{1, 1}, {1, 64}, {1, 1024}, {3, 64}, {3, 1024}, {64, 1}} {
		b.Run(fmt.Sprintf("callers=%d/joins=%d", x.callers, x.joins), func(b *testing.B) {
			t := newTestbed(b, 4)
			t.direct = true
			for _, s := range t.site {
				s.start()
			}
			pair := t.paired().pair().Store()
			one, two := files(b, 1), files(b, 2)
			kinds := []struct {
				name  string
				apply func([]store.Op) error
				took  []time.Duration // of each Apply
				sum   time.Duration   // of the turns
			}{{name: "file", apply: one}, {name: "files", apply: two}, {name: "pair", apply: pair.Apply}}
			var next uint64
			b.ResetTimer()
			for b.Loop() {
				for k := range kinds {
					began := time.Now()
					kinds[k].took = append(kinds[k].took, turn(b, kinds[k].apply, next, x.callers, x.joins)...)
					kinds[k].sum += time.Since(began)
				}
				next += uint64(x.callers * appliesOfTurn * x.joins)
			}
			for _, k := range kinds {
				slices.Sort(k.took)
				b.ReportMetric(float64(len(k.took)*x.joins)/k.sum.Seconds(), k.name+"-joins/s")
				for _, q := range []struct {
					name string
					of   float64
				}{{"p50", 0.5}, {"p99", 0.99}} {
					b.ReportMetric(float64(k.took[int(float64(len(k.took)-1)*q.of)].Microseconds())/1000, k.name+"-"+q.name+"-ms")
				}
			}
		})
	}
}

// appliesOfTurn is how often each caller calls Apply in a turn.
const appliesOfTurn = 4

// turn returns how long each Apply took.
func turn(b *testing.B, apply func([]store.Op) error, first uint64, callers, joins int) []time.Duration {
	const hosts = 46_656
	took := make([]time.Duration, callers*appliesOfTurn)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range appliesOfTurn {
				at := c*appliesOfTurn + i
				ops := make([]store.Op, joins)
				for j := range ops {
					key := make([]byte, 32)
					binary.BigEndian.PutUint64(key[24:], (first+uint64(at*joins+j))%hosts)
					ops[j] = store.Op{Kind: store.PutRecord, Record: store.Record{Table: store.TableMembers, Key: key, Value: make([]byte, 48)}}
				}
				began := time.Now()
				if err := apply(ops); err != nil {
					b.Error(err)
				}
				took[at] = time.Since(began)
			}
		})
	}
	wg.Wait()
	return took
}

// files writes the same to n files at once.
func files(b *testing.B, n int) func([]store.Op) error {
	list := make([]*boltdb.DB, n)
	for i := range list {
		s, err := boltdb.Open(filepath.Join(b.TempDir(), boltdb.FileName))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		list[i] = s
	}
	return func(ops []store.Op) error {
		errs := make(chan error, n)
		for _, s := range list {
			go func() { errs <- s.Apply(ops) }()
		}
		var failed error
		for range list {
			if err := <-errs; err != nil {
				failed = err
			}
		}
		return failed
	}
}
