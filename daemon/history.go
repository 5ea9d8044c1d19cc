package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"heddle/api"
	"heddle/api/show"
	"heddle/store/ring"
	"heddle/subnet"
	"heddle/subnet/atlas"
	"heddle/subnet/past"
	"heddle/subnet/wiring"
)

// historyEvery is the least time between two stored states: what a sweep publishes meanwhile is one change.
const historyEvery = time.Second

// history stores what the subnet looked like, and draws maps of that and of now. Its goroutine alone
// stores; the loop of the manager passes a pointer to it.
type history struct {
	log  *ring.Ring // nil: in memory
	next atomic.Pointer[subnet.Snapshot]
	bell bell // something is in next

	mu   sync.Mutex
	past *past.Past // nil: it has not been read yet; guarded by mu
	now  drawn      // guarded by mu
	then drawn      // the stored state that was asked for last; guarded by mu

	lost atomic.Pointer[wiring.Lost] // of the last stored state; nil: there is none yet
}

// drawn is an atlas and what it is of.
type drawn struct {
	w      *wiring.Wiring
	atlas  *atlas.Atlas
	snap   *subnet.Snapshot // of now
	number uint64           // of the last stored state; of the state itself
	time   time.Time
	gen    uint64
}

func newHistory(log *ring.Ring) *history { return &history{log: log, bell: newBell()} }

// published notes a snapshot of a subnet that is up. It does not wait.
func (h *history) published(s *subnet.Snapshot) {
	if s.Up {
		h.next.Store(s)
		h.bell.ring()
	}
}

// keepHistory starts the goroutine that stores states; end stops it and waits for it.
func (d *Daemon) keepHistory() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.history.run(ctx, func(err error) {
			d.note(slog.LevelError, "history_failed", "what the subnet looks like cannot be stored for the map", map[string]string{"err": err.Error()})
		})
	}()
	return func() { cancel(); <-done }
}

func (h *history) run(ctx context.Context, failed func(error)) {
	if h.log == nil {
		h.log, _ = ring.Open("", "history", past.Bytes/8) // in memory, which cannot fail
	}
	p, err := past.Open(h.log)
	if err != nil {
		failed(err)
		return
	}
	h.mu.Lock()
	h.past = p
	h.mu.Unlock()
	h.count(p)
	timer := time.NewTimer(0)
	defer timer.Stop()
	told := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.bell:
		}
		if s := h.next.Swap(nil); s != nil {
			added, err := p.Add(wiring.Of(s), s.Gen, time.Now())
			if added {
				h.count(p)
			}
			if err == nil && added {
				err = h.log.Sync()
			}
			if err != nil && !told {
				failed(err)
			}
			told = err != nil
		}
		timer.Reset(historyEvery)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// at is the state with a number, or with 0 what is published now and what that remembers.
func (h *history) at(number uint64, s *subnet.Snapshot) (drawn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.past == nil || s == nil && number == 0 {
		return drawn{}, fmt.Errorf("the subnet has not been read yet")
	}
	if number != 0 {
		if h.then.number != number {
			w, m, err := h.past.At(number)
			if err != nil {
				return drawn{}, err
			}
			h.then = drawn{w: w, atlas: atlas.New(w), number: number, time: m.Time, gen: m.Gen}
		}
		return h.then, nil
	}
	last, n := h.past.Last()
	if h.now.snap == s && h.now.number == n {
		return h.now, nil
	}
	w := wiring.Carry(last, wiring.Of(s), time.Now().Unix())
	if c := wiring.Diff(cmp.Or(h.now.w, &wiring.Wiring{}), w); h.now.atlas == nil || !c.Empty() {
		h.now.w, h.now.atlas = w, atlas.New(w)
	}
	h.now.snap, h.now.number, h.now.gen = s, n, s.Gen
	return h.now, nil
}

// count counts what the last state remembers as gone. The status shows it, and does not wait for an atlas.
func (h *history) count(p *past.Past) {
	if w, _ := p.Last(); w != nil {
		lost := w.Lost()
		h.lost.Store(&lost)
	}
}

// gone is what the subnet had and has not any more.
func (h *history) gone() wiring.Lost {
	if lost := h.lost.Load(); lost != nil {
		return *lost
	}
	return wiring.Lost{}
}

// Map implements api.Backend, as do the methods below.
func (d *Daemon) Map(q api.MapQuery) (api.Map, error) {
	x, err := d.history.at(q.At, d.Snapshot())
	if err != nil {
		return api.Map{}, err
	}
	o := atlas.Query{Level: q.Level}
	if q.Unit != "" {
		if o.Unit = show.MapNode(x.w, q.Unit); o.Unit == 0 {
			return api.Map{}, fmt.Errorf("%q: no node of the map has this GUID or description", q.Unit)
		}
	}
	if q.Since != 0 {
		if o.Since, err = d.history.wiring(q.Since); err != nil {
			return api.Map{}, err
		}
	}
	if q.At == 0 {
		o.Marks = append(show.PortMarks(d.actions()), show.Marks(d.allFindings(d.outdated() != ""))...)
	}
	m, err := x.atlas.Map(o)
	if err != nil {
		return api.Map{}, err
	}
	return api.Map{Generation: x.gen, At: q.At, Time: x.time.UTC(), Since: q.Since, Map: *m}, nil
}

// wiring is the state with a number.
func (h *history) wiring(number uint64) (*wiring.Wiring, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.past == nil {
		return nil, fmt.Errorf("the history has not been read yet")
	}
	w, _, err := h.past.At(number)
	return w, err
}

func (d *Daemon) Places(at uint64, nodes []string) ([]api.Place, error) {
	x, err := d.history.at(at, d.Snapshot())
	if err != nil {
		return nil, err
	}
	return show.Places(x.atlas, x.w, nodes), nil
}

func (d *Daemon) History(before uint64, limit int) api.History {
	d.history.mu.Lock()
	defer d.history.mu.Unlock()
	if d.history.past == nil {
		return show.History(nil, false)
	}
	return show.History(d.history.past.List(before, limit))
}

func (d *Daemon) Trace(from, to string) (api.Path, error) {
	return show.Trace(d.Snapshot(), d.Interfaces(), from, to)
}
