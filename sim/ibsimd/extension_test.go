package ibsimd

import (
	"bytes"
	"testing"

	"heddle/ib"
	"heddle/ib/sa"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sim"
	"heddle/transport/ibsim"
)

// program gives H1 to Hn of a star, in order, the LIDs from 1 on, as seen from
// H1, and makes the links Active.
func program(t *testing.T, c *ibsim.Conn, n int) {
	t.Helper()
	do := func(method ib.Method, attr ib.AttrID, mod uint32, data []byte, path ...byte) []byte {
		t.Helper()
		var m ib.MAD
		smp.NewDR(&m, method, attr, mod, 0, path)
		copy(smp.Data(&m), data)
		m.SetTID(7)
		send(t, c, &mad.Packet{Addr: mad.Addr{LID: ib.LIDPermissive}, Data: m[:]})
		p, r := recv(t, c)
		if st := smp.StatusOf(r); p.Status != mad.Received || st != 0 {
			t.Fatalf("attribute %v: %v", attr, st)
		}
		return bytes.Clone(smp.Data(r))
	}
	set := func(port uint32, lid ib.LID, st ib.PortState, path ...byte) {
		t.Helper()
		var pi smp.PortInfo
		if err := pi.Decode(do(ib.MethodGet, smp.AttrPortInfo, port, nil, path...)); err != nil {
			t.Fatal(err)
		}
		if lid != 0 {
			pi.LID, pi.MasterSMLID = lid, 1
		}
		pi.PortState, pi.PortPhysicalState, pi.LinkWidthEnabled, pi.LinkSpeedEnabled = st, 0, 0, 0
		b := make([]byte, 64)
		pi.Put(b)
		do(ib.MethodSet, smp.AttrPortInfo, port, b, path...)
	}
	lft := bytes.Repeat([]byte{0xFF}, 64)
	for i := 1; i <= n; i++ {
		lft[i] = byte(i)
	}
	do(ib.MethodSet, smp.AttrLFT, 0, lft, 1)
	var si smp.SwitchInfo
	if err := si.Decode(do(ib.MethodGet, smp.AttrSwitchInfo, 0, nil, 1)[:smp.SwitchInfoLen]); err != nil {
		t.Fatal(err)
	}
	si.LinearFDBTop = ib.LID(n)
	b := make([]byte, 64)
	si.Put(b)
	do(ib.MethodSet, smp.AttrSwitchInfo, 0, b, 1)
	for _, st := range []ib.PortState{0, ib.StateArmed, ib.StateActive} {
		for i := 1; i <= n; i++ {
			var path []byte
			if i > 1 {
				path = []byte{1, byte(i)}
			}
			lid := ib.LID(0)
			if st == 0 {
				lid = ib.LID(i)
			} else {
				set(uint32(i), 0, st, 1)
			}
			set(1, lid, st, path...)
		}
	}
}

// query is a request for a table, as H1 with LID 1 would get it.
func query(tid uint64) *mad.Packet {
	var m ib.MAD
	sa.New(&m, ib.MethodGetTable, sa.AttrNodeRecord, 0, 0)
	m.SetTID(tid)
	return &mad.Packet{Addr: mad.Addr{LID: 1, QP: 1}, LocalQP: 1, Data: m[:]}
}

// request is the next one of the SA's class: there are traps too.
func request(t *testing.T, c *ibsim.Conn) (*mad.Packet, *ib.MAD) {
	t.Helper()
	for {
		if p, m := recv(t, c); m.Class() == ib.ClassSA {
			return p, m
		}
	}
}

// TestReassembleFlag: a manager on this protocol learns from each request whether its
// sender reassembles RMPP messages; a stock client does not.
func TestReassembleFlag(t *testing.T) {
	b := serve(t, star(t, 5), sim.Config{}, Options{})
	manager := b.dial(t, "H1")
	if !manager.TellsRequesters() {
		t.Fatal("it does not say that it tells")
	}
	program(t, manager, 5)
	if err := manager.SetIsSM(true); err != nil {
		t.Fatal(err)
	}
	stock := newRaw(t, b.srv.SockName(), "H2", false)
	segments, err := ibsim.Dial(t.Context(), ibsim.Options{Node: "H3", SockName: b.srv.SockName(), Reassembles: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { segments.Close() })
	plain := b.dial(t, "H4")
	device, err := b.drv.Port("H5") // what is on a virtual device is an endpoint like this
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()

	ask := map[ib.LID]func(){
		2: func() {
			var d dataMsg
			d.PutHeader(1, 0, 1, 1, 0, ib.MADLen)
			copy(d.MAD()[:], query(2).Data)
			stock.write(t, d[:dataLen])
		},
		3: func() { send(t, segments, query(3)) },
		4: func() { send(t, plain, query(4)) },
		5: func() { send(t, device, query(5)) },
	}
	for lid, single := range map[ib.LID]bool{2: true, 3: false, 4: true, 5: false} {
		ask[lid]()
		p, m := request(t, manager)
		if p.Addr.LID != lid || m.AttrID() != sa.AttrNodeRecord || p.SingleMAD != single {
			t.Errorf("a request from LID %d, attribute %v: one MAD only: %v; want LID %d, %v", p.Addr.LID, m.AttrID(), p.SingleMAD, lid, single)
		}
	}
}

// TestWholeAddress: between peers with the extension, a GRH and the rest of an address
// are transmitted in both directions; a stock client gets messages of ibsim's length.
func TestWholeAddress(t *testing.T) {
	b := serve(t, star(t, 3), sim.Config{}, Options{})
	manager, client := b.dial(t, "H1"), b.dial(t, "H2")
	program(t, manager, 3)
	if err := manager.SetIsSM(true); err != nil {
		t.Fatal(err)
	}
	gid := func(c *ibsim.Conn) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, c.PortGUID()) }
	q := query(1)
	q.Addr.SL, q.Addr.HasGRH = 3, true
	q.Addr.GRH = mad.GRH{GID: gid(manager), HopLimit: 9, TrafficClass: 5, FlowLabel: 0x12345}
	send(t, client, q)
	p, m := request(t, manager)
	want := mad.Addr{LID: 2, QP: 1, SL: 3, HasGRH: true, GRH: q.Addr.GRH}
	want.GRH.GID = gid(client)
	if p.Addr != want {
		t.Errorf("the request came from %+v, want %+v", p.Addr, want)
	}
	m.SetMethod(ib.MethodGetTableResp)
	send(t, manager, p)
	p, _ = recv(t, client)
	want.LID, want.GRH.GID = 1, gid(manager)
	if p.Addr != want {
		t.Errorf("the answer came from %+v, want %+v", p.Addr, want)
	}
	stock := newRaw(t, b.srv.SockName(), "H3", false)
	var d dataMsg
	d.PutHeader(1, 0, 1, 1, 0, ib.MADLen)
	copy(d.MAD()[:], query(3).Data)
	stock.write(t, d[:dataLen])
	p, m = request(t, manager)
	if p.Addr.HasGRH || p.Addr.LID != 3 {
		t.Errorf("a stock client asked from %+v", p.Addr)
	}
	m.SetMethod(ib.MethodGetTableResp)
	p.Addr.SL = 3
	send(t, manager, p)
	stock.recv(t) // it wants just as many bytes
}
