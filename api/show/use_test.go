package show

import (
	"reflect"
	"testing"
	"time"

	"heddle/api"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/subnet"
)

// meter is a Meter that measures what it is told.
type meter Measurement

func (m meter) Measure() Measurement { return Measurement(m) }

// TestUse: of parallel links the busiest counts, in each direction; ports of hosts count at their
// switch; what the snapshot does not have is left out.
func TestUse(t *testing.T) {
	// Switches 0 and 1 with two cables (ports 1 and 2), and a host on port 3 of switch 0.
	node := func(typ ib.NodeType, guid ib.GUID, ports uint8, first, sw int32) subnet.Node {
		return subnet.Node{Info: smp.NodeInfo{NodeType: typ, NumPorts: ports, NodeGUID: guid}, First: first, SwitchIndex: sw, OK: true}
	}
	s := &subnet.Snapshot{
		Gen: 9, Up: true,
		Nodes: []subnet.Node{node(ib.NodeSwitch, 0x10, 3, 0, 0), node(ib.NodeSwitch, 0x20, 2, 4, 1), node(ib.NodeCA, 0x30, 1, 7, -1)},
	}
	port := func(n int32, num uint8, peer subnet.Ref) {
		s.Ports = append(s.Ports, &subnet.Port{Node: n, Num: num, EndPort: -1, Peer: peer})
	}
	ref := func(n int32, p uint8) subnet.Ref { return subnet.Ref{Node: n, Port: p} }
	port(0, 0, subnet.NoRef())
	port(0, 1, ref(1, 1))
	port(0, 2, ref(1, 2))
	port(0, 3, ref(2, 1))
	port(1, 0, subnet.NoRef())
	port(1, 1, ref(0, 1))
	port(1, 2, ref(0, 2))
	port(2, 0, subnet.NoRef())
	port(2, 1, ref(0, 3))
	s.Finish()
	m := meter{Source: "a test", Span: 2 * time.Second, Sent: []Sent{
		{0x10, 1, 0.25, 100},
		{0x10, 2, 0.5, 100},
		{0x20, 1, 0.125, 100},
		{0x20, 2, 0, 100},
		{0x10, 3, 0.75, 25},
		{0x30, 1, 2, 25},
		{0x99, 1, 1, 25},
		{0x10, 9, 1, 25},
	}}
	want := api.Use{
		Generation: 9, Source: "a test", Seconds: 2,
		Links: []api.LinkUse{{A: 0, B: 1, AB: 0.5, BA: 0.125, Gbps: 100}},
		Hosts: []api.HostUse{{Switch: 0, Up: 1, Down: 0.75}},
	}
	if got := Use(s, m); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want\n%+v", got, want)
	}
	for _, u := range []api.Use{Use(nil, m), Use(s, nil)} {
		if u.Source != "" || u.Links == nil || u.Hosts == nil {
			t.Errorf("without subnet or meter: %+v", u)
		}
	}
}
