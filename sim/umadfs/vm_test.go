package umadfs

import (
	"fmt"
	"strings"
	"testing"

	"heddle/internal/need"
	"heddle/sim"
)

// TestInVM: unmodified programs in a VM on a shared port, without OpenSM's knowledge:
// they see the function's addresses, reach the SA and, without QP0, no agent.
func TestInVM(t *testing.T) {
	t.Parallel()
	tool(t, "opensm", "saquery", "ibstat", "smpquery")
	l := newLab(t, smallNet(t), sim.Config{Seed: 1})
	place := func(f func(s *sim.Subnet) error) {
		t.Helper()
		var err error
		l.driver.Do(func(s *sim.Subnet) { err = f(s) })
		if err != nil {
			t.Fatal(err)
		}
	}
	// A manager that does not know virtualization leaves VPorts down.
	place(func(s *sim.Subnet) error {
		for h, m := range map[string]sim.Model{"H3": sim.VSwitch, "H4": sim.VPorts} {
			if err := s.AddHypervisor(h, 1, sim.Hypervisor{Model: m, VFs: 2}); err != nil {
				return err
			}
			f, err := s.VF(h, 1, 1)
			if err != nil {
				return err
			}
			if err := s.PlaceVM("vm on "+h, f, sim.VMOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	l.opensm("H1").wait("SUBNET UP", need.Patience)
	for _, vm := range []string{"vm on H3", "vm on H4"} {
		if out := l.run(0, vm, "ibstat"); !strings.Contains(out, "State: Down") {
			t.Errorf("%s under OpenSM:\n%s", vm, out)
		}
	}
	var lid [2]string
	place(func(s *sim.Subnet) error {
		for i, h := range []string{"H5", "H6"} {
			if err := s.AddHypervisor(h, 1, sim.Hypervisor{Model: sim.SharedPort, VFs: 2}); err != nil {
				return err
			}
			n, err := s.Node(h)
			if err != nil {
				return err
			}
			s.SetGUID(n, 1, 2, 0x0002C90300ABCD02)
			lid[i] = fmt.Sprintf("Base lid: %d\n", s.PortInfo(n, 1).LID)
		}
		f, err := s.VF("H5", 1, 2)
		if err != nil {
			return err
		}
		return s.PlaceVM("web", f, sim.VMOptions{})
	})
	see := func(i int) {
		t.Helper()
		out := l.run(0, "web", "ibstat")
		for _, want := range []string{"Number of ports: 1", "State: Active", "Port GUID: 0x0002c90300abcd02", lid[i]} {
			if !strings.Contains(out, want) {
				t.Errorf("ibstat does not say %q:\n%s", want, out)
			}
		}
		if n := l.records("web", "NR", "NodeRecord dump"); n != 8 {
			t.Errorf("the VM sees %d node records, want 8", n)
		}
	}
	see(0)
	l.run(255, "web", "smpquery", "-t", "100", "nodeinfo", "1")
	place(func(s *sim.Subnet) error {
		f, err := s.VF("H6", 1, 2)
		if err != nil {
			return err
		}
		return s.MoveVM("web", f)
	})
	see(1)
	if out := l.run(0, "H6", "smpquery", "-D", "guidinfo", "0"); !strings.Contains(out, "0x0002c90300abcd02") {
		t.Errorf("guidinfo:\n%s", out)
	}
}
