package trap

import (
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env/envtest"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts drives the traps of a subnet of a switch with LID 9 and two hosts, h1 and h2, at
// its ports 1 and 2, which have LIDs 1 and 2. h1 is the manager's own. Commands:
//
//	trap NUMBER [from=LID] [issuer=LID] [port=N] [about=description|capabilities|other|sm] [vendor=N]
//	     [times=N]         traps arrive. issuer: the LID in the notice, if it is not from. Of
//	                       several, what the last one does is shown
//	phase NAME             what the manager is doing
//	state NAME             the state of the mastership
//	down                   the subnet is not up yet
//	join                   the region sweep under way can take in what is suspected
//	answer                 what was asked is answered with something new
//	port NAME              what was asked is answered, of a port with a difference: issm, nothing,
//	                       cm, extended-speeds, violations, mtu; or not at all: silence
//	manager lower|rival    what was asked is answered by a manager that we rank above, or not
//	pass D                 virtual time passes; what is due is done
//	sweep                  the sweep that was asked for begins and ends
//	defer D                the last sweep wants another one later
//	hasten D               a peek found a link down: the next sweep is wanted by then
//	next                   when the next sweep is due
//	counts                 how many traps there were
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := newFixture()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.do(t, d)
			x.requests()
			return x.Record()
		})
	})
}

type fixture struct {
	*envtest.Board
	r     *Receiver
	join  bool
	asked []work.Item
	rival bool // the manager that was read is to be master in our place
}

func newFixture() *fixture {
	x := &fixture{Board: envtest.New(2)}
	f := x.Fabric
	f.Nodes[0].Desc = "switch"
	f.PortOf(0, 0).LID = 9
	f.EndPort = append(f.EndPort, f.Nodes[0].First)
	f.Graph = &fabric.Graph{LIDOwner: []int32{-1, 0, 1, -1, -1, -1, -1, -1, -1, 2}}
	s := &subnet.Snapshot{Self: f.Self}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		n.Flags |= topo.NodeDesc
		s.Nodes = append(s.Nodes, subnet.Node{Info: n.Info, Desc: n.Desc, First: int32(len(s.Ports)), OK: true})
		ports := f.NodePorts(int32(i))
		for k := range ports {
			q := subnet.Port{
				GUID: n.Info.PortGUID, Node: int32(i), Num: uint8(k), LID: ports[k].LID, Peer: ports[k].Peer, EndPort: -1,
			}
			if q.LID != 0 {
				q.EndPort = 0
			}
			s.Ports = append(s.Ports, &q)
		}
	}
	s.Finish()
	x.Snapshot, x.SnapshotFabric, x.Output = s, f, x
	x.Phase, x.Config.SubnetTimeOut = notice.PhaseIdle, 15 // agents hold traps back for 134 ms
	x.Engine = mad.NewEngine(mad.Config{Window: 4, MaxWindow: 4, Timeout: time.Second, Retries: 3})
	x.r = New(&x.Env, Needs{x, x, x, x, x, x})
	return x
}

// Send implements env.Output: TrapRepress.
func (x *fixture) Send(p *mad.Packet) {
	x.Printf("%v to LID %d\n", (*ib.MAD)(p.Data).Method(), p.Addr.LID)
}

// SuspectLID implements Sweeps.
func (x *fixture) SuspectLID(lid ib.LID, whole bool) ib.GUID {
	if lid == 9 && whole {
		x.Printf("the next sweep reads the switch\n")
		return envtest.SwitchGUID
	}
	x.Printf("the next sweep reads LID %d\n", lid)
	return 0
}

// ReadAll implements Sweeps.
func (x *fixture) ReadAll() { x.Printf("the next sweep reads everything\n") }

// Join implements Sweeps.
func (x *fixture) Join() bool {
	if x.join {
		x.Printf("the sweep under way takes it in\n")
	}
	return x.join
}

// Peek implements Sweeps.
func (x *fixture) Peek(g ib.GUID) {
	if g != 0 {
		x.Printf("the switch is asked for news\n")
	}
}

// Sign implements Sweeps.
func (x *fixture) Sign() {}

// Plan implements Sweeps.
func (x *fixture) Plan(why string) { x.Printf("sweep planned: %s\n", why) }

