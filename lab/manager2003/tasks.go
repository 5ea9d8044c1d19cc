package manager2003

import (
	"fmt"
	"slices"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/route"
)

// noLimit is a code of a lifetime without limit: the report has none.
const noLimit = 20

// discover explores the subnet from nothing (§2.2).
func (m *Manager) discover() {
	m.busy, m.after = true, nil
	m.now = Change{Noticed: m.s.Now()}
	m.nodes, m.list, m.open = map[ib.GUID]*node{}, nil, 0
	m.getNode(nil, nil, 0)
	m.pump()
}

// getNode asks what is at the end of path, beyond port num of from.
func (m *Manager) getNode(path []byte, from *node, num uint8) {
	m.now.NodeInfos++
	if m.OnNode != nil {
		m.OnNode(path, false)
	}
	m.task(ib.MethodGet, smp.AttrNodeInfo, 0, path, nil, func(c *mad.Completion) {
		var ni smp.NodeInfo
		if c.Err == nil && ni.Decode(smp.Data(c.MAD)) == nil {
			if m.OnNode != nil {
				m.OnNode(path, true)
			}
			if from != nil {
				from.ports[num].peer, from.ports[num].far = ni.NodeGUID, ni.LocalPortNum
			}
			m.gotNode(&ni, path)
		}
		m.discovered()
	})
}

func (m *Manager) gotNode(ni *smp.NodeInfo, path []byte) {
	if m.nodes[ni.NodeGUID] != nil {
		return
	}
	n := &node{info: *ni, path: path, lid: m.lids[ni.NodeGUID], ports: make([]port, int(ni.NumPorts)+1)}
	if n.lid == 0 {
		n.lid = ib.LID(len(m.lids) + 1)
		m.lids[ni.NodeGUID] = n.lid
	}
	if len(m.list) == 0 {
		m.sm = n.lid
	}
	m.nodes[ni.NodeGUID] = n
	m.list = append(m.list, n)
	first := uint8(1)
	if ni.NodeType == ib.NodeSwitch {
		first = 0
	}
	for p := first; p <= ni.NumPorts; p++ {
		m.now.PortInfos++
		m.task(ib.MethodGet, smp.AttrPortInfo, uint32(p), path, nil, func(c *mad.Completion) {
			if c.Err == nil && n.ports[p].info.Decode(smp.Data(c.MAD)) == nil {
				m.gotPort(n, p)
			}
			m.discovered()
		})
	}
}

func (m *Manager) gotPort(n *node, p uint8) {
	pi := n.ports[p].info
	if p == 0 || n.info.NodeType != ib.NodeSwitch { // a management port
		pi.ClearForSet()
		pi.LID, pi.MasterSMLID, pi.LMC = n.lid, m.sm, 0
		n.ports[p].info.LID, n.ports[p].info.MasterSMLID = n.lid, m.sm
		m.now.LIDs++
		m.task(ib.MethodSet, smp.AttrPortInfo, uint32(p), n.path, pi.Put, func(*mad.Completion) { m.discovered() })
	}
	relays := n.info.NodeType == ib.NodeSwitch || len(n.path) == 0
	if p > 0 && n.ports[p].info.PortState != ib.StateDown && relays {
		m.getNode(append(slices.Clone(n.path), p), n, p)
	}
}

// discovered ends the discovery with the last answer, and computes the tables. The
// time that this takes passes in the simulation.
func (m *Manager) discovered() {
	if m.open > 0 {
		return
	}
	m.now.Discovered = m.s.Now()
	g, err := m.graph()
	if err != nil {
		panic(err) // LIDs and cables are our own
	}
	clock := m.cfg.Clock
	if clock == nil {
		clock = func() time.Duration { return 0 }
	}
	began := clock()
	t, err := Engine{}.Compute(g, route.Options{})
	if err != nil {
		panic(err)
	}
	m.now.CPU = clock() - began
	if m.cfg.Compute != nil {
		m.now.CPU = m.cfg.Compute(len(g.Switches))
	}
	m.now.Graph, m.now.Tables = g, t
	m.s.After(m.now.CPU, m.distribute)
}

