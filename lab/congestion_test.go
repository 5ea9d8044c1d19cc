package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/congestion"
	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
	"heddle/sim"
)

// ccBed is a cluster with a congestion control manager.
type ccBed struct {
	testing.TB
	c *Cluster
	m *Manager
	f *fabric.Fabric
	// Of the class: requests that were sent, Sets among them, and the most in flight.
	gets, sets, most int
	written          map[ib.AttrID]int
}

func newCCBed(t testing.TB, f *fabric.Fabric, sc sim.Config, cfg congestion.Config) *ccBed {
	t.Helper()
	c, err := NewCluster(f, sc)
	if err != nil {
		t.Fatal(err)
	}
	b := &ccBed{TB: t, c: c, f: f, written: map[ib.AttrID]int{}}
	if b.m, err = c.Attach(firstCA(f), TrialConfig(), nil); err != nil {
		t.Fatal(err)
	}
	b.m.OnSend = func(p *mad.Packet) {
		if ib.Class(p.Data[1]) != ib.ClassCC {
			return
		}
		b.gets++
		if ib.Method(p.Data[3]) == ib.MethodSet {
			b.sets++
			b.written[ib.AttrID(p.Data[16])<<8|ib.AttrID(p.Data[17])]++
		}
		b.most = max(b.most, b.m.CongestionStatus().InFlight)
	}
	b.m.ServeCongestion(cfg)
	return b
}

func (b *ccBed) start() {
	b.Helper()
	if err := b.m.Start(); err != nil {
		b.Fatal(err)
	}
	if err := b.c.RunUntil(time.Minute, b.m.Up); err != nil {
		b.Fatal(err)
	}
}

// settled waits until no agent is pending, and none differs.
func (b *ccBed) settled(limit time.Duration) {
	b.Helper()
	if err := b.c.RunUntil(limit, b.equal); err != nil {
		b.Fatalf("%v: %+v\n%s", err, b.m.CongestionStatus(), b.lines())
	}
	b.c.Run(1500 * time.Millisecond) // a view a second
}

func (b *ccBed) equal() bool {
	s := b.m.CongestionStatus()
	return s.Agents > 0 && s.Pending == 0 && s.Differs == 0
}

func (b *ccBed) lines() string {
	var list []string
	for _, n := range b.m.CongestionNotices() {
		list = append(list, n.Kind+": "+n.Text)
	}
	return strings.Join(list, "\n")
}

// told counts notices of a kind.
func (b *ccBed) told(kind string) (n int) {
	for _, x := range b.m.CongestionNotices() {
		if x.Kind == kind {
			n++
		}
	}
	return n
}

// ccAsk has another tool send a request of the class from the node of an endpoint.
func ccAsk(t testing.TB, c *Cluster, ep *sim.Endpoint, lid ib.LID, method ib.Method, attr ib.AttrID, mod uint32, key uint64, v interface{ Put([]byte) }) *ib.MAD {
	t.Helper()
	var m ib.MAD
	cc.New(&m, method, attr, mod, key)
	if v != nil {
		v.Put(cc.Data(&m))
	}
	var answer *ib.MAD
	ep.OnPacket = func(p *mad.Packet) {
		if ib.Method(p.Data[3]).IsResponse() {
			answer = new(ib.MAD)
			copy(answer[:], p.Data)
		}
	}
	ep.Send(&mad.Packet{Addr: mad.Addr{LID: lid, QP: 1}, LocalQP: 1, Data: m[:]})
	_ = c.RunUntil(time.Second, func() bool { return answer != nil })
	return answer
}

// other is an endpoint of another tool.
func (b *ccBed) other() *sim.Endpoint {
	b.Helper()
	for i := len(b.f.Nodes) - 1; i >= 0; i-- {
		if !b.f.Nodes[i].IsSwitch() && b.f.Nodes[i].ID != b.m.Node {
			ep, err := b.c.Sim.Attach(b.f.Nodes[i].ID)
			if err != nil {
				b.Fatal(err)
			}
			return ep
		}
	}
	b.Fatal("there is no other host")
	return nil
}

