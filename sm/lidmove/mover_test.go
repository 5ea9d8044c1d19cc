package lidmove

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/fabric"
	"heddle/ib"
	"heddle/internal/installtest"
	"heddle/route"
	"heddle/route/engine/updn"
	"heddle/route/move"
	"heddle/sm/job"
	"heddle/sm/notice"
)

// TestTranscripts drives a Mover over a network whose tables are installed. Commands:
//
//	net [layers]               a network, by lines "switches N", "link A B", "host SWITCH"; layers: two lanes
//	move LID=N to=M [mute=S]   LID N takes the entries of LID M; switch S does not answer
//	slow [off]                 hosts may use paths on a slow lane, or no longer
//	wait                       a minute passes
//	fault                      a move begins, and a fault breaks it off
//	port LID=N to=M [mute=H]   the port with base LID N gets base LID M; host H does not answer
//	leads                      which port each LID of a host leads to
//	count                      what moves cost so far
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
	m      *Mover
	result *job.Result
	slow   bool
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	var lid, to int
	d.MaybeScanArgs(t, "LID", &lid)
	d.MaybeScanArgs(t, "to", &to)
	if x.Network == nil {
		x.Network = installtest.New(t, d.Input)
	}
	x.Errs = 0
	switch d.Cmd {
	case "net":
		x.m = New(&x.Env, x.Install, Needs{Router: x, Groups: x, Placements: x, Conductor: x})
		j := &job.Job{
			Graph: x.Fabric.Graph, Mode: job.Full, Engines: []route.Engine{updn.Engine{}}, Installed: x.Install.Rows(),
		}
		r := j.Run(1)
		if d.HasArg("layers") {
			r.Tables.NumVLs, r.Tables.NumClasses = 2, 1
			r.Tables.Class, r.Tables.SL = make([]int32, r.Tables.TopLID+1), make([]ib.SL, len(x.Fabric.Graph.Switches))
		}
		x.Install.Want(r.Tables)
		x.Distribute(r)
		x.Install.Drop()
	case "move", "fault":
		d.MaybeScanArgs(t, "mute", &x.Mute)
		x.Phase = notice.PhaseIdle
		x.m.Move([]move.Request{{LID: ib.LID(lid), Kind: move.Copy, With: ib.LID(to)}}, []ib.GUID{0xbeef})
		if d.Cmd == "fault" {
			x.m.Continue()
			x.Install.Stop()
			x.m.LeaveToSweep("a link failed", x.m.Writing())
			break
		}
		x.run()
	case "port":
		d.MaybeScanArgs(t, "mute", &x.Mute)
		g := x.Fabric.Graph
		p := &x.Fabric.Ports[x.Fabric.EndPort[g.LIDOwner[lid]]]
		p.LID = ib.LID(to)
		if !x.m.SetPortLID(p, false) {
			x.Printf("it has the LID already\n")
			break
		}
		x.run()
	case "leads":
		g := x.Fabric.Graph
		for l, e := range g.LIDOwner {
			if e >= 0 && g.EndPorts[e].Type != ib.NodeSwitch {
				n := &x.Fabric.Nodes[x.Fabric.Ports[x.Fabric.EndPort[e]].Node]
				x.Printf("LID %d leads to %s, base LID %d\n", l, n.Desc, g.EndPorts[e].LID)
			}
		}
	case "slow":
		x.slow = !d.HasArg("off")
	case "wait":
		x.Now = x.Now.Add(time.Minute)
	case "count":
		x.Printf("%+v\n", x.m.Counts())
	default:
		d.Fatalf(t, "no such command")
	}
	x.Mute = ""
}

// run takes the phase to its end.
func (x *fixture) run() {
	for x.Phase == notice.PhaseMove {
		x.Work()
		x.m.Continue()
	}
}

// StartMoves implements Router: the job runs at once.
func (x *fixture) StartMoves(m *job.Moves) {
	x.result = (&job.Job{Graph: x.Fabric.Graph, Move: m}).Run(1)
}

// Result implements Router.
func (x *fixture) Result() *job.Result { return x.result }

// MovedLocally implements Router.
func (x *fixture) MovedLocally(list []move.Request, _, _ *fabric.Graph) {
	x.Printf("%d moves between ports of one switch\n", len(list))
}

// Regrant implements Router.
func (x *fixture) Regrant() { x.Printf("the next sweep gives LIDs to their owners\n") }

// Aim implements Router.
func (x *fixture) Aim(s *job.Solution) {
	if s != nil {
		x.Printf("the next sweep takes the tables of the job\n")
	}
}

// Slow implements Router.
func (x *fixture) Slow() bool { return x.slow }

// Route implements Groups.
func (x *fixture) Route() []route.Group { return nil }

// Moved implements Placements.
func (x *fixture) Moved(g ib.GUID, smps int) { x.Printf("placement %v: moved by %d SMPs\n", g, smps) }

// PortsSet implements Placements.
func (x *fixture) PortsSet(failed bool) { x.Printf("ports set, failed: %v\n", failed) }

// AtRisk implements Placements.
func (x *fixture) AtRisk() {}

// LIDsMoved implements Conductor.
func (x *fixture) LIDsMoved() { x.Printf("the next snapshot shows the LIDs\n") }

// BasesChanged implements Conductor.
func (x *fixture) BasesChanged() { x.Printf("the next snapshot shows the ports\n") }
