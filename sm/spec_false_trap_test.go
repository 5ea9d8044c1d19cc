package sm_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sm/notice"
)

// hostTraps are the traps that a host might forge.
var hostTraps = []uint16{
	smp.TrapPortStateChange, smp.TrapLocalPhyErrors, smp.TrapBufferOverrun, smp.TrapFlowCtlWatchdog, smp.TrapLocalChange,
	smp.TrapSystemImageGUID, smp.TrapBadMKey, smp.TrapBadPKey, smp.TrapBadQKey, smp.TrapBadPKeySwitchPort,
	smp.TrapVPortState, smp.TrapVPortChange, smp.TrapVPortBadPKey, 999,
}

// heard counts the notices of a kind.
func (d *duel) heard(k notice.Kind) (n int) {
	for i := range d.m.Notices {
		if d.m.Notices[i].Kind == k {
			n++
		}
	}
	return n
}

// A trap in the name of another node, by its issuer or by the LID in its details, or from a
// LID that nobody has, changes nothing: no sweep, nothing said of the other node, nothing
// forwarded. It is repressed, told of once, and a light sweep looks.
func TestFalseTrap(t *testing.T) {
	for _, number := range hostTraps {
		for _, how := range []string{"issuer", "details", "nobody"} {
			if how == "details" && (number > smp.TrapSystemImageGUID || number == 999) {
				continue // they name no LID of their issuer
			}
			d := newDuel(t, "H1", specConfig())
			d.up()
			d.run(time.Second)
			was := d.m.Status()
			image := d.m.Snap.Nodes[d.m.Snap.NodeByGUID(0x100004)].Info.SystemImageGUID
			m := trapMAD(number, 3, 1)
			if number == smp.TrapSystemImageGUID {
				det := smp.DetailImage{LID: 3, SystemImageGUID: 0xBAD}
				n := smp.NewTrap(number, smp.ProducerCA, 3, det)
				n.Put(smp.Data(&m))
			}
			var n smp.Notice
			_ = n.Decode(smp.Data(&m))
			from := mad.Addr{LID: 2}
			switch how {
			case "details":
				n.IssuerLID = 2
			case "nobody":
				from.LID, n.IssuerLID = 0x1234, 0x1234
			}
			n.Put(smp.Data(&m))
			for range 3 {
				d.m.Inject(&mad.Packet{Addr: from, Data: m[:]})
			}
			d.run(time.Second)
			st := d.m.Status()
			if st.Sweeps != was.Sweeps || st.Light-was.Light > 1 {
				t.Errorf("trap %d, %s: %d sweeps and %d light ones", number, how, st.Sweeps-was.Sweeps, st.Light-was.Light)
			}
			if u, s, k := d.heard(notice.KindPortUnhealthy), d.heard(notice.KindSecurity), d.heard(notice.KindTrap); u+s+k > 0 {
				t.Errorf("trap %d, %s: %d times unhealthy, %d security, %d traps", number, how, u, s, k)
			}
			if f := d.heard(notice.KindTrapFalse); f != 1 || st.FalseTraps != 3 || len(d.m.Traps) != 0 {
				t.Errorf("trap %d, %s: %d warnings of %d false traps, %d forwarded; want 1, 3, 0", number, how, f, st.FalseTraps, len(d.m.Traps))
			}
			if got := d.m.Snap.Nodes[d.m.Snap.NodeByGUID(0x100004)].Info.SystemImageGUID; got != image {
				t.Errorf("trap %d, %s: SystemImageGUID became %v", number, how, got)
			}
		}
	}
}

// What a node says of itself in trap 145 counts only as it is read back.
func TestTrap145ReadBack(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	var m ib.MAD
	smp.NewLID(&m, ib.MethodTrap, smp.AttrNotice, 0, 0)
	n := smp.NewTrap(smp.TrapSystemImageGUID, smp.ProducerCA, 2, smp.DetailImage{LID: 2, SystemImageGUID: 0xBAD})
	n.Put(smp.Data(&m))
	at := d.m.Snap.NodeByGUID(d.m.Snap.Nodes[d.m.Snap.Ports[d.m.Snap.PortByLID(2)].Node].Info.NodeGUID)
	was := d.m.Snap.Nodes[at].Info.SystemImageGUID
	d.trap(m)
	if got := d.m.Snap.Nodes[at].Info.SystemImageGUID; got != was {
		t.Errorf("SystemImageGUID became %v, which the node does not have", got)
	}
	if g := d.count(ib.MethodGet, smp.AttrNodeInfo); g != 1 {
		t.Errorf("NodeInfo was read %d times", g)
	}
}

// Five hosts that send traps of every kind as fast as they can, from their own LIDs and from
// ones that they make up, cost a bounded number of sweeps, messages and memory, and make
// nothing untrue.
func TestTrapFlood(t *testing.T) {
	d := newDuel(t, "H1", specConfig())
	d.up()
	d.run(time.Second)
	was := d.m.Status()
	images := map[ib.GUID]ib.GUID{}
	for _, n := range d.m.Snap.Nodes {
		images[n.Info.NodeGUID] = n.Info.SystemImageGUID
	}
	notices := len(d.m.Notices)
	rng := rand.New(rand.NewPCG(11, 8))
	const seconds, each = 10, 2000
	for range seconds * 100 {
		for range each / 100 {
			from := ib.LID(2 + rng.IntN(2))
			if rng.IntN(2) == 0 {
				from = ib.LID(rng.IntN(0xC000))
			}
			issuer := from
			if rng.IntN(2) == 0 {
				issuer = ib.LID(rng.IntN(6))
			}
			number := hostTraps[rng.IntN(len(hostTraps))]
			if rng.IntN(3) == 0 {
				number = uint16(rng.Uint32())
			}
			m := trapMAD(number, issuer, uint8(rng.Uint32()))
			if rng.IntN(3) == 0 {
				data := smp.Data(&m)
				for i := 0; i < 54; i += 8 {
					binary.LittleEndian.PutUint64(data[i:], rng.Uint64())
				}
			}
			d.m.Inject(&mad.Packet{Addr: mad.Addr{LID: from}, Data: m[:]})
		}
		d.run(10 * time.Millisecond)
	}
	st := d.m.Status()
	said := len(d.m.Notices) - notices
	t.Logf("%d traps, %d of them false: %d sweeps, %d light sweeps, %d messages", st.Traps-was.Traps, st.FalseTraps, st.Sweeps-was.Sweeps, st.Light-was.Light, said)
	// Two hosts and a switch, some 15 kinds each, are noisy after ten.
	if n := st.Sweeps - was.Sweeps; n > 60 {
		t.Errorf("%d sweeps", n)
	}
	if said > 700 {
		t.Errorf("%d messages", said)
	}
	for _, n := range d.m.Snap.Nodes {
		if images[n.Info.NodeGUID] != n.Info.SystemImageGUID {
			t.Errorf("%v: SystemImageGUID %v, was %v", n.Info.NodeGUID, n.Info.SystemImageGUID, images[n.Info.NodeGUID])
		}
	}
	if got := d.m.Snap.Counts; got.CAs != 3 || got.Switches != 1 {
		t.Errorf("the subnet became %+v", got)
	}
}
