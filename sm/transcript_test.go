package sm_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/fabrictest"
	"heddle/lab"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/sim"
	"heddle/sm/job"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/store"
	"heddle/subnet"
)

// TestTranscripts runs the scenarios of testdata, one a file: managers on a
// simulated fabric in virtual time. Commands:
//
//	fabric [KIND PARAM…] [fdbcap=N]     a new fabric, from a generator or from lines
//	                                    "switch ID PORTS", "ca ID PORTS", "A:PORT B:PORT"
//	start NODE [ARG…]                   start a manager there, or again with what its store holds:
//	                                    priority=N key=N lmc=N mkey=HEX protect=N engine=NAME unsafe plan
//	run D [debug]                       let virtual time pass; debug shows notices of every level
//	up NODE                             until that manager's subnet is up, a minute at most, then judge
//	                                    what the switches hold
//	exec                                console commands of the simulator, one a line
//	quirk NODE mute|garbage|guid=HEX|heal   make a node misbehave
//	kill NODE, stop NODE                end a manager without a word, or in order
//	sweep NODE [audit]                  ask for a full sweep
//	traps NODE NUMBER times=N every=D [port=P]   send traps of its own making from a host, which nothing
//	                                    limits; what the manager answers is counted
//	store NODE fail=N                   let the next N writes of its store fail
//	trace on|off                        show the SMPs that managers send
//	smps NODE                           SMPs sent since last asked, by method and attribute
//	show [tables]                       managers, end ports and link states as they are; LFTs
//	plan NODE                           what a plan-only manager would do
//	problems NODE                       what its snapshot says is left out
//
// What managers tell is printed with its time as it happens; "!" marks
// warnings, "!!" errors.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		b := &board{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.out.Reset()
			b.t = t
			b.do(d)
			b.flush(notice.Info)
			if b.out.Len() == 0 {
				return "nothing\n"
			}
			return b.out.String()
		})
	})
}

// board is the fabric of a transcript and its managers.
type board struct {
	t     *testing.T
	c     *lab.Cluster
	names []string // nodes with managers, in order of starting
	ms    map[string]*actor
	out   strings.Builder
	trace bool
}

type actor struct {
	*lab.Manager
	told  int // notices printed
	count map[string]int
}

func (b *board) do(d *datadriven.TestData) {
	arg := func(i int) string {
		if i >= len(d.CmdArgs) {
			b.t.Fatalf("%s: %s: an argument is missing", d.Pos, d.Cmd)
		}
		return d.CmdArgs[i].Key
	}
	must := func(err error) {
		if err != nil {
			b.t.Fatalf("%s: %v", d.Pos, err)
		}
	}
	switch d.Cmd {
	case "fabric":
		b.fabric(d)
	case "start":
		b.start(arg(0), d)
	case "run":
		dur, err := time.ParseDuration(arg(0))
		must(err)
		b.run(dur, level(d))
	case "up":
		m := b.m(arg(0))
		b.until(time.Minute, m.Up)
		if err := b.c.Check(m.Manager); err != nil {
			fmt.Fprintln(&b.out, err)
		}
	case "exec":
		for l := range strings.SplitSeq(d.Input, "\n") {
			text, err := b.c.Sim.Exec(l)
			b.out.WriteString(text)
			must(err)
		}
	case "quirk":
		must(b.c.Sim.SetQuirks(arg(0), quirk(b.t, d)))
	case "kill":
		b.m(arg(0)).Kill()
	case "stop":
		b.m(arg(0)).Stop()
	case "sweep":
		b.m(arg(0)).Sweep(d.HasArg("audit"))
	case "traps":
		b.traps(arg(0), d)
	case "store":
		d.ScanArgs(b.t, "fail", &b.m(arg(0)).Store.FailNext)
	case "trace":
		b.trace = arg(0) == "on"
	case "smps":
		b.smps(b.m(arg(0)))
	case "show":
		b.show(d.HasArg("tables"))
	case "plan":
		b.plan(b.m(arg(0)).Plan)
	case "problems":
		for _, p := range b.m(arg(0)).Snap.Problems {
			fmt.Fprintf(&b.out, "%s: %s: %s\n", p.Kind, p.Node, p.Text)
		}
	default:
		b.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}

func level(d *datadriven.TestData) notice.Level {
	if d.HasArg("debug") {
		return notice.Debug
	}
	return notice.Info
}

func (b *board) m(node string) *actor {
	m := b.ms[node]
	if m == nil {
		b.t.Fatalf("no manager on %s", node)
	}
	return m
}

func (b *board) fabric(d *datadriven.TestData) {
	var f *fabric.Fabric
	var err error
	c := sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}
	var params []string
	for _, a := range d.CmdArgs {
		if a.Key == "fdbcap" {
			d.ScanArgs(b.t, "fdbcap", &c.LinearFDBCap)
		} else {
			params = append(params, a.Key)
		}
	}
	if len(params) > 0 {
		f, err = fabrictest.Generate(params[0], params[1:], 1)
	} else {
		f, err = draw(d.Input)
	}
	if err != nil {
		b.t.Fatalf("%s: %v", d.Pos, err)
	}
	*b = board{t: b.t, ms: map[string]*actor{}}
	if b.c, err = lab.NewCluster(f, c); err != nil {
		b.t.Fatalf("%s: %v", d.Pos, err)
	}
}

