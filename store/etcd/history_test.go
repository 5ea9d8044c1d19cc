package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"heddle/ib"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
	"heddle/store"
	"heddle/store/etcd"
)

// What a client did to one key.
type input struct {
	key   int
	kind  byte // w: write value; m: the same, refused; u: undo of that; r: read
	value string
}

// register is the model of one key. A write that was refused may have been carried out; then it may be
// undone, as long as nothing was written since. A read sees the newest value.
func register() porcupine.Model {
	type value struct {
		now    string
		before string // what an undo of now brings back
	}
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[int][]porcupine.Operation{}
			for _, o := range history {
				k := o.Input.(input).key
				byKey[k] = append(byKey[k], o)
			}
			var parts [][]porcupine.Operation
			for _, p := range byKey {
				parts = append(parts, p)
			}
			return parts
		},
		Init: func() any { return value{} },
		Step: func(state, in, out any) (bool, any) {
			v, i := state.(value), in.(input)
			switch {
			case i.kind == 'w':
				return true, value{now: i.value}
			case i.kind == 'm':
				return true, value{now: i.value, before: v.now}
			case i.kind == 'u' && v.now == i.value:
				return true, value{now: v.before}
			case i.kind == 'u': // there was nothing to undo, or the next master took it as it was
				return true, v
			}
			return v.now == out.(string), v
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %v", in, out) },
	}
}

// recorder collects a history.
type recorder struct {
	mu    sync.Mutex
	began time.Time
	list  []porcupine.Operation
}

func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

func (r *recorder) add(client int, in input, call int64, out string, back int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: back})
}

// mkey is the value of a key in a store: an M_Key, so that a write is one small operation.
func mkey(n int) string { return fmt.Sprint(n) }

// TestLinearizable: a history of writes and reads, with members killed and the term taken by another
// manager, is one of a single register for each key.
func TestLinearizable(t *testing.T) {
	unlessShort(t)
	for _, seed := range need.Seeds(1, 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { linearizable(t, seed) })
	}
}

func linearizable(t *testing.T, seed uint64) {
	const keys, writers, readers = 4, 4, 2
	c := etcdtest.Start(t, 3)
	o := options(c)
	o.Wait = 400 * time.Millisecond
	o.SnapshotEvery = 100
	stores := []*etcd.Store{open(t, o), open(t, o), open(t, o)}
	rec := &recorder{began: time.Now()}
	var mu sync.Mutex // guards master
	master := 0
	crown := func(i int) {
		ctx, cancel := context.WithTimeout(context.Background(), need.Patience)
		defer cancel()
		if _, err := stores[i].Win(ctx, ib.GUID(i+1), "test"); err != nil {
			t.Error(err)
		}
		mu.Lock()
		master = i
		mu.Unlock()
	}
	crown(0)
	stop := make(chan struct{})
	ended := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var acknowledged counter
	var wg sync.WaitGroup
	for w := range writers {
		rng := rand.New(rand.NewPCG(seed, uint64(w)))
		wg.Go(func() {
			// What was refused is settled before anybody's next change is acknowledged: by the same
			// manager, or because another one has the term.
			var refused []porcupine.Operation
			settled := func(at int64) {
				for _, o := range refused {
					rec.add(o.ClientId, o.Input.(input), o.Call, "", at)
				}
				refused = nil
			}
			defer func() { settled(math.MaxInt64) }()
			for n := w + 1; !ended(); n += writers {
				mu.Lock()
				s := stores[master]
				mu.Unlock()
				k := rng.IntN(keys)
				in := input{k, 'w', mkey(n)}
				call := rec.now()
				err := s.Apply([]store.Op{{Kind: store.PutMKey, GUID: ib.GUID(k + 1), MKey: ib.MKey(n)}})
				switch {
				case err == nil:
					back := rec.now()
					rec.add(w, in, call, "", back)
					settled(back)
					acknowledged.add()
				case errors.Is(err, etcd.ErrNoTerm), errors.Is(err, etcd.ErrSuperseded): // it was not carried out
				case errors.Is(err, store.ErrUnavailable):
					in.kind = 'm'
					refused = append(refused, porcupine.Operation{ClientId: w, Input: in, Call: call})
					in.kind = 'u'
					refused = append(refused, porcupine.Operation{ClientId: w, Input: in, Call: call})
					// Each such operation makes the check longer, so there is one of each writer in an outage:
					// it goes on when a change of a key that nobody reads has been acknowledged.
					for !ended() {
						mu.Lock()
						s := stores[master]
						mu.Unlock()
						if s.Apply([]store.Op{{Kind: store.PutMKey, GUID: ib.GUID(100 + w)}}) == nil {
							settled(rec.now())
							break
						}
						select {
						case <-stop:
						case <-time.After(10 * time.Millisecond):
						}
					}
				default:
					t.Error(err)
				}
			}
		})
	}
	for r := range readers {
		s := stores[1+r]
		wg.Go(func() {
			for !ended() {
				call := rec.now()
				st, err := s.Load()
				back := rec.now()
				select { // as many reads as writes are enough
				case <-stop:
				case <-time.After(2 * time.Millisecond):
				}
				if err != nil {
					continue
				}
				got := map[ib.GUID]ib.MKey{}
				for _, k := range st.MKeys {
					got[k.GUID] = k.MKey
				}
				for k := range keys {
					out := ""
					if v, ok := got[ib.GUID(k+1)]; ok {
						out = mkey(int(v))
					}
					rec.add(writers+r, input{k, 'r', ""}, call, out, back)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 99))
	for round := range 4 {
		acknowledged.await(t, 60)
		switch leader := c.AwaitLeader(); rng.IntN(3) {
		case 0:
			c.Kill(leader)
			acknowledged.await(t, 20)
			c.Restart(leader)
		case 1:
			c.Kill(leader)
			c.Kill((leader + 1) % 3)
			s := stores[master]
			eventually(t, "the store notices that etcd is away", func() bool { return s.Away() != nil })
			c.Restart(leader)
			c.Restart((leader + 1) % 3)
		case 2:
			c.Stop(leader)
			crown((master + 1) % 3)
			c.Continue(leader)
		}
		c.AwaitLeader()
		t.Logf("round %d: %d changes", round, acknowledged.get())
	}
	acknowledged.await(t, 60)
	close(stop)
	wg.Wait()
	switch porcupine.CheckOperationsTimeout(register(), rec.list, need.Patience/2) {
	case porcupine.Illegal:
		t.Errorf("seed %d: the history of %d operations is not linearizable", seed, len(rec.list))
	case porcupine.Unknown:
		t.Skipf("the check of %d operations did not end", len(rec.list))
	}
}

// counter counts, and waits for more.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counter) await(t testing.TB, more int) {
	t.Helper()
	until := c.get() + more
	eventually(t, fmt.Sprintf("%d more changes", more), func() bool { return c.get() >= until })
}
