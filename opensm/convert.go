package opensm

import (
	"fmt"
	"slices"
	"strings"

	"heddle/settings"
)

// Outcome is what became of an option.
type Outcome uint8

// The outcomes.
const (
	// Same: Heddle does the same without a setting.
	Same Outcome = iota
	// Set: settings say it.
	Set
	// Unneeded: nothing is lost without it; Result.Why says why.
	Unneeded
	// LeftOut: it is lost.
	LeftOut
	// Refused: with it the import is refused.
	Refused
)

// Assignment gives a setting of Heddle a value.
type Assignment struct{ Name, Text string }

// Result is what became of an option.
type Result struct {
	Option  *Option
	Value   *Value
	Outcome Outcome
	// Settings that differ from Heddle's defaults.
	Settings []Assignment
	// Why says why it is not needed, left out or refused, and what else there is to know.
	Why string
}

// Shown is the value, without secrets.
func (r *Result) Shown() string {
	if r.Value.Text != r.Option.Default {
		return r.Option.show(r.Value.Text)
	}
	return r.Value.Text
}

// Import is an opensm.conf as settings of Heddle.
type Import struct {
	Conf    *Conf
	Results []Result // all options, in the order of Options
	// Notes about files and engines that OpenSM leaves out without an error.
	Notes []Note
	// Values are the settings, for a check and for a plan.
	Values *settings.Values
}

// taking is an option while it is taken over.
type taking struct {
	*Import
	*Result
	exists func(file string) bool
}

// Convert says what each option means to Heddle. exists reports whether a file can be opened:
// OpenSM goes on without a file that cannot.
func Convert(c *Conf, exists func(file string) bool) *Import {
	im := &Import{Conf: c, Values: settings.New()}
	im.Results = make([]Result, len(table))
	for i := range table {
		o := &table[i]
		r := &im.Results[i]
		*r = Result{Option: o, Value: c.Get(o.Name)}
		x := taking{im, r, exists}
		switch {
		case o.take != nil:
			o.take(&x)
		case o.Verdict == Needless:
			takeNothing(&x)
		case o.Verdict == Lost:
			takeLost(&x)
		default:
			takeSame(&x)
		}
	}
	return im
}

// Count is the number of options with an outcome.
func (im *Import) Count(o Outcome) (n int) {
	for i := range im.Results {
		if im.Results[i].Outcome == o {
			n++
		}
	}
	return n
}

// Complete reports whether nothing is lost.
func (im *Import) Complete() bool {
	return im.Count(LeftOut) == 0 && im.Count(Refused) == 0 && len(im.Conf.Unknown) == 0
}

// Force takes over what would be refused: the options are left out.
func (im *Import) Force() {
	for i := range im.Results {
		if r := &im.Results[i]; r.Outcome == Refused {
			r.Outcome = LeftOut
		}
	}
}

// set gives a setting a value. A value that Heddle does not have leaves the option out.
func (x *taking) set(name, value string) {
	before := x.Values.Text(name)
	if err := x.Values.Set(name, value, x.Option.Name); err != nil {
		x.leave("%s is out of the range of Heddle: want %s", x.Shown(), settings.Find(name).Range())
		return
	}
	x.Outcome = Same
	if now := x.Values.Text(name); now != before {
		x.Outcome = Set
		x.Settings = append(x.Settings, Assignment{name, now})
	}
}

// given reports whether the value is not OpenSM's default.
func (x *taking) given() bool { return x.Value.Text != x.Option.Default }

func (x *taking) leave(format string, a ...any) {
	x.Outcome, x.Why = LeftOut, fmt.Sprintf(format, a...)
}

func (x *taking) unneeded(format string, a ...any) {
	x.Outcome, x.Why = Unneeded, fmt.Sprintf(format, a...)
}

// note adds what OpenSM does without a word.
func (x *taking) note(format string, a ...any) {
	x.Notes = append(x.Notes, Note{x.Conf.Name, x.Value.Line, x.Option.Name + " " + x.Value.Text + ": " + fmt.Sprintf(format, a...)})
}

// takeNothing is for options that nothing needs.
func takeNothing(x *taking) { x.unneeded("%s", x.Option.Means) }

// takeLost leaves an option out that somebody has set.
func takeLost(x *taking) {
	if x.given() && (x.Option.kind.is != isText || x.Value.IsSet()) {
		x.leave("%s", x.Option.Means)
	}
}

// takeSame is for settings with the same values.
func takeSame(x *taking) {
	value := x.Value.Text
	switch x.Option.kind.is {
	case isBool:
		value = strings.ToLower(value)
	case isNumber:
		value = decimal.write(x.Value.Number)
	}
	x.set(x.Option.Setting, value)
}

// decimal writes numbers to base 10.
var decimal = kind{is: isNumber}

