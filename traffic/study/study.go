// Package study answers what traffic gets on the routes of engines: on the whole
// fabric, and after the loss of cables.
//
//	q := &study.Question{Fabric: f, Choices: …, Specs: …, Loads: []float64{1}, Seeds: 8}
//	if err := q.Check(); err != nil { … } // before anything runs
//	a, err := q.Answer(ctx, nil)
//	a.Text(os.Stdout)
//
// A Question has two modes: max-min fair rates (package traffic/maxmin), in
// milliseconds, and packets (package sim/dataplane). An Answer states the model,
// so that numbers of one cannot be taken for those of the other. It is a function
// of the Question: the seeds decide what is drawn, and the number of workers
// changes nothing. If the context ends, it has what was done by then.
package study

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"heddle/fabric"
	"heddle/route"
	"heddle/route/check"
	"heddle/traffic"
)

// Choice is what a user calls an engine: one, or a chain of which the first is
// taken whose tables verify.
type Choice struct {
	Name    string
	Engines []route.Engine
}

// Question is what to find out.
type Question struct {
	Name    string // of the fabric, for people
	Fabric  *fabric.Fabric
	Choices []Choice
	// Options of the engines; Workers are also those of Answer.
	Options route.Options
	VLs     int // data lanes of every link, 1–15

	Specs  []*traffic.Spec
	Traces [][]traffic.Message // by spec, nil: none
	// Loads multiply the offered rates, each above 0 and at most 1, ascending.
	Loads []float64
	// Seeds is how many seeds are asked, First the first of them.
	Seeds int
	First uint64
	Time  time.Duration // how long traffic runs

	Cuts    []fabric.Ref // cables that are lost together
	CutEach bool         // rank all cables by what their loss costs
	// CutPackets is how many cables of each kind (between switches, to hosts) CutEach
	// asks packets about: those that cost most by fair shares. -1: all.
	CutPackets int
	Flow       bool // max-min fair rates instead of packets
	Packets    PacketOptions

	hosts []traffic.Host
	graph *fabric.Graph
	name  *namer

	alwaysApart bool // in tests: engineWorkers however small the fabric is
}

// Error is a Question without an answer: what is wrong, and what is possible.
type Error struct {
	What string // the setting: "load"
	Text string
}

func (e *Error) Error() string { return "study: " + e.What + ": " + e.Text }

func wrong(what, format string, a ...any) error { return &Error{what, fmt.Sprintf(format, a...)} }

// Check prepares a question, and reports what is wrong with it.
func (q *Question) Check() error {
	if len(q.Choices) == 0 {
		return wrong("engine", "none given")
	}
	if len(q.Specs) == 0 {
		return wrong("pattern", "none given")
	}
	if len(q.Loads) == 0 {
		return wrong("load", "none given")
	}
	for _, l := range q.Loads {
		if !(l > 0 && l <= 1) {
			return wrong("load", "%v; want a share of the hosts' links above 0 and at most 1", l)
		}
	}
	slices.Sort(q.Loads)
	q.Loads = slices.Compact(q.Loads)
	if q.Seeds < 1 || q.Seeds > maxSeeds {
		return wrong("seeds", "%d; want 1 to %d", q.Seeds, maxSeeds)
	}
	if q.Time <= 0 {
		return wrong("time", "%v; want more than 0", q.Time)
	}
	if _, err := q.Prepare(); err != nil {
		return err
	}
	for a := range q.Fabric.Links {
		if p := q.Fabric.Port(a); float64(p.Width.Lanes())*p.Speed.DataGbps() == 0 {
			return wrong("netlist", "the cable at %s has no width and speed that give a rate", q.name.port(a))
		}
	}
	if err := q.checkSize(); err != nil {
		return err
	}
	if err := q.checkTimes(); err != nil {
		return err
	}
	if err := q.checkCuts(); err != nil {
		return err
	}
	if q.Flow {
		return q.checkFlow()
	}
	return q.checkPackets()
}

// Prepare assigns LIDs and returns the hosts, which the messages of Traces are
// between. Check calls it.
func (q *Question) Prepare() ([]traffic.Host, error) {
	if q.graph != nil {
		return q.hosts, nil
	}
	if q.VLs < 1 || q.VLs > 15 {
		return nil, wrong("vls", "%d; a link has 1 to 15 data lanes", q.VLs)
	}
	if err := fabric.AssignLIDs(q.Fabric, 1); err != nil {
		return nil, err
	}
	g, err := q.Fabric.Graph(fabric.GraphOptions{VLs: uint8(q.VLs)})
	if err != nil {
		return nil, err
	}
	q.graph, q.hosts, q.name = g, traffic.Hosts(q.Fabric, g), newNamer(q.Fabric)
	return q.hosts, nil
}

// Bounds of what is computed at once.
const (
	maxSeeds    = 10_000
	maxMessages = 1 << 24 // of a collective
	maxEntries  = 1 << 25 // (flow, channel) of fair shares: half a gigabyte
)

// checkSize reports patterns that do not suit the hosts, or need too much memory.
func (q *Question) checkSize() error {
	n := len(q.hosts)
	for _, s := range q.Specs {
		if s.Kind == traffic.AllToAll && n*n > maxMessages && len(s.Choose) == 0 {
			return wrong("pattern", "%q has %d messages on %d hosts; at most %d are possible, so choose some hosts with hosts=",
				s.Text, n*(n-1), n, maxMessages)
		}
	}
	demands, err := q.demands(q.First)
	if err != nil || !q.Flow && !q.CutEach {
		return err
	}
	for _, d := range demands {
		entries := 0
		for i := range d.Streams {
			k := len(d.Streams[i].Among)
			if d.Spec.Queue == traffic.QueueDestination {
				entries += 5 * k
			} else {
				entries += min(2*k, len(q.graph.Channels)+2*n)
			}
		}
		if entries > maxEntries {
			return wrong("pattern", "%q on %d hosts needs too much memory for fair shares; "+
				"ask for packets, or choose some hosts with hosts=", d.Spec.Text, n)
		}
	}
	return nil
}

