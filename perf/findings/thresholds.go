package findings

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"heddle/perf"
	"heddle/subnet"
)

// Thresholds are what an operator sets in place of the table's values. It is immutable; a nil one
// sets nothing.
type Thresholds struct {
	counters map[perf.Counter]uint64
	rules    map[string]func(*Rule) // by "rule.field"
}

// maxThresholds bounds the file of thresholds, in bytes.
const maxThresholds = 1 << 16

// ParseThresholds reads a file of thresholds, called name in errors. Lines are those of
// infiniband-diags' error_thresholds, COUNTER=N, and RULE=VALUE or RULE.FIELD=VALUE with the fields
// of settable. Empty lines and what follows a # do not count.
func ParseThresholds(in io.Reader, name string) (*Thresholds, error) {
	t := &Thresholds{counters: map[perf.Counter]uint64{}, rules: map[string]func(*Rule){}}
	limited := &io.LimitedReader{R: in, N: maxThresholds + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxThresholds+2)
	given := map[string]int{}
	for n := 1; lines.Scan(); n++ {
		if limited.N == 0 {
			return nil, fmt.Errorf("%s: more than %d bytes", name, maxThresholds)
		}
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		what, value, ok := strings.Cut(text, "=")
		what, value = strings.TrimSpace(what), strings.TrimSpace(value)
		if !ok {
			return nil, fmt.Errorf("%s:%d: %.60q: want COUNTER=N, RULE=VALUE or RULE.FIELD=VALUE", name, n, text)
		}
		if before := given[what]; before != 0 {
			return nil, fmt.Errorf("%s:%d: %s is set in line %d already", name, n, what, before)
		}
		given[what] = n
		if err := t.set(what, value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, r := range t.Rules() {
		if len(r.Counters) == 0 && r.Close > r.Open {
			return nil, fmt.Errorf("%s: %s would open at %g %% and close at %g %%: close must not be above", name, r.Name, 100*r.Open, 100*r.Close)
		}
	}
	return t, nil
}

// set is one line.
func (t *Thresholds) set(what, value string) error {
	for c := range perf.NumCounters {
		if c.String() == what && (c.IsError() || c == perf.XmitWait) {
			n, err := strconv.ParseUint(value, 0, 64) // as strtoul: decimal, 0x or 0 for octal
			if err != nil || strings.Contains(value, "_") {
				return fmt.Errorf("%s=%.30q: want a whole number, 0 or more", what, value)
			}
			t.counters[c] = n
			return nil
		}
	}
	name, field, _ := strings.Cut(what, ".")
	rules := Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return fmt.Errorf("%.60q is neither a counter nor a rule; counters: %s; rules: %s", name, strings.Join(counterNames(), " "), strings.Join(names(rules), " "))
	}
	do, err := settable(&rules[i], field, value)
	if err != nil {
		return fmt.Errorf("%s=%.30q: %w", what, value, err)
	}
	t.rules[name+"."+field] = do
	return nil
}

// settable is what a line does to a rule. field is empty for its threshold.
func settable(r *Rule, field, value string) (do func(*Rule), err error) {
	counts := len(r.Counters) > 0
	switch {
	case field == "" && value == "off":
		return func(r *Rule) { r.Off = true }, nil
	case counts && (field == "" || field == "harmless"):
		return ofEvents(field, value)
	case r.Share && (field == "" || field == "close"):
		return ofShare(field, value)
	case field == "":
		return nil, errors.New("the rule has no threshold: want off, or set its .hold")
	case field == "hold" && !counts, field == "quiet":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 || d > forgetAfter || field == "quiet" && d < time.Second {
			return nil, fmt.Errorf("want a time up to %v, such as 90s or 5m", forgetAfter)
		}
		if field == "hold" {
			return func(r *Rule) { r.Hold = d }, nil
		}
		return func(r *Rule) { r.Quiet = d }, nil
	case field == "severity":
		for s := Info; s <= Critical; s++ {
			if s.String() == value {
				return func(r *Rule) { r.Severity = s }, nil
			}
		}
		return nil, errors.New("want info, warning or critical")
	case field == "act":
		return ofAct(r, value)
	}
	return nil, fmt.Errorf("the rule has no such field; it has %s", fields(r))
}

// fields are those of a rule that can be set.
func fields(r *Rule) string {
	list := "hold, quiet, severity"
	switch {
	case len(r.Counters) > 0:
		list = "harmless, quiet, severity"
	case r.Share:
		list = "close, hold, quiet, severity"
	}
	if r.Link {
		list += ", act"
	}
	return list
}

// ofAct sets what is done with a link that has a finding.
func ofAct(r *Rule, value string) (func(*Rule), error) {
	if !r.Link {
		return nil, errors.New("its findings are not about single links, so it cannot act")
	}
	switch value {
	case "none":
		return func(r *Rule) { r.Act = 0 }, nil
	case "drain", "isolate":
		act, err := subnet.ParsePortAction(value)
		return func(r *Rule) { r.Act = act }, err
	}
	return nil, errors.New("want drain, isolate or none")
}

// ofEvents sets the threshold of a rule that counts, or how many are none.
func ofEvents(field, value string) (func(*Rule), error) {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return nil, errors.New("want a whole number of events, 0 to 4294967295, or off for the rule")
	}
	if field == "harmless" {
		return func(r *Rule) { r.Harmless = float64(n) }, nil
	}
	return func(r *Rule) { r.Open = float64(n) }, nil
}

// ofShare sets a share of time, as 30% or 0.3.
func ofShare(field, value string) (func(*Rule), error) {
	number, percent := strings.CutSuffix(value, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || math.IsNaN(x) || x <= 0 || x > 1 {
		return nil, errors.New("want a share above 0 up to 100%, such as 30% or 0.3")
	}
	if field == "close" {
		return func(r *Rule) { r.Close = x }, nil
	}
	return func(r *Rule) { r.Open = x }, nil
}

func names(rules []Rule) (list []string) {
	for i := range rules {
		list = append(list, rules[i].Name)
	}
	return list
}

// counterNames are the counters that can have thresholds.
func counterNames() (list []string) {
	for c := range perf.NumCounters {
		if c.IsError() || c == perf.XmitWait {
			list = append(list, c.String())
		}
	}
	return list
}

// Rules is the table with these thresholds.
func (t *Thresholds) Rules() []Rule {
	rules := Rules()
	if t == nil {
		return rules
	}
	for i := range rules {
		r := &rules[i]
		for _, what := range slices.Sorted(maps.Keys(t.rules)) {
			if name, _, _ := strings.Cut(what, "."); name == r.Name {
				t.rules[what](r)
			}
		}
		for k, c := range r.Counters {
			if n, ok := t.counters[c]; ok {
				if r.Limits == nil {
					r.Limits = slices.Repeat([]float64{r.Open}, len(r.Counters))
				}
				r.Limits[k] = float64(n)
			}
		}
	}
	return rules
}

// Exceeds reports whether a counter, by its name, has more than its threshold. As for ibqueryerrors
// that is 0 for a counter of which nothing is said.
func (t *Thresholds) Exceeds(counter string, value uint64) bool {
	for c, n := range t.counters {
		if c.String() == counter {
			return value > n
		}
	}
	return value > 0
}
