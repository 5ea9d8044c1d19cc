package qos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/partition"
)

// parts are the partitions that the tests' files name.
var parts = &partition.Policy{Partitions: []partition.Partition{
	{Name: "part1", PKey: 0x0040},
	{Name: "ipoib", PKey: 1},
	{PKey: 0x0ABC},
	{PKey: 0x0F01},
	{PKey: 0x1234},
	{Name: "Default", PKey: partition.DefaultKey},
}}

func parse(t testing.TB, text string) (*Policy, []Warning) {
	t.Helper()
	p, w, err := Parse(strings.NewReader(text), "qos.conf", parts)
	if err != nil {
		t.Fatal(err)
	}
	return p, w
}

func full(t testing.TB) (*Policy, []Warning) {
	t.Helper()
	b, err := os.ReadFile("testdata/full.conf")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(b))
}

// query makes a query of two CAs that are in no group and the default
// partition only.
func query(edit func(q *Query)) *Query {
	q := &Query{
		Src: &End{GUID: 1, Node: "a", Port: 1, Type: ib.NodeCA, PKeys: []ib.PKey{0xFFFF}},
		Dst: &End{GUID: 2, Node: "b", Port: 1, Type: ib.NodeCA, PKeys: []ib.PKey{0xFFFF}},
	}
	if edit != nil {
		edit(q)
	}
	return q
}

func service(id uint64) func(*Query) {
	return func(q *Query) { q.ServiceID, q.HasServiceID = id, true }
}

func class(c uint16) func(*Query) { return func(q *Query) { q.QoSClass, q.HasQoSClass = c, true } }

func pkey(k ib.PKey) func(*Query) { return func(q *Query) { q.PKey, q.HasPKey = k, true } }

func both(f ...func(*Query)) func(*Query) {
	return func(q *Query) {
		for _, f := range f {
			f(q)
		}
	}
}

