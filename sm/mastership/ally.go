package mastership

import (
	"time"

	"heddle/ib"
	"heddle/mad"
)

// Ally is another manager that has the same stored state: it and we lose nothing when one of us
// succeeds the other, so a dead one is found soon.
type Ally struct {
	GUID ib.GUID
	// Lives: it was heard on another channel, these moments.
	Lives bool
	// Heard: it lives, and says there that it is master. Then its silence in the
	// subnet counts only if it lasts: it may be busy.
	Heard bool
	// Silent: that channel is open to it, and it was not heard there. Of an ally without such a channel
	// nothing is known.
	Silent bool
}

// How a master that is an ally is polled, in place of Config.PollInterval and PollRetries. It is dead
// after allyMisses polls in a row without an answer, that is at most 0.32 s after its last one. A lost
// packet or two are no death.
const (
	allyInterval = 80 * time.Millisecond
	allyMisses   = 3
	heardMisses  = 40
)

// SetAllies replaces the allies.
func (s *Machine) SetAllies(list []Ally) {
	was := s.allies
	s.allies, s.silent = map[ib.GUID]bool{}, map[ib.GUID]bool{}
	for _, a := range list {
		s.allies[a.GUID], s.silent[a.GUID] = a.Heard, a.Silent
	}
	if !s.polling {
		return
	}
	guid := s.master.Info.GUID
	heard, ally := s.allies[guid]
	if before, known := was[guid]; !ally || known && (heard || !before) {
		return // nothing is more urgent than before
	}
	if s.missed >= allyMisses && !heard {
		s.masterLost(s.silence)
		return
	}
	s.pollAt = s.Now
}

// Silent reports whether a manager is an ally that is not known to live.
func (s *Machine) Silent(guid ib.GUID) bool { return s.silent[guid] }

// silentTimeout is that of the first of three questions to an ally that may be dead: its port says that a
// manager is there also after its host was stopped, and the sweep waits.
const silentTimeout = 100 * time.Millisecond

// Hasten sets the times of a question to an ally that may be dead.
func (s *Machine) Hasten(r *mad.Request) {
	r.Timeout, r.Retries = min(silentTimeout, s.Config.SMPTimeout), 2
}

// rhythm is how the master is polled, and how many polls without an answer are its death.
func (s *Machine) rhythm() (every time.Duration, misses int) {
	every, misses = s.Config.PollInterval, s.Config.PollRetries+1
	heard, ally := s.allies[s.master.Info.GUID]
	if !ally || every < allyInterval {
		return every, misses
	}
	if heard {
		return allyInterval, heardMisses
	}
	return allyInterval, allyMisses
}
