package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/congestion"
	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
	"heddle/sim"
)

// TestCongestionRefusesOne: a node that refuses one attribute after it took the key and a table is
// not said to be without congestion control: it stays listed with what differs, and withdrawing
// removes the key.
func TestCongestionRefusesOne(t *testing.T) {
	cfg := ccConfig(congestion.Act)
	cfg.Key = congestion.KeyPolicy{Key: 0xFEED, Write: true, Protect: true, Lease: 60}
	b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, cfg)
	name := ""
	for i := range b.f.Nodes {
		if n := &b.f.Nodes[i]; !n.IsSwitch() && n.ID != b.m.Node {
			name = n.Name()
			break
		}
	}
	if err := b.c.Sim.SetCCA(name, &sim.CCA{RefuseSets: ib.StatusBadMethodAttr, RefuseSetsOf: cc.AttrCACongestionSetting}); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.c.Run(2 * time.Minute)
	if st := b.m.CongestionStatus(); st.Without != 0 || st.Managed != 24 || st.Differs != 1 {
		t.Fatalf("%+v\n%s", st, b.lines())
	}
	v := b.m.Congestion()
	i := slices.IndexFunc(v.Nodes, func(n congestion.Node) bool { return n.Differs != 0 })
	if i < 0 || v.Nodes[i].Differs != congestion.DiffCA || !v.Nodes[i].Own || v.Nodes[i].Held.Limit == 0 {
		t.Errorf("%+v", v.Nodes)
	}
	if n := b.told(congestion.KindUnkept); n != 1 || !strings.Contains(b.lines(), "it refuses Set(CACongestionSetting)") {
		t.Errorf("notices:\n%s", b.lines())
	}
	b.m.SetCongestionMode(congestion.Withdraw)
	b.c.Run(time.Minute)
	ep := b.other()
	defer ep.Close()
	if m := ccAsk(t, b.c, ep, v.Snap.Ports[v.Nodes[i].Port].LID, ib.MethodSet, cc.AttrCongestionControlTable, 0, 0, &cc.CongestionControlTable{}); m == nil {
		t.Error("the node still has the key")
	}
}

// TestCongestionRead: a reading of the log alone is no reading of settings.
func TestCongestionRead(t *testing.T) {
	cfg := ccConfig(congestion.Observe)
	cfg.Interval, cfg.Logs = time.Hour, time.Second
	b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, cfg)
	asked, logs := map[ib.LID]mad.Time{}, map[ib.LID]int{}
	was := b.m.OnSend
	b.m.OnSend = func(p *mad.Packet) {
		if ib.Class(p.Data[1]) == ib.ClassCC {
			switch ib.AttrID(p.Data[16])<<8 | ib.AttrID(p.Data[17]) {
			case cc.AttrSwitchCongestionSetting:
				asked[p.Addr.LID] = b.c.Sim.Now()
			case cc.AttrCongestionLog:
				logs[p.Addr.LID]++
			}
		}
		was(p)
	}
	b.start()
	b.c.Run(time.Minute)
	snap := b.m.Congestion().Snap
	b.m.SetCongestionMode(congestion.Off) // which makes a new view
	b.c.Run(time.Second)
	v, n := b.m.Congestion(), 0
	if v.At < mad.Time(time.Minute) {
		t.Fatalf("the view is of %v", v.At)
	}
	for i := range v.Nodes {
		if x := &v.Nodes[i]; x.Switch {
			lid := snap.Ports[x.Port].LID
			n++
			if took := x.Read.Sub(asked[lid]); asked[lid] == 0 || took < 0 || took > 100*time.Millisecond || logs[lid] < 30 {
				t.Errorf("LID %v: read at %v, asked for settings at %v, %d times for the log", lid, x.Read, asked[lid], logs[lid])
			}
		}
	}
	if n != 8 {
		t.Errorf("%d switches", n)
	}
}

// TestCongestionReadShown: views show when nodes were read, also if they hold what they held.
func TestCongestionReadShown(t *testing.T) {
	cfg := ccConfig(congestion.Observe)
	cfg.Interval, cfg.Logs = time.Minute, time.Second
	b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, cfg)
	b.start()
	b.c.Run(10 * time.Minute)
	v, n := b.m.Congestion(), 0
	if now := b.c.Sim.Now(); now.Sub(v.At) > cfg.Interval {
		t.Errorf("the view of %v is shown at %v", v.At, now)
	}
	for i := range v.Nodes {
		if x := &v.Nodes[i]; x.Held != nil {
			n++
			if age := v.At.Sub(x.Read); age > cfg.Interval+5*time.Second {
				t.Errorf("node %v was read %v before", x.GUID, age)
			}
		}
	}
	if n != len(v.Nodes) || n == 0 {
		t.Errorf("%d of %d nodes were read", n, len(v.Nodes))
	}
}

// TestCongestionPending: a node is pending until it is compared with what is wanted, also after
// the mode was changed, so that nobody takes all for equal before.
func TestCongestionPending(t *testing.T) {
	b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, ccConfig(congestion.Observe))
	b.start()
	read := func() bool {
		st := b.m.CongestionStatus()
		return st.Agents > 0 && st.Pending == 0
	}
	for _, m := range []congestion.Mode{congestion.Observe, congestion.Off, congestion.Observe} {
		b.m.SetCongestionMode(m)
		if m == congestion.Off {
			continue
		}
		if err := b.c.RunUntil(time.Minute, read); err != nil {
			t.Fatal(err)
		}
		if st := b.m.CongestionStatus(); st.Managed != 24 || st.Differs != 24 {
			t.Errorf("%+v", st)
		}
	}
}

// TestCongestionClocks: a switch whose logs have other times than its clock is not read over and over
// again.
func TestCongestionClocks(t *testing.T) {
	cfg := ccConfig(congestion.Act)
	cfg.Interval, cfg.Logs = time.Hour, time.Second
	b := newCCBed(t, gen(t, "xgft", "2", "4,4", "1,4"), sim.Config{Seed: 1}, cfg)
	for i := range b.f.Nodes {
		if b.f.Nodes[i].IsSwitch() {
			if err := b.c.Sim.SetCCA(b.f.Nodes[i].Name(), &sim.CCA{Answer: func(m *ib.MAD) {
				if m.AttrID() == cc.AttrTimeStamp {
					(&cc.TimeStamp{Time: 1 << 30}).Put(cc.Data(m))
				}
			}}); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	b.start()
	b.settled(time.Minute)
	n := b.gets
	b.c.Run(time.Minute)
	if n = b.gets - n; n > 60*8+6*20 { // the logs of 8 switches, and a visit each 10 s
		t.Errorf("%d requests a minute", n)
	}
}
