package vm

import (
	"fmt"
	"testing"

	"heddle/ib"
	"heddle/mad"
	"heddle/subnet"
)

// population is a core with n interfaces, one function after the other of 3,000
// hypervisors, all placed. The subnet is the one of §V-A of the vSwitch paper.
func population(tb testing.TB, n int) *rig {
	r := &rig{t: tb, replies: map[uint64]Reply{}, placements: map[ib.GUID]subnet.Placement{}}
	r.c = New(Config{})
	var out Output
	quiet := func(ev Event) {
		for ev != nil {
			out.Reset()
			r.c.Step(0, ev, &out)
			ev = nil
			if out.Publish != nil {
				r.view = out.Publish
			}
			if out.PersistGen != 0 {
				ev = Persisted{Gen: out.PersistGen}
				continue
			}
			if len(out.Put) > 0 {
				ev = Reports{placed(out.Put)}
			}
		}
	}
	quiet(Start{})
	var ev Requests
	for i := range n {
		ev.List = append(ev.List, Request{uint64(2*i + 1), Create{Interface{Name: vmName(i), LIDKind: subnet.OwnLID, Keys: []Membership{{ib.PKey(1 + i%100), true}}}}})
		ev.List = append(ev.List, Request{uint64(2*i + 2), Attach{vmName(i), placeOf(i)}})
	}
	quiet(ev)
	// Reports of what Persisted put come with the next step above; see that all are there.
	if r.view.Len() != n || r.view.Journal != 0 {
		tb.Fatalf("%d interfaces, %d under way", r.view.Len(), r.view.Journal)
	}
	s := snapshot(nil)
	for i := range 3000 {
		p := subnet.Port{GUID: hyper(i), LID: ib.LID(100 + i), Node: int32(len(s.Nodes) - 1), Adapter: &subnet.Adapter{Model: subnet.VSwitch, Functions: 32}}
		s.Ports = append(s.Ports, &p)
	}
	s.Nodes[len(s.Nodes)-1].Info.NumPorts = 250
	s.Finish()
	quiet(Published{s})
	return r
}

func vmName(i int) string        { return fmt.Sprintf("tenant-%02d/vm-%05d", i%100, i) }
func hyper(i int) ib.GUID        { return ib.GUID(0x100000 + i) }
func placeOf(i int) subnet.Place { return at(hyper(i/16), uint16(1+i%16)) }
func placed(list []subnet.Placement) []subnet.PlacementReport {
	var out []subnet.PlacementReport
	for i, l := range list {
		out = append(out, subnet.PlacementReport{GUID: l.GUID, Place: l.Place, State: subnet.PlacementPlaced, LID: ib.LID(1 + i%49000)})
	}
	return out
}

// migrations moves n interfaces, batch at a time.
func migrations(b *testing.B, r *rig, n, batch, round int) {
	var out Output
	now := mad.Time(0)
	step := func(ev Event) *Output {
		out.Reset()
		r.c.Step(now, ev, &out)
		return &out
	}
	for first := 0; first < n; first += batch {
		var ev Requests
		for i := first; i < first+batch; i++ {
			vm := i * 17
			to := at(hyper((vm/16+1+round)%2900), 0)
			ev.List = append(ev.List, Request{1, Migrate{vmName(vm), to}}, Request{2, Finish{vmName(vm)}})
		}
		o := step(ev)
		gen := o.PersistGen
		o = step(Persisted{Gen: gen})
		if len(o.Put) != batch {
			b.Fatalf("%d placements put, want %d: %+v", len(o.Put), batch, o.Replies)
		}
		o = step(Reports{placed(o.Put)})
		o = step(Persisted{Gen: o.PersistGen})
		if len(o.Replies) != batch || o.Publish == nil || o.Publish.Journal != 0 {
			b.Fatalf("%d replies, journal %d", len(o.Replies), o.Publish.Journal)
		}
	}
}

// BenchmarkMigrations: 1,000 migrations among 46,000 interfaces, from request to
// reply, without the store and the subnet manager.
func BenchmarkMigrations(b *testing.B) {
	for _, batch := range []int{1000, 1} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			r := population(b, 46000)
			b.ReportAllocs()
			round := 0
			for b.Loop() {
				round++
				migrations(b, r, 1000, batch, 50*round)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/migration")
		})
	}
}

// BenchmarkStart reads 46,000 interfaces from the store.
func BenchmarkStart(b *testing.B) {
	r := population(b, 46000)
	var ev Start
	for e := range r.c.list.all() {
		ev.Records = append(ev.Records, putInterface(e).Record)
	}
	b.ReportAllocs()
	for b.Loop() {
		var out Output
		c := New(Config{})
		c.Step(0, ev, &out)
		if len(out.Put) != 46000 {
			b.Fatal(len(out.Put))
		}
	}
}

// BenchmarkPublished shows a core with 46,000 interfaces a new state of the subnet.
func BenchmarkPublished(b *testing.B) {
	r := population(b, 46000)
	s := r.c.snap
	b.ReportAllocs()
	for b.Loop() {
		var out Output
		r.c.Step(0, Published{s}, &out)
	}
}

// BenchmarkCreate makes and deletes one interface among 46,000, with a P_Key that 460
// interfaces have.
func BenchmarkCreate(b *testing.B) {
	r := population(b, 46000)
	b.ReportAllocs()
	for b.Loop() {
		for _, op := range []Op{Create{Interface{Name: "x", Keys: []Membership{{5, true}}}}, Delete{Name: "x"}} {
			var out Output
			r.c.Step(0, Requests{[]Request{{1, op}}}, &out)
			r.c.Step(0, Persisted{Gen: out.PersistGen}, &out)
		}
	}
}