// draw makes a fabric from the lines of a transcript.
func draw(text string) (*fabric.Fabric, error) {
	var fb fabric.Builder
	ids := map[string]int{}
	for l := range strings.SplitSeq(text, "\n") {
		w := strings.Fields(l)
		switch {
		case len(w) == 3 && (w[0] == "switch" || w[0] == "ca"):
			n, err := strconv.Atoi(w[2])
			if err != nil {
				return nil, err
			}
			if w[0] == "ca" {
				ids[w[1]] = fb.AddCA(w[1], n)
			} else {
				ids[w[1]] = fb.AddSwitch(w[1], n)
			}
		case len(w) == 2:
			var ends [2]int
			var ports [2]int
			for i := range w {
				id, num, _ := strings.Cut(w[i], ":")
				n, known := ids[id]
				p, err := strconv.Atoi(num)
				if !known || err != nil {
					return nil, fmt.Errorf("no port %q", w[i])
				}
				ends[i], ports[i] = n, p
			}
			fb.Connect(ends[0], ports[0], ends[1], ports[1])
		case len(w) > 0:
			return nil, fmt.Errorf("what is %q?", l)
		}
	}
	return fb.Build()
}

func (b *board) start(node string, d *datadriven.TestData) {
	cfg := lab.DefaultConfig()
	var engine, mkey string
	d.MaybeScanArgs(b.t, "priority", &cfg.Priority)
	d.MaybeScanArgs(b.t, "key", &cfg.SMKey)
	d.MaybeScanArgs(b.t, "lmc", &cfg.LMC)
	d.MaybeScanArgs(b.t, "protect", &cfg.MKeyProtect)
	d.MaybeScanArgs(b.t, "mkey", &mkey)
	d.MaybeScanArgs(b.t, "engine", &engine)
	k, _ := strconv.ParseUint(mkey, 16, 64)
	cfg.MKey = ib.MKey(k)
	cfg.PlanOnly, cfg.AllowUnsafe = d.HasArg("plan"), d.HasArg("unsafe")
	switch engine {
	case "minhop":
		cfg.Explicit, cfg.Engines = true, []route.Engine{minhop.Engine{}}
	case "updn":
		cfg.Explicit, cfg.Engines = true, []route.Engine{updn.Engine{}}
	}
	var st *store.Memory
	if old := b.ms[node]; old != nil {
		st = old.Store.Reopen()
	} else {
		b.names = append(b.names, node)
	}
	m, err := b.c.Attach(node, cfg, st)
	if err != nil {
		b.t.Fatalf("%s: %v", d.Pos, err)
	}
	a := &actor{Manager: m, count: map[string]int{}}
	b.ms[node] = a
	m.OnSend = func(p *mad.Packet) {
		s := packet(p)
		what, _, _ := strings.Cut(s, " ")
		a.count[what]++
		if b.trace {
			b.flush(notice.Info)
			fmt.Fprintf(&b.out, "%v %s: %s\n", time.Duration(b.c.Sim.Now()), node, s)
		}
	}
	if err := m.Start(); err != nil {
		b.t.Fatalf("%s: %v", d.Pos, err)
	}
}

