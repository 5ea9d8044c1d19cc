package process_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"heddle/daemon"
	"heddle/daemon/process"
	"heddle/ib"
	"heddle/internal/need"
	"heddle/mad"
	"heddle/sa"
	"heddle/sm"
	"heddle/store"
	"heddle/store/backup"
	"heddle/store/journal"
)

// terms is a shared store that keeps marks and operations; its state does not change by these.
type terms struct {
	mu       sync.Mutex
	state    store.State
	applied  []store.Op
	last     journal.Mark
	holds    bool
	away     bool
	released bool
	wins     int
	resigns  int // that were tried
	asked    int // how often Vacant was
	read     time.Time
}

func (s *terms) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *terms) Load() (*store.State, error) {
	st, _, err := s.Contents()
	return st, err
}

func (s *terms) Contents() (*store.State, journal.Mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = time.Now()
	st := s.state
	return &st, s.last, nil
}

func (s *terms) Apply(ops []store.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away || !s.holds {
		return store.ErrUnavailable
	}
	s.last.Number++
	s.applied = append(s.applied, ops...)
	return nil
}

func (s *terms) Latest(context.Context) (m journal.Mark, err error) {
	s.with(func() {
		if m = s.last; s.away {
			err = store.ErrUnavailable
		}
	})
	return m, err
}

func (s *terms) Win(_ context.Context, guid ib.GUID, _ string) (journal.Mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return journal.Mark{}, store.ErrUnavailable
	}
	had := s.last
	s.last = journal.Mark{Term: had.Term.Next(guid), Number: had.Number + 1}
	s.holds, s.released = true, false
	s.wins++
	return had, nil
}

func (s *terms) Holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

func (s *terms) Resign(context.Context) (err error) {
	s.with(func() {
		s.resigns++
		if s.away {
			err = store.ErrUnavailable
			return
		}
		s.released, s.holds = s.holds || s.released, false
	})
	return err
}

func (s *terms) Vacant(context.Context) (v bool, err error) {
	s.with(func() {
		v = s.released
		s.asked++
	})
	return v, nil
}

func (s *terms) Away() (err error) {
	s.with(func() {
		if s.away {
			err = store.ErrUnavailable
		}
	})
	return err
}

func (s *terms) Synced() (m journal.Mark, at time.Time) {
	s.with(func() { m, at = s.last, s.read })
	return m, at
}

func (s *terms) Attend(context.Context) error { return nil }

func (s *terms) Followed() (*store.State, journal.Mark, error) { return s.Contents() }

func (s *terms) MKey(ib.GUID) (key ib.MKey, ok bool) { return 0, false }

