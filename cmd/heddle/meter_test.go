package main

import (
	"math"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/sim"
	"heddle/sim/dataplane"
)

// TestSimMeter: a host that sends at a tenth of its link's rate shows as a tenth, over the last
// seconds only.
func TestSimMeter(t *testing.T) {
	var b fabric.Builder
	b.AddSwitch("S", 4)
	x, y := b.AddCA("A", 1), b.AddCA("B", 1)
	b.Connect(0, 1, x, 1)
	b.Connect(0, 2, y, 1)
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			f.Nodes[i].Ports[p].Width, f.Nodes[i].Ports[p].Speed = ib.Width1x, ib.SpeedSDR
		}
	}
	c, err := lab.NewCluster(f, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	manager, err := c.Start("A", lab.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RunUntil(time.Minute, manager.Up); err != nil {
		t.Fatal(err)
	}
	s := c.Sim
	m := newSimMeter(func(fn func(*sim.Subnet)) { fn(s) }, f)
	if got := m.Measure(); len(got.Sent) != 0 || got.Source == "" {
		t.Errorf("without packets: %+v", got)
	}
	e, err := s.StartData(dataplane.Defaults(), dataplane.DefaultCable)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Measure(); len(got.Sent) != 0 || got.Span != 0 {
		t.Errorf("a first look measures %+v", got)
	}
	const bytes = 2048 + dataplane.OverheadRC
	if _, err := e.AddStream(dataplane.Stream{Src: 0, To: dataplane.To(1), Bytes: bytes, Arrival: dataplane.Constant, Gap: 40 * bytes * dataplane.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	run := func(d time.Duration) {
		for range d / (500 * time.Millisecond) {
			s.RunUntil(s.Now().Add(500 * time.Millisecond))
			m.Measure()
		}
	}
	share := func(node ib.GUID, port uint8) float64 {
		for _, x := range m.Measure().Sent {
			if x.Node == node && x.Port == port {
				return x.Share
			}
		}
		return -1
	}
	run(20 * time.Second)
	if got := m.Measure(); got.Span < meterSpan-meterStep || got.Span > meterSpan+meterStep {
		t.Errorf("a mean over %v, want about %v", got.Span, meterSpan)
	}
	for _, x := range []struct {
		node ib.GUID
		port uint8
		want float64
	}{{f.Nodes[x].GUID, 1, 0.1}, {f.Nodes[0].GUID, 2, 0.1}, {f.Nodes[0].GUID, 1, 0}, {f.Nodes[y].GUID, 1, 0}} {
		if got := share(x.node, x.port); math.Abs(got-x.want) > 0.001 {
			t.Errorf("%v port %d: %.4f, want %.1f", x.node, x.port, got, x.want)
		}
	}
	e.EndStream(0)
	run(20 * time.Second)
	if got := share(f.Nodes[x].GUID, 1); got != 0 {
		t.Errorf("20 s after its end a stream shows as %.4f", got)
	}
}
