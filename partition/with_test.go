package partition

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
)

func parsed(t testing.TB, text string) *Policy {
	t.Helper()
	p, w, err := Parse(strings.NewReader(text), "policy")
	if err != nil || len(w) > 0 {
		t.Fatal(err, w)
	}
	return p
}

// TestWith: members added to a policy come last, and a new P_Key adds a partition.
func TestWith(t *testing.T) {
	base := parsed(t, "Default,ipoib:ALL=full; a=5,sl=3:1=full,2=limited; b=7:ALL_CAS=limited;")
	before := parsed(t, "Default,ipoib:ALL=full; a=5,sl=3:1=full,2=limited; b=7:ALL_CAS=limited;")
	more := []Partition{
		{Name: "vm6", PKey: 6, Index0: true, Members: []Member{{GUID: 9, As: Full}}, Groups: []Group{Broadcast(6)}},
		{Name: "another name", PKey: 5, Index0: true, SL: 9, HasSL: true, Members: []Member{{GUID: 2, As: Full}, {GUID: 3, As: Both}}, Groups: []Group{Broadcast(5)}},
		{PKey: DefaultKey, Members: []Member{{GUID: 4, As: Limited}}, Groups: []Group{Broadcast(DefaultKey)}},
		{PKey: 6, Members: []Member{{GUID: 9, As: Limited}, {GUID: 1, As: Full}}},
		{PKey: 7, Members: []Member{{GUID: 3, As: Full}}},
	}
	got, err := base.With(more)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, q := range got.Partitions {
		names = append(names, fmt.Sprintf("%s=%v index0=%v sl=%d groups=%d", q.Name, q.PKey, q.Index0, q.SL, len(q.Groups)))
	}
	if want := []string{
		"a=0x0005 index0=true sl=3 groups=1", "vm6=0x0006 index0=true sl=0 groups=1",
		"b=0x0007 index0=false sl=0 groups=0", "Default=0x7fff index0=false sl=0 groups=1",
	}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	g := Resolve(got)
	for guid, want := range map[ib.GUID][]ib.PKey{
		1: {0x8005, 0x8006, 0x0007, 0xFFFF},
		2: {0x8005, 0x0007, 0xFFFF},
		3: {0x0005, 0x8005, 0x8007, 0xFFFF},
		4: {0x0007, 0x7FFF},
		9: {0x0006, 0x0007, 0xFFFF},
	} {
		if keys := g.Of(CA, guid, nil, false); !slices.Equal(keys, want) {
			t.Errorf("port %v gets %v, want %v", guid, keys, want)
		}
	}
	if !reflect.DeepEqual(base, before) || len(more[0].Members) != 1 {
		t.Error("what was given was changed")
	}
	again, err := base.With(more)
	if err != nil || !again.Equal(got) || again.Equal(base) {
		t.Error("it is not the same twice", err)
	}
	// Two policies from one are apart from each other.
	x, _ := base.With([]Partition{{PKey: 5, Members: []Member{{GUID: 8, As: Full}}}})
	y, _ := base.With([]Partition{{PKey: 5, Members: []Member{{GUID: 9, As: Full}}}})
	if x.Find(5).Members[2].GUID != 8 || y.Find(5).Members[2].GUID != 9 {
		t.Error("they share their members")
	}
	if p, err := base.With(nil); err != nil || !p.Equal(base) {
		t.Error("with nothing", err)
	}
}

// TestWithRefuses: the error names the P_Key and the remedy.
func TestWithRefuses(t *testing.T) {
	base := parsed(t, "Default,ipoib:ALL=full; a=5,ipoib:1=full;")
	alien := Group{MGID: ib.GID{0xFF, 0x12, 1}, MTU: 4, Rate: 3}
	for want, more := range map[string][]Partition{
		"0x0006": {{PKey: 6, Members: []Member{{GUID: 0, As: Full}}}},
		"0x0005": {{PKey: 5, Members: []Member{{GUID: 7}}}},
		"0x0000": {{PKey: 0}},
		"0x8006": {{PKey: 0x8006}},
		"0x0008": {{PKey: 7, Groups: []Group{alien}}, {PKey: 8, Groups: []Group{alien}}},
		"0x0009": {{PKey: 9, Name: "a=b"}},
	} {
		p, err := base.With(more)
		if err == nil || p != nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "take them back") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := (*Policy)(nil).With(nil); err == nil {
		t.Error("no policy took members")
	}
	if _, err := (&Policy{}).With(nil); err == nil || strings.Contains(err.Error(), "take them back") {
		t.Errorf("a policy that was not valid: %v", err)
	}
}

// TestWithManyMembers: adding ten thousand members costs one copy of the list, and
// nothing per member.
func TestWithManyMembers(t *testing.T) {
	base, more := manyMembers(10_000)
	p, err := base.With(more)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Find(5).Members); n != 20_000 {
		t.Errorf("%d members", n)
	}
	if n := testing.AllocsPerRun(5, func() { _, _ = base.With(more) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
}

func manyMembers(n int) (*Policy, []Partition) {
	p := Default()
	q := Partition{Name: "many", PKey: 5}
	o := Partition{Name: "vm", PKey: 5}
	for i := range n {
		q.Members = append(q.Members, Member{GUID: ib.GUID(i + 1), As: Full})
		o.Members = append(o.Members, Member{GUID: ib.GUID(i + n/2), As: Limited})
	}
	p.Partitions = append([]Partition{q}, p.Partitions...)
	return p, []Partition{o}
}

func BenchmarkWith(b *testing.B) {
	base, more := manyMembers(10_000)
	for b.Loop() {
		if _, err := base.With(more); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzWith adds one file's partitions to another's: the result is a policy that a file
// can express, in which every added line comes last, or an error.
func FuzzWith(f *testing.F) {
	f.Add([]byte("Default=0x7fff,ipoib:ALL=full; a=5:1=full;"), []byte("a=5,indx0:1,2=both; c=6,ipoib:ALL_CAS;"))
	f.Add([]byte("a=5:mgid=ff12::1;"), []byte("b=6:mgid=ff12::1;"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		p, _, err := Parse(bytes.NewReader(a), "a")
		if err != nil {
			return
		}
		o, _, err := Parse(bytes.NewReader(b), "b")
		if err != nil {
			return
		}
		var was bytes.Buffer
		_ = p.Format(&was)
		w, err := p.With(o.Partitions)
		var is bytes.Buffer
		if _ = p.Format(&is); !bytes.Equal(was.Bytes(), is.Bytes()) {
			t.Fatal("the policy was changed")
		}
		if err != nil {
			return
		}
		if err := w.Validate(); err != nil {
			t.Fatal(err)
		}
		g := Resolve(w)
		for i := range o.Partitions {
			q := &o.Partitions[i]
			for _, m := range effective(q.Members) {
				if m.Kind != Port {
					continue
				}
				at := slices.IndexFunc(w.Find(q.PKey).Members, func(x Member) bool { return x == m })
				after := at >= 0 && !slices.ContainsFunc(q.Members[slices.Index(q.Members, m):], func(x Member) bool { return x.Kind != Port && x.Kind != Self })
				if at < 0 {
					t.Fatalf("%v is lost", m)
				}
				if keys := g.Of(Router, m.GUID, nil, false); after && !slices.Contains(keys, entryOf(q.PKey, m.As)) && q.PKey != DefaultKey {
					t.Fatalf("%v of %v gets %v", m, q.PKey, keys)
				}
			}
		}
	})
}

func entryOf(base ib.PKey, as Membership) ib.PKey {
	if as == Limited {
		return base
	}
	return base | 0x8000
}
