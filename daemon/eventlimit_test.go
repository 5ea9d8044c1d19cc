package daemon

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/mad"
	"heddle/sm"
	"heddle/store"
)

// TestEventLimit: events are limited by source, by kind and in total. All suppressed events are
// counted, and one kind or source does not suppress another.
func TestEventLimit(t *testing.T) {
	var l eventLimit
	told, cut := 0, uint64(0)
	add := func(at mad.Time, kind string, from ib.LID) bool {
		ok, c := l.allow(at, kind, from)
		for _, x := range c {
			cut += x.n
		}
		if ok {
			told++
		}
		return ok
	}
	for i := range 1000 {
		if ok := add(0, "security", 7); ok != (i < limitSource) {
			t.Fatalf("event %d of one source: %v", i, ok)
		}
	}
	if !add(0, "security", 8) || !add(0, "trap", 7) {
		t.Error("a source over its limit suppresses others, or its other kinds")
	}
	for i := range 1000 {
		add(1, "trap", ib.LID(i+100))
	}
	if add(1, "trap", 5000) {
		t.Error("a kind is not bounded")
	}
	for i := range 10_000 {
		add(2, string(rune('a'+i%26)), 0)
	}
	if told != limitAll || l.due() != mad.Time(0).Add(limitSpan) {
		t.Errorf("%d were logged, want %d; the rest is due at %v", told, limitAll, l.due())
	}
	if !add(mad.Time(0).Add(limitSpan), "security", 7) || uint64(told)+cut != 1000+2+1000+1+10_000+1 {
		t.Errorf("%d told and %d cut", told, cut)
	}
	if l.due() != mad.Never || len(l.end()) != 0 {
		t.Error("more events were suppressed than occurred")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 100_000 {
		add(mad.Time(i)*1e5, []string{"trap", "security"}[rng.IntN(2)], ib.LID(rng.Uint32()))
		if n := len(l.kinds); n > 2 || len(l.kinds[0].sources) > limitKind {
			t.Fatalf("%d kinds, %d sources are remembered", n, len(l.kinds[0].sources))
		}
	}
}

// TestCutEventsAreTold: suppressed events are logged at the end of the span, also if no event
// follows.
func TestCutEventsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		d, _ := newPiped(nil, Config{Store: store.NewMemory(), Log: slog.New(slog.NewTextHandler(&said, nil))})
		l := newLoop(t.Context(), d)
		for range 50 {
			l.tell(&sm.Notice{Kind: sm.KindSecurity, Level: sm.Warn, Where: sm.Where{LID: 3}})
			l.tell(&sm.Notice{Kind: sm.KindSubnetUp, Level: sm.Info})
		}
		synctest.Wait()
		if n := strings.Count(said.String(), "kind=security"); n != limitSource {
			t.Errorf("%d security events are logged, want %d", n, limitSource)
		}
		if list, err := d.events.Find(api.EventsQuery{Kinds: []string{"subnet_up"}}); len(list) != 50 || err != nil {
			t.Errorf("%d events that no host causes, want 50", len(list))
		}
		began := time.Now()
		<-l.cut.timer.C
		if took := time.Since(began); took > limitSpan {
			t.Errorf("the rest is told after %v", took)
		}
		d.tellCut(l.told.end())
		synctest.Wait()
		if !strings.Contains(said.String(), "40 further events of kind security") || d.noticesCut.Load() != 40 {
			t.Errorf("suppressed events are not logged; %d are counted:\n%s", d.noticesCut.Load(), &said)
		}
	})
}
