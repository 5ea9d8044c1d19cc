package bed

import (
	"heddle/fabric"
	"heddle/lab"
	"heddle/sa"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sm"
)

// HostOptions configure StartHosts.
type HostOptions struct {
	SM    sm.Config
	SA    sa.Config
	Data  dataplane.Config
	Hosts lab.HostConfig
	// Attached, if set, is called with the manager before its first event.
	Attached func(m *lab.Manager)
}

// StartHosts brings up f under a real manager with an SA, which is in the first switch,
// and starts a simulated host at each adapter. Hosts send and take HostGbps.
func StartHosts(f *fabric.Fabric, o HostOptions) (*lab.Loaded, []*lab.Host, error) {
	c, err := lab.NewCluster(f, sim.Config{
		Seed: o.Data.Seed, HopLatency: HopLatency, SMALatency: SMALatency, Carriage: sim.Apart,
	})
	if err != nil {
		return nil, nil, err
	}
	node := ""
	for i := range f.Nodes {
		if f.Nodes[i].IsSwitch() {
			node = f.Nodes[i].ID
			break
		}
	}
	m, err := c.Attach(node, o.SM, nil)
	if err != nil {
		return nil, nil, err
	}
	m.ServeSA(o.SA, sa.Options{})
	if o.Attached != nil {
		o.Attached(m)
	}
	if err := m.Start(); err != nil {
		return nil, nil, err
	}
	if err := c.RunUntil(Settle, func() bool { return m.Up() && m.Idle() }); err != nil {
		return nil, nil, err
	}
	l, err := lab.Load(c, m, o.Data)
	if err != nil {
		return nil, nil, err
	}
	rate := dataplane.Cap(HostGbps, Payload, Bytes)
	for h := range l.Engine.NumHosts() {
		l.Engine.SetCaps(h, rate, rate)
	}
	hosts, err := l.StartHosts(o.Hosts)
	if err != nil {
		return nil, nil, err
	}
	return l, hosts, nil
}
