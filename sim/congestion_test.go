package sim

import (
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/mad"
	"heddle/sim/dataplane"
)

// congestion sends a request of that class; noAnswer if none came.
func (b *testbed) congestion(method ib.Method, attr ib.AttrID, mod uint32, key uint64, lid ib.LID, v interface{ Put(b []byte) }) (*ib.MAD, ib.Status) {
	b.Helper()
	var m ib.MAD
	cc.New(&m, method, attr, mod, key)
	if v != nil {
		v.Put(cc.Data(&m))
	}
	r := b.do(&m, mad.Addr{LID: lid})
	if r == nil {
		return nil, noAnswer
	}
	return r, r.Status()
}

// TestCongestionKey: a wrong key writes nothing, is counted, and ends the protection of
// the key after the lease.
func TestCongestionKey(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	const lid, key = 1, 0xABC
	set := func(key uint64, timer uint16) ib.Status {
		v := cc.CACongestionSetting{ControlMap: 1}
		v.SL[0].Timer = timer
		_, st := b.congestion(ib.MethodSet, cc.AttrCACongestionSetting, 0, key, lid, &v)
		return st
	}
	info := func(key uint64) (k cc.CongestionKeyInfo) {
		t.Helper()
		r, st := b.congestion(ib.MethodGet, cc.AttrCongestionKeyInfo, 0, key, lid, nil)
		if st != ib.StatusOK || k.Decode(cc.Data(r)) != nil {
			t.Fatal(st)
		}
		return k
	}
	if _, st := b.congestion(ib.MethodSet, cc.AttrCongestionKeyInfo, 0, 0, lid, &cc.CongestionKeyInfo{Key: key, Protect: true, LeasePeriod: 5}); st != ib.StatusOK {
		t.Fatal(st)
	}
	if st := set(key, 7); st != ib.StatusOK {
		t.Errorf("right key: %v", st)
	}
	if st := set(key+1, 8); st != noAnswer {
		t.Errorf("wrong key: %v", st)
	}
	r, _ := b.congestion(ib.MethodGet, cc.AttrCACongestionSetting, 0, 0, lid, nil)
	var v cc.CACongestionSetting
	if err := v.Decode(cc.Data(r)); err != nil || v.SL[0].Timer != 7 {
		t.Errorf("%v, timer %d", err, v.SL[0].Timer)
	}
	if k := info(0); k.Key != 0 || k.Violations != 1 {
		t.Errorf("%+v", k)
	}
	b.s.RunUntil(b.s.Now().Add(6 * time.Second))
	if k := info(0); k.Key != key || k.Protect {
		t.Errorf("after the lease %+v", k)
	}
}

// TestCongestionRefusals: what a node has not is refused and changes nothing.
func TestCongestionRefusals(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	const adapter, sw = 1, 2
	for _, x := range []struct {
		what string
		attr ib.AttrID
		mod  uint32
		lid  ib.LID
		set  interface{ Put(b []byte) }
		want ib.Status
	}{
		{"switch settings of an adapter", cc.AttrSwitchCongestionSetting, 0, adapter, nil, ib.StatusInvalidField},
		{"adapter settings of a switch", cc.AttrCACongestionSetting, 0, sw, nil, ib.StatusInvalidField},
		{"table of a switch", cc.AttrCongestionControlTable, 0, sw, nil, ib.StatusInvalidField},
		{"third block", cc.AttrCongestionControlTable, 2, adapter, nil, ib.StatusInvalidField},
		{"a limit beyond the table", cc.AttrCongestionControlTable, 0, adapter, &cc.CongestionControlTable{Limit: 128}, ib.StatusInvalidField},
		{"ports that it has not", cc.AttrSwitchPortCongestionSetting, 1, sw, nil, ib.StatusInvalidField},
		{"a block far beyond", cc.AttrSwitchPortCongestionSetting, 1 << 31, sw, nil, ib.StatusInvalidField},
		{"an unknown attribute", 0x7777, 0, adapter, nil, ib.StatusBadMethodAttr},
		{"a Set of what is read only", cc.AttrTimeStamp, 0, adapter, &cc.TimeStamp{Time: 1}, ib.StatusInvalidField},
	} {
		method := ib.MethodGet
		if x.set != nil {
			method = ib.MethodSet
		}
		if _, st := b.congestion(method, x.attr, x.mod, 0, x.lid, x.set); st != x.want {
			t.Errorf("%s: %v, want %v", x.what, st, x.want)
		}
	}
	r, st := b.congestion(ib.MethodGet, cc.AttrCongestionControlTable, 0, 0, adapter, nil)
	var v cc.CongestionControlTable
	if st != ib.StatusOK || v.Decode(cc.Data(r)) != nil || v.Limit != 0 {
		t.Errorf("%v, limit %d", st, v.Limit)
	}
}

