package sa_test

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/route/engine/ftree"
	"heddle/sa"
	"heddle/subnet"
)

// hostPairs are queries for paths between random pairs of hosts, each sent by
// its source: by GID as kernels ask, with the components of RDMA CM.
func hostPairs(s *subnet.Snapshot, n int) []sa.Request {
	var hosts []int32
	for i := range s.Ports {
		if p := s.Ports[i]; p.EndPort >= 0 && p.Num != 0 {
			hosts = append(hosts, int32(i))
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	out := make([]sa.Request, n)
	for i := range out {
		a, b := hosts[rnd.IntN(len(hosts))], hosts[rnd.IntN(len(hosts))]
		const mask = wire.PathCompSGID | wire.PathCompDGID | wire.PathCompPKey | wire.PathCompNumbPath | wire.PathCompReversible |
			wire.PathCompServiceID8 | wire.PathCompServiceID56 | wire.PathCompQoSClass
		out[i] = sa.Request{From: mad.Addr{LID: s.Ports[a].LID, QP: 1}, Data: ask(ib.MethodGet, wire.AttrPathRecord, mask, &wire.PathRecord{
			SGID: s.GID(a), DGID: s.GID(b), PKey: ib.PKeyDefaultFull, NumbPath: 1, Reversible: true, ServiceID: 0x1000000,
		})}
	}
	return out
}

// BenchmarkPathRecordParallel answers path queries between random pairs of
// 11,664 hosts on all cores.
func BenchmarkPathRecordParallel(b *testing.B) {
	s := fabricSnapshot(b, ftree.Engine{}, 0, 1, "fattree", "11664")
	src := &sa.Source{Snap: s, Opt: &sa.Options{SAKey: 7}}
	reqs := hostPairs(s, 1<<14)
	var worker atomic.Uint32
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 0, 512)
		for i := int(worker.Add(1)) * 4099; pb.Next(); i++ {
			out, v := sa.Answer(src, &reqs[i%len(reqs)], buf)
			if v != sa.Answered || binary.BigEndian.Uint16(out[4:]) != 0 {
				b.Error("no path")
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
}

// BenchmarkPathTable answers the query for all paths of 648 hosts.
func BenchmarkPathTable(b *testing.B) {
	s := fabricSnapshot(b, ftree.Engine{}, 0, 1, "fattree", "648")
	req := sa.Request{From: mad.Addr{LID: 1}, Data: ask(ib.MethodGetTable, wire.AttrPathRecord, 0, nil)}
	src := source(s)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = sa.Answer(src, &req, buf[:0])
	}
	n := (len(buf) - wire.HeaderLen) / wire.PathRecordLen
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// TestPathRecordAllocates nothing.
func TestPathRecordAllocates(t *testing.T) {
	s := fabricSnapshot(t, ftree.Engine{}, 0, 1, "fattree", "324")
	src, reqs, buf := source(s), hostPairs(s, 64), make([]byte, 0, 512)
	i := 0
	if n := testing.AllocsPerRun(500, func() {
		sa.Answer(src, &reqs[i%len(reqs)], buf)
		i++
	}); n != 0 {
		t.Errorf("%v allocations for a path answer", n)
	}
}
