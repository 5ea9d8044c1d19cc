package api

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
	"strings"
	"testing"
	"time"
)

// large is a fake with as many events as a bundle has, and the topology text of 11,664 hosts.
type large struct {
	*fake
	events []Event
	asked  EventsQuery
}

func (l *large) FindEvents(q EventsQuery) ([]Event, error) {
	l.asked = q
	return l.events, nil
}

func (l *large) Netlist() (func(io.Writer) error, uint64, error) {
	return func(w io.Writer) error {
		for i := range 70_000 { // 85 bytes each, as measured
			if _, err := fmt.Fprintf(w, "[%d]\t\"H-%016x\"[1](%x) \t\t# \"host-%d mlx5_0\" lid %d 4xEDR  more of it, as cables have\n", i%36+1, i*7919, i*7919+1, i, i+1); err != nil {
				return err
			}
		}
		return nil
	}, 7, nil
}

// unpack returns the files of a bundle.
func unpack(t *testing.T, bundle io.Reader) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bundle)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "heddle-support/")] = string(text)
	}
}

// TestSupportPast: a bundle has the last lines of the log, without keys, and the trace of a recorder that
// always runs, which runs on after it.
func TestSupportPast(t *testing.T) {
	always := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: time.Minute, MaxBytes: 1 << 20})
	if err := always.Start(); err != nil {
		t.Fatal(err)
	}
	defer always.Stop()
	trace.Log(t.Context(), "mark", "of the past")
	lines := []string{"2026-11-28T14:04:05.067Z WARN a line q_key=0x1234\n", "2026-11-28T14:04:06.000Z INFO the last one heddle.acme." + strings.Repeat("A", 43) + "\n"}
	h := New(newFake(0), Options{AllowWrite: true, Flight: always, Log: func() []string { return lines }})
	for _, seconds := range []string{"0", "1"} {
		w := ask(h, "GET", "/v1/support?seconds="+seconds, nil)
		files := unpack(t, w.Body)
		if got, want := files["log.txt"], "2026-11-28T14:04:05.067Z WARN a line q_key=...\n2026-11-28T14:04:06.000Z INFO the last one heddle...\n"; got != want {
			t.Errorf("log %q, want %q", got, want)
		}
		if seconds == "0" && !strings.Contains(files["trace-past.out"], "of the past") {
			t.Errorf("the trace of %d bytes lacks the mark: %s", len(files["trace-past.out"]), files["errors.txt"])
		}
		if text := files["trace.out"]; (seconds == "1") != strings.HasPrefix(text, "go 1.") || strings.Contains(text, "of the past") {
			t.Errorf("%s seconds: a trace of %d bytes: %s", seconds, len(text), files["errors.txt"])
		}
		if !always.Enabled() {
			t.Error("the recorder does not run any more")
		}
	}
	// Without any, nothing is said of them.
	files := unpack(t, ask(New(newFake(0), Options{AllowWrite: true}), "GET", "/v1/support?seconds=0", nil).Body)
	if _, ok := files["log.txt"]; ok || strings.Contains(files["errors.txt"], "past") {
		t.Errorf("%v", files["errors.txt"])
	}
}

// TestSupportSize: a bundle of a large subnet with 10,000 events, no two alike, has all of them and is
// far below 20 MB.
func TestSupportSize(t *testing.T) {
	b := &large{fake: newFake(0)}
	for i := range 10_000 {
		g := uint64(i+1) * 0x9E3779B97F4A7C15
		b.events = append(b.events, Event{
			Seq: uint64(i + 1), Time: time.Unix(int64(i), int64(g%1e9)), Level: "warn", Kind: "link_down",
			Message: fmt.Sprintf("the link is down, number %d", i),
			Attrs:   map[string]string{"node": fmt.Sprintf("sw-1-%d", g%648), "node_guid": fmt.Sprintf("%#016x", g), "peer_node_guid": fmt.Sprintf("%#016x", g*3), "path": "0,1,22,17"},
		})
	}
	w := httptest.NewRecorder()
	h := New(b, Options{Webhooks: func() []Webhook { return []Webhook{{Name: "chat", State: "failing"}} }})
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		h.ServeHTTP(w, r)
	})
	support(inner, &Options{})(w, httptest.NewRequest("GET", "http://localhost/v1/support?seconds=0", nil))
	size := w.Body.Len()
	files := unpack(t, w.Body)
	var events []Event
	if err := json.Unmarshal([]byte(files["events.json"]), &events); err != nil || len(events) != len(b.events) || b.asked.Limit != 10_000 {
		t.Errorf("%d events, %d asked for: %v", len(events), b.asked.Limit, err)
	}
	if n := len(files["topology.ibnetdiscover"]); n < 5<<20 {
		t.Errorf("the topology has %d bytes: %s", n, files["errors.txt"])
	}
	if !strings.Contains(files["webhooks.json"], `"name":"chat"`) {
		t.Errorf("webhooks: %s", files["webhooks.json"])
	}
	t.Logf("%d bytes", size)
	if size > 4e6 { // the trace, left out here, has 16 MiB at most
		t.Errorf("the bundle has %d bytes without a trace", size)
	}
}

// TestSupportTimes: no file of a bundle is from the future.
func TestSupportTimes(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 999e6, time.UTC)
	o := Options{Now: func() time.Time { return now }}
	w := httptest.NewRecorder()
	support(http.NotFoundHandler(), &o)(w, httptest.NewRequest(http.MethodGet, "/v1/support?seconds=0", nil))
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(z).Next()
	if err != nil || h.ModTime.After(now) || now.Sub(h.ModTime) > time.Second {
		t.Errorf("%v, made at %v: %v", h, now, err)
	}
}

// TestSupportSince: since is what it is for events, and a mistake is named.
func TestSupportSince(t *testing.T) {
	b := &large{fake: newFake(0)}
	h := New(b, Options{Token: "secret"})
	ask := func(query string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/support?seconds=0&"+query, nil)
		r.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	if w := ask("since=" + from.Format(time.RFC3339)); w.Code != http.StatusOK || !b.asked.Since.Equal(from) {
		t.Errorf("%d, events since %v", w.Code, b.asked.Since)
	}
	for query, want := range map[string]string{"since=yesterday": "since \"yesterday\": want how long ago", "since=-1h": "want how long ago"} {
		if w := ask(query); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
