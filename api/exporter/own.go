package exporter

import (
	"strconv"

	"heddle/perf"
)

// own writes what neither exporter has: the share of time that ports wait, errors of the line code,
// and virtual ports.
func (x *writer) own() {
	begun := false
	for k := range x.list {
		p := &x.list[k]
		if x.r.WaitTick(p.i) == 0 || x.r.Elapsed(p.i) <= 0 {
			continue
		}
		if !begun {
			begun = true
			x.family("heddle_port_wait_ratio", "gauge", "Share of time in which a port had something to send and could not.")
		}
		x.gauge("heddle_port_wait_ratio", p.labels, x.r.WaitShare(p.i))
	}
	x.speeds()
	x.virtual()
}

func (x *writer) speeds() {
	names := [...]string{
		"heddle_port_fec_correctable_blocks_total", "heddle_port_fec_uncorrectable_blocks_total", "heddle_port_fec_corrected_symbols_total",
	}
	help := [...]string{"Blocks that FEC corrected.", "Blocks that FEC could not correct.", "Symbols that FEC corrected."}
	for n, name := range names {
		begun := false
		for k := range x.list {
			p := &x.list[k]
			s := x.r.Speeds(p.i)
			v := [...]uint32{s.PortFECCorrectable, s.PortFECUncorrectable, s.PortFECCorrected}[n]
			if v == 0 {
				continue
			}
			if !begun {
				begun = true
				x.family(name, "counter", help[n])
			}
			x.count(name, p.labels, uint64(v))
		}
	}
}

// vportNames are those of the counters of perf.VPortSample.
var vportNames = [perf.NumVPortCounters]string{
	"transmit_data_bytes_total", "receive_data_bytes_total", "transmit_packets_total", "receive_packets_total",
	"unicast_transmit_packets_total", "unicast_receive_packets_total", "multicast_transmit_packets_total",
	"multicast_receive_packets_total", "relay_errors_total",
}

func (x *writer) virtual() {
	if len(x.r.Virtual) == 0 {
		return
	}
	s := x.r.Snap
	for c, suffix := range vportNames {
		name := "heddle_vport_" + suffix
		x.family(name, "counter", "Counter of a virtual port.")
		for k := range x.r.Virtual {
			v := &x.r.Virtual[k]
			i := s.PortByPortGUID(v.Port)
			if i < 0 || !InShard(s.Nodes[s.Ports[i].Node].Info.NodeGUID, x.o.Shard, x.o.Of) {
				continue
			}
			b := label(nil, '{', "guid", guidText(s.Nodes[s.Ports[i].Node].Info.NodeGUID))
			b = label(b, ',', "port", strconv.Itoa(int(s.Ports[i].Num)))
			b = append(label(b, ',', "vport", strconv.Itoa(int(v.Index))), '}')
			n := v.Total[c]
			if c < 2 {
				n *= 4
			}
			x.count(name, b, n)
		}
	}
}