func (s *terms) Follow(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (s *terms) Close() error                     { return nil }

// other is what another manager does: it takes the term, writes n entries, and may give it back.
func (s *terms) other(n uint64, release bool) {
	s.with(func() {
		s.last = journal.Mark{Term: s.last.Term.Next(99), Number: s.last.Number + 1 + n}
		s.holds, s.released = false, release
	})
}

// port is one that only closes.
type port struct {
	mad.Transport
	closed chan struct{}
	once   sync.Once
	guid   ib.GUID
}

func (p *port) Recv(*mad.Packet) error {
	<-p.closed
	return errors.New("closed")
}

func (p *port) Send(*mad.Packet) error { return nil } // nobody answers

func (p *port) PortGUID() ib.GUID { return cmp.Or(p.guid, 7) }
func (p *port) Close() error      { p.once.Do(func() { close(p.closed) }); return nil }

// reign is a Quorum with a shared store, and the mandate that it gives.
type reign struct {
	t *testing.T
	q *process.Quorum
	s *terms
	m *process.Mandate
}

func newReign(t *testing.T) *reign {
	r := &reign{t: t, s: &terms{}}
	r.q = &process.Quorum{
		Single: process.Single{Open: func(context.Context) (mad.Transport, error) { return &port{closed: make(chan struct{}), guid: 7}, nil }},
		Terms:  r.s, Look: time.Millisecond,
	}
	r.begin()
	return r
}

// begin starts the cores.
func (r *reign) begin() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	m, err := r.q.Await(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	r.m = m
	if _, err := m.Store.Load(); err != nil {
		r.t.Fatal(err)
	}
}

// hint is the newest one for the cores.
func (r *reign) hint() (h daemon.Hint) {
	r.t.Helper()
	select {
	case h = <-r.m.Hints:
	default:
		r.t.Error("there is no hint")
	}
	return h
}

// granted reports whether the cores are to be master from the start.
func (r *reign) granted() bool {
	var core sm.Config
	var registry sa.Config
	r.m.Configure(&core, &registry)
	if !registry.MustSave {
		r.t.Error("the SA acknowledges what is not stored")
	}
	return core.Granted
}

// restarted ends the cores because they are stale, and starts new ones.
func (r *reign) restarted() {
	r.t.Helper()
	if again, err := r.q.Ended(r.m, errors.New("stale")); !again || err != nil {
		r.t.Fatalf("ended without another mandate: %v", err)
	}
	r.begin()
	if !r.granted() {
		r.t.Error("the mastership was forgotten")
	}
	if err := r.m.Lead(false); err != nil {
		r.t.Fatalf("the new cores: %v", err)
	}
}

func (r *reign) applies(want bool) {
	r.t.Helper()
	if err := r.m.Store.Apply(nil); (err == nil) != want {
		r.t.Fatalf("Apply: %v", err)
	}
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	limit := time.After(need.Patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatal("this did not happen: " + what)
		}
	}
}

// TestQuorumTakesOver: cores that know all go on, those that know less are started anew, as master.
func TestQuorumTakesOver(t *testing.T) {
	r := newReign(t)
	if r.granted() {
		t.Error("nothing was granted")
	}
	r.applies(false)
	if err := r.m.Lead(false); err != nil {
		t.Fatal(err)
	}
	r.applies(true)
	r.m.Led() // handed over
	await(t, "the term is given back", func() bool { return !r.s.Holds() })
	if err := r.m.Lead(false); err != nil { // and handed back, without a change in between
		t.Fatal(err)
	}
	r.m.Led()
	await(t, "the term is given back", func() bool { return !r.s.Holds() })
	r.s.other(3, false)
	var b bytes.Buffer // a backup is not read by the cores
	if err := backup.WriteStore(&b, r.m.Store); err != nil || !strings.Contains(b.String(), fmt.Sprintf(`"entry":%d`, r.s.last.Number)) {
		t.Errorf("backup of entry %d: %v\n%s", r.s.last.Number, err, b.String())
	}
	if err := r.m.Lead(false); err == nil {
		t.Fatal("cores that miss entries lead")
	}
	r.applies(false) // although this process has the term
	r.restarted()
	r.applies(true)
	r.m.Led()
	if err := r.m.Lead(true); err == nil {
		t.Fatal("cores that know what was never stored lead")
	}
	r.restarted()
}

// TestQuorumInDoubt: the store is away when the term is given back, so that the last change may be
// stored although it was refused. The cores do not go on without knowing.
func TestQuorumInDoubt(t *testing.T) {
	r := newReign(t)
	if err := r.m.Lead(false); err != nil {
		t.Fatal(err)
	}
	r.s.with(func() { r.s.away = true })
	r.applies(false)
	r.m.Led()
	await(t, "the term is to be given back", func() (tried bool) {
		r.s.with(func() { tried = r.s.resigns > 0 })
		return tried
	})
	r.s.with(func() {
		r.s.away = false
		r.s.last.Number++
	})
	if err := r.m.Lead(false); err == nil {
		t.Fatal("cores that miss a change lead")
	}
	r.restarted()
	r.applies(true)
}