// takePart takes over an option of a part of OpenSM that another option turns on; nil: that one
// has it.
func takePart(of string, take func(*taking)) func(*taking) {
	return func(x *taking) {
		switch {
		case !x.Conf.Get(of).True():
			if x.given() {
				x.unneeded("OpenSM does not use it, as %s is FALSE", of)
			}
		case take == nil:
			x.unneeded("%s has it", of)
		default:
			take(x)
		}
	}
}

// takeFile takes over the name of a file, if there is one.
func takeFile(x *taking) {
	switch {
	case !x.Value.IsSet():
	case !x.exists(x.Value.Text):
		if x.given() {
			x.note("the file cannot be opened: OpenSM goes on without it")
			x.unneeded("the file cannot be opened, so OpenSM goes on without it")
			return
		}
		x.unneeded("there is no such file")
	default:
		x.set(x.Option.Setting, x.Value.Text)
	}
}

func takeOldPortOrder(x *taking) {
	if x.given() {
		x.unneeded("%s has it", portOrder)
	}
}

func takeGUID(x *taking) {
	if x.Value.Number != 0 {
		x.set("port", fmt.Sprintf("umad:%#016x", x.Value.Number))
	}
}

func takeSAKey(x *taking) {
	if !x.given() {
		x.unneeded("every host knows OpenSM's default: Heddle makes a random key, and takes 1 from its own port (--sa-key 1 takes it from all)")
		return
	}
	takeSame(x)
}

func takeSwitchLMC(x *taking) {
	lmc := uint64(0)
	if x.Value.True() {
		lmc = x.Conf.Get("lmc").Number
	}
	x.set("switch-lmc", decimal.write(lmc))
}

func takeMaxVLs(x *taking) {
	lanes := map[uint64]string{1: "1", 2: "2", 3: "4", 4: "8", 5: "15"}[x.Value.Number]
	if lanes == "" {
		x.leave("%s is no code of a number of lanes: want 1 to 5", x.Value.Text)
		return
	}
	x.set("max-vls", lanes)
}

// takeMask takes over a set of speeds or widths; all is what enables all.
func takeMask(all uint64) func(*taking) {
	return func(x *taking) {
		switch x.Value.Number {
		case 0:
			x.set(x.Option.Setting, "keep")
		case all:
			x.set(x.Option.Setting, "all")
		default:
			takeSame(x)
		}
	}
}

func takeFDR10(x *taking) {
	switch x.Value.Number {
	case 0:
	case 1:
		x.unneeded("matters to FDR10 devices alone: %s", x.Option.Means)
	default:
		x.leave("%s", x.Option.Means)
	}
}

func takeNoEnforcement(x *taking) {
	if x.Value.True() {
		x.unneeded("part_enforce has it")
	}
}

func takeSeconds(x *taking) { x.set(x.Option.Setting, fmt.Sprintf("%ds", x.Value.Number)) }

func takeMilliseconds(x *taking) { x.set(x.Option.Setting, fmt.Sprintf("%dms", x.Value.Number)) }

func takePollRetries(x *taking) { x.set("poll-retries", decimal.write(max(1, x.Value.Number))) }

func takeReassign(x *taking) {
	if x.Value.True() {
		x.Outcome, x.Why = Refused, "every port would get another LID at each start; Heddle keeps LIDs. Remove the line, or give --force to leave it out"
	}
}

func takeHeavy(x *taking) {
	if !x.Value.True() {
		return
	}
	s := x.Conf.Get("sweep_interval").Number
	if s == 0 {
		x.unneeded("sweep_interval is 0, so OpenSM does not sweep")
		return
	}
	x.set("full-interval", fmt.Sprintf("%ds", s))
}

// mostWindow is above what any port takes.
const mostWindow = 4096

func takeWindow(x *taking) {
	n := min(mostWindow, x.Value.Number)
	if n == 4 {
		x.unneeded("OpenSM's default: Heddle learns how many SMPs the subnet takes")
		return
	}
	x.set("window-start", decimal.write(n))
	if x.Conf.Get("max_wire_smps2").Number <= x.Value.Number {
		x.set("window", decimal.write(n))
		x.Outcome = Set
	}
}

func takeWindow2(x *taking) {
	if x.Value.Number <= x.Conf.Get("max_wire_smps").Number {
		x.unneeded("OpenSM does not use it, as it is not above max_wire_smps")
		return
	}
	x.set("window", decimal.write(min(mostWindow, x.Value.Number)))
}

func takeDropSubscriptions(x *taking) {
	if x.Value.True() {
		x.set("drop-event-subscriptions-after", "1s")
		return
	}
	x.unneeded("subscriptions end when the subscriber was missing for long (--drop-event-subscriptions-after); it is asked to subscribe again when it returns")
}

func takePerf(x *taking) {
	if x.Value.True() {
		x.set("perf", fmt.Sprintf("%ds", x.Conf.Get("perfmgr_sweep_time_s").Number))
	}
}

