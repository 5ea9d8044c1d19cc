// Package webhook sends events to programs: by HTTP POST, with the headers of Standard Webhooks and a body of
// CloudEvents 1.0 in JSON, each event at least once.
//
// A target has no queue: a Sender reads the events after the number of the last one that the target
// received. So a target that does not answer needs only the memory of a number, and delays no other
// target.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"heddle/api"
)

// Bounds of a target.
const (
	// Queue is how many events a target may be behind, by their numbers; older ones are dropped and counted.
	Queue = 10_000

	pageEvents = 32                     // read at a time: an event has at most 1 MiB, and most have 300 bytes
	mostBody   = 1 << 20                // of a batch, but that one event may have more
	batchPause = 100 * time.Millisecond // from a batch that was not full to the next one
	firstPause = time.Second
	mostPause  = 5 * time.Minute
	answerTime = 15 * time.Second
	openAfter  = 5        // failures in a row: from then on each pause has one try
	mostAnswer = 64 << 10 // bytes of an answer that are read, so that the connection stays usable
)

// Source has the events. eventlog.Log is one.
type Source interface {
	// Last is the number of the newest event.
	Last() uint64
	// After returns at most limit events with a greater number, oldest first.
	After(n uint64, limit int) []api.Event
	// More returns a channel that is closed at the next event.
	More() <-chan struct{}
	// ID identifies the log of these events: numbers of logs with different IDs are unrelated.
	ID() string
}

// Marks keeps the number of the last event that each target received. It may be called
// concurrently.
type Marks interface {
	Mark(target string) (n uint64, ok bool)
	SetMark(target string, n uint64)
	// Save writes the marks now.
	Save() error
}

// Sender sends the events of a source to one target.
type Sender struct {
	target Target
	source Source
	marks  Marks
	client *http.Client

	mu sync.Mutex
	st api.Webhook // guarded by mu
}

