package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heddle/api"
	"heddle/internal/need"
)

// source is a list of events.
type source struct {
	mu   sync.Mutex
	list []api.Event
	more chan struct{}
}

func newSource() *source { return &source{more: make(chan struct{})} }

func (s *source) add(n int, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		k := uint64(len(s.list) + 1)
		s.list = append(s.list, api.Event{
			Seq: k, Cause: k, Time: time.Unix(int64(k), 0), Level: "warn", Kind: kind, Message: "text", Manager: "sm 1",
			Attrs: map[string]string{"node_guid": "0x17"},
		})
	}
	close(s.more)
	s.more = make(chan struct{})
}

func (s *source) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.list))
}

func (s *source) After(n uint64, limit int) []api.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.list[min(n, uint64(len(s.list))):]
	return append([]api.Event(nil), rest[:min(limit, len(rest))]...)
}

func (s *source) More() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.more
}

func (s *source) ID() string { return "0123456789abcdef" }

// receiver is a program that gets webhooks.
type receiver struct {
	mu     sync.Mutex
	status int
	got    []string // kinds with numbers, in order
	tries  []time.Time
	sent   []string // webhook-id and body of each try
	check  func(h http.Header, body []byte) error
	errs   []error
	header http.Header // of answers
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w.Result(), q.Context().Err()
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = append(r.tries, time.Now())
	r.sent = append(r.sent, q.Header.Get("webhook-id")+" "+string(b))
	maps.Copy(w.Header(), r.header)
	if r.status != 0 {
		w.WriteHeader(r.status)
		return
	}
	if r.check != nil {
		if err := r.check(q.Header, b); err != nil {
			r.errs = append(r.errs, err)
		}
	}
	if q.Header.Get("Content-Type") == "application/cloudevents+json; charset=utf-8" {
		b = fmt.Appendf(nil, "[%s]", b)
	}
	var list []struct {
		Data api.Event `json:"data"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		r.errs = append(r.errs, err)
	}
	for _, m := range list {
		r.got = append(r.got, fmt.Sprint(m.Data.Kind, m.Data.Seq))
	}
	w.WriteHeader(http.StatusNoContent)
}

// tried is when requests came.
func (r *receiver) tried() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tries)
}

func (r *receiver) set(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, " ")
}

// counter is a program that gets webhooks and counts them.
type counter struct{ atomic.Int64 }

func (c *counter) RoundTrip(q *http.Request) (*http.Response, error) {
	n, err := io.Copy(io.Discard, q.Body)
	if n != q.ContentLength || err != nil {
		return nil, fmt.Errorf("%d of %d bytes: %w", n, q.ContentLength, err)
	}
	c.Add(1)
	return &http.Response{Status: "204 No Content", StatusCode: http.StatusNoContent, Body: http.NoBody, Request: q}, nil
}

var secret = []byte("a secret of 24 bytes, no")

func start(t *testing.T, s *source, m Marks, r http.RoundTripper, target Target) (*Sender, func()) {
	t.Helper()
	target.Name, target.URL, target.Secrets = "test", "https://example.test/hook?key=hidden", [][]byte{secret}
	x := New(target, s, m, r)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { x.Run(ctx) })
	return x, func() { cancel(); running.Wait() }
}

// TestDelivery: a target gets the kinds that it wants, in order, from its start on; what failed comes after
// pauses that double up to five minutes; the breaker says so; a later start goes on where it was.
func TestDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r, m := newSource(), &receiver{}, OpenMarks("", "x")
		s.add(3, "before")
		x, stop := start(t, s, m, r, Target{Kinds: []string{"link_*"}})
		s.add(1, "link_up")
		s.add(1, "other")
		s.list[4].Kind, s.list[4].Spare = "link_spare", true
		s.add(1, "link_down")
		synctest.Wait()
		if r.all() != "link_up4 link_down6" || x.Status().State != closed || x.Status().Waiting != 0 {
			t.Errorf("%s, %+v", r.all(), x.Status())
		}
		r.set(500)
		s.add(1, "link_up")
		from := len(r.tried())
		<-time.After(30 * time.Minute)
		synctest.Wait()
		var pauses []time.Duration
		tries := r.tried()
		for i := from + 1; i < len(tries); i++ {
			pauses = append(pauses, tries[i].Sub(tries[i-1]))
		}
		want := "[1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s 5m0s 5m0s 5m0s]"
		if fmt.Sprint(pauses) != want {
			t.Errorf("pauses %v, want %s", pauses, want)
		}
		if st := x.Status(); st.State != opened || st.Failed != uint64(len(pauses)+1) || strings.Contains(st.Error+st.Host, "hidden") || st.Waiting != 1 {
			t.Errorf("%+v", st)
		}
		r.set(0)
		s.add(2, "link_up")
		<-time.After(mostPause)
		synctest.Wait()
		if r.all() != "link_up4 link_down6 link_up7 link_up8 link_up9" || x.Status().State != closed {
			t.Errorf("%s, %+v", r.all(), x.Status())
		}
		stop()
		s.add(1, "link_up")
		_, stop = start(t, s, m, r, Target{})
		synctest.Wait()
		if !strings.HasSuffix(r.all(), "link_up9 link_up10") {
			t.Error(r.all())
		}
		stop()
	})
}

// TestAnswers: 410 ends it, Retry-After is respected, and a redirect is no success.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSource(), &receiver{status: 429, header: http.Header{"Retry-After": {"100"}, "Location": {"/other"}}}
		x, stop := start(t, s, OpenMarks("", "x"), r, Target{})
		s.add(1, "k")
		<-time.After(99 * time.Second)
		synctest.Wait()
		if len(r.tried()) != 1 {
			t.Errorf("%d tries", len(r.tried()))
		}
		r.set(302)
		<-time.After(2 * time.Second)
		synctest.Wait()
		if len(r.tried()) != 2 || x.Status().State != trying {
			t.Errorf("%d tries, %+v", len(r.tried()), x.Status())
		}
		r.set(410)
		<-time.After(time.Hour)
		synctest.Wait()
		if len(r.tried()) != 3 || x.Status().State != gone {
			t.Errorf("%d tries, %+v", len(r.tried()), x.Status())
		}
		stop()
	})
}

// TestDeadTarget: a target that does not answer costs little memory and nothing of another one; what is too old
// for its queue is dropped and counted.
func TestDeadTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dead, fine, m := newSource(), &receiver{status: 503}, &counter{}, OpenMarks("", "x")
		x, stopDead := start(t, s, m, dead, Target{})
		_, stopFine := start(t, s, OpenMarks("", "x"), fine, Target{})
		synctest.Wait()
		var before, after runtime.MemStats
		const seconds = 60 // of 1,000 events each
		for range seconds {
			s.add(1000, "k")
			<-time.After(time.Second)
		}
		synctest.Wait()
		if got := fine.Load(); got != 1000*seconds {
			t.Errorf("the other target has %d events", got)
		}
		runtime.GC()
		runtime.ReadMemStats(&before)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if cost := int64(after.HeapAlloc) - int64(before.HeapAlloc); cost > 10<<20 {
			t.Errorf("a dead target costs %d bytes", cost)
		}
		if st := x.Status(); st.Dropped != uint64(1000*seconds-Queue) || st.Waiting != Queue {
			t.Errorf("%+v", st)
		}
		dead.set(0)
		<-time.After(mostPause)
		synctest.Wait()
		if len(dead.got) != Queue || dead.got[0] != fmt.Sprint("k", 1000*seconds-Queue+1) {
			t.Errorf("%d events came after all", len(dead.got))
		}
		stopDead()
		stopFine()
	})
}

// TestMessage: over a real connection, the signature is that of Standard Webhooks, by each secret, and the body is
// a CloudEvent: required attributes, names of lower-case letters and digits, and the event.
func TestMessage(t *testing.T) {
	s := newSource()
	r := &receiver{check: func(h http.Header, body []byte) error {
		mac := hmac.New(sha256.New, secret)
		io.WriteString(mac, h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+"."+string(body))
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); h.Get("webhook-signature") != want {
			return fmt.Errorf("signature %s, want %s", h.Get("webhook-signature"), want)
		}
		if h.Get("Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("heddle:password")) || h.Get("User-Agent") != "heddle" {
			return fmt.Errorf("%v", h)
		}
		if h.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" || strings.Contains(h.Get("webhook-id"), ".") {
			return fmt.Errorf("%v", h)
		}
		var m map[string]any
		if err := json.Unmarshal(body, &m); err != nil {
			return err
		}
		for k := range m {
			if strings.Trim(k, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
				return fmt.Errorf("attribute %q", k)
			}
		}
		at, err := time.Parse(time.RFC3339, m["time"].(string))
		if err != nil || at.Unix() != 1 || m["specversion"] != "1.0" || m["id"] != h.Get("webhook-id") || m["source"] != "/heddle/sm%201" ||
			m["type"] != "heddle.event.node_gone" || m["subject"] != "0x17" || m["datacontenttype"] != "application/json" || m["heddlecause"] != "evt_0123456789abcdef_1" {
			return fmt.Errorf("%s", body)
		}
		return nil
	}}
	srv := httptest.NewServer(r)
	defer srv.Close()
	url := strings.Replace(srv.URL, "//", "//heddle:password@", 1)
	x := New(Target{Name: "t", URL: url, Secrets: [][]byte{secret}}, s, OpenMarks("", "x"), nil)
	s.add(1, "node_gone")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { x.Run(ctx) })
	for limit := time.After(need.Patience); x.Status().Sent == 0; {
		select {
		case <-limit:
			t.Fatalf("%+v", x.Status())
		default:
			runtime.Gosched()
		}
	}
	cancel()
	running.Wait()
	if len(r.errs) > 0 || r.all() != "node_gone1" {
		t.Errorf("%v %s", r.errs, r.all())
	}
	// The vector that is in the text of the specification's Go and JavaScript libraries.
	key, err := ParseSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Sign(append(key, secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; !strings.HasPrefix(got, want+" v1,") {
		t.Errorf("signature %s, want %s", got, want)
	}
}

// TestMarks: marks outlive a process, and those of other events do not count.
func TestMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "webhooks.json")
	m := OpenMarks(path, "a")
	m.SetMark("x", 7)
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	if n, ok := OpenMarks(path, "a").Mark("x"); n != 7 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if _, ok := OpenMarks(path, "b").Mark("x"); ok {
		t.Error("the mark of other events counts")
	}
}

// TestParse: a file with a mistake is refused with the target's name and without its URL.
func TestParse(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{
		"targets: [{name: a, url: 'http://example.test/KEY', secret-file: s}]",
		"targets: [{name: a, url: 'https://', secret-file: s}]",
		"targets: [{name: a, url: 'https://example.test/KEY', secret-file: none}]",
		"targets: [{name: '', url: 'https://example.test/KEY', secret-file: s}]",
		"targets: [{name: a, urll: 'https://example.test'}]",
		"targets:\n- name: a\n  url: https://example.test/KEY\n  secret: s\n",
		"targets:\n- name: a\n  url: https://example.test/KEY\n  url: https://example.test\n",
		"targets:\n- name: [a]\n  url: https://example.test/KEY\n",
		"targets:\n- url: https://example.test/KEY\n name: a\n",
		"", "# no target\n",
		"targets: [{name: a, url: 'https://example.test/KEY', batch: -1, secret-file: s}]",
		"targets: [{name: a, url: 'https://example.test/KEY', batch: 1001, secret-file: s}]",
		"targets: [{name: a, url: 'https://example.test/KEY', kinds: [link_down, ''], secret-file: s}]",
	} {
		if _, err := Parse([]byte(text), dir); err == nil || strings.Contains(err.Error(), "KEY") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Parse(nil, dir); err == nil || !strings.Contains(err.Error(), "the file is empty") {
		t.Error(err)
	}
	if list, err := Parse([]byte("targets: []"), dir); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "s"), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{
		"link_down": "<nil>", "link_*": "<nil>", "*": "<nil>", "events_saved": "<nil>",
		"link_dwon": `target 1 ("a"): kinds: kind "link_dwon": there are no such events; did you mean "link_down"?`,
		"lnik_*":    `target 1 ("a"): kinds: kind "lnik_*": no kind of events begins so; the nearest is "link_up"`,
	} {
		_, err := Parse([]byte("targets: [{name: a, url: 'https://example.test', secret-file: s, kinds: [node_*, '"+kind+"']}]"), dir)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("kind %s: %s, want %s", kind, got, want)
		}
	}
	for _, text := range []string{"", "whsec_AAAA", "no base64!"} {
		if _, err := ParseSecrets(text); err == nil {
			t.Errorf("%q is a secret", text)
		}
	}
}

// FuzzParse: a file that is accepted has whole targets.
func FuzzParse(f *testing.F) {
	f.Add("targets: [{name: a, url: 'http://127.0.0.1/', secret-file: /dev/null, kinds: [trap], level: warn}]")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Parse([]byte(text), dir)
		for _, x := range list {
			if err != nil || x.Name == "" || x.host() == "" || len(x.Secrets) == 0 {
				t.Errorf("%+v, %v", x, err)
			}
		}
	})
}

// TestKilledSoon: a process that is killed right after the first start of a target sends all events since
// that start when it runs again.
func TestKilledSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "webhooks.json")
		s, r := newSource(), &receiver{status: 503}
		s.add(3, "before")
		_, stop := start(t, s, OpenMarks(path, s.ID()), r, Target{})
		s.add(2, "k")
		synctest.Wait()
		again := OpenMarks(path, s.ID()) // what a process finds that starts now
		stop()
		r.set(0)
		_, stop = start(t, s, again, r, Target{})
		synctest.Wait()
		stop()
		if got := r.all(); got != "k4 k5" {
			t.Errorf("it has %s", got)
		}
	})
}

// BenchmarkDeliver is what an event costs that a target takes. This process is the target too.
func BenchmarkDeliver(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer srv.Close()
	s := newSource()
	s.add(1, "node_gone")
	x := New(Target{Name: "t", URL: srv.URL, Secrets: [][]byte{secret}}, s, OpenMarks(filepath.Join(b.TempDir(), "marks"), "x"), nil)
	defer x.client.CloseIdleConnections()
	b.ReportAllocs()
	for b.Loop() {
		var m message
		m.add(&s.list[0], s.ID(), false)
		if x.deliver(b.Context(), &m) != taken || x.Status().Failed > 0 {
			b.Fatalf("%+v", x.Status())
		}
		x.done(m.first)
	}
}