func (q *Question) checkTimes() error {
	for _, s := range q.Specs {
		if s.Start >= q.Time {
			return wrong("pattern", "%q starts at %v, and the run ends at %v", s.Text, s.Start, q.Time)
		}
	}
	return nil
}

// checkCuts reports a cable that is named twice, by one of its ends or by both.
func (q *Question) checkCuts() error {
	for i, a := range q.Cuts {
		for _, b := range q.Cuts[:i] {
			if a == b {
				return wrong("cut", "%s is given twice", q.name.port(a))
			}
			if q.Fabric.Port(a).Peer == b {
				return wrong("cut", "%s and %s are the same cable", q.name.port(b), q.name.port(a))
			}
		}
	}
	if q.CutPackets < -1 {
		return wrong("cut-packets", "%d; want 0 or more", q.CutPackets)
	}
	return nil
}

// demands binds all patterns.
func (q *Question) demands(seed uint64) (out []*traffic.Demand, err error) {
	for i, s := range q.Specs {
		var trace []traffic.Message
		if i < len(q.Traces) {
			trace = q.Traces[i]
		}
		// Two equal patterns draw differently.
		d, err := s.Bind(q.hosts, seed+uint64(i)<<32, trace)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Progress is called with what is computed now, and the share of it that is done;
// calls do not overlap.
type Progress func(what string, share float64)

// state is the fabric with tables: whole, or after a loss.
type state struct {
	g    *fabric.Graph
	t    *route.Tables
	cuts []fabric.Ref
	// later is the state after cuts under traffic, nil: none.
	later  *state
	choice Choice // engines of the manager that repairs, if later is set
}

// Answer computes the answer.
func (q *Question) Answer(ctx context.Context, progress Progress) (*Answer, error) {
	if progress == nil {
		progress = func(string, float64) {}
	}
	a := q.newAnswer()
	for _, c := range q.Choices {
		if ctx.Err() != nil {
			break
		}
		progress("routes of "+c.Name, 0)
		e, s := q.route(c)
		a.Engines = append(a.Engines, e)
		if s == nil {
			continue
		}
		r := &runner{q: q, ctx: ctx, progress: progress, what: e.Name}
		if err := r.points(s, e); err != nil {
			return nil, err
		}
		if len(q.Cuts) > 0 {
			if err := r.cut(s, e); err != nil {
				return nil, err
			}
		}
		if q.CutEach {
			if err := r.cutEach(s, e); err != nil {
				return nil, err
			}
		}
	}
	a.Interrupted = ctx.Err() != nil
	return a, nil
}

// route computes the tables of a choice: the first engine whose tables verify, or
// the last one that has any.
func (q *Question) route(c Choice) (*Engine, *state) {
	out := &Engine{Name: c.Name}
	var last *state
	for _, e := range c.Engines {
		t, err := e.Compute(q.graph, q.Options)
		if err != nil {
			out.PassedOver = append(out.PassedOver, route.Refusal(e.Name(), err))
			continue
		}
		s := &state{g: q.graph, t: t}
		r := check.Verify(q.graph, t, check.Options{Workers: q.Options.Workers})
		out.Disconnected = r.DisconnectedPairs
		out.Unreachable, out.CreditCycles, out.Lanes, out.Note = r.UnreachablePairs, r.CreditCycles, r.VLsUsed, t.Note
		if len(c.Engines) > 1 {
			out.Name = c.Name + " (" + e.Name() + ")"
		}
		last = s
		if err = r.Err(); err == nil {
			out.Problem = ""
			break
		}
		out.Problem = err.Error()
		if len(c.Engines) > 1 {
			out.PassedOver = append(out.PassedOver, route.Refusal(e.Name(), err))
		}
	}
	if last == nil {
		out.Refused, out.PassedOver = strings.Join(out.PassedOver, "; "), nil
		return out, nil
	}
	q.addGroups(last, nil)
	return out, last
}

// namer names nodes and cables as users can give them: by description if no other
// node has it, else by ID.
type namer struct {
	f     *fabric.Fabric
	count map[string]int
}

func newNamer(f *fabric.Fabric) *namer {
	n := &namer{f, map[string]int{}}
	for i := range f.Nodes {
		n.count[f.Nodes[i].Name()]++
	}
	return n
}

func (n *namer) node(i int32) string {
	if nd := &n.f.Nodes[i]; n.count[nd.Name()] > 1 {
		return nd.ID
	}
	return n.f.Nodes[i].Name()
}

// port is NODE:PORT, as --cut takes it.
func (n *namer) port(r fabric.Ref) string { return fmt.Sprintf("%s:%d", n.node(r.Node), r.Port) }

// FindPort returns the port that NODE:PORT names, by description, ID or GUID. The
// port must have a cable.
func FindPort(f *fabric.Fabric, text string) (fabric.Ref, error) {
	return newNamer(f).find(text)
}

// cables lists one port of every cable, those between switches first.
func (q *Question) cables() (list []fabric.Ref) {
	for a := range q.Fabric.Links {
		list = append(list, a)
	}
	inner := func(r fabric.Ref) int {
		p := q.Fabric.Port(r).Peer
		if q.Fabric.Nodes[r.Node].IsSwitch() && q.Fabric.Nodes[p.Node].IsSwitch() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b fabric.Ref) int { return cmp.Compare(inner(a), inner(b)) })
	return list
}
