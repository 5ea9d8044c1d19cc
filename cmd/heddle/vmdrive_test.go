package main

import (
	"testing"

	"heddle/api"
)

// TestSizes: sizes are read and printed in the same form.
func TestSizes(t *testing.T) {
	for text, want := range map[string]float64{"4GiB": 4 << 30, "512MiB": 512 << 20, "100MB": 100e6, "1.5GB": 1.5e9, "0": 0, "17": 17, "3kB": 3e3, "2 TiB": 2 << 40} {
		if v, err := parseSize(text); err != nil || v != want {
			t.Errorf("%s is %v, %v", text, v, err)
		}
	}
	for _, text := range []string{"", "GiB", "-1MB", "NaN", "inf", "1e30TiB", "4 gigabytes", "0x"} {
		if v, err := parseSize(text); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
	for v, want := range map[float64]string{4 << 30: "4GiB", 100e6: "100MB", 1.5e9: "1.5GB", 0: "0", 17: "17B", 123456789: "123456789B"} {
		if got := sizeText(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
		if back, err := parseSize(sizeText(v)); err != nil || back != v {
			t.Errorf("%v comes back as %v, %v", v, back, err)
		}
	}
}

// TestEvacuate: each interface goes where most is free then; what cannot go says why.
func TestEvacuate(t *testing.T) {
	at := func(p *api.VMPlace) bool { return p != nil && p.Description == "h1" }
	here, there := &api.VMPlace{Description: "h1"}, &api.VMPlace{Description: "h9", PortGUID: "9"}
	list := []api.VM{
		{Name: "a", State: "attached", Hypervisor: here},
		{Name: "b", State: "migrating", Hypervisor: here, Dest: there},
		{Name: "c", State: "migrating", Hypervisor: there, Dest: here},
		{Name: "d", State: "attached", Hypervisor: here, Doing: "attach"},
		{Name: "e", State: "attached", Hypervisor: here, LIDKind: "floating"},
		{Name: "f", State: "attached", Hypervisor: here},
		{Name: "g", State: "attached", Hypervisor: here},
		{Name: "h", State: "attached", Hypervisor: here},
	}
	to := []api.Hypervisor{{Description: "h2", Functions: 4, Used: 2}, {Description: "h3", Functions: 4, Used: 1}, {Description: "h4", Functions: 2}}
	want := map[string]string{"a": "h3", "b": "h9", "d": "", "e": "h4", "f": "h2", "g": "h3", "h": "h2"}
	steps := evacuate(list, to, at)
	if len(steps) != len(want) {
		t.Errorf("%+v", steps)
	}
	for _, s := range steps {
		if to, ok := want[s.Name]; !ok || s.To != to || (s.To == "") != (s.Why != "") {
			t.Errorf("%+v, want %q", s, to)
		}
	}
	if steps = evacuate(list[:1], nil, at); steps[0].Why == "" {
		t.Errorf("%+v", steps)
	}
}
