package sa_test

import (
	"slices"
	"testing"
	"time"

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
			r := newFixture(b, s, sa.Config{})
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
				begin := time.Now()
				r.publish(now)
				longest = max(longest, time.Since(begin))
				b.StopTimer()
				r.sends, r.replies = nil, nil
				r.publish(s)
				r.sends, r.replies = nil, nil
				b.StartTimer()
			}
			b.ReportMetric(float64(longest.Milliseconds()), "ms-longest")
		})
	}
}

// TestManyPathEvents: when very many paths change, affected subscribers get one Report
// that names all paths, and others none; when too many change to compare, every
// subscriber gets one.
func TestManyPathEvents(t *testing.T) {
	for _, c := range []struct {
		hosts string
		told  [2]int // subscribers behind the leaf that changes and behind another one
	}{{"2916", [2]int{1, 0}}, {"11664", [2]int{1, 1}}} {
		s := fabricSnapshot(t, minhop.Engine{}, 0, 1, "fattree", c.hosts)
		var hosts []int32
		for _, p := range s.EndPortPort {
			if s.Ports[p].Num != 0 {
				hosts = append(hosts, p)
			}
		}
		ends := [2]int32{hosts[len(hosts)-1], hosts[0]}
		r := newFixture(t, s, sa.Config{})
		for _, p := range ends {
			r.want(s.Ports[p].LID, set(wire.AttrInformInfo, 0, &wire.InformInfo{
				LIDRangeBegin: wire.InformAllLIDs, IsGeneric: 1, Subscribe: 1, Type: wire.InformAllTypes, TrapNumber: smp.TrapRePath,
				Producer: wire.InformAllProducers,
			}), 0)
		}
		now := clone(s)
		now.Tables = s.Tables.Clone()
		row := now.Tables.LFT[s.Graph.EndPorts[s.Ports[ends[0]].EndPort].Switch]
		up := s.Nodes[s.Ports[ends[0]].Peer.Node].Info.NumPorts
		for l, p := range row {
			if p > up/2 && p <= up {
				row[l] = up/2 + 1 + (p-up/2)%(up-up/2)
			}
		}
		r.publish(now)
		var got [2]int
		for _, x := range r.reports() {
			for i, p := range ends {
				if x.to == s.Ports[p].LID {
					got[i]++
				}
			}
			if x.path != (wire.PathRecord{SGID: x.path.SGID}) {
				t.Errorf("%s hosts: told of one path: %+v", c.hosts, x.path)
			}
		}
		if got != c.told {
			t.Errorf("%s hosts: %v Reports, want %v", c.hosts, got, c.told)
		}
	}
}
