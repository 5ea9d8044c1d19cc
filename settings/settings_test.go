package settings

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"heddle/internal/settingstest"
	"heddle/sa"
	"heddle/sm"
	"heddle/vm"
)

// TestTable: each row is complete, its default is a valid value, and another value
// changes only this row's part of the configuration.
func TestTable(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, s := range All() {
		switch {
		case seen[s.Name]:
			t.Errorf("%s is there twice", s.Name)
		case !name.MatchString(s.Name):
			t.Errorf("%q is no name for a flag, a variable and a key", s.Name)
		case !slices.Contains(Groups(), s.Group):
			t.Errorf("%s: %q is no group", s.Name, s.Group)
		case s.Meaning == "" || strings.HasSuffix(s.Meaning, "."):
			t.Errorf("%s: meaning %q", s.Name, s.Meaning)
		case s.Since != first && s.Since != v020:
			t.Errorf("%s: since %q", s.Name, s.Since)
		case (s.Arg == "") != (s.Type() == "bool"):
			t.Errorf("%s: a %s with the argument %q", s.Name, s.Type(), s.Arg)
		}
		seen[s.Name] = true
		v := New()
		if err := v.Set(s.Name, s.Default(), "here"); err != nil {
			t.Errorf("the default is refused: %v", err)
		}
		if !reflect.DeepEqual(v.Config, Defaults()) && s.Name != "sa-key" {
			t.Errorf("%s: setting it to its default %q changes something", s.Name, s.Default())
		}
		text := other(t, s)
		if err := v.Set(s.Name, text, "here"); err != nil {
			t.Errorf("%q is refused: %v", text, err)
		}
		if reflect.DeepEqual(v.Config, Defaults()) {
			t.Errorf("%s: %q changes nothing", s.Name, text)
		}
		if !v.Given(s.Name) || v.From(s.Name) != "here" {
			t.Errorf("%s came from %q", s.Name, v.From(s.Name))
		}
		again := New()
		if err := again.Set(s.Name, v.Text(s.Name), "here"); err != nil || !reflect.DeepEqual(again.Config, v.Config) {
			t.Errorf("%s: what %q is written as, %q, means something else: %v", s.Name, text, v.Text(s.Name), err)
		}
		for _, o := range All() {
			if o != s && v.Text(o.Name) != o.Default() {
				t.Errorf("%s changes %s", s.Name, o.Name)
			}
		}
	}
}