// verify asks every node what it holds, as another tool would.
func (b *ccBed) verify(key uint64) {
	b.Helper()
	ep := b.other()
	defer ep.Close()
	v := b.m.Congestion()
	for i := range v.Nodes {
		n := &v.Nodes[i]
		lid := v.Snap.Ports[n.Port].LID
		get := func(attr ib.AttrID, mod uint32) []byte {
			m := ccAsk(b, b.c, ep, lid, ib.MethodGet, attr, mod, key, nil)
			if m == nil || m.Status() != 0 {
				b.Errorf("LID %v, %v: %v, %+v", lid, attr, m, n)
				return make([]byte, cc.DataLen)
			}
			return cc.Data(m)
		}
		if n.Switch {
			var s cc.SwitchCongestionSetting
			_ = s.Decode(get(cc.AttrSwitchCongestionSetting, 0))
			s.ControlMap = n.Want.Switch.ControlMap // of the last Set
			if s != n.Want.Switch {
				b.Errorf("LID %v holds %+v, want %+v", lid, s, n.Want.Switch)
			}
		}
		if n.Info.ControlTableCap == 0 {
			continue
		}
		var s cc.CACongestionSetting
		_ = s.Decode(get(cc.AttrCACongestionSetting, 0))
		s.ControlMap = n.Want.CA.ControlMap
		if s != n.Want.CA {
			b.Errorf("LID %v holds %+v, want %+v", lid, s, n.Want.CA)
		}
		var table []cc.Delay
		for k := range uint32(2) {
			var x cc.CongestionControlTable
			_ = x.Decode(get(cc.AttrCongestionControlTable, k))
			if x.Limit != n.Want.Limit {
				b.Errorf("LID %v: limit %d, want %d", lid, x.Limit, n.Want.Limit)
			}
			table = append(table, x.Entry[:]...)
		}
		if !slices.Equal(table[:len(n.Want.Table)], n.Want.Table) {
			b.Errorf("LID %v: table %v", lid, table)
		}
	}
}

func ccConfig(mode congestion.Mode) congestion.Config {
	cfg := congestion.Defaults()
	cfg.Mode, cfg.Interval, cfg.Logs = mode, 10*time.Second, 2*time.Second
	return cfg
}

// TestCongestionActs: all nodes get the settings, once; another tool reads them; nothing is written
// again, and what another tool wrote, or a restart took away, is.
func TestCongestionActs(t *testing.T) {
	b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, ccConfig(congestion.Act))
	b.start()
	b.settled(20 * time.Second)
	st := b.m.CongestionStatus()
	if st.Managed != 16+8 || st.Senders != 16 {
		t.Fatalf("%+v", st)
	}
	if want := map[ib.AttrID]int{cc.AttrSwitchCongestionSetting: 8, cc.AttrCACongestionSetting: 16, cc.AttrCongestionControlTable: 32}; !mapsEqual(b.written, want) {
		t.Errorf("written %v, want %v", b.written, want)
	}
	b.verify(0)
	b.c.Run(time.Minute)
	if b.sets != 8+16+32 {
		t.Errorf("%d Sets after a minute", b.sets)
	}
	if n := b.told(congestion.KindDone); n != 1 || len(b.m.CongestionNotices()) != 1 {
		t.Errorf("notices:\n%s", b.lines())
	}
	ep := b.other()
	v := b.m.Congestion()
	host := v.Snap.Ports[v.Nodes[3].Port].LID
	ccAsk(t, b.c, ep, host, ib.MethodSet, cc.AttrCongestionControlTable, 0, 0, &cc.CongestionControlTable{Limit: 63})
	ep.Close()
	if err := b.c.RunUntil(30*time.Second, func() bool { return b.m.CongestionStatus().Repairs == 1 }); err != nil {
		t.Fatal(err)
	}
	b.settled(20 * time.Second)
	b.verify(0)
	if n := b.told(congestion.KindForeign); n != 1 || !strings.Contains(b.lines(), "another tool") {
		t.Errorf("notices:\n%s", b.lines())
	}
	for _, name := range []string{b.f.Nodes[5].Name(), switchName(b.f)} {
		if err := b.c.Sim.NodeUp(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.c.RunUntil(time.Minute, func() bool { return b.m.CongestionStatus().Repairs >= 3 && b.equal() }); err != nil {
		t.Fatalf("%v: %+v\n%s", err, b.m.CongestionStatus(), b.lines())
	}
	b.c.Run(3 * time.Second)
	b.verify(0)
	if !strings.Contains(b.lines(), "restarted") {
		t.Errorf("notices:\n%s", b.lines())
	}
}

func switchName(f *fabric.Fabric) string {
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			return f.Nodes[i].Name()
		}
	}
	return ""
}

