package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/vm"
)

// TestKept: what is kept is listed without a token; to adopt or drop it needs one, and ports arrive.
func TestKept(t *testing.T) {
	f := newFake(0)
	f.fakeMachines.kept = []Kept{{PortGUID: "0x1", GUID: "0x2", PKey: "0x0005", Membership: "full", Since: time.Unix(5, 0).UTC()}}
	h := New(f, Options{Token: "secret"})
	w := ask(h, "GET", "/v1/kept", nil)
	if want := `"pkey":"0x0005","membership":"full","since":"1970-01-01T00:00:05Z"`; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/v1/kept/adopt", "/v1/kept/drop"} {
		if w := ask(h, "POST", path, strings.NewReader(`{}`), inJSON); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
	w = ask(h, "POST", "/v1/kept/adopt", strings.NewReader(`{"ports":["H1","0x2"]}`), secret, inJSON)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `{"what":"P_Key 6","error":"no"}`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w = ask(h, "POST", "/v1/kept/drop", strings.NewReader(`{}`), secret, inJSON); w.Code != http.StatusAccepted {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if want := []string{"adopt H1 0x2", "drop "}; !slices.Equal(f.ports, want) {
		t.Errorf("asked %q, want %q", f.ports, want)
	}
	f.refused = vm.ErrNotFound
	if w = ask(h, "POST", "/v1/kept/drop", strings.NewReader(`{"ports":["H9"]}`), secret, inJSON); w.Code != http.StatusNotFound {
		t.Errorf("an unknown port: %d %s", w.Code, w.Body)
	}
}