// TestRefused: the error for a refused value names its origin and the valid values. It
// does not repeat secrets.
func TestRefused(t *testing.T) {
	for _, s := range All() {
		if s.Type() == "text" && s.Range() == "a text" || s.Name == "engine" || s.Name == "api-host" {
			continue // any will do, or the caller knows
		}
		v := New()
		err := v.Set(s.Name, "-7 zzz", "heddle.yaml:3:5: "+s.Name)
		if err == nil {
			t.Errorf("%s takes nonsense", s.Name)
			continue
		}
		said := err.Error()
		if !strings.HasPrefix(said, "heddle.yaml:3:5: "+s.Name) || !strings.Contains(said, s.Range()) {
			t.Errorf("%s: %s", s.Name, said)
		}
		if strings.Contains(said, "zzz") == s.Secret {
			t.Errorf("%s: the value is repeated or not: %s", s.Name, said)
		}
		if !reflect.DeepEqual(v.Config, Defaults()) || v.Given(s.Name) {
			t.Errorf("%s: a refused value changes something", s.Name)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"priority", "16", `--priority "16": want a whole number from 0 to 15 (leave it out for 0)`},
		{"hoq-life", "32", `--hoq-life "32": want a whole number from 0 to 31 (leave it out for 18)`},
		{"virt-default-hop-limit", "1", `--virt-default-hop-limit "1": want a whole number from 2 to 255 (leave it out for 2)`},
		{"sweep-interval", "-1s", `--sweep-interval "-1s": want a time with its unit, such as 10s or 200ms, or 0 for none; it must be 0 or more, and at most 8760h (leave it out for 10s)`},
		{"smp-timeout", "0", `--smp-timeout "0": want a time with its unit, such as 10s or 200ms; it must be above 0, and at most 8760h (leave it out for 200ms)`},
		{"perf", "1ns", `--perf "1ns": want a time with its unit, such as 10s or 200ms, or 0 for not at all; it must be 0, or 10ms or more, and at most 8760h (leave it out for 0)`},
		{"max-mtu", "1500", `--max-mtu "1500": want 256, 512, 1024, 2048 or 4096 (leave it out for 4096)`},
		{"link-width", "4x,3x", `--link-width "4x,3x": want 1x, 2x, 4x, 8x, 12x separated by commas, all, keep or a mask up to 0xff; "3x" is not one of these values (leave it out for keep)`},
		{"m-key", "x", `--m-key: want a 64-bit number`},
		{"cc-threshold", "16", `--cc-threshold "16": want a whole number from 0 to 15, or auto (leave it out for auto)`},
		{"cc-min", "16:1", `--cc-min "16:1": want a whole number from 0 to 255, for all service levels, or SL:VALUE for single ones, separated by commas; "16" is not a service level (leave it out for 0)`},
		{"cc-table", "0:1,4:1", `--cc-table "0:1,4:1": want SHIFT:MULTIPLIER, separated by commas, none or auto; "4:1" is not SHIFT:MULTIPLIER, 0 to 3 and 0 to 16383 (leave it out for auto)`},
	} {
		if err := New().Set(c.name, c.text, "--"+c.name); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// TestValues: alternative notations of values.
func TestValues(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"packet-life", "0x12", "18"},
		{"link-width", "255", "all"},
		{"link-width", "4X,1x", "1x,4x"},
		{"link-width", "0", "keep"},
		{"link-speed", "15", "all"},
		{"link-speed", "qdr,sdr", "sdr,qdr"},
		{"link-speed-ext", "30", "off"},
		{"link-speed-ext", "31", "all"},
		{"link-speed-ext", "off", "off"},
		{"link-speed-ext", "hdr,ndr", "hdr,ndr"},
		{"log-level", "DEBUG", "debug"},
		{"damp-quiet", "60s", "1m"},
		{"full-interval", "2h", "2h"},
		{"smp-retries", "0", "0"},
		{"engine", "ftree, updn", "ftree,updn"},
		{"sa-key", "0", "0x0"},
		{"cc-timer", "0x10, 3:200,5:auto", "16,3:200,5:auto"},
		{"cc-timer", "auto,0:7", "7,1:auto,2:auto,3:auto,4:auto,5:auto,6:auto,7:auto,8:auto,9:auto,10:auto,11:auto,12:auto,13:auto,14:auto,15:auto"},
		{"cc-increase", "2", "2"},
		{"cc-victim-mask", "0x0010000000000000000000000000000000000001", "0x10000000000000000000000000000000000001"},
		{"cc-credit-mask", "0X1fE", "0x1fe"},
		{"cc-table", "0:0, 1:2,3:16383", "0:0,1:2,3:16383"},
		{"cc-table", "none", "none"},
		{"cc-control", "SL", "sl"},
		{"vm-guid-pool", "", "0x0200000000000001-0x02000000ffffffff"},
	} {
		v := New()
		if err := v.Set(c.name, c.text, "here"); err != nil || v.Text(c.name) != c.want {
			t.Errorf("%s %q is %q, want %q: %v", c.name, c.text, v.Text(c.name), c.want, err)
		}
	}
}

