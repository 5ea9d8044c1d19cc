package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/partition"
	"heddle/sim"
	"heddle/sm"
	"heddle/store"
	"heddle/subnet"
)

// policyOf reads a policy; H0, H1 … stand for the port GUIDs of the hosts in
// the order of the fabric.
func policyOf(t *testing.T, c *Cluster, text string) *partition.Policy {
	t.Helper()
	i := 0
	var pairs []string
	for n := range c.Fabric.Nodes {
		if nd := &c.Fabric.Nodes[n]; !nd.IsSwitch() {
			pairs = append([]string{fmt.Sprintf("H%d", i), nd.Ports[1].GUID.String()}, pairs...) // H10 before H1
			i++
		}
	}
	p, w, err := partition.Parse(strings.NewReader(strings.NewReplacer(pairs...).Replace(text)), "policy")
	if err != nil || len(w) > 0 {
		t.Fatal(err, w)
	}
	return p
}

// host is the node index of the i-th host.
func host(c *Cluster, i int) int {
	for n := range c.Fabric.Nodes {
		if !c.Fabric.Nodes[n].IsSwitch() {
			if i == 0 {
				return n
			}
			i--
		}
	}
	return -1
}

func keysAt(c *Cluster, node, port int) []ib.PKey {
	return partition.Trim(c.Sim.PKeys(node, port, nil))
}

// lastNotice finds the last notice of a kind.
func lastNotice(m *Manager, k sm.Kind) *sm.Notice {
	for i := len(m.Notices) - 1; i >= 0; i-- {
		if m.Notices[i].Kind == k {
			return &m.Notices[i]
		}
	}
	return nil
}

// set applies a policy and waits for the end.
func (m *Manager) apply(t *testing.T, p *partition.Policy, tag uint64) {
	t.Helper()
	m.SetPartitions(p, tag)
	if err := m.c.RunUntil(time.Minute, func() bool { n := lastNotice(m, sm.KindPartitionsApplied); return n != nil && n.Tag == tag }); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(m.Events(sm.Info), "\n"))
	}
}

func quietConfig() sm.Config {
	cfg := TrialConfig()
	cfg.SweepInterval, cfg.ImproveDelay = 0, 0
	return cfg
}

// TestPartitionCost: a change writes only the ports that it concerns, and causes no sweep.
func TestPartitionCost(t *testing.T) {
	c, m := bringUp(t, gen(t, "fattree", "324"), sim.Config{}, quietConfig())
	// The first one turns enforcement on at every port that faces a host.
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H1=full,H2=full,H3; b=6:H4=full,H5;"), 1)
	sweeps := m.Status().Sweeps
	asked := map[string]int{}
	m.OnSend = func(p *mad.Packet) {
		k := (*ib.MAD)(p.Data)
		asked[fmt.Sprintf("%v %s", k.Method(), ib.AttrName(k.Class(), k.AttrID()))]++
	}
	c.Run(10 * time.Second)
	clear(asked)
	gen := m.Snap.Gen
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H1=full,H3; b=6:H4=full,H5,H6;"), 2)
	// H2 loses a key, H6 is given one: each at the host and at the switch.
	if want := map[string]int{"Set P_KeyTable": 4}; fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	if m.Status().Sweeps != sweeps {
		t.Error("the subnet was swept")
	}
	if m.Snap.Gen == gen || m.Snap.Partitions.Find(6) == nil {
		t.Error("the snapshot does not show it")
	}
	p := m.Snap.PortByGUID(c.Fabric.Nodes[host(c, 6)].Ports[1].GUID)
	if got := m.Snap.Ports[p].PKeys; !slices.Equal(got, []ib.PKey{0xFFFF, 6}) {
		t.Errorf("the snapshot shows %v", got)
	}
	a, b := m.Snap.PortByGUID(c.Fabric.Nodes[host(c, 7)].Ports[1].GUID), m.Snap.PortByGUID(c.Fabric.Nodes[host(c, 8)].Ports[1].GUID)
	if x, y := m.Snap.Ports[a].PKeys, m.Snap.Ports[b].PKeys; &x[0] != &y[0] {
		t.Error("equal tables are not shared")
	}
	r, _ := c.Sim.Peer(host(c, 6), 1)
	if got := keysAt(c, int(r.Node), int(r.Port)); !slices.Equal(got, []ib.PKey{0xFFFF, 6}) {
		t.Errorf("the switch port holds %v", got)
	}
	if pi := c.Sim.PortInfo(int(r.Node), int(r.Port)); !pi.PartitionEnforcementInbound || !pi.PartitionEnforcementOutbound {
		t.Error("the switch does not enforce partitions")
	}
}