// Begin implements Sweeps.
func (x *fixture) Begin() { x.Printf("the sweep begins\n") }

// Soon implements LightSweeps.
func (x *fixture) Soon() { x.Printf("light sweep soon\n") }

// Within implements LightSweeps.
func (x *fixture) Within(d time.Duration) { x.Printf("light sweep within %v\n", d) }

// By implements LightSweeps.
func (x *fixture) By(at mad.Time) { x.Printf("light sweep in %v at most\n", at.Sub(x.Now)) }

// Trapped implements VPorts.
func (x *fixture) Trapped(trap uint16, from ib.LID) {
	x.Printf("VPorts of LID %d changed (%d)\n", from, trap)
}

// Deliver implements Subscribers.
func (x *fixture) Deliver(n smp.Notice, from mad.Addr) {
	x.Printf("subscribers: trap %s from LID %d\n", number(&n), from.LID)
}

// Publish implements Publisher.
func (x *fixture) Publish() { x.Printf("publish\n") }

// PublishPort implements Publisher.
func (x *fixture) PublishPort(n int32, port uint8) {
	x.Printf("publish %s port %d: %v\n", x.Fabric.Nodes[n].Desc, port, x.Fabric.PortOf(n, port).Info.CapabilityMask)
}

// PublishState implements Publisher.
func (x *fixture) PublishState() { x.Printf("publish the managers\n") }

// Read implements Managers.
func (x *fixture) Read(it work.Item, _ *mad.Completion, _ bool) {
	x.Printf("manager of %s is known\n", x.Fabric.Nodes[it.Node()].Desc)
}

// Gone implements Managers.
func (x *fixture) Gone(at subnet.Ref) {
	x.Printf("manager of %s is gone\n", x.Fabric.Nodes[at.Node].Desc)
}

// Leads implements Managers.
func (x *fixture) Leads() bool { return !x.rival }