// notSettings are fields of the cores' configuration that nobody sets by name.
var notSettings = map[string]string{
	"sm.PortGUID":               "of the port",
	"sm.PlanOnly":               "what the command plan is",
	"sm.TransportTimed":         "of the port",
	"sm.FirstTID":               "drawn at the start",
	"sm.MaxWindow":              "from window and the port",
	"sm.Engines":                "made from engine and its files",
	"sm.Explicit":               "of engine: one alone",
	"sm.Roots":                  "read from the file of roots",
	"sm.Names":                  "read from the file of node-names",
	"sa.SAKey":                  "from sa-key, or random",
	"sa.TrustLocal":             "of sa-key",
	"sa.QoS":                    "read from the file of qos-policy",
	"sm.SlowLane":               "of dftree",
	"sm.Granted":                "of the pair: this manager is active",
	"sm.Partner":                "of peer-guid",
	"sm.MayLack":                "of the pair: entries may be missing",
	"registry.MustSave":         "of peer: the manager of a pair",
	"registry.WaitPerRequester": "package daemon, of queueEach",
	"sa.PrefixRoutes":           "read from the file of prefix-routes",
	"registry.SAKey":            "from sa-key, or random", "registry.TrustLocal": "of sa-key", "registry.QoS": "of qos-policy",
	"registry.PathCaching": "that of the answers", "registry.VirtHopLimit": "that of the answers",
	"registry.FirstTID": "drawn at the start", "registry.TransportTimed": "of the port",
}

// TestEveryFieldIsSet: every field of a core's configuration has a setting, or a
// documented reason for having none.
func TestEveryFieldIsSet(t *testing.T) {
	set := map[string]bool{}
	for _, s := range All() {
		c, d := Defaults(), Defaults()
		if err := s.value.set(&c, other(t, s)); err != nil {
			t.Fatal(err)
		}
		for name, pair := range map[string][2]any{
			"sm": {c.SM, d.SM}, "sa": {c.SA, d.SA}, "registry": {c.Registry, d.Registry}, "vm": {c.VM, d.VM},
		} {
			a, b := reflect.ValueOf(pair[0]), reflect.ValueOf(pair[1])
			for i := range a.NumField() {
				if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
					set[name+"."+a.Type().Field(i).Name] = true
				}
			}
		}
	}
	all := map[string]bool{}
	for name, c := range map[string]any{"sm": sm.Config{}, "sa": sa.Options{}, "registry": sa.Config{}, "vm": vm.Config{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(c)) {
			all[name+"."+f.Name] = true
		}
	}
	for f := range all {
		if set[f] == (notSettings[f] != "") {
			t.Errorf("%s: set %v, and not to be set because %q", f, set[f], notSettings[f])
		}
	}
	for f := range notSettings {
		if !all[f] {
			t.Errorf("there is no field %s", f)
		}
	}
}

// TestDefaultsAreTheCores: without settings, the cores' defaults apply.
func TestDefaultsAreTheCores(t *testing.T) {
	c := Defaults()
	if !reflect.DeepEqual(c.SM, sm.Defaults()) || !reflect.DeepEqual(c.Registry, sa.Defaults()) || c.VM != vm.Defaults() {
		t.Error("Defaults has values of its own")
	}
}

