package study

import (
	"fmt"
	"maps"
	"slices"

	"heddle/traffic"
)

// Answer is the JSON contract of `heddle traffic`.
type Answer struct {
	Fabric   string `json:"fabric"`
	Switches int    `json:"switches"`
	Hosts    int    `json:"hosts"`
	Cables   int    `json:"cables"`
	Rates    string `json:"rates"` // how many cables have which width and speed
	// Uncabled are the hosts without a cable to a switch.
	Uncabled    []string  `json:"hosts_without_a_cable,omitempty"`
	Mode        string    `json:"mode"`  // "flow" or "packets"
	Model       []string  `json:"model"` // what the numbers mean, in sentences
	Patterns    []Pattern `json:"patterns"`
	Seeds       int       `json:"seeds"`
	FirstSeed   uint64    `json:"first_seed"`
	Lanes       int       `json:"lanes"` // of every link
	TimeUS      float64   `json:"time_us"`
	Engines     []*Engine `json:"engines"`
	Interrupted bool      `json:"interrupted"`
}

// Pattern describes a pattern with its source model.
type Pattern struct {
	Text    string `json:"text"`
	Meaning string `json:"meaning"`
	Source  string `json:"source"`
	Queue   string `json:"queue"`
	Rate    string `json:"rate"`
}

// Engine is the answer for one engine.
type Engine struct {
	Name       string   `json:"engine"`
	PassedOver []string `json:"passed_over,omitempty"`
	Refused    string   `json:"refused,omitempty"` // why it has no tables
	// Problem is what the proof says against the tables: "".
	Problem      string   `json:"problem,omitempty"`
	Note         string   `json:"note,omitempty"`
	Unreachable  int64    `json:"unreachable_pairs"`
	Disconnected int64    `json:"disconnected_pairs"` // that no cable connects
	CreditCycles int      `json:"credit_cycles"`
	Lanes        int      `json:"lanes"`
	Points       []*Point `json:"points"` // by load
	Hottest      []Use    `json:"hottest"`
	Cut          *Cut     `json:"cut,omitempty"`
	// Costs are those of the loss of each cable, the dearest first; Cables is how
	// many cables there are.
	Costs      []Cost   `json:"costs,omitempty"`
	Cables     int      `json:"cables,omitempty"`
	Unanswered []string `json:"unanswered,omitempty"` // cables without an answer, and why
	// Simulated is how many cables packets were to be asked about.
	Simulated int `json:"simulated,omitempty"`

	heat   []cableHeat
	series *series
	last   []*outcome // of the last load
}

// HasTables reports whether any engine has.
func (a *Answer) HasTables() bool {
	return slices.ContainsFunc(a.Engines, func(e *Engine) bool { return e.Refused == "" })
}

// Apart says how many pairs no cable connects.
func (e *Engine) Apart() string {
	if e.Disconnected == 0 {
		return ""
	}
	return fmt.Sprintf("the fabric is in parts: %d pairs are not connected by any cables, and have no route", e.Disconnected)
}

// Point is what traffic gets at a load: means over the seeds. Rates are shares of
// the links of the hosts that send.
type Point struct {
	Load     float64 `json:"load"`
	Seeds    int     `json:"seeds"` // how many were asked
	Offered  float64 `json:"offered"`
	Accepted float64 `json:"accepted"`
	// Least and Most are Accepted of the worst and the best seed.
	Least float64 `json:"accepted_least"`
	Most  float64 `json:"accepted_most"`
	Gbps  float64 `json:"accepted_gbps"` // of all hosts together
	// Worst is the flow that gets the smallest share of what it offers, over all
	// seeds.
	Worst     float64 `json:"worst_share"`
	WorstFlow string  `json:"worst_flow"`
	Jain      float64 `json:"jain"` // of accepted over offered, by flow
	// Lost is the share of what is sent that has no route.
	Lost float64 `json:"lost"`
	// Seconds is how long a collective takes, Ideal if every link were free.
	Seconds float64 `json:"collective_seconds,omitempty"`
	Ideal   float64 `json:"collective_ideal_seconds,omitempty"`

	Packets *PacketPoint `json:"packets,omitempty"`
}

