package mastership

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/env/envtest"
	"heddle/sm/topo"
	"heddle/sm/work"
	"heddle/subnet"
)

// TestTranscripts plays a manager on host h1 with priority 5, and other managers on hosts h2 to h4.
// Commands:
//
//	config [priority=N] [key=N] [plan]  our configuration; SM_Keys are 1 unless given
//	config [granted] [lacks] [partner=HOST]  the mastership was granted, the store may lack something;
//	                                    a manager that does not count
//	sm HOST PRIORITY STATE [key=N]      a manager on a host, as its SMInfo shows it; without
//	                                    PRIORITY and STATE: there is none
//	mute, answer HOST                   whether the manager on a host answers requests
//	refuse HOST                         it answers a Set with an error
//	start, nolink                       the manager starts; its port has no link
//	ally HOST                           the manager on a host shares our store
//	sweep                               a discovery reads the SMInfo of the others and decides
//	takeover                            we are to be master before a discovery; the others that the last
//	                                    master knew are asked first
//	light                               a light sweep asks the managers found whether they are there
//	pass D                              virtual time passes; the manager polls when it is due
//	get HOST [mkey=N]                   a Get(SMInfo) arrives from a host
//	set HOST SIGNAL [mkey=N]            a Set(SMInfo) arrives from a host: handover, acknowledge,
//	                                    disable, standby or discover
//	protect LEVEL MKEY                  the M_Key of our own port
//	show                                the state, the other manager that is master, and all that a discovery found
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		b := newStage()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.do(t, d)
			return b.Record()
		})
	})
}

// stage is the machine, the rest of the manager and the other managers.
type stage struct {
	*envtest.Board
	s      *Machine
	others map[*topo.Port]*other
}

// other is a manager on a host.
type other struct {
	info         smp.SMInfo
	mute, refuse bool
}

func newStage() *stage {
	b := &stage{Board: envtest.New(4), others: map[*topo.Port]*other{}}
	b.Config.PortGUID, b.Config.Priority, b.Config.SMKey = 0xa1, 5, 1
	b.Config.PollInterval, b.Config.PollRetries = 10*time.Second, 2
	b.Engine = mad.NewEngine(mad.Config{Timeout: time.Second, Retries: 1})
	b.Output, b.Debug, b.Up = b, true, false
	b.s = New(&b.Env, b)
	return b
}

// The rest of the manager.

func (b *stage) Begin() { b.Printf("a mastership begins: no table counts as installed\n") }

func (b *stage) Other(guid ib.GUID)    { b.Printf("known as master: %v\n", guid) }
func (b *stage) Restart()              { b.Printf("the mastership begins again: no table counts as installed\n") }
func (b *stage) ReadAnew()             { b.Printf("the next sweep treats the subnet as new\n") }
func (b *stage) End()                  { b.Up = false; b.Printf("the mastership ends\n") }
func (b *stage) Abort()                { b.Printf("the sweep is dropped\n") }
func (b *stage) Rediscover(why string) { b.Printf("a sweep begins: %s\n", why) }
func (b *stage) Publish()              { b.Printf("publish a snapshot\n") }
func (b *stage) PublishState()         {}
func (b *stage) Succeed(ib.GUID)       { b.Printf("the next sweep succeeds a master\n") }

// Send implements env.Output. It writes down what our port sends that is no request of the engine.
func (b *stage) Send(p *mad.Packet) {
	m := (*ib.MAD)(p.Data)
	switch {
	case m.Method() == ib.MethodTrap:
		var n smp.Notice
		var c smp.DetailChange
		if err := n.Decode(smp.Data(m)[:smp.NoticeLen]); err != nil {
			panic(err)
		}
		c.Get((*smp.Details)(&n.DataDetails))
		b.Printf("send trap %d to LID %d", n.TrapNumber, p.Addr.LID)
		if c.ChangeFlags&smp.ChangeSMPriority != 0 {
			b.Printf(": our priority")
		}
		b.Printf("\n")
	case m.Method() == ib.MethodGetResp:
		b.Printf("answer: %s", describe(smp.Data(m)))
		if st := m.Status() & 0x7FFF; st != 0 {
			b.Printf(", %v", st)
		}
		b.Printf("\n")
	}
}

