package osmsa

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"heddle/ib"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
)

// Write writes the records of the SA as a dump that OpenSM reads (sa_db_file): groups, members,
// subscriptions, services and alias GUIDs. lids are the LIDs of ports, now is the wall time in Unix
// nanoseconds, for leases. left names records that cannot be read, which are left out.
func Write(w io.Writer, records []store.Record, lids []store.LIDEntry, now int64) (left []string, err error) {
	var out sa.Output
	out.Reset()
	sa.NewCore(sa.Config{}).Step(0, sa.Start{Records: records, Wall: now}, &out)
	for _, n := range out.Notices {
		left = append(left, n.Text)
	}
	b := bufio.NewWriter(w)
	line := func(format string, a ...any) { fmt.Fprintf(b, format+"\n\n", a...) }
	writeAliases(line, records, lids)
	if v := out.Publish; v != nil {
		writeGroups(line, v)
		for _, s := range v.Subs {
			writeSubscription(line, s)
		}
		for _, s := range v.Services {
			writeService(line, s, now)
		}
	}
	return left, b.Flush()
}

// pair is 16 bytes as OpenSM writes them.
func pair(b [16]byte) string {
	return fmt.Sprintf("0x%016x:0x%016x", be.Uint64(b[:8]), be.Uint64(b[8:]))
}

// exactly is the selector of a value that is neither a lower nor an upper bound.
const exactly = 0x80

// writeGroups writes the groups by MLID: OpenSM gives them out anew, in the order of the file.
func writeGroups(line func(string, ...any), v *sa.View) {
	groups := slices.Clone(v.Groups)
	slices.SortStableFunc(groups, func(a, b *sa.Group) int { return cmp.Compare(a.MLID, b.MLID) })
	for _, g := range groups {
		known := ""
		if g.WellKnown {
			known = " (well known)"
		}
		line("MC Group 0x%04x %s: mgid=%s port_gid=%s qkey=0x%08x mlid=0x%04x mtu=0x%02x tclass=0x%02x pkey=0x%04x rate=0x%02x pkt_life=0x%02x sl_flow_hop=0x%08x scope_state=0x%02x proxy_join=0x0",
			uint16(g.MLID), known, pair(g.MGID), pair(ib.GID{}), uint32(g.QKey), uint16(g.MLID), exactly|uint8(g.MTU), g.TClass, uint16(g.PKey),
			exactly|uint8(g.Rate), exactly|g.PacketLife, uint32(g.SL)<<28|g.FlowLabel<<8|uint32(g.HopLimit), g.Scope<<4|1)
		for _, m := range g.Members {
			proxy := 0
			if m.Proxy {
				proxy = 1
			}
			line("mcm_port: port_gid=%s scope_state=0x%02x proxy_join=0x%x", pair(m.PortGID), g.Scope<<4|m.JoinState, proxy)
		}
	}
}

func writeSubscription(line func(string, ...any), s *sa.Subscription) {
	i, a := &s.Info, &s.Addr
	line("InformInfo Record: subscriber_gid=%s subscriber_enum=0x%x InformInfo: gid=%s lid_range_begin=0x%x lid_range_end=0x%x is_generic=0x%x subscribe=0x%x trap_type=0x%x trap_num=0x%x qpn_resp_time_val=0x%x node_type=0x%06x rep_addr: lid=0x%04x path_bits=0x%02x static_rate=0x00 remote_qp=0x%08x remote_qkey=0x%08x pkey_ix=0x%04x sl=0x%02x",
		pair(s.GID), s.Enum, pair(i.GID), uint16(i.LIDRangeBegin), uint16(i.LIDRangeEnd), i.IsGeneric, i.Subscribe, i.Type, i.TrapNumber,
		i.QPN<<8|uint32(i.RespTimeValue), i.Producer, uint16(a.LID), a.PathBits, a.QP, uint32(ib.QKeyGSI), a.PKeyIndex, uint8(a.SL))
}

func writeService(line func(string, ...any), s *sa.Service, now int64) {
	r := &s.Record
	var data16, data32, data64 [16]byte
	for i, v := range r.Data16 {
		be.PutUint16(data16[2*i:], v)
	}
	for i, v := range r.Data32 {
		be.PutUint32(data32[4*i:], v)
	}
	for i, v := range r.Data64 {
		be.PutUint64(data64[8*i:], v)
	}
	period := uint32(forever)
	if s.Until != mad.Never {
		period = uint32(s.Until / 1_000_000_000)
	}
	line("Service Record: id=0x%016x gid=%s pkey=0x%x lease=0x%x key=%s name='%s' data8=%s data16=%s data32=%s data64=%s modified_time=0x%x lease_period=0x%x",
		r.ServiceID, pair(r.ServiceGID), uint16(r.ServicePKey), r.ServiceLease, pair(r.ServiceKey), printable(r.Name()), pair(r.Data8), pair(data16), pair(data32), pair(data64),
		uint32(now/1_000_000_000), period)
}

// printable has a name in one line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
}

// writeAliases writes the GUIDInfo blocks that have alias GUIDs.
func writeAliases(line func(string, ...any), records []store.Record, lids []store.LIDEntry) {
	type at struct {
		port  ib.GUID
		block uint8
	}
	blocks := map[at]*[8]ib.GUID{}
	var order []at
	for i := range records {
		a, ok := sa.AliasOf(&records[i])
		if !ok || a.GUID == 0 {
			continue
		}
		k := at{a.Port, a.Index / 8}
		if blocks[k] == nil {
			blocks[k] = new([8]ib.GUID)
			order = append(order, k)
			if k.block == 0 {
				blocks[k][0] = k.port
			}
		}
		blocks[k][a.Index%8] = a.GUID
	}
	lid := map[ib.GUID]ib.LID{}
	for _, e := range lids {
		lid[e.GUID] = e.LID
	}
	for _, k := range order {
		var text strings.Builder
		text.WriteString(fmt.Sprintf("GUIDInfo Record: base_guid=0x%016x lid=0x%04x block_num=0x%x", uint64(k.port), uint16(lid[k.port]), k.block))
		for i, g := range blocks[k] {
			text.WriteString(fmt.Sprintf(" guid%d=0x%016x", i, uint64(g)))
		}
		line("%s", text.String())
	}
}
