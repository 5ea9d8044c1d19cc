package webhook

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestGroup: when targets change, each one that stays gets every event once, one that comes gets those from then on,
// and one that leaves gets no more until it returns.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := map[string]*receiver{"a": {}, "b": {}, "c": {}}
		s := newSource()
		ctx, cancel := context.WithCancel(t.Context())
		g := NewGroup(ctx, s, OpenMarks("", "id"), transport(func(q *http.Request) (*http.Response, error) {
			return far[q.URL.Hostname()].RoundTrip(q)
		}))
		set := func(names ...string) {
			var list []Target
			for _, n := range names {
				list = append(list, Target{Name: n, URL: "https://" + n, Secrets: [][]byte{make([]byte, 24)}})
			}
			g.Set(list)
			s.add(10, "k")
			synctest.Wait()
		}
		set("a", "b") // events 1 to 10
		set("b", "c") // 11 to 20
		far["c"].set(http.StatusGone)
		set("b", "c")
		if st := g.Status(); len(st) != 2 || st[0].Name != "b" || st[0].Sent != 30 || st[1].State != gone {
			t.Errorf("%+v", st)
		}
		far["c"].set(0)
		set("a", "b", "c") // 31 to 40
		for name, want := range map[string]int{"a": 40, "b": 40, "c": 30} {
			if got := far[name].got; len(got) != want || slices.Index(got, got[len(got)-1]) != len(got)-1 {
				t.Errorf("%s has %d events, want %d: %v", name, len(got), want, got)
			}
		}
		// While a target is away it changes: it goes on with what it lacks.
		far["a"].set(http.StatusBadGateway)
		set("a")
		<-time.After(time.Hour)
		far["a"].set(0)
		g.Set([]Target{{Name: "a", URL: "https://b", Secrets: [][]byte{make([]byte, 24)}}})
		synctest.Wait()
		if n := len(far["b"].got); n != 50 {
			t.Errorf("at its new address it has %d events, want 50", n)
		}
		cancel()
		g.Wait()
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }
