package experiment

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/lab"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sm"
)

// The hosts of the thesis' test beds: what PCIe 1.1 x8 lets through, in Gb/s of
// payload, and packets of 2 KiB as RC sends them.
const (
	hostGbps    = 12.9
	dataPayload = 2048
	dataBytes   = dataPayload + dataplane.OverheadRC
)

// dataBed is a subnet under a real manager that carries traffic. Hosts are
// numbered as in the papers, from 1.
type dataBed struct {
	c *lab.Cluster
	m *lab.Manager
	e *dataplane.Engine
	// sl is the service level that each host uses towards each, from 0: what it
	// has resolved last.
	sl [][]ib.SL
}

// newDataBed starts a manager on the first host of f and waits until all is in
// force. A nil dc.SL has hosts use the levels of the manager's paths.
func newDataBed(f *fabric.Fabric, sc sim.Config, cfg sm.Config, dc dataplane.Config) (*dataBed, error) {
	c, err := lab.NewCluster(f, sc)
	if err != nil {
		return nil, err
	}
	b := &dataBed{c: c}
	var hosts []int
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			hosts = append(hosts, i)
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("no host for the manager")
	}
	if b.m, err = c.Start(f.Nodes[hosts[0]].ID, cfg, nil); err != nil {
		return nil, err
	}
	if err := c.RunUntil(settle, func() bool { return b.m.Up() && b.m.Idle() }); err != nil {
		return nil, err
	}
	b.sl = make([][]ib.SL, len(hosts))
	for i := range b.sl {
		b.sl[i] = make([]ib.SL, len(hosts))
	}
	b.resolve(func(src, dst int, sl ib.SL) { b.sl[src][dst] = sl })
	if dc.SL == nil {
		dc.SL = func(src, dst int) ib.SL { return b.sl[src][dst] }
	}
	if b.e, err = c.Sim.StartData(dc, dataplane.DefaultCable); err != nil {
		return nil, err
	}
	return b, nil
}

// resolve tells the service level of each pair of hosts by the manager's paths,
// where it differs from the one that the source uses.
func (b *dataBed) resolve(changed func(src, dst int, sl ib.SL)) {
	s, f := b.m.Snap, b.c.Fabric
	var port []int32
	var lid []ib.LID
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			p := int32(s.PortByPortGUID(f.Nodes[i].Ports[1].GUID))
			port = append(port, p)
			lid = append(lid, s.Ports[max(p, 0)].LID)
		}
	}
	for src := range port {
		for dst := range port {
			if src == dst || port[src] < 0 || port[dst] < 0 {
				continue
			}
			if a, ok := s.Path(port[src], lid[dst]); ok && a.SL != b.sl[src][dst] {
				changed(src, dst, a.SL)
			}
		}
	}
}

// repath has hosts use the levels of new paths so long after the manager has
// published them, as if a repath notice and an exchange with the SA took that
// long.
func (b *dataBed) repath(after time.Duration) {
	b.m.OnPublish = func() {
		b.resolve(func(src, dst int, sl ib.SL) {
			b.c.Sim.After(after, func() { b.sl[src][dst] = sl })
		})
	}
}

// cap limits hosts to what the test beds' could send and take.
func (b *dataBed) cap(gbps float64) {
	r := dataplane.Cap(gbps, dataPayload, dataBytes)
	for h := range b.e.NumHosts() {
		b.e.SetCaps(h, r, r)
	}
}

// flow is a stream from one host to another, numbered from 1.
type flow struct{ src, dst int }

// String prints "1-5".
func (f flow) String() string { return fmt.Sprintf("%d-%d", f.src, f.dst) }

// add starts saturated streams, each with a queue of its own at its source.
func (b *dataBed) add(flows []flow) error {
	for _, f := range flows {
		s := dataplane.Stream{Src: f.src - 1, To: dataplane.To(f.dst - 1), Bytes: dataBytes}
		if _, err := b.e.AddStream(s); err != nil {
			return err
		}
	}
	return nil
}

// run lets manager and traffic run for d.
func (b *dataBed) run(d time.Duration) {
	b.c.Run(d)
	b.c.Sim.Data()
}

// gbps is what so many bytes on the wire are per d, in Gb/s of payload.
func gbps(bytes uint64, d time.Duration) float64 {
	return float64(bytes) / dataBytes * dataPayload * 8 / float64(d.Nanoseconds())
}

// measure runs for d and returns the rate of each flow in Gb/s of payload.
func (b *dataBed) measure(d time.Duration) []float64 {
	b.c.Sim.Data().ResetStats()
	b.run(d)
	rates := make([]float64, b.e.NumStreams())
	for i := range rates {
		rates[i] = gbps(b.e.Flow(i).Bytes, d)
	}
	return rates
}

func total(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}
