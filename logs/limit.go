package logs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Span is the time in which a Limit counts.
const Span = time.Minute

// Most is how many lines of one kind are logged in each Span.
const Most = 10

// Limit bounds what is said of one kind in each Span. Pure, not safe for concurrent use.
type Limit struct {
	Most  int
	kinds map[string]*kind
}

type kind struct {
	began     time.Time
	told, cut int
}

// Allow reports whether one more is said of a kind. If a new span begins, it also returns how many were
// left out in the last one.
func (l *Limit) Allow(name string, now time.Time) (ok bool, cut int) {
	if l.kinds == nil {
		l.kinds = map[string]*kind{}
	}
	k := l.kinds[name]
	if k == nil || now.Sub(k.began) >= Span {
		if k != nil {
			cut = k.cut
		}
		k = &kind{began: now}
		l.kinds[name] = k
	}
	if k.told >= l.Most {
		k.cut++
		return false, 0
	}
	k.told++
	return true, cut
}

// Cut is how many of a kind were left out.
type Cut struct {
	Kind string
	N    int
}

// End forgets kinds whose span is over, or all, and returns those of which something was left out.
func (l *Limit) End(now time.Time, all bool) (list []Cut) {
	for _, name := range slices.Sorted(maps.Keys(l.kinds)) {
		k := l.kinds[name]
		if !all && now.Sub(k.began) < Span {
			continue
		}
		if k.cut > 0 {
			list = append(list, Cut{Kind: name, N: k.cut})
		}
		if all {
			k.cut = 0 // the span goes on
		} else {
			delete(l.kinds, name)
		}
	}
	return list
}

// Due is when something that was left out is to be said; zero: nothing was.
func (l *Limit) Due() (t time.Time) {
	for _, k := range l.kinds {
		if end := k.began.Add(Span); k.cut > 0 && (t.IsZero() || end.Before(t)) {
			t = end
		}
	}
	return t
}

// kindCut is the kind of a line that says how many others were left out.
const kindCut = "log_cut"

// mostKinds bounds the memory of Limited: with more kinds of lines in one span it forgets all.
const mostKinds = 1000

// Limited returns a handler that passes at most Most lines of one kind in each Span to next, and then a
// line with how many more there were. Lines with the attribute event pass: the events are bounded where
// they are made. Lines without the attribute kind are told apart by their text. At level debug all pass.
func Limited(next slog.Handler) slog.Handler {
	return &limited{next: next, s: &limits{next: next, limit: Limit{Most: Most}}}
}

type limited struct {
	next slog.Handler
	s    *limits
}

// limits are shared by a handler and those that were made of it.
type limits struct {
	next slog.Handler // without attributes

	mu    sync.Mutex
	limit Limit       // guarded by mu
	wake  *time.Timer // guarded by mu; nil: nothing is due
}

func (h *limited) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *limited) WithAttrs(list []slog.Attr) slog.Handler {
	return &limited{h.next.WithAttrs(list), h.s}
}

func (h *limited) WithGroup(name string) slog.Handler { return &limited{h.next.WithGroup(name), h.s} }

func (h *limited) Handle(ctx context.Context, r slog.Record) error {
	name, pass := "", h.next.Enabled(ctx, slog.LevelDebug)
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "kind":
			name = a.Value.String()
			pass = pass || name == kindCut
		case "event":
			pass = true
		}
		return true
	})
	if !pass && !h.s.allow(cmp.Or(name, r.Message)) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (s *limits) allow(name string) bool {
	ok, list := s.count(name, time.Now())
	s.tell(list)
	return ok
}

// count reports whether a line is logged, and what is to be told of others.
func (s *limits) count(name string, now time.Time) (ok bool, list []Cut) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.limit.kinds) >= mostKinds {
		list = s.limit.End(now, true)
		clear(s.limit.kinds)
	}
	ok, cut := s.limit.Allow(name, now)
	if cut > 0 {
		list = append(list, Cut{name, cut})
	}
	if due := s.limit.Due(); s.wake == nil && !due.IsZero() {
		s.wake = time.AfterFunc(due.Sub(now), s.end)
	}
	return ok, list
}

// end tells what was left out in spans that are over.
func (s *limits) end() {
	s.mu.Lock()
	list := s.limit.End(time.Now(), false)
	s.wake = nil
	if due := s.limit.Due(); !due.IsZero() {
		s.wake = time.AfterFunc(max(time.Until(due), 0), s.end)
	}
	s.mu.Unlock()
	s.tell(list)
}

// tell logs what was left out. The log may take time: nobody who holds mu calls it.
func (s *limits) tell(list []Cut) {
	for _, c := range list {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, fmt.Sprintf("%d further lines of one kind within a minute were not logged", c.N), 0)
		r.AddAttrs(slog.String("kind", kindCut), slog.String("of", c.Kind), slog.Int("count", c.N))
		_ = s.next.Handle(context.Background(), r) // a log that fails cannot be told
	}
}
