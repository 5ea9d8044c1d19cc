package vm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"heddle/ib"
	"heddle/partition"
)

// TestMembers: AddMembers and RemoveMembers as UFM's calls use them.
func TestMembers(t *testing.T) {
	r := newRig(t)
	a, b, c := ib.GUID(0xA), ib.GUID(0xB), ib.GUID(0xC)
	want := func(list ...Members) {
		t.Helper()
		if !slices.EqualFunc(r.view.Partitions, list, func(a, b Members) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Fatalf("%+v, want %+v", r.view.Partitions, list)
		}
	}
	r.ok(AddMembers{PKey: 5, Index0: true, IPoIB: true})
	want(Members{PKey: 5, Index0: true, IPoIB: true})
	r.ok(AddMembers{PKey: 5, GUIDs: []ib.GUID{b, a, b}, Full: true})
	want(Members{PKey: 5, Index0: true, IPoIB: true, Full: []ib.GUID{a, b}})
	told, gen := r.parts, r.c.gen
	for range 3 { // batches that are repeated change and cost nothing
		r.ok(AddMembers{PKey: 5, GUIDs: []ib.GUID{a, b}, Full: true, Index0: true, IPoIB: true})
		r.ok(RemoveMembers{PKey: 5, GUIDs: []ib.GUID{c}})
		r.ok(RemoveMembers{PKey: 6, GUIDs: []ib.GUID{a}})
		r.ok(RemoveMembers{PKey: 6, All: true})
	}
	if r.parts != told || r.c.gen != gen {
		t.Fatalf("told %d times more, stored %d times", r.parts-told, r.c.gen-gen)
	}
	r.ok(AddMembers{PKey: 5, GUIDs: []ib.GUID{a}})
	want(Members{PKey: 5, Index0: true, IPoIB: true, Full: []ib.GUID{b}, Limited: []ib.GUID{a}})
	r.ok(AddMembers{PKey: 5, GUIDs: []ib.GUID{c}, Full: true, Replace: true})
	want(Members{PKey: 5, Full: []ib.GUID{c}})
	// An interface's own P_Keys are its own.
	r.ok(Create{Interface{Name: "web", GUID: a, Keys: []Membership{{5, false}, {7, true}}}})
	want(Members{PKey: 5, Full: []ib.GUID{c}})
	r.ok(AddMembers{PKey: 5, GUIDs: []ib.GUID{a}, Full: true})
	all := func(words string) {
		t.Helper()
		if got := fmt.Sprint(r.out.Partitions); !r.out.PartitionsChanged || got != words {
			t.Fatalf("%v, want %v", got, words)
		}
	}
	all("[{0x0005 0x0005 false 0 false [0x000000000000000a 0x000000000000000c] []} {0x0007 0x0007 false 0 false [0x000000000000000a] []}]")
	for _, p := range r.out.Partitions {
		if p.PKey == 5 && p.Members[0].As != partition.Full {
			t.Fatal("limited through its interface, and full directly")
		}
	}
	r.ok(RemoveMembers{PKey: 5, GUIDs: []ib.GUID{a, c}})
	want(Members{PKey: 5})
	r.ok(RemoveMembers{PKey: 5, All: true})
	want()
	all("[{0x0005 0x0005 false 0 false [0x000000000000000a] []} {0x0007 0x0007 false 0 false [0x000000000000000a] []}]")
	r.ok(SetKeys{"web", []Membership{{7, true}}})
	r.ok(Delete{Name: "web"})
	all("[]")
	if st, _ := r.store.Load(); len(st.Records) != 0 {
		t.Fatalf("left: %+v", st.Records)
	}
	r.fails(AddMembers{PKey: 0}, ErrInvalid, "0x0001")
	r.fails(AddMembers{PKey: 0x8005}, ErrInvalid, "membership bit")
	r.fails(RemoveMembers{PKey: 0xFFFF}, ErrInvalid, "membership bit")
	r.fails(AddMembers{PKey: 5, GUIDs: []ib.GUID{a, 0}}, ErrInvalid, "GUID 0")
	want()
	r.ok(AddMembers{PKey: 0x7FFF, GUIDs: []ib.GUID{a}, Full: true})
	want(Members{PKey: 0x7FFF, Full: []ib.GUID{a}})
}

