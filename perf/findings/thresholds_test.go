package findings

import (
	"os"
	"strings"
	"testing"
	"time"

	"heddle/internal/need"
	"heddle/perf"
)

func parse(t *testing.T, text string) *Thresholds {
	t.Helper()
	x, err := ParseThresholds(strings.NewReader(text), "file")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (t *Thresholds) rule(name string) (r Rule) {
	for _, r = range t.Rules() {
		if r.Name == name {
			return r
		}
	}
	return Rule{}
}

// TestThresholds: every kind of line does what it says, and to nothing else.
func TestThresholds(t *testing.T) {
	x := parse(t, `
# as infiniband-diags install it
SymbolErrorCounter=20
PortXmitDiscards=0x3e8 # a thousand
PortXmitWait=1000
 bad_cable = 5
bad_cable.harmless=2
congestion=50%
congestion.close=0.2
congestion.hold=1m
link_lost.hold=30s
link_lost.severity=critical
node_lost.quiet=2m
same_description=off
`)
	want := map[string]func(r *Rule){
		BadCable:   func(r *Rule) { r.Open, r.Harmless, r.Limits = 5, 2, []float64{20, 5, 5, 5, 5} },
		"discards": func(r *Rule) { r.Limits = []float64{1000} },
		Congestion: func(r *Rule) { r.Open, r.Close, r.Hold = 0.5, 0.2, time.Minute },
		LinkLost:   func(r *Rule) { r.Hold, r.Severity = 30*time.Second, Critical },
		NodeLost:   func(r *Rule) { r.Quiet = 2 * time.Minute },
		SameDesc:   func(r *Rule) { r.Off = true },
	}
	got, all := x.Rules(), Rules()
	for i := range all {
		if do := want[all[i].Name]; do != nil {
			do(&all[i])
		}
		if !equal(&all[i], &got[i]) {
			t.Errorf("got %+v\nwant %+v", got[i], all[i])
		}
	}
	for i, r := range (*Thresholds)(nil).Rules() {
		if !equal(&r, &Rules()[i]) {
			t.Errorf("without thresholds: %+v", r)
		}
	}
	for _, c := range []struct {
		name   string
		value  uint64
		exceed bool
	}{
		{"SymbolErrorCounter", 20, false}, {"SymbolErrorCounter", 21, true}, {"PortXmitWait", 1000, false}, {"PortRcvErrors", 1, true}, {"PortRcvErrors", 0, false},
	} {
		if x.Exceeds(c.name, c.value) != c.exceed {
			t.Errorf("%s %d: %v", c.name, c.value, !c.exceed)
		}
	}
}

func equal(x, y *Rule) bool {
	same := x.Name == y.Name && x.Severity == y.Severity && x.Off == y.Off && x.Harmless == y.Harmless && x.Open == y.Open &&
		x.Close == y.Close && x.Hold == y.Hold && x.Quiet == y.Quiet
	for k := range x.Counters {
		same = same && x.Limit(k) == y.Limit(k)
	}
	return same
}

// TestThresholdsOfDebian: the file that infiniband-diags install is read, as it is and with its lines
// in force.
func TestThresholdsOfDebian(t *testing.T) {
	b, err := os.ReadFile("/etc/infiniband-diags/error_thresholds")
	if err != nil {
		need.Missing(t, "infiniband-diags", err.Error())
	}
	parse(t, string(b))
	x := parse(t, strings.ReplaceAll(string(b), "\n#", "\n ")[strings.Index(string(b), "\n"):])
	for _, name := range []string{"SymbolErrorCounter", "LocalLinkIntegrityErrors"} {
		if !x.Exceeds(name, 11) || x.Exceeds(name, 10) {
			t.Errorf("%s is not 10", name)
		}
	}
	if r := x.rule(LinkFlap); r.Limit(0) != 10 {
		t.Errorf("LinkDownedCounter=10 gives %v", r.Limit(0))
	}
}

// TestThresholdsRefused: each mistake has an error that names the line and what is wanted.
func TestThresholdsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"SymbolErrorCounter":                 `file:1: "SymbolErrorCounter": want COUNTER=N`,
		"\nSymbolErrorCounter=ten":           `file:2: SymbolErrorCounter="ten": want a whole number`,
		"SymbolErrorCounter=-1":              "want a whole number",
		"SymbolErrorCounter=":                "want a whole number",
		"SymbolErrorCounter=1_0":             "want a whole number",
		"SymbolErrorCounter=1e99":            "want a whole number",
		"PortRcvErrors=99999999999999999999": "want a whole number",
		"SymbolErrors=5":                     `"SymbolErrors" is neither a counter nor a rule; counters: SymbolErrorCounter`,
		"PortXmitData=5":                     "neither a counter nor a rule",
		"bad_cabel=5":                        "neither a counter nor a rule",
		"=5":                                 `"" is neither`,
		"bad_cable=5\n#\nbad_cable=6":        "file:3: bad_cable is set in line 1 already",
		"bad_cable=some":                     "want a whole number of events",
		"bad_cable.hold=5m":                  "no such field; it has harmless, quiet, severity",
		"bad_cable.x=5m":                     "no such field",
		"link_lost=5":                        "no threshold: want off, or set its .hold",
		"link_lost.hold=5":                   "want a time up to 24h",
		"link_lost.hold=-5m":                 "want a time",
		"link_lost.hold=25h":                 "want a time",
		"link_lost.quiet=0s":                 "want a time",
		"link_lost.severity=bad":             "want info, warning or critical",
		"congestion=0":                       "want a share",
		"congestion=NaN":                     "want a share",
		"congestion=101%":                    "want a share",
		"congestion=5%":                      "congestion would open at 5 % and close at 10 %",
		"congestion.close=40%":               "congestion would open at 30 % and close at 40 %",
		"congestion.severity=":               "want info",
		strings.Repeat("#\n", 40_000):        "more than 65536 bytes",
		strings.Repeat("x", 1<<20):           "more than 65536 bytes",
		strings.Repeat("x", 5000) + "=\n":    "neither a counter nor a rule",
	} {
		_, err := ParseThresholds(strings.NewReader(text), "file")
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// FuzzThresholds: what is accepted gives a table that is whole, and errors are short.
func FuzzThresholds(f *testing.F) {
	for _, s := range []string{"SymbolErrorCounter=10\n", "congestion=5%\ncongestion.close=1%", "bad_cable=off", "link_lost.hold=1ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, err := ParseThresholds(strings.NewReader(text), "file")
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, r := range x.Rules() {
			if !(r.Open >= 0 && r.Close >= 0 && r.Harmless >= 0 && r.Hold >= 0 && r.Quiet >= time.Second) || len(r.Counters) == 0 && r.Close > r.Open {
				t.Errorf("%+v", r)
			}
		}
	})
}

