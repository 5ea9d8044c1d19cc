package sm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/lab"
	"heddle/mad"
	"heddle/sim"
	"heddle/sm/config"
	"heddle/sm/notice"
	"heddle/subnet"
)

// One test for each normative statement about traps (IBA Vol. 1 §13.4.9,
// §14.3) and about managers among themselves (§14.4). The manager under test
// sits on one host of a small subnet; the other manager is a script on another
// one, which answers what the test tells it to and signals when told to.

const (
	lowGUID  ib.GUID = 0x100001 // port of H1
	highGUID ib.GUID = 0x100003 // port of H2
)

// duel is a manager and a scripted one: switch S1 with H1, H2 and H3 on its
// ports 1, 2 and 3.
type duel struct {
	t      *testing.T
	c      *lab.Cluster
	m      *lab.Manager
	ep     *sim.Endpoint
	here   byte         // switch port of the manager
	there  byte         // of the script
	says   smp.SMInfo   // what the script answers
	mute   bool         // it answers nothing
	gets   int          // Get(SMInfo) it received
	sets   []ib.MAD     // Set(SMInfo) it received
	traps  []smp.Notice // traps it received
	answer *ib.MAD      // the last answer to a request of its own
	sent   []ib.MAD     // what the manager sent
	tid    uint64
}