func takePerfWindow(x *taking) {
	if !x.given() {
		x.unneeded("OpenSM's default is above what a port takes")
		return
	}
	x.set(x.Option.Setting, decimal.write(min(mostWindow, x.Value.Number)))
}

func takePerfHosts(x *taking) {
	hosts := "true"
	if x.Value.True() {
		hosts = "false"
	}
	x.set("perf-hosts", hosts)
}

func takeDump(x *taking) {
	if x.Value.IsSet() {
		x.unneeded("%s", x.Option.Means)
	}
}

func takeDumpDir(x *taking) {
	if x.given() || x.Conf.Get("log_flags").Number&0x40 != 0 {
		takeSame(x)
		return
	}
	x.unneeded("OpenSM writes dumps of tables only with log flag 0x40")
}

func takeLogFlags(x *taking) {
	switch f := x.Value.Number; {
	case f&0x0C != 0:
		x.set("log-level", "debug")
	case f&0x02 == 0:
		x.set("log-level", "error")
	}
}

func takeCongestion(x *taking) {
	if x.Value.True() {
		x.set("congestion-control", "act")
	}
}

func takePortControl(x *taking) {
	x.set("cc-control", []string{"qp", "sl"}[x.Value.Number&1])
}

func takeLevels(x *taking) {
	var parts []string
	for sl := range uint8(16) {
		parts = append(parts, fmt.Sprintf("%d:%d", sl, x.Value.Levels[sl]))
	}
	x.set(x.Option.Setting, strings.Join(parts, ","))
}

func takeTable(x *taking) {
	if !x.Value.IsSet() {
		x.set("cc-table", "none")
		return
	}
	x.set("cc-table", x.Value.Text)
}

// engines are the names in routing_engine.
func (c *Conf) engines() []string {
	v := c.Get("routing_engine")
	if !v.IsSet() {
		return nil
	}
	return strings.FieldsFunc(v.Text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// engineNames are OpenSM's names of engines that Heddle calls otherwise.
var engineNames = map[string]string{"torus-2QoS": "torus"}

func takeEngines(x *taking) {
	var list []string
	fallback := true
	for _, name := range x.Conf.engines() {
		ours, other := engineNames[name]
		if !other {
			ours = name
		}
		switch {
		case name == "no_fallback":
			fallback = false
		case slices.Contains(list, ours):
		case name == "file" && !x.Conf.Get("lfts_file").IsSet():
			x.note("the engine file has no lfts_file: it is left out")
		case name == "vftree" || name == "auto" || !slices.Contains(settings.EngineNames(), ours):
			x.note("OpenSM has no engine %q and leaves it out", name)
		default:
			list = append(list, ours)
		}
	}
	if fallback || len(list) == 0 {
		for _, last := range []string{"minhop", "updn"} {
			if !slices.Contains(list, last) {
				list = append(list, last)
			}
		}
		x.Why = "OpenSM goes on with minhop when all engines fail; updn is for subnets where minhop can deadlock"
	}
	x.set("engine", strings.Join(list, ","))
}

// takeVendor takes over an option if the file gives it.
func takeVendor(take func(*taking)) func(*taking) {
	return func(x *taking) {
		if x.Conf.Given(x.Option.Name) {
			take(x)
		}
	}
}

func takeVirtual(x *taking) {
	words := []string{"ignore", "off", "on"}
	if x.Value.Number >= uint64(len(words)) {
		x.leave("%s: want 0 to 2", x.Value.Text)
		return
	}
	x.set("virtualization", words[x.Value.Number])
}

// takeWithEngine leaves an option out if its engine is in use.
func takeWithEngine(name string) func(*taking) {
	return func(x *taking) {
		switch {
		case !x.given():
		case slices.Contains(x.Conf.engines(), name):
			x.leave("%s", x.Option.Means)
		default:
			x.unneeded("OpenSM does not use it, as %s is not among the engines", name)
		}
	}
}

// takeThrottled: minhop, updn and dnup have costs too, and OpenSM's do not look at this.
func takeThrottled(x *taking) {
	engines := x.Conf.engines()
	switch {
	case !x.Value.True():
	case slices.Contains(engines, "sssp") || slices.Contains(engines, "dfsssp") || slices.Contains(engines, "nue"):
		takeSame(x)
	default:
		x.unneeded("OpenSM does not use it, as neither sssp nor dfsssp nor nue is among the engines")
	}
}

func takeNueVLs(x *taking) {
	if slices.Contains(x.Conf.engines(), "nue") {
		x.set("route-vls", decimal.write(min(15, x.Value.Number)))
		return
	}
	if x.given() {
		x.unneeded("OpenSM does not use it, as nue is not among the engines")
	}
}

func takeTorus(x *taking) {
	if slices.Contains(x.Conf.engines(), "torus-2QoS") {
		takeFile(x)
		return
	}
	if x.given() {
		x.unneeded("OpenSM does not use it, as torus-2QoS is not among the engines")
	}
}
