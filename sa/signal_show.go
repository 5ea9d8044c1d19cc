package sa

import (
	"time"

	"heddle/ib"
	"heddle/mad"
)

// Signals says what has become of Reports about paths. It may be called between Steps.
func (c *Core) Signals() SignalStats {
	x := &c.signals
	s := x.stats
	s.Mode, s.Gen, s.Settled = x.cfg.Signal, x.log.Gen(), x.history.settled
	s.Unanswered, s.Levels, s.Known = x.flight, x.left, x.held.Sources()
	c.subscriptions.eachPathPeer(func(p *peer) {
		if s.Subscribers++; p.path.told != s.Gen {
			s.Due++
		}
	})
	return s
}

// SignalPeer is a subscriber to traps 68 or 69, and what it was notified of.
type SignalPeer struct {
	GID    ib.GID
	LID    ib.LID
	QP     uint32
	Gen    uint64        // the generation that it acknowledged
	Latest bool          // that is the newest
	Sent   bool          // a Report to it is outstanding
	Level  bool          // it has to learn a service level
	Absent bool          // its port is not in the subnet
	Failed int           // consecutive Reports without a response
	Late   time.Duration // how long it has had to be notified; 0: it has not
}

// SignalPeers lists the subscribers to traps 68 and 69: those first that have not acknowledged the
// newest generation, then by GID. It may be called between Steps.
func (c *Core) SignalPeers(now mad.Time) (list []SignalPeer) {
	gen := c.signals.log.Gen()
	for _, latest := range [...]bool{false, true} {
		c.subscriptions.eachPathPeer(func(p *peer) {
			if latest != (p.path.told == gen) {
				return
			}
			late := time.Duration(0)
			if !latest && p.path.since != mad.Never {
				late = now.Sub(p.path.since)
			}
			list = append(list, SignalPeer{
				GID: p.gid, LID: p.addr.LID, QP: p.addr.QP, Gen: p.path.told, Latest: latest, Sent: p.path.out, Level: p.path.level,
				Absent: p.port < 0, Failed: p.failed, Late: late,
			})
		})
	}
	return list
}