// TestCheck: settings that require another one.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		set  [][2]string
		want string
	}{
		{nil, ""},
		{[][2]string{{"ufm-tls-cert", "a"}, {"ufm-tls-key", "b"}}, "HEDDLE_X requires --ufm-listen"},
		{[][2]string{{"api-tls-cert", "a"}}, "HEDDLE_X requires --api-tls-key"},
		{[][2]string{{"ufm-listen", "a:1"}}, "HEDDLE_X: the calls need a password; give --ufm-password-file"},
		{[][2]string{{"ufm-listen", "a:1"}, {"ufm-password-file", "f"}}, ""},
		{[][2]string{{"ufm-listen", "a:1"}, {"ufm-password-file", "f"}, {"ufm-user", "a:b"}}, `HEDDLE_X "a:b": want a name without a colon`},
		{[][2]string{{"etcd-ca", "d"}}, "HEDDLE_X requires --store"},
		{[][2]string{{"store", "etcd://a:1"}}, ""},
		{[][2]string{{"store", "etcd://a:1"}, {"once", "true"}}, "HEDDLE_X and HEDDLE_X do not go together: who holds the shared state stays"},
		{[][2]string{{"store", "etcd://a:1"}, {"peer", "b:1"}}, "HEDDLE_X requires --ha-dir ('heddle ctl ha certs' makes one), or --ha-cert"},
		{[][2]string{{"store", "etcd://a:1"}, {"peer", "b:1,c:1"}, {"ha-dir", "d"}}, ""},
		{[][2]string{{"store", "etcd://a:1"}, {"peer", "b:1,c"}, {"ha-dir", "d"}}, "HEDDLE_X \"c\": want HOST:PORT, such as manager-2:7482"},
		{[][2]string{{"store", "etcd://a:1"}, {"peer", "b:1"}, {"ha-dir", "d"}, {"peer-guid", "0x1"}}, "HEDDLE_X with --store has no --peer-guid, --peer-api or --ha-secret: these are of a pair"},
		{[][2]string{{"store", "etcd://a:1"}, {"sa-db", "f"}}, "HEDDLE_X and HEDDLE_X do not go together: import the dump into a state directory, and that into etcd (docs/ha.md)"},
		{[][2]string{{"store", "etcd://a:1"}, {"etcd-cert", "c"}}, "HEDDLE_X: want both --etcd-cert and --etcd-key"},
		{[][2]string{{"store", "etcd://a:1"}, {"etcd-cert", "c"}, {"etcd-key", "k"}}, "HEDDLE_X requires --etcd-ca"},
		{[][2]string{{"store", "etcd://a:1"}, {"etcd-user", "u"}}, "HEDDLE_X: want both --etcd-user and --etcd-password-file"},
		{[][2]string{{"store", "etcd://a:1"}, {"etcd-user", "u"}, {"etcd-password-file", "p"}}, "HEDDLE_X requires --etcd-ca: without encryption anybody on the way can read the password"},
		{[][2]string{{"store", "etcd://a:1"}, {"etcd-user", "u"}, {"etcd-password-file", "p"}, {"etcd-ca", "a"}}, ""},
		{[][2]string{{"ha-dir", "d"}}, "HEDDLE_X requires --peer"},
		{[][2]string{{"peer-guid", "7"}}, "HEDDLE_X requires --peer"},
		{[][2]string{{"peer", "b"}}, `HEDDLE_X "b": want HOST:PORT, such as manager-2:7482`},
		{[][2]string{{"peer", ":1"}}, `HEDDLE_X ":1": the host is missing: want HOST:PORT, such as manager-2:7482`},
		{[][2]string{{"peer", "fe80::1:1"}}, `HEDDLE_X "fe80::1:1": want HOST:PORT, such as manager-2:7482`},
		{[][2]string{{"peer", "[fe80::1]:1"}, {"ha-listen", "b:0"}}, `HEDDLE_X "b:0": want HOST:PORT, such as manager-2:7482`},
		{[][2]string{{"peer", "[fe80::1]:1"}, {"ha-listen", ":1"}}, "HEDDLE_X requires --state: a pair keeps its state on two disks"},
		{[][2]string{{"peer", "b:1"}, {"state", "d"}, {"once", "true"}}, "HEDDLE_X and HEDDLE_X do not go together: a pair stays"},
		{[][2]string{{"peer", "b:1"}, {"state", "d"}}, "HEDDLE_X requires --peer-guid, the other manager's port GUID ('ibstat -p' there prints it)"},
		{[][2]string{{"peer", "b:7482"}, {"state", "d"}, {"peer-guid", "7"}}, "HEDDLE_X requires --ha-dir ('heddle ctl ha certs' makes one), or --ha-cert"},
		{[][2]string{{"peer", "b:7482"}, {"state", "d"}, {"peer-guid", "7"}, {"ha-cert", "c"}, {"ha-key", "k"}, {"ha-ca", "a"}}, "HEDDLE_X requires --ha-dir ('heddle ctl ha certs' makes one), or --ha-secret"},
		{[][2]string{{"peer", "b:7482"}, {"state", "d"}, {"peer-guid", "7"}, {"ha-dir", "c"}}, ""},
		{[][2]string{{"cc-write-key", "true"}}, "HEDDLE_X requires --cc-key"},
		{[][2]string{{"cc-key", "5"}, {"cc-protect-key", "true"}}, "HEDDLE_X requires --cc-write-key"},
		{[][2]string{{"cc-key", "5"}, {"cc-key-lease", "60"}, {"cc-write-key", "true"}}, ""},
	} {
		v := New()
		for _, x := range c.set {
			if err := v.Set(x[0], x[1], "HEDDLE_X"); err != nil {
				t.Fatal(err)
			}
		}
		said := ""
		if err := v.Check(); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%v: %q, want %q", c.set, said, c.want)
		}
	}
}

