// Package osmsa reads opensm-sa.dump, the file in which OpenSM keeps what its
// subnet administrator knows (options sa_db_dump and sa_db_file): multicast
// groups with their members, subscriptions, services and alias GUIDs. The
// result is what package sa stores, so that a manager which takes a subnet
// over from OpenSM begins with the same groups under the same MLIDs, and no
// client has to register again.
//
// The form: one record a line, the fields in a fixed order. A line that cannot
// be read makes the whole file unread: Read returns an error that names it and
// no records. What can be read but not kept is left out with a Warning.
package osmsa

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/mad"
	"heddle/sa"
	"heddle/store"
)

// Limits of a file. A line of OpenSM has less than 700 bytes.
const (
	maxLine  = 4096
	maxLines = 1 << 22
)

// Warning is a record that was left out, or changed.
type Warning struct {
	Line int
	Text string
}

// Read reads a dump. name is what errors call the file, now the wall time in
// Unix nanoseconds: leases that have ended by then are left out.
func Read(r io.Reader, name string, now int64) ([]store.Record, []Warning, error) {
	d := dump{now: now, mgids: map[ib.GID]bool{}, aliases: map[ib.GUID]ib.GUID{}}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, maxLine), maxLine)
	for in.Scan() {
		d.line++
		if d.line > maxLines {
			return nil, nil, fmt.Errorf("%s: more than %d lines: this is no dump of a subnet administrator", name, maxLines)
		}
		if err := d.record(in.Text()); err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", name, d.line, err)
		}
	}
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line of more than %d bytes: no record is that long", maxLine)
		}
		return nil, nil, fmt.Errorf("%s:%d: %w", name, d.line+1, err)
	}
	for _, g := range d.groups {
		for i := range g.Members {
			if port, ok := d.aliases[g.Members[i].PortGUID]; ok {
				g.Members[i].PortGUID = port
			}
		}
		d.records = append(d.records, sa.GroupRecords(g)...)
	}
	return d.records, d.warnings, nil
}

// dump is a file being read.
type dump struct {
	now      int64
	line     int
	records  []store.Record
	warnings []Warning
	groups   []*sa.Group
	group    *sa.Group // the last of groups, if members may follow
	mgids    map[ib.GID]bool
	aliases  map[ib.GUID]ib.GUID // the port that has an alias
}

func (d *dump) warn(format string, args ...any) {
	d.warnings = append(d.warnings, Warning{d.line, fmt.Sprintf(format, args...)})
}

// record reads one line.
func (d *dump) record(s string) error {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	p := fields{rest: s}
	if p.prefix("mcm_port: ") {
		return d.member(&p)
	}
	d.group = nil
	switch {
	case p.prefix("MC Group "):
		return d.mcGroup(&p)
	case p.prefix("InformInfo Record: "):
		return d.inform(&p)
	case p.prefix("Service Record: "):
		return d.service(&p)
	case p.prefix("GUIDInfo Record: "):
		return d.guids(&p)
	}
	return fmt.Errorf("%q begins no record: want MC Group, mcm_port, InformInfo Record, Service Record or GUIDInfo Record", head(s))
}

