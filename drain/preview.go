package drain

import (
	"errors"
	"fmt"
	"time"

	"heddle/ib"
	"heddle/route/preview"
	"heddle/subnet"
)

// LinkAt is the link between switches at a port. The graph of s has it, unless it is drained already.
func LinkAt(s *subnet.Snapshot, guid ib.GUID, port int) (a subnet.PortAction, channel int32, err error) {
	g := s.Graph
	i, ok := g.SwitchByGUID(guid)
	if !ok {
		return a, 0, fmt.Errorf("%v is no switch of the subnet: the link of a host is the last path to it", guid)
	}
	if n := s.NodeByGUID(guid); n >= 0 && (port < 1 || port >= len(s.NodePorts(n))) {
		return a, 0, fmt.Errorf("%v has no port %d: its ports are 1 to %d", guid, port, len(s.NodePorts(n))-1)
	}
	if port < 1 || port >= len(g.PortChannel[i]) || g.PortChannel[i][port] < 0 {
		for _, e := range g.EndPorts {
			if e.Switch == i && int(e.Port) == port && e.Type != ib.NodeSwitch {
				return a, 0, fmt.Errorf("port %d of %v leads to a host: it is the last path to it", port, guid)
			}
		}
		return a, 0, fmt.Errorf("port %d of %v has no link with routes to another switch", port, guid)
	}
	channel = g.PortChannel[i][port]
	ch := &g.Channels[channel]
	return subnet.PortAction{Node: guid, Port: uint8(port), Peer: g.Switches[ch.To].GUID, PeerPort: ch.InPort}, channel, nil
}

// ErrManagerLink is the error for the link of the manager's own port, which is never taken out of use.
var ErrManagerLink = errors.New("it is the link of the manager itself, which is never taken out of use")

// HostAt is the link of a switch to a host at a port, which can be isolated by force. The manager's own
// link cannot.
func HostAt(s *subnet.Snapshot, guid ib.GUID, port int) (a subnet.PortAction, err error) {
	i := s.NodeByGUID(guid)
	if i < 0 || s.Nodes[i].Info.NodeType != ib.NodeSwitch || port < 1 || port >= len(s.NodePorts(i)) {
		return a, fmt.Errorf("%v has no port %d, or is no switch: name the switch's end of a host's link", guid, port)
	}
	peer := s.NodePorts(i)[port].Peer
	if peer.Node < 0 {
		return a, fmt.Errorf("port %d of %v has no link", port, guid)
	}
	if peer == s.Self || s.Self == (subnet.Ref{Node: i, Port: uint8(port)}) {
		return a, ErrManagerLink
	}
	if s.Nodes[peer.Node].Info.NodeType == ib.NodeSwitch {
		return a, fmt.Errorf("port %d of %v leads to a switch", port, guid)
	}
	return subnet.PortAction{Node: guid, Port: uint8(port), Peer: s.Nodes[peer.Node].Info.NodeGUID, PeerPort: peer.Port}, nil
}

// fresh is for how long the tables may still have a link that was taken out of use.
const fresh = time.Minute

// Preview computes the effect of tables without a link. others are links that are out of use: those
// of the last minute count as removed. It refuses a link that is the last one to a part of the
// subnet, and one without which no tables can be proved. It takes seconds in a large subnet.
func Preview(s *subnet.Snapshot, channel int32, others []subnet.PortAction, now time.Time, r preview.Routing) (preview.Result, error) {
	out := []int32{channel}
	for i := range others {
		if a := &others[i]; a.Kind != subnet.Restore && now.Sub(a.Since) < fresh {
			if _, ch, err := LinkAt(s, a.Node, int(a.Port)); err == nil && ch != channel {
				out = append(out, ch)
			}
		}
	}
	return preview.Without(s.Graph, out, s.Tables, r)
}

// Resolve completes a candidate with the far end of its link, and previews it. It takes as long as
// Preview.
func (x *Candidate) Resolve(s *subnet.Snapshot, others []subnet.PortAction, now time.Time, r preview.Routing) (preview.Result, error) {
	if x.full != nil {
		return preview.Result{}, x.full
	}
	link, channel, err := LinkAt(s, x.Action.Node, int(x.Action.Port))
	if err != nil {
		return preview.Result{}, err
	}
	x.Action.Peer, x.Action.PeerPort = link.Peer, link.PeerPort
	return Preview(s, channel, others, now, r)
}

// Entries is the number of installed entries of a switch that lead to one of its ports.
func Entries(s *subnet.Snapshot, guid ib.GUID, port uint8) (n int) {
	i := s.NodeByGUID(guid)
	if i < 0 || s.Tables == nil {
		return 0
	}
	sw := s.Nodes[i].SwitchIndex
	if sw < 0 || int(sw) >= s.Tables.Switches() {
		return 0
	}
	for l := 1; l <= int(s.Tables.TopLID); l++ {
		if s.Tables.Entry(sw, ib.LID(l)) == port {
			n++
		}
	}
	return n
}