func mapsEqual[K comparable](a, b map[K]int) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// TestCongestionLate: a running manager is given a congestion control manager, and another one, with
// other settings, in its place.
func TestCongestionLate(t *testing.T) {
	f := gen(t, "xgft", "2", "4,4", "1,4")
	b := newCCBed(t, f, sim.Config{Seed: 1}, ccConfig(congestion.Off))
	b.start()
	b.c.Run(5 * time.Second)
	if b.gets != 0 {
		t.Fatalf("%d requests while off", b.gets)
	}
	for _, threshold := range []uint8{15, 7} {
		cfg := ccConfig(congestion.Act)
		cfg.Policy.Threshold = congestion.Give(threshold)
		b.m.ServeCongestion(cfg)
		b.settled(20 * time.Second)
		b.verify(0)
		for _, n := range b.m.Congestion().Nodes {
			if n.Switch && n.Held.Switch.Threshold != threshold {
				t.Errorf("threshold %d, want %d", n.Held.Switch.Threshold, threshold)
			}
		}
	}
}

// TestCongestionObserves: in observe nothing is written, and what differs is said; in off nothing is
// sent.
func TestCongestionObserves(t *testing.T) {
	b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, ccConfig(congestion.Observe))
	b.start()
	b.c.Run(time.Minute)
	st := b.m.CongestionStatus()
	if b.sets != 0 || st.Sets != 0 || st.Differs != 24 || st.Managed != 24 {
		t.Errorf("%d Sets, %+v", b.sets, st)
	}
	v := b.m.Congestion()
	if got := v.Nodes[0].Differs.Names(); !slices.Equal(got, []string{"CACongestionSetting", "CongestionControlTable"}) && !slices.Equal(got, []string{"SwitchCongestionSetting"}) {
		t.Errorf("differs in %v", got)
	}
	if n := b.told(congestion.KindDone); n != 1 || !strings.Contains(b.lines(), "24 of 24") {
		t.Errorf("notices:\n%s", b.lines())
	}
	b.m.SetCongestionMode(congestion.Off)
	b.c.Run(time.Second)
	n := b.gets
	b.c.Run(time.Minute)
	if b.gets != n {
		t.Errorf("%d requests while off", b.gets-n)
	}
	b.m.SetCongestionMode(congestion.Act)
	b.settled(20 * time.Second)
	b.verify(0)
	b.m.SetCongestionMode(congestion.Withdraw)
	b.settled(20 * time.Second)
	b.verify(0)
	for i := range b.m.Congestion().Nodes {
		if x := b.m.Congestion().Nodes[i].Held; x.Switch.Threshold != 0 || x.CA.SL[0] != (cc.SLSetting{}) || x.Limit != 0 {
			t.Errorf("%+v", x)
		}
	}
}