// TestPartitionsRefused: a policy that is not valid, or cannot be stored, changes
// nothing, not even after a restart.
func TestPartitionsRefused(t *testing.T) {
	c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, quietConfig())
	good := policyOf(t, c, "a=5:H1=full,H2=full;")
	m.apply(t, good, 1)
	writes := 0
	c.Sim.OnChange = func(x sim.Change) {
		if x.Kind == sim.ChangeSet && x.Attr == smp.AttrPKeyTable {
			writes++
		}
	}
	refused := func(tag uint64) {
		t.Helper()
		c.Run(10 * time.Second)
		if n := lastNotice(m, sm.KindPartitionsRefused); n == nil || n.Tag != tag || n.Err == nil || n.Level != sm.Error {
			t.Errorf("told %v", n)
		}
		if writes > 0 || m.Snap.Partitions != good {
			t.Errorf("%d writes, partitions %v", writes, m.Snap.Partitions)
		}
	}
	m.SetPartitions(&partition.Policy{}, 2)
	refused(2)
	m.SetPartitions(nil, 3)
	refused(3)
	m.Store.FailNext = 1
	m.SetPartitions(policyOf(t, c, "Default:ALL=full;"), 4)
	refused(4)
	m.Sweep(false) // which stores nothing of it either
	c.Run(time.Second)
	m.Kill()
	m, err := c.Start(m.Node, quietConfig(), m.Store.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	c.Run(10 * time.Second)
	if got := keysAt(c, host(c, 1), 1); !slices.Equal(got, []ib.PKey{0x7FFF, 0x8005}) || writes > 0 {
		t.Errorf("after a restart: %v, %d writes", got, writes)
	}
	// A damaged record opens nothing.
	st := m.Store.Reopen()
	if err := st.Apply([]store.Op{{Kind: store.PutRecord, Record: store.Record{Table: store.TablePartitions, Key: []byte("policy"), Value: []byte("{")}}}); err != nil {
		t.Fatal(err)
	}
	m.Kill()
	if m, err = c.Start(m.Node, quietConfig(), st); err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	c.Run(10 * time.Second)
	if got := keysAt(c, host(c, 1), 1); !slices.Equal(got, []ib.PKey{0x7FFF}) || lastNotice(m, sm.KindPartitionsRefused) == nil {
		t.Errorf("with a damaged store: %v", got)
	}
}

