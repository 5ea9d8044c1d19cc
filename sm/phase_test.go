package sm

import (
	"strings"
	"testing"

	"heddle/sm/notice"
)

// TestFollows: every phase can be reached from idle and leads back to it, and one that may not
// follow is told and has everything read again.
func TestFollows(t *testing.T) {
	reach := func(from notice.Phase) map[notice.Phase]bool {
		seen := map[notice.Phase]bool{}
		var walk func(p notice.Phase)
		walk = func(p notice.Phase) {
			for _, q := range follows[p] {
				if !seen[q] {
					seen[q] = true
					walk(q)
				}
			}
		}
		walk(from)
		return seen
	}
	for p := range notice.NumPhases {
		if !reach(notice.PhaseIdle)[p] || !reach(p)[notice.PhaseIdle] {
			t.Errorf("phase %v is not between idle and idle", p)
		}
	}
	cfg := Defaults()
	cfg.PortGUID = 1
	c := New(cfg)
	var out Output
	c.out, c.Output = &out, &out
	c.enter(notice.PhaseActivate)
	if len(out.Notices) != 1 || out.Notices[0].Kind != notice.KindInternal || !strings.Contains(out.Notices[0].Text, "phase activate began in phase idle") ||
		!c.agenda.ReadsAll() || !demandedAgain(c) {
		t.Errorf("told %v", out.Notices)
	}
}

func demandedAgain(c *Core) bool {
	_, again := c.agenda.Demanded()
	return again
}
