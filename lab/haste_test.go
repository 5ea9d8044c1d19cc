package lab

import (
	"encoding/binary"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sim"
)

// TestJoinPastSilence: a sweep meets nodes that have just fallen silent, whose time-outs
// take 3 s. A join whose switches are sound does not wait for them, nor does a cable that
// fails elsewhere.
func TestJoinPastSilence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		mute  []string
		sweep bool
	}{
		{"a switch, full sweep", []string{"sw-2-2"}, true},
		{"a host, full sweep", []string{"host-9"}, true},
		{"our own agent, full sweep", []string{"host-1"}, true},
		{"a switch with its neighbours, full sweep", []string{"sw-2-2", "sw-2-3", "sw-3-2", "sw-1-2", "sw-2-1"}, true},
		{"a switch, light sweep", []string{"sw-2-2"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, late := range []time.Duration{0, 5 * time.Millisecond, 60 * time.Millisecond, 300 * time.Millisecond, time.Second} {
				h := newHonest(t, gen(t, "torus", "4x4"), sim.Config{Seed: 1, HopLatency: time.Microsecond, SMALatency: 5 * time.Microsecond}, DefaultConfig(), nil)
				h.c.Run(15 * time.Second)
				for _, n := range tc.mute {
					if err := h.c.Sim.MuteSMA(n, true); err != nil {
						t.Fatal(err)
					}
				}
				if tc.sweep {
					h.m.Sweep(false)
				} else {
					h.c.Run(10 * time.Second)
				}
				h.c.Run(late)
				members := []int{0, 1} // on the first switches
				var tids []uint32
				for _, i := range members {
					tids = append(tids, h.join(i, 40))
				}
				var since mad.Time
				var mlid ib.LID
				limit := h.c.Sim.Now().Add(20 * time.Second)
				for {
					h.c.Run(time.Millisecond)
					done := 0
					for k := range tids {
						if b, ok := h.hosts[members[k]].Got(tids[k]); ok {
							done++
							if st := binary.BigEndian.Uint16(b[4:]); st != 0 {
								t.Fatalf("a join is refused: status %#x", st)
							}
							var r wire.MCMemberRecord
							_ = r.Decode(b[wire.HeaderLen:])
							mlid = r.MLID
						}
					}
					if done == len(tids) && since == 0 {
						since = h.c.Sim.Now()
					}
					if since != 0 && delivered(h.c, groupOf(mlid, h.guids[0], h.guids[1])) == nil {
						break
					}
					if h.c.Sim.Now() > limit {
						t.Fatal("the join is not in the tables after 20 s")
					}
				}
				if took := h.c.Sim.Now().Sub(since); took > joinBound {
					t.Errorf("%v after the sweep began: in the tables %v after it was acknowledged", late, took)
				}
				for i := range h.hosts {
					if l := h.lost(i); l != "" {
						t.Error(l)
					}
				}
				for _, n := range tc.mute {
					_ = h.c.Sim.MuteSMA(n, false)
				}
				if err := settled(h.c, h.m, time.Minute); err != nil {
					t.Error(err)
				}
				h.c.Run(20 * time.Second)
				if n := h.m.Snap.Counts.Unseen; n > 0 {
					t.Errorf("%d nodes that answer count as silent", n)
				}
			}
		})
	}
}
