package congestion

import (
	"fmt"
	"time"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/lab/experiment/bed"
	"heddle/mad"
)

// settings are those of all switches and adapters of a subnet (IBA annex A10).
type settings struct {
	threshold  uint8  // of switches: 0, no marks, to 15, marks from the shortest queue on
	packetSize uint8  // in 64 bytes; shorter packets are not marked
	rate       uint16 // packets that are not marked after one that is
	increase   uint8  // of an adapter's index, by a notification
	timer      uint16 // after which the index falls by one, in 1.024 µs
	least      uint8  // index
	bySL       bool   // one index for all queue pairs of a service level
	table      table
}

// table is a congestion control table.
type table struct {
	name  string
	entry []cc.Delay // up to its limit
}

// quadratic is a table of the congestion control tools of Lawrence Livermore National
// Laboratory, of 128 entries.
func quadratic(name string, shift uint8, scale float64) table {
	t := table{name: name}
	for i := range 128 {
		t.entry = append(t.entry, cc.NewDelay(shift, uint16(7*float64(i*i)/(scale*scale)/0.218)))
	}
	return t
}

func simula() table   { return quadratic("Simula", 3, 106) }
func mellanox() table { return quadratic("Mellanox", 0, 95) }

// straight rises evenly to the pause with which n senders share a cable twice over.
func straight(n int) table {
	t := table{name: fmt.Sprintf("straight, %d", n)}
	for i := range 128 {
		t.entry = append(t.entry, cc.NewDelay(3, uint16(min(16*n*i/127, 16383))))
	}
	return t
}

// crowd slows n senders to half of their fair shares at its end, and those with few
// notifications hardly: the fourth power of the index.
func crowd(n int) table {
	t := table{name: fmt.Sprintf("fourth power, %d", n)}
	for i := range 128 {
		t.entry = append(t.entry, delay(2*float64(n)*float64(i*i*i*i)/(127*127*127*127)))
	}
	return t
}

// delay is the entry of the finest shift for a pause of so many packet times.
func delay(packets float64) cc.Delay {
	shift := uint8(3)
	for shift > 0 && packets*float64(int(1)<<shift) > 16383 {
		shift--
	}
	return cc.NewDelay(shift, uint16(min(packets*float64(int(1)<<shift), 16383)))
}

// cut ends a table at a limit.
func (t table) cut(limit int) table {
	return table{fmt.Sprintf("%s to %d", t.name, limit), t.entry[:limit+1]}
}

// gran are the parameters of Gran et al. (2010), as the reference recalls them, with the
// table of the same authors' tools.
func gran() settings {
	return settings{threshold: 15, packetSize: 8, increase: 1, timer: 150, table: simula()}
}

// forCrowd are settings for n hosts that may all send to one: the pause at the end of the
// table, and the timer, grow with n, as vendors' managers compute them from the number of
// nodes. A sender hears of marks n times as seldom, so the index has to last as long.
// Marks of every other packet
// and a shorter timer use the hot spot better; with a much shorter one flows of 5 % forget too soon.
func forCrowd(n int) settings {
	return settings{threshold: 8, packetSize: 8, rate: 1, increase: 4, timer: uint16(max(n, 24)), table: crowd(n)}
}

// apply writes the settings to all switches and adapters by MADs of the congestion
// control class. Ports of switches to hosts mark also when they wait for credits, as a
// host slower than its cable makes them.
func (s *settings) apply(b *bed.Data) error {
	w, err := newWriter(b)
	if err != nil {
		return err
	}
	defer w.close()
	f := b.Cluster.Fabric
	for _, l := range b.Cluster.Sim.LIDs() {
		nd := &f.Nodes[l.Node]
		if nd.IsSwitch() {
			v := cc.SwitchCongestionSetting{
				ControlMap: cc.MapVictimMask | cc.MapThreshold | cc.MapMarkingRate,
				Threshold:  s.threshold, PacketSize: s.packetSize, MarkingRate: s.rate,
			}
			for p := 1; p < len(nd.Ports); p++ {
				if r, ok := b.Cluster.Sim.Peer(l.Node, p); ok && !f.Nodes[r.Node].IsSwitch() {
					v.VictimMask.Add(uint8(p))
				}
			}
			w.set(l.LID, cc.AttrSwitchCongestionSetting, 0, &v)
			continue
		}
		for block := range (len(s.table.entry) + cc.EntriesPerBlock - 1) / cc.EntriesPerBlock {
			v := cc.CongestionControlTable{Limit: uint16(len(s.table.entry) - 1)}
			copy(v.Entry[:], s.table.entry[block*cc.EntriesPerBlock:])
			w.set(l.LID, cc.AttrCongestionControlTable, uint32(block), &v)
		}
		v := cc.CACongestionSetting{ControlMap: 0xFFFF}
		if s.bySL {
			v.PortControl = cc.PortControlSL
		}
		for sl := range v.SL {
			v.SL[sl] = cc.SLSetting{Timer: s.timer, Increase: s.increase, Min: s.least}
		}
		w.set(l.LID, cc.AttrCACongestionSetting, 0, &v)
	}
	return w.wait()
}

// writer sends Sets to the congestion control agents.
type writer struct {
	b       *bed.Data
	close   func()
	send    func(p *mad.Packet)
	waiting map[uint64]bool
	bad     error
}

func newWriter(b *bed.Data) (*writer, error) {
	ep, err := b.Cluster.Sim.Attach(b.Manager.Node)
	if err != nil {
		return nil, err
	}
	w := &writer{b: b, close: ep.Close, send: ep.Send, waiting: map[uint64]bool{}}
	ep.OnPacket = func(p *mad.Packet) {
		m := (*ib.MAD)(p.Data)
		delete(w.waiting, m.TID()&(1<<48-1))
		if st := m.Status(); st != 0 {
			w.bad = fmt.Errorf("attribute %#x: status %v", m.AttrID(), st)
		}
	}
	return w, nil
}

func (w *writer) set(to ib.LID, attr ib.AttrID, mod uint32, v interface{ Put(b []byte) }) {
	var m ib.MAD
	cc.New(&m, ib.MethodSet, attr, mod, 0)
	v.Put(cc.Data(&m))
	tid := uint64(to)<<24 | uint64(attr)<<8 | uint64(mod)
	m.SetTID(tid)
	w.waiting[tid] = true
	w.send(&mad.Packet{Addr: mad.Addr{LID: to, QP: 1}, LocalQP: 1, Data: m[:]})
}

// wait runs until all are answered.
func (w *writer) wait() error {
	if err := w.b.Cluster.RunUntil(10*time.Second, func() bool { return len(w.waiting) == 0 }); err != nil {
		return fmt.Errorf("congestion control settings without an answer: %w", err)
	}
	w.b.Cluster.Sim.Data()
	return w.bad
}
