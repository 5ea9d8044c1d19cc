package show

import (
	"fmt"
	"strings"
	"time"

	"heddle/perf"
)

// dumpNames are the counters in the order and under the names of OpenSM's dumps.
var dumpNames = []struct {
	c         perf.Counter
	name      string // of dump_counters
	mach      string // of dump_counters mach
	data, row bool   // with a number for people: bytes, or not
}{
	{c: perf.SymbolErrors, name: "symbol_err_cnt"},
	{c: perf.LinkErrorRecovery, name: "link_err_recover"},
	{c: perf.LinkDowned, name: "link_downed"},
	{c: perf.RcvErrors, name: "rcv_err"},
	{c: perf.RcvRemotePhysErrors, name: "rcv_rem_phys_err"},
	{c: perf.RcvSwitchRelayErrors, name: "rcv_switch_relay_err"},
	{c: perf.XmitDiscards, name: "xmit_discards"},
	{c: perf.XmitConstraintErrors, name: "xmit_constraint_err"},
	{c: perf.RcvConstraintErrors, name: "rcv_constraint_err"},
	{c: perf.LocalLinkIntegrity, name: "link_integrity_err", mach: "link_int_err"},
	{c: perf.ExcessiveBufOverrun, name: "buf_overrun_err"},
	{c: perf.VL15Dropped, name: "vl15_dropped"},
	{c: perf.XmitData, name: "xmit_data", data: true, row: true},
	{c: perf.RcvData, name: "rcv_data", data: true, row: true},
	{c: perf.XmitPkts, name: "xmit_pkts", row: true},
	{c: perf.RcvPkts, name: "rcv_pkts", row: true},
	{c: perf.UnicastXmitPkts, name: "unicast_xmit_pkts", row: true},
	{c: perf.UnicastRcvPkts, name: "unicast_rcv_pkts", row: true},
	{c: perf.MulticastXmitPkts, name: "multicast_xmit_pkts", row: true},
	{c: perf.MulticastRcvPkts, name: "multicast_rcv_pkts", row: true},
}

// CountersDump has the totals of all ports as OpenSM's console command 'perfmgr dump_counters' writes
// them to the file event_db_dump_file, or, with mach, as 'dump_counters mach' does. since is when
// counting began.
func CountersDump(r *perf.Round, since time.Time, mach bool) string {
	var b strings.Builder
	if r == nil {
		return ""
	}
	when := since.Format(time.ANSIC)
	for n := range r.Snap.Nodes {
		node := &r.Snap.Nodes[n]
		begun := false
		for k := range r.Snap.NodePorts(int32(n)) {
			i := node.First + int32(k)
			if r.At(i) == 0 {
				continue
			}
			active := strings.ToUpper(fmt.Sprint(!node.Unseen))
			if !mach {
				fmt.Fprintf(&b, "\"%s\" 0x%x active %s port %d (Since %s)\n", node.Desc, uint64(node.Info.NodeGUID), active, k, when)
				dumpPort(&b, r, i)
				continue
			}
			if !begun {
				begun = true
				b.WriteString("\nName\tGUID\tActive\tPort\tLast Reset")
				for _, x := range dumpNames {
					b.WriteString("\t" + machName(x.name, x.mach))
				}
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s\t0x%x\t%s\t%d\t%s", node.Desc, uint64(node.Info.NodeGUID), active, k, when)
			for _, x := range dumpNames {
				fmt.Fprintf(&b, "\t%d", r.Total(i, x.c))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func machName(name, mach string) string {
	if mach != "" {
		return mach
	}
	return name
}

// dumpPort writes the counters of a port, one a line.
func dumpPort(b *strings.Builder, r *perf.Round, i int32) {
	for _, x := range dumpNames {
		v := r.Total(i, x.c)
		fmt.Fprintf(b, "     %-20s : %d", x.name, v)
		if !x.row {
			b.WriteByte('\n')
			continue
		}
		unit, value := 0, float64(v)
		for t := v / 1024; t > 0; t /= 1024 {
			unit++
			value /= 1024
		}
		suffix := ""
		if x.data {
			suffix = "B"
			if value *= 4; value > 1024 {
				unit++
				value /= 1024
			}
		}
		fmt.Fprintf(b, " (%5.3f%s%s)\n", value, []string{"", "K", "M", "G", "T", "P", "E"}[unit], suffix)
	}
}
