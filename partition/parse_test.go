package partition

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"heddle/ib"
)

func parse(t *testing.T, text string) (*Policy, []Warning) {
	t.Helper()
	p, w, err := Parse(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	return p, w
}

// line prints a partition in one line, its groups by MGID.
func line(q *Partition) string {
	var b strings.Builder
	b.WriteString(q.Name + "=" + q.PKey.String())
	if q.Index0 {
		b.WriteString(" indx0")
	}
	for _, m := range q.Members {
		b.WriteString(" " + m.String() + "=" + m.As.String())
		if m.AnyIndex {
			b.WriteString("(any)")
		}
	}
	for _, g := range q.Groups {
		b.WriteString(" " + g.MGID.String())
	}
	return b.String()
}

// TestParse: the contents of a file. Most expectations were observed with OpenSM 3.3.23
// (see also TestPartitionCorpus in internal/interop).
func TestParse(t *testing.T) {
	const def = "Default=0x7fff ALL=limited SELF=full"
	for _, c := range []struct {
		name, text string
		want       []string
		warnings   []string // parts of them, in order
	}{
		{"default, many lines", "Default=0x7fff,ipoib:\n ALL=full\n ;\n", []string{"Default=0x7fff ALL=full ff12:401b:ffff::ffff:ffff"}, nil},
		{"default by name", "Default : ALL=full ;", []string{"Default=0x7fff ALL=full"}, nil},
		{"default by key", "corp=0xffff: 5=full;", []string{"corp=0x7fff ALL=limited SELF=full 0x0000000000000005=full"}, nil},
		{"another partition named Default", "Default=3:SELF;", []string{"Default=0x0003 SELF=limited", def}, nil},
		{"nobody but the floor", "Default=0x7fff : NONE ;", []string{def}, nil},
		{"the manager stays full", "Default=0x7fff : ALL, SELF=limited ;", []string{"Default=0x7fff ALL=limited"}, []string{"f:1:23: the port of the subnet manager stays"}},
		{"keys that are left out", "a : SELF; b=2:SELF; c:SELF; a:1; d=0:SELF; e=0x8000:SELF;", []string{
			"a=0x0001 SELF=limited 0x0000000000000001=limited", "b=0x0002 SELF=limited", "c=0x0003 SELF=limited", "d=0x0004 SELF=limited", "e=0x0005 SELF=limited", def,
		}, nil},
		{"a number is a key", "0x8010,ipoib:SELF; 32:SELF; 010:1; 0x8000:1; 0:2;", []string{
			"=0x0001 0x0000000000000001=limited", "=0x0002 0x0000000000000002=limited", "=0x0008 0x0000000000000001=limited",
			"=0x0010 SELF=limited ff12:401b:8010::ffff:ffff", "=0x0020 SELF=limited", def,
		}, []string{"read as octal"}},
		{"a name again", "a=5:1; a=0x300:2; a:3; corp=0x7fff:4; corp:5;", []string{
			"corp=0x0001 0x0000000000000005=limited", "a=0x0005 0x0000000000000001=limited",
			"a=0x0300 0x0000000000000002=limited 0x0000000000000003=limited", "corp=0x7fff ALL=limited SELF=full 0x0000000000000004=limited",
		}, nil},
		{"index 0 where a line says so", "a=5,indx0:1,2; a=5:2; a=5,indx0:; b=6:1; b=6,indx0:2; b=6:2;", []string{
			"a=0x0005 indx0 0x0000000000000001=limited 0x0000000000000002=limited(any)", "b=0x0006 0x0000000000000001=limited 0x0000000000000002=limited", def,
		}, nil},
		{"a key is 15 bits", "a=0x8005:SELF;", []string{"a=0x0005 SELF=limited", def}, nil},
		{"without a name each is another", ":SELF; :SELF; =7:SELF;", []string{"=0x0001 SELF=limited", "=0x0002 SELF=limited", "=0x0007 SELF=limited", def}, nil},
		{"one key, two names", "a=5:1; b=5,indx0:2=full;", []string{"a=0x0005 indx0 0x0000000000000001=limited(any) 0x0000000000000002=full", def}, []string{`f:1:8: partition "b" has P_Key 0x0005 of partition "a"`}},
		{"later members count", "a=5:1=full,2,1,ALL=both,ALL=limited,2=full;", []string{"a=0x0005 ALL=limited 0x0000000000000002=full", def}, nil},
		{"prefixes", "a=5,def=f:A,SE=l,ALL_S=b;", []string{"a=0x0005 ALL=full SELF=limited ALL_SWITCHES=both", def}, []string{
			`f:1:5: "def" is taken for defmember`, `"f" is taken for full`, `"A" is taken for ALL`, `"SE" is taken for SELF`, `"l" is taken for limited`, `"ALL_S" is taken for ALL_SWITCHES`, `"b" is taken for both`,
		}},
		{"unknown flags and memberships", "a=5,foo=3,indx,defmember=no:1=full,2=xyz;", []string{"a=0x0005 0x0000000000000001=full 0x0000000000000002=limited", def}, []string{
			`unknown flag "foo"`, `unknown flag "indx"`, "defmember=no is none of full, limited, both: it is ignored", `"xyz" is none of full`,
		}},
		{"no members, no partition", "a=5:;b=6,ipoib:;", []string{def}, nil},
		{"without members, by NONE", "a=5,ipoib:NONE;b=6:NONE,1;", []string{"a=0x0005 ff12:401b:8005::ffff:ffff", "b=0x0006 0x0000000000000001=limited", def}, nil},
		{"commas to spare", "a=5,,indx0 : 1,,2, ;", []string{"a=0x0005 indx0 0x0000000000000001=limited 0x0000000000000002=limited", def}, nil},
		{"white space", "a b\t= 5 ,\n defmember\n=\nfull :\r\n 1 = limited # one\n,2\n3;", []string{"a b=0x0005 0x0000000000000001=limited 0x0000000000000002=full 0x0000000000000003=full", def}, nil},
		{"octal as in C", "a=010:011;", []string{"a=0x0008 0x0000000000000009=limited", def}, []string{"read as octal", "read as octal"}},
		{
			"groups", "a=5,ipoib:\n mgid=ff12:401b::16,rate=3 # IGMP\n\tmgid=ff12:401b:8005::17,mtu=4\nmgid = ff12::1,sl=1,Q_Key=0xDEADBEEF,rate=3,mtu=2\n ALL=full;",
			[]string{"a=0x0005 ALL=full ff12:401b:8005::ffff:ffff ff12:401b:8005::16 ff12:401b:8005::17 ff12::1", def},
			nil,
		},
		{
			"groups that cannot be", "a=5,ipoib:\nmgid=ff12:401b:ffff::17\nmgid=ff12:601b::2,mtu=5\nmgid=ff15:401b::1\nmgid=ff18:401b::2,scope=8\nmgid=ff12::1\nmgid=ff12::1\nmgid=ff22::1\nmgid=ff12:a01c::1\nmgid=ff12:a01b::1\nALL;b=6:\nmgid=ff12::1\nALL;",
			[]string{"a=0x0005 ALL=limited ff12:401b:8005::ffff:ffff ff12:401b:8005::1 ff12::1 ff12:a01c::1", "b=0x0006 ALL=limited", def},
			[]string{
				"f:2:6: group ff12:401b:ffff::17 is left out: its P_Key", "mtu and rate must be those of the header, 4 and 3", "that needs scope=5",
				"no broadcast group ff18:401b:8005::ffff:ffff", "the first one applies", "reserved", "is not link-local", `partition "a" has it`,
			},
		},
		{
			"scopes", "a=5,ipoib,scope=2,scope=5:\nmgid=ff12:401b::ffff:ffff\nmgid=ff12::1,scope=8\nALL;a=5,scope=5:mgid=ff12:401b::ffff:ffff\nmgid=ff15:401b::1\n;",
			[]string{"a=0x0005 ALL=limited ff12:401b:8005::ffff:ffff ff12::1 ff15::1 ff18::1", def},
			[]string{"has scope 2", "the first one applies", "the first one applies", "no broadcast group ff15:401b:8005::ffff:ffff"},
		},
		{"a group and a member without a comma", "a=5:ALL\nmgid=ff12::1\n,SELF;", []string{"a=0x0005 ALL=limited SELF=limited ff12::1", def}, nil},
		{"a long line", "a=5:" + strings.Repeat("1,", 5000) + "2;", []string{"a=0x0005 0x0000000000000001=limited 0x0000000000000002=limited", def}, nil},
	} {
		p, w := parse(t, c.text)
		var got []string
		for i := range p.Partitions {
			got = append(got, line(&p.Partitions[i]))
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
		if len(w) != len(c.warnings) {
			t.Errorf("%s: warnings %q, want %d", c.name, w, len(c.warnings))
			continue
		}
		for i := range w {
			if !strings.Contains(w[i].String(), c.warnings[i]) {
				t.Errorf("%s: warning %q, want %q", c.name, w[i], c.warnings[i])
			}
		}
	}
}

// TestGroupValues: flags of a header apply to the broadcast group and, except the
// TClass, to the groups below it; the service level also applies to the partition.
func TestGroupValues(t *testing.T) {
	p, _ := parse(t, "a=0x10,ipoib,rate=16,mtu=5,sl=3,Q_Key=9,TClass=7,FlowLabel=0xfffff:\n mgid=ff12:401b::1,TClass=1\n"+
		" mgid=ff15::1,scope=5,scope=8,rate=3,mtu=2,sl=0,Q_Key=0,FlowLabel=0\nALL;")
	q := p.Find(0x8010)
	bc := Group{MGID: Broadcast(0x10).MGID, QKey: 9, MTU: 5, Rate: 16, SL: 3, TClass: 7, FlowLabel: 0xFFFFF}
	ip := Group{MGID: ib.GID{0xFF, 0x12, 0x40, 0x1B, 0x80, 0x10, 15: 1}, QKey: 9, MTU: 5, Rate: 16, SL: 3, TClass: 1, FlowLabel: 0xFFFFF}
	site := Group{MGID: ib.GID{0xFF, 0x15, 15: 1}, MTU: 2, Rate: 3, HopLimit: 255}
	org := site
	org.MGID[1] = 0x18
	if want := []Group{bc, ip, site, org}; !reflect.DeepEqual(q.Groups, want) || q.SL != 3 || !q.HasSL {
		t.Errorf("got %+v\nwant %+v", q, want)
	}
}

// TestParseErrors: a mistake rejects the file, and the error gives its position.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a=5:1\n;;b=6:1;", `f:2:2: ";" where`},
		{"a=5;", `f:1:4: ";" where the partition's members should begin`},
		{"a=5", "f:1:4: the end of the file where"},
		{"a=6=7:1;", `f:1:4: "=" where`},
		{"a=x:1;", `f:1:3: "x" is not a P_Key`},
		{"a=0x10005:1;", "f:1:3: \"0x10005\" is too large for a P_Key"},
		{"a=5:1 b=6:2;", `f:1:7: "b" after member "1"`},
		{"a=5:1=full\nb=6:2;", `f:2:1: "b" is neither a port GUID`},
		{"a=5:1 2;", `f:1:7: "2" after member "1"`},
		{"a=5:1\n=full;", `f:2:2: "full" is not on the line of its member "1"`},
		{"5x:1;", `f:1:1: "5x" is not a P_Key`},
		{"0x18005:1;", "f:1:1: \"0x18005\" is too large for a P_Key"},
		{"a=5:1=full", "f:1:11: the end of the file after member"},
		{"a=5:1,", "f:1:7: the last statement does not end"},
		{"a=5:0xzz;", `f:1:5: "0xzz" is not a port GUID`},
		{"a=5:0x1ffffffffffffffff;", "is too large for a port GUID"},
		{"a=5:0;", "f:1:5: no port has GUID 0"},
		{"a=5:all;", `f:1:5: "all" is neither`},
		{"a=5:-1;", `"-1" is neither`},
		{"a=5:SELF=;", `f:1:10: SELF= is followed by ";"`},
		{"a=5:defmember=limited:1;", `"defmember" is neither`},
		{"a=5,mtu=6:1;", "f:1:9: \"6\" is too large for mtu"},
		{"a=5,mtu:1;", `is not mtu`},
		{"a=5,mtu=0:1;", "mtu=0 is no MTU"},
		{"a=5,rate=1:1;", "rate=1 is the code of no rate"},
		{"a=5,scope=16:1;", "too large for scope"},
		{"a=5,=:1;", `f:1:5: "=" instead of a flag`},
		{"a=5:mgid=fe80::1\n1;", "f:1:10: mgid=\"fe80::1\" is not a multicast GID"},
		{"a=5:mgid,1;", `f:1:9: mgid is followed by ","`},
		{"a=5:mgid=ff12::1,ALL=full;", `f:1:18: member "ALL" on the line of a multicast group`},
		{"a=5:mgid=ff12::1,mtu= 9 ;", "f:1:23: \"9\" is too large for mtu"},
		{"a\x01=5:1;", "cannot be printed"},
		{strings.Repeat("a", 300) + "=5:1;", "longer than 256 bytes"},
	} {
		p, _, err := Parse(strings.NewReader(c.text), "f")
		var pe *ParseError
		if p != nil || !errors.As(err, &pe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v; want %q", c.text, p, err, c.want)
		}
	}
}

