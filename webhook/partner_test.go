package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPartner: a target is away, and the active manager dies. The other one, when it is active, sends what the
// target lacks, in order and with the ids of before, and nothing that it had or that it does not want.
func TestPartner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		ids := map[string]bool{}
		r.check = func(h http.Header, _ []byte) error {
			ids[h.Get("webhook-id")] = true
			return nil
		}
		var running sync.WaitGroup
		defer running.Wait()
		begin := func(s *source) (*Partner, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			g := NewGroup(ctx, s, OpenMarks("", "id"), r)
			g.Set([]Target{{Name: "a", URL: "https://a", Secrets: [][]byte{secret}, Kinds: []string{"k"}}})
			p := NewPartner()
			running.Go(func() { p.Run(ctx, g); g.Wait() })
			return p, cancel
		}
		s := newSource()
		first, kill := begin(s)
		other := newSource()
		second, end := begin(other)
		defer end()
		ctx, cut := context.WithCancel(t.Context())
		running.Go(func() {
			first.Tell(ctx, func(b []byte) bool {
				if err := second.Take(b); err != nil {
					t.Error(err)
				}
				return true
			})
		})
		s.add(3, "k")
		<-time.After(2 * time.Second)
		r.set(http.StatusServiceUnavailable)
		s.add(40, "k")
		s.add(1, "unwanted")
		s.add(1, "k")
		<-time.After(time.Minute)
		kill()
		cut()
		r.set(0)
		<-time.After(time.Hour)
		if r.all() != "k1 k2 k3" {
			t.Errorf("before the takeover: %s", r.all())
		}
		if st := second.Status(); st != (PartnerStatus{Events: 42}) {
			t.Errorf("before the takeover it keeps %+v", st)
		}
		second.SetActive(true)
		synctest.Wait()
		if st := second.Status(); st != (PartnerStatus{}) {
			t.Errorf("when all are sent it keeps %+v", st)
		}
		if n := len(strings.Fields(r.all())); n != 44 || !strings.HasSuffix(r.all(), " k42 k43 k45") {
			t.Errorf("%d: %s", n, r.all())
		}
		if len(ids) != 44 || !ids["evt_"+s.ID()+"_45"] {
			t.Errorf("%d ids: %v", len(ids), ids)
		}
		second.SetActive(false)
		second.SetActive(true)
		<-time.After(time.Hour)
		if n := len(strings.Fields(r.all())); n != 44 {
			t.Errorf("%d events when it is active again", n)
		}
	})
}

// TestBacklog: what is kept of a partner's events is bounded, and the newest ones are.
func TestBacklog(t *testing.T) {
	s := newSource()
	s.add(2*Queue, "k")
	p := NewPartner()
	for at := uint64(0); at < 2*Queue; {
		m := told{ID: "x", Marks: map[string]uint64{"a": 0}}
		at, _ = m.add(s.After(at, pageEvents), at)
		b, err := json.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Take(b); err != nil {
			t.Fatal(err)
		}
	}
	if list := p.theirs.list; len(list) != Queue || list[0].event.Seq != Queue+1 || p.theirs.bytes > backlogBytes {
		t.Errorf("%d events, %d bytes", len(list), p.theirs.bytes)
	}
	if st := p.Status(); st != (PartnerStatus{Events: Queue, Dropped: Queue}) {
		t.Errorf("%+v", st)
	}
}

func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"id":"x","marks":{"a":1},"events":[{"seq":2},{"seq":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := NewPartner()
		_ = p.Take(b)
		if x := p.theirs; x != nil {
			n := uint64(0)
			for _, e := range x.After(0, len(x.list)) {
				if e.Seq <= n {
					t.Errorf("%d after %d", e.Seq, n)
				}
				n = e.Seq
			}
		}
	})
}
