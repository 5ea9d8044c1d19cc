package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heddle/api"
)

// request is what a receiver of batches keeps of a request.
type request struct {
	id     string
	events []uint64
	body   string
}

// batches is a receiver that checks and keeps requests.
type batches struct {
	receiver
	requests []request
}

func newBatches() *batches {
	r := &batches{}
	r.check = func(h http.Header, body []byte) error {
		if got := h.Get("Content-Type"); got != "application/cloudevents-batch+json; charset=utf-8" {
			return errors.New(got)
		}
		var list []struct {
			ID   string    `json:"id"`
			Data api.Event `json:"data"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		q := request{id: h.Get("webhook-id"), body: string(body)}
		for _, m := range list {
			q.events = append(q.events, m.Data.Seq)
			if want := fmt.Sprintf("evt_0123456789abcdef_%d", m.Data.Seq); m.ID != want {
				return fmt.Errorf("id %s, want %s", m.ID, want)
			}
		}
		if last := list[len(list)-1].ID; q.id != last {
			return fmt.Errorf("a message with id %s ends with event %s", q.id, last)
		}
		r.requests = append(r.requests, q)
		return nil
	}
	return r
}

// sizes is how many events each request had, all of which must have come once and in order.
func (r *batches) sizes(t *testing.T, events uint64) (list []int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []uint64
	for _, q := range r.requests {
		list = append(list, len(q.events))
		all = append(all, q.events...)
	}
	for i, n := range all {
		if n != uint64(i+1) {
			t.Fatalf("event %d is number %d: %v", i+1, n, all)
		}
	}
	if uint64(len(all)) != events || len(r.errs) > 0 {
		t.Fatalf("%d of %d events came: %v", len(all), events, r.errs)
	}
	return list
}

// TestBatch: the first event comes immediately, those of the next 100 ms come together, and full batches do not
// wait.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSource(), newBatches()
		x, stop := start(t, s, OpenMarks("", "x"), r, Target{Batch: 100})
		s.add(1, "k")
		synctest.Wait()
		if got := r.sizes(t, 1); len(got) != 1 {
			t.Errorf("%v", got)
		}
		for range 10 {
			s.add(1, "k")
			<-time.After(9 * time.Millisecond)
		}
		<-time.After(10 * time.Millisecond)
		synctest.Wait()
		if got := r.sizes(t, 11); !slices.Equal(got, []int{1, 10}) {
			t.Errorf("%v", got)
		}
		<-time.After(time.Second)
		s.add(250, "k")
		synctest.Wait()
		if got := r.sizes(t, 261); !slices.Equal(got, []int{1, 10, 100, 100, 50}) {
			t.Errorf("%v", got)
		}
		if st := x.Status(); st.Sent != 261 || st.Waiting != 0 || st.Acknowledged != 261 {
			t.Errorf("%+v", st)
		}
		<-time.After(time.Second)
		for range 100 { // 1,000 events a second
			s.add(10, "k")
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if got := len(r.sizes(t, 1261)); got > 5+20 {
			t.Errorf("%d requests", got)
		}
		stop()
	})
}

// TestBatchAgain: a batch that is sent again is the same message, also if events came meanwhile; one whose first
// events are too old is made anew from those that are not.
func TestBatchAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSource(), newBatches()
		x, stop := start(t, s, OpenMarks("", "x"), r, Target{Batch: 100})
		s.add(1, "k")
		synctest.Wait()
		r.set(http.StatusServiceUnavailable)
		<-time.After(batchPause)
		for range 3 {
			s.add(1, "k")
			<-time.After(time.Second)
		}
		synctest.Wait()
		if tries := r.sent[1:]; len(tries) < 2 || len(slices.Compact(tries)) != 1 {
			t.Errorf("%d tries: %q", len(r.sent), r.sent)
		}
		r.set(0)
		<-time.After(time.Minute)
		synctest.Wait()
		if got := r.sizes(t, 4); !slices.Equal(got, []int{1, 1, 2}) {
			t.Errorf("%v", got)
		}
		r.set(http.StatusServiceUnavailable)
		s.add(10, "k")
		<-time.After(time.Second)
		s.add(Queue, "k")
		<-time.After(mostPause)
		synctest.Wait()
		if st := x.Status(); st.Dropped != 10 {
			t.Errorf("%+v", st)
		}
		r.set(0)
		<-time.After(2 * mostPause)
		synctest.Wait()
		r.mu.Lock()
		if first := r.requests[3].events[0]; first != 15 {
			t.Errorf("after those that were dropped comes event %d", first)
		}
		r.mu.Unlock()
		if st := x.Status(); st.Sent != 4+Queue || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		stop()
	})
}

// TestBatchBytes: a batch is at most 1 MiB, but one event may be longer.
func TestBatchBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSource(), newBatches()
		_, stop := start(t, s, OpenMarks("", "x"), r, Target{Batch: 100})
		synctest.Wait()
		s.mu.Lock()
		for i, size := range []int{400_000, 400_000, 400_000, 2_000_000, 10} {
			k := uint64(i + 1)
			s.list = append(s.list, api.Event{Seq: k, Cause: k, Kind: "k", Message: strings.Repeat("x", size)})
		}
		s.mu.Unlock()
		s.add(0, "k") // tells of them
		<-time.After(time.Second)
		synctest.Wait()
		if got := r.sizes(t, 5); !slices.Equal(got, []int{2, 1, 1, 1}) {
			t.Errorf("%v", got)
		}
		for _, q := range r.requests {
			if len(q.body) > mostBody && len(q.events) > 1 || !bytes.HasPrefix([]byte(q.body), []byte("[{")) {
				t.Errorf("a batch of %d events has %d bytes", len(q.events), len(q.body))
			}
		}
		stop()
	})
}