// newDuel makes the subnet; nobody runs yet. The manager is on node (H1 or
// H2), the script on the other, with a rank that loses.
func newDuel(t *testing.T, node string, cfg config.Config) *duel {
	t.Helper()
	f, err := draw("switch S1 4\nca H1 1\nca H2 1\nca H3 1\nH1:1 S1:1\nH2:1 S1:2\nH3:1 S1:3")
	if err != nil {
		t.Fatal(err)
	}
	c, err := lab.NewCluster(f, sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	d := &duel{t: t, c: c, here: 1, there: 2}
	other := "H2"
	if node == "H2" {
		d.here, d.there, other = 2, 1, "H1"
	}
	if d.ep, err = c.Sim.Attach(other); err != nil {
		t.Fatal(err)
	}
	d.says = smp.SMInfo{GUID: d.ep.PortGUID(), SMKey: cfg.SMKey, SMState: smp.SMStandby}
	d.ep.Accepts = func(*mad.Packet) bool { return true }
	d.ep.OnPacket = d.receive
	if d.m, err = c.Attach(node, cfg, nil); err != nil {
		t.Fatal(err)
	}
	d.m.OnSend = func(p *mad.Packet) { d.sent = append(d.sent, ib.MAD(p.Data)) }
	return d
}

func specConfig() config.Config {
	cfg := lab.DefaultConfig()
	cfg.Priority = 5
	return cfg
}

func (d *duel) receive(p *mad.Packet) {
	m := ib.MAD(p.Data)
	switch {
	case m.Method().IsResponse():
		d.answer = &m
	case m.Method() == ib.MethodTrap:
		var n smp.Notice
		_ = n.Decode(smp.Data(&m))
		d.traps = append(d.traps, n)
	case m.AttrID() == smp.AttrSMInfo:
		if m.Method() == ib.MethodSet {
			d.sets = append(d.sets, m)
		} else {
			d.gets++
		}
		if !d.mute {
			r := m
			clear(smp.Data(&r))
			d.says.Put(smp.Data(&r))
			smp.Respond(&r, 0)
			d.ep.Send(&mad.Packet{Addr: p.Addr, Data: r[:]})
		}
	}
}

// appear makes the script's port show IsSM.
func (d *duel) appear() {
	d.t.Helper()
	if err := d.ep.SetIsSM(true); err != nil {
		d.t.Fatal(err)
	}
}

func (d *duel) start() {
	d.t.Helper()
	if err := d.m.Start(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *duel) run(t time.Duration) { d.c.Run(t) }

// up starts the manager and waits until it is master of a subnet that is up.
func (d *duel) up() {
	d.t.Helper()
	d.start()
	if err := d.c.RunUntil(time.Minute, d.m.Up); err != nil {
		d.t.Fatalf("%v\n%s", err, strings.Join(d.m.Events(notice.Debug), "\n"))
	}
	d.sent = nil
}

// standby starts the manager under a script that is master of higher rank.
func (d *duel) standby() {
	d.t.Helper()
	d.says.Priority, d.says.SMState = 9, smp.SMMaster
	d.appear()
	d.start()
	d.run(time.Millisecond)
	d.is(subnet.Standby)
	d.sent, d.gets = nil, 0
}

func (d *duel) is(want subnet.SMState) {
	d.t.Helper()
	if got := d.m.State(); got != want {
		d.t.Fatalf("the manager is %v, want %v\n%s", got, want, strings.Join(d.m.Events(notice.Debug), "\n"))
	}
}

// request sends an SMInfo request of the script to the manager and returns the
// answer, nil if there is none.
func (d *duel) request(method ib.Method, sig uint32, from *smp.SMInfo, mkey ib.MKey) *ib.MAD {
	var m ib.MAD
	smp.NewDR(&m, method, smp.AttrSMInfo, sig, mkey, []byte{1, d.here})
	if from != nil {
		from.Put(smp.Data(&m))
	}
	d.send(&m, mad.Addr{LID: ib.LIDPermissive})
	return d.answer
}

func (d *duel) send(m *ib.MAD, a mad.Addr) {
	d.tid++
	m.SetTID(d.tid)
	d.answer = nil
	d.ep.Send(&mad.Packet{Addr: a, Data: m[:]})
	d.run(20 * time.Microsecond)
}

// signal sends Set(SMInfo) from the script in a state and returns the status
// and the SMInfo of the answer.
func (d *duel) signal(sig uint32, state smp.SMState) (ib.Status, smp.SMInfo) {
	d.t.Helper()
	from := d.says
	from.SMState = state
	m := d.request(ib.MethodSet, sig, &from, 0)
	if m == nil {
		d.t.Fatalf("signal %d is not answered", sig)
	}
	return smp.StatusOf(m), d.smInfo(m)
}

func (d *duel) smInfo(m *ib.MAD) (si smp.SMInfo) {
	d.t.Helper()
	if err := si.Decode(smp.Data(m)); err != nil {
		d.t.Fatal(err)
	}
	return si
}

// count is how many packets like this the manager sent.
func (d *duel) count(method ib.Method, attr ib.AttrID) (n int) {
	for i := range d.sent {
		if d.sent[i].Method() == method && d.sent[i].AttrID() == attr {
			n++
		}
	}
	return n
}

func (d *duel) sweeps() uint64 { return d.m.Status().Sweeps }

// §14.4.1: the higher priority wins; among equals the lower GUID. Two managers
// that are both looking settle it so, whatever else they are.
func TestRankDecides(t *testing.T) {
	for _, c := range []struct {
		node       string
		own, other uint8
		want       subnet.SMState
	}{
		{"H1", 3, 4, subnet.Standby},
		{"H2", 4, 3, subnet.Master},
		{"H1", 0, 0, subnet.Master}, // the lower GUID
		{"H2", 0, 0, subnet.Standby},
		{"H2", 15, 15, subnet.Standby},
		{"H1", 0, 15, subnet.Standby},
	} {
		for _, state := range []smp.SMState{smp.SMDiscovering, smp.SMStandby} {
			t.Run(fmt.Sprintf("%s %d against %d %v", c.node, c.own, c.other, state), func(t *testing.T) {
				cfg := specConfig()
				cfg.Priority = c.own
				d := newDuel(t, c.node, cfg)
				d.says.Priority, d.says.SMState = c.other, state
				d.appear()
				d.start()
				d.run(time.Millisecond)
				d.is(c.want)
			})
		}
	}
}

// §14.4.1: a manager that finds a master stays standby, whatever their ranks.
func TestMasterOfAnyRankMakesStandby(t *testing.T) {
	for _, prio := range []uint8{0, 5, 15} {
		d := newDuel(t, "H1", specConfig())
		d.says.Priority, d.says.SMState = prio, smp.SMMaster
		d.appear()
		d.start()
		d.run(time.Millisecond)
		d.is(subnet.Standby)
		if n := d.count(ib.MethodSet, smp.AttrPortInfo); n != 0 {
			t.Errorf("priority %d: a standby set %d ports", prio, n)
		}
	}
}

// §14.4.1: one that is not active does not count, even with a higher rank.
func TestNotActiveDoesNotCount(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.says.Priority, d.says.SMState = 15, smp.SMNotActive
	d.appear()
	d.start()
	d.run(time.Millisecond)
	d.is(subnet.Master)
}

// §14.2.5.13: Get(SMInfo) tells GUID, priority, state and key; ActCount moves
// while the manager does.
func TestSMInfoAnswer(t *testing.T) {
	cfg := specConfig()
	cfg.SMKey = 0x1234
	d := newDuel(t, "H1", cfg)
	d.up()
	a := d.smInfo(d.request(ib.MethodGet, 0, nil, 0))
	if a.GUID != lowGUID || a.Priority != 5 || a.SMState != smp.SMMaster || a.SMKey != 0x1234 {
		t.Errorf("%+v", a)
	}
	d.run(11 * time.Second) // a light sweep
	if b := d.smInfo(d.request(ib.MethodGet, 0, nil, 0)); b.ActCount <= a.ActCount {
		t.Errorf("ActCount stays at %d", b.ActCount)
	}
}

// §14.4: an SMInfo request is answered in the class in which it came.
func TestAnswerInSameClass(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	var m ib.MAD
	smp.NewLID(&m, ib.MethodGet, smp.AttrSMInfo, 0, 0)
	d.send(&m, mad.Addr{LID: d.m.Status().LID})
	if d.answer == nil || d.answer.Class() != ib.ClassSubnLID || d.smInfo(d.answer).GUID != lowGUID {
		t.Errorf("LID routed: %v", d.answer)
	}
	if r := d.request(ib.MethodGet, 0, nil, 0); r == nil || r.Class() != ib.ClassSubnDR {
		t.Error("directed route")
	}
}

// §14.2.4, §14.2.5.13: with the port's M_Key set, protection 1 hides the
// SM_Key from who does not know the M_Key, 2 and 3 the answer. A Set with the
// wrong M_Key is never answered.
func TestSMKeyGuarded(t *testing.T) {
	const key = 0x1122334455667788
	for prot := range uint8(4) {
		cfg := specConfig()
		cfg.SMKey, cfg.MKey, cfg.MKeyProtect = 77, key, prot
		d := newDuel(t, "H1", cfg)
		d.up()
		if a := d.request(ib.MethodGet, 0, nil, key); a == nil || d.smInfo(a).SMKey != 77 {
			t.Errorf("protection %d, right M_Key: %v", prot, a)
		}
		switch a := d.request(ib.MethodGet, 0, nil, 1); {
		case prot >= 2 && a != nil:
			t.Errorf("protection %d, wrong M_Key: it answers", prot)
		case prot == 1 && (a == nil || d.smInfo(a).SMKey != 0):
			t.Errorf("protection 1, wrong M_Key: %v", a)
		case prot == 0 && (a == nil || d.smInfo(a).SMKey != 77):
			t.Errorf("protection 0, wrong M_Key: %v", a)
		}
		from := d.says
		from.SMState = smp.SMMaster
		if a := d.request(ib.MethodSet, smp.SMModHandover, &from, 1); a != nil {
			t.Errorf("protection %d: a Set with the wrong M_Key is answered", prot)
		}
	}
}

// §14.4.1: a manager with another SM_Key belongs to another subnet and is
// ignored, unless ours is 0, which trusts any.
func TestForeignSMKey(t *testing.T) {
	for _, c := range []struct {
		own, other uint64
		want       subnet.SMState
	}{{1, 1, subnet.Standby}, {1, 2, subnet.Master}, {1, 0, subnet.Master}, {0, 2, subnet.Standby}, {0, 0, subnet.Standby}} {
		cfg := specConfig()
		cfg.SMKey = c.own
		d := newDuel(t, "H1", cfg)
		d.says.SMKey, d.says.Priority, d.says.SMState = c.other, 15, smp.SMMaster
		d.appear()
		d.start()
		d.run(time.Millisecond)
		if d.m.State() != c.want {
			t.Errorf("key %d against %d: %v, want %v", c.own, c.other, d.m.State(), c.want)
		}
	}
}

// §14.4.1: every port that shows IsSM is asked for SMInfo, others are not; an
// answer whose GUID is not the port's is ignored.
func TestIsSMIsAsked(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.start()
	d.run(time.Millisecond)
	if d.gets != 0 {
		t.Error("a port without IsSM was asked")
	}
	d = newDuel(t, "H1", specConfig())
	d.says = smp.SMInfo{GUID: 0xBAD, SMKey: 1, Priority: 15, SMState: smp.SMMaster}
	d.appear()
	d.start()
	d.run(time.Millisecond)
	if d.gets == 0 {
		t.Error("a port with IsSM was not asked")
	}
	d.is(subnet.Master)
}

// §14.4.1: IsSM may be left on by a manager that is gone; nobody waits for it.
func TestIsSMWithoutManager(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.mute = true
	d.appear()
	d.start()
	d.run(10 * time.Second)
	d.is(subnet.Master)
	if !d.m.Up() {
		t.Error("the subnet is not up")
	}
}

// signals are the five AttributeModifiers of Set(SMInfo) (§14.4.1, table of
// control packets) with the state that their sender must have.
var signals = []struct {
	name  string
	sig   uint32
	state smp.SMState
}{
	{"HANDOVER", smp.SMModHandover, smp.SMMaster},
	{"ACKNOWLEDGE", smp.SMModAcknowledge, smp.SMStandby},
	{"DISABLE", smp.SMModDisable, smp.SMMaster},
	{"STANDBY", smp.SMModStandby, smp.SMMaster},
	{"DISCOVER", smp.SMModDiscover, smp.SMMaster},
}

// inState brings a manager into a state.
func inState(t *testing.T, st subnet.SMState) *duel {
	t.Helper()
	d := newDuel(t, "H1", specConfig())
	switch st {
	case subnet.Master:
		d.up()
	case subnet.Discovering: // a silent host keeps it there
		if err := d.c.Sim.MuteSMA("H3", true); err != nil {
			t.Fatal(err)
		}
		d.start()
		d.run(time.Millisecond)
	case subnet.Standby:
		d.standby()
	case subnet.NotActive:
		d.standby()
		d.signal(smp.SMModDisable, smp.SMMaster)
	}
	d.is(st)
	d.sent = nil
	return d
}

var allStates = []subnet.SMState{subnet.NotActive, subnet.Discovering, subnet.Standby, subnet.Master}

// §14.4.1, state machine: what each signal does in each state. Where nothing
// is listed the answer is an error status and the state stays.
func TestStateMachine(t *testing.T) {
	next := map[subnet.SMState]map[string]subnet.SMState{
		subnet.NotActive:   {"STANDBY": subnet.Standby},
		subnet.Discovering: {"HANDOVER": subnet.Discovering},
		subnet.Standby: {
			"HANDOVER": subnet.Master, "ACKNOWLEDGE": subnet.Standby,
			"DISABLE": subnet.NotActive, "DISCOVER": subnet.Discovering,
		},
		subnet.Master: {"HANDOVER": subnet.Master, "ACKNOWLEDGE": subnet.Master},
	}
	for _, st := range allStates {
		for _, s := range signals {
			t.Run(st.String()+" "+s.name, func(t *testing.T) {
				d := inState(t, st)
				d.says.SMState = s.state
				status, before := d.signal(s.sig, s.state)
				want, legal := next[st][s.name]
				if legal != (status == 0) {
					t.Errorf("status %v", status)
				}
				if !legal {
					want = st
				}
				d.is(want)
				// The answer is from before the transition.
				if subnet.SMState(before.SMState) != st || before.GUID != lowGUID {
					t.Errorf("the answer says %+v, not the state before", before)
				}
			})
		}
	}
}

// §14.4.1: a signal from a sender in a state that may not give it is answered
// with an error status.
func TestIllegalSender(t *testing.T) {
	for _, s := range signals {
		for state := smp.SMNotActive; state <= smp.SMMaster; state++ {
			if state == s.state {
				continue
			}
			for _, st := range allStates {
				d := inState(t, st)
				status, _ := d.signal(s.sig, state)
				// A master that hears an ACKNOWLEDGE just goes on.
				if status == 0 && !(st == subnet.Master && s.sig == smp.SMModAcknowledge) {
					t.Errorf("%v takes %s from a sender in %v", st, s.name, state)
				}
				d.is(st)
			}
		}
	}
}

// §14.4.1: a signal that does not exist is refused.
func TestUnknownSignal(t *testing.T) {
	for _, st := range allStates {
		for _, sig := range []uint32{0, 6, 0xFFFFFFFF} {
			d := inState(t, st)
			if status, _ := d.signal(sig, smp.SMMaster); status == 0 {
				t.Errorf("%v takes signal %#x", st, sig)
			}
			d.is(st)
		}
	}
}

// §14.4.1: a signal with another SM_Key is refused.
func TestSignalWithForeignKey(t *testing.T) {
	d := inState(t, subnet.Standby)
	d.says.SMKey = 99
	if status, _ := d.signal(smp.SMModHandover, smp.SMMaster); status == 0 {
		t.Error("a handover with another SM_Key was taken")
	}
	d.is(subnet.Standby)
}

// §14.4.1: NotActive is silent but answers Get(SMInfo); STANDBY wakes it, and it
// polls whoever did so.
func TestNotActive(t *testing.T) {
	d := inState(t, subnet.NotActive)
	d.run(2 * time.Minute)
	d.is(subnet.NotActive)
	if len(d.sent) != 0 || d.gets != 0 {
		t.Errorf("a manager that is not active sent %d packets", len(d.sent))
	}
	if a := d.request(ib.MethodGet, 0, nil, 0); a == nil || d.smInfo(a).SMState != smp.SMNotActive {
		t.Errorf("Get(SMInfo): %v", a)
	}
	d.signal(smp.SMModStandby, smp.SMMaster)
	d.run(25 * time.Second)
	d.is(subnet.Standby)
	if d.gets != 2 {
		t.Errorf("%d polls in 25 s", d.gets)
	}
}

// §14.4.1: a standby polls every 10 s; each answer clears the count of misses;
// when more than four in a row are missing it looks for itself.
func TestPolling(t *testing.T) {
	d := inState(t, subnet.Standby)
	d.run(45 * time.Second)
	if d.gets != 4 {
		t.Fatalf("%d polls in 45 s", d.gets)
	}
	d.mute = true
	d.run(40 * time.Second) // four misses
	d.mute = false
	d.run(10 * time.Second) // one answer
	d.mute = true
	d.run(40 * time.Second) // four misses
	d.is(subnet.Standby)
	if err := d.ep.SetIsSM(false); err != nil {
		t.Fatal(err)
	}
	d.run(15 * time.Second)
	d.is(subnet.Master)
}

// §14.4.1: what counts as an answer: a master of any rank, or a standby or
// starting one that ranks above us. One that says it is neither is no master
// to wait for.
func TestPollAnswers(t *testing.T) {
	for _, c := range []struct {
		prio  uint8
		state smp.SMState
		alive bool
	}{
		{9, smp.SMMaster, true},
		{0, smp.SMMaster, true},
		{9, smp.SMStandby, true},
		{0, smp.SMStandby, false},
		{9, smp.SMNotActive, false},
	} {
		d := inState(t, subnet.Standby)
		d.says.Priority, d.says.SMState = c.prio, c.state
		d.run(10*time.Second + 500*time.Microsecond)
		if alive := d.m.State() == subnet.Standby; alive != c.alive {
			t.Errorf("%v of priority %d: the standby is %v", c.state, c.prio, d.m.State())
		}
	}
}

// §14.4.1 as deployed managers do: a standby of higher rank tells the master
// with trap 144, OtherLocalChanges and the SM-priority flag, so that it sweeps
// and hands over.
func TestStandbyTellsLowerMaster(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up() // gives the ports their LIDs
	d.m.Kill()
	d.says.Priority, d.says.SMState = 1, smp.SMMaster
	d.appear()
	cfg := specConfig()
	m, err := d.c.Attach("H1", cfg, d.m.Store.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	// The script is master: the ports point at it.
	if _, err := d.c.Sim.Exec("baselid H1 1"); err != nil {
		t.Fatal(err)
	}
	d.m = m
	d.m.OnSend = func(p *mad.Packet) { d.sent = append(d.sent, ib.MAD(p.Data)) }
	d.start()
	d.run(11 * time.Second)
	d.is(subnet.Standby)
	told := false
	for i := range d.sent {
		if d.sent[i].Method() != ib.MethodTrap {
			continue
		}
		var n smp.Notice
		var det smp.DetailChange
		_ = n.Decode(smp.Data(&d.sent[i]))
		det.Get(&n.DataDetails)
		if n.TrapNumber == smp.TrapLocalChange && det.OtherLocalChanges && det.ChangeFlags&smp.ChangeSMPriority != 0 {
			told = true
		}
	}
	if !told {
		t.Error("the master was not told")
	}
}

// §14.4.1: a master that finds a higher-ranking manager at the end of a
// discovery hands over: Set(SMInfo) HANDOVER that still says Master, and is
// standby at once.
func TestHandover(t *testing.T) {
	for _, state := range []smp.SMState{smp.SMStandby, smp.SMDiscovering, smp.SMMaster} {
		d := newDuel(t, "H1", specConfig())
		d.up()
		d.says.Priority, d.says.SMState = 9, state
		d.mute = false
		d.appear()
		d.m.Sweep(false)
		d.run(time.Millisecond)
		d.is(subnet.Standby)
		if len(d.sets) != 1 || d.sets[0].AttrMod() != smp.SMModHandover {
			t.Fatalf("%v: %d Set(SMInfo)", state, len(d.sets))
		}
		if si := d.smInfo(&d.sets[0]); si.SMState != smp.SMMaster || si.GUID != lowGUID || si.Priority != 5 {
			t.Errorf("the handover says %+v", si)
		}
		if d.m.Snap.Up || d.m.Up() {
			t.Error("it still calls the subnet its own")
		}
	}
}

// A handover that is not answered: the other one was not there after all, and
// the subnet must not be left without a master.
func TestHandoverUnanswered(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	d.says.Priority = 9
	d.appear()
	d.m.Sweep(false)
	if err := d.c.RunUntil(time.Second, func() bool { return d.gets > 0 }); err != nil {
		t.Fatal(err)
	}
	d.mute = true
	d.run(30 * time.Second)
	d.is(subnet.Master)
	if !d.m.Up() {
		t.Error("the subnet is not up again")
	}
}

// §14.4.1: a master that ranks above another master configures nothing until
// that one hands over; it polls it, and goes on when it is gone.
func TestTwoMasters(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	d.says.Priority, d.says.SMState = 1, smp.SMMaster
	d.appear()
	d.m.Sweep(false)
	d.run(time.Millisecond)
	d.is(subnet.Master)
	before, gets := d.m.Writes, d.gets
	d.run(30 * time.Second)
	if d.m.Writes != before {
		t.Errorf("%d Sets while another master is there", d.m.Writes-before)
	}
	if d.gets-gets != 3 {
		t.Errorf("%d polls in 30 s", d.gets-gets)
	}
	status, _ := d.signal(smp.SMModHandover, smp.SMMaster)
	d.says.SMState = smp.SMStandby
	d.run(time.Second)
	if status != 0 || !d.m.Up() {
		t.Errorf("after the handover: status %v, up %v", status, d.m.Up())
	}
	if n := len(d.sets); n == 0 || d.sets[n-1].AttrMod() != smp.SMModAcknowledge {
		t.Error("the handover was not acknowledged")
	}
}

// The same when the other master dies instead.
func TestOtherMasterDies(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	d.says.Priority, d.says.SMState = 1, smp.SMMaster
	d.appear()
	d.m.Sweep(false)
	d.run(time.Millisecond)
	d.mute = true
	if err := d.ep.SetIsSM(false); err != nil {
		t.Fatal(err)
	}
	d.run(2 * time.Minute)
	if !d.m.Up() || d.m.Status().Master.GUID != lowGUID {
		t.Error("the subnet is not its own again")
	}
	if err := d.c.Check(d.m); err != nil {
		t.Error(err)
	}
}

// §14.4.1: the light sweep of a master asks the managers it knows; another
// master or a higher-ranking standby leads to a full one.
func TestLightSweepAsksManagers(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.says.Priority = 1
	d.appear()
	d.up()
	d.run(time.Second) // the trap about IsSM is over
	gets, sweeps := d.gets, d.sweeps()
	d.run(21 * time.Second)
	if d.gets < gets+2 || d.sweeps() != sweeps {
		t.Fatalf("%d polls and %d full sweeps in two light ones", d.gets-gets, d.sweeps()-sweeps)
	}
	d.says.Priority = 9
	d.run(11 * time.Second)
	d.is(subnet.Standby)
}

// §14.4.1 and §14.2.5.6: a new master makes every port its own: MasterSMLID,
// and ClientReregister where the port knows it. LIDs that are in use stay.
func TestTakeOver(t *testing.T) {
	d := inState(t, subnet.Standby)
	for i, e := range []struct {
		node string
		lid  ib.LID
	}{{"H1", 40}, {"H2", 30}, {"H3", 20}, {"S1", 10}} {
		p := 1
		if i == 3 {
			p = 0
		}
		n, err := d.c.Sim.Node(e.node)
		if err != nil {
			t.Fatal(err)
		}
		d.set(n, p, func(pi *smp.PortInfo) { pi.LID, pi.MasterSMLID = e.lid, 30 })
	}
	d.activate()
	d.sent = nil
	d.says.Priority = 1 // or it would get the subnet back at once
	d.signal(smp.SMModHandover, smp.SMMaster)
	d.says.SMState = smp.SMStandby
	if err := d.c.RunUntil(time.Minute, d.m.Up); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(d.m.Events(notice.Debug), "\n"))
	}
	for _, e := range d.c.Sim.LIDs() {
		want := map[ib.GUID]ib.LID{0x100001: 40, 0x100003: 30, 0x100005: 20, 0x200000: 10}[e.GUID]
		if e.LID != want {
			t.Errorf("port %v has LID %v, had %v", e.GUID, e.LID, want)
		}
	}
	again := 0
	for i := range d.sent {
		if d.sent[i].Method() != ib.MethodSet || d.sent[i].AttrID() != smp.AttrPortInfo {
			continue
		}
		var pi smp.PortInfo
		_ = pi.Decode(smp.Data(&d.sent[i]))
		if pi.ClientReregister {
			again++
			if pi.MasterSMLID != 40 {
				t.Errorf("a port is told that the SM has LID %v", pi.MasterSMLID)
			}
		}
	}
	if again != 3 {
		t.Errorf("%d ports were asked to register again, want the 3 hosts", again)
	}
}

// set writes PortInfo of a port as the script's Set would.
func (d *duel) set(node, port int, f func(pi *smp.PortInfo)) {
	d.t.Helper()
	var path []byte
	switch {
	case node == 0: // S1
		path = []byte{1}
	case node != d.ep.NodeIndex():
		path = []byte{1, byte(node)}
	}
	pi := d.c.Sim.PortInfo(node, port)
	pi.ClearForSet()
	f(&pi)
	var m ib.MAD
	smp.NewDR(&m, ib.MethodSet, smp.AttrPortInfo, uint32(port), 0, path)
	pi.Put(smp.Data(&m))
	d.send(&m, mad.Addr{LID: ib.LIDPermissive})
	if d.answer == nil || smp.StatusOf(d.answer) != 0 {
		d.t.Fatalf("the script's Set of node %d port %d failed", node, port)
	}
}

// activate moves all links to Active.
func (d *duel) activate() {
	d.t.Helper()
	for _, st := range []ib.PortState{ib.StateArmed, ib.StateActive} {
		for h := 1; h <= 3; h++ {
			d.set(h, 1, func(pi *smp.PortInfo) { pi.PortState = st })
			d.set(0, h, func(pi *smp.PortInfo) { pi.PortState = st })
		}
	}
}