// TestValidate: mistakes that only a program can make, not a file.
func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(p *Policy){
		"no default":       func(p *Policy) { p.Partitions[0].PKey = 5 },
		"order":            func(p *Policy) { p.Partitions = append(p.Partitions, Partition{PKey: 5}) },
		"key 0":            func(p *Policy) { p.Partitions[0].PKey = 0 },
		"membership bit":   func(p *Policy) { p.Partitions[0].PKey = 0xFFFF },
		"nobody":           func(p *Policy) { p.Partitions[0].Members = nil },
		"not all":          func(p *Policy) { p.Partitions[0].Members[0].Kind = AllCAs },
		"membership":       func(p *Policy) { p.Partitions[0].Members[0].As = 0 },
		"kind":             func(p *Policy) { p.Partitions[0].Members[0].Kind = 9 },
		"class with GUID":  func(p *Policy) { p.Partitions[0].Members[0].GUID = 9 },
		"name":             func(p *Policy) { p.Partitions[0].Name = "a;b" },
		"space in name":    func(p *Policy) { p.Partitions[0].Name = "a  b" },
		"rate":             func(p *Policy) { p.Partitions[0].Groups[0].Rate = 1 },
		"unicast":          func(p *Policy) { p.Partitions[0].Groups[0].MGID[0] = 0xFE },
		"twice":            func(p *Policy) { p.Partitions[0].Groups = append(p.Partitions[0].Groups, Broadcast(DefaultKey)) },
		"another's P_Key":  func(p *Policy) { p.Partitions[0].Groups[0].MGID[5] = 3 },
		"flow label":       func(p *Policy) { p.Partitions[0].Groups[0].FlowLabel = 1 << 20 },
		"service level 16": func(p *Policy) { p.Partitions[0].SL = 16 },
	} {
		p := Default()
		spoil(p)
		if p.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
	}
	if (*Policy)(nil).Validate() == nil {
		t.Error("nil is valid")
	}
}

