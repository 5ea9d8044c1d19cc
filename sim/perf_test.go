package sim

import (
	"runtime"
	"testing"

	"heddle/ib"
	"heddle/ib/pm"
	"heddle/ib/smp"
	"heddle/mad"
)

// TestFastPathAllocates: an SMP or GMP and its response allocate nothing if nothing is
// delayed.
func TestFastPathAllocates(t *testing.T) {
	b := newTestbed(t, chain(), Config{}, "H1")
	b.configure()
	answers := 0
	b.e.OnPacket = func(p *mad.Packet) { answers++ }
	var lft smp.LFT
	for _, c := range []struct {
		name string
		make func(m *ib.MAD)
		to   mad.Addr
	}{
		{"NodeInfo", func(m *ib.MAD) { smp.NewDR(m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, toH2) }, dr},
		{"PortInfo", func(m *ib.MAD) { smp.NewDR(m, ib.MethodGet, smp.AttrPortInfo, 2, 0, toS2) }, dr},
		{"Set(PortInfo)", func(m *ib.MAD) {
			smp.NewDR(m, ib.MethodSet, smp.AttrPortInfo, 1, 0, toS2)
			(&smp.PortInfo{NeighborMTU: 4}).Put(smp.Data(m))
		}, dr},
		{"Set(LFT)", func(m *ib.MAD) { smp.NewDR(m, ib.MethodSet, smp.AttrLFT, 7, 0, toS2); lft.Put(smp.Data(m)) }, dr},
		{"SLtoVL", func(m *ib.MAD) { smp.NewDR(m, ib.MethodGet, smp.AttrSLtoVL, 0x102, 0, toS2) }, dr},
		{"PKeyTable", func(m *ib.MAD) { smp.NewDR(m, ib.MethodGet, smp.AttrPKeyTable, 0, 0, toH2) }, dr},
		{"by LID", func(m *ib.MAD) { smp.NewLID(m, ib.MethodGet, smp.AttrSwitchInfo, 0, 0) }, mad.Addr{LID: 3}},
		{"PortCounters", func(m *ib.MAD) { pm.New(m, ib.MethodGet, pm.AttrPortCounters, 0); pm.SetPortSelect(m, 1) }, mad.Addr{LID: 4, QP: 1}},
	} {
		var m ib.MAD
		c.make(&m)
		p := mad.Packet{Addr: c.to, LocalQP: c.to.QP, Data: m[:]}
		answers = 0
		n := testing.AllocsPerRun(100, func() { b.e.Send(&p) })
		if answers != 101 {
			t.Errorf("%s: %d answers", c.name, answers)
		}
		if n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func benchmarkDR(b *testing.B, leaves, spines, hosts int, path []byte) {
	bd := newTestbed(b, tree(leaves, spines, hosts), Config{}, "h0.0")
	answers := 0
	bd.e.OnPacket = func(p *mad.Packet) { answers++ }
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, path)
	p := mad.Packet{Addr: dr, Data: m[:]}
	b.ReportAllocs()
	for b.Loop() {
		bd.e.Send(&p)
	}
	if answers == 0 {
		b.Fatal("no answers")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(2*len(path)), "ns/hop")
}

func BenchmarkDirectedRoute(b *testing.B) {
	b.Run("4x2x4", func(b *testing.B) { benchmarkDR(b, 4, 2, 4, []byte{1, 5, 2, 1}) })
	b.Run("200x54x54", func(b *testing.B) { benchmarkDR(b, 200, 54, 54, []byte{1, 60, 150, 1}) })
}

// BenchmarkDiscovery asks every node of an 11,664-host fabric once.
func BenchmarkDiscovery(b *testing.B) {
	f := tree(216, 54, 54)
	bd := newTestbed(b, f, Config{}, "h0.0")
	answers := 0
	bd.e.OnPacket = func(p *mad.Packet) { answers++ }
	var m ib.MAD
	path := []byte{1, 55, 1, 1}
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, path)
	p := mad.Packet{Addr: dr, Data: m[:]}
	ip := smp.InitialPath(&m)
	b.ReportAllocs()
	for b.Loop() {
		for l := range 216 {
			for h := range 54 {
				ip[2], ip[3], ip[4] = byte(55+h), byte(l+1), byte(h+1)
				bd.e.Send(&p)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(216*54), "ns/smp")
}

func BenchmarkNew(b *testing.B) {
	f := tree(216, 54, 54)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	keep, _ := New(f, Config{})
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(f, Config{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
	runtime.KeepAlive(keep)
}

// BenchmarkEvents measures the event queue with latency on every hop.
func BenchmarkEvents(b *testing.B) {
	bd := newTestbed(b, tree(4, 2, 4), Config{HopLatency: 200, SMALatency: 1000}, "h0.0")
	bd.e.OnPacket = func(p *mad.Packet) {}
	var m ib.MAD
	smp.NewDR(&m, ib.MethodGet, smp.AttrNodeInfo, 0, 0, []byte{1, 5, 2, 1})
	p := mad.Packet{Addr: dr, Data: m[:]}
	b.ReportAllocs()
	for b.Loop() {
		bd.e.Send(&p)
		for bd.s.Step() {
		}
	}
}

// BenchmarkSMA measures one request to a neighbor switch, by attribute.
func BenchmarkSMA(b *testing.B) {
	for _, c := range []struct {
		name   string
		method ib.Method
		attr   ib.AttrID
		am     uint32
	}{
		{"GetNodeInfo", ib.MethodGet, smp.AttrNodeInfo, 0},
		{"GetPortInfo", ib.MethodGet, smp.AttrPortInfo, 2},
		{"SetPortInfo", ib.MethodSet, smp.AttrPortInfo, 2},
		{"GetLFT", ib.MethodGet, smp.AttrLFT, 9},
		{"SetLFT", ib.MethodSet, smp.AttrLFT, 9},
		{"GetPKeyTable", ib.MethodGet, smp.AttrPKeyTable, 0},
		{"GetSLtoVL", ib.MethodGet, smp.AttrSLtoVL, 0x102},
	} {
		b.Run(c.name, func(b *testing.B) {
			bd := newTestbed(b, chain(), Config{}, "H1")
			bd.e.OnPacket = func(p *mad.Packet) {}
			var m ib.MAD
			smp.NewDR(&m, c.method, c.attr, c.am, 0, toS1)
			if c.method == ib.MethodSet && c.attr == smp.AttrPortInfo {
				(&smp.PortInfo{NeighborMTU: 4}).Put(smp.Data(&m))
			}
			p := mad.Packet{Addr: dr, Data: m[:]}
			b.ReportAllocs()
			for b.Loop() {
				bd.e.Send(&p)
			}
		})
	}
}

// TestRelayAllocates: packets between virtual functions allocate nothing.
func TestRelayAllocates(t *testing.T) {
	b := relayBed(t, Config{})
	e, err := b.s.AttachVPort(b.vf("h0.1", 1))
	must(t, err)
	answers := 0
	e.OnPacket = func(p *mad.Packet) { answers++ }
	var m ib.MAD
	pm.New(&m, ib.MethodGet, pm.AttrClassPortInfo, 0)
	p := mad.Packet{
		Addr:    mad.Addr{LID: b.lid("h1.0"), QP: 1, HasGRH: true, GRH: mad.GRH{GID: b.gid(b.vf("h1.0", 5))}},
		LocalQP: 1, Data: m[:],
	}
	if n := testing.AllocsPerRun(100, func() { e.Send(&p) }); n != 0 || answers != 101 {
		t.Errorf("%v allocations, %d answers", n, answers)
	}
}

// BenchmarkProbe is a probe and its echo between VMs of a vSwitch cloud.
func BenchmarkProbe(b *testing.B) {
	bd := cloud(b, Config{})
	for i, h := range []string{"h0.1", "h1.1"} {
		bd.hypervisor(h, Hypervisor{Model: VSwitch, VFs: 16})
		bd.virtual(h, true, true)
		must(b, bd.s.EnableVPort(bd.vf(h, 16)))
		bd.activate(h, 16, ib.LID(100+i))
	}
	from, to := bd.vf("h0.1", 16), bd.vf("h1.1", 16)
	b.ReportAllocs()
	for b.Loop() {
		if p := bd.probe(from, to, full); !p.Answered {
			b.Fatal(p)
		}
	}
}
