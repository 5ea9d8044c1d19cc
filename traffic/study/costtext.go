package study

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// costText prints a cost: "-1.2 %" is less traffic.
func costText(cost float64) string { return fmt.Sprintf("%+.2f %%", 0-cost*100) }

// text prints the cost: less traffic, or more time.
func (l *Loss) text() string {
	switch {
	case l == nil:
		return ""
	case l.Seconds > 0 && l.Cost == 1 || math.IsInf(l.Cost, 1):
		return "never ends"
	case l.Seconds > 0:
		return fmt.Sprintf("%+.2f %% time", l.Cost*100)
	}
	return costText(l.Cost)
}

// costsInText is how many cables of a kind the text ranks.
const costsInText = 10

// freeCost is a cost that shows as 0.
const freeCost = 0.0005

// blind is how far fair shares may be from packets before the others are in doubt.
const blind = 0.005

// kindOf are the cables of a kind: to hosts, or between switches.
func (e *Engine) kindOf(host bool) (list []Cost) {
	for _, c := range e.Costs {
		if c.Host == host {
			list = append(list, c)
		}
	}
	return list
}

// RankText says by which model cables are ranked.
func (e *Engine) RankText() string {
	text := fmt.Sprintf("%d of %d cables asked by max-min fair shares", len(e.Costs)+len(e.Unanswered), e.Cables)
	if e.Simulated == 0 {
		return text + ", which are blind to head-of-line blocking"
	}
	done, apart := 0, 0.0
	for _, c := range e.Costs {
		if c.Packets != nil {
			done++
			apart = max(apart, math.Abs(c.Packets.Cost-c.Shares.Cost))
		}
	}
	text += fmt.Sprintf(", %d of the dearest %d by packets too", done, e.Simulated)
	if e.Simulated == e.Cables {
		text = fmt.Sprintf("%d of %d cables asked by packets, and by max-min fair shares", done, e.Cables)
	}
	if done > 0 {
		text += fmt.Sprintf("; the two differ by at most %.2f points", apart*100)
		if e.Simulated < e.Cables && apart > blind {
			text += ", so a cable that packets were not asked about may cost more than it says (--cut-packets all)"
		}
	}
	return text
}

// KindText sums up the cables of a kind.
func (e *Engine) KindText(host bool) string {
	list := e.kindOf(host)
	free, better, alone := 0, 0, 0
	most := [2]*Loss{{Cost: math.Inf(-1)}, {Cost: math.Inf(-1)}} // by packets, by shares
	for i := range list {
		l := list[i].best()
		if math.Abs(l.Cost) < freeCost {
			free++
		} else if l.Cost < 0 {
			better++
		}
		if len(list[i].CutOff) > 0 {
			alone++
		}
		if p := list[i].Packets; p != nil && p.Cost > most[0].Cost {
			most[0] = p
		}
		if s := &list[i].Shares; s.Cost > most[1].Cost {
			most[1] = s
		}
	}
	what := "between switches"
	if host {
		what = "to hosts"
	}
	text := fmt.Sprintf("%d cables %s: at most %s", len(list), what, most[1].text())
	if !math.IsInf(most[0].Cost, -1) {
		text = fmt.Sprintf("%d cables %s: at most %s by packets, %s by fair shares",
			len(list), what, most[0].text(), most[1].text())
	}
	text += fmt.Sprintf(", %d without effect", free)
	if better > 0 {
		text += fmt.Sprintf(", %d with a gain", better)
	}
	switch {
	case alone == 0:
		return text + "; none cuts a host off"
	case alone == len(list):
		return text + "; each cuts off what has no other cable"
	}
	return text + fmt.Sprintf("; %d cut hosts off", alone)
}

// costText writes the ranking of cables.
func (e *Engine) costText(w io.Writer) {
	if e.Cables == 0 {
		return
	}
	fmt.Fprintf(w, "\nloss of each cable, %s, routes repaired: change of the accepted traffic\n%s\n", e.Name, e.RankText())
	for _, host := range []bool{false, true} {
		list := e.kindOf(host)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n %s\n", e.KindText(host))
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprint(t, "  \tcable\t")
		if e.Simulated > 0 {
			fmt.Fprint(t, "packets\tp99\t")
		}
		fmt.Fprintln(t, "fair shares\tsenders with less\thit most\tcut off")
		for i := range list[:min(len(list), costsInText)] {
			c := &list[i]
			fmt.Fprintf(t, "  %d\t%s\t", i+1, c.Cable)
			if e.Simulated > 0 {
				fmt.Fprintf(t, "%s\t%s\t", c.Packets.text(), c.Packets.p99())
			}
			fmt.Fprintf(t, "%s\t%.4g\t%s\t%s\n", c.Shares.text(), c.best().Senders, c.best().HitText(), c.CutOffText())
		}
		t.Flush()
	}
	for _, x := range e.Unanswered[:min(len(e.Unanswered), costsInText)] {
		fmt.Fprintf(w, "  no answer: %s\n", x)
	}
	if n := len(e.Unanswered) - costsInText; n > 0 {
		fmt.Fprintf(w, "  and %d more without an answer\n", n)
	}
}

// p99 prints the latency, and a deadlock.
func (l *Loss) p99() string {
	switch {
	case l == nil:
		return ""
	case l.Deadlocks > 0:
		return "DEADLOCK"
	}
	return bucketed(l.P99) + " µs"
}

// HitText is the sender that loses most.
func (l *Loss) HitText() string {
	if len(l.Hit) == 0 {
		return "-"
	}
	h := &l.Hit[0]
	return fmt.Sprintf("%s: %.4g to %.4g Gb/s", h.Flow, h.Before, h.After)
}

// CutOffText names the hosts that are cut off.
func (c *Cost) CutOffText() string { return someNames(c.CutOff) }

// someNames are up to three names.
func someNames(list []string) string {
	if n := len(list); n > 3 {
		return fmt.Sprintf("%s and %d more", list[0], n-1)
	}
	return strings.Join(list, ", ")
}

// CostTable writes what the loss of each cable costs, as CSV with a line for each
// engine and cable, the dearest first.
func (a *Answer) CostTable(w io.Writer) error {
	t := csv.NewWriter(w)
	t.Write([]string{
		"engine", "rank", "cable", "between", "cost_packets", "cost_fair_shares", "accepted", "worst_share",
		"without_route", "collective_seconds", "p99_us", "senders_with_less", "hit_most", "before_gbps", "after_gbps",
		"cut_off",
	})
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	for _, e := range a.Engines {
		for i := range e.Costs {
			c := &e.Costs[i]
			l, between, packets, hit := c.best(), "switches", "", [3]string{}
			if c.Host {
				between = "switch and host"
			}
			if c.Packets != nil {
				packets = number(l.Cost)
			}
			if len(l.Hit) > 0 {
				hit = [3]string{l.Hit[0].Flow, number(l.Hit[0].Before), number(l.Hit[0].After)}
			}
			t.Write([]string{
				e.Name, strconv.Itoa(i + 1), c.Cable, between, packets, number(c.Shares.Cost), number(l.Accepted), number(l.Worst),
				number(c.Shares.Lost), number(l.Seconds), number(l.P99), number(l.Senders), hit[0], hit[1], hit[2],
				strings.Join(c.CutOff, " "),
			})
		}
	}
	t.Flush()
	return t.Error()
}
