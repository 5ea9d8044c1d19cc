package study

import (
	"slices"
	"time"

	"heddle/traffic"
	"heddle/traffic/inject"
	"heddle/traffic/maxmin"
)

// series are rates over time: by pattern, what all its flows get together in Gb/s.
type series struct {
	at    []float64 // µs: where each interval begins, and the end of the last
	rates [][]float64
	lost  []float64 // packets lost in the network, with packets
}

// checkFlow reports questions that fair shares cannot answer.
func (q *Question) checkFlow() error {
	for _, s := range q.Specs {
		if s.Kind.Collective() && len(q.Specs) > 1 {
			return wrong("pattern", "%q has steps, and fair shares know no time within a step: "+
				"ask for it alone, or for packets", s.Text)
		}
	}
	return nil
}

// flowRates answers with max-min fair rates.
func (q *Question) flowRates(s *state, net *maxmin.Net, demands []*traffic.Demand, load float64) (*outcome, error) {
	if demands[0].Spec.Kind.Collective() {
		return q.collective(s, net, demands[0]), nil
	}
	for i, d := range demands {
		if len(d.Messages) > 0 {
			demands[i] = q.meanRates(d)
		}
	}
	n := net.Channels()
	o := &outcome{net: net, used: make([]float64, n), asked: make([]float64, n)}
	o.series = &series{rates: make([][]float64, len(demands))}
	// Rates are constant between the starts and ends of patterns.
	times := []time.Duration{0, q.Time}
	for _, d := range demands {
		for _, t := range []time.Duration{d.Spec.Start, d.Spec.End} {
			if t > 0 && t < q.Time {
				times = append(times, t)
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	place := map[[4]int32]int{} // of a flow in o.flows
	for i, begin := range times[:len(times)-1] {
		weight := float64(times[i+1]-begin) / float64(q.Time)
		active := make([]*traffic.Demand, len(demands))
		for k, d := range demands {
			active[k] = &traffic.Demand{Spec: d.Spec}
			if d.Spec.Start <= begin && (d.Spec.End == 0 || d.Spec.End > begin) {
				active[k] = d
			}
		}
		r, err := net.Rates(s.t, load, q.groups(), active...)
		if err != nil {
			return nil, err
		}
		o.add(r, weight, place, len(times) == 2)
		o.series.add(begin, r, len(demands))
	}
	o.series.at = append(o.series.at, micros(q.Time))
	return o, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// add adds the rates of a part of the run. If it is the only part, every flow is
// a new one.
func (o *outcome) add(r *maxmin.Result, weight float64, place map[[4]int32]int, only bool) {
	seen := map[[3]int32]int32{}
	for i := range r.Flows {
		f := &r.Flows[i]
		x := flowRate{
			demand: int32(f.Demand), src: f.Src, dst: f.Dst, dests: f.Dests,
			offered: f.Offered * weight, accepted: f.Accepted() * weight, lost: 1 - f.Arrives,
		}
		if only {
			o.flows = append(o.flows, x)
			continue
		}
		k := [3]int32{x.demand, x.src, x.dst}
		key := [4]int32{x.demand, x.src, x.dst, seen[k]}
		seen[k]++
		if at, ok := place[key]; ok {
			o.flows[at].offered += x.offered
			o.flows[at].accepted += x.accepted
			continue
		}
		place[key] = len(o.flows)
		o.flows = append(o.flows, x)
	}
	for c := range r.Used {
		o.used[c] += r.Used[c] * weight
		o.asked[c] += r.Asked[c] * weight
	}
}

func (s *series) add(begin time.Duration, r *maxmin.Result, patterns int) {
	sum := make([]float64, patterns)
	for i := range r.Flows {
		sum[r.Flows[i].Demand] += r.Flows[i].Accepted()
	}
	s.at = append(s.at, micros(begin))
	for k, x := range sum {
		s.rates[k] = append(s.rates[k], x)
	}
}

// collective takes the steps one after the other: a step ends with its slowest
// message.
func (q *Question) collective(s *state, net *maxmin.Net, d *traffic.Demand) *outcome {
	o := &outcome{net: net, used: make([]float64, net.Channels()), asked: make([]float64, net.Channels())}
	for _, step := range d.Steps {
		r := net.Pairs(s.t, step.Pairs)
		bits := float64(step.Bytes) * 8 / wireShare(d.Spec)
		took, ideal := 0.0, 0.0
		for i := range r.Flows {
			f := &r.Flows[i]
			if f.Arrives > 0 {
				took = max(took, bits/(f.Rate*1e9))
			}
			ideal = max(ideal, bits/(min(q.hosts[f.Src].Gbps, q.hosts[f.Dst].Gbps)*1e9))
			o.flows = append(o.flows, flowRate{
				src: f.Src, dst: f.Dst, dests: 1, offered: f.Offered, accepted: f.Accepted(), lost: 1 - f.Arrives,
			})
		}
		o.seconds += took * float64(step.Times)
		o.ideal += ideal * float64(step.Times)
		for c := range r.Used {
			o.used[c] = max(o.used[c], r.Used[c])
			o.asked[c] = max(o.asked[c], r.Asked[c])
		}
	}
	if n := float64(len(d.Steps)); n > 0 {
		for i := range o.flows {
			o.flows[i].offered /= n
			o.flows[i].accepted /= n
		}
	}
	return o
}

// overhead is what a packet has in addition to its payload, in bytes.
const overhead = inject.Overhead

// wireShare is the share of the payload in what is on the wire.
func wireShare(s *traffic.Spec) float64 { return float64(s.Payload) / float64(s.Payload+overhead) }

// meanRates replaces the messages of a trace by streams with the mean rate of each
// pair from the start of the run to its end.
func (q *Question) meanRates(d *traffic.Demand) *traffic.Demand {
	spec := *d.Spec
	spec.Queue = traffic.QueueDestination
	out := &traffic.Demand{Spec: &spec, Hosts: d.Hosts, Sender: -1}
	at := map[[2]int32]int{}
	for _, m := range d.Messages {
		if m.At >= q.Time {
			continue
		}
		k := [2]int32{m.Src, m.Dst}
		i, ok := at[k]
		if !ok {
			i = len(out.Streams)
			at[k] = i
			out.Streams = append(out.Streams, traffic.Stream{Src: m.Src, To: m.Dst, Share: 1})
		}
		gbits := float64(m.Bytes) * 8 / wireShare(&spec) / 1e9
		out.Streams[i].Rate += gbits / q.Time.Seconds() / q.hosts[m.Src].Gbps
	}
	for i := range out.Streams {
		out.Streams[i].Rate = min(out.Streams[i].Rate, 1)
	}
	return out
}

// model says what the numbers mean.
func (q *Question) model() []string {
	if !q.Flow {
		return q.packetModel()
	}
	out := []string{
		"Max-min fair shares: all flows grow until a channel on their path is full, or until they have what they offer.",
		"Blind to head-of-line blocking, latency, buffers, lanes in the network and deadlock; packets get less where " +
			"flows share input buffers. A flow is what waits in one queue of a host.",
	}
	for _, s := range q.Specs {
		if s.Kind.Collective() {
			out = append(out, "A collective takes its steps one after the other; a step ends with its slowest message. "+
				"Start-up times of messages are 0.")
		}
		if s.Kind == traffic.Trace {
			out = append(out, "A trace counts as the mean rate of each pair over the run.")
		}
	}
	return out
}
