package study

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Text writes the answer for a terminal.
func (a *Answer) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k, f string, v ...any) { fmt.Fprintf(t, "%s\t%s\n", k, fmt.Sprintf(f, v...)) }
	row("fabric", "%s: %d switches, %d hosts, %d cables; %d data lanes", a.Fabric, a.Switches, a.Hosts, a.Cables, a.Lanes)
	row("cables", "%s", a.Rates)
	if n := len(a.Uncabled); n > 0 {
		row("", "%d without a cable to a switch, left out: %s", n, someNames(a.Uncabled))
	}
	for _, p := range a.Patterns {
		row("pattern", "%s: %s", p.Text, p.Meaning)
		row("source", "%s, %s; %s", p.Source, p.Rate, p.Queue)
	}
	for i, m := range a.Model {
		key := ""
		if i == 0 {
			key = "model"
		}
		row(key, "%s", m)
	}
	row("asked", "%s", a.asked())
	if err := t.Flush(); err != nil {
		return err
	}
	a.results(w)
	for _, e := range a.Engines {
		e.hot(w)
	}
	for _, e := range a.Engines {
		e.cutText(w)
		e.costText(w)
	}
	if a.Interrupted {
		fmt.Fprint(w, "\nInterrupted: the numbers are of what was done by then.\n")
	}
	return nil
}

// asked says how many seeds there are, and what a share is a share of.
func (a *Answer) asked() string {
	seeds := fmt.Sprintf("seed %d", a.FirstSeed)
	if a.Seeds > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", a.FirstSeed, a.FirstSeed+uint64(a.Seeds)-1)
	}
	run := time.Duration(a.TimeUS * 1000)
	return fmt.Sprintf("%s, %v each; rates are shares of the links of the hosts that send", seeds, run)
}

// results is the table of engines and loads.
func (a *Answer) results(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	collective := false
	for _, e := range a.Engines {
		for _, p := range e.Points {
			collective = collective || p.Seconds > 0
		}
	}
	fmt.Fprint(t, "\nengine\tload\toffered\taccepted\tover seeds\tGb/s\tfairness\tworst flow\t")
	if collective {
		fmt.Fprint(t, "\ttakes\tideal")
	}
	fmt.Fprintln(t)
	for _, e := range a.Engines {
		if e.Refused != "" {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\t-\t-\t-\tno tables: %s\n", e.Name, e.Refused)
		}
		for _, p := range e.Points {
			fmt.Fprint(t, e.Name)
			p.row(t, collective)
		}
	}
	t.Flush()
	a.packetTable(w)
	for _, e := range a.Engines {
		for _, x := range e.PassedOver {
			fmt.Fprintf(w, "%s: passed over %s\n", e.Name, x)
		}
		if x := e.Apart(); x != "" {
			fmt.Fprintf(w, "%s: %s\n", e.Name, x)
		}
		if e.Problem != "" && e.Refused == "" {
			fmt.Fprintf(w, "%s: the tables do not verify: %s\n", e.Name, e.Problem)
		}
		if e.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", e.Name, e.Note)
		}
	}
}

// row is the rest of a line of results, after the engine's name.
func (p *Point) row(w io.Writer, collective bool) {
	spread := "-"
	if p.Seeds > 1 {
		spread = fmt.Sprintf("%.3f-%.3f", p.Least, p.Most)
	}
	fmt.Fprintf(w, "\t%g\t%.3f\t%.3f\t%s\t%.0f\t%.3f\t%.3f\t%s",
		p.Load, p.Offered, p.Accepted, spread, p.Gbps, p.Jain, p.Worst, p.WorstFlow)
	if collective {
		fmt.Fprintf(w, "\t%s\t%s", seconds(p.Seconds), seconds(p.Ideal))
	}
	if p.Lost > 0 {
		fmt.Fprintf(w, "\t%.2g %% without a route", p.Lost*100)
	}
	fmt.Fprintln(w)
}

// seconds prints a time with three digits or so.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	for unit := time.Duration(1); unit < time.Hour; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.String()
}

// hot lists the hottest channels.
func (e *Engine) hot(w io.Writer) {
	printUses(w, "hottest cables of "+e.Name, e.Hottest)
}

// hotInText is how many channels the text lists.
const hotInText = 5

