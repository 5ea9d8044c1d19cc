package exporter

import (
	"strconv"

	"heddle/ib"
	"heddle/perf"
)

// treydockNames are the names behind infiniband_switch_ and infiniband_hca_.
var treydockNames = [perf.NumCounters]string{
	perf.XmitData: "port_transmit_data_bytes_total", perf.RcvData: "port_receive_data_bytes_total",
	perf.XmitPkts: "port_transmit_packets_total", perf.RcvPkts: "port_receive_packets_total",
	perf.UnicastXmitPkts: "port_unicast_transmit_packets_total", perf.UnicastRcvPkts: "port_unicast_receive_packets_total",
	perf.MulticastXmitPkts: "port_multicast_transmit_packets_total", perf.MulticastRcvPkts: "port_multicast_receive_packets_total",
	perf.SymbolErrors: "port_symbol_error_total", perf.LinkErrorRecovery: "port_link_error_recovery_total",
	perf.LinkDowned: "port_link_downed_total", perf.RcvErrors: "port_receive_errors_total",
	perf.RcvRemotePhysErrors: "port_receive_remote_physical_errors_total", perf.RcvSwitchRelayErrors: "port_receive_switch_relay_errors_total",
	perf.XmitDiscards: "port_transmit_discards_total", perf.XmitConstraintErrors: "port_transmit_constraint_errors_total",
	perf.RcvConstraintErrors: "port_receive_constraint_errors_total", perf.LocalLinkIntegrity: "port_local_link_integrity_errors_total",
	perf.ExcessiveBufOverrun: "port_excessive_buffer_overrun_errors_total", perf.VL15Dropped: "port_vl15_dropped_total",
	perf.XmitWait: "port_transmit_wait_total", perf.QP1Dropped: "port_qp1_dropped_total",
}

// treydockDetails are those of the receive error details, in the order of perf.Details.Rcv. The
// fourth is spelt so there.
var treydockDetails = [perf.NumRcvDetails]string{
	"port_local_physical_errors_total", "port_malformed_packet_errors_total", "port_buffer_overrun_errors_total",
	"port_dli_mapping_errors_total", "port_vl_mapping_errors_total", "port_looping_errors_total",
}

func (x *writer) treydock() {
	for _, kind := range []struct {
		sw           bool
		prefix, help string
	}{
		{true, "infiniband_switch_", "Infiniband switch port "},
		{false, "infiniband_hca_", "Infiniband HCA port "},
	} {
		for c := range perf.NumCounters {
			times := uint64(1)
			if c == perf.XmitData || c == perf.RcvData {
				times = 4
			}
			x.counter(kind.prefix+treydockNames[c], kind.help+c.String(), kind.sw, c, times)
		}
		for k, name := range treydockDetails {
			x.details(kind.prefix+name, kind.help+"receive error details", kind.sw, func(d *perf.Details) (uint64, bool) { return d.Rcv[k], d.RcvAt != 0 })
		}
	}
	x.rates()
	x.uplinks(true, "infiniband_switch_uplink_info", "switch")
	x.uplinks(false, "infiniband_hca_uplink_info", "hca")
	x.nodes(true, "infiniband_switch_info", "switch")
	x.nodes(false, "infiniband_hca_info", "hca")
	x.collected()
}

// details writes a family of counters that few ports were asked for.
func (x *writer) details(name, help string, sw bool, value func(*perf.Details) (uint64, bool)) {
	begun := false
	for k := range x.list {
		p := &x.list[k]
		d := x.r.Details(p.i)
		if p.sw != sw || d == nil {
			continue
		}
		v, ok := value(d)
		if !ok {
			continue
		}
		if !begun {
			begun = true
			x.family(name, "counter", help)
		}
		x.count(name, p.labels, v)
	}
}

// rates writes the rates of links: those of HCAs have no port there.
func (x *writer) rates() {
	bytes := func(lane float64, i int32) float64 {
		return lane * float64(x.r.Snap.Ports[i].Info.LinkWidthActive.Lanes()) * 1e9 / 8
	}
	for _, f := range []struct {
		name, help string
		sw         bool
		lane       func(ib.LinkSpeed) float64
	}{
		{"infiniband_switch_port_rate_bytes_per_second", "Infiniband switch port rate", true, ib.LinkSpeed.DataGbps},
		{"infiniband_switch_port_raw_rate_bytes_per_second", "Infiniband switch port raw rate", true, ib.LinkSpeed.LaneGbps},
		{"infiniband_hca_rate_bytes_per_second", "Infiniband HCA rate", false, ib.LinkSpeed.DataGbps},
		{"infiniband_hca_raw_rate_bytes_per_second", "Infiniband HCA raw rate", false, ib.LinkSpeed.LaneGbps},
	} {
		begun, last := false, ib.GUID(0)
		for k := range x.list {
			p := &x.list[k]
			speed := perf.SpeedOf(x.r.Snap, p.i)
			if p.sw != f.sw || speed == ib.SpeedNone {
				continue
			}
			labels := p.labels
			if !f.sw {
				g := x.r.Snap.Nodes[x.r.Snap.Ports[p.i].Node].Info.NodeGUID
				if g == last {
					continue // one sample for an adapter with several ports
				}
				last = g
				labels = append(label(nil, '{', "guid", guidText(g)), '}')
			}
			if !begun {
				begun = true
				x.family(f.name, "gauge", f.help)
			}
			x.gauge(f.name, labels, bytes(f.lane(speed), p.i))
		}
	}
}

