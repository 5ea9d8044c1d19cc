package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/plural"
	"heddle/internal/routetest"
	"heddle/route"
	"heddle/route/check"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/route/move"
	"heddle/route/transition"
	"heddle/sm/notice"
)

// TestTranscripts runs jobs one after the other, as a manager does that installs every result.
// Switches are s0, s1 …, their hosts in the order in which they are connected. Commands:
//
//	net                      a network, by lines "switches N", "link A B", "host SWITCH"
//	unlink A B, link A B     remove or add a cable
//	run [MODE] [engines=E,…] [explicit] [unsafe]   a job for the network as it is;
//	                         MODE is full, update or improve
//	install                  the switches hold what the last job found
//	reset A                  switch A lost its table
//	move LID=N to=M          a job that gives LID N the entries of LID M
//	forecast A B             what a fault of the link between A and B would do
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := &fixture{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return x.do(t, d) })
	})
}

type fixture struct {
	net       *routetest.Net
	graph     *fabric.Graph // of net; nil after a change
	installed *route.Tables // nil: nothing
	served    *Solution
	base      *Solution
	last      *Result
	job       *Job
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) string {
	arg := func(i int) (n int) {
		if _, err := fmt.Sscanf(d.CmdArgs[i].Key, "s%d", &n); err != nil {
			d.Fatalf(t, "%v", err)
		}
		return n
	}
	switch d.Cmd {
	case "net":
		*x = fixture{net: &routetest.Net{}}
		for line := range strings.SplitSeq(d.Input, "\n") {
			var a, b int
			if n, _ := fmt.Sscanf(line, "switches %d", &a); n == 1 {
				x.net.Switches(a)
			} else if n, _ := fmt.Sscanf(line, "link s%d s%d", &a, &b); n == 2 {
				x.net.Link(a, b)
			} else if n, _ := fmt.Sscanf(line, "host s%d", &a); n == 1 {
				x.net.Host(a, 1)
			} else {
				d.Fatalf(t, "%q is no line of a network", line)
			}
		}
		g := x.now()
		return fmt.Sprintf("%d switches, %d end ports, %d channels\n", len(g.Switches), len(g.EndPorts), len(g.Channels))
	case "unlink":
		x.net.Unlink(arg(0), arg(1))
		x.graph = nil
		return ""
	case "link":
		x.net.Link(arg(0), arg(1))
		x.graph = nil
		return ""
	case "reset":
		t := *x.installed
		t.LFT = slices.Clone(t.LFT)
		t.LFT[arg(0)] = []byte{}
		x.installed = &t
		return ""
	case "run":
		x.job = x.newJob(t, d)
		x.last = x.job.Run(1)
		return x.result()
	case "install":
		x.installed, x.base = x.last.Tables, x.last.Base
		x.served = &Solution{Graph: x.job.Graph, Tables: x.last.Tables}
		return ""
	case "move":
		var lid, to int
		d.ScanArgs(t, "LID", &lid)
		d.ScanArgs(t, "to", &to)
		j := &Job{Graph: x.job.Graph, Move: &Moves{Tables: x.served.Tables, Requests: []move.Request{{LID: ib.LID(lid), Kind: move.Copy, With: ib.LID(to)}}}}
		r := j.Run(1)
		if r.Err != nil {
			return fmt.Sprintf("refused: %v\n", r.Err)
		}
		return fmt.Sprintf("%s\n%d blocks in %s\n", r.Move.Reason, r.Move.Writes, plural.Of(len(r.Move.Stages), "stage"))
	case "forecast":
		return x.forecast(t, arg(0), arg(1))
	}
	d.Fatalf(t, "no such command")
	return ""
}

// now is the graph of the network as it is.
func (x *fixture) now() *fabric.Graph {
	if x.graph == nil {
		x.graph = x.net.Graph()
	}
	return x.graph
}

func (x *fixture) newJob(t *testing.T, d *datadriven.TestData) *Job {
	g := x.now()
	inst := x.installed
	if inst == nil { // switches just after their reset
		inst = &route.Tables{LFT: make([][]byte, len(g.Switches)), NumVLs: 1}
		for s := range inst.LFT {
			inst.LFT[s] = []byte{}
		}
	}
	j := &Job{
		Graph: g, Mode: Full, Base: x.base, Installed: inst, Served: x.served, PortGUID: g.EndPorts[0].GUID,
		AllowUnsafe: d.HasArg("unsafe"), Explicit: d.HasArg("explicit"),
		Transition: transition.Options{
			Quiet: x.served == nil, SwitchLifetime: time.Second, HOQLife: time.Second, RepathTime: time.Second,
			SMPTime: time.Millisecond, Window: 1,
		},
	}
	switch {
	case d.HasArg("update"):
		j.Mode = Update
	case d.HasArg("improve"):
		j.Mode = Improve
	}
	if x.installed != nil {
		j.Options.Previous = inst
	}
	names := "updn"
	d.MaybeScanArgs(t, "engines", &names)
	for n := range strings.SplitSeq(names, ",") {
		switch n {
		case "updn":
			j.Engines = append(j.Engines, updn.Engine{})
		case "minhop":
			j.Engines = append(j.Engines, minhop.Engine{})
		default:
			d.Fatalf(t, "no engine %s", n)
		}
	}
	return j
}