// TestBroadcastLimit: the number of partitions with a broadcast group is bounded.
func TestBroadcastLimit(t *testing.T) {
	r := newRig(t)
	var ops []Op
	for k := range maxIPoIB {
		ops = append(ops, AddMembers{PKey: ib.PKey(k + 1), IPoIB: true})
	}
	r.ask(ops...)
	r.fails(AddMembers{PKey: 0x7000, IPoIB: true}, ErrNoRoom, "broadcast group")
	r.ok(AddMembers{PKey: 0x7000})
	r.ok(AddMembers{PKey: 1, IPoIB: true})
	r.ok(RemoveMembers{PKey: 1, All: true})
	r.ok(AddMembers{PKey: 0x7000, IPoIB: true})
	p := partition.Default()
	p.Partitions = append(slices.Clone(r.view2()), p.Partitions...)
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

// view2 are the partitions as the subnet manager received them.
func (r *rig) view2() []partition.Partition { return r.c.members.list }

// TestMembersTwin: lists that are updated incrementally equal those of a model that makes them
// anew.
func TestMembersTwin(t *testing.T) {
	for seed := range 30 {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		r := newRig(t)
		type who struct {
			k ib.PKey
			g ib.GUID
		}
		self, made := map[who]bool{}, map[ib.PKey][2]bool{}
		iface := map[string][]Membership{}
		for range 200 {
			k := ib.PKey(1 + rng.IntN(4))
			var guids []ib.GUID
			for range rng.IntN(4) {
				guids = append(guids, ib.GUID(1+rng.IntN(9)))
			}
			var op Op
			switch rng.IntN(4) {
			case 0, 1:
				add := AddMembers{PKey: k, GUIDs: guids, Full: rng.IntN(2) == 0, Index0: rng.IntN(2) == 0, IPoIB: rng.IntN(2) == 0, Replace: rng.IntN(4) == 0}
				op = add
				if r.store.FailNext = rng.IntN(2) * rng.IntN(2); r.store.FailNext > 0 {
					r.ask(op)
					r.store.FailNext = 0
					continue
				}
				was := made[k]
				made[k] = [2]bool{add.Index0 || was[0] && !add.Replace, add.IPoIB || was[1] && !add.Replace}
				for w := range self {
					if w.k == k && add.Replace {
						delete(self, w)
					}
				}
				for _, g := range guids {
					self[who{k, g}] = add.Full
				}
			case 2:
				rem := RemoveMembers{PKey: k, GUIDs: guids, All: rng.IntN(4) == 0}
				op = rem
				for _, g := range guids {
					delete(self, who{k, g})
				}
				if rem.All {
					delete(made, k)
					for w := range self {
						if w.k == k {
							delete(self, w)
						}
					}
				}
			default:
				g := ib.GUID(1 + rng.IntN(9))
				name := fmt.Sprint("i", uint64(g))
				keys := []Membership{{k, rng.IntN(2) == 0}}
				if _, there := iface[name]; there && rng.IntN(2) == 0 {
					op = Delete{Name: name}
					delete(iface, name)
				} else {
					op = Create{Interface{Name: name, GUID: g, Keys: keys}}
					if there {
						op = SetKeys{name, keys}
					}
					iface[name] = keys
				}
			}
			r.ok(op)
			var want strings.Builder
			for k := ib.PKey(1); k < 5; k++ {
				m, there := made[k]
				var list []string
				for g := ib.GUID(1); g < 10; g++ {
					isFull, is := self[who{k, g}]
					for _, i := range iface[fmt.Sprint("i", uint64(g))] {
						if i.PKey == k {
							is, isFull = true, isFull || i.Full
						}
					}
					if is {
						list = append(list, fmt.Sprint(g, isFull))
					}
				}
				if there || len(list) > 0 {
					fmt.Fprintln(&want, k, m[0], m[1], list)
				}
			}
			var got strings.Builder
			for _, p := range r.c.members.list {
				var list []string
				for _, m := range p.Members {
					list = append(list, fmt.Sprint(m.GUID, m.As == partition.Full))
				}
				fmt.Fprintln(&got, p.PKey, p.Index0, len(p.Groups) > 0, list)
			}
			if got.String() != want.String() {
				t.Fatalf("seed %d, %+v:\n%swant\n%s", seed, op, &got, &want)
			}
		}
	}
}
