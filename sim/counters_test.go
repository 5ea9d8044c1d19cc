package sim

import (
	"encoding/binary"
	"testing"
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/sim/dataplane"
)

// lanesOf reads an attribute of 16 counters of 32 bits, or of 16 bits.
func (b *testbed) lanesOf(attr ib.AttrID, lid ib.LID, port uint8, bits int) (v [16]uint64) {
	b.Helper()
	r, st := b.perf(ib.MethodGet, attr, lid, port, nil)
	var wide pm.Counters32
	var narrow pm.Counters16
	if st != ib.StatusOK || wide.Decode(pm.Data(r)) != nil || narrow.Decode(pm.Data(r)) != nil {
		b.Fatalf("%v of LID %v port %d: %v", attr, lid, port, st)
	}
	for i := range v {
		if bits == 16 {
			v[i] = uint64(narrow.Counter[i])
		} else {
			v[i] = uint64(wide.Counter[i])
		}
	}
	return v
}

// TestCountersByLane: the agents show what the data plane counts by service level and by lane, and
// PortXmitWait in the tick that PortSamplesControl names.
func TestCountersByLane(t *testing.T) {
	for _, want := range []time.Duration{0, 4 * time.Nanosecond, 100 * time.Nanosecond} {
		b := newTestbed(t, chain(), Config{Carriage: Apart, WaitTick: want}, "H1")
		b.configure()
		for i := range b.s.infos {
			b.s.infos[i].HOQLife = 31
		}
		for _, sw := range []int{nS1, nS2} {
			b.s.devs[sw].sw.info.LifeTimeValue = 31
		}
		c := dataplane.Defaults()
		c.Details = true
		e, err := b.s.StartData(c, dataplane.DefaultCable)
		if err != nil {
			t.Fatal(err)
		}
		const n, bytes = 500, 256 + dataplane.OverheadRC
		for sl := range 2 {
			if _, err := e.AddStream(dataplane.Stream{Src: 0, To: dataplane.To(2), SL: ib.SL(sl + 1), Bytes: bytes, Packets: n << sl, Arrival: dataplane.Closed, Window: 4}); err != nil {
				t.Fatal(err)
			}
		}
		lanes := [2]int{1, 2} // of the service levels, on links of 8
		before := b.extended(2, 2)
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
		sent, got := b.lanesOf(pm.AttrPortXmitDataSL, 2, 2, 32), b.lanesOf(pm.AttrPortRcvDataSL, 3, 1, 32)
		packets, words := b.lanesOf(pm.AttrPortVLOpPackets, 3, 1, 16), b.lanesOf(pm.AttrPortVLOpData, 3, 1, 32)
		for sl := range 2 {
			num := uint64(n << sl)
			for what, v := range map[string]uint64{
				"PortXmitDataSL": sent[sl+1], "PortRcvDataSL": got[sl+1], "PortVLOpData": words[lanes[sl]], "PortVLOpPackets": packets[lanes[sl]] * 70,
			} {
				if v != num*70 {
					t.Errorf("SL %d: %s counts %d words, want %d", sl+1, what, v, num*70)
				}
			}
		}
		r, _ := b.perf(ib.MethodGet, pm.AttrPortOpRcvCounters, 3, 1, nil)
		if d := pm.Data(r); binary.BigEndian.Uint32(d[4:]) < 3*n || binary.BigEndian.Uint32(d[8:]) < 3*n*70 {
			t.Errorf("PortOpRcvCounters % x", d[:12])
		}
		after := b.extended(2, 2)
		all := uint64(0)
		for _, v := range sent {
			all += v
		}
		// Questions leave by the same port.
		if d := after.PortXmitData - before.PortXmitData; d < all || d > all+16*72 {
			t.Errorf("PortXmitData %d, by service level %d", d, all)
		}
		// H2 stops: the waiting time of its switch port, in ticks, is the time.
		e.Stop(2)
		if _, err := e.AddStream(dataplane.Stream{Src: 0, To: dataplane.To(2), SL: 1, Bytes: bytes}); err != nil {
			t.Fatal(err)
		}
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
		r, _ = b.perf(ib.MethodGet, pm.AttrPortSamplesControl, 3, 2, nil)
		var ctl pm.PortSamplesControl
		if err := ctl.Decode(pm.Data(r)); err != nil {
			t.Fatal(err)
		}
		tick := (float64(ctl.Tick) + 1) / 2.578125 // EDR, ns
		if near := max(float64(want), 0.38); want != 0 && (tick < near-0.2 || tick > near+0.2) && ctl.Tick != 255 {
			t.Errorf("a tick of %v is asked for, %.2f ns is shown", want, tick)
		}
		if want == 0 && ctl.Tick != 56 {
			t.Errorf("Tick %d, 56 is 22.1 ns at EDR", ctl.Tick)
		}
		was, lane := b.counters(3, 2).PortXmitWait, b.lanesOf(pm.AttrPortVLXmitWait, 3, 2, 16)[1]
		b.s.RunUntil(b.s.Now().Add(100 * time.Microsecond))
		now, lane2 := b.counters(3, 2).PortXmitWait, b.lanesOf(pm.AttrPortVLXmitWait, 3, 2, 16)[1]
		if d, w := float64(now-was), 100_000/tick; d < w-3 || d > w+3 {
			t.Errorf("tick %v: PortXmitWait counts %v in 100 µs, want %.1f", want, d, w)
		}
		if d := lane2 - lane; lane2 < 65535 && d != uint64(now-was) && d+1 != uint64(now-was) && d != uint64(now-was)+1 {
			t.Errorf("tick %v: PortVLXmitWait counts %d, the port %d", want, d, now-was)
		}
		// Looking often counts the same.
		for range 1000 {
			b.s.RunUntil(b.s.Now().Add(100 * time.Nanosecond))
			b.s.countData(b.s.devs[nS2].first + 2)
		}
		if d, w := float64(b.counters(3, 2).PortXmitWait-now), 100_000/tick; d < w-3 || d > w+3 {
			t.Errorf("tick %v: PortXmitWait, looked at each 100 ns, counts %v in 100 µs, want %.1f", want, d, w)
		}
		// A sampler of the same port counts the same, in the same tick.
		ctl = pm.PortSamplesControl{SampleInterval: 4000}
		ctl.CounterSelect[0] = pm.SampleXmitWait
		b.perf(ib.MethodSet, pm.AttrPortSamplesControl, 3, 2, func(d []byte) { ctl.Put(d) })
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
		r, _ = b.perf(ib.MethodGet, pm.AttrPortSamplesResult, 3, 0, nil)
		var res pm.PortSamplesResult
		if err := res.Decode(pm.Data(r)); err != nil || res.SampleStatus != pm.SampleDone || res.Counter[0] < 3999 || res.Counter[0] > 4001 {
			t.Errorf("tick %v: a port that waits all the time waits %d of 4000 ticks", want, res.Counter[0])
		}
		// What gets too old is counted by lane.
		b.s.infos[b.s.devs[nS2].first+2].HOQLife = 4
		b.s.dataChanged(nS2)
		e.Resume(2)
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
		e.Stop(2)
		b.s.RunUntil(b.s.Now().Add(time.Millisecond))
		lost := uint64(b.counters(3, 2).PortXmitDiscards)
		if v := b.lanesOf(pm.AttrSwPortVLCongestion, 3, 2, 16); lost == 0 || v[1] != lost {
			t.Errorf("%d discards, SwPortVLCongestion %v", lost, v)
		}
	}
}