// head is what an error shows of a line.
func head(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// selected splits a value with a selector in its two high bits.
func selected(v uint64) uint8 { return uint8(v & 0x3F) }

func (d *dump) mcGroup(p *fields) error {
	var g sa.Group
	mlid := p.number("", 16)
	g.WellKnown = p.prefix("(well known)")
	p.literal(": ")
	g.MGID = p.gid("mgid=")
	p.gid("port_gid=")
	g.QKey = ib.QKey(p.number("qkey=", 32))
	if again := p.number("mlid=", 16); again != mlid && p.err == nil {
		return fmt.Errorf("the group has two MLIDs, %#x and %#x", mlid, again)
	}
	g.MLID = ib.LID(mlid)
	g.MTU = ib.MTU(selected(p.number("mtu=", 8)))
	g.TClass = uint8(p.number("tclass=", 8))
	g.PKey = ib.PKey(p.number("pkey=", 16))
	g.Rate = ib.Rate(selected(p.number("rate=", 8)))
	g.PacketLife = selected(p.number("pkt_life=", 8))
	slFlowHop := p.number("sl_flow_hop=", 32)
	g.SL, g.FlowLabel, g.HopLimit = ib.SL(slFlowHop>>28), uint32(slFlowHop>>8&0xFFFFF), uint8(slFlowHop)
	// OpenSM leaves the scope 0 if the creator did not give it: the MGID has it.
	if g.Scope = uint8(p.number("scope_state=", 8) >> 4); g.Scope == 0 {
		g.Scope = g.MGID[1] & 0xF
	}
	p.number("proxy_join=", 8)
	if err := p.end(); err != nil {
		return err
	}
	switch {
	case !g.MGID.IsMulticast():
		return fmt.Errorf("mgid %v is no multicast GID", g.MGID)
	case g.MLID < ib.LIDMinMulticast || g.MLID > ib.LIDMaxMulticast:
		return fmt.Errorf("mlid %#x is no multicast LID", uint16(g.MLID))
	case g.MTU < ib.MTU256 || g.MTU > ib.MTU4096:
		return fmt.Errorf("group %v: mtu %#x, want a code of 1 to 5 and the selector", g.MGID, uint8(g.MTU))
	case g.PKey.IsEmpty():
		return fmt.Errorf("group %v: pkey %v is no P_Key", g.MGID, g.PKey)
	case !g.Rate.Valid():
		return fmt.Errorf("group %v: rate %#x is no rate", g.MGID, uint8(g.Rate))
	case d.mgids[g.MGID]:
		return fmt.Errorf("group %v is there twice", g.MGID)
	}
	d.mgids[g.MGID] = true
	d.group = &g
	d.groups = append(d.groups, &g)
	return nil
}

func (d *dump) member(p *fields) error {
	gid := p.gid("port_gid=")
	state := p.number("scope_state=", 8) & 0xF
	proxy := p.number("proxy_join=", 8)
	if err := p.end(); err != nil {
		return err
	}
	if d.group == nil {
		return errors.New("a member without a group: the line of its group must stand above")
	}
	g := d.group
	if state == 0 {
		d.warn("port %v is in group %v with no join state: it is left out", gid, g.MGID)
		return nil
	}
	i := 0
	for i < len(g.Members) && string(g.Members[i].PortGID[:]) < string(gid[:]) {
		i++
	}
	if i < len(g.Members) && g.Members[i].PortGID == gid {
		return fmt.Errorf("port %v is in group %v twice", gid, g.MGID)
	}
	m := sa.Member{PortGID: gid, PortGUID: gid.GUID(), JoinState: uint8(state), Proxy: proxy != 0}
	g.Members = append(g.Members, sa.Member{})
	copy(g.Members[i+1:], g.Members[i:])
	g.Members[i] = m
	return nil
}

func (d *dump) inform(p *fields) error {
	s := sa.Subscription{}
	s.GID = p.gid("subscriber_gid=")
	s.Enum = uint16(p.number("subscriber_enum=", 16))
	p.literal("InformInfo: ")
	i := &s.Info
	i.GID = p.gid("gid=")
	i.LIDRangeBegin, i.LIDRangeEnd = ib.LID(p.number("lid_range_begin=", 16)), ib.LID(p.number("lid_range_end=", 16))
	i.IsGeneric, i.Subscribe = uint8(p.number("is_generic=", 8)), uint8(p.number("subscribe=", 8))
	i.Type, i.TrapNumber = uint16(p.number("trap_type=", 16)), uint16(p.number("trap_num=", 16))
	qpn := p.number("qpn_resp_time_val=", 32)
	i.Producer = uint32(p.number("node_type=", 24))
	p.literal("rep_addr: ")
	a := &s.Addr
	a.LID, a.PathBits = ib.LID(p.number("lid=", 16)), uint8(p.number("path_bits=", 8))
	p.number("static_rate=", 8)
	a.QP = uint32(p.number("remote_qp=", 32))
	p.number("remote_qkey=", 32)
	a.PKeyIndex = uint16(p.number("pkey_ix=", 16))
	a.SL = ib.SL(p.number("sl=", 8))
	if err := p.end(); err != nil {
		return err
	}
	i.RespTimeValue, i.QPN = uint8(qpn&0x1F), a.QP
	// OpenSM takes subscriptions to security traps from the trusted alone.
	s.Trust = i.IsGeneric == 1 && i.TrapNumber >= smp.TrapBadMKey && i.TrapNumber <= smp.TrapBadPKeySwitchPort
	switch {
	case s.GID.GUID() == 0 || s.GID.IsMulticast():
		return fmt.Errorf("subscriber %v is no port", s.GID)
	case a.QP == 0 || a.QP > 0xFFFFFF:
		return fmt.Errorf("subscriber %v: QP %#x cannot take Reports", s.GID, a.QP)
	case a.SL > 15:
		return fmt.Errorf("subscriber %v: SL %d", s.GID, a.SL)
	case i.IsGeneric > 1:
		return fmt.Errorf("subscriber %v: is_generic %d, want 0 or 1", s.GID, i.IsGeneric)
	}
	if i.Subscribe != 1 {
		d.warn("subscriber %v is not subscribed: it is left out", s.GID)
		return nil
	}
	d.records = append(d.records, sa.SubscriptionRecord(&s))
	return nil
}

func (d *dump) service(p *fields) error {
	var s sa.Service
	r := &s.Record
	r.ServiceID = p.number("id=", 64)
	r.ServiceGID = p.gid("gid=")
	r.ServicePKey = ib.PKey(p.number("pkey=", 16))
	r.ServiceLease = uint32(p.number("lease=", 32))
	r.ServiceKey = p.gid("key=")
	name := p.quoted("name=")
	data8, data16, data32, data64 := p.gid("data8="), p.gid("data16="), p.gid("data32="), p.gid("data64=")
	modified, period := p.number("modified_time=", 32), p.number("lease_period=", 32)
	if err := p.end(); err != nil {
		return err
	}
	if len(name) >= len(r.ServiceName) {
		return fmt.Errorf("service %#x: a name of %d bytes, want less than %d", r.ServiceID, len(name), len(r.ServiceName))
	}
	copy(r.ServiceName[:], name)
	r.Data8 = data8
	for i := range r.Data16 {
		r.Data16[i] = be.Uint16(data16[2*i:])
	}
	for i := range r.Data32 {
		r.Data32[i] = be.Uint32(data32[4*i:])
	}
	for i := range r.Data64 {
		r.Data64[i] = be.Uint64(data64[8*i:])
	}
	s.By = r.ServiceGID.GUID()
	s.Until = mad.Never
	// OpenSM counts the period down and notes when it did.
	if uint32(period) != forever {
		s.Until = mad.Time((modified + period) * 1_000_000_000)
		if int64(s.Until) <= d.now {
			d.warn("the lease of service %#x %q has ended: it is left out", r.ServiceID, r.Name())
			return nil
		}
	}
	d.records = append(d.records, sa.ServiceRecordOf(&s))
	return nil
}

const forever = 0xFFFFFFFF