// TestCompletePair: what is not given follows from --peer and --ha-dir.
func TestCompletePair(t *testing.T) {
	got := HA{Peer: "[fe80::1]:7482", Dir: "/etc/heddle", Key: "/k"}.Complete()
	want := HA{
		Peer: "[fe80::1]:7482", PeerAPI: "fe80::1", Listen: ":7482", Dir: "/etc/heddle",
		Certificate: "/etc/heddle/cert.pem", Key: "/k", Authority: "/etc/heddle/ca.pem", Secret: "/etc/heddle/secret",
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// other is a value of a setting that is not its default.
func other(t *testing.T, s *Setting) string {
	return settingstest.Other(t, s.Name, s.Type(), s.Words(), s.Default(), func(text string) bool {
		c := Defaults()
		return s.value.set(&c, text) == nil && !reflect.DeepEqual(c, Defaults())
	})
}

// TestLive changes each setting under a running manager. A live one becomes its value, and is what the
// core gets that has it; one that needs a restart changes nothing, and is named.
func TestLive(t *testing.T) {
	for _, s := range All() {
		in, next := New(), New()
		text := other(t, s)
		if err := next.Set(s.Name, text, "there"); err != nil {
			t.Fatal(err)
		}
		live := s.Live && !s.Switch // whose default is 0
		changes := in.Adopt(next, All())
		if len(changes) != 1 || changes[0].Setting != s || changes[0].Live != live {
			t.Errorf("%s: %+v", s.Name, changes)
			continue
		}
		if c := changes[0]; s.Secret != (c.From == "" && c.To == "") && !s.Secret {
			t.Errorf("%s: from %q to %q", s.Name, c.From, c.To)
		}
		if got := in.Text(s.Name) == next.Text(s.Name); got != live {
			t.Errorf("%s is %s, want the new value: %v", s.Name, in.Text(s.Name), live)
		}
		if !live && !reflect.DeepEqual(in.Config, Defaults()) {
			t.Errorf("%s needs a restart, and changes something", s.Name)
		}
		// The cores take what is live and nothing else.
		core, want := sm.Defaults(), sm.Defaults()
		core.Adopt(&next.SM)
		if live {
			want = next.SM
		}
		if !reflect.DeepEqual(core, want) {
			t.Errorf("%s: the subnet manager takes it or not, unlike the table", s.Name)
		}
		registry, wanted := sa.NewCore(sa.Defaults()), sa.Defaults()
		var out sa.Output
		registry.Step(0, sa.Configure{Config: next.Registry}, &out)
		if live {
			wanted = next.Registry
		}
		if !reflect.DeepEqual(registry.Config(), wanted) {
			t.Errorf("%s: the SA takes it or not, unlike the table", s.Name)
		}
	}
	// Counters that are read can be read at other times.
	in, next := New(), New()
	for v, text := range map[*Values]string{in: "10s", next: "20s"} {
		if err := v.Set("perf", text, "here"); err != nil {
			t.Fatal(err)
		}
	}
	if c := in.Adopt(next, All()); len(c) != 1 || !c[0].Live || in.Text("perf") != "20s" {
		t.Errorf("%+v, perf %s", c, in.Text("perf"))
	}
}

// TestClone: a copy shares nothing with the original.
func TestClone(t *testing.T) {
	v := New()
	c := v.Clone()
	if err := c.Set("engine", "updn,minhop", "here"); err != nil {
		t.Fatal(err)
	}
	c.SetDefault("priority", "3")
	if v.Given("engine") || v.Text("engine") != "auto" || v.Text("priority") != "0" {
		t.Errorf("engine %s, priority %s", v.Text("engine"), v.Text("priority"))
	}
}
