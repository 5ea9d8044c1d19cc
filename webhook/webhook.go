// Package webhook sends events to programs: by HTTP POST, with the headers of Standard Webhooks and a body of
// CloudEvents 1.0 in JSON, each event at least once.
//
// A target has no queue of its own: a Sender reads on in the events from the number that the target took last.
// So a target that does not answer costs a number, and no event of others.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"heddle/api"
)

// Bounds of a target.
const (
	// Queue is how many events a target may be behind, by their numbers; older ones are dropped and counted.
	Queue = 10_000

	pageEvents = 32 // read at a time: an event has at most 1 MiB, and most have 300 bytes
	firstPause = time.Second
	mostPause  = 5 * time.Minute
	answerTime = 15 * time.Second
	openAfter  = 5        // failures in a row: from then on each pause has one try
	mostAnswer = 64 << 10 // bytes of an answer that are read, so that the connection stays usable
)

// Source has the events. daemon.Events is one.
type Source interface {
	// Last is the number of the newest event.
	Last() uint64
	// After returns at most limit events with a greater number, oldest first.
	After(n uint64, limit int) []api.Event
	// More returns a channel that is closed at the next event.
	More() <-chan struct{}
	// ID tells the numbers of these events from those of others.
	ID() string
}

// Marks keeps the number up to which each target has its events. It may be called concurrently.
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

// New returns a Sender that begins with the events after its mark, or with those to come if it has none. transport
// is nil but in tests.
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
	for ctx.Err() == nil {
		more := x.source.More()
		at := x.skip()
		list := x.source.After(at, pageEvents)
		for i := range list {
			if e := &list[i]; x.wants(e) && !x.deliver(ctx, e) {
				return
			}
			x.done(list[i].Seq)
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
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

// Status is how it stands.
func (x *Sender) Status() api.Webhook {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.st
}

// deliver sends an event until the target took it, or it is too old. It returns false when ctx has ended or the
// target wants no more.
func (x *Sender) deliver(ctx context.Context, e *api.Event) bool {
	id := "evt_" + x.source.ID() + "_" + strconv.FormatUint(e.Seq, 10)
	body, err := Body(e, id)
	if err != nil {
		return true // strings and numbers are always JSON
	}
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		wait, err := x.post(ctx, id, body)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			x.succeeded()
			return true
		}
		if x.failed(err) == gone {
			<-ctx.Done()
			return false
		}
		timer := time.NewTimer(min(max(pause, wait), mostPause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		if x.skip() >= e.Seq {
			return true
		}
	}
}

func (x *Sender) succeeded() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.st.Sent++
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
func (x *Sender) post(ctx context.Context, id string, body []byte) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.target.URL, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the URL cannot be used") // the error has the URL, which may have a key
	}
	now := time.Now()
	h := r.Header
	h.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	h.Set("User-Agent", "heddle")
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	h.Set("webhook-signature", Sign(x.target.Secrets, id, now, body))
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

// Sign is the webhook-signature of a message: one for each secret, so that secrets can be exchanged.
func Sign(secrets [][]byte, id string, at time.Time, body []byte) string {
	list := make([]string, len(secrets))
	for i, s := range secrets {
		m := hmac.New(sha256.New, s)
		fmt.Fprintf(m, "%s.%d.", id, at.Unix())
		m.Write(body)
		list[i] = "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	return strings.Join(list, " ")
}

// Body is the CloudEvents message of an event.
func Body(e *api.Event, id string) ([]byte, error) {
	ring := id[:strings.LastIndexByte(id, '_')+1]
	return json.Marshal(struct {
		SpecVersion string     `json:"specversion"`
		ID          string     `json:"id"`
		Source      string     `json:"source"`
		Type        string     `json:"type"`
		Subject     string     `json:"subject,omitempty"`
		Time        time.Time  `json:"time"`
		ContentType string     `json:"datacontenttype"`
		Level       string     `json:"heddlelevel"`
		Cause       string     `json:"heddlecause"`
		Data        *api.Event `json:"data"`
	}{
		"1.0", id, "/heddle/" + url.PathEscape(cmp.Or(e.Manager, "manager")), "heddle.event." + e.Kind,
		cmp.Or(e.Attrs["node_guid"], e.Attrs["port_guid"]), e.Time.UTC(), "application/json",
		e.Level, ring + strconv.FormatUint(e.Cause, 10), e,
	})
}
