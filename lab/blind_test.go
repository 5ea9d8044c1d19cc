package lab

import (
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/sa"
	"heddle/sim"
	"heddle/sm"
)

// restart kills the manager and starts another with what it stored. during is called while
// there is none.
func (h *honest) restart(t testing.TB, cfg sm.Config, during func()) {
	t.Helper()
	h.m.Kill()
	during()
	m, err := h.c.Attach(h.m.Node, cfg, h.m.Store.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	h.m = m
	m.ServeSA(SAConfig(trustKey), sa.Options{SAKey: trustKey})
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
}

// on lists a switch's hosts, by index.
func (h *honest) on(sw string) (list []int) {
	f := h.c.Fabric
	for i, name := range h.names {
		if f.Nodes[f.Nodes[f.Find(name)].Ports[1].Peer.Node].ID == sw {
			list = append(list, i)
		}
	}
	return list
}

// TestRestartBlind: a manager that starts while nodes do not answer keeps the registrations of
// hosts that may be behind them, however long that lasts.
func TestRestartBlind(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes func(h *honest) []string
	}{
		{"a host", func(h *honest) []string { return h.names[5:6] }},
		{"a switch", func(h *honest) []string { return []string{h.switchOf(4)} }},
		{"two switches", func(h *honest) []string { return []string{h.switchOf(4), h.switchOf(5)} }},
		{"the first switch", func(h *honest) []string { return []string{h.switchOf(0)} }},
		{"our own node", func(h *honest) []string { return h.names[:1] }},
		{"every third node", func(h *honest) (list []string) {
			for i := range h.c.Fabric.Nodes {
				if i%3 == 1 {
					list = append(list, h.c.Fabric.Nodes[i].ID)
				}
			}
			return list
		}},
		{"all", func(h *honest) (list []string) {
			for i := range h.c.Fabric.Nodes {
				list = append(list, h.c.Fabric.Nodes[i].ID)
			}
			return list
		}},
	} {
		for _, q := range []sim.Quirks{{Mute: true}, {Garbage: true}} {
			t.Run(tc.name, func(t *testing.T) {
				h := newHonest(t, gen(t, "torus", "3x3"), sim.Config{HopLatency: time.Microsecond}, DefaultConfig(), nil)
				nodes := tc.nodes(h)
				h.restart(t, DefaultConfig(), func() {
					for _, n := range nodes {
						_ = h.c.Sim.SetQuirks(n, &q)
					}
				})
				for range 20 {
					h.c.Run(5 * time.Second)
					h.mustKeep(t)
				}
				for _, n := range nodes {
					_ = h.c.Sim.SetQuirks(n, nil)
				}
				h.c.Run(3 * time.Minute)
				h.mustKeep(t)
				mustSettle(t, h.c, h.m, 3*time.Minute)
				h.mustKeep(t)
			})
		}
	}
}

func (h *honest) switchOf(host int) string {
	f := h.c.Fabric
	return f.Nodes[f.Nodes[f.Find(h.names[host])].Ports[1].Peer.Node].ID
}

// TestRestartBlindEvidence: a host that this manager has seen leaves as soon as its switch says
// so. With M_Keys the store has the links, so this also holds for hosts that the previous
// manager saw. A host that may be behind a silent node leaves when that node answers.
func TestRestartBlindEvidence(t *testing.T) {
	for _, key := range []ib.MKey{0, 0x1234} {
		restartBlindEvidence(t, key)
	}
}

func restartBlindEvidence(t *testing.T, key ib.MKey) {
	cfg := DefaultConfig()
	cfg.MKey = key
	h := newHonest(t, gen(t, "torus", "3x3"), sim.Config{HopLatency: time.Microsecond}, cfg, nil)
	mute := h.switchOf(4)
	behind := h.on(mute)
	if len(behind) == 0 || h.switchOf(6) == mute {
		t.Fatal("the fabric is another one")
	}
	h.restart(t, cfg, func() {
		_ = h.c.Sim.MuteSMA(mute, true)
		_ = h.c.Sim.LinkDown(h.names[behind[0]], 1)
		_ = h.c.Sim.LinkDown(h.names[6], 1)
	})
	h.c.Run(20 * time.Second)
	if h.member(6) != (key == 0) {
		t.Errorf("M_Key %v: %s, whose cable is out, is a member: %v", key, h.names[6], h.member(6))
	}
	if !h.member(behind[0]) {
		t.Errorf("%s, of whose cable nobody knows, is no member", h.names[behind[0]])
	}
	_ = h.c.Sim.LinkDown(h.names[7], 1) // seen under this manager
	h.c.Run(5 * time.Second)
	if h.member(7) {
		t.Errorf("%s, whose cable was pulled, is a member", h.names[7])
	}
	_ = h.c.Sim.MuteSMA(mute, false)
	h.c.Run(time.Minute)
	if h.member(behind[0]) || h.member(6) {
		t.Errorf("%s is a member though its switch says that its cable is out", h.names[behind[0]])
	}
	h.mustKeep(t, h.names[behind[0]], h.names[6], h.names[7])
}

