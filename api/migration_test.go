package api

import (
	"net/http"
	"strings"
	"testing"
)

// TestMigrationRequests: reports reach the manager as they were sent, what is no report
// is refused, and who only reads may not report.
func TestMigrationRequests(t *testing.T) {
	const path = "/v1/vms/web/migration"
	good := `{"stage":"copying","from":{"port_guid":"0x1","function":2},"memory_bytes":4096,"rounds":[{"bytes":4096,"seconds":0.5}],"driver":"sim"}`
	for _, c := range []struct {
		path, body, token string
		code              int
	}{
		{path, good, secret, 204},
		{path, good, "", 401},
		{"/v1/vms/gone/migration", good, secret, 404},
		{"/v1/vms/" + strings.Repeat("x", 129) + "/migration", good, secret, 422},
		{path, `{"stage":"flying"}`, secret, 422},
		{path, `{}`, secret, 422},
		{path, `{"stage":"copying","outage_ms":-1}`, secret, 422},
		{path, `{"stage":"copying","started":"2026-01-01T00:00:00Z"}`, secret, 422},
		{path, `{"stage":"copying","rounds":[` + strings.Repeat(`{"bytes":1,"seconds":1},`, 64) + `{"bytes":1,"seconds":1}]}`, secret, 422},
		{path, `{"stage":"failed","reason":"` + strings.Repeat("x", 1001) + `"}`, secret, 422},
		{path, `{"stage":"copying","outage_ms":1e999}`, secret, 400},
		{path, `{"stage":`, secret, 400},
		{path, `[]`, secret, 422},
		{path, "", secret, 400},
		{path, `{"stage":"copying","driver":"` + strings.Repeat("x", maxBody) + `"}`, secret, 413},
	} {
		m := newFake(0)
		head := []string{inJSON}
		if c.token != "" {
			head = append(head, c.token)
		}
		w := ask(New(m, Options{Token: "secret"}), http.MethodPut, c.path, strings.NewReader(c.body), head...)
		if w.Code != c.code || len(m.progress) != map[bool]int{true: 1}[c.code == 204] {
			t.Errorf("%.60s %s: %d %.300s, want %d", c.body, c.path, w.Code, w.Body, c.code)
		}
		if c.code == 204 && (m.progress[0].Stage != "copying" || m.progress[0].From.Function != 2 || m.progress[0].Rounds[0].Seconds != 0.5) {
			t.Errorf("%+v", m.progress)
		}
	}
}

// TestVMChangesRequest: reading needs no token, and nonsense is refused.
func TestVMChangesRequest(t *testing.T) {
	h := New(newFake(0), Options{Token: "secret"})
	if w := ask(h, http.MethodGet, "/v1/vms:changes?since=a-1&wait=0.5", nil); w.Code != 200 || !strings.Contains(w.Body.String(), `"since":"a-11","reset":false,"changes":[]`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, q := range []string{"wait=51", "wait=-1", "wait=soon", "since=" + strings.Repeat("x", 65)} {
		if w := ask(h, http.MethodGet, "/v1/vms:changes?"+q, nil); w.Code != 422 {
			t.Errorf("%s: %d %s", q, w.Code, w.Body)
		}
	}
}
