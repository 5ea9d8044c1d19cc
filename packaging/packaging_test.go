// Package packaging tests what goes into the packages, and the packages themselves.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"heddle/internal/need"
)

// recipe is a configuration of nfpm, as far as this test reads it.
type recipe struct {
	Name      string `yaml:"name"`
	Contents  []any  `yaml:"contents"`
	Overrides map[string]struct {
		Scripts map[string]string `yaml:"scripts"`
	} `yaml:"overrides"`
}

// recipes are both, by the package's name, with their files: source by destination.
func recipes(t *testing.T) (all map[string]*recipe, files map[string]map[string]string) {
	t.Helper()
	all, files = map[string]*recipe{}, map[string]map[string]string{}
	for _, name := range []string{"heddle", "heddle-etcd"} {
		b, err := os.ReadFile(name + ".nfpm.yaml")
		if err != nil {
			t.Fatal(err)
		}
		r := &recipe{}
		if err := yaml.Unmarshal(b, r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name], files[name] = r, map[string]string{}
		for _, c := range r.Contents {
			// What is no map stands for files that build.sh makes.
			if m, ok := c.(map[string]any); ok && m["type"] != "dir" {
				files[name][m["dst"].(string)] = m["src"].(string)
			}
		}
	}
	return all, files
}

// TestContents: what the packages name is there, and each unit, rule and configuration of the
// repository is in one of them, where programs look for it.
func TestContents(t *testing.T) {
	all, files := recipes(t)
	packed := map[string]int{}
	for name, list := range files {
		for dst, src := range list {
			packed[src]++
			if strings.Contains(src, "${STAGE}") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", src)); err != nil {
				t.Errorf("%s: %s: %v", name, dst, err)
			}
		}
		for kind, o := range all[name].Overrides {
			for when, script := range o.Scripts {
				if _, err := os.Stat(filepath.Join("..", script)); err != nil {
					t.Errorf("%s, %s, %s: %v", name, kind, when, err)
				}
				packed[script]++
			}
		}
	}
	for _, pattern := range []string{"contrib/systemd/*", "contrib/udev/*", "contrib/prometheus/*", "packaging/scripts/*", "packaging/lintian/*", "packaging/*.env"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(found) == 0 {
			t.Errorf("%s: %v, %v", pattern, found, err)
		}
		for _, f := range found {
			if src := strings.TrimPrefix(filepath.ToSlash(f), "../"); packed[src] == 0 {
				t.Errorf("%s is in no package", src)
			}
		}
	}
	for dst, src := range map[string]string{
		"/usr/bin/heddle":                                "${STAGE}/heddle",
		"/usr/lib/systemd/system/heddle@.service":        "contrib/systemd/heddle@.service",
		"/usr/lib/udev/rules.d/91-heddle.rules":          "contrib/udev/91-heddle.rules",
		"/usr/lib/sysusers.d/heddle.conf":                "contrib/systemd/heddle.sysusers",
		"/usr/lib/tmpfiles.d/heddle.conf":                "contrib/systemd/heddle.tmpfiles",
		"/etc/heddle/heddle.yaml":                        "packaging/heddle.yaml",
		"/usr/share/heddle/prometheus/heddle.rules.yaml": "contrib/prometheus/heddle.rules.yaml",
	} {
		if files["heddle"][dst] != src {
			t.Errorf("%s is %q", dst, files["heddle"][dst])
		}
	}
}

// unit is the lines of a unit, by key; a key may have several.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../contrib/systemd", name))
	if err != nil {
		t.Fatal(err)
	}
	u := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			u[k] = append(u[k], v)
		}
	}
	return u
}