// TestPKeyQuarantine: a key that passes from one tenant to another waits for a port that does
// not answer, also across a restart, until that port has left the subnet.
func TestPKeyQuarantine(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, TrialConfig())
		m.apply(t, policyOf(t, c, "a=5:H1=full,H2=full,H3=full;"), 1)
		mute := c.Fabric.Nodes[host(c, 2)].ID
		if err := c.Sim.MuteSMA(mute, true); err != nil {
			t.Fatal(err)
		}
		m.SetPartitions(policyOf(t, c, "b=5:H3,H4=full;"), 2)
		waits := func() {
			t.Helper()
			c.Run(20 * time.Second)
			if k1, k3, k4 := keysAt(c, host(c, 1), 1), keysAt(c, host(c, 3), 1), keysAt(c, host(c, 4), 1); !slices.Equal(k1, []ib.PKey{0x7FFF}) ||
				!slices.Equal(k3, []ib.PKey{0x7FFF, 5}) || !slices.Equal(k4, []ib.PKey{0x7FFF}) {
				t.Fatalf("the tables are %v %v %v\n%s", k1, k3, k4, strings.Join(m.Events(sm.Info), "\n"))
			}
		}
		waits()
		m.Kill()
		m, err := c.Start(m.Node, TrialConfig(), m.Store.Reopen())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.RunUntil(time.Minute, m.Up); err != nil {
			t.Fatal(err)
		}
		waits()
		if leaves {
			err = c.Sim.LinkDown(mute, 1)
		} else {
			err = c.Sim.MuteSMA(mute, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Run(30 * time.Second)
		if k4 := keysAt(c, host(c, 4), 1); !slices.Equal(k4, []ib.PKey{0x7FFF, 0x8005}) {
			t.Errorf("left %v: the new owner has %v\n%s", leaves, k4, strings.Join(m.Events(sm.Info), "\n"))
		}
		if leaves { // it is cleaned before its link carries data again
			c.Sim.OnChange = func(x sim.Change) {
				if n := host(c, 2); x.Kind == sim.ChangeState && x.Node == n && x.New >= ib.StateArmed && slices.Contains(keysAt(c, n, 1), 0x8005) {
					t.Error("it is back with its old keys")
				}
			}
			_ = c.Sim.MuteSMA(mute, false)
			_ = c.Sim.LinkUp(mute, 1)
			c.Run(20 * time.Second)
		}
		if k2 := keysAt(c, host(c, 2), 1); !slices.Equal(k2, []ib.PKey{0x7FFF}) {
			t.Errorf("left %v: the one that was mute has %v", leaves, k2)
		}
	}
}

// TestPartitionStatus: on a subnet that loses MADs, the status shows how many ports are not up
// to date and which keys are in quarantine. It is settled exactly when every port and the
// switch port before it hold the intended keys.
func TestPartitionStatus(t *testing.T) {
	c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{Seed: 1, Drop: 0.1, HopLatency: time.Microsecond}, quietConfig())
	settled := func() bool { return m.Status().Partitions.Settled }
	if err := c.RunUntil(time.Minute, settled); err != nil {
		t.Fatalf("everybody in the default partition: %v: %+v", err, m.Status().Partitions)
	}
	m.apply(t, policyOf(t, c, "Default:ALL=full; a=5:H1=full,H2=full,H3=full;"), 1)
	if got := m.Status().Partitions; !got.Settled || got.Pending != 0 || got.Count != 2 || len(got.Quarantined) > 0 {
		t.Errorf("applied: %+v", got)
	}
	mute := c.Fabric.Nodes[host(c, 2)].ID
	if err := c.Sim.MuteSMA(mute, true); err != nil {
		t.Fatal(err)
	}
	m.SetPartitions(policyOf(t, c, "Default:ALL=full; b=5:H3,H4=full;"), 2)
	if settled() {
		t.Error("settled before anything was written")
	}
	c.Run(time.Millisecond)
	if got := m.Status().Partitions; got.Settled || got.Pending < 3 || !slices.Equal(got.Quarantined, []ib.PKey{5}) {
		t.Errorf("begun: %+v", got)
	}
	c.Run(30 * time.Second)
	if got := m.Status().Partitions; got.Settled || got.Pending != 1 || !slices.Equal(got.Quarantined, []ib.PKey{5}) {
		t.Errorf("a port does not answer: %+v", got)
	}
	if err := c.Sim.MuteSMA(mute, false); err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(2*time.Minute, settled); err != nil {
		t.Fatalf("%v: %+v", err, m.Status().Partitions)
	}
	if got := m.Status().Partitions; got.Pending != 0 || len(got.Quarantined) > 0 {
		t.Errorf("at the end: %+v", got)
	}
	for i, want := range map[int][]ib.PKey{1: {0xFFFF}, 2: {0xFFFF}, 3: {0xFFFF, 5}, 4: {0xFFFF, 0x8005}} {
		r, _ := c.Sim.Peer(host(c, i), 1)
		if got := keysAt(c, host(c, i), 1); !slices.Equal(got, want) {
			t.Errorf("settled, and host %d holds %v, want %v", i, got, want)
		}
		if pi := c.Sim.PortInfo(int(r.Node), int(r.Port)); !pi.PartitionEnforcementInbound {
			t.Errorf("settled, and the switch does not enforce what host %d may send", i)
		}
	}
}

