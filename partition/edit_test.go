package partition

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
)

// reread is a policy as it comes back from its text.
func reread(t *testing.T, p *Policy) *Policy {
	t.Helper()
	var b bytes.Buffer
	if err := p.Format(&b); err != nil {
		t.Fatal(err)
	}
	q, _, err := Parse(&b, "formatted")
	if err != nil {
		t.Fatalf("%v\n%+v", err, p)
	}
	return q
}

// memberOf is what a policy makes of a port: its entries of one P_Key.
func memberOf(p *Policy, k ib.PKey, class Class, guid ib.GUID, self bool) []ib.PKey {
	return slices.DeleteFunc(slices.Clone(Resolve(p).Of(class, guid, nil, self)), func(x ib.PKey) bool { return x.Base() != k.Base() })
}

// TestEditMembers: over many policies, a single port that is added has the membership that was asked
// for, whatever other lines say; no other port's keys change; its removal, and that of a class, leave
// no line that names it. The text of each policy reads back as the same policy.
func TestEditMembers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	added, removed, refused := 0, 0, 0
	for range 4_000 {
		var text bytes.Buffer
		if err := randomPolicy(rng).Format(&text); err != nil {
			t.Fatal(err)
		}
		p, _, err := Parse(&text, "random")
		if err != nil {
			t.Fatal(err)
		}
		k := p.Partitions[rng.IntN(len(p.Partitions))].PKey
		m := Member{GUID: ib.GUID(1 + rng.IntN(4)), As: Limited + Membership(rng.IntN(3))}
		if rng.IntN(3) == 0 {
			m.Kind, m.GUID = All+Kind(rng.IntN(int(Self))), 0
		}
		before := reread(t, p)
		q, err := p.WithMember(k, m)
		if err != nil {
			if m.Kind != Self || k != DefaultKey || m.As != Limited {
				t.Fatalf("%v=%v in %v: %v\n%+v", m, m.As, k, err, p)
			}
			refused++
			continue
		}
		added++
		if again := reread(t, q); !again.Equal(q) {
			t.Fatalf("%v=%v in %v: %+v\nreads back as %+v", m, m.As, k, q, again)
		}
		if m.Kind == Port || m.Kind == Self {
			for class := CA; class <= Router; class++ {
				if got, want := memberOf(q, k, class, portOf(m), m.Kind == Self), appendKeys(nil, k, m.As); !slices.Equal(got, want) {
					t.Fatalf("%v=%v in %v: it has %v\n%+v", m, m.As, k, got, q)
				}
				for guid := ib.GUID(1); guid <= 5; guid++ {
					if guid != m.GUID && !slices.Equal(Resolve(p).Of(class, guid, nil, false), Resolve(q).Of(class, guid, nil, false)) {
						t.Fatalf("%v=%v in %v changes %v\n%+v\n%+v", m, m.As, k, guid, p, q)
					}
				}
			}
		}
		r, err := q.WithoutMember(k, m)
		switch {
		case err != nil && k != DefaultKey && len(q.Find(k).Members) > 1:
			t.Fatalf("%v out of %v: %v\n%+v", m, k, err, q)
		case err != nil:
			refused++
			continue
		}
		removed++
		if slices.ContainsFunc(r.Find(k).Members, func(o Member) bool { return o.Kind == m.Kind && o.GUID == m.GUID }) {
			t.Fatalf("%v is still in %v\n%+v", m, k, r)
		}
		if again := reread(t, r); !again.Equal(r) {
			t.Fatalf("%+v\nreads back as %+v", r, again)
		}
		if !before.Equal(p) {
			t.Fatalf("an edit changed its policy: %+v\n%+v", before, p)
		}
	}
	if added < 2_000 || removed < 1_000 || refused == 0 {
		t.Errorf("%d members added, %d removed, %d edits refused", added, removed, refused)
	}
}

// portOf is a port that a member names; SELF is one that no line names.
func portOf(m Member) ib.GUID {
	if m.Kind == Self {
		return 77
	}
	return m.GUID
}

