package sa_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/sa"
	"heddle/subnet"
)

// TestReturnedGID: a GID that returns within MigrateTime with another LID causes trap
// 69 in addition to trap 64. A new GID, one that restarts at its old LID, and one that
// returns later do not (algorithm 1 of the signaling method for VMs).
func TestReturnedGID(t *testing.T) {
	without := func(s *subnet.Snapshot, guid ib.GUID) *subnet.Snapshot {
		g := clone(s)
		g.Ports[g.PortByPortGUID(guid)].EndPort = -1
		g.Finish()
		return g
	}
	s := vms()
	there := moved(s, 0xA1, 3, 2) // A1 has the LID of host 2, or of host 3 there
	for _, x := range []struct {
		what   string
		cfg    sa.Config
		away   time.Duration
		back   *subnet.Snapshot
		repath bool
	}{
		{"elsewhere", sa.Config{}, 9 * time.Second, there, true},
		{"where it was", sa.Config{}, time.Second, s, false},
		{"elsewhere, after too long", sa.Config{}, 10 * time.Second, there, false},
		{"elsewhere, in a longer time", sa.Config{MigrateTime: time.Minute}, 59 * time.Second, there, true},
		{"nothing is remembered", sa.Config{MigrateTime: -1}, 0, there, false},
	} {
		t.Run(x.what, func(t *testing.T) {
			x.cfg.Signal = sa.SignalRepath
			r := newFixture(t, s, x.cfg)
			for _, n := range []uint16{smp.TrapGIDInService, smp.TrapGIDOutOfService, smp.TrapRePath} {
				r.want(4, inform(trapNumber(n)), 0)
			}
			r.want(5, inform(trapNumber(smp.TrapGIDInService)), 0)
			r.reports() // what changed before the subscription
			told := func() string {
				list := []string{}
				for _, x := range r.reports() {
					switch d := x.n.Detail().(type) {
					case smp.DetailGID:
						list = append(list, fmt.Sprintf("%d:%d:%x", x.to, x.n.TrapNumber, uint64(d.GID.GUID())))
					case smp.DetailPath:
						if want := wire.PathCompSGID | wire.PathCompDGID; d.ComponentMask != uint64(want) || x.path.SGID != gidOf(3) {
							t.Errorf("%+v %+v", d, x.path)
						}
						list = append(list, fmt.Sprintf("%d:%d:%x", x.to, x.n.TrapNumber, uint64(x.path.DGID.GUID())))
					}
				}
				slices.Sort(list)
				return fmt.Sprint(list)
			}
			told()
			r.publish(without(s, 0xA1))
			if got := told(); got != "[4:65:a1]" {
				t.Errorf("gone: %v", got)
			}
			r.now = r.now.Add(x.away)
			r.publish(x.back)
			want := "[4:64:a1 5:64:a1]"
			if x.repath {
				want = "[4:64:a1 4:69:a1 5:64:a1]"
			}
			if got := told(); got != want {
				t.Errorf("back: %v, want %v", got, want)
			}
			// It is told once: who comes again is compared with where it was last.
			r.publish(without(x.back, 0xA1))
			told()
			r.publish(x.back)
			if got := told(); got != "[4:64:a1 5:64:a1]" {
				t.Errorf("again: %v", got)
			}
		})
	}
}

// TestMovedAliasAtDestination: a GUID of a function moves to another shared port. Its new port is
// notified like all others: its other functions may hold the path to the old LID.
func TestMovedAliasAtDestination(t *testing.T) {
	for _, mode := range []sa.Signal{sa.SignalTargeted, sa.SignalRepath} {
		s := vms()
		r := newFixture(t, s, sa.Config{Signal: mode})
		for _, lid := range []ib.LID{3, 4, 5} {
			r.want(lid, inform(trapNumber(smp.TrapRePath)), 0)
		}
		r.reports()
		for _, lid := range []ib.LID{3, 4, 5} { // a function of each uses it
			q := wire.PathRecord{SGID: s.GID(s.PortByLID(lid)), DGID: ib.MakeGID(s.Prefix, 0xC1)}
			r.want(lid, ask(ib.MethodGet, wire.AttrPathRecord, wire.PathCompSGID|wire.PathCompDGID, &q), 0)
		}
		there := clone(s)
		port(there, 5).Aliases = nil
		there.Finish()
		r.publish(there) // GUID deleted
		r.reports()
		there = clone(there)
		q := port(there, 4)
		q.Adapter, q.Info.GUIDCap, q.Aliases = port(s, 5).Adapter, 16, []ib.GUID{0, 0xC1}
		there.Finish()
		r.publish(there) // GUID set
		var told []ib.LID
		for _, x := range r.reports() {
			if x.n.TrapNumber != smp.TrapRePath || x.path.DGID.GUID() != 0xC1 {
				t.Errorf("%v: %+v %+v", mode, x.n, x.path)
			}
			told = append(told, ib.LID(x.to))
		}
		if slices.Sort(told); !slices.Equal(told, []ib.LID{3, 4, 5}) {
			t.Errorf("%v: LIDs %v are notified, want 3, 4 and 5", mode, told)
		}
	}
}