// TestCongestionOfPackets: settings that a manager writes slow a sender to what a slow
// host takes, so that buffers stay short, and the logs tell of it.
func TestCongestionOfPackets(t *testing.T) {
	latency := func(on bool) (mean dataplane.Time, delivered uint64, b *testbed) {
		b = newTestbed(t, chain(), Config{Carriage: Apart}, "H1")
		b.configure()
		for i := range b.s.infos {
			b.s.infos[i].HOQLife = 31
		}
		for _, sw := range []int{nS1, nS2} {
			b.s.devs[sw].sw.info.LifeTimeValue = 31
		}
		e, err := b.s.StartData(dataplane.Defaults(), dataplane.DefaultCable)
		if err != nil {
			t.Fatal(err)
		}
		if on {
			set := func(attr ib.AttrID, lid ib.LID, v interface{ Put(b []byte) }) {
				t.Helper()
				if _, st := b.congestion(ib.MethodSet, attr, 0, 0, lid, v); st != ib.StatusOK {
					t.Fatal(st)
				}
			}
			sw := cc.SwitchCongestionSetting{ControlMap: 0x1F, Threshold: 4, PacketSize: 8}
			sw.VictimMask.Add(2) // to H2
			set(cc.AttrSwitchCongestionSetting, 3, &sw)
			ca := cc.CACongestionSetting{ControlMap: 0xFFFF}
			for i := range ca.SL {
				ca.SL[i] = cc.SLSetting{Timer: 10, Increase: 1, Trigger: 3}
			}
			set(cc.AttrCACongestionSetting, 1, &ca)
			table := cc.CongestionControlTable{Limit: 63}
			for i := range table.Entry {
				table.Entry[i] = cc.NewDelay(3, uint16(i))
			}
			set(cc.AttrCongestionControlTable, 1, &table)
		}
		half := dataplane.LinkRate(ib.Width4x, ib.SpeedFDR10)
		e.SetCaps(2, dataplane.Rate{}, half)
		if _, err := e.AddStream(dataplane.Stream{Src: 0, To: dataplane.To(2), SL: 1, Bytes: 2048 + dataplane.OverheadRC}); err != nil {
			t.Fatal(err)
		}
		b.s.RunUntil(b.s.Now().Add(2 * time.Millisecond))
		b.s.Data().ResetStats()
		b.s.RunUntil(b.s.Now().Add(2 * time.Millisecond))
		s := b.s.Data().Stats()
		return s.Network.Mean(), s.Delivered, b
	}
	without, all, _ := latency(false)
	with, most, b := latency(true)
	if 4*most < 3*all || 4*with > without {
		t.Errorf("%d packets of %v, without congestion control %d of %v", most, with, all, without)
	}
	r, st := b.congestion(ib.MethodGet, cc.AttrCongestionLog, 0, 0, 3, nil)
	var sw cc.SwitchLog
	if st != ib.StatusOK || sw.Decode(cc.Log(r)) != nil || sw.Type != cc.LogSwitch || sw.Events < 15 || !sw.Ports.Has(2) || sw.Ports.Has(1) {
		t.Errorf("%v, %+v", st, sw)
	}
	if v := sw.Event[14]; v.SLID != 1 || v.DLID != 4 || v.SL != 1 || v.Time == 0 || v.Time > sw.Now {
		t.Errorf("%+v", v)
	}
	r, st = b.congestion(ib.MethodGet, cc.AttrCongestionLog, 0, 0, 1, nil)
	var ca cc.CALog
	if st != ib.StatusOK || ca.Decode(cc.Log(r)) != nil || ca.Type != cc.LogCA || ca.Events == 0 || ca.EventMap != 1<<1 || ca.Event[0].RemoteLID != 4 {
		t.Errorf("%v, %+v", st, ca)
	}
	r, _ = b.congestion(ib.MethodGet, cc.AttrCongestionLog, 0, 0, 1, nil)
	if _ = ca.Decode(cc.Log(r)); ca.Events != 0 {
		t.Errorf("read again: %d events", ca.Events)
	}
}
