package placement

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route/move"
	"heddle/sm/env/envtest"
	"heddle/sm/guid"
	"heddle/sm/lid"
	"heddle/sm/pkey"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/store"
	"heddle/subnet"
)

// TestTranscripts plays four hosts, h1 to h4, with LIDs 1 to 4; h1 is the manager's own. Virtual
// ports and GUID tables are those of sm/vport and sm/guid. The test plays the agents, the
// hypervisors, the router and the store. Commands:
//
//	host HOST KIND N       it has N functions: vswitch, vports (which want LIDs of their own),
//	                       vports-shared (which share that of the port), or shared (a GUID table)
//	up HOST/FN [GUID]      the hypervisor brings a function up; a VPort has the GUID of its VM
//	down HOST/FN           it takes it down
//	agent HOST/FN HOW      the agent: answer, mute, or refuse (a Set); HOST/0 is the port itself
//	router HOW             moves of LIDs work, or fail
//	store HOW              stores work, or fail
//	limit N                the smallest forwarding table holds LIDs below N, 49 to begin with
//	set [all]              placements, one a line: GUID HOST/FN KIND [LID]; all: there are no others
//	drop GUID…             placements end
//	pass D                 virtual time passes
//	reset HOST             a host with a shared port starts again with an empty GUID table
//	leave, return HOST     the host leaves the subnet, or is discovered again
//	master                 another mastership begins
//	abort                  the mastership ends
//	until STEP             everything runs until the batch is at that step
//	until STATE GUID       … until the placement is in that state
//	show                   how far each placement is, and what functions hold
//
// With wait, set and drop let nothing run. After each other command but host, agent, router, store and show everything runs until it waits for
// something. The output lists what agents are told to change, moves of LIDs, and reports.
// The transcripts together reach every change of state, every step, and every cause.
func TestTranscripts(t *testing.T) {
	seen := map[[2]State]bool{}
	steps := map[[2]Step]bool{}
	var causes [subnet.NumCauses]bool
	onBecome = func(from, to State) { seen[[2]State{from, to}] = true }
	onStep = func(from, to Step) { steps[[2]Step{from, to}] = true }
	defer func() { onBecome, onStep = nil, nil }()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		b := newStage()
		b.causes = &causes
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.do(t, d)
			return b.Record()
		})
	})
	for from := range NumStates {
		for _, to := range transitions[from] {
			if !seen[[2]State{from, to}] {
				t.Errorf("no transcript has a placement that is %v become %v", from, to)
			}
		}
	}
	for c := range subnet.NumCauses {
		if !causes[c] {
			t.Errorf("no transcript has a report with the cause %v", c)
		}
	}
	for from := range NumSteps {
		for _, to := range stepTransitions[from] {
			if !steps[[2]Step{from, to}] {
				t.Errorf("no transcript has a batch that is %v become %v", from, to)
			}
		}
	}
}

// TestIllegalTransitions: a change that is not in the tables panics; all others do not.
func TestIllegalTransitions(t *testing.T) {
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return false
	}
	for from := range NumStates {
		for to := range NumStates {
			legal := from == to || slices.Contains(transitions[from], to)
			if panics(func() { (&placement{state: from}).become(to) }) == legal {
				t.Errorf("%v to %v: legal %v", from, to, legal)
			}
		}
	}
	for from := range NumSteps {
		for to := range NumSteps {
			legal := from == to || slices.Contains(stepTransitions[from], to)
			if panics(func() { from.next(to) }) == legal {
				t.Errorf("%v to %v: legal %v", from, to, legal)
			}
		}
	}
}

// stage is the machine, the parts beside it, and the world.
type stage struct {
	*envtest.Board
	m     *Machine
	v     *vport.Manager
	g     *guid.Tables
	lids  *lid.Table
	hosts map[*topo.Port]*host
	how   map[string]string // of agents, by place
	owner map[ib.LID]ib.GUID

	causes                 *[subnet.NumCauses]bool // that were reported
	noRoute, noStore, anew bool
	moving                 []move.Request
	setting                []*topo.Port
	saving                 uint64
}

