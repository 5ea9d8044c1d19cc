package eventlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"heddle/api"
	"heddle/store/ring"
)

func openEvents(t *testing.T, dir string) *Log {
	t.Helper()
	r, err := ring.OpenLimits(dir, "events", Limits())
	if err != nil {
		t.Fatal(err)
	}
	return Open(r, "host")
}

func event(i int) api.Event {
	return api.Event{
		Time: time.Unix(int64(i), 0).UTC(), Level: []string{"info", "warn"}[i%2], Kind: []string{"vm_up", "vm_down", "trap"}[i%3],
		Message: fmt.Sprint("event ", i), Attrs: map[string]string{"node": fmt.Sprint("node ", i%5), "port": "1"},
	}
}

// follow reads events as a stream does, from a number to the last one.
func follow(t *testing.T, r *Log, n uint64) (list []api.Event) {
	t.Helper()
	for {
		page, more := r.Since(n)
		if len(page) > api.EventsPage {
			t.Fatalf("a page of %d events", len(page))
		}
		list = append(list, page...)
		if len(page) > 0 {
			n = page[len(page)-1].Seq
		}
		select {
		case <-more:
		default:
			return list
		}
	}
}

// TestEventsLast: whatever number a reader has, and whenever the process ends or is killed, it gets each
// later event once.
func TestEventsLast(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		r := openEvents(t, dir)
		var all []api.Event
		for i := range 4321 {
			r.Add(event(i))
			if i%1000 == 500 {
				r.Flush()
				if dir != "" {
					if i%2000 == 500 {
						r = openEvents(t, dir) // as after kill -9: the ring was not closed
					} else if err := r.Close(); err != nil {
						t.Fatal(err)
					} else {
						r = openEvents(t, dir)
					}
				}
			}
		}
		r.Flush()
		all = follow(t, r, 0)
		if len(all) != 4321 {
			t.Fatalf("%q: %d events", dir, len(all))
		}
		for i := range all {
			want := event(i)
			if e := &all[i]; e.Seq != uint64(i+1) || e.Cause != e.Seq || e.Message != want.Message || !e.Time.Equal(want.Time) || dir != "" && e.Manager != "host" {
				t.Fatalf("%q: event %d is %+v", dir, i, e)
			}
		}
		for _, n := range []uint64{1, 999, 3320, 3321, 3322, 4320, 4321} {
			if got := follow(t, r, n); len(got) != 4321-int(n) || len(got) > 0 && got[0].Seq != n+1 {
				t.Errorf("%q: after %d: %d events", dir, n, len(got))
			}
		}
		for _, q := range []api.EventsQuery{
			{Limit: 10},
			{Limit: 2000},
			{Limit: 10, After: 17},
			{Limit: 10, Before: 3000},
			{Limit: 10, Before: 4300},
			{Limit: 300, After: 3000, Kinds: []string{"vm_*"}, Level: "warn"},
			{Limit: 30, Kinds: []string{"trap", "none"}, Node: "NODE 4"},
			{Limit: 3, Since: time.Unix(4000, 0)},
			{Cause: 1234, Limit: 5},
			{Limit: 5, Node: "nobody"},
			{},
		} {
			var want []api.Event
			for i := range all {
				if q.Match(&all[i]) {
					want = append(want, all[i])
				}
			}
			if q.Limit > 0 && len(want) > q.Limit {
				if q.Oldest() {
					want = want[:q.Limit]
				} else {
					want = want[len(want)-q.Limit:]
				}
			}
			got, err := r.Find(q)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q: %+v: %d events, want %d, %v\n%v\n%v", dir, q, len(got), len(want), err, got, want)
			}
		}
		if list, _ := r.Since(1 << 40); len(list) != api.EventsPage {
			t.Errorf("a number of another manager: %d events", len(list))
		}
	}
}

// TestEventsConcurrent: many add and follow; each reader sees all numbers in order.
func TestEventsConcurrent(t *testing.T) {
	r := openEvents(t, t.TempDir())
	var adding, reading sync.WaitGroup
	for range 4 {
		adding.Go(func() {
			for i := range 1000 {
				r.Add(event(i))
			}
		})
		reading.Go(func() {
			for n := uint64(0); n < 4000; {
				list, more := r.Since(n)
				for i := range list {
					if n++; list[i].Seq != n {
						t.Errorf("number %d after %d", list[i].Seq, n-1)
						return
					}
				}
				if len(list) == 0 {
					<-more
				}
			}
		})
	}
	adding.Wait()
	reading.Wait()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestEventsWithoutDisk: when the directory cannot be written, events go on in memory, and one event
// says so; numbers are not used again.
func TestEventsWithoutDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	small := Limits()
	small.Records = 16
	open := func() *Log {
		rg, err := ring.OpenLimits(dir, "events", small)
		if err != nil {
			t.Fatal(err)
		}
		return Open(rg, "host")
	}
	r := open()
	add := func(n int) {
		for i := range n {
			r.Add(event(i))
			r.Flush()
		}
	}
	add(3)
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil { // as a file system that is gone: no new file can be made
		t.Fatal(err)
	}
	add(40)
	kinds := func() (n int, list []string) {
		for _, e := range follow(t, r, 0) {
			if strings.HasPrefix(e.Kind, "events") {
				list = append(list, e.Kind)
			}
			n++
		}
		return n, list
	}
	if n, list := kinds(); n != 44 || !slices.Equal(list, []string{"events_unsaved"}) {
		t.Errorf("%d events: %v", n, list)
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	add(3)
	if n, list := kinds(); n != 48 || !slices.Equal(list, []string{"events_unsaved", "events_saved"}) {
		t.Errorf("%d events: %v", n, list)
	}
	last := r.last
	r = open()
	add(1)
	if list := follow(t, r, last); len(list) != 1 || list[0].Seq <= last {
		t.Errorf("after a start: %+v, the last number was %d", list, last)
	}
}

// TestSpare: events of a manager on standby say so.
func TestSpare(t *testing.T) {
	r := openEvents(t, t.TempDir())
	for i := range 4 {
		r.SetSpare(i%2 == 0)
		r.Add(event(i))
	}
	r.Flush()
	for i, e := range r.After(0, 3) {
		if e.Spare != (i%2 == 0) || i > 2 {
			t.Errorf("%+v", e)
		}
	}
}

// BenchmarkEventAdd is what an event costs the loop of a core.
func BenchmarkEventAdd(b *testing.B) {
	r, err := ring.OpenLimits(b.TempDir(), "events", Limits())
	if err != nil {
		b.Fatal(err)
	}
	es := Open(r, "host")
	e := event(1)
	b.ReportAllocs()
	for b.Loop() {
		es.Add(e)
	}
	es.Flush()
}
