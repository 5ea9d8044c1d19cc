package congestion

import (
	"math"
	"slices"

	"heddle/ib"
	"heddle/ib/cc"
	"heddle/subnet"
)

// Given is a value that a user may give; without one it is computed.
type Given[T any] struct {
	Is    bool
	Value T
}

// Give is a given value.
func Give[T any](v T) Given[T] { return Given[T]{true, v} }

// or is the value, or def if none is given.
func (g Given[T]) or(def T) T {
	if g.Is {
		return g.Value
	}
	return def
}

// Policy is what is wanted of all nodes: the options of OpenSM, most of which may be left to be
// computed.
type Policy struct {
	// Of switches (IBA A10.4.3.4). Without a ControlMap it has what is given or computed.
	ControlMap Given[uint32]
	VictimMask Given[cc.PortMask] // else the ports to hosts
	CreditMask cc.PortMask
	Threshold  Given[uint8]
	PacketSize Given[uint8] // in 64 bytes
	// CSThreshold and CSReturnDelay are of credit starvation.
	CSThreshold   uint8
	CSReturnDelay cc.Delay
	MarkingRate   uint16
	// HostThreshold is that of ports to hosts, by SwitchPortCongestionSetting.
	HostThreshold Given[uint8]

	// Of adapters.
	PortControl uint16
	SLMap       uint16 // service levels to be set
	Timer       [16]Given[uint16]
	Increase    [16]uint8
	Trigger     [16]Given[uint8]
	Min         [16]uint8
	Table       Given[[]cc.Delay] // at most MaxTable entries

	// Senders is how many hosts may send to one at a time; 0: all hosts of the subnet.
	Senders int
}

// MaxTable is how many entries a table may have: ControlTableCap has 8 bits.
const MaxTable = 255 * cc.EntriesPerBlock

// DefaultPolicy computes what it can.
//
// Increase 1, a marking rate of 0 and packets of 512 bytes and more are those of Gran et al., "First
// Experiences with Congestion Control in InfiniBand Hardware" (2010).
func DefaultPolicy() Policy {
	p := Policy{SLMap: 0xFFFF}
	for i := range p.Increase {
		p.Increase[i] = 1
	}
	return p
}

// Defaults of a switch. Gran et al. mark at the shortest queue (15), where a lane has a large buffer.
// In the simulator, with tables for more senders than there are, victims and the hot link have more
// than 0.9 of their rates at 4 (a quarter of the way to the shortest queue) with 16 packets of buffer
// in a lane as with 64; at 8 the hot link falls to 0.85, and at 12 to 0.57, where buffers are short.
const (
	autoThreshold  = 4
	autoPacketSize = 8
	autoMap        = cc.MapVictimMask | cc.MapThreshold | cc.MapMarkingRate
)

// switchSetting is what switch node n is to have.
func (p *Policy) switchSetting(s *subnet.Snapshot, n int32) cc.SwitchCongestionSetting {
	v := cc.SwitchCongestionSetting{
		ControlMap: p.ControlMap.or(autoMap), CreditMask: p.CreditMask, Threshold: p.Threshold.or(autoThreshold),
		PacketSize: p.PacketSize.or(autoPacketSize), CSThreshold: p.CSThreshold, CSReturnDelay: p.CSReturnDelay, MarkingRate: p.MarkingRate,
	}
	if !p.ControlMap.Is {
		if p.CreditMask != (cc.PortMask{}) {
			v.ControlMap |= cc.MapCreditMask
		}
		if p.CSThreshold != 0 || p.CSReturnDelay != 0 {
			v.ControlMap |= cc.MapStarvation
		}
	}
	if v.VictimMask = p.VictimMask.Value; !p.VictimMask.Is {
		for _, port := range s.NodePorts(n) {
			if port.Num != 0 && toHost(s, port) {
				v.VictimMask.Add(port.Num)
			}
		}
	}
	return v
}

// portSettings are those of the ports of switch node n.
func (p *Policy) portSettings(s *subnet.Snapshot, n int32) []cc.PortSetting {
	if !p.HostThreshold.Is {
		return nil
	}
	var list []cc.PortSetting
	for _, port := range s.NodePorts(n) {
		if port.Num == 0 || !toHost(s, port) {
			continue
		}
		for len(list) <= int(port.Num) {
			list = append(list, cc.PortSetting{})
		}
		list[port.Num] = cc.PortSetting{
			Valid: true, Threshold: p.HostThreshold.Value, PacketSize: p.PacketSize.or(autoPacketSize), Parameter: p.MarkingRate,
		}
	}
	return list
}

