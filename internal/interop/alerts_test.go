package interop

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"heddle/internal/need"
)

// TestAlerts: each alert about the manager fires for its fault and not without it, and asks for metrics that there are.
func TestAlerts(t *testing.T) {
	promtool := need.Tool(t, "promtool")
	const file = "../../contrib/prometheus/heddle.rules.yaml"
	for _, args := range [][]string{{"check", "rules", file}, {"test", "rules", "testdata/alerts.yaml", "testdata/alertsday.yaml"}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
	rules, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests []byte
	for _, name := range []string{"testdata/alerts.yaml", "testdata/alertsday.yaml"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, b...)
	}
	_, manager, ok := strings.Cut(string(rules), "name: heddle-manager")
	if !ok {
		t.Fatal("no group heddle-manager")
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(manager, -1) {
		if !strings.Contains(string(tests), alert[1]) {
			t.Errorf("%s has no test", alert[1])
		}
	}
	for _, expr := range regexp.MustCompile(`(?m)expr: (.*)$`).FindAllStringSubmatch(manager, -1) {
		for _, name := range regexp.MustCompile(`heddle_\w+`).FindAllString(expr[1], -1) {
			if !strings.Contains(string(doc), "`"+name+"`") {
				t.Errorf("%s: docs/metrics.md does not have %s", expr[1], name)
			}
		}
	}
}
