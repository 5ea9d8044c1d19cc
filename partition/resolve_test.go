package partition

import (
	"math/rand/v2"
	"slices"
	"testing"

	"heddle/ib"
)

// keysByLines reads the lines of a policy one by one, as its documentation says.
func keysByLines(p *Policy, class Class, guid ib.GUID, aliases []ib.GUID, self bool) (list []ib.PKey) {
	for i := range p.Partitions {
		q := &p.Partitions[i]
		as := Membership(0)
		for _, m := range q.Members {
			if m.Kind == Port && m.GUID == guid || m.Kind == All || self && m.Kind == Self ||
				m.Kind == AllCAs && class == CA || m.Kind == AllSwitches && class == Switch || m.Kind == AllRouters && class == Router {
				as = m.As
			}
		}
		for _, a := range aliases {
			other := Membership(0)
			for _, m := range q.Members {
				if m.Kind == Port && m.GUID == a && a != guid && a != 0 {
					other = m.As
				}
			}
			as = max(as, other) // Both is the highest
		}
		if as == Limited || as == Both {
			list = append(list, q.PKey)
		}
		if as == Full || as == Both {
			list = append(list, q.PKey|0x8000)
		}
	}
	switch at := slices.IndexFunc(list, func(k ib.PKey) bool { return k.Base() == DefaultKey }); {
	case at < 0 && self:
		list = append(list, ib.PKeyDefaultFull)
	case at < 0:
		list = append(list, ib.PKeyDefaultLimited)
	case self && !list[len(list)-1].IsFull():
		list[len(list)-1] = ib.PKeyDefaultFull
	}
	return list
}

// index0ByLines reads the lines of a policy one by one for the key at index 0. Of
// the keys that want it OpenSM's order has the lowest of 1 to 255 first.
func index0ByLines(p *Policy, class Class, guid ib.GUID, aliases []ib.GUID, self bool) ib.PKey {
	for i := range p.Partitions {
		q := &p.Partitions[i]
		want, named := false, false
		for _, m := range q.Members {
			if m.Kind == Port && m.GUID == guid || m.Kind == All || self && m.Kind == Self ||
				m.Kind == AllCAs && class == CA || m.Kind == AllSwitches && class == Switch || m.Kind == AllRouters && class == Router {
				want, named = !m.AnyIndex, true
			}
		}
		for k := 0; !named && k < len(aliases); k++ {
			for _, m := range q.Members {
				if m.Kind == Port && m.GUID == aliases[k] {
					want, named = !m.AnyIndex, true
				}
			}
		}
		if q.Index0 && want {
			return q.PKey
		}
	}
	return 0
}

// TestGrantsAgainstLines compares the granted keys with a naive reading of the lines.
func TestGrantsAgainstLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 3000 {
		p := randomPolicy(rng)
		g := Resolve(p)
		for guid := range ib.GUID(6) {
			class, self := Class(rng.IntN(3)), rng.IntN(4) == 0
			aliases := []ib.GUID{0, ib.GUID(rng.IntN(6)), guid, ib.GUID(rng.IntN(6))}[:rng.IntN(5)]
			if got, want := g.Of(class, guid, aliases, self), keysByLines(p, class, guid, aliases, self); !slices.Equal(got, want) {
				t.Fatalf("port %v, class %d, aliases %v, the manager's %v: %v, want %v\n%+v", guid, class, aliases, self, got, want, p.Partitions)
			}
			if got, want := g.Index0(class, guid, aliases, self), index0ByLines(p, class, guid, aliases, self); got != want {
				t.Fatalf("port %v, class %d, aliases %v, the manager's %v: %v at index 0, want %v\n%+v", guid, class, aliases, self, got, want, p.Partitions)
			}
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	base, more := manyMembers(20_000)
	p, err := base.With(more)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Resolve(p)
	}
}
