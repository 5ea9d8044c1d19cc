package pkeymgr

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
	"heddle/partition"
	"heddle/sm/env/envtest"
	"heddle/sm/notice"
	"heddle/sm/topo"
	"heddle/sm/vport"
	"heddle/sm/work"
	"heddle/store"
	"heddle/subnet"
)

// TestTranscripts plays three hosts, h1 to h3, at a switch that can enforce partitions. The manager
// is at h1. Commands:
//
//	load                what the store holds is loaded: nothing, as the first start finds it
//	policy [tag=N] [was=W]  a policy is set, in the format of partitions.conf; W: what it is to
//	                    replace, base (that in force now) or default
//	members [tag=N]     the address manager sets memberships, one a line: NAME P_KEY HOST=full|limited…
//	saved, unsaved      the store wrote what it was given, or could not
//	hold PORT P_KEY…    what a table holds, without the manager; PORT is a host or switch:N
//	agent PORT HOW      how an agent behaves: answer, mute (no answer), refuse (no such table),
//	                    busy (asks to have each request later),
//	                    lose (a Set is applied and its answer lost)
//	upkeep              what the manager does until it has nothing more to do now
//	arrive HOST [reset] a sweep finds the host, whose link is in Init; reset: its agent was reset
//	keeps               the manager is master and cannot know what another one gave
//	drop HOST           what is kept at the host is dropped
//	leave HOST          the host leaves the subnet
//	pass D              virtual time passes
//	master              another mastership begins
//	show                what the tables hold, and how far the policy is carried out
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		b := newStage(3)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b.do(t, d)
			return b.Record()
		})
	})
}

// stage is a manager, the other parts and the agents.
type stage struct {
	*envtest.Board
	m       *Manager
	table   map[*topo.Port][]ib.PKey
	how     map[*topo.Port]string
	keeps   bool      // what nothing gives is kept
	decided []ib.PKey // but for these
}

func newStage(hosts int) *stage {
	b := &stage{Board: envtest.New(hosts), table: map[*topo.Port][]ib.PKey{}, how: map[*topo.Port]string{}}
	sw := &b.Fabric.Nodes[0].Switch
	sw.PartitionEnforcementCap, sw.InboundEnforcementCap, sw.OutboundEnforcementCap = 32, true, true
	for i := range b.Fabric.Ports {
		if p := &b.Fabric.Ports[i]; p.Has(topo.PortLinked) {
			b.table[p] = make([]ib.PKey, 32)
			b.table[p][0] = ib.PKeyDefaultFull
		}
	}
	b.m = New(&b.Env, Needs{b, b, b, b, b})
	return b
}

// The other parts: no virtual ports, aliases or placements.
func (b *stage) Carried(ib.GUID) []ib.GUID                           { return nil }
func (b *stage) Holder(ib.GUID) ib.GUID                              { return 0 }
func (b *stage) Owner(ib.GUID) ib.GUID                               { return 0 }
func (b *stage) TellUnowned(bool)                                    {}
func (b *stage) Adapter(ib.GUID) *vport.Adapter                      { return nil }
func (b *stage) All() []*vport.Adapter                               { return nil }
func (b *stage) KnownBehind(*topo.Port) bool                         { return true }
func (b *stage) Look(vport.Ref)                                      {}
func (b *stage) Show(vport.Ref)                                      {}
func (b *stage) KeysConfirmed(vport.Ref)                             {}
func (b *stage) Wanted(vport.Ref) vport.Want                         { return vport.Want{} }
func (b *stage) PortOf(ib.GUID) ib.GUID                              { return 0 }
func (b *stage) EachPortWithAlias(func(ib.GUID) bool, func(ib.GUID)) {}
func (b *stage) Expects(subnet.Place) bool                           { return false }
func (b *stage) Last() *topo.Topology                                { return nil }
func (b *stage) Plausible(*topo.Port, *smp.PortInfo) error           { return nil }
func (b *stage) AskRegion(_ int32, why string)                       { b.Printf("region sweep asked for: %s\n", why) }
func (b *stage) Publish()                                            {}
func (b *stage) Keeps() bool                                         { return b.keeps }
func (b *stage) Decided(k ib.PKey) bool                              { return slices.Contains(b.decided, k.Base()) }