// packet prints an SMP: method, attribute, modifier and where it goes.
func packet(p *mad.Packet) string {
	m := ib.MAD(p.Data)
	s := fmt.Sprintf("%v(%s)", m.Method(), ib.AttrName(m.Class(), m.AttrID()))
	if m.Class() == ib.ClassSubnDR {
		s += " path " + topo.PathString(smp.Path(&m))
	} else {
		s += " LID " + p.Addr.LID.String()
	}
	if m.AttrMod() != 0 {
		s += fmt.Sprintf(" mod %#x", m.AttrMod())
	}
	if m.Method() != ib.MethodSet {
		return s
	}
	switch m.AttrID() {
	case smp.AttrPortInfo:
		var pi smp.PortInfo
		_ = pi.Decode(smp.Data(&m))
		if pi.PortState != 0 {
			return s + " to " + pi.PortState.String()
		}
		return s + fmt.Sprintf(" LID %v SM LID %v", pi.LID, pi.MasterSMLID)
	case smp.AttrSwitchInfo:
		var si smp.SwitchInfo
		_ = si.Decode(smp.Data(&m))
		return s + fmt.Sprintf(" top %v clear %v", si.LinearFDBTop, si.PortStateChange)
	case smp.AttrSMInfo:
		var si smp.SMInfo
		_ = si.Decode(smp.Data(&m))
		return s + fmt.Sprintf(" from %v %v", si.GUID, si.SMState)
	}
	return s
}

