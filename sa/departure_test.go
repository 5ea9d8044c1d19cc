package sa_test

import (
	"fmt"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/sa"
)

// changesSince asks for what changed since a generation.
func changesSince(r *fixture, from ib.LID, gen uint64) (list []wire.PathChangeRecord) {
	r.t.Helper()
	q := ask(ib.MethodGetTable, wire.AttrPathChangeRecord, wire.PathChangeCompGeneration, &wire.PathChangeRecord{Generation: gen})
	b := r.ask(from, q)
	if status(b) != 0 {
		r.t.Fatalf("status %v", status(b))
	}
	for b = b[wire.HeaderLen:]; len(b) >= wire.PathChangeRecordLen; b = b[wire.PathChangeRecordLen:] {
		var x wire.PathChangeRecord
		if err := x.Decode(b[:wire.PathChangeRecordLen]); err != nil {
			r.t.Fatal(err)
		}
		list = append(list, x)
	}
	return list
}

// TestDepartures: who asks what changed since a generation learns which GIDs left, so that a lost
// Report of trap 65 does no harm for longer than until the next question. Nobody gets a Report
// of trap 68 or 69 for it, and nobody learns of a port of another partition.
func TestDepartures(t *testing.T) {
	for _, mode := range []sa.Signal{sa.SignalTargeted, sa.SignalRepath, sa.SignalHybrid, sa.SignalWildcard} {
		t.Run(mode.String(), func(t *testing.T) {
			s := snapshot(5, 0)
			s.Ports[s.PortByLID(6)].PKeys = []ib.PKey{0x8001}
			s.Finish()
			r := newFixture(t, s, sa.Config{Signal: mode})
			for _, lid := range []ib.LID{3, 4, 5} {
				r.want(lid, inform(trapNumber(smp.TrapRePath)), 0)
			}
			r.reports()
			gen := changesSince(r, 4, 0)[0].Generation
			want := func(what string, records ...string) {
				t.Helper()
				if n := len(r.reports()); n > 0 {
					t.Errorf("%s: %d Reports", what, n)
				}
				list := changesSince(r, 4, gen)
				if list[0].All || !list[0].Head {
					t.Fatalf("%s: %+v", what, list[0])
				}
				gen = list[0].Generation
				got := []string{}
				for _, x := range list[1:] {
					at := s.PortByGID(x.Path.DGID)
					got = append(got, fmt.Sprintf("%d lost %v, LID %d, MTU %d", s.Ports[at].LID, x.Lost, x.Path.DLID, x.Path.MTU))
				}
				if fmt.Sprint(got) != fmt.Sprint(records) {
					t.Errorf("%s: %v, want %v", what, got, records)
				}
			}
			want("nothing changed")
			before := gen
			r.publish(without(s, 3))
			want("host 3 left", "3 lost true, LID 3, MTU 0")
			if gen == before {
				t.Error("the generation is the same")
			}
			r.publish(without(s, 3, 6))
			want("a host of another partition left")
			r.publish(without(s, 3, 5, 6))
			r.publish(without(s, 6))
			want("host 5 was away, host 3 is back", "5 lost false, LID 5, MTU 0")
			gen = before
			want("since the beginning", "3 lost false, LID 3, MTU 0", "5 lost false, LID 5, MTU 0")

			// A subscriber that left has nothing to be notified of: the history is settled.
			r.publish(without(s, 5))
			r.until(r.now.Add(5 * time.Second))
			if x := r.core.Signals(); !x.Settled || x.Due != 0 {
				t.Errorf("%+v", x)
			}
		})
	}
}