func (x *fixture) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	duration := func() time.Duration {
		w, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	switch d.Cmd {
	case "trap":
		x.trap(t, d)
	case "phase":
		x.Phase = map[string]notice.Phase{
			"idle": notice.PhaseIdle, "discover": notice.PhaseDiscover, "distribute": notice.PhaseDistribute,
		}[arg(0)]
	case "state":
		x.State = map[string]subnet.SMState{"master": subnet.Master, "standby": subnet.Standby}[arg(0)]
	case "down":
		x.Up = false
	case "up":
		x.Up = true
		x.r.BroughtUp()
		x.requests()
	case "join":
		x.join = true
	case "answer":
		for _, it := range x.asked {
			x.answer(it)
		}
		x.asked = x.asked[:0]
	case "port", "manager":
		x.rival = arg(0) == "rival"
		list := x.asked
		x.asked = nil
		for _, it := range list {
			x.readPort(it, arg(0))
		}
	case "pass":
		for end := x.Now.Add(duration()); ; {
			x.Now = max(x.Now, min(end, x.r.Next(), x.r.NextLook()))
			x.r.Due()
			if x.r.NextLook() <= x.Now {
				x.r.Look()
				x.requests()
			}
			if x.Now >= end {
				break
			}
		}
	case "swap": // the LIDs of the two hosts
		f := x.Fabric
		h1, h2 := &f.Ports[f.EndPort[0]], &f.Ports[f.EndPort[1]]
		h1.LID, h2.LID, h1.Info.LID, h2.Info.LID = h2.LID, h1.LID, h2.Info.LID, h1.Info.LID
		owner := f.Graph.LIDOwner
		owner[1], owner[2] = owner[2], owner[1]
	case "sweep":
		x.r.LeaveToSweep()
		x.r.SweepBegins()
	case "defer":
		x.r.SweepAt(x.Now.Add(duration()))
	case "hasten":
		x.Printf("%v\n", x.r.Hasten(x.Now.Add(duration())))
	case "next":
		if x.r.Next() == mad.Never {
			x.Printf("no sweep is due\n")
			break
		}
		x.Printf("sweep in %v\n", x.r.Next().Sub(x.Now))
	case "counts":
		all, untrue := x.r.Counts()
		x.Printf("%d traps, %d of them false\n", all, untrue)
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
}

// trap lets traps arrive.
func (x *fixture) trap(t *testing.T, d *datadriven.TestData) {
	num := func(key string, or int) int {
		for _, a := range d.CmdArgs {
			if a.Key == key {
				n, err := strconv.Atoi(a.Vals[0])
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		return or
	}
	number, err := strconv.Atoi(d.CmdArgs[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	from := ib.LID(num("from", 9))
	issuer := ib.LID(num("issuer", int(from)))
	n := smp.Notice{IsGeneric: true, TrapNumber: uint16(number), IssuerLID: issuer}
	switch n.TrapNumber {
	case smp.TrapPortStateChange:
		smp.DetailLID{LID: issuer}.Put(&n.DataDetails)
	case smp.TrapLocalPhyErrors:
		smp.DetailPort{LID: issuer, PortNum: uint8(num("port", 0))}.Put(&n.DataDetails)
	case smp.TrapSystemImageGUID:
		smp.DetailImage{LID: issuer, SystemImageGUID: 0x77}.Put(&n.DataDetails)
	case smp.TrapLocalChange:
		c := smp.DetailChange{LID: issuer, OtherLocalChanges: true}
		for _, a := range d.CmdArgs[1:] {
			switch {
			case a.Key != "about":
			case a.Vals[0] == "description":
				c.ChangeFlags = smp.ChangeNodeDescription
			case a.Vals[0] == "sm":
				c.CapabilityMask = ib.CapIsSM
			case a.Vals[0] == "capabilities":
				c.OtherLocalChanges = false
			}
		}
		c.Put(&n.DataDetails)
	}
	if v := num("vendor", 0); v != 0 {
		n.IsGeneric, n.Producer = false, uint32(v)
	}
	var m ib.MAD
	smp.NewLID(&m, ib.MethodTrap, smp.AttrNotice, 0, 0)
	n.Put(smp.Data(&m))
	for i := range num("times", 1) {
		if i > 0 {
			x.Record()
			x.Printf("after %d others:\n", i)
		}
		x.r.Receive(&mad.Packet{Addr: mad.Addr{LID: from}, Data: m[:]}, &m)
	}
}

// requests writes down what was asked.
func (x *fixture) requests() {
	x.Engine.Pending(func(token uint64, _ bool) {
		it := work.Item(token)
		what := map[work.Op]string{
			work.OpPeek: "PortStateChange", work.OpDescNow: "NodeDescription", work.OpImageNow: "NodeInfo",
			work.OpCapsNow: "PortInfo", work.OpSMNow: "SMInfo",
		}[it.Op()]
		x.Printf("%s of %s is read\n", what, x.Fabric.Nodes[it.Node()].Desc)
		x.asked = append(x.asked, it)
	})
	x.Engine.CancelAll()
}

// readPort answers a request for a port or a manager.
func (x *fixture) readPort(it work.Item, what string) {
	var m ib.MAD
	pi := x.Fabric.PortOf(it.Node(), it.Port()).Info
	comp := mad.Completion{Token: uint64(it), MAD: &m}
	switch what {
	case "silence":
		comp.Err = mad.ErrTimeout
	case "issm":
		pi.CapabilityMask |= ib.CapIsSM
	case "nothing":
		pi.CapabilityMask = 0
	case "cm":
		pi.CapabilityMask |= ib.CapIsCommunicationManagementSupported
	case "extended-speeds":
		pi.CapabilityMask |= ib.CapIsExtendedSpeedsSupported
	case "violations":
		pi.PKeyViolations++
	case "mtu":
		pi.NeighborMTU++
	}
	pi.Put(smp.Data(&m))
	x.r.Answered(it, &comp)
}

// answer answers a request with something new.
func (x *fixture) answer(it work.Item) {
	var m ib.MAD
	n := &x.Fabric.Nodes[it.Node()]
	switch it.Op() {
	case work.OpDescNow:
		copy(smp.Data(&m), "new "+n.Desc)
	case work.OpImageNow:
		ni := n.Info
		ni.SystemImageGUID = 0x77
		ni.Put(smp.Data(&m))
	default:
		return
	}
	x.r.Answered(it, &mad.Completion{Token: uint64(it), MAD: &m})
	x.Printf("%q has SystemImageGUID %v\n", n.Desc, n.Info.SystemImageGUID)
}
