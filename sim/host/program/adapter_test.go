package program

import (
	"testing"

	"heddle/ib"
	"heddle/sim/dataplane"
	"heddle/sim/host/adapter"
	"heddle/sim/host/rc"
)

// TestList: queue pairs are listed in the order of their creation, and a packet for
// one that is gone reaches nobody, not even a new one in its place.
func TestList(t *testing.T) {
	b := newTestbed(t, 3)
	a := b.hosts[0]
	var cs []*adapter.Connection
	for range 5 {
		c, err := a.Connect(adapter.Options{MTU: 2048, Window: 4}, &Sink{})
		must(t, err)
		cs = append(cs, c)
	}
	cs[1].Destroy()
	cs[4].Destroy()
	c, err := a.Connect(adapter.Options{MTU: 2048, Window: 4}, &Sink{})
	must(t, err)
	got := a.Connections()
	want := []*adapter.Connection{cs[0], cs[2], cs[3], c}
	if len(got) != len(want) || a.Live() != 4 {
		t.Fatalf("%d in the list, %d live", len(got), a.Live())
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("place %d", i)
		}
	}
	if c.QPN() == cs[4].QPN() || c.QPN()&0xFFFF != cs[4].QPN()&0xFFFF {
		t.Errorf("number %#x follows %#x in one slot", c.QPN(), cs[4].QPN())
	}
	s, k, x := b.stream(t, 1, 0, 4096)
	b.e.Run(50 * dataplane.Microsecond)
	list := a.Connections()
	list[len(list)-1].Destroy()
	n, _ := k.Got()
	b.e.Run(10 * dataplane.Millisecond)
	if m, _ := k.Got(); m != n || a.Count.Unknown == 0 {
		t.Errorf("%d messages come after the end, %d packets for nobody", m-n, a.Count.Unknown)
	}
	if st, _ := s.Failed(); st != rc.RetryExceeded || x.QP().State() != rc.Error {
		t.Errorf("%v, %v", st, x.QP().State())
	}
}

// TestKeys: a connection takes packets of its partition alone, and two limited
// members do not talk.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		a, b ib.PKey
		ok   bool
	}{{0x8005, 0x8005, true}, {0x8005, 0x0005, true}, {0x0005, 0x0005, false}, {0x8005, 0x8006, false}} {
		b := newTestbed(t, 3)
		l := b.links()
		s, k := &Stream{Bytes: 100, Depth: 1, Limit: 1}, &Sink{}
		o := l.Options
		o.PKey = c.a
		x, err := b.hosts[0].Connect(o, s)
		must(t, err)
		o.PKey = c.b
		y, err := b.hosts[1].Connect(o, k)
		must(t, err)
		y.PostReceives(1)
		must(t, y.Start(rc.Connect{RemoteQPN: x.QPN(), Path: rc.Path{DLID: b.hosts[0].LID()}}, l.Sender))
		must(t, x.Start(rc.Connect{RemoteQPN: y.QPN(), Path: rc.Path{DLID: b.hosts[1].LID()}}, l.Sender))
		s.Run(x)
		b.e.Run(100 * dataplane.Microsecond)
		if n, _ := k.Got(); (n == 1) != c.ok || (b.hosts[1].Count.BadPKey == 0) != c.ok {
			t.Errorf("%v to %v: %d messages, %d bad keys", c.a, c.b, n, b.hosts[1].Count.BadPKey)
		}
	}
}

// TestDatagrams: to a queue pair with its Q_Key, to a wrong one, and to a group.
func TestDatagrams(t *testing.T) {
	b := newTestbed(t, 3)
	mlid := ib.LID(0xC001)
	var leaf, spine dataplane.PortMask
	leaf.Add(1)
	leaf.Add(2)
	for i := range 3 {
		b.p.SetGroup(int32(3+i), mlid, leaf)
		spine.Add(uint8(i + 1))
	}
	b.p.SetGroup(6, mlid, spine)
	var got [3][]adapter.Datagram
	var socks []*adapter.Socket
	for i, a := range b.hosts {
		socks = append(socks, a.Datagrams(7, 0, func(d *adapter.Datagram) { got[i] = append(got[i], *d) }))
	}
	to := adapter.Address{Path: rc.Path{DLID: b.hosts[1].LID()}, QPN: socks[1].QPN(), QKey: 7}
	const more = 0xABCDEF_98765432
	socks[0].SendMore(to, 42, more, 1000)
	to.QKey = 8
	socks[0].Send(to, 43, 1000)
	socks[0].Send(adapter.Address{Path: rc.Path{DLID: mlid}, QKey: 7}, 44, 100)
	b.e.Run(50 * dataplane.Microsecond)
	if len(got[0]) != 0 || len(got[1]) != 2 || len(got[2]) != 1 || b.hosts[1].Count.BadQKey != 1 {
		t.Fatalf("%v, bad Q_Keys %d", got, b.hosts[1].Count.BadQKey)
	}
	if d := got[1][0]; d.Message != 42 || d.More != more || d.Bytes != 1000 || d.QPN != socks[0].QPN() || d.From != b.hosts[0].LID() || d.Group != 0 {
		t.Errorf("%+v", d)
	}
	if d := got[2][0]; d.Message != 44 || d.More != 0 || d.Group != mlid {
		t.Errorf("%+v", d)
	}
}
