package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// dial is a Controller whose settings are a level.
type dial struct {
	level string
	wrong error
}

func (d *dial) Reload(_ context.Context, dry bool) (Reloaded, error) {
	if d.wrong != nil {
		return Reloaded{}, d.wrong
	}
	return Reloaded{
		Applied: !dry,
		Changes: []SettingChange{{"priority", "0", "7", "now"}, {"lmc", "0", "1", "restart"}}, Restart: []string{"lmc"},
	}, nil
}

func (d *dial) LogLevel() string { return d.level }

func (d *dial) SetLogLevel(name string) error {
	d.level = name
	return nil
}

func (d *dial) Settings() []SettingValue { return []SettingValue{{Setting: "priority", Value: "7"}} }
func (d *dial) SetPriority(int) error    { return d.wrong }
func (d *dial) Activate() error          { return d.wrong }

// TestControl: a reload says what changed, an error of it is the client's to read, and the audit log has
// the settings that changed.
func TestControl(t *testing.T) {
	d, log := &dial{level: "info"}, &diary{}
	h := New(newFake(0), Options{AllowWrite: true, Control: d, Audit: log})
	check := func(method, path, body string, code int, want string) {
		t.Helper()
		w := ask(h, method, "http://localhost"+path, strings.NewReader(body), "Content-Type: application/json")
		if w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	check("POST", "/v1/reload", "", http.StatusOK, `"applied":true`)
	check("POST", "/v1/reload?dry_run=true", "", http.StatusOK, `"applied":false,"changes":[{"setting":"priority"`)
	check("POST", "/v1/reroute?dry_run=true", "", http.StatusOK, "")
	for _, e := range log.entries[1:3] {
		if len(e.Change) != 1 || e.Change[0] != dryRun {
			t.Errorf("%s: the audit log has %q", e.Path, e.Change)
		}
	}
	check("POST", "/v1/reload", "", http.StatusOK, `"restart":["lmc"],"files":[]`)
	if e := log.entries[0]; len(e.Change) != 2 || e.Change[1] != "lmc: 0 -> 1 (restart)" {
		t.Errorf("the audit log has %q", e.Change)
	}
	d.wrong = errors.New("heddle.yaml:3:3: unknown setting")
	check("POST", "/v1/reload", "", http.StatusUnprocessableEntity, "nothing changed: heddle.yaml:3:3")
	check("PUT", "/v1/loglevel", `{"level":"debug"}`, http.StatusOK, `"level":"debug"`)
	if e := log.entries[len(log.entries)-1]; len(e.Change) != 1 || e.Change[0] != "log level: info -> debug" {
		t.Errorf("the audit log has %q", e.Change)
	}
	check("PUT", "/v1/loglevel", `{"level":"loud"}`, http.StatusUnprocessableEntity, "debug")
	check("GET", "/v1/loglevel", "", http.StatusOK, `"level":"debug"`)
	d.wrong = nil
	check("POST", "/v1/ha/priority?priority=9", "", http.StatusNoContent, "")
	if e := log.entries[len(log.entries)-1]; len(e.Change) != 1 || e.Change[0] != "priority: 7 -> 9" {
		t.Errorf("the audit log has %q", e.Change)
	}
}
