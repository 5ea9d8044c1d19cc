package vport

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env/envtest"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/subnet"
)

// TestTranscripts plays three hosts, h1 to h3, each with three VPorts. Commands:
//
//	adapter HOST [vswitch] [on] [refuse]   the host's adapter; on: virtualization is on already;
//	                                       refuse: it answers no request about VPorts
//	vport HOST/N [down|init|armed|active] [guid=G] [lid=N] [ownlid] [trap]
//	                    what the host does with a VPort; trap: it tells the manager
//	want HOST/N [lid=N] [guid=G] [up] [alias=G]    what the VPort is to hold; what is not named is
//	                    told by nobody: VPorts with a GUID may come up, functions of vSwitches hold nothing
//	keys HOST/N wait|ready   whether the P_Keys of the VPort are right
//	agent HOST HOW      how the host's agent behaves: answer, mute (no answer), stubborn (a
//	                    Set changes nothing)
//	discover            a discovery found the hosts
//	upkeep              what the manager does until it has nothing more to do now
//	light               a light sweep asks the adapters
//	leave HOST          the host leaves the subnet
//	pass D              virtual time passes
//	master              another mastership begins
//	show                what is known of VPorts, and how many are in which state
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		b := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.do(t, d)
			return b.Record()
		})
	})
}

// stage is a manager, the other parts and the adapters.
type stage struct {
	*envtest.Board
	m     *Manager
	dev   map[*topo.Port]*device
	want  map[subnet.Place]Want
	waits map[subnet.Place]bool // for P_Keys
}

// device is the adapter of a host.
type device struct {
	info   smp.VirtualizationInfo
	how    string
	vports [4]struct {
		info  smp.VPortInfo
		guids smp.VPortGUIDInfo
	}
}

func newStage() *stage {
	b := &stage{
		Board: envtest.New(3), dev: map[*topo.Port]*device{}, want: map[subnet.Place]Want{}, waits: map[subnet.Place]bool{},
	}
	b.m = New(&b.Env, Needs{b, b, b, b, b})
	return b
}

func (b *stage) Wanted(r Ref) Want {
	if w, ok := b.want[r.Place()]; ok {
		return w
	}
	if r.Adapter.Model() == subnet.VSwitch {
		return Want{}
	}
	i := r.VPort().Info()
	return Want{LID: i.VPortLID, Up: i.PortGUID != 0 && !i.LIDRequired, Aliases: r.VPort().Aliases()}
}

func (b *stage) Changed(Ref)             {}
func (b *stage) AdapterChanged(*Adapter) {}
func (b *stage) Refused(r Ref, err error) {
	b.Printf("the placement at %s is refused: %v\n", b.name(r), err)
}

func (b *stage) Entry(*subnet.Snapshot, Ref, int32) (subnet.Port, bool) { return subnet.Port{}, false }
func (b *stage) ShownElsewhere(ib.GUID, subnet.Place) bool              { return false }
func (b *stage) LIDOwner(ib.LID) ib.GUID                                { return 0 }
func (b *stage) Touch(ib.GUID)                                          {}
func (b *stage) Shown(*pkey.Table) []ib.PKey                            { return nil }
func (b *stage) MemberMoved(ib.GUID)                                    {}
func (b *stage) Holder(ib.GUID) ib.GUID                                 { return 0 }
func (b *stage) AdapterMet()                                            {}

func (b *stage) Ready(r Ref) bool {
	if b.waits[r.Place()] {
		b.Printf("%s waits for its P_Keys\n", b.name(r))
		return false
	}
	return true
}

func (b *stage) name(r Ref) string {
	return b.NameOf(r.Adapter.PortGUID()) + "/" + strconv.Itoa(int(r.Index))
}

func number(t *testing.T, s string) uint64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func short(g ib.GUID) string { return "0x" + strconv.FormatUint(uint64(g), 16) }

