package lab

import (
	"fmt"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/mad"
	"heddle/sim"
	"heddle/sim/dataplane"
	"heddle/sm"
)

// Times of the devices of a Loaded, and how long a routing job takes there.
const (
	LoadedHop = 500 * time.Nanosecond // of a MAD over one link
	LoadedSMA = 5 * time.Microsecond  // of an agent for one request
	LoadedJob = time.Millisecond
)

// upLimit is the virtual time in which a subnet without faults comes up.
const upLimit = 10 * time.Minute

// LoadedModel says what a Loaded simulates when a cable is cut.
func LoadedModel() string {
	return fmt.Sprintf("A manager in virtual time finds it and repairs the tables: a MAD takes %v over a link, an agent %v for a request, a routing job %v.",
		LoadedHop, LoadedSMA, LoadedJob)
}

// Loaded is a managed subnet that carries packets: a manager in virtual time, the
// simulated devices, and the data plane under the tables that the manager writes.
type Loaded struct {
	*Cluster
	Manager *Manager
	Engine  *dataplane.Engine // its time 0 is when the subnet was up

	began mad.Time
	ports []ib.GUID // by end port of the engine
	known *fabric.Graph
	at    map[ib.GUID]*fabric.EndPort
}

// NewLoaded brings up f with a manager at its first adapter, and loads it.
func NewLoaded(f *fabric.Fabric, cfg sm.Config, c dataplane.Config) (*Loaded, error) {
	sc := sim.Config{Seed: c.Seed, HopLatency: LoadedHop, SMALatency: LoadedSMA}
	for code := uint8(1); ib.VLsOf(code) > 0 && ib.VLsOf(code) <= c.Lanes; code++ {
		sc.VLCap = code
	}
	cluster, err := NewCluster(f, sc)
	if err != nil {
		return nil, err
	}
	node := ""
	for i := range f.Nodes {
		if f.Nodes[i].Type == ib.NodeCA {
			node = f.Nodes[i].ID
			break
		}
	}
	m, err := cluster.Start(node, cfg, nil)
	if err != nil {
		return nil, err
	}
	if err := cluster.RunUntil(upLimit, func() bool { return m.Up() && m.Idle() }); err != nil {
		return nil, fmt.Errorf("lab: the subnet does not come up: %w", err)
	}
	m.JobTime = LoadedJob
	return Load(cluster, m, c)
}

// Load adds the data plane to a cluster. Unless c.SL is set, hosts use the service
// levels that the manager tells at the moment of each packet.
func Load(cluster *Cluster, m *Manager, c dataplane.Config) (*Loaded, error) {
	l := &Loaded{Cluster: cluster, Manager: m, at: map[ib.GUID]*fabric.EndPort{}, began: cluster.Sim.Now()}
	if c.SL == nil {
		c.SL = l.level
	}
	var err error
	if l.Engine, err = cluster.Sim.StartData(c, dataplane.DefaultCable); err != nil {
		return nil, err
	}
	for i := range l.Engine.NumEnds() {
		l.ports = append(l.ports, cluster.Fabric.Port(l.Engine.HostPort(i)).GUID)
	}
	return l, nil
}

// Packets is the data plane.
func (l *Loaded) Packets() *dataplane.Engine { return l.Engine }

// RunTo runs everything that happens before time t of the engine.
func (l *Loaded) RunTo(t dataplane.Time) { l.Sim.RunUntil(l.began.Add(t.Duration())) }

// Cut takes the link at a port down; the manager finds that by itself.
func (l *Loaded) Cut(r fabric.Ref) error {
	return l.Sim.LinkDown(l.Fabric.Nodes[r.Node].ID, int(r.Port))
}

// level is the service level that a host would be told now.
func (l *Loaded) level(src, dst int) ib.SL {
	s := l.Manager.Snap
	if s == nil || s.Tables == nil || s.Graph == nil {
		return 0
	}
	if s.Graph != l.known {
		l.known = s.Graph
		clear(l.at)
		for i := range l.known.EndPorts {
			l.at[l.known.EndPorts[i].GUID] = &l.known.EndPorts[i]
		}
	}
	from, to := l.at[l.ports[src]], l.at[l.ports[dst]]
	if from == nil || to == nil || from.Switch < 0 {
		return 0
	}
	return s.Tables.PathSL(from.Switch, to.LID)
}
