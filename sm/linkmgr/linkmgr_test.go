package linkmgr

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env/envtest"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts drives the ports of a subnet of a switch and two hosts, h1 and h2, at its ports
// 1 and 2. h1 is the manager's own. All ports are in Init and have no LID. "p0" to "p2" are the
// ports of the switch. Commands:
//
//	config FIELD=VALUE…    settings, by the name of the field in sm/config
//	port NAME FIELD=VALUE… what the agent of a port says, by the name of the field in PortInfo
//	switch FIELD=VALUE…    the same for SwitchInfo
//	agent NAME HOW         what the agent does with a Set: obey, stuck (nothing changes), refuse
//	                       (and returns the Set), mute (no answer), reset (does it, and the port
//	                       comes back in Init), other (capabilities of another port)
//	enforce p1|p2          the port is to enforce partitions
//	first on|off           no sweep of this mastership has configured the subnet yet
//	read                   a sweep reads all ports
//	sets, arm, activate, down   a phase of a sweep
//	top LID                switches are to have this LinearFDBTop
//	counts                 the Sets of the sweep
//	failed NAME [TIMES]    an active link failed
//	kept NAME [changed]    is the link at the port kept out?
//	pass D                 virtual time passes; links are let back in
//	damped                 the links that are kept out, and the problems in a snapshot
//
// Sets show the fields in which they differ from what the agent had.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := newFixture(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.do(t, d)
			return x.Record()
		})
	})
}

type fixture struct {
	*envtest.Board
	m       *Manager
	ports   map[*topo.Port]*smp.PortInfo // what the agents say
	sw      smp.SwitchInfo
	how     map[*topo.Port]string
	enforce map[*topo.Port]bool
	top     ib.LID
}

func newFixture(t *testing.T) *fixture {
	x := &fixture{
		Board: envtest.New(2), ports: map[*topo.Port]*smp.PortInfo{},
		how: map[*topo.Port]string{}, enforce: map[*topo.Port]bool{},
	}
	p0 := x.Fabric.PortOf(0, 0)
	p0.GUID, p0.LID = envtest.SwitchGUID, 9
	p0.Flags |= topo.PortKnown | topo.PortEnd
	for i := range x.Fabric.Ports {
		p := &x.Fabric.Ports[i]
		x.ports[p] = &smp.PortInfo{
			PortState: ib.StateInit, MTUCap: ib.MTU4096, NeighborMTU: ib.MTU2048, VLCap: 3,
			LinkWidthSupported: 3, LinkSpeedSupported: 7, SubnetTimeOut: 18, LocalPhyErrors: 8, OverrunErrors: 8,
			LocalPortNum: 1,
		}
		if x.Fabric.Nodes[p.Node].IsSwitch() && p.Num > 0 {
			x.ports[p].HOQLife, x.ports[p].VLStallCount = 16, 7
		}
	}
	x.sw.LifeTimeValue = 18
	x.read()
	x.Sweeper = x
	x.m = New(&x.Env, Needs{Discovery: x, Identity: x, Tables: x, PKeys: x})
	return x
}

// read is a discovery.
func (x *fixture) read() {
	for p, pi := range x.ports {
		p.Info = *pi
		p.Flags &^= topo.PortFailed
	}
	x.Fabric.Nodes[0].Switch = x.sw
}

// Plausible implements Identity.
func (x *fixture) Plausible(p *topo.Port, info *smp.PortInfo) error {
	if p.Info.MTUCap != info.MTUCap {
		return errors.New("its capabilities have changed")
	}
	return nil
}

// PlausibleSwitch implements Identity.
func (x *fixture) PlausibleSwitch(*topo.Node, *smp.SwitchInfo, *smp.SwitchInfo) error { return nil }

// AskRegion implements Discovery.
func (x *fixture) AskRegion(_ int32, why string) { x.Printf("region sweep asked for: %s\n", why) }

// Top implements Tables.
func (x *fixture) Top() ib.LID { return x.top }

// MulticastTop implements Tables.
func (x *fixture) MulticastTop(int32) ib.LID { return 0 }

// TopSet implements Tables.
func (x *fixture) TopSet(_ *topo.Node, sw *smp.SwitchInfo) {
	x.Printf("the switch has LinearFDBTop %d\n", sw.LinearFDBTop)
}

// NotTaken implements Tables.
func (x *fixture) NotTaken() { x.Printf("the switch has another LinearFDBTop\n") }

// EnforceNow implements PKeys.
func (x *fixture) EnforceNow(p *topo.Port) (in, out bool) { return x.enforce[p], x.enforce[p] }

// SetFailed implements env.Sweeper.
func (x *fixture) SetFailed(node int32, port int, what string, err error) {
	if port >= 0 {
		x.Fabric.PortOf(node, uint8(port)).Flags |= topo.PortFailed
	}
	x.Board.SetFailed(node, port, what, err)
}

