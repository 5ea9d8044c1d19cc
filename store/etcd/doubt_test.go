package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"heddle/ib"
	"heddle/internal/etcdtest"
	"heddle/internal/need"
	"heddle/store"
	"heddle/store/journal"
)

// faulty is etcd with faults on the way: each transaction of the Store asks fate.
type faulty struct {
	Cluster
	mu   sync.Mutex
	fate func(writes bool) fault
	late []func() // transactions that arrive when the test says so
	// Time is up for the Store after some faults in a row: no real time decides.
	row   int
	waits map[*context.CancelFunc]bool
}

const faultsInARow = 3

// bound is Store.bound.
func (f *faulty) bound(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	at := &cancel
	f.waits[at] = true
	return ctx, func() {
		cancel()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.waits, at)
	}
}

// failed counts a fault. The holder of mu calls it.
func (f *faulty) failed() {
	if f.row++; f.row < faultsInARow {
		return
	}
	f.row = 0
	for cancel := range f.waits {
		(*cancel)()
	}
}

type fault int

const (
	passes      fault = iota
	lost              // the request is lost
	unanswered        // it is carried out, but the answer is lost
	delayed           // it is carried out some time later; there is no answer
	faultsCount       // number of faults
)

func (f *faulty) Txn(ctx context.Context) clientv3.Txn {
	return &faultyTxn{Txn: f.Cluster.Txn(ctx), f: f}
}

// arrive carries out what is delayed.
func (f *faulty) arrive() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, do := range late {
		do()
	}
}

func (f *faulty) set(fate func(writes bool) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fate = fate
}

type faultyTxn struct {
	clientv3.Txn
	f    *faulty
	when []clientv3.Cmp
	then []clientv3.Op
	els  []clientv3.Op
}

func (x *faultyTxn) If(c ...clientv3.Cmp) clientv3.Txn { x.when = c; return x }

func (x *faultyTxn) Then(o ...clientv3.Op) clientv3.Txn { x.then = o; return x }

func (x *faultyTxn) Else(o ...clientv3.Op) clientv3.Txn { x.els = o; return x }

func (x *faultyTxn) Commit() (*clientv3.TxnResponse, error) {
	writes := false
	for _, o := range x.then {
		writes = writes || !o.IsGet()
	}
	f := x.f
	f.mu.Lock()
	fate := passes
	if f.fate != nil {
		fate = f.fate(writes)
	}
	if fate == delayed {
		if !writes {
			fate = lost
		} else {
			f.late = append(f.late, func() {
				// Whether it is carried out, etcd alone decides.
				_, _ = f.Cluster.Txn(context.Background()).If(x.when...).Then(x.then...).Else(x.els...).Commit()
			})
		}
	}
	if fate == lost || fate == delayed {
		f.failed()
		f.mu.Unlock()
		return nil, rpctypes.ErrTimeout
	}
	f.mu.Unlock()
	r, err := x.Txn.If(x.when...).Then(x.then...).Else(x.els...).Commit()
	f.mu.Lock()
	defer f.mu.Unlock()
	if fate == unanswered && err == nil {
		f.failed()
		return nil, rpctypes.ErrTimeout
	}
	if err == nil {
		f.row = 0
	}
	return r, err
}

// openFaulty returns a Store behind faults. It writes a snapshot every 7 entries.
func openFaulty(t testing.TB, cli *clientv3.Client, prefix string) (*Store, *faulty) {
	t.Helper()
	own, err := clientv3.New(clientv3.Config{Endpoints: cli.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{Cluster: own, waits: map[*context.CancelFunc]bool{}}
	s := newStore(f, Options{Prefix: prefix, Wait: need.Patience, SnapshotEvery: 7, Log: slog.New(slog.DiscardHandler)})
	s.bound = f.bound
	t.Cleanup(func() { s.Close() })
	if err := s.reading(patient(t), s.catchUp); err != nil {
		t.Fatal(err)
	}
	return s, f
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), need.Patience)
	t.Cleanup(cancel)
	return ctx
}