// graph is the topology that was discovered.
func (m *Manager) graph() (*fabric.Graph, error) {
	var b fabric.Builder
	index := map[ib.GUID]int{}
	for i, n := range m.list {
		k := b.Add(n.info.NodeType, fmt.Sprintf("n%d", i), int(n.info.NumPorts))
		b.SetGUID(k, n.info.NodeGUID)
		index[n.info.NodeGUID] = k
	}
	for _, n := range m.list {
		k := index[n.info.NodeGUID]
		for p := range n.ports {
			o := &n.ports[p]
			if o.peer == 0 {
				continue
			}
			if far, ok := index[o.peer]; ok && !b.Node(k).Ports[p].Cabled() {
				b.Connect(k, p, far, int(o.far))
			}
		}
		p := 0
		if n.info.NodeType != ib.NodeSwitch {
			p = 1
		}
		b.SetLID(k, p, n.lid, 0)
	}
	f, err := b.Build()
	if err != nil {
		return nil, err
	}
	return f.Graph(fabric.GraphOptions{})
}

// distribute is the static distribution (§2.4) in its three steps.
func (m *Manager) distribute() {
	m.now.Computed = m.s.Now()
	m.mads.CancelAll() // what is left of the sweep went by ways that are gone
	clear(m.wait)
	for _, n := range m.list {
		if n.info.NodeType == ib.NodeSwitch && !m.heard[n.info.NodeGUID] {
			m.setSwitch(n, smp.SwitchInfo{
				DefaultMulticastPrimaryPort:    smp.PortDrop,
				DefaultMulticastNotPrimaryPort: smp.PortDrop,
			})
		}
	}
	m.ports(ib.StateInit, &m.now.Downs)
	m.step(func() {
		m.now.Down = m.s.Now()
		m.blocks()
		m.step(func() {
			m.now.Written = m.s.Now()
			m.ports(ib.StateActive, &m.now.Ups)
			m.step(m.finish)
		})
	})
}

func (m *Manager) finish() {
	m.now.Up = m.s.Now()
	m.Changes = append(m.Changes, m.now)
	m.busy = false
}

// ports queues the Sets of a state for all ports that are not down, those of hosts
// included.
func (m *Manager) ports(state ib.PortState, count *int) {
	for _, n := range m.list {
		for p := 1; p < len(n.ports); p++ {
			pi := n.ports[p].info
			if pi.PortState == ib.StateDown || pi.PortState == 0 {
				continue
			}
			pi.ClearForSet()
			pi.PortState, pi.NeighborMTU, pi.OperationalVLs, pi.HOQLife = state, pi.MTUCap, pi.VLCap, noLimit
			*count++
			m.queue = append(m.queue, func() {
				m.task(ib.MethodSet, smp.AttrPortInfo, uint32(p), n.path, pi.Put, func(*mad.Completion) {})
			})
		}
	}
}

// blocks queues all blocks of all tables.
func (m *Manager) blocks() {
	for s := range m.now.Graph.Switches {
		n := m.nodes[m.now.Graph.Switches[s].GUID]
		for b := range m.cfg.Blocks {
			var block smp.LFT
			for i := range block {
				block[i] = m.now.Tables.Entry(int32(s), ib.LID(b*route.BlockLen+i))
			}
			m.now.Blocks++
			m.queue = append(m.queue, func() {
				m.task(ib.MethodSet, smp.AttrLFT, uint32(b), n.path, block.Put, func(*mad.Completion) {})
			})
		}
	}
}

// step sends what is queued, Config.Window SMPs at a time, and then calls next.
func (m *Manager) step(next func()) {
	queue := m.queue
	m.queue = nil
	m.after = func() {
		for len(queue) > 0 && m.open < max(m.cfg.Window, 1) {
			send := queue[0]
			queue = queue[1:]
			send()
		}
		if m.open == 0 {
			m.after = nil
			next()
		}
	}
	m.after()
	m.pump()
}
