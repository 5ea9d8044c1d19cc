package osmsa_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/ib"
	wire "heddle/ib/sa"
	"heddle/mad"
	"heddle/sa"
	"heddle/sa/osmsa"
	"heddle/store"
)

// written is when the dump of testdata was, in Unix nanoseconds.
const written = 0x6b017679 * int64(time.Second)

// view is what a core makes of records.
func view(t testing.TB, recs []store.Record, now int64) *sa.View {
	t.Helper()
	var out sa.Output
	out.Reset()
	sa.NewCore(sa.Config{}).Step(0, sa.Start{Records: recs, Wall: now}, &out)
	for _, n := range out.Notices {
		t.Errorf("the core says: %s", n.Text)
	}
	if out.Publish == nil {
		t.Fatal("the core changes what was read")
	}
	return out.Publish
}

// TestDumpOfOpenSM reads what OpenSM 3.3.23 wrote (internal/interop.TestOpenSMDump
// has it written anew and compares every field with what was asked for).
func TestDumpOfOpenSM(t *testing.T) {
	f, err := os.Open("testdata/opensm-sa.dump")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recs, warns, err := osmsa.Read(f, "opensm-sa.dump", written)
	if err != nil || len(warns) > 0 {
		t.Fatalf("%v %v", err, warns)
	}
	v := view(t, recs, written)
	var got []string
	for _, g := range v.Groups {
		got = append(got, fmt.Sprintf("group %v MLID %#x P_Key %v MTU %d rate %d known %v", g.MGID, uint16(g.MLID), g.PKey, g.MTU, g.Rate, g.WellKnown))
		for _, m := range g.Members {
			got = append(got, fmt.Sprintf("  %v state %d", m.PortGID, m.JoinState))
		}
	}
	for _, s := range v.Subs {
		got = append(got, fmt.Sprintf("%v LID %d QP %d hears of trap %d from %v, LIDs %d", s.GID, s.Addr.LID, s.Addr.QP, s.Info.TrapNumber, s.Info.GID, s.Info.LIDRangeBegin))
	}
	for _, s := range v.Services {
		until := "forever"
		if s.Until != mad.Never {
			until = "for " + time.Duration(s.Until).String()
		}
		got = append(got, fmt.Sprintf("service %#x %q of %v key %x %s, %x", s.Record.ServiceID, s.Record.Name(), s.Record.ServiceGID, s.Record.ServiceKey, until, s.Record.Data16))
	}
	for _, r := range recs {
		if r.Table == store.TableAliases {
			got = append(got, fmt.Sprintf("alias %x %x", r.Key, r.Value))
		}
	}
	want := []string{
		"group ff12:401b:ffff::ffff:ffff MLID 0xc000 P_Key 0xffff MTU 4 rate 3 known true",
		"  fe80::10:3 state 1",
		"group ff15:a000::7 MLID 0xc001 P_Key 0xffff MTU 5 rate 16 known false",
		"  fe80::10:3 state 1",
		"  fe80::10:5 state 6",
		"fe80::10:3 LID 5 QP 1 hears of trap 64 from ::, LIDs 65535",
		"fe80::10:5 LID 8 QP 1 hears of trap 144 from fe80::10:3, LIDs 0",
		`service 0x1000 "it's a 'name' = x" of fe80::10:3 key 01000000000000000000000000000002 for 10m0s, [1600 1601 1602 1603 1604 1605 1606 1607]`,
		`service 0x1001 "forever" of fe80::10:5 key 00000000000000000000000000000000 forever, [0 0 0 0 0 0 0 0]`,
		"alias 000000000010000301 02001405000000000100140500000000" + "01",
		"alias 000000000010000302 02000000000000a1a10000000000000000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Ten minutes later the lease is over.
	f.Seek(0, io.SeekStart)
	recs, warns, err = osmsa.Read(f, "opensm-sa.dump", written+600*int64(time.Second))
	if err != nil || len(warns) != 1 || warns[0].Line == 0 || len(view(t, recs, written).Services) != 1 {
		t.Errorf("after the lease: %v %v", err, warns)
	}
}

const (
	group   = "MC Group 0xc001 : mgid=0xff15a00000000000:0x0000000000000007 port_gid=0x0000000000000000:0x0000000000000000 qkey=0x00001234 mlid=0xc001 mtu=0x85 tclass=0x05 pkey=0xffff rate=0x90 pkt_life=0x80 sl_flow_hop=0x01234500 scope_state=0x01 proxy_join=0x0"
	member  = "mcm_port: port_gid=0xfe80000000000000:0x0000000000100003 scope_state=0x01 proxy_join=0x0"
	inform  = "InformInfo Record: subscriber_gid=0xfe80000000000000:0x0000000000100003 subscriber_enum=0x0 InformInfo: gid=0x0000000000000000:0x0000000000000000 lid_range_begin=0xffff lid_range_end=0x0 is_generic=0x1 subscribe=0x1 trap_type=0xffff trap_num=0x40 qpn_resp_time_val=0x112 node_type=0xffffff rep_addr: lid=0x0005 path_bits=0x00 static_rate=0x00 remote_qp=0x00000001 remote_qkey=0x00000000 pkey_ix=0x0000 sl=0x00"
	service = "Service Record: id=0x0000000000001001 gid=0xfe80000000000000:0x0000000000100005 pkey=0xffff lease=0xffffffff key=0x0000000000000000:0x0000000000000000 name='x' data8=0x0000000000000000:0x0000000000000000 data16=0x0000000000000000:0x0000000000000000 data32=0x0000000000000000:0x0000000000000000 data64=0x0000000000000000:0x0000000000000000 modified_time=0x6b017679 lease_period=0xffffffff"
	guids   = "GUIDInfo Record: base_guid=0x0000000000100003 lid=0x0005 block_num=0x0 guid0=0x0000000000100003 guid1=0x1 guid2=0x0 guid3=0x0 guid4=0x0 guid5=0x0 guid6=0x0 guid7=0x0"
)

func TestErrors(t *testing.T) {
	change := func(line, old, now string) string {
		if !strings.Contains(line, old) {
			t.Fatalf("no %q in %q", old, line)
		}
		return strings.Replace(line, old, now, 1)
	}
	for _, c := range []struct{ text, want string }{
		{"nonsense", `d:1: "nonsense" begins no record`},
		{"\n\n" + member, "d:3: a member without a group"},
		{group + "\n" + inform + "\n" + member, "d:3: a member without a group"},
		{group + "\n\n" + member + "\n" + member, "d:4: port fe80::10:3 is in group ff15:a000::7 twice"},
		{group + "\n" + group, "d:2: group ff15:a000::7 is there twice"},
		{change(group, "mlid=0xc001", "mlid=0xc002"), "d:1: the group has two MLIDs"},
		{change(change(group, "0xc001 :", "0x0005 :"), "mlid=0xc001", "mlid=0x5"), "d:1: mlid 0x5 is no multicast LID"},
		{change(group, "mgid=0xff", "mgid=0xfe"), "is no multicast GID"},
		{change(group, "mtu=0x85", "mtu=0x86"), "mtu 0x6"},
		{change(group, "pkey=0xffff", "pkey=0x8000"), "is no P_Key"},
		{change(group, "rate=0x90", "rate=0xbf"), "rate 0x3f is no rate"},
		{change(group, "qkey=0x00001234", "qkey=0x100001234"), `d:1: qkey="0x100001234": value out of range, want at most 32 bits`},
		{change(group, "qkey=0x", "qkey="), `qkey="00001234": want a number in hexadecimal with 0x`},
		{change(group, "tclass", "class"), `d:1: want "tclass=" at "class=0x05`},
		{change(group, " proxy_join=0x0", ""), `want "proxy_join=" at ""`},
		{group + " more", `"more" is left`},
		{change(inform, "remote_qp=0x00000001", "remote_qp=0x0"), "QP 0x0 cannot take Reports"},
		{change(inform, "subscriber_gid=0xfe80000000000000:0x0000000000100003", "subscriber_gid=0x0:0x0"), "is no port"},
		{change(inform, "sl=0x00", "sl=0x10"), "SL 16"},
		{change(inform, "is_generic=0x1", "is_generic=0x2"), "is_generic 2"},
		{change(inform, "0x0000000000000000:0x0000000000000000", "0x0"), "want two numbers with a colon"},
		{change(service, "name='x'", "name='x"), "the string does not end"},
		{change(service, "'x'", "'"+strings.Repeat("x", 64)+"'"), "a name of 64 bytes"},
		{change(guids, "block_num=0x0", "block_num=0x20"), "block 32"},
		{strings.Repeat("x", 5000), "d:1: a line of more than 4096 bytes"},
	} {
		recs, _, err := osmsa.Read(strings.NewReader(c.text), "d", written)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "d:") || recs != nil {
			t.Errorf("%.60q: %v, want %q", c.text, err, c.want)
		}
	}
	broken := errors.New("broken pipe")
	if _, _, err := osmsa.Read(io.MultiReader(strings.NewReader(group+"\n"), failing{broken}), "d", 0); !errors.Is(err, broken) {
		t.Errorf("a read error becomes %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// dumped prints a view in the form of OpenSM.
func dumped(v *sa.View) string {
	var b strings.Builder
	two := func(x [16]byte) string { return fmt.Sprintf("0x%x:0x%x", x[:8], x[8:]) }
	for _, g := range v.Groups {
		known := ""
		if g.WellKnown {
			known = " (well known)"
		}
		fmt.Fprintf(&b, "MC Group 0x%04x %s: mgid=%s port_gid=%s qkey=0x%08x mlid=0x%04x mtu=0x%02x tclass=0x%02x pkey=0x%04x rate=0x%02x pkt_life=0x%02x sl_flow_hop=0x%08x scope_state=0x%02x proxy_join=0x0\n\n",
			uint16(g.MLID), known, two(g.MGID), two([16]byte{}), uint32(g.QKey), uint16(g.MLID), 0x80|uint8(g.MTU), g.TClass, uint16(g.PKey), 0x80|uint8(g.Rate), 0x80|g.PacketLife,
			uint32(g.SL)<<28|g.FlowLabel<<8|uint32(g.HopLimit), g.Scope<<4|1)
		for _, m := range g.Members {
			proxy := 0
			if m.Proxy {
				proxy = 1
			}
			fmt.Fprintf(&b, "mcm_port: port_gid=%s scope_state=0x%02x proxy_join=0x%x\n\n", two(m.PortGID), g.Scope<<4|m.JoinState, proxy)
		}
	}
	for _, s := range v.Subs {
		i, a := s.Info, s.Addr
		fmt.Fprintf(&b, "InformInfo Record: subscriber_gid=%s subscriber_enum=0x%x InformInfo: gid=%s lid_range_begin=0x%x lid_range_end=0x%x is_generic=0x%x subscribe=0x1 trap_type=0x%x trap_num=0x%x qpn_resp_time_val=0x%x node_type=0x%06x rep_addr: lid=0x%04x path_bits=0x%02x static_rate=0x00 remote_qp=0x%08x remote_qkey=0x80010000 pkey_ix=0x%04x sl=0x%02x\n\n",
			two(s.GID), s.Enum, two(i.GID), uint16(i.LIDRangeBegin), uint16(i.LIDRangeEnd), i.IsGeneric, i.Type, i.TrapNumber, a.QP<<8|uint32(i.RespTimeValue), i.Producer,
			uint16(a.LID), a.PathBits, a.QP, a.PKeyIndex, uint8(a.SL))
	}
	for _, s := range v.Services {
		r := s.Record
		var raw [wire.ServiceRecordLen]byte
		r.Put(raw[:])
		fmt.Fprintf(&b, "Service Record: id=0x%016x gid=%s pkey=0x%x lease=0x%x key=%s name='%s' data8=%s data16=%s data32=%s data64=%s modified_time=0x6b017679 lease_period=0x%x\n\n",
			r.ServiceID, two(r.ServiceGID), uint16(r.ServicePKey), r.ServiceLease, two(r.ServiceKey), r.Name(), two([16]byte(raw[112:128])), two([16]byte(raw[128:144])),
			two([16]byte(raw[144:160])), two([16]byte(raw[160:176])), r.ServiceLease)
	}
	return b.String()
}

// TestAliasMember: a member by an alias GUID is the port that has it, wherever
// in the file that stands.
func TestAliasMember(t *testing.T) {
	alias := strings.Replace(member, "0x0000000000100003", "0x1", 1)
	for _, text := range []string{guids + "\n" + group + "\n" + alias, group + "\n" + alias + "\n" + guids} {
		recs, _, err := osmsa.Read(strings.NewReader(text), "d", written)
		if err != nil {
			t.Fatal(err)
		}
		m := view(t, recs, written).Groups[0].Members
		if len(m) != 1 || m[0].PortGID.GUID() != 1 || m[0].PortGUID != 0x100003 {
			t.Errorf("members %+v", m)
		}
	}
}

// TestRoundTrip: a view printed as OpenSM prints is read back as it was.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 8))
		want := &sa.View{}
		gid := func(n int) ib.GID { return ib.MakeGID(ib.DefaultSubnetPrefix, ib.GUID(0x100+n)) }
		for i := range rng.IntN(6) {
			g := &sa.Group{
				MGID: ib.GID{0: 0xFF, 1: 0x12, 15: byte(i)}, MLID: ib.LID(0xC000 + i), QKey: ib.QKey(rng.Uint32()), PKey: ib.PKey(rng.Uint32() | 1), MTU: ib.MTU(1 + rng.IntN(5)),
				Rate: []ib.Rate{2, 3, 16}[rng.IntN(3)], PacketLife: uint8(rng.IntN(64)), SL: ib.SL(rng.IntN(16)), TClass: uint8(rng.Uint32()), FlowLabel: rng.Uint32() >> 12,
				HopLimit: uint8(rng.Uint32()), Scope: 2, WellKnown: rng.IntN(2) == 0,
			}
			for m := range 1 + rng.IntN(4) {
				g.Members = append(g.Members, sa.Member{PortGID: gid(m), PortGUID: gid(m).GUID(), JoinState: uint8(1 + 2*rng.IntN(8)), Proxy: rng.IntN(2) == 0})
			}
			want.Groups = append(want.Groups, g)
		}
		for i := range rng.IntN(6) {
			s := &sa.Subscription{GID: gid(i), Addr: mad.Addr{LID: ib.LID(1 + rng.IntN(99)), QP: uint32(1 + rng.IntN(1<<23)), SL: ib.SL(rng.IntN(16)), PathBits: uint8(rng.IntN(128)), PKeyIndex: uint16(rng.Uint32())}}
			s.Info = wire.InformInfo{
				LIDRangeBegin: ib.LID(rng.Uint32()), LIDRangeEnd: ib.LID(rng.Uint32()), IsGeneric: uint8(rng.IntN(2)), Subscribe: 1, Type: uint16(rng.Uint32()),
				TrapNumber: uint16(rng.Uint32()), QPN: s.Addr.QP, RespTimeValue: uint8(rng.IntN(32)), Producer: rng.Uint32() >> 8,
			}
			s.Trust = s.Info.IsGeneric == 1 && s.Info.TrapNumber >= 256 && s.Info.TrapNumber <= 259
			want.Subs = append(want.Subs, s)
		}
		for i := range rng.IntN(6) {
			s := &sa.Service{Until: mad.Never, By: gid(i).GUID()}
			var raw [wire.ServiceRecordLen]byte
			for k := range raw {
				raw[k] = byte(rng.Uint32())
			}
			clear(raw[48:112])
			copy(raw[48:], strings.Repeat("ab' =", rng.IntN(12)))
			if err := s.Record.Decode(raw[:]); err != nil {
				t.Fatal(err)
			}
			s.Record.ServiceID, s.Record.ServiceGID, s.Record.ServiceLease = uint64(i), gid(i), wire.ServiceLeaseForever
			if rng.IntN(2) == 0 {
				s.Record.ServiceLease = 1 + rng.Uint32()>>1
				s.Until = mad.Time(s.Record.ServiceLease) * mad.Time(time.Second)
			}
			want.Services = append(want.Services, s)
		}
		text := dumped(want)
		recs, warns, err := osmsa.Read(strings.NewReader(text), "d", written)
		if err != nil || len(warns) > 0 {
			t.Fatalf("seed %d: %v %v\n%s", seed, err, warns, text)
		}
		got := view(t, recs, written)
		if len(got.Groups) != len(want.Groups) || len(got.Subs) != len(want.Subs) || len(got.Services) != len(want.Services) {
			t.Fatalf("seed %d: %d groups, %d subscriptions, %d services of %d, %d, %d", seed, len(got.Groups), len(got.Subs), len(got.Services), len(want.Groups), len(want.Subs), len(want.Services))
		}
		for i := range want.Groups {
			if !reflect.DeepEqual(*got.Groups[i], *want.Groups[i]) {
				t.Fatalf("seed %d: group %+v, want %+v", seed, *got.Groups[i], *want.Groups[i])
			}
		}
		for i := range want.Subs {
			if !reflect.DeepEqual(*got.Subs[i], *want.Subs[i]) {
				t.Fatalf("seed %d: subscription %+v, want %+v", seed, *got.Subs[i], *want.Subs[i])
			}
		}
		for i := range want.Services {
			if !reflect.DeepEqual(*got.Services[i], *want.Services[i]) {
				t.Fatalf("seed %d: service %+v, want %+v", seed, *got.Services[i], *want.Services[i])
			}
		}
	}
}

// FuzzRead: whatever the file, it is read whole or not at all, and a core takes
// what was read.
func FuzzRead(f *testing.F) {
	b, err := os.ReadFile("testdata/opensm-sa.dump")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	for _, s := range []string{group + "\n" + member, inform, service, guids, "MC Group 0xc000  (well known): mgid="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		recs, _, err := osmsa.Read(strings.NewReader(text), "d", written)
		if err != nil {
			if recs != nil || !strings.HasPrefix(err.Error(), "d:") {
				t.Fatalf("%v, with %d records", err, len(recs))
			}
			return
		}
		var out sa.Output
		out.Reset()
		sa.NewCore(sa.Config{}).Step(0, sa.Start{Records: recs, Wall: written}, &out)
	})
}
