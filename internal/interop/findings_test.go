package interop

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"heddle/internal/need"
)

// openFindings are the ports and counters in the evidence of open findings whose counters are above
// their thresholds, with their rules.
func (u *counted) openFindings() (rules []string, named map[string]string) {
	var f struct {
		Open []struct {
			Rule     string
			Evidence []struct {
				GUID, What string
				Port       int
				Delta      uint64
				Limit      float64
			}
		}
	}
	getJSON(u.t, "http://"+u.api+"/v1/findings", &f)
	named = map[string]string{}
	for _, x := range f.Open {
		rules = append(rules, x.Rule)
		for _, e := range x.Evidence {
			if g, _ := strconv.ParseUint(e.GUID, 0, 64); float64(e.Delta) > e.Limit {
				named[fmt.Sprintf("%#x port %d %s", g, e.Port, e.What)] = x.Rule
			}
		}
	}
	return rules, named
}

// flat are ports and counters as openFindings names them.
func flat(counts map[string]map[string]uint64) map[string]bool {
	out := map[string]bool{}
	for port, list := range counts {
		for name := range list {
			out[port+" "+name] = true
		}
	}
	return out
}

// TestThresholdsAgree: with one file of thresholds, 'ctl perf errors' names the counters that
// unmodified ibqueryerrors names, and so do findings, but for symptoms of others.
func TestThresholdsAgree(t *testing.T) {
	need.FUSE(t)
	need.Tool(t, "ibqueryerrors")
	for _, seed := range need.Seeds(1, 8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { thresholdsAgree(t, rand.New(rand.NewPCG(seed, 15))) })
	}
}

func thresholdsAgree(t *testing.T, r *rand.Rand) {
	limits := map[string]int{}
	var text strings.Builder
	for name, most := range map[string]int{
		"SymbolErrorCounter": 60_000, "LinkErrorRecoveryCounter": 200, "LinkDownedCounter": 200, "PortRcvErrors": 60_000,
		"PortRcvRemotePhysicalErrors": 60_000, "PortRcvSwitchRelayErrors": 60_000, "PortXmitDiscards": 60_000, "PortXmitConstraintErrors": 200,
		"PortRcvConstraintErrors": 200, "LocalLinkIntegrityErrors": 12, "ExcessiveBufferOverrunErrors": 12, "VL15Dropped": 60_000,
	} {
		limits[name] = 1 + r.IntN(most)
		fmt.Fprintf(&text, "%s=%d\n", name, limits[name])
	}
	file := filepath.Join(t.TempDir(), "error_thresholds")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	// Without traffic: a packet that finds a port not yet Active is discarded, and what is counted then
	// is missing from what the counter is set to below.
	u := upCounting(t, "--findings-thresholds", file, "--traffic", "none")
	u.rounds(1) // what is there before the first sample is no event
	names := slices.Sorted(maps.Keys(limits))
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	// One counter to a link: each above its threshold once, and three that have just the threshold.
	ports := []string{}
	for i := range 7 {
		ports = append(ports, fmt.Sprintf("\"host-%d\"[1]", i+2))
	}
	for sw := range 4 {
		for p := range 2 {
			ports = append(ports, fmt.Sprintf("\"sw-1-%d\"[%d]", sw+1, p+3))
		}
	}
	want := 0
	for i, port := range ports {
		name := names[i%len(names)]
		n := limits[name]
		if i < len(names) {
			n++
			want++
		}
		u.console("performanceset %s PortCounters.%s=%d", port, name, n)
	}
	u.rounds(4) // rules that may be symptoms wait for a round or two

	_, all := u.counters()
	theirs, told := u.ibqueryerrors(all, "--threshold-file", file, "-s", "PortXmitWait")
	if len(flat(theirs)) != want {
		t.Fatalf("ibqueryerrors names %d counters, want %d:\n%s", len(flat(theirs)), want, told)
	}
	out := must(t, upTime, u.dir, nil, heddle, "ctl", "perf", "errors", "--thresholds", file, "--api", u.api)
	ours := map[string]map[string]uint64{}
	for line := range strings.Lines(out) {
		head, rest, _ := strings.Cut(line, ": [")
		f := strings.Fields(head)
		p := slices.Index(f, "port")
		g, err := strconv.ParseUint(f[0], 0, 64)
		if err != nil || p < 0 {
			t.Fatal(line)
		}
		counts := map[string]uint64{}
		for c := range strings.SplitSeq(strings.Trim(rest, "[]\n"), "] [") {
			name, n, _ := strings.Cut(c, " == ")
			counts[name], _ = strconv.ParseUint(n, 10, 64)
		}
		ours[fmt.Sprintf("%#x port %s", g, f[p+1])] = counts
	}
	if a, b := asText(ours), asText(theirs); a != b {
		t.Errorf("ctl perf errors has\n%s\nibqueryerrors has\n%s", a, b)
	}
	rules, named := u.openFindings()
	for what := range flat(theirs) {
		switch rule, ok := named[what]; {
		case ok:
			delete(named, what)
		case strings.HasSuffix(what, " PortRcvRemotePhysicalErrors") && slices.Contains(rules, "bad_cable"):
			// the symptom of a bad cable elsewhere
		default:
			t.Errorf("no finding has %s %s; there are %v", what, rule, rules)
		}
	}
	for what, rule := range named {
		t.Errorf("%s has %s, which ibqueryerrors does not name", rule, what)
	}
}

// asText is comparable text of counters.
func asText(counts map[string]map[string]uint64) string {
	b, _ := json.MarshalIndent(counts, "", " ")
	return string(b)
}