func key(i int, value string) []store.Op {
	r := store.Record{Table: store.TableServices, Key: fmt.Append(nil, i), Value: []byte(value)}
	return []store.Op{{Kind: store.PutRecord, Record: r}, {Kind: store.PutMKey, GUID: ib.GUID(i), MKey: ib.MKey(len(value))}}
}

// contents reads the records with a Store that has no part in the test's faults.
func contents(t testing.TB, s interface {
	Contents() (*store.State, journal.Mark, error)
},
) (map[string]string, journal.Mark) {
	t.Helper()
	st, m, err := s.Contents()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range st.Records {
		got[string(r.Key)] = string(r.Value)
	}
	if len(st.MKeys) != len(st.Records) {
		t.Errorf("%d keys and %d records: half of an Apply", len(st.MKeys), len(st.Records))
	}
	return got, m
}

// awaitReturned waits until the Store knows that etcd answers.
func awaitReturned(t testing.TB, s *Store) {
	t.Helper()
	limit := time.After(need.Patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for s.Away() != nil {
		select {
		case <-look.C:
		case <-limit:
			t.Fatal("the store does not notice that etcd is back")
		}
	}
}

// TestDoubt: an Apply that failed has no effect, whatever became of its transaction, and one that
// succeeded has it once. Here etcd loses all from one moment on, in each way.
func TestDoubt(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cli := c.Client()
	for how := lost; how < faultsCount; how++ {
		s, f := openFaulty(t, cli, fmt.Sprint("/doubt", how))
		if err := s.Claim(patient(t), 1); err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(key(1, "before")); err != nil {
			t.Fatal(err)
		}
		f.set(func(bool) fault { return how })
		if err := s.Apply(append(key(1, "doubtful"), key(2, "new")...)); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("%d: %v", how, err)
		}
		if s.Away() == nil {
			t.Fatal("etcd is away, and the store does not know")
		}
		if err := s.Apply(key(3, "refused")); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("%d: %v", how, err)
		}
		f.set(nil)
		awaitReturned(t, s)
		f.arrive()
		if err := s.Apply(key(4, "after")); err != nil {
			t.Fatal(err)
		}
		other, _ := openFaulty(t, cli, fmt.Sprint("/doubt", how))
		for _, x := range []*Store{s, other} {
			if got, _ := contents(t, x); fmt.Sprint(got) != "map[1:before 4:after]" {
				t.Errorf("%d: %v", how, got)
			}
		}
	}
}