// TestPartitionsOfAStandby: a standby stores new partitions and writes nothing. When it takes
// over, the ports get them.
func TestPartitionsOfAStandby(t *testing.T) {
	c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, TrialConfig())
	m.apply(t, policyOf(t, c, "a=5:H1=full,H2=full;"), 1)
	b, err := c.Start(c.Fabric.Nodes[host(c, 6)].ID, TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Minute, func() bool { return b.State() == subnet.Standby }); err != nil {
		t.Fatal(err)
	}
	b.SetPartitions(policyOf(t, c, "a=5:H1=full,H3=full;"), 2)
	c.Run(20 * time.Second)
	if n := lastNotice(b, sm.KindPartitions); n == nil || n.Tag != 2 {
		t.Errorf("the standby tells %v", n)
	}
	if got := b.Status().Partitions; got.Settled || got.Count != 2 {
		t.Errorf("the standby: %+v", got)
	}
	if got := keysAt(c, host(c, 2), 1); !slices.Equal(got, []ib.PKey{0x7FFF, 0x8005}) {
		t.Errorf("a standby wrote: %v", got)
	}
	m.Kill()
	if err := c.RunUntil(2*time.Minute, func() bool { return b.Up() && b.Status().Partitions.Settled }); err != nil {
		t.Fatalf("%v: %+v", err, b.Status().Partitions)
	}
	for i, want := range map[int][]ib.PKey{1: {0x7FFF, 0x8005}, 2: {0x7FFF}, 3: {0x7FFF, 0x8005}} {
		if got := keysAt(c, host(c, i), 1); !slices.Equal(got, want) {
			t.Errorf("host %d holds %v, want %v", i, got, want)
		}
	}
}