// host is a hypervisor and its adapter.
type host struct {
	name    string
	kind    string
	enabled bool
	changed bool
	fns     []function // by index; 0 is not used
	table   []ib.GUID  // of a shared port
}

// function is a virtual function as its agent shows it.
type function struct {
	up   bool // the hypervisor wants it so
	own  ib.GUID
	info smp.VPortInfo
}

func newStage() *stage {
	b := &stage{Board: envtest.New(4), hosts: map[*topo.Port]*host{}, how: map[string]string{}, owner: map[ib.LID]ib.GUID{}, lids: lid.New()}
	b.Output = b
	b.lids.SetLimit(49)
	for _, pi := range b.Fabric.EndPort {
		p := &b.Fabric.Ports[pi]
		b.lids.Assign(p.GUID, lid.One(p.LID))
		b.owner[p.LID] = p.GUID
		b.hosts[p] = &host{name: b.Name(p)}
	}
	b.m = New(&b.Env, b.lids)
	b.g = guid.New(&b.Env, b, b, b.m)
	b.v = vport.New(&b.Env, vport.Needs{Placements: b.m, PKeys: keys{}, Groups: b, Aliases: b.g, Discovery: b})
	b.m.Connect(Needs{Functions: b.v, Tables: b.g, Router: b, Snapshots: b})
	return b
}

type keys struct{}

func (keys) Ready(vport.Ref) bool               { return true }
func (keys) Touch(ib.GUID)                      {}
func (keys) Shown(*pkey.Table) []ib.PKey        { return nil }
func (b *stage) Touch(ib.GUID)                  {}
func (b *stage) Names(ib.GUID) bool             { return false }
func (b *stage) MemberMoved(ib.GUID)            {}
func (b *stage) AdapterMet()                    {}
func (b *stage) Owner(l ib.LID) ib.GUID         { return b.owner[l] }
func (b *stage) WhyNot() string                 { return "the test says so" }
func (b *stage) RouteGroups()                   {}
func (b *stage) SweepAsked() bool               { return b.anew }
func (b *stage) ShowNow()                       {}
func (b *stage) PublishPorts()                  {}
func (b *stage) PortsChanged() bool             { return false }
func (b *stage) Store(_ []store.Op, gen uint64) { b.saving = gen }

func (b *stage) RoutedAt(l ib.LID, port ib.GUID) bool { return b.owner[l] == port && port != 0 }

func (b *stage) RouteAnew(why string) {
	b.Printf("route everything: %s\n", why)
	b.anew = true
}

func (b *stage) Move(list []move.Request, _ []ib.GUID) { b.moving = list }

func (b *stage) SetPortLID(p *topo.Port, begun bool) bool {
	if p.Info.LID == p.LID {
		return begun
	}
	b.setting = append(b.setting, p)
	return true
}

func (b *stage) Report(list []subnet.PlacementReport) {
	for _, r := range list {
		b.Printf("report: %s at %s is %v", short(r.GUID), b.place(r.Place), r.State)
		if r.LID != 0 {
			b.Printf(", LID %d", r.LID)
		}
		b.causes[r.Cause] = true
		if r.Cause != subnet.CauseNone {
			b.Printf(": %v: %s", r.Cause, r.Reason)
		}
		b.Printf("\n")
	}
}

func short(g ib.GUID) string { return "0x" + strconv.FormatUint(uint64(g), 16) }

func (b *stage) place(p subnet.Place) string {
	if p == (subnet.Place{}) {
		return p.String()
	}
	return fmt.Sprintf("%s/%d", b.NameOf(p.Port), p.Function)
}

