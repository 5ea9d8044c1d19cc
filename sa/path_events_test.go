package sa_test

import (
	"slices"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
	"heddle/route/engine/minhop"
	"heddle/route/engine/updn"
	"heddle/sa"
	"heddle/subnet"
)

// BenchmarkPathEvents is one step that tells of new paths: every path of 11,664
// hosts may be another one, and one host or all of them want to hear of it.
func BenchmarkPathEvents(b *testing.B) {
	s := fabricSnapshot(b, minhop.Engine{}, 0, 1, "fattree", "11664")
	t, err := updn.Engine{}.Compute(s.Graph, route.Options{Workers: 2})
	if err != nil {
		b.Fatal(err)
	}
	whole, few := clone(s), clone(s)
	whole.Tables = t
	// From a few leaves there is another way to everybody: no path of any other
	// host begins anew, but all LIDs are to be looked at for each.
	few.Tables = s.Tables.Clone()
	for i := range int32(12) {
		sw := s.Graph.EndPorts[s.Ports[s.EndPortPort[len(s.EndPortPort)-1-int(i)*18]].EndPort].Switch
		row := slices.Clone(few.Tables.LFT[sw])
		for l, p := range row {
			if p > 18 && p <= 36 {
				row[l] = 19 + (p-19+1)%18
			}
		}
		few.Tables.LFT[sw] = row
	}
	for _, c := range []struct {
		name string
		now  *subnet.Snapshot
		each int
	}{{"whole/one", whole, 1 << 30}, {"whole/all", whole, 1}, {"few/all", few, 1}} {
		now := c.now
		b.Run(c.name, func(b *testing.B) {
			r := newFixture(b, s, sa.Config{Signal: sa.SignalRepath})
			var list []sa.Request
			for i, p := range s.EndPortPort {
				if i%c.each != 0 {
					continue
				}
				q := set(wire.AttrInformInfo, 0, &wire.InformInfo{
					LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: smp.TrapRePath,
					Producer: wire.InformAllProducers,
				})
				list = append(list, sa.Request{From: mad.Addr{LID: s.Ports[p].LID, QP: 1}, Data: q})
			}
			r.step(sa.Requests{List: list})
			var longest time.Duration
			for b.Loop() {
				longest = max(longest, publishAll(r, now))
				b.StopTimer()
				r.reports()
				publishAll(r, s)
				r.reports()
				b.StartTimer()
			}
			b.ReportMetric(float64(longest.Milliseconds()), "ms-longest")
		})
	}
}

// publishAll publishes a snapshot and lets the core do all that it begins. It returns the time of
// the longest step.
func publishAll(r *fixture, s *subnet.Snapshot) (longest time.Duration) {
	begin := time.Now()
	for r.publish(s); r.timer <= r.now; r.step(sa.Timer{}) {
		longest = max(longest, time.Since(begin))
		begin = time.Now()
	}
	return max(longest, time.Since(begin))
}

// TestManyPathEvents: when the service levels of all paths from a leaf change, hosts behind it get
// one Report that names all paths, and others none. No step compares more than its share.
func TestManyPathEvents(t *testing.T) {
	s := fabricSnapshot(t, minhop.Engine{}, 0, 1, "fattree", "2916")
	var hosts []int32
	for _, p := range s.EndPortPort {
		if s.Ports[p].Num != 0 {
			hosts = append(hosts, p)
		}
	}
	ends := [2]int32{hosts[len(hosts)-1], hosts[0]}
	s.Tables = s.Tables.Clone()
	s.Tables.SwitchClasses(s.Graph)
	s.Tables.SL = make([]ib.SL, len(s.Graph.Switches)*s.Tables.NumClasses)
	r := newFixture(t, s, sa.Config{Signal: sa.SignalRepath})
	for _, p := range ends {
		r.want(s.Ports[p].LID, inform(trapNumber(smp.TrapRePath)), 0)
	}
	r.reports()
	now := clone(s)
	now.PacketLife = s.PacketLife
	now.Tables = s.Tables.Clone()
	now.Tables.SL = slices.Clone(s.Tables.SL)
	leaf := int(s.Graph.EndPorts[s.Ports[ends[0]].EndPort].Switch)
	for c := range now.Tables.NumClasses {
		now.Tables.SL[leaf*now.Tables.NumClasses+c] = 1
	}
	r.publish(now)
	steps := 1
	for ; r.timer <= r.now; steps++ {
		r.step(sa.Timer{})
	}
	if least := len(s.Graph.Switches) * len(s.EndPortPort) >> 17; steps < least {
		t.Errorf("%d steps for a comparison that takes at least %d", steps, least)
	}
	var got [2]int
	for _, x := range r.reports() {
		for i, p := range ends {
			if x.to == s.Ports[p].LID {
				got[i]++
			}
		}
		if x.path != (wire.PathRecord{SGID: x.path.SGID}) {
			t.Errorf("told of one path: %+v", x.path)
		}
	}
	if got != [2]int{1, 0} {
		t.Errorf("%v Reports, want one to the host behind the leaf, none to another", got)
	}
}