// port is that of a host, or one of the switch ("p1").
func (x *fixture) port(t *testing.T, name string) *topo.Port {
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "p")); err == nil {
		return x.Fabric.PortOf(0, uint8(n))
	}
	return x.Host(t, name)
}

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string {
		if i < len(d.CmdArgs) {
			return d.CmdArgs[i].Key
		}
		return ""
	}
	switch d.Cmd {
	case "config":
		set(t, &x.Config, d.CmdArgs)
	case "port":
		set(t, x.ports[x.port(t, arg(0))], d.CmdArgs[1:])
	case "switch":
		set(t, &x.sw, d.CmdArgs)
	case "agent":
		x.how[x.port(t, arg(0))] = arg(1)
	case "enforce":
		x.enforce[x.port(t, arg(0))] = true
	case "first":
		x.FirstSweep = arg(0) == "on"
	case "read":
		x.read()
	case "sets":
		x.Report = notice.SweepReport{}
		x.m.SetOwn()
		x.m.SetSwitch(0, &x.Fabric.Nodes[0])
		x.m.SetPorts()
		x.Run(x.m, x.agent)
	case "arm":
		x.m.Arm(true)
		x.Run(x.m, x.agent)
	case "activate":
		x.m.Activate()
		x.Run(x.m, x.agent)
	case "down":
		x.m.TakeDown()
		x.Run(x.m, x.agent)
	case "top":
		n, err := strconv.Atoi(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		x.top = ib.LID(n)
		x.Add(work.Make(work.OpSetSwitch, 0, 0, 3))
		x.Run(x.m, x.agent)
	case "counts":
		r := &x.Report
		x.Printf("%d Sets of ports, of them %d with a LID; %d armed, %d activated\n", r.PortSets, r.LIDsSet, r.Armed, r.Activated)
	case "failed":
		p := x.port(t, arg(0))
		n, _ := strconv.Atoi(arg(1))
		for range max(n, 1) {
			x.m.LinkFailed(subnet.Ref{Node: p.Node, Port: p.Num}, p.Peer)
		}
	case "kept":
		p := x.port(t, arg(0))
		x.Printf("%v\n", x.m.KeptOut(subnet.Ref{Node: p.Node, Port: p.Num}, arg(1) == "changed"))
	case "pass":
		w, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		x.Pass(w)
		if x.m.NextRelease() <= x.Now {
			x.Printf("switches to be read: %v\n", x.m.Release())
		}
	case "damped":
		for _, l := range x.m.Damped() {
			x.Printf("port %d: %d failures, held down %v, %v of %v left\n", l.Where.Port, l.Failures, l.Held, l.Left, l.Quiet)
		}
		for _, p := range x.m.Problems() {
			x.Printf("problem: %s\n", p.Text)
		}
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
}

// set sets fields of a struct by their names.
func set(t *testing.T, to any, args []datadriven.CmdArg) {
	for _, a := range args {
		f := reflect.ValueOf(to).Elem().FieldByName(a.Key)
		if !f.IsValid() {
			t.Fatalf("there is no field %s", a.Key)
		}
		n, err := strconv.ParseUint(a.Vals[0], 0, 64)
		switch {
		case f.Kind() == reflect.Bool:
			f.SetBool(a.Vals[0] == "true")
		case err != nil:
			t.Fatal(err)
		case f.CanInt():
			f.SetInt(int64(n))
		default:
			f.SetUint(n)
		}
	}
}

// fields lists the fields in which b differs from a. Fields of b in which 0 means no change are
// left out.
func fields(a, b any) string {
	var s []string
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		x, y := v.Field(i), w.Field(i)
		if x.Equal(y) || y.IsZero() && keeps(name) {
			continue
		}
		s = append(s, fmt.Sprintf("%s %v", name, y))
	}
	return strings.Join(s, ", ")
}

// keeps reports whether 0 in a Set of a field means no change.
func keeps(name string) bool {
	switch name {
	case "PortState", "PortPhysicalState", "LinkDownDefaultState", "LinkWidthEnabled", "LinkSpeedEnabled",
		"LinkSpeedExtEnabled", "OperationalVLs":
		return true
	}
	return false
}

// agent plays the agents.
func (x *fixture) agent(s *envtest.SMP) (ib.Status, error) {
	if s.Attr == smp.AttrSwitchInfo {
		var sw smp.SwitchInfo
		if err := sw.Decode(s.Data); err != nil {
			return 0, err
		}
		x.Printf("Set(SwitchInfo): %s\n", fields(x.sw, sw))
		if x.how[s.Port] == "mute" {
			return 0, mad.ErrTimeout
		}
		if x.how[s.Port] != "stuck" {
			psc := x.sw.PortStateChange && !sw.PortStateChange
			x.sw = sw
			x.sw.PortStateChange = psc
		}
		x.sw.Put(s.Data)
		return 0, nil
	}
	pi := x.ports[s.Port]
	if !s.Set {
		x.Printf("Get(PortInfo) of %s: %v\n", x.Name(s.Port), pi.PortState)
		pi.Put(s.Data)
		return 0, nil
	}
	var w smp.PortInfo
	if err := w.Decode(s.Data); err != nil {
		return 0, err
	}
	x.Printf("Set(PortInfo) of %s: %s\n", x.Name(s.Port), fields(*pi, w))
	switch x.how[s.Port] {
	case "mute":
		return 0, mad.ErrTimeout
	case "refuse":
		return ib.StatusInvalidField, nil
	case "stuck":
		pi.Put(s.Data)
		return 0, nil
	case "other":
		w.MTUCap, w.PortState = 1, pi.PortState
		w.Put(s.Data)
		return 0, nil
	}
	old := reflect.ValueOf(pi).Elem()
	now := reflect.ValueOf(w)
	for i := range now.NumField() {
		if f := now.Field(i); !f.IsZero() || !keeps(now.Type().Field(i).Name) {
			old.Field(i).Set(f)
		}
	}
	if x.how[s.Port] == "reset" {
		pi.PortState = ib.StateInit
	}
	pi.Put(s.Data)
	return 0, nil
}