func (b *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	value := func(name string) uint64 {
		s := ""
		d.MaybeScanArgs(t, name, &s)
		return number(t, s)
	}
	place := func() (*topo.Port, uint16, subnet.Place) {
		host, n, _ := strings.Cut(arg(0), "/")
		p, i := b.Host(t, host), uint16(number(t, n))
		return p, i, subnet.Place{Port: p.GUID, Function: i}
	}
	switch d.Cmd {
	case "adapter":
		b.adapter(b.Host(t, arg(0)), d)
	case "vport":
		p, i, _ := place()
		b.vport(p, i, d, value)
	case "want":
		_, _, at := place()
		w := Want{LID: ib.LID(value("lid")), GUID: ib.GUID(value("guid")), Up: d.HasArg("up")}
		if g := value("alias"); g != 0 {
			w.Aliases = []ib.GUID{ib.GUID(g)}
		}
		b.want[at] = w
		b.m.Look(b.m.Adapter(at.Port).Ref(at.Function))
	case "keys":
		p, i, at := place()
		b.waits[at] = arg(1) == "wait"
		if !b.waits[at] {
			b.m.Look(b.m.Adapter(p.GUID).Ref(i))
		}
	case "agent":
		b.dev[b.Host(t, arg(0))].how = arg(1)
	case "discover":
		b.m.Discovered(true)
	case "upkeep":
		b.upkeep()
	case "light":
		b.m.LightSweep()
		b.Run(b.m, b.answer)
	case "leave":
		b.Leave(b.Host(t, arg(0)))
		b.m.Discovered(true)
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		b.Pass(dur)
	case "master":
		b.m.Reset()
		b.m.Discovered(true)
	case "show":
		b.show()
	default:
		d.Fatalf(t, "no such command")
	}
}

func (b *stage) adapter(p *topo.Port, d *datadriven.TestData) {
	x := &device{}
	x.info.VPortCap, x.info.VPortIndexTop, x.info.VirtualizationRevision = 3, 3, smp.VirtualizationRevision
	x.info.VirtualizationEnable = d.HasArg("on")
	if d.HasArg("vswitch") {
		x.info.CapabilityMask = smp.VirtCapIsVSwitch
	}
	if d.HasArg("refuse") {
		x.how = "refuse"
	}
	for i := range x.vports {
		v := &x.vports[i]
		v.info.VPortState, v.info.GUIDCap, v.info.LIDRequired = ib.StateDown, 8, d.HasArg("vswitch")
		if d.HasArg("vswitch") {
			v.info.PortGUID = made(p, uint16(i))
		}
	}
	b.dev[p] = x
	p.Info.CapabilityMask |= ib.CapIsCapabilityMask2Supported
	p.Info.CapabilityMask2 |= ib.Cap2IsVirtualizationSupported
}

var states = map[string]ib.PortState{
	"down": ib.StateDown, "init": ib.StateInit, "armed": ib.StateArmed, "active": ib.StateActive,
}

func (b *stage) vport(p *topo.Port, i uint16, d *datadriven.TestData, value func(string) uint64) {
	x := b.dev[p]
	v := &x.vports[i].info
	for name, st := range states {
		if d.HasArg(name) {
			v.VPortState = st
			x.info.VPortStateChange = true
		}
	}
	v.LIDRequired = v.LIDRequired || d.HasArg("ownlid")
	if d.HasArg("guid") {
		v.PortGUID = ib.GUID(value("guid"))
	}
	if d.HasArg("lid") {
		v.VPortLID = ib.LID(value("lid"))
	}
	if d.HasArg("trap") { // as Trapped does for the LID of the port
		b.m.lookAdapter(b.m.Adapter(p.GUID))
	}
}

// upkeep has the manager work until it waits for something, and a snapshot published when one is
// waited for.
func (b *stage) upkeep() {
	for b.m.Due() || b.m.ToShow() {
		b.m.Upkeep(1)
		b.Run(b.m, b.answer)
		if b.m.ToShow() {
			b.m.allShown()
			b.Printf("a snapshot is published\n")
		}
	}
	if b.m.ShowLater(); b.m.Next() != mad.Never {
		b.Printf("more in %v\n", b.m.Next().Sub(b.Now))
	}
}

func (b *stage) show() {
	for _, a := range b.m.All() {
		b.Printf("%s: %v, known: %v\n", b.NameOf(a.PortGUID()), a.Model(), a.Known())
		for _, v := range a.VPorts() {
			if v == nil {
				continue
			}
			b.Printf("  %d: %v", v.Index(), v.State())
			if v.InfoKnown() {
				b.Printf(", GUID %s, LID %d", short(v.Info().PortGUID), v.Info().VPortLID)
			}
			for _, g := range v.Aliases() {
				b.Printf(", alias %s", short(g))
			}
			b.Printf("\n")
		}
	}
	b.Printf("%+v\n", b.m.Status())
}