func quirk(t *testing.T, d *datadriven.TestData) *sim.Quirks {
	a := d.CmdArgs[1]
	switch a.Key {
	case "mute":
		return &sim.Quirks{Mute: true}
	case "garbage":
		return &sim.Quirks{Garbage: true}
	case "guid":
		g, err := strconv.ParseUint(a.Vals[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return &sim.Quirks{NodeGUID: ib.GUID(g)}
	case "heal":
		return nil
	}
	t.Fatalf("unknown quirk %s", a.Key)
	return nil
}

// run lets time pass and prints notices as they come.
func (b *board) run(d time.Duration, lv notice.Level) {
	end := b.c.Sim.Now().Add(d)
	for t := b.c.Sim.NextEvent(); t <= end; t = b.c.Sim.NextEvent() {
		b.c.Sim.RunUntil(t)
		b.flush(lv)
	}
	b.c.Sim.RunUntil(end)
}

func (b *board) until(limit time.Duration, cond func() bool) {
	end := b.c.Sim.Now().Add(limit)
	for !cond() {
		t := b.c.Sim.NextEvent()
		if t > end {
			fmt.Fprintf(&b.out, "not up after %v\n", limit)
			return
		}
		b.c.Sim.RunUntil(t)
		b.flush(notice.Info)
	}
}

// flush prints the notices that were not printed yet.
func (b *board) flush(lv notice.Level) {
	for _, name := range b.names {
		m := b.ms[name]
		for ; m.told < len(m.Notices); m.told++ {
			n := &m.Notices[m.told]
			if n.Level < lv {
				continue
			}
			mark := map[notice.Level]string{notice.Warn: "! ", notice.Error: "!! "}[n.Level]
			fmt.Fprintf(&b.out, "%v %s: %s%s\n", time.Duration(b.c.Sim.Now()), name, mark, n)
		}
	}
}

// traps sends traps faster than an agent may.
func (b *board) traps(node string, d *datadriven.TestData) {
	n, err := strconv.Atoi(d.CmdArgs[1].Key)
	var times int
	var gap string
	var port uint8
	d.ScanArgs(b.t, "times", &times)
	d.ScanArgs(b.t, "every", &gap)
	d.MaybeScanArgs(b.t, "port", &port)
	every, err2 := time.ParseDuration(gap)
	ep, err3 := b.c.Sim.Attach(node)
	if err := errors.Join(err, err2, err3); err != nil {
		b.t.Fatalf("%s: %v", d.Pos, err)
	}
	defer ep.Close()
	repressed := 0
	ep.Accepts = func(p *mad.Packet) bool { return ib.Method(p.Data[3]) == ib.MethodTrapRepress }
	ep.OnPacket = func(*mad.Packet) { repressed++ }
	for i := range times {
		m := trapMAD(uint16(n), ep.LID(), port)
		m.SetTID(uint64(0x100 + i))
		ep.Send(&mad.Packet{Addr: mad.Addr{LID: ep.PortInfo().MasterSMLID}, Data: m[:]})
		b.run(every, notice.Info)
	}
	fmt.Fprintf(&b.out, "%d of %d traps repressed\n", repressed, times)
}

// trapMAD is a trap about the port with this LID.
func trapMAD(number uint16, lid ib.LID, port uint8) (m ib.MAD) {
	n := smp.Notice{IsGeneric: true, Type: smp.NoticeUrgent, Producer: uint32(smp.ProducerSwitch), TrapNumber: number, IssuerLID: lid}
	switch number {
	case smp.TrapPortStateChange:
		d := smp.DetailLID{LID: lid}
		d.Put(&n.DataDetails)
	case smp.TrapLocalChange:
		d := smp.DetailChange{LID: lid}
		d.Put(&n.DataDetails)
	default:
		d := smp.DetailPort{LID: lid, PortNum: port}
		d.Put(&n.DataDetails)
	}
	smp.NewLID(&m, ib.MethodTrap, smp.AttrNotice, 0, 0)
	n.Put(smp.Data(&m))
	return m
}

func (b *board) smps(m *actor) {
	var keys []string
	for k := range m.count {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&b.out, "%d %s\n", m.count[k], k)
	}
	clear(m.count)
}

// show prints what is, not what managers believe.
func (b *board) show(tables bool) {
	f, s := b.c.Fabric, b.c.Sim
	for _, name := range b.names {
		m := b.ms[name]
		switch {
		case m.Dead:
			fmt.Fprintf(&b.out, "manager %s: dead\n", name)
		default:
			st := m.Status()
			fmt.Fprintf(&b.out, "manager %s: %v, up %v, its LID %v, master %v\n", name, st.State, st.Up, st.LID, st.Master.GUID)
		}
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		fmt.Fprintf(&b.out, "%s", n.ID)
		for p := 0; p <= n.NumPorts; p++ {
			pi := s.PortInfo(i, p)
			if n.IsSwitch() == (p == 0) && (p == 0 || n.Ports[p].Cabled()) {
				fmt.Fprintf(&b.out, " LID %v", pi.LID)
				if pi.LMC > 0 {
					fmt.Fprintf(&b.out, " LMC %d", pi.LMC)
				}
				fmt.Fprintf(&b.out, " SM %v", pi.MasterSMLID)
			}
			if p > 0 && n.Ports[p].Cabled() {
				fmt.Fprintf(&b.out, " [%d]%v", p, pi.PortState)
			}
		}
		if n.IsSwitch() && tables {
			si, _ := s.SwitchInfo(i)
			fmt.Fprintf(&b.out, " top %v:", si.LinearFDBTop)
			for l, port := range s.LFT(i, nil) {
				if port != route.Drop && l <= int(si.LinearFDBTop) {
					fmt.Fprintf(&b.out, " %d→%d", l, port)
				}
			}
		}
		b.out.WriteByte('\n')
	}
}

func (b *board) plan(p *job.Plan) {
	if p == nil {
		b.out.WriteString("no plan\n")
		return
	}
	fmt.Fprintf(&b.out, "engine %s, %s, clean %v\n", p.Engine, p.Transition, p.Clean)
	if p.Refused != "" {
		fmt.Fprintf(&b.out, "refused: %s\n", p.Refused)
	}
	if p.Master != (subnet.SM{}) {
		fmt.Fprintf(&b.out, "master %v priority %d\n", p.Master.GUID, p.Master.Priority)
	}
	for _, l := range p.LIDs {
		fmt.Fprintf(&b.out, "%v: LID %v to %v (%s)\n", l.GUID, l.Old, l.New, l.Why)
	}
	for _, s := range p.Blocks {
		fmt.Fprintf(&b.out, "%v: %d blocks\n", s.Where, s.Blocks)
	}
	for _, s := range p.Sets {
		fmt.Fprintf(&b.out, "%d %s\n", s.N, s.What)
	}
	fmt.Fprintf(&b.out, "%d SMPs in all\n", p.Total)
}