// toHost reports whether a port of a switch leads to a host.
func toHost(s *subnet.Snapshot, p *subnet.Port) bool {
	return p.Peer.Node >= 0 && s.Nodes[p.Peer.Node].SwitchIndex < 0
}

// port is what the defaults of an adapter depend on.
type port struct {
	senders int
	entries int // that its table has room for
	rate    ib.Rate
	mtu     ib.MTU
}

// caSetting is what an adapter is to have, with its table.
func (p *Policy) caSetting(at port) (v cc.CACongestionSetting, table []cc.Delay) {
	table = p.Table.Value
	if !p.Table.Is {
		table = autoTable(at.senders, min(at.entries, autoEntries))
	}
	if table = table[:min(len(table), at.entries)]; len(table) == 0 {
		table = make([]cc.Delay, 1) // as OpenSM does: an index of 0, which pauses not at all
	}
	half := halfRate(table)
	v.PortControl, v.ControlMap = p.PortControl, p.SLMap
	for sl := range v.SL {
		v.SL[sl] = cc.SLSetting{
			Timer: p.Timer[sl].or(autoTimer(at)), Increase: p.Increase[sl], Trigger: p.Trigger[sl].or(half), Min: p.Min[sl],
		}
	}
	return v, table
}

// autoEntries is how many entries a computed table has at most: two blocks, as the published ones.
const autoEntries = 2 * cc.EntriesPerBlock

// autoTable is a table for n senders to one host. Its last entry slows each of them to half of its
// fair share, 1/n: a pause of 2n packets. Before that the pauses grow with the fourth power of the
// index, so that a few notifications slow hardly, and near the fair share a step is some percent.
func autoTable(n, entries int) []cc.Delay {
	if entries == 0 {
		return nil
	}
	table := make([]cc.Delay, entries)
	const most = 1<<14 - 1
	longest := min(float64(2*n), most) // in packets
	for i := range table {
		x := longest * math.Pow(float64(i)/float64(max(entries-1, 1)), 4)
		shift := uint8(3)
		for shift > 0 && longest*float64(uint(1)<<shift) > most {
			shift--
		}
		table[i] = cc.NewDelay(shift, uint16(x*float64(uint(1)<<shift)))
	}
	return table
}

// autoTimer is the time in which each of n senders that have their fair share of a link sends two
// packets of its MTU: at the share that the hot link can carry, half of the packets are marked.
func autoTimer(at port) uint16 {
	gbps := at.rate.Gbps()
	if gbps == 0 || at.mtu.Bytes() == 0 {
		gbps, at.mtu = 100, ib.MTU2048
	}
	packet := float64(at.mtu.Bytes()) * 8 / gbps // ns
	return uint16(min(max(math.Round(2*float64(at.senders)*packet/cc.TimeUnit), 1), math.MaxUint16))
}

// halfRate is the first index at which a pause is as long as its packet; 0: there is none.
func halfRate(table []cc.Delay) uint8 {
	i := slices.IndexFunc(table, func(d cc.Delay) bool { return d.Multiplier() >= 1<<d.Shift() })
	if i < 0 || i > math.MaxUint8 {
		return 0
	}
	return uint8(i)
}

// atMost is a number of senders that stays the same when a few hosts come or go: else each of them
// would change the settings of all. It is the lowest power of 2 that is enough, and the present one
// while that is less than four times too high.
func atMost(hosts, present int) int {
	n := 2
	for n < hosts {
		n *= 2
	}
	if present >= n && present < 4*n {
		return present
	}
	return n
}

// off has the settings that turn congestion control off.
func off() (sw cc.SwitchCongestionSetting, ca cc.CACongestionSetting, table []cc.Delay) {
	sw.ControlMap = cc.MapVictimMask | cc.MapCreditMask | cc.MapThreshold | cc.MapStarvation | cc.MapMarkingRate
	ca.ControlMap = 0xFFFF
	return sw, ca, make([]cc.Delay, 1)
}
