package show

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"heddle/api"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/sm"
	"heddle/subnet"
)

// TestHypervisorNames: the names by which a hypervisor can be given, also before it is
// known to be one, and invalid names.
func TestHypervisorNames(t *testing.T) {
	node := func(guid ib.GUID, desc string, first int32) subnet.Node {
		return subnet.Node{Info: smp.NodeInfo{NodeType: ib.NodeCA, NumPorts: 1, NodeGUID: guid}, Desc: desc, First: first, SwitchIndex: -1, OK: true}
	}
	s := &subnet.Snapshot{
		Up: true,
		Nodes: []subnet.Node{
			node(0x10, "H1", 0), node(0x20, "H2", 2), node(0x30, "twin", 4), node(0x40, "twin", 6),
		},
		Ports: []*subnet.Port{
			{EndPort: -1, Peer: subnet.NoRef()},
			{GUID: 0x11, Num: 1, LID: 1, Peer: subnet.NoRef(), Adapter: &subnet.Adapter{Model: subnet.VPorts, Functions: 2}},
			{EndPort: -1, Peer: subnet.NoRef(), Node: 1},
			{GUID: 0x21, Num: 1, LID: 2, Peer: subnet.NoRef(), Node: 1},
			{EndPort: -1, Peer: subnet.NoRef(), Node: 2},
			{GUID: 0x31, Num: 1, LID: 3, Peer: subnet.NoRef(), Node: 2},
			{EndPort: -1, Peer: subnet.NoRef(), Node: 3},
			{GUID: 0x41, Num: 1, LID: 4, Peer: subnet.NoRef(), Node: 3},
			{GUID: 0xAA, Num: 1, LID: 1, Peer: subnet.NoRef(), Virtual: &subnet.Virtual{Port: 1, Index: 1}},
		},
	}
	s.Finish()
	for name, want := range map[string]string{
		"H1":                 "0x0000000000000011",
		"0x0000000000000010": "0x0000000000000011",
		"0x0000000000000011": "0x0000000000000011",
		"H2":                 "0x0000000000000021", // whether it is one is not known yet
		"0x0000000000000099": "0x0000000000000099", // not there yet
		"":                   "which hypervisor",
		"twin":               "several ports",
		"nobody":             `description: "nobody" ('heddle ctl hypervisors' lists them)`,
		"0x00000000000000aa": "is a virtual port of 0x0000000000000011",
	} {
		got, err := HypervisorPort(s, name)
		if text := fmt.Sprint(got, " ", err); !strings.Contains(text, want) || (err != nil) != !strings.HasPrefix(want, "0x") {
			t.Errorf("%q: %s, want %s", name, text, want)
		}
	}
	if _, err := HypervisorPort(nil, "H1"); !errors.Is(err, api.ErrBusy) {
		t.Errorf("before the subnet is up: %v", err)
	}
}

// TestReady: the response to a readiness probe in each state.
func TestReady(t *testing.T) {
	up := sm.Status{Up: true, State: subnet.Master}
	silent, unseen := up, up
	silent.OwnSilent, unseen.Unseen = true, 3
	for _, c := range []struct {
		state State
		ready bool
		why   string
	}{
		{State{SM: up}, true, "subnet up"},
		{State{SM: silent}, true, "the agent of the manager's own port does not answer"},
		{State{SM: unseen}, true, "3 nodes do not answer"},
		{State{SM: sm.Status{State: subnet.Standby}}, true, "standby"},
		{State{SM: sm.Status{State: subnet.Discovering, Phase: sm.PhaseDiscover}}, false, "DISCOVERING, "},
		{State{SM: up, Unsaved: 2, UnsavedErr: errors.New("no space")}, false, "2 acknowledged changes are lost if the manager ends now: the store cannot be written: no space"},
	} {
		if ready, why := Ready(&c.state); ready != c.ready || !strings.Contains(why, c.why) {
			t.Errorf("%v, %q; want %v, %q", ready, why, c.ready, c.why)
		}
	}
}

// TestNothingYet: before the cores have published anything, lists are empty and
// nothing fails.
func TestNothingYet(t *testing.T) {
	st := Status(&State{})
	if st.SubnetUp || st.Generation != 0 {
		t.Errorf("status %+v", st)
	}
	if n := len(Nodes(nil)) + len(Links(nil)) + len(Groups(nil)) + len(Services(nil)) + len(Subscriptions(nil)) + len(Hypervisors(nil, nil)) + len(VPorts(nil)); n != 0 {
		t.Errorf("%d rows", n)
	}
	var a Artist
	if d := a.Draw(nil); d.Levels == nil || d.Links == nil {
		t.Errorf("a drawing must be lists in JSON: %+v", d)
	}
	if l, err := VMs(nil, nil, api.VMFilter{Limit: 5}); err != nil || l.Total != 0 || Pools(nil) != (api.VMPools{}) {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := Path(nil, nil, "1", "2"); err == nil || !strings.Contains(err.Error(), "not up") {
		t.Errorf("path: %v", err)
	}
}