func printUses(w io.Writer, title string, list []Use) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, u := range list[:min(len(list), hotInText)] {
		fmt.Fprintf(t, "  %s > %s\t%.0f %% used", u.From, u.To, u.Used*100)
		if u.Asked > 0 {
			fmt.Fprintf(t, "\t%.2f of it asked for", u.Asked)
		}
		if u.Wait > 0 {
			fmt.Fprintf(t, "\twaited %.0f %% of the time", u.Wait*100)
		}
		if len(u.Lanes) > 1 {
			var lanes []string
			for _, x := range u.Lanes {
				lanes = append(lanes, fmt.Sprintf("%.0f", x*100))
			}
			fmt.Fprintf(t, "\tlanes %s %%", strings.Join(lanes, "/"))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

func (e *Engine) cutText(w io.Writer) {
	c := e.Cut
	if c == nil {
		return
	}
	fmt.Fprintf(w, "\n%s without %s\n", e.Name, strings.Join(c.Cables, ", "))
	if c.Refused != "" {
		fmt.Fprintf(w, "  %s\n", c.Refused)
		return
	}
	fmt.Fprintf(w, "  routes %s; %d pairs no longer connected%s\n", c.How, c.Disconnected, c.CutOffText())
	if c.Problem != "" {
		fmt.Fprintf(w, "  the tables do not verify: %s\n", c.Problem)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, p := range c.Points {
		fmt.Fprintf(t, "  load %g\taccepted %.3f", p.Load, p.Accepted)
		if i < len(e.Points) {
			fmt.Fprintf(t, "\t%s", costText(e.Points[i].cost(p)))
		}
		fmt.Fprintf(t, "\tfairness %.3f\tworst flow %.3f %s", p.Jain, p.Worst, p.WorstFlow)
		if p.Seconds > 0 {
			fmt.Fprintf(t, "\ttakes %s", seconds(p.Seconds))
		}
		if p.Lost > 0 {
			fmt.Fprintf(t, "\t%.2g %% without a route", p.Lost*100)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	printUses(w, "hottest cables of "+e.Name+" then", c.Hottest)
}

// packetTable is what only packets can tell.
func (a *Answer) packetTable(w io.Writer) {
	if a.Mode != "packets" || !a.HasTables() {
		return
	}
	fmt.Fprint(w, "\nlatency in µs from creation to the last byte at the host, and in the network\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "engine\tload\tmean\tp50\tp90\tp99\tp99.9\tmax\tnetwork p50\tp99\tdelivered\tdiscards")
	for _, e := range a.Engines {
		for _, p := range e.Points {
			p.Packets.row(t, e.Name, p.Load)
		}
		if e.Cut != nil {
			for _, p := range e.Cut.Points {
				p.Packets.row(t, e.Name+" cut", p.Load)
			}
		}
	}
	t.Flush()
	for _, e := range a.Engines {
		for _, p := range e.Points {
			p.Packets.warn(w, fmt.Sprintf("%s, load %g", e.Name, p.Load), p.Seeds)
		}
		if e.Cut != nil {
			for _, p := range e.Cut.Points {
				p.Packets.warn(w, fmt.Sprintf("%s after the cut, load %g", e.Name, p.Load), p.Seeds)
			}
		}
	}
}

func (p *PacketPoint) row(w io.Writer, name string, load float64) {
	if p == nil {
		return
	}
	fmt.Fprintf(w, "%s\t%g", name, load)
	fmt.Fprintf(w, "\t%.4g", p.Mean)
	for _, x := range []float64{p.P50, p.P90, p.P99, p.P999} {
		fmt.Fprintf(w, "\t%s", bucketed(x))
	}
	fmt.Fprintf(w, "\t%.4g\t%s\t%s", p.Max, bucketed(p.NetP50), bucketed(p.NetP99))
	fmt.Fprintf(w, "\t%.0f\t%s\n", p.Delivered, p.discards())
}

// bucketed prints a quantile with two digits: the buckets of its histogram are 1.6 % wide.
func bucketed(x float64) string {
	if x >= 99.5 {
		digit := math.Pow(10, math.Floor(math.Log10(x))-1)
		return fmt.Sprintf("%.0f", math.Round(x/digit)*digit)
	}
	return fmt.Sprintf("%.2g", x)
}

// discards lists the causes, the most frequent first.
func (p *PacketPoint) discards() string {
	if len(p.Discards) == 0 {
		return "none"
	}
	causes := slices.SortedFunc(maps.Keys(p.Discards), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.Discards[b], p.Discards[a]), cmp.Compare(a, b))
	})
	for i, c := range causes {
		causes[i] = fmt.Sprintf("%.0f %s", p.Discards[c], c)
	}
	return strings.Join(causes, ", ")
}

// warn reports deadlocks, and collectives that did not end.
func (p *PacketPoint) warn(w io.Writer, name string, seeds int) {
	if p == nil {
		return
	}
	if p.Losses != nil {
		fmt.Fprintf(w, "%s: %s\n", name, p.Losses.Text())
	}
	if p.Deadlocks > 0 {
		fmt.Fprintf(w, "\nDEADLOCK: %s, in %d of %d seeds\n", name, p.Deadlocks, seeds)
		for _, line := range p.Deadlock {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if p.Uncut > 0 {
		fmt.Fprintf(w, "%s: all collectives had ended before the cut in %d of %d seeds\n", name, p.Uncut, seeds)
	}
	if p.Unfinished > 0 {
		fmt.Fprintf(w, "%s: a collective did not end in %d of %d seeds\n", name, p.Unfinished, seeds)
	}
}