// TestEditPlaces: a class keeps its place or comes before single ports, which stay exceptions.
func TestEditPlaces(t *testing.T) {
	p := parsed(t, "Default=0x7fff:ALL=full; a=5: ALL_SWITCHES=limited, 1=full, 2=limited; b=6,indx0: 3=full; c=7,indx0: 3=full; c=7: 4;")
	for _, c := range []struct {
		key  ib.PKey
		m    Member
		want string
	}{
		{5, Member{Kind: AllSwitches, As: Full}, "ALL_SWITCHES=full 0x0000000000000001=full 0x0000000000000002=limited"},
		{5, Member{Kind: All, As: Limited}, "ALL=limited ALL_SWITCHES=limited 0x0000000000000001=full 0x0000000000000002=limited"},
		{5, Member{Kind: AllCAs, As: Limited}, "ALL_SWITCHES=limited ALL_CAS=limited 0x0000000000000001=full 0x0000000000000002=limited"},
		{5, Member{GUID: 1, As: Both}, "ALL_SWITCHES=limited 0x0000000000000002=limited 0x0000000000000001=both"},
		{6, Member{GUID: 9, As: Full}, "0x0000000000000003=full@0 0x0000000000000009=full@0"},
		{7, Member{GUID: 4, As: Full}, "0x0000000000000003=full@0 0x0000000000000004=full"},
	} {
		q, err := p.WithMember(c.key, c.m)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range q.Find(c.key).Members {
			s := m.String() + "=" + m.As.String()
			if q.Find(c.key).Index0 && !m.AnyIndex {
				s += "@0"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %v, want %s", c.m, got, c.want)
		}
	}
}

// TestEditRefusals: what an edit refuses says what to do, and errors can be told apart.
func TestEditRefusals(t *testing.T) {
	p := parsed(t, "Default=0x7fff:ALL=limited,SELF=full; a=5: 1=full;")
	refuse := func(what, want string, is error, q *Policy, err error) {
		t.Helper()
		if q != nil || err == nil || !strings.Contains(err.Error(), want) || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v, %v", what, q, err)
		}
	}
	q, err := p.WithMember(9, Member{GUID: 1, As: Full})
	refuse("no partition", "no partition has the P_Key 0x0009", ErrNotFound, q, err)
	q, err = p.WithMember(DefaultKey, Member{Kind: Self, As: Limited})
	refuse("own port", "stays a full member", nil, q, err)
	q, err = p.WithMember(5, Member{GUID: 1})
	refuse("no membership", "membership 0", nil, q, err)
	q, err = p.WithoutMember(9, Member{GUID: 1})
	refuse("no partition", "no partition has the P_Key 0x0009", ErrNotFound, q, err)
	q, err = p.WithoutMember(5, Member{GUID: 2})
	refuse("no member", "by a class of ports", ErrNotFound, q, err)
	q, err = p.WithoutMember(5, Member{GUID: 1})
	refuse("the last one", "delete the partition", nil, q, err)
	q, err = p.WithoutMember(DefaultKey, Member{Kind: All})
	refuse("ALL of the default one", "must be ALL", nil, q, err)
	q, err = p.WithoutMember(DefaultKey, Member{Kind: Self})
	refuse("own port", "stays a full member", nil, q, err)
	q, err = p.WithPartition(Partition{Name: "b", PKey: 5, Members: []Member{{GUID: 2, As: Full}}})
	refuse("a P_Key in use", `belongs to partition "a"`, ErrExists, q, err)
	q, err = p.WithPartition(Partition{Name: "b=c", PKey: 6, Members: []Member{{GUID: 2, As: Full}}})
	refuse("a bad name", "printable", nil, q, err)
	q, err = p.WithoutPartition(6)
	refuse("no partition", "no partition has the P_Key 0x0006", ErrNotFound, q, err)
	q, err = p.WithoutPartition(DefaultKey)
	refuse("the default partition", "cannot be deleted", nil, q, err)
}

// TestDiff: each line names its partition, and applying an edit backwards gives the same lines with
// the signs exchanged.
func TestDiff(t *testing.T) {
	p := parsed(t, "Default=0x7fff,ipoib:ALL=full; a=5,sl=3: 1=full, 2=limited; b=6: 1;")
	q, err := p.WithMember(5, Member{GUID: 2, As: Full})
	if err != nil {
		t.Fatal(err)
	}
	if q, err = q.WithoutPartition(6); err != nil {
		t.Fatal(err)
	}
	if q, err = q.WithPartition(Partition{Name: "c d", PKey: 7, Members: []Member{{Kind: AllCAs, As: Both}}, Groups: []Group{Broadcast(7)}}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"- a=0x0005: 0x0000000000000002=limited", "+ a=0x0005: 0x0000000000000002=full", "- b=0x0006", "- b=0x0006: 0x0000000000000001=limited",
		"+ c d=0x0007", "+ c d=0x0007: mgid=ff12:401b:8007::ffff:ffff, Q_Key=0xb1b", "+ c d=0x0007: ALL_CAS=both",
	}
	if got := Diff(p, q); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Diff(q, p); len(got) != len(want) || len(Diff(p, p)) != 0 {
		t.Errorf("%q", got)
	}
	r := parsed(t, "Default=0x7fff,ipoib:ALL=full; a=5,sl=3: 2=limited, 1=full; b=6: 1;")
	if got := Diff(p, r); !slices.Equal(got, []string{"+ a=0x0005: its members in another order"}) {
		t.Errorf("%q", got)
	}
}

// FuzzParseMember: what is read as a member prints as one that reads as the same.
func FuzzParseMember(f *testing.F) {
	for _, s := range []string{"0x1", "ALL", "ALL_CAS", "SELF", "NONE", "cafe", "0X0002c90300a1b2c3", "", "0x", "0x0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, ok := ParseMember(s)
		if again, same := ParseMember(m.String()); ok && (!same || again != m || m.Kind == Port && m.GUID == 0) {
			t.Fatalf("%q: %+v, printed and read %+v", s, m, again)
		}
		if as, err := ParseMembership(s); err == nil && as.String() != s {
			t.Fatalf("%q: %v", s, as)
		}
	})
}
