package interop

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"heddle/internal/need"
	"heddle/opensm"
)

// template is an opensm.conf as OpenSM writes it, after it has read conf.
func template(t *testing.T, conf string) (options map[string]string, path string) {
	t.Helper()
	dir := t.TempDir()
	from, path := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, upTime, dir, []string{"OSM_TMP_DIR=/var/log/"}, need.Tool(t, "opensm"), "-F", from, "-c", path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options = map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && name[0] != '#' {
			if old, again := options[name]; again { // a line for each service level
				value = old + ", " + value
			}
			options[name] = strings.TrimSpace(value)
		}
	}
	return options, path
}

// notInTemplate are the options that `opensm -c` does not write.
var notInTemplate = []string{"dimn_ports_file", "max_rate_enum"}

// TestOptionsOfOpenSM: the table of package opensm has every option of OpenSM, with its default, and
// what OpenSM writes is imported without a loss.
func TestOptionsOfOpenSM(t *testing.T) {
	options, path := template(t, "")
	ours := map[string]string{}
	for _, o := range opensm.Options() {
		if !o.Vendor && !slices.Contains(notInTemplate, o.Name) {
			ours[o.Name] = o.Default
		}
	}
	if !maps.Equal(ours, options) {
		for _, name := range slices.Sorted(maps.Keys(options)) {
			if def, ok := ours[name]; !ok || def != options[name] {
				t.Errorf("%s is %s with OpenSM, and %q in the table", name, options[name], def)
			}
		}
		for name := range ours {
			if _, ok := options[name]; !ok {
				t.Errorf("OpenSM's template has no %s", name)
			}
		}
	}
	if len(ours)+len(notInTemplate) != 162 {
		t.Errorf("%d options", len(ours)+len(notInTemplate))
	}
	dir := t.TempDir()
	empty := filepath.Join(dir, "cache")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	must(t, upTime, dir, nil, heddle, "import", "opensm", "--conf", path, "--cache", empty, "--no-lids", "--state", filepath.Join(dir, "state"))
	yaml, err := os.ReadFile(filepath.Join(dir, "heddle.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range options {
		if !strings.Contains(strings.Join(strings.Fields(string(yaml)), " "), "# "+name+" ") {
			t.Errorf("the configuration says nothing about %s", name)
		}
	}
}

// TestOptionsAsOpenSM: OpenSM reads lines with its quirks, and package opensm reads the same values.
func TestOptionsAsOpenSM(t *testing.T) {
	need.Tool(t, "opensm")
	rng := rand.New(rand.NewPCG(1, 2))
	values := []string{
		"0", "1", "2", "3", "5", "7", "9", "010", "0x10", "0X1F", "15", "16", "30", "31", "32", "99", "254", "255", "256", "-1", "-2", "+7", "65535", "65536", "4294967295", "4294967296",
		"18446744073709551615", "18446744073709551616", "0xffffffffffffffffff", "7x", "x7", "0x", "08", "TRUE", "FALSE", "true", "True", "yes", "(null)", "both", "in", "Both", "off",
		`"quoted text"`, `'other'`, `"`, `"half`, "a b", "a#b", "", " ", "\t7\t", "7\r", "2:3", "2", "3 7", "3  7", "17 7", "0x3 0x7", "0xF", "0xabc", "local", "a,b", "0:1,1:2", "0 70000",
	}
	all := opensm.Options()
	for range 12 {
		var conf strings.Builder
		for range 150 {
			o := all[rng.IntN(len(all))]
			// What a console may be depends on how OpenSM was built. A wrong part_enforce makes it write
			// beyond the value.
			if o.Vendor || o.Name == "console" || o.Name == "part_enforce" {
				continue
			}
			conf.WriteString(o.Name + " " + values[rng.IntN(len(values))])
			conf.WriteString("\n")
		}
		theirs, _ := template(t, conf.String())
		ours, err := opensm.Read(strings.NewReader(conf.String()), "conf")
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range theirs {
			if v := ours.Get(name); name == "force_link_speed_ext" && v.Number > 7 && v.Number < 16 {
				continue // with NDR, which 3.3.23 does not know
			} else if v.Levels != nil {
				if got := levels(want, v.Levels); got != want {
					t.Errorf("%s is %q with OpenSM, and %q here; the lines are\n%s", name, want, got, linesOf(conf.String(), name))
				}
				continue
			}
			if got := strings.TrimSpace(ours.Get(name).Text); !strings.EqualFold(got, want) { // OpenSM writes some digits large
				t.Errorf("%s is %q with OpenSM, and %q here; the lines are\n%s", name, want, got, linesOf(conf.String(), name))
			}
		}
		if t.Failed() {
			return
		}
	}
}

// levels are the values of the service levels that want has, and of all others that have one.
func levels(want string, values map[uint8]uint64) string {
	var list []string
	for sl := range uint8(16) {
		if v := values[sl]; v != 0 || strings.Contains(", "+want, fmt.Sprintf(", %d ", sl)) {
			list = append(list, fmt.Sprintf("%d %d", sl, v))
		}
	}
	return strings.Join(list, ", ")
}

func linesOf(conf, name string) string {
	var out strings.Builder
	for line := range strings.Lines(conf) {
		if strings.HasPrefix(line, name+" ") {
			fmt.Fprintf(&out, "%q\n", line)
		}
	}
	return out.String()
}

// TestNodeNames: a node-name-map gives nodes names in the API, the log, metrics and dumps. The SA answers
// with their own descriptions, as OpenSM does.
func TestNodeNames(t *testing.T) {
	need.Tool(t, "saquery")
	b := smallTree.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	sw := b.fab.Nodes[b.fab.Find(b.sm)]
	host := b.fab.Nodes[b.fab.Find(b.cas[1])]
	names := fmt.Sprintf("%#x \"rack 7 top\"\n%#x backup-server # spare\n", uint64(sw.GUID), uint64(host.GUID))
	if err := os.WriteFile(filepath.Join(b.dir, "names"), []byte(names), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := need.Addr(t)
	sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[0]+"@"+sock, "--api", addr, "--node-names", "names", "--dump", "dumps")
	sm.await("SUBNET UP\n", 0, upTime)
	nodes := must(t, upTime, b.dir, nil, heddle, "ctl", "nodes", "--api", addr)
	links := must(t, upTime, b.dir, nil, heddle, "ctl", "links", "--api", addr)
	dump, err := os.ReadFile(filepath.Join(b.dir, "dumps", "opensm-subnet.lst"))
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"ctl nodes": nodes, "ctl links": links, "the dump": string(dump)} {
		for _, name := range []string{"rack 7 top", "backup-server"} {
			if !strings.Contains(text, name) {
				t.Errorf("%s does not show %s:\n%s", what, name, tail(text))
			}
		}
		if strings.Contains(text, host.Desc+" ") {
			t.Errorf("%s shows %s:\n%s", what, host.Desc, tail(text))
		}
	}
	records := must(t, upTime, b.dir, append(env, "SIM_HOST="+b.cas[2]), "ibsim-run", "saquery", "NR", fmt.Sprint(b.seenLIDs(t, env, b.cas[2])[fmt.Sprintf("%v[1]", host.GUID)]))
	if !strings.Contains(records, host.Desc) || strings.Contains(records, "backup-server") {
		t.Errorf("saquery NR:\n%s", tail(records))
	}
	out, err := run(t, upTime, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[3]+"@"+sock, "--node-names", b.path)
	if err == nil || !strings.Contains(out, "does not begin with a GUID") {
		t.Errorf("a file that is none: %v, %s", err, out)
	}
}

