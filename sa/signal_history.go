package sa

import (
	"encoding/binary"
	"fmt"

	"heddle/mad"
	"heddle/sa/pathlog"
	"heddle/store"
	"heddle/subnet"
)

// history is the stored part of signals: the newest generation, and whether all subscribers have
// it. A change is stored before the first Report about it, so a manager that starts again knows
// whether hosts were notified of all that it finds. If not, or if it cannot know because another
// manager was master, it notifies all.
type history struct {
	gen      uint64 // stored, or being stored; 0: there is no history
	settled  bool   // all subscribers had gen when the tables had digest
	digest   uint64
	other    bool     // another manager was master since
	settling bool     // settle has something to look at
	quiet    mad.Time // not before
	at       uint64   // the store generation of gen
	stored   bool     // the record exists; not before somebody subscribes to traps 68 or 69
}

const (
	historyVersion = 1
	historyLen     = 18
)

var historyKey = []byte{0}

func (h *history) load(r *store.Record) error {
	b := r.Value
	if len(r.Key) != 1 || len(b) != historyLen || b[0] != historyVersion {
		return fmt.Errorf("the record of path generations with key %x and %d bytes is not of version %d; hosts are notified of all paths", r.Key, len(b), historyVersion)
	}
	h.stored = true
	h.gen, h.settled, h.digest = binary.BigEndian.Uint64(b[2:]), b[1] == 1, binary.BigEndian.Uint64(b[10:])
	return nil
}

func (h *history) save(c *Core) {
	if !h.stored {
		c.subscriptions.eachPathPeer(func(*peer) { h.stored = true })
		if !h.stored {
			return
		}
	}
	b := make([]byte, 2, historyLen)
	b[0] = historyVersion
	if h.settled {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, h.gen)
	c.save(store.TablePathHistory, historyKey, binary.BigEndian.AppendUint64(b, h.digest))
	h.at = c.persistGen + 1
}

// resume is for the first snapshot of a mastership. It reports whether all subscribers have been
// notified of the paths that they find.
func (h *history) resume(c *Core, s *subnet.Snapshot) bool {
	if h.gen != 0 && h.settled && !h.other && h.digest == pathlog.Digest(s) {
		return true
	}
	h.other = false
	if uint32(h.gen) == 0 || uint32(h.gen) == 1<<32-1 {
		// A new history. Its number must not be that of another manager of the subnet.
		x := uint64(s.PortGUID)*0x9E3779B97F4A7C15 ^ uint64(c.wall+int64(c.now))*0xD6E8FEB86659FD93
		h.gen = max(x>>32, 1) << 32
	}
	h.began(c, h.gen+1)
	return false
}

// began stores a new generation.
func (h *history) began(c *Core, gen uint64) {
	h.gen, h.settled = gen, false
	h.save(c)
}

// settleSoon has settle look, after paths were the same for a while.
func (h *history) settleSoon(now mad.Time) {
	if !h.settling {
		h.settling, h.quiet = true, now.Add(settleAfter)
	}
}

// settle stores that all subscribers have the newest generation, if they have.
func (h *history) settle(c *Core) {
	x := &c.signals
	if !h.settling || h.quiet > c.now || !x.idle() {
		return
	}
	h.settling = false
	if len(x.stale) > 0 || x.peers == 0 {
		return
	}
	late := false
	c.subscriptions.eachPathPeer(func(p *peer) { late = late || p.path.told != x.log.Gen() })
	if late {
		return
	}
	if d := pathlog.Digest(x.base) ^ c.slow.paths.Hash(); !h.settled || d != h.digest || !h.stored {
		h.settled, h.digest = true, d
		h.save(c)
	}
}
