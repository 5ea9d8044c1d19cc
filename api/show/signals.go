package show

import (
	"fmt"
	"time"

	"heddle/api"
	"heddle/sa"
	"heddle/subnet"
)

// Signals shows what subscribers were notified of; s may be nil.
func Signals(x *sa.SignalStats, peers []sa.SignalPeer, s *subnet.Snapshot) api.Signals {
	out := api.Signals{
		Mode: x.Mode.String(), Generation: generation(x.Gen), Settled: x.Settled, Due: x.Due, Levels: x.Levels, Unanswered: x.Unanswered,
		Changes: x.Changes, All: x.All, Paths: x.Paths, Failed: x.Failed, Spared: x.Spared, Hosts: make([]api.SignalHost, 0, len(peers)),
	}
	for i := range peers {
		p := &peers[i]
		h := api.SignalHost{
			GID: p.GID.String(), LID: int(p.LID), QP: p.QP, Generation: generation(p.Gen), State: "notified", Failed: p.Failed,
		}
		switch {
		case p.Latest:
		case p.Absent:
			h.State = "absent"
		case p.Sent:
			h.State = "sent"
		case p.Failed > 0:
			h.State = "silent"
		default:
			h.State = "due"
		}
		h.Level, h.Late = p.Level, p.Late.Round(time.Millisecond).Seconds()
		if s != nil {
			if at := s.PortByGID(p.GID); at >= 0 {
				h.Node = s.Nodes[s.Ports[at].Node].Desc
			}
		}
		out.Hosts = append(out.Hosts, h)
	}
	return out
}

// generation is history and number.
func generation(g uint64) string { return fmt.Sprintf("%08x-%d", uint32(g>>32), uint32(g)) }
