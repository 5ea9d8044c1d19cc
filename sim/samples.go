package sim

import (
	"time"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/mad"
	"heddle/sim/dataplane"
)

// XmitWaitTick is the unit of PortXmitWait unless Config.WaitTick says otherwise:
// what a 4X QDR link takes for 88 bytes, as adapters of that generation count
// (thesis, §3.2 of its figures).
const XmitWaitTick = 22 * time.Nanosecond

// signaling is the rate of a lane on the wire in 10 kbit/s.
var signaling = [...]uint64{
	ib.SpeedSDR: 250_000, ib.SpeedDDR: 500_000, ib.SpeedQDR: 1_000_000, ib.SpeedFDR10: 1_031_250, ib.SpeedFDR: 1_406_250,
	ib.SpeedEDR: 2_578_125, ib.SpeedHDR: 5_312_500, ib.SpeedNDR: 10_625_000, ib.SpeedXDR: 21_250_000,
}

// waitTick is the unit of PortXmitWait and of the sampler of a port, and how
// PortSamplesControl:Tick says it: one less than the number of times that a lane
// takes for 10 bits (IBA §16.1.3.2; 4 ns at SDR).
func (s *Subnet) waitTick(p int32) (tick dataplane.Time, code uint8) {
	pt := &s.ports[p]
	speed := ib.SpeedSDR
	if pt.num != 0 && pt.phys == ib.PhysLinkUp {
		v := s.infos[p].ActiveSpeedOf(s.infos[s.endPort(p)].CapabilityMask, pt.cold != nil && pt.cold.fdr10Active)
		if v != ib.SpeedNone && int(v) < len(signaling) {
			speed = v
		}
	}
	want := s.cfg.WaitTick
	if want == 0 {
		want = XmitWaitTick
	}
	const tenBits = 1_000_000_000 // in picoseconds, at 10 kbit/s
	rate := signaling[speed]
	n := (uint64(dataplane.FromDuration(want))*rate + tenBits/2) / tenBits
	n = min(max(n, 1), 256)
	return dataplane.Time((n*tenBits + rate/2) / rate), uint8(n - 1)
}

// sampler is the one sampling engine of a port.
type sampler struct {
	control pm.PortSamplesControl // the last Set
	base    [pm.NumSamples]uint64
	result  [pm.NumSamples]uint32
	status  uint8
	began   uint64 // event that began the last run: orders the runs of a switch
}

// pmaSamplesControl starts the sampler of a port if it is idle (IBA §16.1.3.2).
func (s *Subnet) pmaSamplesControl(first, last int32, data []byte, set bool) ib.Status {
	if first != last {
		return ib.StatusInvalidField
	}
	sm := &s.coldOf(first).pm.smp
	var in pm.PortSamplesControl
	_ = in.Decode(data)
	tick, code := s.waitTick(first)
	if set && sm.status == pm.SampleDone {
		sm.control = in
		sm.status = pm.SampleWaiting
		after := func(ticks uint32) mad.Time { return mad.Time(nanoseconds(dataplane.Time(ticks) * tick)) }
		start := s.k.now + after(in.SampleStart)
		s.At(start, func() {
			sm.status = pm.SampleRunning
			sm.base = s.sampled(first, sm)
		})
		sm.began = s.k.seq
		s.At(start+after(in.SampleInterval), func() {
			for i, now := range s.sampled(first, sm) {
				if now >= sm.base[i] { // or the counter was reset meanwhile
					now -= sm.base[i]
				}
				sm.result[i] = uint32(min(now, 1<<32-1))
			}
			sm.status = pm.SampleDone
		})
	}
	out := sm.control
	out.PortSelect, out.Tick, out.CounterWidth, out.SampleStatus = in.PortSelect, code, 4, sm.status
	// Every counter takes the events that all samplers know.
	out.CounterMask0, out.CounterMask1to9, out.CounterMask10to14 = 1, 0o111111111, 0o11111
	out.SampleMechanisms, out.OptionMask, out.VendorMask, out.SamplesOnlyOptionMask = 0, 0, 0, 0
	clear(data)
	out.Put(data)
	return ib.StatusOK
}

// sampled reads what the counters of a sampler count.
func (s *Subnet) sampled(p int32, sm *sampler) (v [pm.NumSamples]uint64) {
	s.countData(p)
	c := &s.ports[p].cnt
	for i := range v {
		switch sm.control.CounterSelect[i] {
		case pm.SampleXmitData:
			v[i] = c.xmitData
		case pm.SampleRcvData:
			v[i] = c.rcvData
		case pm.SampleXmitPkts:
			v[i] = c.xmitPkts
		case pm.SampleRcvPkts:
			v[i] = c.rcvPkts
		case pm.SampleXmitWait:
			v[i] = s.coldOf(p).pm.err[errXmitWait]
		}
	}
	return v
}

// pmaSamplesResult answers for the selected port; on a switch, for the port
// whose sampler was started last.
func (s *Subnet) pmaSamplesResult(f *flight, data []byte) ib.Status {
	p := f.port
	d := &s.devs[s.ports[p].dev]
	if d.isSwitch() {
		best := uint64(0)
		for q := d.first; q <= d.first+int32(d.nports); q++ {
			if c := s.ports[q].cold; c != nil && c.pm.smp.began > best {
				best, p = c.pm.smp.began, q
			}
		}
	}
	clear(data)
	if c := s.ports[p].cold; c != nil {
		sm := &c.pm.smp
		(&pm.PortSamplesResult{Tag: sm.control.Tag, SampleStatus: sm.status, Counter: sm.result}).Put(data)
	}
	return ib.StatusOK
}
