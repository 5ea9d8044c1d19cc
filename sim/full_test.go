package sim

import (
	"testing"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestFullSubnet has nearly every unicast LID in use: 2,808 hosts with 17 LIDs each (as
// with virtual functions) on 72 switches, all tables written and read by SMPs, every
// LID reached.
func TestFullSubnet(t *testing.T) {
	const leaves, spines, hosts = 54, 18, 52
	f := tree(leaves, spines, hosts)
	if err := fabric.AssignLIDs(f, 17); err != nil {
		t.Fatal(err)
	}
	b := newTestbed(t, f, Config{}, "h0.0")
	answers := 0
	b.e.OnPacket = func(*mad.Packet) { answers++ }
	lids := b.s.LIDs()
	top := ib.LID(0)
	at := make([]fabric.Ref, 0xC000) // leaf and port of each LID; Node -1: none
	for i := range at {
		at[i].Node = -1
	}
	for _, l := range lids {
		top = max(top, l.LID+ib.LID(l.Num-1))
		for k := range l.Num {
			at[int(l.LID)+k] = fabric.Ref{Node: int32(l.Node), Port: l.Port}
			if p, ok := b.s.Peer(l.Node, int(l.Port)); ok && l.Port != 0 {
				at[int(l.LID)+k] = p
			}
		}
	}
	if top < 47000 {
		t.Fatalf("top LID %v", top)
	}
	leafOf := func(node int32) int { return (int(node) - spines) / (hosts + 1) }
	sent := 0
	send := func(m *ib.MAD, to mad.Addr) { sent++; b.e.Send(&mad.Packet{Addr: to, Data: m[:]}) }
	program := func(node int32, path []byte) {
		isSpine := node < spines
		var m ib.MAD
		for blk := uint32(0); blk <= uint32(top)/64; blk++ {
			smp.NewDR(&m, ib.MethodSet, smp.AttrLFT, blk, 0, path)
			row := smp.Data(&m)
			for i := range row {
				l := int(blk)*64 + i
				dst := at[l]
				switch {
				case dst.Node < 0:
					row[i] = smp.PortDrop
				case dst.Node == node:
					row[i] = dst.Port
				case isSpine && dst.Node < spines: // another spine: by way of the first leaf
					row[i] = 1
				case isSpine:
					row[i] = byte(leafOf(dst.Node) + 1)
				case dst.Node < spines:
					row[i] = byte(hosts + 1 + dst.Node)
				default:
					row[i] = byte(hosts + 1 + l%spines)
				}
			}
			send(&m, dr)
		}
		smp.NewDR(&m, ib.MethodSet, smp.AttrSwitchInfo, 0, 0, path)
		(&smp.SwitchInfo{LinearFDBTop: top}).Put(smp.Data(&m))
		send(&m, dr)
	}
	for sp := range int32(spines) {
		program(sp, []byte{1, byte(hosts + 1 + sp)})
	}
	for l := range int32(leaves) {
		path := []byte{1}
		if l > 0 {
			path = []byte{1, hosts + 1, byte(l + 1)}
		}
		program(spines+l*(hosts+1), path)
	}
	if answers != sent {
		t.Fatalf("%d of %d SMPs answered", answers, sent)
	}
	sent, answers = 0, 0
	var m ib.MAD
	for _, l := range lids {
		for _, lid := range [2]ib.LID{l.LID, l.LID + ib.LID(l.Num-1)} {
			smp.NewLID(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0)
			send(&m, mad.Addr{LID: lid})
		}
	}
	if answers != sent {
		t.Errorf("%d of %d LIDs answered", answers, sent)
	}
	if n := len(b.s.Tables(0).LFT); n > 0xC000 {
		t.Errorf("table of %d entries", n)
	}
}