// uplinks writes what is at the other end of each port.
func (x *writer) uplinks(sw bool, name, own string) {
	s := x.r.Snap
	begun := false
	var b []byte
	for k := range x.list {
		p := &x.list[k]
		q := s.Port(s.Ports[p.i].Peer)
		if p.sw != sw || q == nil {
			continue
		}
		node, to := &s.Nodes[s.Ports[p.i].Node], &s.Nodes[q.Node]
		kind := "CA"
		if to.SwitchIndex >= 0 {
			kind = "SW"
		} else if to.Info.NodeType == ib.NodeRouter {
			kind = "RT"
		}
		b = append(b[:0], p.labels[:len(p.labels)-1]...)
		b = label(b, ',', own, node.Desc)
		b = label(b, ',', "uplink", to.Desc)
		b = label(b, ',', "uplink_guid", guidText(to.Info.NodeGUID))
		b = label(b, ',', "uplink_type", kind)
		b = label(b, ',', "uplink_port", strconv.Itoa(int(q.Num)))
		b = append(label(b, ',', "uplink_lid", strconv.Itoa(int(q.LID))), '}')
		if !begun {
			begun = true
			x.family(name, "gauge", "Infiniband "+own+" uplink information")
		}
		x.count(name, b, 1)
	}
}

// nodes writes a sample for each node of the shard, and whether its agent answered.
func (x *writer) nodes(sw bool, name, own string) {
	s := x.r.Snap
	type sample struct {
		labels []byte
		silent bool
		guid   ib.GUID
	}
	var list []sample
	last := int32(-1)
	for k := range x.list {
		p := &x.list[k]
		n := s.Ports[p.i].Node
		if p.sw != sw || n == last {
			continue
		}
		last = n
		node := &s.Nodes[n]
		lid := s.Ports[p.i].LID
		b := label(nil, '{', "guid", guidText(node.Info.NodeGUID))
		b = label(b, ',', own, node.Desc)
		b = append(label(b, ',', "lid", strconv.Itoa(int(lid))), '}')
		list = append(list, sample{b, x.r.Flags(p.i).Has(perf.Silent), node.Info.NodeGUID})
	}
	if len(list) == 0 {
		return
	}
	x.family(name, "gauge", "Infiniband "+own+" information")
	for k := range list {
		x.count(name, list[k].labels, 1)
	}
	prefix := "infiniband_" + own + "_collect_"
	for _, f := range []struct {
		name, help string
		value      func(silent bool) uint64
	}{
		{"duration_seconds", "Duration of collection", func(bool) uint64 { return 0 }}, // counters are read beforehand
		{"error", "Indicates if collect error", func(bool) uint64 { return 0 }},
		{"timeout", "Indicates if collect timeout", func(silent bool) uint64 {
			if silent {
				return 1
			}
			return 0
		}},
	} {
		x.family(prefix+f.name, "gauge", f.help)
		for k := range list {
			b := label(nil, '{', "guid", guidText(list[k].guid))
			x.count(prefix+f.name, append(label(b, ',', "collector", own), '}'), f.value(list[k].silent))
		}
	}
}

// collected writes what the exporter says about itself, in the first shard alone.
func (x *writer) collected() {
	if x.o.Shard != 0 {
		return
	}
	st := &x.r.Status
	b := append(label(nil, '{', "collector", "heddle"), '}')
	for _, f := range []struct {
		name, help string
		v          float64
	}{
		{"infiniband_exporter_collect_errors", "Number of errors that occurred during collection", 0},
		{"infiniband_exporter_collect_timeouts", "Number of timeouts that occurred during collection", float64(st.Silent)},
		{"infiniband_exporter_collector_duration_seconds", "Collector time duration.", st.LastRound.Seconds()},
		{"infiniband_exporter_last_execution", "Last execution time of exporter", float64(x.o.Ended.Unix())},
	} {
		x.family(f.name, "gauge", f.help)
		x.gauge(f.name, b, f.v)
	}
}
