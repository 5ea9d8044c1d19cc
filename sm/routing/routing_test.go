package routing

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/internal/installtest"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/subnet"
)

// TestTranscripts drives a Router with the engines minhop and updn, in this order. Commands:
//
//	net                  a network, by lines "switches N", "link A B", "host SWITCH"
//	unlink A B, link A B change it
//	sweep [full] [mute=S] what a sweep of everything, or of the region that changed, computes and
//	                     installs; switch S does not answer
//	broken               a sweep asks for tables, and another fault breaks it off
//	abandon              a sweep asks for tables, and ends before their job is done
//	reroute              new tables are asked for
//	pass D               virtual time passes, and what is due is done
//	leads LID PORT       does LID lead to the port of LID PORT?
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := &fixture{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.do(t, d)
			return x.Record()
		})
	})
}

type fixture struct {
	*installtest.Network
	r          *Router
	jobs       []*job.Job
	unfinished bool // the last sweep failed
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) (n int) {
		var prefix string
		if _, err := fmt.Sscanf(d.CmdArgs[i].Key, "%1s%d", &prefix, &n); err != nil {
			d.Fatalf(t, "%v", err)
		}
		return n
	}
	switch d.Cmd {
	case "net":
		*x = fixture{Network: installtest.New(t, d.Input)}
		x.Config.Engines = []route.Engine{minhop.Engine{}, updn.Engine{}}
		x.r = New(&x.Env, x.Install, Needs{Groups: none{}, LIDs: none{}, Placements: none{}, Lanes: x, Jobs: x})
		x.Written = x.r.Written
	case "unlink", "link":
		x.r.Sign()
		if d.Cmd == "unlink" {
			x.Net.Unlink(arg(0), arg(1))
		} else {
			x.Net.Link(arg(0), arg(1))
		}
		x.Discover()
		x.r.Change()
	case "sweep":
		x.begin(!d.HasArg("full"))
		d.MaybeScanArgs(t, "mute", &x.Mute)
		x.finish()
		x.Mute = ""
	case "broken":
		x.begin(true)
		x.r.BreakOff()
		x.Printf("broken off\n")
	case "abandon":
		x.begin(true)
		x.r.Stale()
		x.run()
		x.Printf("asked for: %v, a job reads rows: %v, result: %v\n", x.r.Asked(), x.r.Reading(), x.r.Result() != nil)
	case "reroute":
		x.r.Reroute("new tables asked for by command")
	case "pass":
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		x.Pass(dur)
		if x.r.Next() <= x.Now {
			x.r.Improve()
		}
	case "leads":
		g := x.Fabric.Graph
		var lid, at int
		if _, err := fmt.Sscan(d.CmdArgs[0].Key+" "+d.CmdArgs[1].Key, &lid, &at); err != nil {
			d.Fatalf(t, "%v", err)
		}
		x.Printf("%v\n", x.r.RoutedAt(ib.LID(lid), g.EndPorts[g.LIDOwner[at]].GUID))
	default:
		d.Fatalf(t, "no such command")
	}
}

// begin begins a sweep and asks for its tables.
func (x *fixture) begin(region bool) {
	changed := x.r.Changed() || x.unfinished
	x.Pass(time.Millisecond)
	x.Errs, x.Report = 0, notice.SweepReport{Reason: "a test asked for it"}
	x.Install.NewSweep()
	x.r.NewSweep(changed || !region)
	if x.Region = region; !region {
		x.r.ReadsAll()
	}
	if x.r.Changed() {
		x.ReadBack()
		x.r.Start()
	}
}

// run runs the jobs that were asked for.
func (x *fixture) run() {
	for _, j := range x.jobs {
		x.Pass(time.Millisecond)
		mode := [...]string{job.Update: "update", job.Full: "full", job.Improve: "improve"}[j.Mode]
		x.Printf("job %d: %s, from the tables of an earlier one: %v, patient: %v\n",
			j.Gen, mode, j.Base != nil, j.Patient)
		x.r.Done(j.Run(1))
	}
	x.jobs = nil
}

// finish takes the result of the sweep's job and installs its tables.
func (x *fixture) finish() {
	if !x.r.Changed() {
		x.Printf("nothing to compute\n")
		return
	}
	x.run()
	res := x.r.Result()
	x.r.Tell(res)
	ok := x.r.Accept(res)
	if at := x.r.Next(); at != mad.Never {
		x.Printf("better tables are looked for in %v\n", at.Sub(x.Now))
	}
	if ok {
		x.Distribute(res)
	} else {
		x.Printf("nothing is installed\n")
	}
	x.r.EndRepair(!ok, false)
	x.Install.Drop()
	x.r.changed = false
	var s subnet.Snapshot
	x.r.Show(&s)
	x.Printf("engine %q, passed over %q\n", s.Engine, s.PassedOver)
	x.unfinished = x.Errs > 0
}

// RunJob implements Jobs.
func (x *fixture) RunJob(j *job.Job) { x.jobs = append(x.jobs, j) }

// SetUpAnew implements Lanes.
func (x *fixture) SetUpAnew() { x.Printf("lanes are set up anew\n") }

// none is a subnet without groups, placements and virtual functions.
type none struct{}

func (none) Route() []route.Group           { return nil }
func (none) Installed() *route.Multicast    { return nil }
func (none) Refused(ib.LID, string)         {}
func (none) NumFunctions() int              { return 0 }
func (none) Functions() []subnet.Place      { return nil }
func (none) OfFunction(subnet.Place) ib.LID { return 0 }
func (none) Limit() int                     { return 0xC000 }
func (none) Any() bool                      { return false }
func (none) EachLID(func(ib.LID, ib.GUID))  {}
func (none) AtRisk()                        {}