// parse is the place that a word names.
func (b *stage) parse(t *testing.T, s string) subnet.Place {
	if s == "nowhere" {
		return subnet.Place{}
	}
	name, index, _ := strings.Cut(s, "/")
	return subnet.Place{Port: b.Host(t, name).GUID, Function: uint16(number(t, index))}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// run lets everything go on until it waits.
func (b *stage) run() {
	for range 1000 {
		if !b.turn() {
			return
		}
	}
	b.Printf("it never ends\n")
}

// turn does the next thing that there is to do; false: there is none now.
func (b *stage) turn() bool {
	switch {
	case b.saving != 0:
		gen, err := b.saving, error(nil)
		if b.saving = 0; b.noStore {
			err = errors.New("no space left")
		} else {
			b.Unsaved = nil
		}
		b.m.Saved(gen, err)
	case b.moving != nil:
		b.carryOut(b.moving)
		b.moving = nil
	case b.setting != nil:
		b.setPorts()
	case b.anew:
		b.anew = false
		b.m.EachLID(func(l ib.LID, port ib.GUID) { b.owner[l] = port })
		for _, p := range b.lids.Functions() {
			b.owner[b.lids.OfFunction(p)] = p.Port
		}
	case b.m.Advance() || b.saving != 0:
	case b.v.Due():
		b.v.Upkeep(1)
		b.Run(b.v, b.answer)
	case b.g.Due():
		b.g.Upkeep(1)
		b.Run(b.g, b.answer)
		b.g.UpkeepDone()
	case b.m.Next() > b.Now && b.m.Next().Sub(b.Now) < 100*time.Millisecond:
		b.Now = b.m.Next()
	default:
		return false
	}
	return true
}

func (b *stage) carryOut(list []move.Request) {
	for _, q := range list {
		switch q.Kind {
		case move.Release:
			b.Printf("LID %d: entries removed", q.LID)
		case move.Swap:
			b.Printf("LID %d and LID %d exchange entries", q.LID, q.With)
		default:
			b.Printf("LID %d gets the entries of LID %d", q.LID, q.With)
		}
		if b.noRoute {
			b.Printf(", which fails\n")
			continue
		}
		b.Printf("\n")
		switch q.Kind {
		case move.Release:
			delete(b.owner, q.LID)
		case move.Swap:
			b.owner[q.LID], b.owner[q.With] = b.owner[q.With], b.owner[q.LID]
		default:
			b.owner[q.LID] = b.owner[q.With]
		}
	}
}

func (b *stage) setPorts() {
	failed := false
	for _, p := range b.setting {
		b.Printf("%s: port LID %d", b.Name(p), p.LID)
		if b.how[b.Name(p)+"/0"] == "" {
			b.Printf("\n")
			p.Info.LID = p.LID
			continue
		}
		b.Printf(", not answered\n")
		failed = true
	}
	b.setting = nil
	b.m.PortsSet(failed)
}

func (b *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	switch d.Cmd {
	case "host":
		b.hosts[b.Host(t, arg(0))].make(b, b.Host(t, arg(0)), arg(1), int(number(t, arg(2))))
		b.v.Discovered(true)
		b.g.Discovered(true)
		return
	case "up", "down":
		at := b.parse(t, arg(0))
		h := b.hosts[b.EndPort(at.Port)]
		f := &h.fns[at.Function]
		h.changed = true
		if f.up = d.Cmd == "up"; !f.up {
			f.info.VPortState = ib.StateDown
		} else {
			f.info.VPortState = ib.StateInit
			if len(d.CmdArgs) > 1 {
				f.info.PortGUID = ib.GUID(number(t, arg(1)))
			}
		}
		b.v.Look(b.v.Adapter(at.Port).Ref(0))
	case "agent":
		if b.how[arg(0)] = arg(1); arg(1) == "answer" {
			delete(b.how, arg(0))
		}
		return
	case "router":
		b.noRoute = arg(0) == "fails"
		return
	case "limit":
		b.lids.SetLimit(int(number(t, arg(0))))
		return
	case "store":
		b.noStore = arg(0) == "fails"
		return
	case "set":
		c := Change{All: d.HasArg("all")}
		for l := range strings.Lines(d.Input) {
			w := strings.Fields(l)
			p := subnet.Placement{GUID: ib.GUID(number(t, w[0])), Place: b.parse(t, w[1])}
			p.LIDKind = map[string]subnet.LIDKind{"shared": subnet.SharedLID, "own": subnet.OwnLID, "floating": subnet.FloatingLID}[w[2]]
			for _, x := range w[3:] {
				if a, ok := strings.CutPrefix(x, "alias="); ok {
					p.Aliases = append(p.Aliases, ib.GUID(number(t, a)))
				} else {
					p.LID = ib.LID(number(t, x))
				}
			}
			c.Put = append(c.Put, p)
		}
		b.m.Set(c)
	case "drop":
		var c Change
		for i := range d.CmdArgs {
			if arg(i) != "wait" {
				c.Drop = append(c.Drop, ib.GUID(number(t, arg(i))))
			}
		}
		b.m.Set(c)
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		b.Pass(dur)
	case "leave", "return":
		if p := b.Host(t, arg(0)); d.Cmd == "leave" {
			b.Leave(p)
		} else {
			b.Return(p)
		}
		b.v.Discovered(true)
		b.g.Discovered(true)
	case "abort":
		b.m.Abort()
	case "master":
		b.Todo.Clear()
		b.Pending = 0
		b.g.Reset()
		b.v.Reset()
		b.m.Abort()
		b.m.Reset()
		b.lids.NewMastership()
		b.v.Discovered(true)
		b.g.Discovered(true)
	case "until":
		for range 1000 {
			if b.m.step.String() == arg(0) || len(d.CmdArgs) > 1 && b.m.byGUID[ib.GUID(number(t, arg(1)))].state.String() == strings.ReplaceAll(arg(0), "-", " ") || !b.turn() {
				return
			}
		}
	case "reset":
		p := b.Host(t, arg(0))
		h := b.hosts[p]
		clear(h.table[min(1, len(h.table)):])
		b.Fabric.Nodes[p.Node].Flags |= topo.NodeNew
		b.v.Discovered(true)
		b.g.Discovered(true)
		b.Fabric.Nodes[p.Node].Flags &^= topo.NodeNew
	case "show":
		b.show()
		return
	default:
		d.Fatalf(t, "no such command")
	}
	if !d.HasArg("wait") {
		b.run()
	}
}

func (b *stage) show() {
	for _, l := range b.m.list {
		if l.state == Ended {
			continue
		}
		b.Printf("%s: %v", short(l.GUID), l.state)
		if l.held != (subnet.Place{}) {
			b.Printf(", held by %s", b.place(l.held))
		}
		if own := b.lids.OfPlacement(l.GUID); own != 0 {
			b.Printf(", LID %d", own)
			if g := b.owner[own]; g != 0 {
				b.Printf(" leads to %s", b.NameOf(g))
			}
		}
		b.Printf("\n")
	}
	for _, pi := range b.Fabric.EndPort {
		p := &b.Fabric.Ports[pi]
		h := b.hosts[p]
		for i := 1; i < len(h.fns); i++ {
			f := &h.fns[i].info
			b.Printf("%s/%d: %v, GUID %s", h.name, i, f.VPortState, short(f.PortGUID))
			if f.VPortLID != 0 {
				b.Printf(", LID %d", f.VPortLID)
			}
			b.Printf("\n")
		}
		if h.kind == "shared" {
			b.Printf("%s: LID %d, aliases", h.name, p.Info.LID)
			for i, g := range h.table {
				if i > 0 && g != 0 {
					b.Printf(" %d:%s", i, short(g))
				}
			}
			b.Printf("\n")
		}
	}
}

// make gives a host an adapter.
func (h *host) make(b *stage, p *topo.Port, kind string, n int) {
	h.kind = kind
	if kind == "shared" {
		p.Info.GUIDCap = uint8(n + 1)
		h.table = make([]ib.GUID, 16)
		h.table[0] = p.GUID
		return
	}
	p.Info.CapabilityMask |= ib.CapIsCapabilityMask2Supported
	p.Info.CapabilityMask2 |= ib.Cap2IsVirtualizationSupported
	h.fns = make([]function, n+1)
	for i := 1; i <= n; i++ {
		f := &h.fns[i]
		f.own = p.GUID<<8 | ib.GUID(i)
		f.info = smp.VPortInfo{VPortState: ib.StateDown, LIDRequired: kind != "vports-shared", GUIDCap: 4, PortGUID: f.own}
		if kind != "vswitch" {
			f.info.PortGUID = 0
		}
	}
}

// answer is the agent of a host.
func (b *stage) answer(s *envtest.SMP) (ib.Status, error) {
	h := b.hosts[s.Port]
	index := int(uint16(s.Mod))
	if s.Attr == smp.AttrVPortGUIDInfo {
		i, _ := smp.SplitVPortTableMod(s.Mod)
		index = int(i)
	}
	at := fmt.Sprintf("%s/%d", h.name, index)
	switch how := b.how[at]; {
	case s.Attr == smp.AttrVirtualizationInfo && b.how[h.name+"/0"] == "refuse":
		return ib.StatusInvalidField, nil
	case s.Attr == smp.AttrVirtualizationInfo || s.Attr == smp.AttrVPortState || s.Attr == smp.AttrGUIDInfo:
	case how == "mute":
		return 0, mad.ErrTimeout
	case how == "refuse" && s.Set:
		return ib.StatusInvalidField, nil
	}
	switch s.Attr {
	case smp.AttrVirtualizationInfo:
		i := smp.VirtualizationInfo{VPortCap: uint16(len(h.fns) - 1), VPortIndexTop: uint16(len(h.fns) - 1), VirtualizationRevision: smp.VirtualizationRevision}
		if h.kind == "vswitch" {
			i.CapabilityMask = smp.VirtCapIsVSwitch
		}
		if s.Set {
			h.enabled, h.changed = true, false
		}
		i.VirtualizationEnable, i.VPortStateChange = h.enabled, h.changed
		i.Put(s.Data)
	case smp.AttrVPortState:
		var states smp.VPortState
		for i := range states {
			if states[i] = ib.StateDown; i > 0 && i < len(h.fns) {
				states[i] = h.fns[i].info.VPortState
			}
		}
		states.Put(s.Data)
	case smp.AttrVPortInfo:
		b.vportInfo(s, h, &h.fns[index], at)
	case smp.AttrVNodeInfo:
		n := smp.VNodeInfo{PartitionCap: 16}
		n.Put(s.Data)
	case smp.AttrVPortGUIDInfo:
		if s.Set && b.how[at+"t"] == "refuse" {
			return ib.StatusInvalidField, nil
		}
	case smp.AttrGUIDInfo:
		if b.how[h.name+"/0"] == "refuse" && s.Set {
			return ib.StatusInvalidField, nil
		}
		b.guidInfo(s, h)
	}
	return 0, nil
}

// vportInfo answers about a function.
func (b *stage) vportInfo(s *envtest.SMP, h *host, f *function, at string) {
	if s.Set {
		var want smp.VPortInfo
		_ = want.Decode(s.Data)
		was := f.info
		if h.kind == "vswitch" {
			if f.info.PortGUID = want.PortGUID; want.PortGUID == 0 {
				f.info.PortGUID = f.own
			}
		}
		if f.info.LIDRequired {
			f.info.VPortLID = want.VPortLID
		}
		if want.VPortState != 0 {
			f.info.VPortState = want.VPortState
			if want.VPortState == ib.StateDown && f.up {
				f.info.VPortState = ib.StateInit
			}
		}
		b.Printf("%s:", at)
		if was.PortGUID != f.info.PortGUID {
			b.Printf(" GUID %s", short(f.info.PortGUID))
		}
		if was.VPortLID != f.info.VPortLID {
			b.Printf(" LID %d", f.info.VPortLID)
		}
		if was.VPortState != f.info.VPortState {
			b.Printf(" %v", f.info.VPortState)
		}
		b.Printf("\n")
	}
	f.info.Put(s.Data)
}

// guidInfo answers about the GUID table of a shared port.
func (b *stage) guidInfo(s *envtest.SMP, h *host) {
	var block smp.GUIDInfo
	part := h.table[s.Mod*smp.GUIDBlockLen:]
	if s.Set {
		_ = block.Decode(s.Data)
		for i, g := range block {
			if part[i] != g {
				b.Printf("%s: alias %d is %s\n", h.name, int(s.Mod)*smp.GUIDBlockLen+i, short(g))
			}
		}
		copy(part, block[:])
	}
	copy(block[:], part)
	block.Put(s.Data)
}