// TestThresholdsOfCounters: a rule opens when one counter has more than its own threshold.
func TestThresholdsOfCounters(t *testing.T) {
	b := newBed(4)
	b.c = New(parse(t, "SymbolErrorCounter=50\nPortRcvErrors=3\nLinkDownedCounter=2").Rules())
	b.round(events(1, perf.SymbolErrors, 50))
	b.round(events(2, perf.RcvErrors, 3))
	b.round(events(3, perf.LinkDowned, 2))
	b.rounds(time.Minute, counts{})
	b.want(t)
	b.round(events(1, perf.SymbolErrors, 6)) // some of the 50 were harmless
	b.round(events(2, perf.RcvErrors, 4))
	b.round(events(3, perf.LinkDowned, 1))
	b.rounds(time.Minute, counts{})
	b.want(t, "+"+BadCable, "+"+BadCable, "+"+LinkFlap)
	if e := b.last.Open[0].Evidence[0]; e.Limit != 50 || e.Delta != 56 {
		t.Errorf("%+v", e)
	}
}

// TestCountersOfARule: counters of one rule add up, each as a part of its threshold.
func TestCountersOfARule(t *testing.T) {
	for _, x := range []struct {
		symbols, errors uint64
		opens           bool
	}{{100, 0, false}, {101, 0, true}, {0, 10, false}, {0, 11, true}, {50, 5, false}, {60, 5, true}} {
		b := newBed(4)
		b.c = New(parse(t, "SymbolErrorCounter=100").Rules())
		both := events(1, perf.SymbolErrors, x.symbols)
		d := both.delta[1]
		d[perf.RcvErrors] = x.errors
		both.delta[1] = d
		b.round(both)
		b.round(counts{})
		b.round(counts{})
		if opened := len(b.last.Open) > 0; opened != x.opens {
			t.Errorf("%d symbol errors and %d receive errors: opened %v", x.symbols, x.errors, opened)
		}
	}
}

// TestRulesChange: thresholds may be others from one round to the next. A rule that is switched off
// has no findings and explains none, and counts of findings go on.
func TestRulesChange(t *testing.T) {
	b := newBed(4)
	both := events(1, perf.XmitDiscards, 60)
	d := both.delta[1]
	d[perf.SymbolErrors] = 20
	both.delta[1] = d
	b.rounds(time.Minute, both)
	b.want(t, "+"+BadCable)
	b.c.SetRules(parse(t, "bad_cable=off").Rules())
	b.rounds(time.Minute, both)
	b.want(t, "-"+BadCable+" "+SwitchedOff, "+discards")
	b.c.SetRules(Rules())
	b.rounds(time.Minute, both)
	b.want(t, "+"+BadCable, "-discards "+BadCable)
	b.rounds(time.Hour, counts{})
	b.want(t, "-"+BadCable+" "+Healed)
	got := map[string]Count{}
	for _, n := range b.last.Rules {
		got[n.Rule] = n
	}
	if n := got[BadCable]; n != (Count{Rule: BadCable, Severity: Warning, Opened: 2, Healed: 1, SwitchedOff: 1}) || len(got) != len(Rules()) {
		t.Errorf("%+v of %d", n, len(got))
	}
	if n := got["discards"]; n != (Count{Rule: "discards", Severity: Warning, Opened: 1, Explained: 1}) {
		t.Errorf("%+v", n)
	}
}

// TestRestartWithThreshold: a node that restarts is known by its links, also where one link may flap
// or nobody asks about links.
func TestRestartWithThreshold(t *testing.T) {
	for _, text := range []string{"", "LinkDownedCounter=10", "link_flap=off"} {
		b := newBed(4)
		b.c = New(parse(t, text).Rules())
		b.rounds(time.Minute, counts{})
		down := counts{delta: map[int32][perf.NumCounters]uint64{}}
		for i := int32(1); i <= 4; i++ {
			down.delta[i] = events(i, perf.LinkDowned, 1).delta[i]
		}
		b.round(down)
		b.rounds(time.Minute, counts{})
		b.want(t, "+"+NodeRestart)
	}
}