// New returns a Sender that begins with the events after its mark, or with new events if it has
// none. transport is nil except in tests.
func New(t Target, s Source, m Marks, transport http.RoundTripper) *Sender {
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost, own.MaxConnsPerHost = 1, 1
		transport = own
	}
	n, ok := m.Mark(t.Name)
	if last := s.Last(); !ok || n > last {
		n = last
		m.SetMark(t.Name, n)
		_ = m.Save() // or a process that is killed soon begins anew; if it fails, it is tried again with the next change
	}
	x := &Sender{target: t, source: s, marks: m, client: &http.Client{
		Transport: transport, Timeout: answerTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	x.st = api.Webhook{Name: t.Name, Host: t.host(), State: closed, Acknowledged: n}
	return x
}

// States of a target.
const (
	closed = "ok"
	trying = "failing" // it failed, and is tried again
	opened = "open"    // the breaker is open: one try at the end of each pause
	gone   = "gone"    // it answered 410 and gets nothing until the settings are read again (Group.Set)
)

// Run sends until ctx ends.
func (x *Sender) Run(ctx context.Context) {
	defer x.client.CloseIdleConnections()
	var page []api.Event // read, and not yet in a message
	var pause time.Duration
	for {
		if !sleep(ctx, pause) {
			return
		}
		began := time.Now()
		more, at := x.source.More(), x.skip()
		var m message
		var to uint64
		m, page, to = x.collect(page, at)
		if m.events > 0 {
			switch x.deliver(ctx, &m) {
			case ended:
				return
			case tooOld:
				page = nil
				continue
			}
		}
		if pause = 0; m.events > 0 && m.events < x.target.Batch {
			pause = batchPause - time.Since(began)
		}
		if to > at {
			x.done(to)
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// sleep returns false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// collect makes a message of the next events that the target wants, from page and from the source. It returns what
// is left of the page, and the number up to which it has read; at is that number when it begins. A page without a
// wanted event ends it.
func (x *Sender) collect(page []api.Event, at uint64) (m message, rest []api.Event, to uint64) {
	to = at
	for m.events < max(x.target.Batch, 1) {
		if len(page) == 0 {
			if to > at && m.events == 0 {
				break
			}
			if page = x.source.After(to, pageEvents); len(page) == 0 {
				break
			}
		}
		e := &page[0]
		if x.wants(e) && !m.add(e, x.source.ID(), x.target.Batch > 0) {
			break
		}
		to = max(to, e.Seq)
		page = page[1:]
	}
	m.close()
	return m, page, to
}

func (x *Sender) wants(e *api.Event) bool {
	q := api.EventsQuery{Kinds: x.target.Kinds, Level: x.target.Level}
	return !e.Spare && q.Match(e) && e.Seq > x.Status().Acknowledged
}

// skip leaves out what is too old for the queue, and returns the number after which the next event is.
func (x *Sender) skip() uint64 {
	last := x.source.Last()
	x.mu.Lock()
	defer x.mu.Unlock()
	if at := x.st.Acknowledged; last > at+Queue {
		x.st.Dropped += last - Queue - at
		x.st.Acknowledged = last - Queue
		x.marks.SetMark(x.target.Name, x.st.Acknowledged)
	}
	x.st.Waiting = last - min(last, x.st.Acknowledged)
	return x.st.Acknowledged
}

// done notes that the target has all events up to a number, or does not want them.
func (x *Sender) done(n uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.st.Acknowledged = max(x.st.Acknowledged, n)
	last := x.source.Last()
	x.st.Waiting = last - min(last, x.st.Acknowledged)
	x.marks.SetMark(x.target.Name, x.st.Acknowledged)
}

// Status returns the status of the target.
func (x *Sender) Status() api.Webhook {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.st
}

// outcome is what became of a message.
type outcome int

const (
	taken  outcome = iota
	tooOld         // for the queue, all of it or its first events
	ended          // ctx has ended, or the target wants no more
)

// deliver sends a message until the target took it, or it is too old.
func (x *Sender) deliver(ctx context.Context, m *message) outcome {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		wait, err := x.post(ctx, m)
		if ctx.Err() != nil {
			return ended
		}
		if err == nil {
			x.succeeded(m.events)
			return taken
		}
		if x.failed(err) == gone {
			<-ctx.Done()
			return ended
		}
		if !sleep(ctx, min(max(pause, wait), mostPause)) {
			return ended
		}
		if x.skip() >= m.first {
			return tooOld
		}
	}
}

func (x *Sender) succeeded(events int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.st.Sent += uint64(events)
	x.st.State, x.st.Error, x.st.Failures = closed, "", 0
}

// failed counts a failure and returns the state.
func (x *Sender) failed(err error) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.st.Failed++
	x.st.Failures++
	x.st.Error = err.Error()
	switch {
	case errors.Is(err, errGone):
		x.st.State = gone
	case x.st.Failures >= openAfter:
		x.st.State = opened
	default:
		x.st.State = trying
	}
	return x.st.State
}

var errGone = errors.New("it answered 410 Gone")

// post makes one try. wait is how long the target wants to be left alone, 0 if it does not say.
func (x *Sender) post(ctx context.Context, m *message) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.target.URL, bytes.NewReader(m.body))
	if err != nil {
		return 0, errors.New("the URL cannot be used") // the error has the URL, which may have a key
	}
	now := time.Now()
	h := r.Header
	h.Set("Content-Type", m.contentType)
	h.Set("User-Agent", "heddle")
	h.Set("webhook-id", m.id)
	h.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	h.Set("webhook-signature", Sign(x.target.Secrets, m.id, now, m.body))
	resp, err := x.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, mostAnswer) // the status says it
	switch {
	case resp.StatusCode/100 == 2:
		return 0, nil
	case resp.StatusCode == http.StatusGone:
		return 0, errGone
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		wait = time.Duration(min(s, int(mostPause/time.Second))) * time.Second
	}
	return wait, fmt.Errorf("it answered %s", resp.Status)
}