func roundTrip(t *testing.T, p *Policy) {
	t.Helper()
	var b bytes.Buffer
	if err := p.Format(&b); err != nil {
		t.Fatal(err)
	}
	q, w, err := Parse(bytes.NewReader(b.Bytes()), "formatted")
	if err != nil || len(w) > 0 {
		t.Fatalf("%v %v\n%s", err, w, b.Bytes())
	}
	if !reflect.DeepEqual(p, q) {
		t.Fatalf("%+v\nbecomes\n%+v\n%s", p, q, b.Bytes())
	}
}

// TestFormat: Parse reads Format's output back as an equal policy.
func TestFormat(t *testing.T) {
	roundTrip(t, Default())
	for _, text := range []string{
		"5:1;", "a:1;a,indx0:2,3;a:3,4;", "a=5,ipoib:ALL;a=5,rate=6,mtu=5,Q_Key=4:mgid=ff12:401b::16,scope=5\nmgid=ff12:401b::17\nmgid=ff12::3,Q_Key=0,sl=3;",
		"a=5,scope=5,sl=1:mgid=ff12:401b::ffff:ffff\nmgid=ff12:601b::3\nALL=full;a=5,ipoib,sl=2:;",
		"corp=0x7fff,ipoib,sl=3,mtu=5,rate=16:ALL=both,5=full;",
		"a b=5,indx0,sl=2:\nmgid=ff12::1,sl=2,Q_Key=7,TClass=3,FlowLabel=9\nALL_CAS,SELF=full,7=both;:ALL_SWITCHES,ALL_ROUTERS;",
		"a=5,ipoib,scope=5,scope=2,sl=4:\nmgid=ff12:601b::2,sl=1\nALL;",
	} {
		p, _ := parse(t, text)
		roundTrip(t, p)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"Default=0x7fff,ipoib:ALL=full;", "a=5,def=f,indx0:mgid=ff12:401b::16,rate=3\n1=b,SELF;", "a:1;b:2;a:3 # c\n;", "=,:;#\n", "a=5,mtu=4,scope=1,scope=2,ipoib:ALL;",
		"5,ipoib,rate=6,Q_Key=3,sl=2:mgid=ff12:601b::2,scope=8\nmgid=ff12::3,sl=0\n1,2;a=5,indx0,scope=5:mgid=ff12:401b::ffff:ffff,Q_Key=0\n3=both;",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, _, err := Parse(bytes.NewReader(b), "f")
		if err != nil {
			return
		}
		roundTrip(t, p)
	})
}