// answer is the agent of a host.
func (b *stage) answer(s *envtest.SMP) (ib.Status, error) {
	x := b.dev[s.Port]
	what := map[bool]string{false: "Get", true: "Set"}[s.Set]
	index := uint16(s.Mod)
	if s.Attr == smp.AttrVPortGUIDInfo {
		index, _ = smp.SplitVPortTableMod(s.Mod)
	}
	at := fmt.Sprintf("%s/%d", b.Name(s.Port), index)
	apply := s.Set && x.how != "stubborn"
	switch s.Attr {
	case smp.AttrVirtualizationInfo:
		b.virtualization(s, x, what)
	case smp.AttrVPortState:
		b.Printf("%s(VPortState) %s\n", what, b.Name(s.Port))
		var st smp.VPortState
		for i := range x.vports {
			st[i] = x.vports[i].info.VPortState
		}
		st.Put(s.Data)
	case smp.AttrVPortInfo:
		v := &x.vports[index].info
		b.Printf("%s(VPortInfo) %s", what, at)
		if s.Set {
			b.setVPort(s, x, v, apply)
		}
		b.Printf("\n")
		v.Put(s.Data)
	case smp.AttrVNodeInfo:
		b.Printf("%s(VNodeInfo) %s\n", what, at)
		(&smp.VNodeInfo{PartitionCap: 32, NumPorts: 1, LocalPortNum: 1}).Put(s.Data)
	case smp.AttrVNodeDescription:
		b.Printf("%s(VNodeDescription) %s\n", what, at)
		clear(s.Data)
	case smp.AttrVPortGUIDInfo:
		g := &x.vports[index].guids
		b.Printf("%s(VPortGUIDInfo) %s", what, at)
		if s.Set {
			var n smp.VPortGUIDInfo
			_ = n.Decode(s.Data)
			b.Printf(":")
			for _, y := range n[1:] {
				if y != 0 {
					b.Printf(" %s", short(y))
				}
			}
			if apply {
				*g = n
			}
		}
		b.Printf("\n")
		g.Put(s.Data)
	}
	switch x.how {
	case "mute":
		return 0, mad.ErrTimeout
	case "refuse":
		return ib.StatusBadMethodAttr, nil
	}
	return 0, nil
}

func (b *stage) virtualization(s *envtest.SMP, x *device, what string) {
	b.Printf("%s(VirtualizationInfo) %s", what, b.Name(s.Port))
	if s.Set {
		var i smp.VirtualizationInfo
		_ = i.Decode(s.Data)
		b.Printf(": on %v", i.VirtualizationEnable)
		if i.VPortStateChange {
			b.Printf(", clear VPortStateChange")
			x.info.VPortStateChange = false
		}
		if i.VClientReregister {
			b.Printf(", VClientReregister")
		}
		x.info.VirtualizationEnable = i.VirtualizationEnable
	}
	b.Printf("\n")
	x.info.Put(s.Data)
}

// setVPort carries a Set(VPortInfo) out.
func (b *stage) setVPort(s *envtest.SMP, x *device, v *smp.VPortInfo, apply bool) {
	var n smp.VPortInfo
	_ = n.Decode(s.Data)
	var what []string
	if n.VPortState != ib.StateNoChange {
		what = append(what, n.VPortState.String())
	}
	if n.LIDRequired && n.VPortLID != v.VPortLID {
		what = append(what, fmt.Sprintf("LID %d", n.VPortLID))
	}
	if n.PortGUID != v.PortGUID {
		what = append(what, "GUID "+short(n.PortGUID))
	}
	if n.ClientReregister {
		what = append(what, "ClientReregister")
	}
	b.Printf(": %s", strings.Join(what, ", "))
	if b.dev[s.Port].how == "mute" || !apply {
		return
	}
	if n.VPortState != ib.StateNoChange {
		v.VPortState = n.VPortState
	}
	if v.LIDRequired {
		v.VPortLID = n.VPortLID
	}
	if x.info.CapabilityMask&smp.VirtCapIsVSwitch != 0 {
		if v.PortGUID = n.PortGUID; v.PortGUID == 0 {
			v.PortGUID = made(s.Port, uint16(s.Mod))
		}
	}
}

// made is the GUID that a function of a vSwitch was made with.
func made(p *topo.Port, index uint16) ib.GUID { return p.GUID<<8 + ib.GUID(index) }