// describe is an SMInfo as text.
func describe(data []byte) string {
	var si smp.SMInfo
	if err := si.Decode(data); err != nil {
		return err.Error()
	}
	text := si.SMState.String() + ", priority " + strconv.Itoa(int(si.Priority))
	if si.SMKey != 1 {
		text += ", key " + strconv.FormatUint(si.SMKey, 10)
	}
	return text
}

// run carries out what the machine asks of the engine, until it waits.
func (b *stage) run() {
	for {
		var sent []*mad.Packet
		b.Engine.Poll(b.Now, func(p *mad.Packet) {
			q := *p
			q.Data = append([]byte(nil), p.Data...)
			sent = append(sent, &q)
		})
		if len(sent) == 0 {
			return
		}
		for _, p := range sent {
			b.request(p)
		}
	}
}

// request has a request answered by the agent that it goes to.
func (b *stage) request(p *mad.Packet) {
	m := (*ib.MAD)(p.Data)
	var to *topo.Port
	for _, pi := range b.Fabric.EndPort {
		if q := &b.Fabric.Ports[pi]; smp.HopCount(m) > 0 && string(smp.Path(m)) == string(b.Fabric.AgentPath(q.Node, q.Num)) {
			to = q
		}
	}
	if m.AttrID() == smp.AttrPortInfo { // of our own port
		b.Fabric.AgentPort(b.Fabric.Self.Node, b.Fabric.Self.Port).Info.Put(smp.Data(m))
		b.receive(m, p, 0)
		return
	}
	o := b.others[to]
	what := "ask"
	if m.Method() == ib.MethodSet {
		what = [...]string{smp.SMModHandover: "hand over to", smp.SMModAcknowledge: "acknowledge to"}[m.AttrMod()]
	}
	b.Printf("%s %s", what, b.Name(to))
	if m.Method() == ib.MethodSet {
		b.Printf(" (%s)", describe(smp.Data(m)))
	}
	switch {
	case o == nil || o.mute:
		b.Printf(": no answer\n")
	case o.refuse:
		b.Printf(": refused\n")
		b.receive(m, p, ib.StatusInvalidField)
	default:
		o.info.Put(smp.Data(m))
		b.Printf(": %s\n", describe(smp.Data(m)))
		b.receive(m, p, 0)
	}
}

func (b *stage) receive(m *ib.MAD, p *mad.Packet, st ib.Status) {
	smp.Respond(m, st)
	comp, kind := b.Engine.Receive(b.Now, &mad.Packet{Addr: p.Addr, Data: m[:]})
	if kind == mad.KindCompletion {
		b.completed(comp)
	}
}

func (b *stage) completed(comp mad.Completion) {
	switch it := work.Item(comp.Token); it.Op() {
	case work.OpPoll:
		b.s.Polled(&comp)
	case work.OpHandover:
		b.s.HandoverDone(&comp)
	case work.OpOwnInfo:
		b.s.OwnInfo(it, &comp)
	}
}

// pass lets virtual time pass, with its timers.
func (b *stage) pass(d time.Duration) {
	for end := b.Now.Add(d); ; {
		at := min(end, b.s.Next(), b.Engine.NextTimer())
		b.Now = max(b.Now, at)
		b.Engine.Expire(b.Now, b.completed)
		b.s.Due()
		b.run()
		if at >= end {
			return
		}
	}
}

// ask asks the managers on the hosts for their SMInfo, and has take called with the answers.
func (b *stage) ask(o work.Op, take func(it work.Item, comp *mad.Completion)) {
	for _, pi := range b.Fabric.EndPort {
		p := &b.Fabric.Ports[pi]
		x := b.others[p]
		if x == nil && o == work.OpSMInfo {
			continue
		}
		comp := mad.Completion{Err: mad.ErrTimeout}
		if x != nil && !x.mute {
			var m ib.MAD
			smp.NewDR(&m, ib.MethodGetResp, smp.AttrSMInfo, 0, 0, b.Fabric.AgentPath(p.Node, p.Num))
			x.info.Put(smp.Data(&m))
			comp = mad.Completion{MAD: &m}
		}
		take(work.Make(o, p.Node, p.Num, 0), &comp)
	}
}

var signals = map[string]uint32{
	"handover": smp.SMModHandover, "acknowledge": smp.SMModAcknowledge, "disable": smp.SMModDisable,
	"standby": smp.SMModStandby, "discover": smp.SMModDiscover,
}

