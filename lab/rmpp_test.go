package lab

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sim"
)

// segmenting is a port of the simulated subnet with an RMPP engine.
type segmenting struct {
	c      *Cluster
	ep     *sim.Endpoint
	rmpp   *mad.RMPP
	alarm  *Alarm
	got    func(p *mad.Packet) // whole messages
	ended  map[uint64]error
	closed bool
}

func (c *Cluster) segmenting(t testing.TB, node string) *segmenting {
	t.Helper()
	ep, err := c.Sim.Attach(node)
	if err != nil {
		t.Fatal(err)
	}
	s := &segmenting{c: c, ep: ep, rmpp: mad.NewRMPP(mad.RMPPConfig{}), ended: map[uint64]error{}}
	s.alarm = NewAlarm(c.Sim, func() mad.Time {
		if s.closed {
			return mad.Never
		}
		return s.rmpp.NextTimer()
	}, func(now mad.Time) {
		if !s.closed {
			s.rmpp.Expire(now, s.raw, s.done)
		}
	})
	ep.Accepts = func(p *mad.Packet) bool { return ib.Class(p.Data[1]) == ib.ClassSA }
	ep.OnPacket = func(p *mad.Packet) {
		whole, kind := s.rmpp.Receive(c.Sim.Now(), p, s.raw, s.done)
		if kind == mad.RMPPMessage && s.got != nil {
			s.got(whole)
		}
		s.alarm.Set()
	}
	return s
}

func (s *segmenting) lid() ib.LID                  { return s.ep.PortInfo().LID }
func (s *segmenting) raw(p *mad.Packet)            { s.ep.Send(p) }
func (s *segmenting) done(token uint64, err error) { s.ended[token] = err }

func (s *segmenting) send(t testing.TB, to ib.LID, msg []byte, reply bool, token uint64) {
	t.Helper()
	p := &mad.Packet{Addr: mad.Addr{LID: to, QP: 1}, LocalQP: 1, Data: msg}
	if err := s.rmpp.Send(s.c.Sim.Now(), p, reply, token, s.raw); err != nil {
		t.Fatal(err)
	}
	s.alarm.Set()
}

// vanish takes the program away without a word.
func (s *segmenting) vanish() {
	s.closed = true
	s.ep.Close()
}

// table is a message of n records of size bytes, by method.
func table(method ib.Method, tid uint64, n, size int) []byte {
	var m ib.MAD
	wire.New(&m, method, wire.AttrLinkRecord, 0, 0)
	m.SetTID(tid)
	m[26] = wire.RMPPActive
	b := append(make([]byte, 0, wire.HeaderLen+n*size), m[:wire.HeaderLen]...)
	r := rand.New(rand.NewPCG(tid, uint64(n)))
	for range n * size {
		b = append(b, byte(r.Uint32()))
	}
	return b
}

func tidOf(p *mad.Packet) uint64 { return binary.BigEndian.Uint64(p.Data[8:]) & (1<<48 - 1) }

// bad makes the subnet lose, repeat and reorder one MAD in twenty each.
func (c *Cluster) bad() {
	c.Sim.SetDrop(0.05)
	c.Sim.SetDuplicate(0.05)
	c.Sim.SetReorder(0.05)
}

func servedHosts(t testing.TB, seed uint64) (*Cluster, []string) {
	t.Helper()
	f := gen(t, "xgft", "1", "6", "1")
	c, _ := serveUp(t, f, sim.Config{Seed: seed, HopLatency: time.Microsecond, ReorderMax: 100 * time.Microsecond})
	var ids []string
	for i := range f.Nodes {
		if f.Nodes[i].Type == ib.NodeCA && f.Nodes[i].ID != firstCA(f) {
			ids = append(ids, f.Nodes[i].ID)
		}
	}
	return c, ids
}