// TestOpenSMCompatible: with --opensm-compatible scripts for OpenSM find their files and lines, SIGUSR1
// opens the log again, and OpenSM itself reads guid2lid.
func TestOpenSMCompatible(t *testing.T) {
	need.Tool(t, "opensm")
	b := smallTree.build(t)
	_, env := b.simulate(t)
	sock := strings.TrimPrefix(env[0], "IBSIM_SOCKNAME=")
	sm := start(t, b.dir, nil, heddle, "sm", "--port", "ibsim:"+b.cas[0]+"@"+sock, "--api", "", "--opensm-compatible=compatible", "--state", "state")
	sm.await("SUBNET UP\n", 0, upTime)
	log := filepath.Join(b.dir, "compatible/var/log/opensm.log")
	lines := func() string {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	form := regexp.MustCompile(`(?s)^[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d \d{6} \[[0-9A-F]{8}\] 0x80 -> Entering DISCOVERING state\n.* -> Entering MASTER state\n.* -> SUBNET UP\n$`)
	if text := lines(); !form.MatchString(text) {
		t.Errorf("the log is\n%s", text)
	}
	list, err := os.ReadFile(filepath.Join(b.dir, "compatible/var/log/opensm-subnet.lst"))
	if err != nil || strings.Count(string(list), "LOG=ACT") != 2*len(cables(b.fab)) { // a line for each direction
		t.Errorf("%v: opensm-subnet.lst has\n%s", err, tail(string(list)))
	}
	lids := b.seenLIDs(t, env, b.cas[2])
	cache := filepath.Join(b.dir, "compatible/var/cache/opensm")
	stored := func() int {
		f, err := os.Open(filepath.Join(cache, opensm.FileLIDs))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var c opensm.Cache
		if err := c.ReadLIDs(f, "guid2lid", 0); err != nil || len(c.Problems)+len(c.Notes) > 0 {
			t.Fatal(err, c)
		}
		return len(c.LIDs)
	}
	if n := stored(); n != len(lids) {
		t.Errorf("guid2lid has %d ports, want %d", n, len(lids))
	}
	// A log that was moved away is opened again.
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	sm.Signal(syscall.SIGUSR1)
	eventually(t, "the log is opened again", func() bool { _, err := os.Stat(log); return err == nil })
	if err := sm.stop(syscall.SIGTERM); err != nil {
		t.Errorf("heddle sm ended with %v", err)
	}
	if text := lines(); !strings.HasSuffix(text, " 0x80 -> Exiting SM\n") || strings.Contains(text, "SUBNET UP") {
		t.Errorf("the new log is\n%s", text)
	}
	conf := filepath.Join(b.dir, "opensm.conf")
	if err := os.WriteFile(conf, []byte("force_log_flush TRUE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	osm := start(t, b.dir, append(env, "SIM_HOST="+b.cas[0], "OSM_TMP_DIR="+b.dir, "OSM_CACHE_DIR="+cache), "ibsim-run", need.Tool(t, "opensm"), "-F", conf, "-e", "-f", "stdout")
	osm.await("SUBNET UP", 0, upTime)
	if now := b.seenLIDs(t, env, b.cas[2]); !maps.Equal(now, lids) {
		t.Errorf("LIDs moved:\n%s", lidDiff(lids, now))
	}
	osm.stop(syscall.SIGINT)
	if n := stored(); n != len(lids) {
		t.Errorf("OpenSM left %d ports in guid2lid, want %d", n, len(lids))
	}
}