var states = map[string]smp.SMState{
	"notactive": smp.SMNotActive, "discovering": smp.SMDiscovering, "standby": smp.SMStandby, "master": smp.SMMaster,
}

func (b *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	option := func(name string, otherwise uint64) uint64 {
		for _, a := range d.CmdArgs {
			if a.Key == name && len(a.Vals) == 1 {
				return number(t, a.Vals[0])
			}
		}
		return otherwise
	}
	switch d.Cmd {
	case "config":
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "priority":
				b.Config.Priority = uint8(number(t, a.Vals[0]))
			case "key":
				b.Config.SMKey = number(t, a.Vals[0])
			case "plan":
				b.Config.PlanOnly = true
			case "granted":
				b.Config.Granted = true
			case "lacks":
				b.Config.MayLack = true
			case "partner":
				b.Config.Partner = b.Host(t, a.Vals[0]).GUID
			}
		}
	case "sm":
		p := b.Host(t, arg(0))
		if len(d.CmdArgs) == 1 {
			delete(b.others, p)
			break
		}
		b.others[p] = &other{info: smp.SMInfo{GUID: p.GUID, Priority: uint8(number(t, arg(1))), SMState: states[arg(2)], SMKey: option("key", 1)}}
	case "mute", "answer":
		b.others[b.Host(t, arg(0))].mute = d.Cmd == "mute"
	case "refuse":
		b.others[b.Host(t, arg(0))].refuse = true
	case "start":
		b.s.Start()
	case "nolink":
		b.s.NoLink()
	case "ally":
		b.s.SetAllies([]Ally{{GUID: b.Host(t, arg(0)).GUID, Lives: true}})
	case "sweep":
		b.s.Forget()
		b.ask(work.OpSMInfo, func(it work.Item, comp *mad.Completion) { b.s.Read(it, comp, false) })
		if b.s.Decide() {
			b.Printf("we configure the subnet\n")
		}
	case "takeover":
		b.s.Forget()
		b.ask(work.OpSMInfo, func(it work.Item, comp *mad.Completion) { b.s.Read(it, comp, false) })
		if !b.s.TakeOver("takeover") {
			b.Printf("another manager forbids it\n")
		}
	case "light":
		b.s.AskAll()
		asked := map[work.Item]bool{}
		for b.Todo.N > 0 {
			asked[b.Todo.Pop()] = true
		}
		b.ask(work.OpLightSM, func(it work.Item, comp *mad.Completion) {
			if asked[it] {
				b.Finish()
				b.s.Seen(it, comp)
			}
		})
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		b.pass(dur)
	case "get", "set":
		p := b.Host(t, arg(0))
		x := b.others[p]
		var m ib.MAD
		smp.NewDR(&m, ib.MethodGet, smp.AttrSMInfo, 0, ib.MKey(option("mkey", 0)), []byte{1, 1})
		q := mad.Packet{Addr: mad.Addr{LID: p.LID}}
		if d.Cmd == "get" {
			q.Data = m[:]
			b.s.Get(&q, &m)
			break
		}
		smp.NewDR(&m, ib.MethodSet, smp.AttrSMInfo, signals[arg(1)], ib.MKey(option("mkey", 0)), []byte{1, 1})
		x.info.Put(smp.Data(&m))
		q.Data = m[:]
		b.s.Set(&q, &m)
	case "protect":
		own := &b.Host(t, "h1").Info
		own.MKeyProtectBits, own.MKey = uint8(number(t, arg(0))), ib.MKey(number(t, arg(1)))
	case "show":
		b.show()
	default:
		d.Fatalf(t, "no such command")
	}
	b.run()
}

func (b *stage) show() {
	b.Printf("%s", strings.ToLower(b.State.String()))
	if b.WaitHandover {
		b.Printf(", waiting for a handover")
	}
	if m := b.s.Master(); m.GUID != 0 {
		b.Printf(", master %s", b.NameOf(m.GUID))
	}
	b.Printf("\n")
	for _, o := range b.s.Others() {
		b.Printf("%s: priority %d, %s\n", b.NameOf(o.Info.GUID), o.Info.Priority, strings.ToLower(subnet.SMState(o.Info.SMState).String()))
	}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
