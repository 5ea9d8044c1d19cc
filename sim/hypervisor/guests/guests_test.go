package guests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heddle/fabric"
	"heddle/ib"
	"heddle/sim"
	"heddle/vmdriver"
)

// A bed is a star of hypervisors without a manager.
type bed struct {
	t     *testing.T
	s     *sim.Subnet
	g     *Guests
	ports []ib.GUID
	told  []vmdriver.Status
}

func newBed(t *testing.T, models ...sim.Model) *bed {
	t.Helper()
	var b fabric.Builder
	sw := b.AddSwitch("S", len(models)+1)
	for i := range models {
		b.Connect(sw, i+1, b.AddCA(fmt.Sprint("H", i), 1), 1)
	}
	f, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.New(f, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range models {
		if err := s.AddHypervisor(fmt.Sprint("H", i), 1, sim.Hypervisor{Model: m, VFs: 2}); err != nil {
			t.Fatal(err)
		}
	}
	c := Defaults()
	c.Machine.Memory, c.Machine.Dirty = 64<<20, 50e6
	c.Rate = 1e9
	g, err := New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	x := &bed{t: t, s: s, g: g}
	for _, h := range s.Hypervisors() {
		x.ports = append(x.ports, h.GUID)
	}
	g.OnStatus = func(e vmdriver.Event) {
		if st, ok := e.(vmdriver.Status); ok {
			x.told = append(x.told, st)
		}
	}
	return x
}

func (b *bed) at(host int, fn uint16) vmdriver.Place {
	return vmdriver.Place{Port: b.ports[host], Function: fn}
}

// do gives an order and returns the last status of it.
func (b *bed) do(k vmdriver.Kind, name string, at vmdriver.Place) vmdriver.Status {
	b.t.Helper()
	n := len(b.told)
	b.g.Do(vmdriver.Order{Kind: k, Name: name, Place: at, GUID: 0xA1})
	if len(b.told) == n {
		b.t.Fatalf("%v of %s was not answered", k, name)
	}
	return b.told[len(b.told)-1]
}

// until runs until the last status has a phase.
func (b *bed) until(p vmdriver.Phase) vmdriver.Status {
	b.t.Helper()
	for end := b.s.Now().Add(10 * time.Second); b.s.Now() < end; {
		if st := b.told[len(b.told)-1]; st.Guest.Phase == p {
			return st
		}
		b.s.Step()
	}
	b.t.Fatalf("not %v: %+v", p, b.told[len(b.told)-1])
	return vmdriver.Status{}
}

func (b *bed) vm(name string) sim.VMState {
	b.t.Helper()
	st, ok := b.s.VM(name)
	if !ok {
		b.t.Fatalf("no VM %q", name)
	}
	return st
}

// TestRounds: the copy takes the time of its bytes, the stop that of what was left, and
// orders that come again change nothing.
func TestRounds(t *testing.T) {
	for _, m := range []sim.Model{sim.SharedPort, sim.VSwitch, sim.VPorts} {
		b := newBed(t, m, m)
		from, to := b.at(0, 1), b.at(1, 2)
		if st := b.do(vmdriver.Start, "web", from); st.Gone || st.Guest.At != from {
			t.Fatalf("%+v", st)
		}
		b.do(vmdriver.Start, "web", from)
		begin := b.s.Now()
		b.do(vmdriver.Precopy, "web", to)
		b.do(vmdriver.Precopy, "web", to)
		copied := b.until(vmdriver.Copied).Guest
		bytes := int64(0)
		for _, r := range copied.Copy.Rounds {
			bytes += r.Bytes
		}
		took := b.s.Now().Sub(begin)
		if want := time.Duration(bytes); copied.Copy.Rounds[0].Bytes > 64<<20 || copied.Copy.Rounds[0].Bytes < 60<<20 || took < want || took > want+want/100 {
			t.Errorf("%v: %+v after %v", m, copied.Copy, took)
		}
		if b.vm("web").Stopped {
			t.Errorf("%v: stopped in pre-copy", m)
		}
		halted := b.s.Now()
		b.do(vmdriver.Halt, "web", to)
		st := b.until(vmdriver.Stopped)
		b.do(vmdriver.Halt, "web", to)
		if v := b.vm("web"); !v.Stopped || v.Next != b.g.function(to) || v.At != b.g.function(from) {
			t.Errorf("%v: %+v", m, v)
		}
		last := st.Guest.Copy.Rounds[len(st.Guest.Copy.Rounds)-1]
		if len(st.Guest.Copy.Rounds) != len(copied.Copy.Rounds)+1 || last.Time != b.s.Now().Sub(halted) {
			t.Errorf("%v: the last round %+v, stopped for %v", m, last, b.s.Now().Sub(halted))
		}
		st = b.do(vmdriver.Resume, "web", to)
		if v := b.vm("web"); v.Stopped || v.At != b.g.function(to) || st.Guest.At != to || st.Guest.Copy.Outage != last.Time || st.Guest.To != (vmdriver.Place{}) {
			t.Errorf("%v: %+v %+v", m, v, st)
		}
		if len(b.g.busy) != 0 {
			t.Errorf("%v: copies that are over count: %v", m, b.g.busy)
		}
		if st := b.do(vmdriver.End, "web", from); !st.Gone {
			t.Errorf("%+v", st)
		}
	}
}

// TestShare: copies of one hypervisor share its link.
func TestShare(t *testing.T) {
	b := newBed(t, sim.VSwitch, sim.VSwitch, sim.VSwitch)
	b.do(vmdriver.Start, "a", b.at(0, 1))
	b.do(vmdriver.Start, "b", b.at(0, 2))
	begin := b.s.Now()
	b.do(vmdriver.Precopy, "a", b.at(1, 1))
	b.do(vmdriver.Precopy, "b", b.at(2, 1))
	b.until(vmdriver.Copied)
	if took := b.s.Now().Sub(begin); took < 130*time.Millisecond || took > 200*time.Millisecond {
		t.Errorf("twice 64 MiB at 1 GB/s took %v", took)
	}
}

// TestRefusals: what cannot work is refused with the reason, and the VM runs on.
func TestRefusals(t *testing.T) {
	b := newBed(t, sim.VSwitch, sim.VSwitch, sim.SharedPort)
	b.do(vmdriver.Start, "web", b.at(0, 1))
	b.do(vmdriver.Start, "db", b.at(1, 1))
	if err := b.s.PlaceVM("mine", b.g.function(b.at(1, 2)), sim.VMOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		kind vmdriver.Kind
		name string
		to   vmdriver.Place
		why  string
	}{
		{vmdriver.Precopy, "web", b.at(2, 1), "cannot go on as that of a shared adapter"},
		{vmdriver.Halt, "web", b.at(2, 1), "cannot go on as that of a shared adapter"},
		{vmdriver.Precopy, "web", b.at(1, 1), `taken by VM "db"`},
		{vmdriver.Precopy, "web", b.at(1, 7), "functions 1 to 2, not 7"},
		{vmdriver.Precopy, "web", vmdriver.Place{Port: 5, Function: 1}, "not a hypervisor"},
		{vmdriver.Resume, "web", b.at(1, 2), "does not have all of it"},
		{vmdriver.Start, "mine", b.at(0, 2), "placed by a command"},
		{vmdriver.Start, "other", b.at(1, 2), `taken by VM "mine"`},
		{vmdriver.Halt, "other", b.at(1, 2), "no such VM"},
	} {
		st := b.do(x.kind, x.name, x.to)
		if !strings.Contains(st.Guest.Failed, x.why) || x.name == "web" && (st.Guest.Phase != vmdriver.Running || b.vm("web").Stopped) {
			t.Errorf("%v %s: %+v, want %q", x.kind, x.name, st, x.why)
		}
	}
	if st := b.do(vmdriver.Resume, "web", b.at(0, 1)); st.Guest.Failed != "" {
		t.Errorf("%+v", st)
	}
}

// TestHostsDie: a destination that dies leaves the VM at the source; a source that dies
// takes it along, unless the destination has all of it.
func TestHostsDie(t *testing.T) {
	start := func() *bed {
		b := newBed(t, sim.VSwitch, sim.VSwitch)
		b.do(vmdriver.Start, "web", b.at(0, 1))
		b.do(vmdriver.Precopy, "web", b.at(1, 1))
		return b
	}
	down := func(b *bed, host string) {
		t.Helper()
		if err := b.s.NodeDown(host); err != nil {
			t.Fatal(err)
		}
	}
	b := start()
	down(b, "H1")
	if st := b.until(vmdriver.Running); st.Guest.Failed == "" || st.Guest.To != (vmdriver.Place{}) || b.vm("web").Stopped {
		t.Errorf("%+v", st)
	}
	b = start()
	b.do(vmdriver.Halt, "web", b.at(1, 1))
	down(b, "H1")
	if st := b.until(vmdriver.Broken); st.Guest.Failed == "" || st.Guest.At != b.at(0, 1) {
		t.Errorf("%+v", st)
	}
	if st := b.do(vmdriver.Resume, "web", b.at(0, 1)); st.Guest.Phase != vmdriver.Running || b.vm("web").Stopped {
		t.Errorf("%+v", st)
	}
	b = start()
	b.do(vmdriver.Halt, "web", b.at(1, 1))
	b.until(vmdriver.Stopped)
	down(b, "H0")
	b.s.RunUntil(b.s.Now().Add(time.Second))
	if st := b.do(vmdriver.Resume, "web", b.at(1, 1)); st.Guest.Failed != "" || b.vm("web").At != b.g.function(b.at(1, 1)) {
		t.Errorf("%+v", st)
	}
	b = start()
	down(b, "H0")
	b.s.RunUntil(b.s.Now().Add(time.Second))
	if !b.told[len(b.told)-1].Gone || len(b.g.Inventory().Guests) != 0 || slices.Contains(b.s.VMs(), "web") {
		t.Errorf("%+v", b.told)
	}
	if st := b.do(vmdriver.Start, "web", b.at(0, 1)); !st.Gone || st.Guest.Failed != "the host is down" {
		t.Errorf("%+v", st)
	}
}