// member reports whether a host is in its group.
func (h *honest) member(i int) bool {
	gid := ib.MakeGID(ib.DefaultSubnetPrefix, h.guids[i])
	for _, g := range h.m.View().Groups {
		if g.MGID != trustGroup(i%3) {
			continue
		}
		for k := range g.Members {
			if g.Members[k].PortGID == gid {
				return true
			}
		}
	}
	return false
}

// TestVPortsUnseen: virtual ports keep their memberships while their host, or the switch before
// it, does not answer also when that switch is excluded, for longer than MigrateTime, also over
// a restart.
func TestVPortsUnseen(t *testing.T) {
	const web = ib.GUID(0xAA01)
	mgid := trustGroup(40)
	for _, tc := range []struct {
		name                   string
		host, out, again, none bool
	}{
		{name: "the host", host: true},
		{name: "the switch"},
		{name: "the switch, left out", out: true},
		{name: "nobody, at a restart", again: true, none: true},
		{name: "the host, at a restart", host: true, again: true},
		{name: "the switch, at a restart", again: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, m, names := saBed(t, sim.Hypervisor{Model: sim.VPorts, VFs: 4})
			node := names[len(names)-1]
			startVM(t, c, m, "web", node, 1, sim.VMOptions{GUID: web})
			k := openVM(t, c, "web")
			gid := ib.MakeGID(m.Snap.Prefix, web)
			if _, st := k.request(t, ib.MethodSet, wire.AttrMCMemberRecord,
				wire.MCMemberCompMGID|wire.MCMemberCompPortGID|wire.MCMemberCompJoinState|wire.MCMemberCompQKey|wire.MCMemberCompPKey|
					wire.MCMemberCompTClass|wire.MCMemberCompSL|wire.MCMemberCompFlowLabel,
				&wire.MCMemberRecord{MGID: mgid, PortGID: gid, QKey: 1, PKey: ib.PKeyDefaultFull, JoinState: wire.JoinFull}); st != 0 {
				t.Fatalf("join: status %v", st)
			}
			c.Run(time.Second)
			member := func() bool {
				for _, g := range m.View().Groups {
					if g.MGID == mgid && len(g.Members) == 1 && g.Members[0].PortGID == gid {
						return true
					}
				}
				return false
			}
			if !member() {
				t.Fatal("no member")
			}
			f := c.Fabric
			mute := node
			if !tc.host {
				mute = f.Nodes[f.Nodes[f.Find(node)].Ports[1].Peer.Node].ID
			}
			if tc.again {
				m.Kill()
				_ = c.Sim.MuteSMA(mute, !tc.none)
				n, err := c.Attach(m.Node, DefaultConfig(), m.Store.Reopen())
				if err != nil {
					t.Fatal(err)
				}
				m = n
				m.ServeSA(SAConfig(0), sa.Options{})
				if err := m.Start(); err != nil {
					t.Fatal(err)
				}
			} else {
				_ = c.Sim.MuteSMA(mute, true)
				m.Sweep(false)
			}
			left := false
			for i := range 60 {
				c.Run(2 * time.Second)
				if tc.out && i == 5 { // it needs other tables
					for _, r := range cables(f) {
						if a, b := int(r.Node), int(f.Nodes[r.Node].Ports[r.Port].Peer.Node); f.Nodes[a].IsSwitch() && f.Nodes[b].IsSwitch() && f.Nodes[a].ID != mute && f.Nodes[b].ID != mute {
							_ = c.Sim.LinkDown(f.Nodes[a].ID, int(r.Port))
							break
						}
					}
					m.Reroute(true)
				}
				left = left || m.Snap.PortByGUID(web) < 0
				if !member() {
					t.Fatalf("%d s: no member any more\n%s", 2*i, tail(m))
				}
			}
			if tc.out && !left {
				t.Errorf("the switch was not left out\n%s", tail(m))
			}
			_ = c.Sim.MuteSMA(mute, false)
			c.Run(3 * time.Minute)
			if !member() {
				t.Errorf("no member when all answer again")
			}
			mustBeAt(t, c, m, node, web)
			// A machine that ends does leave.
			if err := c.Sim.RemoveVM("web"); err != nil {
				t.Fatal(err)
			}
			if err := c.RunUntil(time.Minute, func() bool { return !member() }); err != nil {
				t.Errorf("it is a member after its end: %v", err)
			}
		})
	}
}
