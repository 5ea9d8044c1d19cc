package congestion

import (
	"fmt"
	"time"

	"heddle/congestion"
	"heddle/ib/cc"
	"heddle/lab/experiment/bed"
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
	computed   bool // by the manager: nothing above is given
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

// config has a manager write the settings to all switches and adapters. Ports of switches to
// hosts mark also when they wait for credits, as hosts slower than their cables make them:
// the victim mask that the manager computes.
func (s *settings) config() congestion.Config {
	cfg := congestion.Defaults()
	cfg.Mode, cfg.Rate = congestion.Act, managerRate
	cfg.Logs = 0 // nothing but packets is on the lanes afterwards
	if s.computed {
		return cfg
	}
	p := &cfg.Policy
	p.Threshold, p.PacketSize, p.MarkingRate = congestion.Give(s.threshold), congestion.Give(s.packetSize), s.rate
	if s.bySL {
		p.PortControl = cc.PortControlSL
	}
	for sl := range p.Increase {
		p.Timer[sl], p.Increase[sl], p.Min[sl] = congestion.Give(s.timer), s.increase, s.least
		p.Trigger[sl] = congestion.Give[uint8](0)
	}
	p.Table = congestion.Give(s.table.entry)
	return cfg
}

// managerRate is how many requests a second the manager begins; 64 are in flight.
const managerRate = 200_000

// begin has the congestion control manager of b write the settings by MADs of its class, and
// read them back, while time goes on.
func (s *settings) begin(b *bed.Data) { b.Manager.ServeCongestion(s.config()) }

// held reports whether the manager has read what it wanted from all nodes.
func held(b *bed.Data) bool {
	st := b.Manager.CongestionStatus()
	return st.Agents > 0 && st.Managed == st.Agents && st.Differs == 0 && st.InFlight == 0
}

// apply returns when all nodes hold the settings.
func (s *settings) apply(b *bed.Data) error {
	s.begin(b)
	for range 10_000 {
		if b.Run(time.Millisecond); held(b) {
			return nil
		}
	}
	return fmt.Errorf("congestion control settings: %+v", b.Manager.CongestionStatus())
}