// TestCongestionKey: nodes are given the key, so that they refuse others; a node with a hidden key of
// somebody else is told, and taken over when its lease ends; the key is removed at the end.
func TestCongestionKey(t *testing.T) {
	cfg := ccConfig(congestion.Act)
	cfg.Key = congestion.KeyPolicy{Key: 0xFEED, Write: true, Protect: true, Lease: 60}
	b := newCCBed(t, gen(t, "xgft", "1", "6", "1"), sim.Config{Seed: 1}, cfg)
	if err := b.m.Start(); err != nil {
		t.Fatal(err)
	}
	ep := b.other()
	// Before the subnet is up: two foreign keys, one of them without a lease.
	if err := b.c.RunUntil(time.Minute, func() bool { return ep.LID() != 0 }); err != nil {
		t.Fatal(err)
	}
	var lids []ib.LID
	for _, l := range b.c.Sim.LIDs() {
		if r, ok := b.c.Sim.FindLID(l.LID); ok && !b.f.Nodes[r.Node].IsSwitch() && l.LID != ep.LID() {
			lids = append(lids, l.LID)
		}
	}
	if err := b.c.RunUntil(time.Minute, b.m.Up); err != nil {
		t.Fatal(err)
	}
	b.m.SetCongestionMode(congestion.Off) // so that the other tool is first
	b.m.SetCongestionMode(congestion.Act)
	for i, lease := range []uint16{8, 0} {
		ccAsk(t, b.c, ep, lids[i+1], ib.MethodSet, cc.AttrCongestionKeyInfo, 0, 0xFEED, &cc.CongestionKeyInfo{Key: 0xBAD, Protect: true, LeasePeriod: lease})
	}
	ep.Close()
	if err := b.c.RunUntil(time.Minute, func() bool { return b.m.CongestionStatus().Locked == 2 }); err != nil {
		t.Fatalf("%v %+v\n%s", err, b.m.CongestionStatus(), b.lines())
	}
	if !strings.Contains(b.lines(), "--cc-key") || !strings.Contains(b.lines(), "after 8 s") {
		t.Error(b.lines())
	}
	if err := b.c.RunUntil(time.Minute, func() bool { return b.m.CongestionStatus().Locked == 1 }); err != nil {
		t.Fatalf("%v %+v\n%s", err, b.m.CongestionStatus(), b.lines())
	}
	if !strings.Contains(b.lines(), "takes settings again") {
		t.Error(b.lines())
	}
	b.c.Run(time.Minute)
	n := b.sets
	b.c.Run(5 * time.Minute)
	if b.sets != n {
		t.Errorf("%d Sets to a node without a lease that hides its key", b.sets-n)
	}
	ep = b.other()
	if m := ccAsk(t, b.c, ep, lids[0], ib.MethodSet, cc.AttrCACongestionSetting, 0, 0, &cc.CACongestionSetting{ControlMap: 1}); m != nil {
		t.Error("a node takes settings without the key")
	}
	ep.Close()
	b.m.SetCongestionMode(congestion.Withdraw)
	b.c.Run(20 * time.Second)
	ep = b.other()
	if m := ccAsk(t, b.c, ep, lids[0], ib.MethodSet, cc.AttrCACongestionSetting, 0, 0, &cc.CACongestionSetting{ControlMap: 1}); m == nil {
		t.Error("a node still has a key")
	}
}

// TestCongestionOdd: agents that are silent, refuse, ignore what is written, or answer nonsense are set
// aside or told, and the others get their settings as if there were none.
func TestCongestionOdd(t *testing.T) {
	b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, ccConfig(congestion.Act))
	odd := []*sim.CCA{
		{Silent: true},
		{Refuse: ib.StatusBadMethodAttr},
		{Deaf: true},
		{Answer: func(m *ib.MAD) { // all ones: a limit far beyond, 255 blocks, a foreign key
			if m.AttrID() == cc.AttrClassPortInfo {
				return // which would redirect to nowhere
			}
			for i := 32; i < len(m); i++ {
				m[i] = 0xFF
			}
		}},
		{Answer: func(m *ib.MAD) { m.SetAttrID(0x7777) }},
		{Blocks: 1},
		{RefuseSets: ib.StatusBadMethod},
	}
	hosts := 0
	for i := range b.f.Nodes {
		if n := &b.f.Nodes[i]; !n.IsSwitch() && n.ID != b.m.Node && hosts < len(odd) {
			if err := b.c.Sim.SetCCA(n.Name(), odd[hosts]); err != nil {
				t.Fatal(err)
			}
			hosts++
		}
	}
	b.start()
	began := b.c.Sim.Now()
	if err := b.c.RunUntil(time.Minute, func() bool { return b.m.CongestionStatus().Sets > 0 && b.good() >= 24-6 }); err != nil {
		t.Fatalf("%v %+v\n%s", err, b.m.CongestionStatus(), b.lines())
	}
	if took := b.c.Sim.Now().Sub(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	b.c.Run(5 * time.Minute)
	st := b.m.CongestionStatus()
	if st.Silent != 2 || st.Without != 2 || st.Differs != 2 || st.Managed != 20 || st.Pending != 0 {
		t.Errorf("%+v\n%s", st, b.lines())
	}
	if b.told(congestion.KindUnkept) != 3 || b.told(congestion.KindSilent) != 0 {
		t.Errorf("notices:\n%s", b.lines())
	}
	n := b.gets
	b.c.Run(time.Minute)
	t.Logf("%d requests a minute", b.gets-n)
}

// good is how many nodes hold what is wanted.
func (b *ccBed) good() int {
	s := b.m.CongestionStatus()
	return s.Managed - s.Differs
}
