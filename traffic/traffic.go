// Package traffic describes what hosts send to each other: patterns, kinds of
// source and models of the queues at a source.
//
//	hosts := traffic.Hosts(f, g)
//	spec, err := traffic.Parse("hot:5%:9,source=poisson,queue=lane")
//	…
//	demand, err := spec.Bind(hosts, seed, nil)
//
// Parse reads a pattern as users write it, Bind applies it to the hosts of a
// fabric. The result, a Demand, says which host sends how much to whom: streams
// of packets, steps of a collective operation, or messages of a trace. It has no
// opinion on routes. Package traffic/maxmin and the packet simulator take it.
//
// # Promises
//
// The package is pure: a Demand is a function of its arguments, and the seed
// decides everything that is drawn. Values are immutable once made, so any number
// of goroutines may read them. Errors are *SpecError or *TraceError, which name
// the part that is wrong.
package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
)

// Host is an end port that sends and receives: a port of an adapter or router
// with a cable to a switch and a LID.
type Host struct {
	Name    string     // of the node, with the port number if the node has several such ports
	ID      string     // of the node in the netlist
	Port    fabric.Ref // in the fabric
	EndPort int32      // in Graph.EndPorts
	Switch  int32      // in Graph.Switches
	LID     ib.LID
	Gbps    float64 // data rate of its link in Gb/s
}

// Hosts lists the hosts of a fabric in the order of their switches and of the
// switch ports: neighbors have adjacent numbers, as ranks have that a scheduler
// places node by node. Patterns that count hosts use these numbers. g must be the
// Graph of f with all links up.
func Hosts(f *fabric.Fabric, g *fabric.Graph) []Host {
	refs := f.EndPortRefs(fabric.GraphOptions{})
	var out []Host
	ports := map[int32]int{} // by node
	for e, r := range refs {
		p := &g.EndPorts[e]
		if p.Switch < 0 || p.Type == ib.NodeSwitch || p.LID == 0 {
			continue
		}
		n, at := &f.Nodes[r.Node], f.Port(r)
		ports[r.Node]++
		out = append(out, Host{
			Name: n.Name(), ID: n.ID, Port: r, EndPort: int32(e), Switch: p.Switch, LID: p.LID,
			Gbps: float64(at.Width.Lanes()) * at.Speed.DataGbps(),
		})
	}
	for i := range out {
		if h := &out[i]; ports[h.Port.Node] > 1 {
			h.Name = fmt.Sprintf("%s/%d", h.Name, h.Port.Port)
		}
	}
	slices.SortFunc(out, func(a, b Host) int {
		p, q := &g.EndPorts[a.EndPort], &g.EndPorts[b.EndPort]
		return cmp.Or(cmp.Compare(p.Switch, q.Switch), cmp.Compare(p.Port, q.Port))
	})
	return out
}

// Arrival says when a source makes packets.
type Arrival uint8

// The kinds of source.
const (
	Poisson   Arrival = iota // exponential gaps
	Constant                 // equal gaps, the first packet at a random time
	OnOff                    // bursts at the rate that is given, with silences between
	Closed                   // a new packet when one of Window is delivered
	Saturated                // one is always ready
)

var arrivalNames = [...]string{"poisson", "constant", "onoff", "closed", "saturated"}

// String prints "poisson".
func (a Arrival) String() string { return arrivalNames[a] }

// Queue is the source model: which packets of a host wait behind each other. A
// full queue loses the excess, except that a QueueStream makes its source wait.
type Queue uint8

// The source models.
const (
	QueueLane        Queue = iota // a queue for each lane of the host; excess is lost
	QueueDestination              // a queue for each destination; excess is lost
	QueueHost                     // one queue for the whole host: its first packet blocks all; excess is lost
	QueueStream                   // a queue for each stream; its source waits
)

var queueNames = [...]string{"lane", "destination", "host", "stream"}

// String prints "lane".
func (q Queue) String() string { return queueNames[q] }

// Text describes the model in a few words.
func (q Queue) Text() string {
	return [...]string{
		"one queue for each lane of a host, excess lost", "one queue for each destination, excess lost",
		"one queue for each host, excess lost", "one queue for each stream, the source waits",
	}[q]
}

// Stream is a source of packets at a host.
type Stream struct {
	Src int32 // index of the host
	// To is the host that the share Share of the packets goes to, -1: none.
	To    int32
	Share float64
	// Among are the hosts among which the other packets choose, each with the same
	// probability and Src left out. Streams share the slice.
	Among []int32
	// Rate is what it offers, as a share of the link of Src: above 0, at most 1.
	Rate float64
}

// Step is a part of a collective operation: every pair exchanges one message at
// the same time. A rank begins a step when its part of the step before is done.
type Step struct {
	Pairs [][2]int32 // source and destination
	Bytes int64      // of each message
	Times int        // how often the step is repeated
}

// Message is a line of a trace.
type Message struct {
	At       time.Duration
	Src, Dst int32
	Bytes    int64
}

// Demand is a pattern on the hosts of a fabric. It has streams, steps, messages
// or a multicast group, by the kind of pattern.
type Demand struct {
	Spec     *Spec
	Hosts    int // of the fabric
	Streams  []Stream
	Steps    []Step
	Messages []Message
	// Sender and Members are those of a broadcast; Members is nil otherwise.
	Sender  int32
	Members []int32
}

// Pairs is the number of pairs (source, destination) that may exchange data.
func (d *Demand) Pairs() (n int) {
	for i := range d.Streams {
		s := &d.Streams[i]
		if s.To >= 0 {
			n++
		}
		if len(s.Among) > 0 {
			n += len(s.Among) - 1
		}
	}
	for i := range d.Steps {
		n += len(d.Steps[i].Pairs)
	}
	return n + len(d.Messages) + len(d.Members)
}

// EachPair yields the pairs (source, destination) that may exchange data, but for
// the members of a broadcast. A pair may come more than once.
func (d *Demand) EachPair(yield func(pair [2]int32) bool) {
	for i := range d.Streams {
		s := &d.Streams[i]
		if s.To >= 0 && !yield([2]int32{s.Src, s.To}) {
			return
		}
		for _, h := range s.Among {
			if h != s.Src && !yield([2]int32{s.Src, h}) {
				return
			}
		}
	}
	for i := range d.Steps {
		for _, p := range d.Steps[i].Pairs {
			if !yield(p) {
				return
			}
		}
	}
	for _, m := range d.Messages {
		if !yield([2]int32{m.Src, m.Dst}) {
			return
		}
	}
}