// cost is what a loss costs: the share of what was accepted that is gone, or the
// share by which a collective takes longer.
func (p *Point) cost(after *Point) float64 {
	if p.Seconds > 0 && after.Lost > p.Lost {
		return 1 // it does not end
	}
	if p.Seconds > 0 {
		return after.Seconds/p.Seconds - 1
	}
	if p.Gbps == 0 {
		return 0
	}
	return 1 - after.Gbps/p.Gbps
}

// Use is how much a channel, one direction of a cable, carries.
type Use struct {
	From string `json:"from"` // NODE:PORT
	To   string `json:"to"`
	// Used is the share of its rate that is used, Asked what its flows offer
	// together, as a share of its rate.
	Used  float64 `json:"used"`
	Asked float64 `json:"asked,omitempty"`
	// Wait is the share of the time in which a packet waited and none was sent.
	Wait  float64   `json:"wait,omitempty"`
	Lanes []float64 `json:"lanes,omitempty"` // packets' shares by lane
}

// CutOffText names the hosts that are cut off.
func (x *Cut) CutOffText() string {
	if len(x.CutOff) == 0 {
		return ""
	}
	return "; cut off: " + someNames(x.CutOff)
}

// Cut is the answer after the loss of cables.
type Cut struct {
	Cables       []string `json:"cables"`
	How          string   `json:"how"`                // how the tables were repaired
	Refused      string   `json:"refused,omitempty"`  // why there are none
	Problem      string   `json:"problem,omitempty"`  // what the proof says against them
	Disconnected int64    `json:"disconnected_pairs"` // that no cable connects any more
	// CutOff are the hosts on the smaller sides of cables that were the only way.
	CutOff  []string `json:"cut_off,omitempty"`
	Points  []*Point `json:"points"`
	Hottest []Use    `json:"hottest"`

	series *series
	marks  []float64 // µs: the cut and the repair, under traffic
}

func (q *Question) newAnswer() *Answer {
	a := &Answer{
		Fabric: q.Name, Switches: len(q.graph.Switches), Hosts: len(q.hosts), Lanes: q.VLs, Seeds: q.Seeds, FirstSeed: q.First,
		Mode: "packets", TimeUS: float64(q.Time.Nanoseconds()) / 1000,
	}
	count := map[string]int{}
	for r := range q.Fabric.Links {
		a.Cables++
		p := q.Fabric.Port(r)
		count[fmt.Sprintf("%dx%v, %g Gb/s", p.Width.Lanes(), p.Speed, float64(p.Width.Lanes())*p.Speed.DataGbps())]++
	}
	cabled := make([]bool, len(q.Fabric.Nodes))
	for h := range q.hosts {
		cabled[q.hosts[h].Port.Node] = true
	}
	for i := range q.Fabric.Nodes {
		if !q.Fabric.Nodes[i].IsSwitch() && !cabled[i] {
			a.Uncabled = append(a.Uncabled, q.name.node(int32(i)))
		}
	}
	for _, rate := range slices.Sorted(maps.Keys(count)) {
		if a.Rates != "" {
			a.Rates += "; "
		}
		a.Rates += fmt.Sprintf("%d of %s", count[rate], rate)
	}
	if q.Flow {
		a.Mode = "flow"
	}
	a.Model = q.model()
	usage := map[traffic.Kind]string{}
	for i, u := range traffic.Usage() {
		usage[traffic.Kind(i)] = u[1]
	}
	for _, s := range q.Specs {
		p := Pattern{
			Text: s.Text, Meaning: usage[s.Kind], Source: s.Arrival.String(), Queue: s.Queue.Text(), Rate: s.Rate.String(),
		}
		if s.Rate.Gbps == 0 {
			p.Rate += " of the link"
		}
		if s.Kind.Collective() || s.Kind == traffic.Trace {
			p.Source, p.Rate = "messages", "as fast as the links permit"
		}
		a.Patterns = append(a.Patterns, p)
	}
	return a
}
