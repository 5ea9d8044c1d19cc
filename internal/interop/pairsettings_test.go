package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"heddle/api"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPairSettings: two managers whose settings differ say which, in the status, an event, the log and a metric, without
// their values. After a reload none differs, and both say so.
func TestPairSettings(t *testing.T) {
	p, _ := newFaultyPair(t)
	names := []string{"sm-key", "engine", "hoq-life", "qos-policy"}
	policy := filepath.Join(p.b.dir, "qos%d.yaml")
	for i := range 2 {
		if err := p.prog[i].stop(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("qos-levels\n    qos-level\n        name: DEFAULT\n        use: text %d\n        sl: 0\n    end-qos-level\nend-qos-levels\n", i)
		if err := os.WriteFile(fmt.Sprintf(policy, i), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(p.b.dir, "NUMBER.yaml")
	write := func(i int, sm string) {
		t.Helper()
		text := fmt.Sprintf("sm:\n  sm-key: 0x%s\n  engine: %s\n  hoq-life: %d\n  qos-policy: %s\n", sm, []string{"updn", "minhop"}[i], 17+i, fmt.Sprintf(policy, i))
		if err := os.WriteFile(strings.ReplaceAll(config, "NUMBER", fmt.Sprint(i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.more = append(p.more, "--config", config)
	write(0, "123456789a")
	write(1, "123456789b")
	p.start(0)
	p.start(1)
	p.paired()
	for i := range 2 {
		p.until(i, "aware of what differs", func(h api.HA) bool { return slices.Equal(h.Pair.Differ, names) })
		out, err := p.ctl(i, "status")
		if want := "these differ, give both managers the same: " + strings.Join(names, ", "); err != nil || !strings.Contains(out, want) {
			t.Errorf("the status does not say %q: %v\n%s", want, err, out)
		}
		if got := metric(t, p.addr[i], "heddle_ha_config_differs"); got != 4 {
			t.Errorf("the metric is %v", got)
		}
		if log := p.prog[i].Output(); !strings.Contains(log, "settings of the two managers differ") || strings.Contains(log, "123456789") {
			t.Errorf("the log of manager %d:\n%s", i, log)
		}
	}
	// sm-key needs a restart; what a reload can make alike is alike after it.
	if err := os.WriteFile(fmt.Sprintf(policy, 1), []byte(read(t, fmt.Sprintf(policy, 0))), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(read(t, strings.ReplaceAll(config, "NUMBER", "0")), "9a", "9b")
	if err := os.WriteFile(strings.ReplaceAll(config, "NUMBER", "1"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, upTime, p.b.dir, nil, heddle, "ctl", "reload", "--api", p.addr[1])
	for i := range 2 {
		p.until(i, "left with the key", func(h api.HA) bool { return slices.Equal(h.Pair.Differ, names[:1]) })
	}
	if err := p.prog[1].stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(strings.ReplaceAll(config, "NUMBER", "1"), []byte(read(t, strings.ReplaceAll(config, "NUMBER", "0"))), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start(1)
	p.paired()
	p.until(0, "alike", func(h api.HA) bool { return len(h.Pair.Differ) == 0 })
	var events []api.Event
	getJSON(t, "http://"+p.addr[0]+"/v1/events", &events)
	var said []string
	for _, e := range events {
		if e.Kind == "ha_settings_differ" || e.Kind == "ha_settings_alike" {
			said = append(said, e.Kind+" "+e.Attrs["settings"])
		}
	}
	if want := []string{"ha_settings_differ " + strings.Join(names, ", "), "ha_settings_differ sm-key", "ha_settings_alike "}; !slices.Equal(said, want) {
		t.Errorf("events %q, want %q", said, want)
	}
}
