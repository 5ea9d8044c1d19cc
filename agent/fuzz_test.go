package agent_test

import (
	"testing"
	"time"

	"heddle/agent"
	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
)

// FuzzReceived: no packet upsets a core that waits for answers of all kinds, and what it has taken
// leaves it able to answer.
func FuzzReceived(f *testing.F) {
	var m ib.MAD
	wire.New(&m, ib.MethodReport, wire.AttrNotice, 0, 0)
	n := wire.Notice{Notice: smp.NewTrap(smp.TrapRePath, smp.ProducerClassManager, smLID, smp.DetailPath{
		ComponentMask: uint64(wire.PathCompSGID | wire.PathCompDGID | wire.PathCompDLID),
	})}
	n.Put(wire.Data(&m))
	p := wire.PathNotice{Path: wire.PathRecord{SGID: gid(1000), DGID: gid(1), DLID: 101, MTU: ib.MTU2048}, Generation: 7<<32 | 2, Before: 7<<32 | 1}
	p.Put(wire.Data(&m)[wire.NoticeLen:])
	f.Add(m[:], uint16(smLID))

	wire.New(&m, ib.MethodGetTableResp, wire.AttrPathChangeRecord, 0, 0)
	m[45] = wire.PathChangeRecordLen / 8
	changes := append([]byte(nil), m[:wire.HeaderLen]...)
	for _, r := range []wire.PathChangeRecord{{Generation: 7<<32 | 2, Head: true}, {Path: wire.PathRecord{DGID: gid(1)}, Lost: true}} {
		changes = append(changes, make([]byte, wire.PathChangeRecordLen)...)
		r.Put(changes[len(changes)-wire.PathChangeRecordLen:])
	}
	f.Add(changes, uint16(smLID))

	wire.New(&m, ib.MethodGetResp, wire.AttrPathRecord, 0, 0)
	r := wire.PathRecord{SGID: gid(1000), DGID: gid(2), SLID: ownLID, DLID: 102, MTU: ib.MTU2048, Reserved3: 1}
	r.Put(wire.Data(&m))
	f.Add(m[:], uint16(smLID))
	f.Add([]byte{}, uint16(0))

	f.Fuzz(func(t *testing.T, b []byte, from uint16) {
		x := newFixture(t, agent.Defaults())
		x.history, x.gen = 7, 1
		x.step(agent.Reregister{})
		x.run(100 * time.Millisecond)
		x.want(1, 1, agent.Found, agent.FromSA)
		// What it asks now, its own port registered again, stays open until the packet has come.
		open := make([]agent.Send, 0, 8)
		take := func(ev agent.Event) {
			var out agent.Output
			out.Reset()
			x.core.Step(x.now, ev, &out)
			x.timer, open = out.Timer, append(open, out.Sends...)
		}
		take(agent.Reregister{})
		x.tokens++
		take(agent.Ask{Token: x.tokens, Wait: time.Second, Query: agent.Query{
			Mask: wire.PathCompDGID, Record: wire.PathRecord{DGID: gid(2)},
		}})
		packet := func(tid uint64) *mad.Packet {
			d := append([]byte(nil), b...)
			if len(d) >= 16 && tid != 0 {
				copy(d[8:16], []byte{byte(tid >> 56), byte(tid >> 48), byte(tid >> 40), byte(tid >> 32), byte(tid >> 24), byte(tid >> 16), byte(tid >> 8), byte(tid)})
			}
			return &mad.Packet{Addr: mad.Addr{LID: ib.LID(from), QP: 1}, Data: d}
		}
		take(agent.Received{P: packet(0)})
		for i := range open[:len(open):len(open)] {
			take(agent.Received{P: packet(open[i].MAD.TID())})
		}
		for i := range open {
			x.serve(&open[i])
		}
		x.step(agent.SetPort{Port: port(smLID)})
		x.run(time.Minute)
		if a := x.get(3); a.Result != agent.Found || a.Record.DLID != 103 {
			t.Fatalf("afterwards: %+v", a)
		}
	})
}
