package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"heddle/api/kinds"
)

// TestEventsRefused: what no event can match is refused, and kinds of another version that the log has are
// not.
func TestEventsRefused(t *testing.T) {
	f := newFake(3)
	f.events[1].Kind = "of_before"
	h := New(f, Options{})
	for query, want := range map[string]string{
		"kind=node_gon":             `kind \"node_gon\": there are no such events; did you mean \"node_gone\"?`,
		"kind=node_gone,nodes_*":    `kind \"nodes_*\": no kind of events begins so; the nearest is \"node_new\"`,
		"kind=node_gone,*,of_*":     "",
		"kind=of_before":            "",
		"kind=of_*":                 "",
		"kind=" + kinds.All()[0]:    "",
		"after=4":                   "there is no event 4 yet: the newest of this manager is 3",
		"since=999999":              "there is no event 999999 yet",
		"cause=5":                   "there is no event 5 yet",
		"after=3":                   "",
		"since=3&cause=2":           "",
		"kind=state&node=nobody":    "",
		"kind=a*&since=1h&before=9": "",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/v1/events?"+query, nil))
		code := http.StatusOK
		if want != "" {
			code = http.StatusUnprocessableEntity
		}
		if w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %d %s", query, w.Code, w.Body, code, want)
		}
	}
}