func (b *stage) Decide(keys []ib.PKey) []store.Op {
	if b.keeps {
		b.Printf("decided about %v\n", keys)
		b.decided = append(b.decided, keys...)
	}
	return nil
}

// Build makes the requests; those about enforcement are made by the part that owns links.
func (b *stage) Build(it work.Item, get func(ib.AttrID, uint32), set func(ib.AttrID, uint32) []byte) bool {
	p := b.Fabric.PortOf(it.Node(), it.Port())
	switch it.Op() {
	case work.OpEnforced:
		get(smp.AttrPortInfo, uint32(p.Num))
	case work.OpEnforce:
		pi := p.Info
		pi.PartitionEnforcementInbound, pi.PartitionEnforcementOutbound = b.m.EnforceNow(p)
		pi.Put(set(smp.AttrPortInfo, uint32(p.Num)))
	default:
		return b.m.Build(it, get, set)
	}
	return true
}

func (b *stage) Answered(it work.Item, comp *mad.Completion) { b.m.Answered(it, comp) }

// port finds a port by its name in a transcript.
func (b *stage) port(t *testing.T, name string) *topo.Port {
	if n, ok := strings.CutPrefix(name, "switch:"); ok {
		i, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		return b.Fabric.PortOf(0, uint8(i))
	}
	return b.Host(t, name)
}

func key(t *testing.T, s string) ib.PKey {
	k, err := strconv.ParseUint(s, 0, 16)
	if err != nil {
		t.Fatal(err)
	}
	return ib.PKey(k)
}

func (b *stage) do(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string { return d.CmdArgs[i].Key }
	var tag uint64
	d.MaybeScanArgs(t, "tag", &tag)
	switch d.Cmd {
	case "load":
		b.m.Load(nil)
		b.m.Start()
	case "policy":
		p, _, err := partition.Parse(strings.NewReader(d.Input), "policy")
		if err != nil {
			t.Fatal(err)
		}
		var was *partition.Policy
		if a, ok := d.Arg("was"); ok {
			was = map[string]*partition.Policy{"default": partition.Default(), "base": b.m.Base()}[a.Vals[0]]
		}
		b.m.Set(p, was, tag)
	case "members":
		b.m.SetMembers(b.members(t, d.Input), tag)
	case "saved":
		b.Unsaved = nil
		b.m.Saved(b.SaveGen, nil)
	case "unsaved":
		b.m.Saved(b.SaveGen, errors.New("disk full"))
	case "hold":
		l := b.table[b.port(t, arg(0))]
		clear(l)
		for i := range d.CmdArgs[1:] {
			l[i] = key(t, arg(i+1))
		}
	case "agent":
		b.how[b.port(t, arg(0))] = arg(1)
	case "upkeep":
		b.upkeep()
	case "arrive":
		b.arrive(b.Host(t, arg(0)), d.HasArg("reset"))
	case "keeps":
		b.keeps, b.State = true, subnet.Master
		b.m.LookAll()
	case "drop":
		host := b.Host(t, arg(0)).GUID
		b.m.DropKept(func(port ib.GUID) bool { return port == host })
	case "leave":
		b.Leave(b.Host(t, arg(0)))
	case "pass":
		dur, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatal(err)
		}
		b.Pass(dur)
		if b.m.NextMembers() <= b.Now {
			b.m.RetryMembers()
		}
	case "master":
		b.m.Forget()
		b.m.BecomeMaster()
	case "show":
		b.show()
	default:
		d.Fatalf(t, "no such command")
	}
}

func (b *stage) members(t *testing.T, input string) (out []partition.Partition) {
	for l := range strings.Lines(input) {
		w := strings.Fields(l)
		p := partition.Partition{Name: w[0], PKey: key(t, w[1])}
		for _, x := range w[2:] {
			host, as, _ := strings.Cut(x, "=")
			n := partition.Member{GUID: b.Host(t, host).GUID, As: partition.Limited}
			if as == "full" {
				n.As = partition.Full
			}
			p.Members = append(p.Members, n)
		}
		out = append(out, p)
	}
	return out
}

func (b *stage) upkeep() {
	for b.m.Due() {
		b.m.Upkeep(100)
		if b.Pending == 0 {
			break
		}
		b.Run(b, b.answer)
	}
	if b.m.Next() != mad.Never {
		b.Printf("more in %v\n", b.m.Next().Sub(b.Now))
	}
}