// TestUnit: what the manager's unit promises.
func TestUnit(t *testing.T) {
	u := unit(t, "heddle@.service")
	for k, want := range map[string]string{
		"Type": "notify", "Restart": "always", "RestartSec": "1", "WatchdogSec": "10", "User": "heddle",
		"Conflicts": "opensm@%i.service", "ExecStart": "/usr/bin/heddle sm --port umad:%I",
		"DevicePolicy": "closed", "DeviceAllow": "char-infiniband_mad rw", "CapabilityBoundingSet": "",
		"ProtectSystem": "strict", "MemoryDenyWriteExecute": "yes", "StateDirectory": "heddle/%i",
	} {
		if got := u[k]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s=%v, want %q", k, got, want)
		}
	}
	// SIGABRT of the watchdog and a panic end Go programs with status 2.
	if got := u["RestartPreventExitStatus"]; got != nil {
		t.Errorf("RestartPreventExitStatus=%v", got)
	}
	if got := u["SystemCallFilter"]; !slices.Equal(got, []string{"@system-service", "~@privileged @resources", "setpriority"}) {
		t.Errorf("SystemCallFilter: %v", got)
	}
}

// TestUnitSecurity: systemd rates each service 2.0 or better.
func TestUnitSecurity(t *testing.T) {
	analyze := need.Tool(t, "systemd-analyze")
	list, err := filepath.Glob("../contrib/systemd/*.service")
	if err != nil || len(list) < 4 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, f := range list {
		out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=20", f).CombinedOutput()
		if strings.Contains(string(out), "unrecognized option") {
			need.Missing(t, "systemd-analyze", "it is older than version 250")
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Logf("%s: %s", filepath.Base(f), lines[len(lines)-1])
		if err != nil {
			t.Errorf("%s: %v\n%s", f, err, out)
		}
	}
}

// TestScripts: the scripts are ones that sh reads; those of debs stop at the first error, those of
// rpms never fail an erasure.
func TestScripts(t *testing.T) {
	sh := need.Tool(t, "sh")
	list, err := filepath.Glob("scripts/*")
	if err != nil || len(list) < 10 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, f := range append(list, "version.sh") {
		if out, err := exec.Command(sh, "-n", f).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f, err, out)
		}
	}
	for _, f := range list {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if rpm := strings.HasSuffix(f, ".rpm"); rpm && !strings.HasSuffix(text, "exit 0\n") || !rpm && !strings.Contains(text, "set -e\n") {
			t.Errorf("%s: how does it end?", f)
		}
		for line := range strings.Lines(text) {
			if started.MatchString(line) && !strings.Contains(line, "echo ") {
				t.Errorf("%s starts something: %s", f, line)
			}
		}
	}
}

// started are commands after which something would run.
var started = regexp.MustCompile(`systemctl.* (start|restart|try-restart|enable|reenable|preset|isolate)\b`)

// TestVersion: the version of a release, of work after it, and without git; and dpkg puts them into
// that order.
func TestVersion(t *testing.T) {
	root := t.TempDir()
	script, err := os.ReadFile("version.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "packaging"), 0o755); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(root, "packaging", "version.sh")
	if err := os.WriteFile(copied, script, 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(root), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_DATE=2026-11-23T10:15:00+01:00", "GIT_COMMITTER_DATE=2026-11-23T10:15:00+01:00")
	version := func(changelog string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(changelog), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(need.Tool(t, "sh"), copied)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	const released = "# Changelog\n\n## 0.2.0 (2026-12-01)\n\n## 0.1.0 (2026-11-21)\n"
	const after = "# Changelog\n\n## Unreleased: Counters\n\n## Unreleased: Hosts\n\n## 0.1.0 (2026-11-21)\n"
	if v := version(released); v != "0.2.0" {
		t.Errorf("a release: %s", v)
	}
	if v := version(after); v != "0.1.0+unreleased" {
		t.Errorf("without git: %s", v)
	}
	git := need.Tool(t, "git")
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"}} {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Env = root, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	v := version(after)
	if !regexp.MustCompile(`^0\.1\.0\+git20261123T091500\.[0-9a-f]{8}$`).MatchString(v) {
		t.Errorf("work after a release: %s", v)
	}
	dpkg := need.Tool(t, "dpkg")
	for _, order := range [][2]string{{"0.1.0", v}, {v, "0.1.1"}, {v, "0.2.0"}} {
		if err := exec.Command(dpkg, "--compare-versions", order[0], "lt", order[1]).Run(); err != nil {
			t.Errorf("%s is not before %s", order[0], order[1])
		}
	}
}
