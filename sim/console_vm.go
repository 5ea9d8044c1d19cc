package sim

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"heddle/ib"
	"heddle/mad"
)

// The console commands about hypervisors and VMs.

// portOf is the end port that a word A or A[p] names; without [p] it is port 1.
func (s *Subnet) portOf(w string) (t target, err error) {
	if t, err = s.target(w); err == nil && t.port < 0 {
		t.port = 1
	}
	return t, err
}

// functionOf is the virtual function that the words A[p] INDEX name.
func (s *Subnet) functionOf(w, index string) (VF, error) {
	t, err := s.portOf(w)
	if err != nil {
		return VF{}, err
	}
	i, err := strconv.ParseUint(index, 0, 16)
	if err != nil || i == 0 {
		return VF{}, fmt.Errorf("sim: %q is not the index of a virtual function: they count from 1", index)
	}
	return s.VF(s.id(t), t.port, int(i))
}

func (s *Subnet) cmdHypervisor(a []string, _ *strings.Builder) error {
	own := len(a) == 4 && strings.EqualFold(a[3], "own")
	if len(a) != 3 && !own {
		return errUsage
	}
	t, err := s.portOf(a[0])
	if err != nil {
		return err
	}
	m, err := ParseModel(strings.ToLower(a[1]))
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(a[2])
	if err != nil {
		return fmt.Errorf("sim: %q is not a number of virtual functions", a[2])
	}
	return s.AddHypervisor(s.id(t), t.port, Hypervisor{Model: m, VFs: n, OwnLIDs: own})
}

func (s *Subnet) cmdVPort(a []string, out *strings.Builder) error {
	verb := ""
	if len(a) > 0 {
		verb = strings.ToLower(a[0])
	}
	switch {
	case len(a) == 0:
		for p := range s.ports {
			s.listVPorts(out, int32(p))
		}
		return nil
	case len(a) == 1:
		t, err := s.portOf(a[0])
		if err != nil {
			return err
		}
		s.listVPorts(out, s.devs[t.node].first+int32(t.port))
		return nil
	case len(a) == 3 && (verb == "up" || verb == "down"):
		f, err := s.functionOf(a[1], a[2])
		if err != nil {
			return err
		}
		return s.virtLink(f, verb == "up")
	case len(a) == 4 && verb == "lid":
		f, err := s.functionOf(a[1], a[2])
		if err != nil {
			return err
		}
		if strings.EqualFold(a[3], "own") {
			return s.SetLIDRequired(f, true, 0)
		}
		by, err := strconv.ParseUint(a[3], 0, 16)
		if err != nil {
			return errUsage
		}
		return s.SetLIDRequired(f, false, uint16(by))
	}
	return errUsage
}

// listVPorts prints the functions of a port, if it has any.
func (s *Subnet) listVPorts(out *strings.Builder, p int32) {
	h := s.ports[p].hv
	if h == nil {
		return
	}
	fmt.Fprintf(out, "%s %v, %d of %d virtual functions", s.portName(p), h.Model, h.top, h.VFs)
	if h.Model != SharedPort && !h.enabled {
		out.WriteString(", virtualization off")
	}
	out.WriteByte('\n')
	for i := 1; i <= int(h.top); i++ {
		v := &h.vps[i]
		fmt.Fprintf(out, "\t%d %v", i, s.vstate(v))
		if !v.up {
			out.WriteString(" link down")
		}
		fmt.Fprintf(out, " lid %v", s.lidOf(v))
		if v.own {
			out.WriteString(" own")
		}
		fmt.Fprintf(out, " guid %v", s.vguid(v, 0))
		if v.vm != nil {
			fmt.Fprintf(out, " vm %q", v.vm.name)
		}
		out.WriteByte('\n')
	}
}

// vmVerbs are the commands about a VM alone.
var vmVerbs = map[string]func(*Subnet, string) error{
	"detach": (*Subnet).DetachVM, "remove": (*Subnet).RemoveVM, "stop": (*Subnet).StopVM, "resume": (*Subnet).ResumeVM,
	"switch": (*Subnet).SwitchVM, "unready": (*Subnet).UnreadyVM,
}

func (s *Subnet) cmdVM(a []string, out *strings.Builder) error {
	verb := ""
	if len(a) > 1 {
		verb = strings.ToLower(a[0])
	}
	switch {
	case len(a) == 0:
		for _, n := range s.VMs() {
			s.printVM(out, n)
		}
		return nil
	case len(a) == 1:
		name := unquote(a[0])
		if _, ok := s.VM(name); !ok {
			return fmt.Errorf("sim: no VM %q", name)
		}
		s.printVM(out, name)
		return nil
	case vmVerbs[verb] != nil && len(a) == 2:
		return vmVerbs[verb](s, unquote(a[1]))
	case (verb == "move" || verb == "ready") && len(a) == 4:
		to, err := s.functionOf(a[2], a[3])
		if err != nil {
			return err
		}
		if verb == "ready" {
			return s.ReadyVM(unquote(a[1]), to)
		}
		return s.MoveVM(unquote(a[1]), to)
	case verb == "place" && len(a) >= 4 && len(a) <= 6:
		at, err := s.functionOf(a[2], a[3])
		if err != nil {
			return err
		}
		var o VMOptions
		for _, w := range a[4:] {
			if strings.EqualFold(w, "own") {
				o.OwnLID = true
				continue
			}
			g, err := strconv.ParseUint(w, 0, 64)
			if err != nil {
				return fmt.Errorf("sim: %q is not a GUID", w)
			}
			o.GUID = ib.GUID(g)
		}
		return s.PlaceVM(unquote(a[1]), at, o)
	}
	return errUsage
}