// TestPKeyLimits: ports without a table, that cannot be written, or whose table is too small
// are reported, and do not delay others.
func TestPKeyLimits(t *testing.T) {
	c, err := NewCluster(gen(t, "irregular", "16"), sim.Config{PartitionCap: 3, ExternalPartitionCap: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range map[int]*sim.Quirks{1: {NoPKeys: true}, 2: {KeepPKeys: true}} {
		if err := c.Sim.SetQuirks(c.Fabric.Nodes[host(c, i)].ID, q); err != nil {
			t.Fatal(err)
		}
	}
	m, err := c.Start(firstCA(c.Fabric), TrialConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustUp(t, c, m)
	m.SetPartitions(policyOf(t, c, "Default:ALL=full; a=5:H1=full,H2=full,H3=full,H4=full; b=6:H3=full; c=7:H3=full;"), 1)
	c.Run(20 * time.Second)
	for i, want := range map[int][]ib.PKey{1: {0xFFFF}, 2: {0xFFFF}, 3: {0xFFFF, 0x8005, 0x8006}, 4: {0xFFFF, 0x8005}} {
		if got := keysAt(c, host(c, i), 1); !slices.Equal(got, want) {
			t.Errorf("host %d holds %v, want %v", i, got, want)
		}
	}
	var text []string
	for _, n := range m.Notices {
		if n.Level >= sm.Warn {
			text = append(text, n.Kind.String()+" "+n.Where.Desc)
		}
	}
	slices.Sort(text)
	h := func(i int) string { return c.Fabric.Nodes[host(c, i)].Desc }
	r, _ := c.Sim.Peer(host(c, 3), 1)
	want := []string{"pkey_refused " + h(1), "set_failed " + h(2), "pkey_refused " + h(3), "partitions_waiting ", "enforce_off " + c.Fabric.Nodes[r.Node].Desc}
	slices.Sort(want)
	if !slices.Equal(slices.Compact(text), want) {
		t.Errorf("told %q, want %q", text, want)
	}
	if pi := c.Sim.PortInfo(int(r.Node), int(r.Port)); pi.PartitionEnforcementInbound || pi.PartitionEnforcementOutbound {
		t.Error("a switch enforces what its table does not hold")
	}
	if !m.Up() {
		t.Error("the subnet is not up")
	}
	if err := c.Check(m); err != nil {
		t.Error(err)
	}
}

// TestPKeysOfAliases: an alias GUID is a member through the port that has it.
func TestPKeysOfAliases(t *testing.T) {
	c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, quietConfig())
	m.apply(t, policyOf(t, c, "vm=5:0xABC=full;"), 1)
	has := func(i int) bool { return slices.Contains(keysAt(c, host(c, i), 1), 0x8005) }
	port := func(i int) ib.GUID { return c.Fabric.Nodes[host(c, i)].Ports[1].GUID }
	for _, i := range []int{1, 2} {
		m.SetAliases([]subnet.Alias{{Port: port(i), Index: 3, GUID: 0xABC, Carries: true}})
		c.Run(10 * time.Second)
		if has(i) != true || has(3-i) != false {
			t.Errorf("with the alias at host %d: %v %v", i, has(1), has(2))
		}
	}
	m.SetAliases(nil)
	c.Run(10 * time.Second)
	if has(1) || has(2) {
		t.Error("the alias is gone, its key is not")
	}
}

// TestPKeysOfStrangeAliases: an alias that a host gave its port, before the partitions named
// it or after, is an address and no membership; nor is one that the port had before. What an
// administrator gives counts, until a host chooses it again or nobody names it.
func TestPKeysOfStrangeAliases(t *testing.T) {
	c, m := bringUp(t, gen(t, "irregular", "16"), sim.Config{}, quietConfig())
	has := func(i int) bool { return slices.Contains(keysAt(c, host(c, i), 1), 0x8005) }
	alias := func(i int, carries bool) []subnet.Alias {
		return []subnet.Alias{{Port: c.Fabric.Nodes[host(c, i)].Ports[1].GUID, Index: 3, GUID: 0xABC, Carries: carries}}
	}
	vm := policyOf(t, c, "vm=5:0xABC=full;")
	for _, step := range []struct {
		name string
		do   func()
		want [2]bool // hosts 1 and 2 have the key
	}{
		{"a host helps itself", func() { m.SetAliases(alias(1, false)) }, [2]bool{}},
		{"the partitions name it", func() { m.apply(t, vm, 1) }, [2]bool{}},
		{"the host goes on after it is named", func() { m.SetAliases(alias(2, false)) }, [2]bool{}},
		{"the administrator gives it", func() { m.SetAliases(alias(2, true)) }, [2]bool{1: true}},
		{"a host names it again", func() { m.SetAliases(alias(2, false)) }, [2]bool{}},
		{"the administrator moves it", func() { m.SetAliases(alias(1, true)) }, [2]bool{0: true}},
		{"nobody names it any more", func() { m.SetAliases(nil) }, [2]bool{}},
		{"a host helps itself once more", func() { m.SetAliases(alias(1, false)) }, [2]bool{}},
	} {
		step.do()
		c.Run(10 * time.Second)
		if got := [2]bool{has(1), has(2)}; got != step.want {
			t.Errorf("%s: hosts 1 and 2 have the key %v, want %v", step.name, got, step.want)
		}
	}
	told := 0
	for i := range m.Notices {
		if n := &m.Notices[i]; n.Kind == sm.KindAliasRefused && strings.Contains(n.Text, "no membership") {
			told++
		}
	}
	if told == 0 || told > 4 {
		t.Errorf("an alias that brings no membership is told of %d times", told)
	}
	// A manager that finds the alias in the port does not know who gave it.
	m.Kill()
	n, err := c.Start(firstCA(c.Fabric), quietConfig(), m.Store)
	if err != nil {
		t.Fatal(err)
	}
	n.SetAliases(nil)
	mustUp(t, c, n)
	c.Run(20 * time.Second)
	if has(1) || has(2) {
		t.Error("an alias that was found opens a partition")
	}
}