func TestFullFile(t *testing.T) {
	p, warnings := full(t)
	dst := func(g ib.GUID) func(*Query) { return func(q *Query) { q.Dst.GUID = g } }
	src := func(g ib.GUID) func(*Query) { return func(q *Query) { q.Src.GUID = g } }
	node := func(desc string, port uint8, typ ib.NodeType) func(*Query) {
		return both(pkey(0x8F80), func(q *Query) { q.Src.Node, q.Src.Port, q.Src.Type = desc, port, typ })
	}
	for _, c := range []struct {
		name string
		edit func(*Query)
		sl   ib.SL
	}{
		{"nothing", nil, 0},
		{"class 7", class(7), 1},
		{"class 10", class(10), 0},
		{"class 11", class(11), 1},
		{"class 7, not given", func(q *Query) { q.QoSClass = 7 }, 0},
		{"storage", both(dst(0x10000000000005), service(0x10000000000008)), 1},
		{"storage, last of a list that goes on", both(dst(0x20000000000001), service(0x10000000000008)), 1},
		{"storage, other service", both(dst(0x10000000000005), service(0x10000000000007)), 0},
		{"storage, no service", dst(0x10000000000005), 0},
		{"service, not storage", both(dst(0x10000000000004), service(0x10000000000008)), 0},
		{"service, no port", both(service(0x10000000000008), func(q *Query) { q.Src, q.Dst = nil, nil }), 0},
		{"node", node("vs1 HCA-1", 1, ib.NodeCA), 1},
		{"node, other port", node("vs1 HCA-1", 2, ib.NodeCA), 0},
		{"quoted node", node("vs2, HCA-1", 2, ib.NodeCA), 1},
		{"switch", node("spine-1", 0, ib.NodeSwitch), 1},
		{"router", node("x", 1, ib.NodeRouter), 1},
		{"self", both(pkey(0xF00), func(q *Query) { q.Src.Self = true }), 1},
		{"node, no P_Key", func(q *Query) { q.Src.Node = "vs1 HCA-1" }, 0},
		{"sdp port", service(0x10000 + 30000), 1},
		{"sdp ports", service(0x10000 + 5), 2},
		{"sdp last of ports", service(0x10000 + 20000), 2},
		{"sdp", service(0x1FFFF), 3},
		{"after sdp", service(0x20000), 0},
		{"rds port", service(0x1060000 + 25000), 4},
		{"rds", service(0x10648CA), 5},
		{"iser port", service(0x1060000 + 900), 6},
		{"iser", service(0x1060CBC), 7},
		{"ipoib 1, limited", pkey(0x0001), 8},
		{"ipoib 1, full", pkey(0x8001), 8},
		{"ipoib", pkey(0xFFFF), 9},
		{"service", service(0x6234), 10},
		{"P_Key", pkey(0x8ABC), 11},
		{"source and target", both(src(0x9ABCD), dst(0x9ABCE)), 12},
		{"source of source and target", src(0x9ABCD), 0},
		{"source", src(0x5678), 13},
		{"srp", dst(0x1234), 14},
		{"target", dst(0xFFFF), 15},
		{"P_Key comes first", both(pkey(0xFFFF), dst(0x1234)), 9},
	} {
		l := p.Level(query(c.edit))
		if l == nil || l.SL != c.sl {
			t.Errorf("%s: level %+v, want SL %d", c.name, l, c.sl)
		}
	}
	got := *p.Level(query(class(7)))
	want := Level{
		Name: "WholeSet", SL: 1, MTULimit: ib.MTU2048, RateLimit: 3, PacketLife: 8, HasLife: true,
		PKeys: []PKeyRange{{1, 3}, {0x1234, 0x1234}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("level %+v,\nwant %+v", got, want)
	}
	for k, ok := range map[ib.PKey]bool{0: false, 1: true, 0x8003: true, 4: false, 0x9234: true, 0x1235: false} {
		if got.Allows(k) != ok {
			t.Errorf("P_Key %v allowed: %v", k, !ok)
		}
	}
	if !p.Level(query(nil)).Allows(0x55) {
		t.Error("a level without P_Keys forbids one")
	}
	var lines []string
	for _, w := range warnings {
		lines = append(lines, w.String())
	}
	if got := strings.Join(lines, "\n"); got != `qos.conf:30: qos-setup is read and ignored, as by OpenSM: lanes and their arbitration come from the routing engine
qos.conf:58: path-bits has no effect, as in OpenSM` {
		t.Errorf("warnings\n%s", got)
	}
}

// Membership by partition is that of the moment of the query.
func TestGroupByPartition(t *testing.T) {
	p, w := parse(t, `
port-groups
	port-group
		name: P
		partition: PART1, nobody
		pkey: 0x8010-0x8020
	end-port-group
	port-group
		name: D
		pkey: 0xffff
	end-port-group
end-port-groups
qos-levels
	qos-level
		name: default
		sl: 0
	end-qos-level
	qos-level
		name: p
		sl: 1
	end-qos-level
	qos-level
		name: d
		sl: 2
	end-qos-level
end-qos-levels
qos-match-rules
	qos-match-rule
		source: p
		qos-level-name: p
	end-qos-match-rule
	qos-match-rule
		destination: D
		qos-level-name: d
	end-qos-match-rule
end-qos-match-rules`)
	for _, c := range []struct {
		src, dst []ib.PKey
		sl       ib.SL
	}{
		{[]ib.PKey{0xFFFF, 0x0040}, nil, 1},
		{[]ib.PKey{0xFFFF, 0, 0x8020}, nil, 1},
		{[]ib.PKey{0xFFFF, 0x8021, 0x8000}, nil, 2},
		{nil, []ib.PKey{0x7FFF}, 2},
		{nil, []ib.PKey{0x0040}, 0},
		{nil, []ib.PKey{}, 0},
	} {
		q := query(func(q *Query) { q.Src.PKeys, q.Dst.PKeys = c.src, c.dst })
		if got := p.Level(q).SL; got != c.sl {
			t.Errorf("%v to %v: SL %d, want %d", c.src, c.dst, got, c.sl)
		}
	}
	if len(w) != 2 || w[0].Line != 5 || !strings.Contains(w[0].Msg, `"nobody"`) || w[1].Line != 6 {
		t.Errorf("warnings %v", w)
	}
}

func TestNoPolicy(t *testing.T) {
	for _, p := range []*Policy{nil, {}} {
		if l := p.Level(query(nil)); l != nil {
			t.Errorf("%+v", l)
		}
	}
}

func level(name string, sl int) string {
	return fmt.Sprintf("qos-levels\n qos-level\n  name: %s\n  sl: %d\n end-qos-level\nend-qos-levels\n", name, sl)
}

func TestErrors(t *testing.T) {
	group := func(s string) string {
		return "port-groups\n port-group\n  name: g\n  " + s + "\n end-port-group\nend-port-groups\n" + level("DEFAULT", 0)
	}
	lvl := func(s string) string {
		return "qos-levels\n qos-level\n  name: default\n  " + s + "\n end-qos-level\nend-qos-levels\n"
	}
	rule := func(s string) string {
		return level("DEFAULT", 0) + "qos-match-rules\n qos-match-rule\n  " + s + "\n end-qos-match-rule\nend-qos-match-rules\n"
	}
	ulp := func(s string) string { return "qos-ulps\n default: 0\n " + s + "\nend-qos-ulps\n" }
	for _, c := range []struct {
		text string
		line int
		want string
	}{
		{"", 1, "no qos-level named DEFAULT"},
		{level("Other", 1), 7, "no qos-level named DEFAULT"},
		{"port-grops\n", 1, `"port-grops" is unknown in the file`},
		{"\nPort-Groups", 2, "lower case"},
		{"*", 1, `unexpected '*'`},
		{"qos-levels\n qos-level\n name: a", 3, "qos-level of line 2 is not closed"},
		{"qos-levels\n qos-level\n name: a\nend-qos-levels", 4, `"end-qos-levels" is unknown in qos-level`},
		{"qos-levels\nend-qos-match-rules", 2, "unknown in qos-levels"},
		{"a\x00b", 1, "zero byte"},
		{group("port-guid: 0x1-"), 5, `"end" is no number`},
		{group("port-guid: 0x1g"), 4, `"0x1g" is no number`},
		{group("port-guid: 0x10000000000000000"), 4, "64 bits"},
		{group("port-guid: 0b11"), 4, "no number"},
		{group("port-guid: 1_0"), 4, "no number"},
		{group("port-guid: 08"), 4, "no number"},
		{group("port-guid 1"), 4, "want a colon"},
		{group("port-name: host"), 4, "not a port name"},
		{group("port-name: host/1"), 4, "not a port name"},
		{group("port-name: host/P0"), 4, "out of range"},
		{group("port-name: host/P1x"), 4, "out of range"},
		{group("port-name: host/P255"), 4, "out of range"},
		{group("port-name: \"host/P1"), 4, "quote is not closed"},
		{group("port-name: "), 5, "name is missing"},
		{group("node-type: HCA"), 4, "not a node type"},
		{group("pkey: 0x10000"), 4, "more than 16 bits"},
		{group("pkey: 0x7ff0-0x8000"), 4, "membership bit"},
		{group("name: g"), 4, "given twice"},
		{group("sl: 1"), 4, "unknown in port-group"},
		{"port-groups\n port-group\n end-port-group\nend-port-groups", 3, "no name"},
		{lvl("sl: 16"), 4, "out of range"},
		{lvl("sl: 1\n sl: 1"), 5, "given twice"},
		{lvl("use: x"), 5, "has no sl"},
		{lvl("sl: 1 mtu-limit: 0"), 4, "want 1 to 5"},
		{lvl("sl: 1 rate-limit: 1"), 4, "no rate with code 1"},
		{lvl("sl: 1 packet-life: 64"), 4, "want 0 to 63"},
		{"qos-levels qos-level sl: 1 name: a,b\n end-qos-level", 1, "want one name"},
		{"qos-levels qos-level sl: 1 end-qos-level end-qos-levels", 1, "has no name"},
		{rule("use: x"), 10, "no qos-level-name"},
		{rule("qos-level-name: x"), 8, `no qos-level "x"`},
		{rule("source: g\n qos-level-name: default"), 8, `source: there is no port-group "g"`},
		{rule("destination: g\n qos-level-name: default"), 8, `destination: there is no port-group "g"`},
		{rule("port-guid: 1"), 9, "unknown in qos-match-rule"},
		{ulp("sdp 1"), 3, "want a colon"},
		{ulp("sdp: 16"), 3, "out of range"},
		{ulp("sdp, port-num 65536: 1"), 3, "want 0 to 65535"},
		{ulp("sdp, pkey 1: 1"), 3, "sdp takes port-num"},
		{ulp("srp: 1"), 3, "target-port-guid"},
		{ulp("srp, target-port-guid : 1"), 3, "want a number"},
		{ulp("ipoib, pkey 0x55: 1"), 3, "no partition with P_Key 0x0055"},
		{ulp("ipoib, pkey 1-2: 1"), 3, "no partition with P_Key 0x0002"},
		{ulp("ipoib, port-num 1: 1"), 3, "takes pkey"},
		{ulp("any: 1"), 3, "any needs"},
		{ulp("mpi: 1"), 3, `"mpi" is unknown`},
		{"qos-setup\n vlarb-tables\nend-qos-setup", 3, "vlarb-tables is still open"},
		{"qos-setup\n vlarb-scope\nend-qos-setup", 2, "unknown in qos-setup"},
		{strings.Repeat("\n", maxFile+1), maxFile + 2, "MiB"},
	} {
		p, _, err := Parse(strings.NewReader(c.text), "f", parts)
		var e *Error
		if !errors.As(err, &e) || e.Line != c.line || !strings.Contains(e.Msg, c.want) || p != nil {
			t.Errorf("%.80q: %v, want line %d, %q", c.text, err, c.line, c.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), fmt.Sprintf("f:%d: ", c.line)) {
			t.Errorf("%q does not begin with file and line", err)
		}
	}
}

// More groups than the memory of one query holds.
func TestManyGroups(t *testing.T) {
	var b strings.Builder
	b.WriteString("port-groups\n")
	const n = 200
	for i := range n {
		fmt.Fprintf(&b, "port-group name: g%d\n port-guid: %d end-port-group\n", i, 1000+i)
	}
	b.WriteString("end-port-groups\n" + level("default", 0) + level("one", 1) + "qos-match-rules\n")
	for i := range n - 1 {
		fmt.Fprintf(&b, "qos-match-rule source: g%d\n destination: g%d\n qos-level-name: one\n end-qos-match-rule\n", i, i+1)
	}
	b.WriteString("end-qos-match-rules\n")
	p, _ := parse(t, b.String())
	for i := range n + 1 {
		for _, d := range []int{-1, 1, 2} {
			q := query(func(q *Query) { q.Src.GUID, q.Dst.GUID = ib.GUID(1000+i), ib.GUID(1000+i+d) })
			want := ib.SL(0)
			if d == 1 && i < n-1 {
				want = 1
			}
			if got := p.Level(q).SL; got != want {
				t.Errorf("%d to %d: SL %d", i, i+d, got)
			}
		}
	}
}

// merge keeps exactly the numbers that are in one of the spans.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var in [70]bool
		var list []span
		for range r.IntN(14) {
			lo := r.IntN(64)
			hi := lo + r.IntN(6)
			list = append(list, span{uint64(lo), uint64(hi)})
			for i := lo; i <= hi; i++ {
				in[i] = true
			}
		}
		s := merge(list)
		for i, want := range in {
			if s.has(uint64(i)) != want {
				t.Fatalf("%v: %d is in it: %v", s, i, !want)
			}
		}
		for i := 1; i < len(s); i++ {
			if s[i].lo <= s[i-1].hi+1 {
				t.Fatalf("%v touch", s)
			}
		}
	}
	const top = 1<<64 - 1
	if s := merge([]span{{5, top}, {7, 9}, {0, 3}}); !s.has(top) || s.has(4) || len(s) != 2 {
		t.Fatal(s)
	}
}