// TestDoubtSuperseded: who has lost the term with a change in doubt can read, at once.
func TestDoubtSuperseded(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cli := c.Client()
	s, f := openFaulty(t, cli, "/superseded")
	if err := s.Claim(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	b, err := newBatch([]journal.Entry{{Mark: journal.Mark{Number: 1}, Ops: key(1, "doubtful")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.converse(patient(t), func(context.Context) error {
		s.doubt = b
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	other := newStore(f, s.opt)
	if err := other.Claim(patient(t), 2); err != nil {
		t.Fatal(err)
	}
	if got, m := contents(t, s); len(got) > 0 || m.Number > 0 || s.Holds() {
		t.Errorf("%v, %v, holds the term: %v", got, m, s.Holds())
	}
}

// TestDelayedPiece: a piece of a large entry that was refused arrives when another large entry is written.
func TestDelayedPiece(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cli := c.Client()
	s, f := openFaulty(t, cli, "/piece")
	if err := s.Claim(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	large := func(c string) string { return strings.Repeat(c, 2*pieceLen) }
	f.set(func(bool) fault { return delayed })
	if err := s.Apply(key(1, large("a"))); !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	f.set(nil)
	awaitReturned(t, s)
	if err := s.Apply(key(1, large("b"))); err != nil {
		t.Fatal(err)
	}
	f.arrive()
	other, _ := openFaulty(t, cli, "/piece")
	for _, x := range []*Store{s, other} {
		if got, _ := contents(t, x); got["1"] != large("b") {
			t.Errorf("%d bytes, which begin with %.10q", len(got["1"]), got["1"])
		}
	}
}

// TestFaults: random faults, with other managers that take the term in between. What was acknowledged
// is there, what was refused is not, and nobody without the term writes.
func TestFaults(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cli := c.Client()
	for _, seed := range need.Seeds(6, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { faults(t, cli, seed) })
	}
}

func faults(t *testing.T, cli *clientv3.Client, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	prefix := fmt.Sprint("/faults", seed)
	var stores [2]*Store
	var ways [2]*faulty
	for i := range stores {
		stores[i], ways[i] = openFaulty(t, cli, prefix)
	}
	watcher, _ := openFaulty(t, cli, prefix)
	going, stop := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() { followed <- watcher.Follow(going) }()

	want := map[string]string{} // what must be there
	maybe := map[string]bool{}  // keys of changes that were refused when the term was taken away
	master := 0
	win := func() {
		ways[master].set(nil)
		had, err := stores[master].Win(patient(t), ib.GUID(master+1), "test")
		if err != nil {
			t.Fatal(err)
		}
		got, m := contents(t, stores[master])
		if m.Number != had.Number+1 || m.Term != had.Term.Next(ib.GUID(master+1)) {
			t.Fatalf("after %v: %v", had, m)
		}
		for k := range maybe { // the new master decides what became of them
			if v, ok := got[k]; ok {
				want[k] = v
			} else {
				delete(want, k)
			}
		}
		clear(maybe)
		same(t, got, want)
	}
	win()
	for step := range 60 {
		f := ways[master]
		if r.IntN(3) == 0 {
			n, how := 1+r.IntN(4), fault(1+r.IntN(int(faultsCount)-1))
			if r.IntN(4) == 0 {
				n = 1000 // etcd is away
			}
			f.set(func(writes bool) fault {
				if n--; n < 0 {
					return passes
				}
				return how
			})
		}
		k, v := fmt.Sprint(r.IntN(8)), fmt.Sprint(step)
		var ops []store.Op
		for _, o := range key(0, v) {
			o.Record.Key, o.GUID = []byte(k), ib.GUID(len(k)*100+int(k[0]))
			ops = append(ops, o)
		}
		refused := false
		switch err := stores[master].Apply(ops); {
		case err == nil:
			want[k] = v
		case errors.Is(err, store.ErrUnavailable):
			refused = true
		default:
			t.Fatal(err)
		}
		if err := stores[1-master].Apply(ops); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("a manager without the term wrote: %v", err)
		}
		if refused && r.IntN(2) == 0 { // the master dies, or is cut off, in that moment
			maybe[k] = true
			master = 1 - master
			win()
			ways[1-master].set(nil)
			ways[1-master].arrive()
		} else if refused || r.IntN(5) == 0 {
			f.set(nil)
			awaitReturned(t, stores[master])
			f.arrive()
			got, _ := contents(t, stores[master])
			same(t, got, want)
		}
	}
	ways[master].set(nil)
	awaitReturned(t, stores[master])
	for _, x := range []*Store{stores[master], stores[1-master], watcher} {
		got, _ := contents(t, x)
		same(t, got, want)
	}
	stop()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func same(t testing.TB, got, want map[string]string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the store has %v, not %v", got, want)
	}
}

// TestLateNote: a note that was refused is not written later, when another one was set, or was read.
func TestLateNote(t *testing.T) {
	c := etcdtest.Start(t, 1)
	s, f := openFaulty(t, c.Client(), "/note")
	if err := s.Claim(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	note := func(want string) {
		t.Helper()
		if got, err := s.Note(); err != nil || string(got) != want {
			t.Fatalf("the note is %q, not %q: %v", got, want, err)
		}
	}
	refused := func(how fault) {
		t.Helper()
		f.set(func(writes bool) fault {
			if writes {
				return how
			}
			return passes
		})
		if err := s.SetNote([]byte("refused")); !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		f.set(nil)
	}
	refused(delayed)
	note("") // from here on it stays so
	f.arrive()
	note("")
	refused(delayed)
	if err := s.SetNote([]byte("second")); err != nil {
		t.Fatal(err)
	}
	f.arrive()
	note("second")
	refused(unanswered)
	note("refused") // it was carried out
	if err := s.SetNote([]byte("third")); err != nil {
		t.Fatal(err)
	}
	note("third")
}
