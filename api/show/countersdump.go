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
	{c: perf.XmitWait, name: "xmit_wait"},
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
// counting began, and the manager's time was 0. The texts are those of OpenSM 3.3.23.
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
			read := since.Add(time.Duration(r.At(i))).Format(time.ANSIC)
			active := strings.ToUpper(fmt.Sprint(!node.Unseen))
			if !mach {
				fmt.Fprintf(&b, "\"%s\" 0x%x active %s port %d\n", node.Desc, uint64(node.Info.NodeGUID), active, k)
				dumpLine(&b, "Last Reset", when)
				dumpPort(&b, r, i, read)
				continue
			}
			if !begun {
				begun = true
				b.WriteString("\nName\tGUID\tActive\tPort\tLast Reset\tLast Error Update\tLast Data Update")
				for _, x := range dumpNames {
					b.WriteString("\t" + machName(x.name, x.mach))
				}
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s\t0x%x\t%s\t%d\t%s\t%s\t%s", node.Desc, uint64(node.Info.NodeGUID), active, k, when, read, read)
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

func dumpLine(b *strings.Builder, name, value string) {
	fmt.Fprintf(b, "     %-20s : %s\n", name, value)
}

// dumpPort writes the counters of a port, which were read at a time, one a line.
func dumpPort(b *strings.Builder, r *perf.Round, i int32, read string) {
	dumpLine(b, "Last Error Update", read)
	for _, x := range dumpNames {
		if x.c == perf.XmitData {
			dumpLine(b, "Last Data Update", read)
		}
		v := r.Total(i, x.c)
		if x.row {
			dumpLine(b, x.name, fmt.Sprint(v, " (", forPeople(v, x.data), ")"))
		} else {
			dumpLine(b, x.name, fmt.Sprint(v))
		}
	}
}

// forPeople is a counter, or words of data as bytes, in powers of 1,024.
func forPeople(v uint64, words bool) string {
	unit, value := 0, float64(v)
	for t := v / 1024; t > 0; t /= 1024 {
		unit++
		value /= 1024
	}
	suffix := ""
	if words {
		suffix = "B"
		if value *= 4; value > 1024 {
			unit++
			value /= 1024
		}
	}
	return fmt.Sprintf("%5.3f%s%s", value, []string{"", "K", "M", "G", "T", "P", "E"}[unit], suffix)
}