// Level is called for every path query: it must not allocate.
func TestLevelAllocates(t *testing.T) {
	p, _ := full(t)
	q := query(both(pkey(0x8F80), service(99), class(99)))
	if n := testing.AllocsPerRun(100, func() { p.Level(q) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLevel(b *testing.B) {
	p, _ := full(b)
	for _, c := range []struct {
		name string
		edit func(*Query)
	}{{"plain", nil}, {"ipoib", pkey(0xFFFF)}, {"rdmacm", both(pkey(0xFFFF), service(0x7777), class(0))}} {
		b.Run(c.name, func(b *testing.B) {
			q := query(c.edit)
			b.ReportAllocs()
			for b.Loop() {
				p.Level(q)
			}
		})
	}
}

// Whatever a file holds: an error with its place, or a policy that answers.
func FuzzParse(f *testing.F) {
	b, err := os.ReadFile("testdata/full.conf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Add("qos-ulps default:1 any,pkey 1-2,4:3 end-qos-ulps")
	f.Add("port-groups port-group name:\"a#\"b,\n#c\n d end-port-group end-port-groups qos-ulps default:0 end-qos-ulps")
	f.Fuzz(func(t *testing.T, text string) {
		p, warnings, err := Parse(strings.NewReader(text), "f", parts)
		lines := strings.Count(text, "\n") + 1
		var e *Error
		switch {
		case err != nil && (!errors.As(err, &e) || p != nil || e.Line < 1 || e.Line > lines):
			t.Fatalf("%v (of %d lines)", err, lines)
		case err == nil && p.Level(query(both(pkey(1), service(1), class(1)))) == nil:
			t.Fatal("no level")
		}
		for _, w := range warnings {
			if w.Line < 1 || w.Line > lines {
				t.Fatal(w)
			}
		}
	})
}
