package process_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heddle/access"
	"heddle/api"
	"heddle/daemon/process"
	"heddle/store/journal"
	"heddle/store/ring"
)

// TestTokensOnStandby: a process on standby accepts the tokens that the active manager of another process
// makes, within a second, refuses them within a second when they are revoked or expire, creates none
// itself, and keeps an audit log of its own that outlives the process.
func TestTokensOnStandby(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log, err := ring.Open(dir, "audit", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		st := journal.NewMemory(10) // as the stream from the active manager fills it
		o := &office{give: make(chan *process.Mandate), held: make(chan *process.Mandate, 1), left: make(chan struct{})}
		o.State, o.ha = st, api.HA{Mode: "pair", State: "paired", ActiveAt: "other.example", Pair: &api.Pair{PortGUID: "0x1", PeerGUID: "0x2"}}
		p := process.New(process.Config{Authority: o, PortName: "test", Audit: log})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		synctest.Wait() // it has looked once
		h := p.Handler(api.Options{Token: "secret", Login: true})
		ask := func(method, path, body, token string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		soon := func(what, token string, want int) {
			t.Helper()
			<-time.After(time.Second) // of the bubble
			synctest.Wait()
			if w := ask("GET", "/v1/status", "", token); w.Code != want {
				t.Errorf("%s: status %d %s, want %d", what, w.Code, w.Body, want)
			}
		}
		var active access.Registry
		random := rand.NewChaCha8([32]byte{1})
		text, _, err := active.Create(st, access.NewToken{Name: "a", Role: access.Admin, Expires: time.Now().Add(time.Hour)}, random, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		other, _, err := active.Create(st, access.NewToken{Name: "b", Role: access.Viewer, Expires: time.Now().Add(time.Minute)}, random, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if w := ask("GET", "/v1/status", "", text); w.Code != 401 {
			t.Errorf("before it could know: %d", w.Code)
		}
		soon("a new token", text, 200)
		soon("another one", other, 200)
		for _, c := range []struct {
			method, path, body, token string
			want                      int
			has                       string
		}{
			{"GET", "/v1/tokens", "", text, 200, `"name":"b"`},
			{"GET", "/v1/tokens", "", other, 403, "viewer"},
			{"POST", "/v1/tokens", `{"name":"c","role":"viewer"}`, text, 503, "other.example"},
			{"DELETE", "/v1/tokens/b", "", text, 503, "other.example"},
			{"POST", "/v1/sweep", "", text, 503, "other.example"},
			{"POST", "/v1/sweep", "", other, 403, "operator"},
			{"GET", "/v1/nosuch", "", text, 404, ""},
			{"GET", "/v1/audit", "", text, 200, `"who":"token:a"`},
		} {
			if w := ask(c.method, c.path, c.body, c.token); w.Code != c.want || !strings.Contains(w.Body.String(), c.has) {
				t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
			}
		}
		if _, err := active.Revoke(st, "a"); err != nil {
			t.Fatal(err)
		}
		soon("a revoked token", text, 401)
		soon("the other one", other, 200)
		<-time.After(time.Minute)
		if w := ask("GET", "/v1/status", "", other); w.Code != 401 || !strings.Contains(w.Body.String(), "expired") {
			t.Errorf("after its time: %d %s", w.Code, w.Body)
		}
		synctest.Wait() // they are written
		events, _ := p.Events(0)
		if len(events) != 4 || events[0].Kind != "audit" || events[0].Attrs["who"] != "" || events[3].Attrs["audit"] != "4" {
			t.Errorf("events: %+v", events)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	// The next process goes on with the log.
	log, err := ring.Open(dir, "audit", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := &process.Single{State: journal.NewMemory(1)}
	p := process.New(process.Config{Authority: s, Audit: log})
	h := p.Handler(api.Options{AllowWrite: true})
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://localhost/v1/sweep", nil))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/v1/audit?after=3", nil))
	var a api.Audit
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Entries) != 3 || a.Entries[0].Who != "token:b" || a.Entries[0].Seq != 4 || a.Entries[2].Seq != 6 || a.Entries[2].Who != "socket:owner" || a.Entries[0].Time.IsZero() {
		t.Errorf("%+v", a.Entries)
	}
	list, err := p.Auditor().Audited(0, a.Entries[1].Time, 10)
	if err != nil || len(list) != 2 {
		t.Errorf("since the second process: %+v, %v", list, err)
	}
}
