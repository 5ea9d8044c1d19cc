package bed

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

// Data is a subnet under a real manager that carries traffic. Hosts are
// numbered as in the papers, from 1.
type Data struct {
	Cluster *lab.Cluster
	Manager *lab.Manager
	Engine  *dataplane.Engine
	// SL is the service level that each host uses towards each, from 0: what it
	// has resolved last.
	SL [][]ib.SL
}

// NewData starts a manager on the first host of f and waits until all is in
// force. A nil dc.SL has hosts use the levels of the manager's paths.
func NewData(f *fabric.Fabric, sc sim.Config, cfg sm.Config, dc dataplane.Config) (*Data, error) {
	c, err := lab.NewCluster(f, sc)
	if err != nil {
		return nil, err
	}
	b := &Data{Cluster: c}
	var hosts []int
	for i := range f.Nodes {
		if !f.Nodes[i].IsSwitch() {
			hosts = append(hosts, i)
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("no host for the manager")
	}
	if b.Manager, err = c.Start(f.Nodes[hosts[0]].ID, cfg, nil); err != nil {
		return nil, err
	}
	if err := c.RunUntil(Settle, func() bool { return b.Manager.Up() && b.Manager.Idle() }); err != nil {
		return nil, err
	}
	b.SL = make([][]ib.SL, len(hosts))
	for i := range b.SL {
		b.SL[i] = make([]ib.SL, len(hosts))
	}
	b.Resolve(func(src, dst int, sl ib.SL) { b.SL[src][dst] = sl })
	if dc.SL == nil {
		dc.SL = func(src, dst int) ib.SL { return b.SL[src][dst] }
	}
	if b.Engine, err = c.Sim.StartData(dc, dataplane.DefaultCable); err != nil {
		return nil, err
	}
	return b, nil
}

// Resolve tells the service level of each pair of hosts by the manager's paths,
// where it differs from the one that the source uses.
func (b *Data) Resolve(changed func(src, dst int, sl ib.SL)) {
	s, f := b.Manager.Snap, b.Cluster.Fabric
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
			if a, ok := s.Path(port[src], lid[dst]); ok && a.SL != b.SL[src][dst] {
				changed(src, dst, a.SL)
			}
		}
	}
}

// Repath has hosts use the levels of new paths so long after the manager has
// published them, as if a repath notice and an exchange with the SA took that
// long.
func (b *Data) Repath(after time.Duration) {
	b.Manager.OnPublish = func() {
		b.Resolve(func(src, dst int, sl ib.SL) {
			b.Cluster.Sim.After(after, func() { b.SL[src][dst] = sl })
		})
	}
}

// Cap limits hosts to what the test beds' could send and take.
func (b *Data) Cap(gbps float64) {
	r := dataplane.Cap(gbps, Payload, Bytes)
	for h := range b.Engine.NumHosts() {
		b.Engine.SetCaps(h, r, r)
	}
}

// Add starts saturated streams, each with a queue of its own at its source.
func (b *Data) Add(flows []Flow) error {
	for _, f := range flows {
		s := dataplane.Stream{Src: f[0] - 1, To: dataplane.To(f[1] - 1), Bytes: Bytes}
		if _, err := b.Engine.AddStream(s); err != nil {
			return err
		}
	}
	return nil
}

// Run lets manager and traffic run for d.
func (b *Data) Run(d time.Duration) {
	b.Cluster.Run(d)
	b.Cluster.Sim.Data()
}

// Measure runs for d and returns the rate of each flow in Gb/s of payload.
func (b *Data) Measure(d time.Duration) []float64 {
	b.Cluster.Sim.Data().ResetStats()
	b.Run(d)
	rates := make([]float64, b.Engine.NumStreams())
	for i := range rates {
		rates[i] = Gbps(b.Engine.Flow(i).Bytes, d)
	}
	return rates
}

// Restart replaces the data plane by an empty one.
func (b *Data) Restart(dc dataplane.Config) (err error) {
	b.Cluster.Sim.StopData()
	if dc.SL == nil {
		dc.SL = func(src, dst int) ib.SL { return b.SL[src][dst] }
	}
	b.Engine, err = b.Cluster.Sim.StartData(dc, dataplane.DefaultCable)
	return err
}

// LIDs are those of the hosts.
func (b *Data) LIDs() []ib.LID {
	at := map[[2]int]ib.LID{}
	for _, l := range b.Cluster.Sim.LIDs() {
		if l.VPort == 0 {
			at[[2]int{l.Node, int(l.Port)}] = l.LID
		}
	}
	lids := make([]ib.LID, b.Engine.NumHosts())
	for h := range lids {
		r := b.Engine.HostPort(h)
		lids[h] = at[[2]int{int(r.Node), int(r.Port)}]
	}
	return lids
}