// result tells what the last job found.
func (x *fixture) result() string {
	var b strings.Builder
	r := x.last
	for _, p := range r.Passed {
		fmt.Fprintf(&b, "passed over %s\n", p)
	}
	if r.Tables == nil {
		fmt.Fprintf(&b, "no tables: %v\n", r.Err)
		return b.String()
	}
	how := "computed"
	if r.Updated {
		how = "updated"
	}
	fmt.Fprintf(&b, "%s, %s", r.Engine, how)
	if r.Unsafe != "" {
		fmt.Fprintf(&b, ", unsafe: %s", r.Unsafe)
	}
	if r.Partial {
		b.WriteString(", between the installed tables and those of the engine")
	}
	fmt.Fprintf(&b, "\n%v: %s\n", r.Plan.Mode, r.Plan.Reason)
	for i := range r.Plan.Stages {
		st := NewPlannedStage(&r.Plan.Stages[i])
		fmt.Fprintf(&b, "stage %d: %d blocks, wait %v\n", i+1, st.LFT, st.Drain+st.Repath)
	}
	if k := r.Broken; k != nil {
		fmt.Fprintf(&b, "%s broken, %d of them late:", plural.Of(k.Pairs.N, "pair"), k.Late)
		for _, f := range k.Faults {
			fmt.Fprintf(&b, " %v", f)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (x *fixture) forecast(t *testing.T, a, z int) string {
	g := x.job.Graph
	p := &Plan{Job: x.job, Solution: x.last.Next}
	for c := g.Off[a]; c < g.Off[a+1]; c++ {
		ch := &g.Channels[c]
		if int(ch.To) != z {
			continue
		}
		f, err := p.Forecast([]notice.Fault{{Kind: notice.FaultLink, Node: g.Switches[a].GUID, Port: ch.OutPort}}, 1)
		if err != nil {
			return err.Error() + "\n"
		}
		return fmt.Sprintf("%s: %s\n%v\n%d blocks, %.3f s\n", f.Engine, f.Transition, &f.Repair, f.Total, f.Seconds)
	}
	t.Fatalf("no link from s%d to s%d", a, z)
	return ""
}

// TestForecastErrors: a fault that names no link or no switch, and one that cuts the manager off.
func TestForecastErrors(t *testing.T) {
	net := &routetest.Net{}
	net.Switches(2)
	net.Link(0, 1)
	net.Host(0, 1)
	net.Host(1, 1)
	g := net.Graph()
	p := &Plan{}
	if _, err := p.Forecast(nil, 1); err != ErrNoTables {
		t.Errorf("without tables: %v", err)
	}
	p = &Plan{Job: &Job{Graph: g, PortGUID: g.EndPorts[0].GUID}, Solution: &Solution{Graph: g}}
	if _, err := p.Forecast([]notice.Fault{{Kind: notice.FaultSwitch, Node: g.Switches[0].GUID}}, 1); err != ErrCutOff {
		t.Errorf("the manager's own switch: %v", err)
	}
	for _, f := range []notice.Fault{{Kind: notice.FaultSwitch, Node: 7}, {Kind: notice.FaultLink, Node: g.Switches[0].GUID, Port: 9}} {
		if _, err := p.Forecast([]notice.Fault{f}, 1); err == nil {
			t.Errorf("%+v is taken for a fault of the network", f)
		}
	}
}

// TestShort: only a job that moves a few LIDs of proved tables is done soon.
func TestShort(t *testing.T) {
	proof := &check.Proof{}
	for _, c := range []struct {
		name  string
		job   Job
		short bool
	}{
		{"tables", Job{}, false},
		{"one LID", Job{Move: &Moves{Proof: proof, Requests: make([]move.Request, 1)}}, true},
		{"tables that are not proved", Job{Move: &Moves{Requests: make([]move.Request, 1)}}, false},
		{"many LIDs", Job{Move: &Moves{Proof: proof, Requests: make([]move.Request, 100)}}, false},
	} {
		if c.job.Short() != c.short {
			t.Errorf("%s: short is %v", c.name, !c.short)
		}
	}
}