func (s *Subnet) printVM(out *strings.Builder, name string) {
	st, _ := s.VM(name)
	fmt.Fprintf(out, "%q", name)
	if st.At.Node < 0 {
		out.WriteString(" nowhere\n")
		return
	}
	fmt.Fprintf(out, " on %q[%d] VF %d %v lid %v gid %v pkeys %v", s.f.Nodes[st.At.Node].ID, st.At.Port, st.At.Index,
		st.State, st.LID, st.GID, st.PKeys)
	if st.Stopped {
		out.WriteString(" stopped")
	}
	if st.Next.Node >= 0 {
		fmt.Fprintf(out, " ready %s", s.vfName(st.Next))
	}
	out.WriteByte('\n')
}

// place is the function or port that a word names: a VM, A[p], or A[p].INDEX.
func (s *Subnet) place(w string) (VF, error) {
	if m := s.vms[unquote(w)]; m != nil {
		if m.at == nil {
			return VF{}, fmt.Errorf("sim: VM %q is on no virtual function", m.name)
		}
		return s.ref(m.at), nil
	}
	if i := strings.LastIndexByte(w, '.'); i > strings.LastIndexByte(w, '"') && i > strings.LastIndexByte(w, ']') {
		if f, err := s.functionOf(w[:i], w[i+1:]); err == nil {
			return f, nil
		}
	}
	t, err := s.target(w)
	if err == nil && t.port < 0 {
		t.port = 1
		if s.devs[t.node].isSwitch() {
			t.port = 0
		}
	}
	return VF{Node: t.node, Port: uint8(max(t.port, 0))}, err
}

// addressOf is the address that a word names: a GID, a LID, or a word that place
// understands. GIDs are resolved within the subnet, as a path query would.
func (s *Subnet) addressOf(w string) (a mad.Addr, err error) {
	if v, err := strconv.ParseUint(w, 0, 16); err == nil {
		a.LID = ib.LID(v)
		return a, nil
	}
	a.HasGRH, a.GRH.HopLimit = true, 1
	if g, err := netip.ParseAddr(w); err == nil && g.Is6() {
		a.GRH.GID = g.As16()
		var ok bool
		if a.LID, ok = s.FindGID(a.GRH.GID); !ok {
			return a, fmt.Errorf("sim: no port has GID %v", a.GRH.GID)
		}
		return a, nil
	}
	f, err := s.place(w)
	if err != nil {
		return a, err
	}
	p := s.devs[f.Node].first + int32(f.Port)
	a.LID, a.GRH.GID = s.ports[p].lid, s.gidAt(p, 0)
	if f.Index > 0 {
		v, err := s.function(f)
		if err != nil {
			return a, err
		}
		a.LID, a.GRH.GID = s.lidOf(v), s.vgid(v, 0)
	}
	return a, nil
}

// FindGID returns the LID at which a GID is reachable now; 0 if its port or
// function has none yet. Functions that are not Active are skipped; of two with
// the same GID the first of the fabric counts.
func (s *Subnet) FindGID(g ib.GID) (lid ib.LID, ok bool) {
	for p := range s.ports {
		pt := &s.ports[p]
		if s.devs[pt.dev].down || s.endPort(int32(p)) != int32(p) || pt.num == 0 && !s.devs[pt.dev].isSwitch() {
			continue
		}
		if h := pt.hv; h != nil {
			for i := 1; i <= int(h.top); i++ {
				v := &h.vps[i]
				if s.vstate(v) != ib.StateActive {
					continue
				}
				if _, ok := s.gidIndex(int32(p), v, g); ok {
					return s.lidOf(v), true
				}
			}
		}
		if _, ok := s.gidIndex(int32(p), nil, g); ok {
			return pt.lid, true
		}
	}
	return 0, false
}

func (s *Subnet) cmdProbe(a []string, out *strings.Builder) error {
	if len(a) != 2 && len(a) != 3 {
		return errUsage
	}
	from, err := s.place(a[0])
	if err != nil {
		return err
	}
	to, err := s.addressOf(a[1])
	if err != nil {
		return err
	}
	key := uint64(ib.PKeyDefaultFull)
	if len(a) == 3 {
		if key, err = strconv.ParseUint(a[2], 0, 16); err != nil {
			return fmt.Errorf("sim: %q is not a P_Key", a[2])
		}
	}
	p, err := s.Probe(from, to, ib.PKey(key))
	if err != nil {
		return err
	}
	switch {
	case p.Answered:
		fmt.Fprintf(out, "answered by %s after %d hops\n", s.vfName(p.At), p.Hops)
	case !p.Done:
		out.WriteString("under way\n")
	default:
		fmt.Fprintf(out, "lost at %s: %v", s.vfName(VF{Node: int(p.LostAt.Node), Port: p.LostAt.Port}), p.Lost)
		if p.Arrived {
			fmt.Fprintf(out, ", the answer of %s", s.vfName(p.At))
		}
		out.WriteByte('\n')
	}
	return nil
}

// vfName names a port or function: "H1"[1] VF 3.
func (s *Subnet) vfName(f VF) string {
	n := fmt.Sprintf("%q[%d]", s.f.Nodes[f.Node].ID, f.Port)
	if f.Index > 0 {
		n += fmt.Sprintf(" VF %d", f.Index)
	}
	return n
}