// arrive plays the phases of the sweep that finds a host.
func (b *stage) arrive(p *topo.Port, reset bool) {
	if !slices.Contains(b.Fabric.EndPort, b.Fabric.Nodes[p.Node].First+1) {
		b.Return(p)
	}
	q := b.Switch(p)
	p.Info.PortState, q.Info.PortState = ib.StateInit, ib.StateInit
	if reset {
		p.Info.LID = 0
		clear(b.table[p])
		b.table[p][0] = ib.PKeyDefaultFull
	}
	b.Phase = notice.PhaseDiscover
	b.m.Discovered(p)
	b.Run(b, b.answer)
	b.Phase = notice.PhaseAssign
	b.m.Sweep(p)
	b.m.Sweep(q)
	b.Run(b, b.answer)
	if in, out := b.m.EnforceNow(q); in || out {
		q.Info.PartitionEnforcementInbound, q.Info.PartitionEnforcementOutbound = in, out
		b.Printf("the link comes up; the switch enforces partitions\n")
	} else {
		b.Printf("the link comes up\n")
	}
	p.Info.PortState, q.Info.PortState, p.Info.LID = ib.StateActive, ib.StateActive, p.LID
	b.Fabric.Nodes[p.Node].Flags &^= topo.NodeNew
	b.Phase = notice.PhaseUpkeep
	b.Sweeps++
	b.m.LookAll()
}

func (b *stage) show() {
	for i := 1; i <= 3; i++ {
		p := b.Fabric.Port(subnet.Ref{Node: int32(i), Port: 1})
		q := b.Switch(p)
		b.Printf("%s:%s; %s:%s", b.Name(p), keys(b.table[p]), b.Name(q), keys(b.table[q]))
		if q.Info.PartitionEnforcementInbound || q.Info.PartitionEnforcementOutbound {
			b.Printf(", enforced")
		}
		b.Printf("\n")
	}
	s := b.m.Status()
	b.Printf("%d partitions, settled: %v", s.Count, s.Settled)
	if s.Pending > 0 {
		b.Printf(", %d ports pending", s.Pending)
	}
	if len(s.Quarantined) > 0 {
		b.Printf(", in quarantine: %v", s.Quarantined)
	}
	b.Printf("\n")
}

func keys(l []ib.PKey) string {
	var s strings.Builder
	for _, k := range partition.Trim(l) {
		if k == 0 {
			s.WriteString(" -")
		} else {
			s.WriteString(fmt.Sprintf(" %04x", uint16(k)))
		}
	}
	if s.String() == "" {
		return " none"
	}
	return s.String()
}

// answer is the agent of a port.
func (b *stage) answer(s *envtest.SMP) (ib.Status, error) {
	what := map[bool]string{false: "Get", true: "Set"}[s.Set]
	p := s.Port
	if s.Attr == smp.AttrPortInfo {
		var pi smp.PortInfo
		_ = pi.Decode(s.Data)
		if s.Set {
			in, out := pi.PartitionEnforcementInbound, pi.PartitionEnforcementOutbound
			b.Printf("Set(PortInfo) %s: enforce inbound %v, outbound %v\n", b.Name(p), in, out)
		} else {
			b.Printf("Get(PortInfo) %s\n", b.Name(p))
			pi = p.Info
		}
		if b.how[p] == "mute" {
			return 0, mad.ErrTimeout
		}
		pi.Put(s.Data)
		return 0, nil
	}
	var tab smp.PKeyTable
	if s.Set {
		_ = tab.Decode(s.Data)
		b.Printf("%s(P_KeyTable) %s:%s\n", what, b.Name(p), keys(tab[:]))
	} else {
		b.Printf("%s(P_KeyTable) %s\n", what, b.Name(p))
	}
	switch b.how[p] {
	case "mute":
		return 0, mad.ErrTimeout
	case "refuse":
		return ib.StatusInvalidField, nil
	case "busy":
		return ib.StatusBusy, nil
	}
	if s.Set {
		copy(b.table[p], tab[:])
		if b.how[p] == "lose" {
			return 0, mad.ErrTimeout
		}
	}
	copy(tab[:], b.table[p])
	tab.Put(s.Data)
	return 0, nil
}