// TestQuorumBehind: cores that were started anew for their mastership, and lack what this process has read
// since, are told so when the store is away by then.
func TestQuorumBehind(t *testing.T) {
	r := newReign(t)
	r.s.other(1, false)
	if err := r.m.Lead(false); err == nil {
		t.Fatal("cores that miss a change lead")
	}
	r.restarted()
	r.s.with(func() {
		r.s.away = true
		r.s.last.Number++
	})
	if err := r.m.Lead(false); err != nil {
		t.Fatal(err)
	}
	if h := r.hint(); !h.Unsure.Unsure || !h.Unsure.Lacks {
		t.Errorf("the cores are told %+v of their store", h.Unsure)
	}
}

// TestQuorumAway: a master leads without the store, and gets the term when it is back. If the master
// before stored what this one had not followed, the cores are started anew. If another one has won the
// term meanwhile, that one keeps it until it gives it back.
func TestQuorumAway(t *testing.T) {
	for _, meanwhile := range []string{"nothing", "missed", "another"} {
		t.Run(meanwhile, func(t *testing.T) {
			r := newReign(t)
			r.s.other(1, false)
			if _, err := r.m.Store.Load(); err != nil {
				t.Fatal(err)
			}
			r.s.with(func() { r.s.away = true })
			if err := r.m.Lead(false); err != nil {
				t.Fatal(err)
			}
			r.applies(false)
			if h := r.q.HA(); h.Mode != "quorum" || h.State != "refused" || h.Why == "" || h.Quorum.Refused <= 0 {
				t.Errorf("%+v", h)
			}
			if h := r.hint(); !h.Unsure.Unsure || h.Unsure.Lacks {
				t.Errorf("the cores are told %+v of their store", h.Unsure)
			} else if len(h.Allies) == 0 || slices.ContainsFunc(h.Allies, func(a sm.Ally) bool { return a.Silent }) {
				t.Errorf("without streams nobody is silent there: %+v", h.Allies)
			}
			switch meanwhile {
			case "missed":
				r.s.with(func() { r.s.last.Number++ })
			case "another":
				r.s.other(2, false)
			}
			r.s.with(func() { r.s.away = false })
			switch meanwhile {
			case "nothing":
				await(t, "changes are stored", func() bool { return r.m.Store.Apply(nil) == nil })
				if h := r.hint(); h.Unsure.Unsure {
					t.Error("the cores are not told that they know all")
				}
				return
			case "another":
				asked := 0
				r.s.with(func() { asked = r.s.asked })
				await(t, "the other master is asked", func() (again bool) {
					r.s.with(func() { again = r.s.asked > asked+5 })
					return again
				})
				r.applies(false)
				if h := r.q.HA(); h.State != "refused" || !strings.Contains(h.Why, "another manager") {
					t.Errorf("%+v", h)
				}
				r.s.with(func() {
					if r.s.wins > 0 {
						t.Error("the term was taken from the other master")
					}
					r.s.released = true
				})
			}
			_ = r.m.Port.Recv(&mad.Packet{}) // which ends the cores
			r.restarted()
		})
	}
}

// TestQuorumLoses: a master that lost the term to another one leaves it that, until it is given back.
func TestQuorumLoses(t *testing.T) {
	r := newReign(t)
	if err := r.m.Lead(false); err != nil {
		t.Fatal(err)
	}
	r.s.other(1, false)
	r.applies(false)
	if h := r.q.HA(); h.State != "refused" || !strings.Contains(h.Why, store.ErrUnavailable.Error()) {
		t.Errorf("%q, %q: nobody says why changes are refused", h.State, h.Why)
	}
	r.s.with(func() {
		if r.s.wins != 1 {
			t.Error("the term was taken back from the other master")
		}
		r.s.released = true
	})
	// The port is there, so the manager does not say that it is gone.
	if err := r.m.Port.Recv(&mad.Packet{}); r.m.Revoked == nil || !errors.Is(err, r.m.Revoked) {
		t.Errorf("the cores end with %v; want %v", err, r.m.Revoked)
	}
	r.applies(false) // of cores that know an older state
	r.restarted()
	r.applies(true)
}

