package study

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("traffic").Parse(pageText))

// HTML writes the answer as one page that needs nothing else, with plots as SVG.
func (a *Answer) HTML(w io.Writer) error { return pageTemplate.Execute(w, page{a}) }

// page is an Answer with what its page computes.
type page struct{ *Answer }

// AskedText says which seeds were asked.
func (p page) AskedText() string { return p.asked() }

// IsPackets reports the mode.
func (p page) IsPackets() bool { return p.Mode == "packets" }

// line is a row of the results.
type line struct {
	Name, More string
	P          *Point
}

// Lines are the results of all engines and loads, before and after cuts.
func (p page) Lines() (out []line) {
	add := func(name string, list []*Point) {
		for _, x := range list {
			more := ""
			if x.Seconds > 0 {
				more = fmt.Sprintf("takes %s, ideally %s", seconds(x.Seconds), seconds(x.Ideal))
			}
			if x.Lost > 0 {
				more += fmt.Sprintf(" %.2g %% without a route", x.Lost*100)
			}
			out = append(out, line{name, more, x})
		}
	}
	for _, e := range p.Engines {
		add(e.Name, e.Points)
		if e.Cut != nil {
			add(e.Name+" after the cut", e.Cut.Points)
		}
	}
	return out
}

// NameOf is the engine and load of packets.
func (p page) NameOf(x *PacketPoint) string {
	for _, l := range p.Lines() {
		if l.P.Packets == x {
			return fmt.Sprintf("%s, load %g", l.Name, l.P.Load)
		}
	}
	return ""
}

// LossName is the engine and load of losses.
func (p page) LossName(x *Losses) string {
	for _, l := range p.Lines() {
		if l.P.Packets != nil && l.P.Packets.Losses == x {
			return p.NameOf(l.P.Packets)
		}
	}
	return ""
}

// DiscardsText lists discards by cause.
func (p *PacketPoint) DiscardsText() string { return p.discards() }

// Ranking is the cables of a kind, the dearest first.
type Ranking struct {
	Text      string
	Simulated bool
	Rows      []RankedCost
}

// RankedCost is a row of a ranking.
type RankedCost struct {
	*Cost
	Rank                 int
	ByPackets, P99, Flow string
	Best                 *Loss
}

// costsInPage is how many cables of a kind the page ranks.
const costsInPage = 100

// Rankings are the dearest cables, between switches and to hosts.
func (e *Engine) Rankings() (out []Ranking) {
	for _, host := range []bool{false, true} {
		list := e.kindOf(host)
		if len(list) == 0 {
			continue
		}
		r := Ranking{Text: e.KindText(host), Simulated: e.Simulated > 0}
		for i := range list[:min(len(list), costsInPage)] {
			c := &list[i]
			r.Rows = append(r.Rows, RankedCost{c, i + 1, c.Packets.text(), c.Packets.p99(), c.Shares.text(), c.best()})
		}
		out = append(out, r)
	}
	return out
}

// Plots are those over the load, with several loads, and those over time.
func (p page) Plots() (out []template.HTML) {
	loads := 0
	for _, e := range p.Engines {
		loads = max(loads, len(e.Points))
	}
	if loads > 1 {
		accepted := func(x *Point) float64 { return x.Accepted }
		out = append(out, p.overLoad("Accepted over load", "share of the links", false, accepted))
		if p.IsPackets() {
			p50 := func(x *Point) float64 { return x.Packets.P50 }
			p99 := func(x *Point) float64 { return x.Packets.P99 }
			out = append(out, p.overLoad("Median latency over load", "µs", true, p50))
			out = append(out, p.overLoad("p99 of latency over load", "µs", true, p99))
		}
	}
	for _, e := range p.Engines {
		if e.series != nil {
			out = append(out, p.overTime("Rates over time, "+e.Name, e.series, nil))
		}
		if e.Cut != nil && e.Cut.series != nil {
			out = append(out, p.overTime("Rates over time, "+e.Name+", with the cut", e.Cut.series, e.Cut.marks))
			if slices.Max(append(e.Cut.series.lost, 0)) > 0 {
				out = append(out, lostOverTime("Lost in the network, "+e.Name+", with the cut", e.Cut.series, e.Cut.marks))
			}
		}
	}
	return out
}

func (p page) overLoad(title, y string, log bool, of func(x *Point) float64) template.HTML {
	g := plot{title: title, x: "load", y: y, log: log}
	add := func(name string, list []*Point) {
		c := curve{name: name}
		for _, x := range list {
			c.at, c.value = append(c.at, x.Load), append(c.value, of(x))
		}
		if len(list) > 0 {
			g.curves = append(g.curves, c)
		}
	}
	for _, e := range p.Engines {
		add(e.Name, e.Points)
		if e.Cut != nil {
			add(e.Name+" cut", e.Cut.Points)
		}
	}
	return g.svg()
}

// overTime draws the rates of patterns; each value holds for an interval.
func (p page) overTime(title string, s *series, marks []float64) template.HTML {
	g := plot{title: title + " (first seed)", x: "µs", y: "Gb/s", marks: marks}
	for k, rates := range s.rates {
		c := curve{name: p.Patterns[k].Text}
		for i, v := range rates {
			if i+1 < len(s.at) {
				c.at, c.value = append(c.at, s.at[i], s.at[i+1]), append(c.value, v, v)
			}
		}
		g.curves = append(g.curves, c)
	}
	return g.svg()
}

// lostOverTime draws the packets that are lost in each interval.
func lostOverTime(title string, s *series, marks []float64) template.HTML {
	c := curve{name: "lost"}
	for i, v := range s.lost {
		c.at, c.value = append(c.at, s.at[i], s.at[i+1]), append(c.value, v, v)
	}
	y := fmt.Sprintf("packets in %.3g µs", s.at[1]-s.at[0])
	return plot{title: title + " (first seed)", x: "µs", y: y, marks: marks, curves: []curve{c}}.svg()
}

// mapRows is the most switches that a heat map shows: the hottest.
const mapRows = 200

// finite replaces what has no place in a plot.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}
