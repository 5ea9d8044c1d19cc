package experiment

import (
	"testing"
	"time"

	"heddle/internal/need"
)

// tick is a clock on which every computation takes a microsecond.
func tick() func() time.Duration {
	var now time.Duration
	return func() time.Duration {
		now += time.Microsecond
		return now
	}
}

// TestFigure12 is V41: on a network of 8 switches and 7 hosts, what is lost while ports are
// down is what hosts offer then, within 5 %; and all of it is lost for a reason that the
// change has.
func TestFigure12(t *testing.T) { testFigure12(t, 30_000, 2) }

// TestFigure12Whole is the same at the full rate, at which more than 75,000 packets are lost in
// the end.
func TestFigure12Whole(t *testing.T) {
	need.Long(t)
	testFigure12(t, rate12, 0)
}

func testFigure12(t *testing.T, rate float64, most int) {
	_, all, err := figure12(&Options{Seed: 1, Clock: tick()}, rate, most)
	if err != nil {
		t.Fatal(err)
	}
	top := 0.0
	for kind := range all {
		for _, c := range all[kind] {
			for k, l := range c.by {
				name := c.node + " " + changeKinds[kind] + ", " + lossMethods[k].name
				if err := l.causesFit(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if l.noticed <= 0 || l.noticed > 101*time.Millisecond || l.done < l.noticed {
					t.Errorf("%s: noticed after %v, done after %v", name, l.noticed, l.done)
				}
				if l.delivered == 0 || kind == removal && l.unnoticed == 0 {
					t.Errorf("%s: %d packets delivered, %.0f lost before anybody noticed", name, l.delivered, l.unnoticed)
				}
				if !lossMethods[k].static {
					// A block at a time is written while traffic flows.
					if l.pause > time.Millisecond {
						t.Errorf("%s: nothing is delivered for %v", name, l.pause)
					}
					continue
				}
				top = max(top, l.lost)
				if l.pause < l.distribute/2 || l.pause > l.distribute {
					t.Errorf("%s: nothing is delivered for %v, ports are down for %v", name, l.pause, l.distribute)
				}
				// What is lost from the first port down on is about that, and ramps before and after.
				if l.static < l.inPause*0.99 || l.static > 1.5*l.inPause || l.before+l.static != l.lost {
					t.Errorf("%s: %.0f lost in the gap, %.0f once ports were taken down, %.0f in all", name, l.inPause, l.static, l.lost)
				}
				if off := l.inPause / l.offered; off < 0.95 || off > 1.05 {
					t.Errorf("%s: %.0f lost in a gap of %v, %.0f offered", name, l.inPause, l.pause, l.offered)
				}
			}
		}
	}
	if rate == rate12 && top <= 75_000 {
		t.Errorf("at most %.0f packets are lost", top)
	}
	for _, c := range figure12Sections(1, rate, all)[0].Claim {
		t.Logf("%s: %s (%v)", c.What, c.Measured, c.Holds)
	}
}