// Tables of 50,000 records go whole through a port that loses, reorders and
// duplicates 5 % of MADs each: as an answer, as a request, and both ways
// at once.
func TestTablesOverBadPort(t *testing.T) {
	c, ids := servedHosts(t, 1)
	a, b := c.segmenting(t, ids[0]), c.segmenting(t, ids[1])
	c.bad()
	const records = 50_000
	want := map[uint64][]byte{}
	whole := 0
	take := func(p *mad.Packet) {
		// The ports write their own tag over the top of a request's transaction ID.
		if !bytes.Equal(p.Data[wire.HeaderLen:], want[tidOf(p)][wire.HeaderLen:]) {
			t.Errorf("message %d: %d bytes, or others, of %d", tidOf(p), len(p.Data), len(want[tidOf(p)]))
		}
		whole++
	}
	a.got, b.got = take, take
	for i, x := range []struct {
		from, to *segmenting
		method   ib.Method
		size     int
	}{
		{a, b, ib.MethodGetMulti, wire.LinkRecordLen},
		{b, a, ib.MethodGetMulti, wire.PathRecordLen},
		{a, b, ib.MethodGetMulti, wire.NodeRecordLen},
		{b, a, ib.MethodGetTableResp, wire.LinkRecordLen},
		{b, a, ib.MethodGetTableResp, wire.PathRecordLen},
		{b, a, ib.MethodGetTableResp, wire.ServiceRecordLen},
	} {
		tid := uint64(i + 1)
		if x.method.IsResponse() {
			tid |= uint64(x.to.ep.Tag()) << 48 // an answer finds its requester by that
		}
		msg := table(x.method, tid, records, x.size)
		want[uint64(i+1)] = msg
		x.from.send(t, x.to.lid(), msg, !x.method.IsResponse(), uint64(i+1))
	}
	begin := c.Sim.Now()
	if err := c.RunUntil(40*time.Second, func() bool { return whole == len(want) }); err != nil {
		t.Fatalf("%d of %d tables arrived: %v, %v, %v", whole, len(want), err, a.ended, b.ended)
	}
	t.Logf("%d tables of %d records in %v", whole, records, c.Sim.Now().Sub(begin))
	c.Run(60 * time.Second)
	for _, s := range []*segmenting{a, b} {
		for token, err := range s.ended {
			if err != nil {
				t.Errorf("transfer %d: %v", token, err)
			}
		}
		if tx, rx := s.rmpp.Transfers(); tx+rx != 0 {
			t.Errorf("%d and %d transfers are left", tx, rx)
		}
	}
	if len(a.ended) != 2 || len(b.ended) != 4 {
		t.Errorf("%d and %d transfers ended", len(a.ended), len(b.ended))
	}
}

// Programs that vanish in the middle of transfers, whichever side they were
// on, cost nothing lasting, and nobody else anything at all.
func TestVanishingPeers(t *testing.T) {
	c, ids := servedHosts(t, 2)
	server, steady := c.segmenting(t, ids[0]), c.segmenting(t, ids[1])
	c.bad()
	r := rand.New(rand.NewPCG(7, 7))
	arrived, token := 0, uint64(0)
	steady.got = func(*mad.Packet) { arrived++ }
	rounds := 0
	for range 30 {
		ghost := c.segmenting(t, ids[2+rounds%3])
		for range 3 {
			token++
			server.send(t, ghost.lid(), table(ib.MethodGetTableResp, token|uint64(ghost.ep.Tag())<<48, 2000, wire.PathRecordLen), false, token)
			token++
			ghost.send(t, server.lid(), table(ib.MethodGetMulti, token, 2000, wire.PathRecordLen), true, token)
		}
		token++
		server.send(t, steady.lid(), table(ib.MethodGetTableResp, token|uint64(steady.ep.Tag())<<48, 1000, wire.PathRecordLen), false, token)
		c.Run(time.Duration(r.IntN(200_000)) * time.Microsecond)
		ghost.vanish()
		rounds++
	}
	c.Run(90 * time.Second)
	if arrived != rounds {
		t.Errorf("%d of %d messages came to who stayed", arrived, rounds)
	}
	for _, s := range []*segmenting{server, steady} {
		if tx, rx := s.rmpp.Transfers(); tx+rx != 0 {
			t.Errorf("%d and %d transfers are left", tx, rx)
		}
	}
	if len(server.ended) != 4*rounds {
		t.Errorf("%d of %d transfers ended", len(server.ended), 4*rounds)
	}
}