// TestQuorumImport: a master without the term says that an import took it, and not another manager.
func TestQuorumImport(t *testing.T) {
	r := newReign(t)
	r.s.with(func() { r.s.away = true })
	if err := r.m.Lead(false); err != nil {
		t.Fatal(err)
	}
	r.s.with(func() {
		r.s.away, r.s.last = false, journal.Mark{Term: r.s.last.Term.Next(0), Number: 9}
	})
	const why = "'heddle store import' has replaced the state: term 1 of import"
	await(t, "the import is named", func() bool { return strings.HasSuffix(r.q.HA().Why, why) })
}

// metric is the value of a series that a Quorum serves.
func (r *reign) metric(name, label string) float64 {
	r.t.Helper()
	families, err := r.q.Metrics().Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (label == "" || m.Label[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() // one of them is 0
			}
		}
	}
	r.t.Fatalf("%s %s is not served", name, label)
	return 0
}

// TestQuorumMetrics: what is served of a manager on standby, as master, with etcd away, and after it
// lost the term.
func TestQuorumMetrics(t *testing.T) {
	r := newReign(t)
	states := func(want string) {
		t.Helper()
		for _, s := range []string{"term", "away", "refused", "follower"} {
			if got := r.metric("heddle_ha_state", s); (got == 1) != (s == want) {
				t.Errorf("state %s is %g, want %s", s, got, want)
			}
		}
		if h := r.q.HA(); h.State != want || h.Since.IsZero() {
			t.Errorf("%+v", h)
		}
	}
	states("follower")
	if at := r.metric("heddle_ha_synced_seconds", ""); at < 0 {
		t.Errorf("the state was read %g s ago", at)
	}
	if err := r.m.Lead(false); err != nil {
		t.Fatal(err)
	}
	r.applies(true)
	r.applies(true)
	states("term")
	for name, want := range map[string]float64{
		"heddle_ha_active": 1, "heddle_ha_term": 1, "heddle_ha_entries_total": 2, "heddle_ha_refused_seconds": 0,
	} {
		if got := r.metric(name, ""); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	if h := r.q.HA(); h.Quorum.Term != 1 || h.Quorum.Entries != 2 || h.Quorum.Takeovers != 0 { // from nobody
		t.Errorf("%+v", h.Quorum)
	}
	if n := r.metric("heddle_ha_takeovers_total", "elected"); n != 0 {
		t.Errorf("the first term counts as %g takeovers", n)
	}

	r.s.with(func() { r.s.away = true })
	r.applies(false)
	states("away")
	if h := r.q.HA(); r.metric("heddle_ha_refused_seconds", "") <= 0 || h.Why == "" {
		t.Errorf("changes are not refused: %+v", h)
	}
	r.s.with(func() { r.s.away = false })
	states("term")
	r.s.other(1, false)
	states("refused")
	r.m.Led()
	states("follower")
	if h := r.q.HA(); h.Before != nil {
		t.Errorf("a standby took over from %+v", h.Before)
	}
	if r.metric("heddle_ha_active", "") != 0 || r.metric("heddle_ha_entries_total", "") != 2 {
		t.Error("standby after a mastership with two entries")
	}
	r.begin()
	if err := r.m.Lead(false); err != nil {
		t.Fatal(err)
	}
	if h := r.q.HA(); h.Before == nil || h.Before.At != "port GUID "+ib.GUID(99).String() || h.Before.Until.IsZero() {
		t.Errorf("after the term of 99: %+v", h.Before)
	}
	if n := r.metric("heddle_ha_takeovers_total", "elected"); n != 1 {
		t.Errorf("%g times elected after the term of 99", n)
	}
}

// TestQuorumRegains: a term that was won late counts as regained.
func TestQuorumRegains(t *testing.T) {
	r := newReign(t)
	r.s.with(func() { r.s.away = true })
	if err := r.m.Lead(false); err != nil {
		t.Fatal(err)
	}
	r.s.with(func() { r.s.away = false })
	await(t, "the term is counted", func() bool { return r.metric("heddle_ha_takeovers_total", "regained") == 1 })
	if n := r.metric("heddle_ha_takeovers_total", "elected"); n != 0 || r.metric("heddle_ha_state", "term") != 1 {
		t.Errorf("%g times elected", n)
	}
}
