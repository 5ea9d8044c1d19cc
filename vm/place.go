package vm

import (
	"heddle/ib"
	"heddle/subnet"
)

// up is the published state if the subnet is up, else nil.
func (c *Core) up() *subnet.Snapshot {
	if c.snap == nil || !c.snap.Up {
		return nil
	}
	return c.snap
}

// port finds a physical port in the snapshot. s is nil if the subnet is not up; i is -1 if the
// port is not in it.
func (c *Core) port(g ib.GUID) (s *subnet.Snapshot, i int32) {
	s = c.up()
	if s == nil {
		return nil, -1
	}
	return s, s.PortByPortGUID(g)
}

// absent reports whether the subnet is up without that port.
func (c *Core) absent(g ib.GUID) bool {
	s, i := c.port(g)
	return s != nil && i < 0
}

// awaited says, for Reason, what an interface waits for at a port that is not in the snapshot.
// It is empty if the port is there.
func (c *Core) awaited(port ib.GUID) string {
	switch s, i := c.port(port); {
	case s == nil:
		return "waits until the subnet is up"
	case i < 0:
		return "waits for port " + port.String() + ", which is not in the subnet"
	}
	return ""
}

// unknown says, for Reason, what an interface waits for at a port whose virtual functions have
// not been read.
func (c *Core) unknown(port ib.GUID) string {
	return cmpReason(c.awaited(port), "waits until the virtual functions of port "+port.String()+" have been read")
}

// place decides which function of a port e is to be at. fn 0 is any: the one whose VPort shows
// its GUID, otherwise the lowest free one. If the port is absent or its functions have not been
// read, known is false and a function 0 stays 0. An error says why e cannot be there.
func (c *Core) place(e *entry, port ib.GUID, fn uint16) (at subnet.Place, known bool, err error) {
	at = subnet.Place{Port: port, Function: fn}
	if port == 0 {
		return at, false, invalid("interface %q: no port has GUID 0", e.Name)
	}
	if err := c.checkNeighbors(e, at); err != nil {
		return at, false, err
	}
	s, i := c.port(port)
	if i < 0 {
		return at, false, nil
	}
	p := s.Ports[i]
	switch {
	case p.Virtual != nil:
		return at, false, invalid("interface %q: %v is a virtual port: name its physical port %v", e.Name, port, s.Ports[p.Virtual.Port].GUID)
	case s.Nodes[p.Node].Info.NodeType != ib.NodeCA:
		return at, false, invalid("interface %q: port %v belongs to a switch or router: name a port of a channel adapter", e.Name, port)
	case p.Adapter == nil && p.Info.IsVirtualizationSupported():
		return at, false, nil // it has not been read yet
	}
	a := p.Adapter
	if a == nil || a.Model == subnet.NoFunctions {
		return at, false, conflict("interface %q: port %v of %q cannot hold virtual functions: its GUID table has no free entry", e.Name, port, s.Nodes[p.Node].Desc)
	}
	if err := checkAdapter(e, at, a, port == s.PortGUID); err != nil {
		return at, true, err
	}
	if fn != 0 {
		return at, true, nil
	}
	if at.Function = c.freeFunction(e, s, i); at.Function == 0 {
		return at, true, noRoom("interface %q: all %d functions of port %v are taken: detach an interface from it, or choose another port", e.Name, a.Functions, port)
	}
	return at, true, nil
}

// checkNeighbors says why other interfaces keep e from a place.
func (c *Core) checkNeighbors(e *entry, at subnet.Place) error {
	port := at.Port
	u := c.others(e, port)
	switch {
	case u.n > 0 && e.LIDKind == subnet.FloatingLID:
		return conflict("interface %q: its floating LID would replace that of port %v, which %d other interfaces use: choose a port without interfaces, or another LID kind", e.Name, port, u.n)
	case u.floating > 0:
		return conflict("interface %q: port %v has the floating LID of another interface, which uses the port alone: choose another port", e.Name, port)
	}
	if name, ok := c.byPlace[at]; ok && name != e.Name {
		return conflict("interface %q: %v is taken by interface %q, which %s: choose another function, or 0 for any", e.Name, at, name, c.holds(name, at))
	}
	return nil
}

// checkAdapter says why an adapter cannot hold e at a place. own: the port is the manager's.
func checkAdapter(e *entry, at subnet.Place, a *subnet.Adapter, own bool) error {
	port, fn := at.Port, at.Function
	switch {
	case a.Model == subnet.VPorts && e.GUIDKind == FunctionGUID:
		return conflict("interface %q: the functions of port %v (model %v) get their GUIDs from the hypervisor, so the manager cannot assign them: create the interface with the GUID of its VM", e.Name, port, a.Model)
	case int(fn) > a.Functions:
		return invalid("interface %q: port %v has functions 1 to %d, not %d", e.Name, port, a.Functions, fn)
	case a.Model == subnet.SharedPort && e.LIDKind == subnet.OwnLID:
		return conflict("interface %q: port %v is a shared port, with one LID for all its functions: create the interface with a shared LID, or with a floating one", e.Name, port)
	case a.Model == subnet.SharedPort && len(e.Aliases) > 0:
		return conflict("interface %q: port %v is a shared port, where a function has one GUID: create the interface without aliases", e.Name, port)
	case a.Model != subnet.SharedPort && e.LIDKind == subnet.FloatingLID:
		return conflict("interface %q: LIDs float on shared ports, and port %v is of model %v: create the interface with an own LID", e.Name, port, a.Model)
	case e.LIDKind == subnet.FloatingLID && own:
		return conflict("interface %q: port %v belongs to the subnet manager, whose LID must not change: choose another hypervisor", e.Name, port)
	}
	return nil
}

// holds says in what way an interface uses a place.
func (c *Core) holds(name string, at subnet.Place) string {
	if e := c.named[name]; e != nil && e.Dest == at {
		return "is migrating there"
	}
	return "is there"
}

// freeFunction is the function of port i that e gets, 0 if there is none.
func (c *Core) freeFunction(e *entry, s *subnet.Snapshot, i int32) uint16 {
	p := s.Ports[i]
	free := func(f uint16) bool {
		at := subnet.Place{Port: p.GUID, Function: f}
		name, taken := c.byPlace[at]
		return !taken || name == e.Name && (e.Doing == DoingAttach || at != e.Place)
	}
	// Functions with a foreign address, one that belongs to no interface, are left out: VPorts
	// that are up with another GUID, and alias GUIDs.
	var strange map[uint16]bool
	switch p.Adapter.Model {
	case subnet.VPorts:
		for k := range s.VPortsOf(i) {
			switch v := s.Ports[k]; {
			case v.GUID == e.GUID && free(v.Virtual.Index) && int(v.Virtual.Index) <= p.Adapter.Functions:
				return v.Virtual.Index
			case v.GUID != 0 && v.State() >= ib.StateInit:
				strange = mark(strange, v.Virtual.Index)
			}
		}
	case subnet.SharedPort:
		for f, g := range p.Aliases {
			own := e.GUIDKind == FunctionGUID && g == c.functions.guid[subnet.Place{Port: p.GUID, Function: uint16(f)}]
			if g != 0 && g != e.GUID && !own { // its own may be about to be removed
				strange = mark(strange, uint16(f))
			}
		}
	}
	for f := 1; f <= min(p.Adapter.Functions, 0xFFFF); f++ {
		if free(uint16(f)) && !strange[uint16(f)] {
			return uint16(f)
		}
	}
	return 0
}

func mark(m map[uint16]bool, f uint16) map[uint16]bool {
	if m == nil {
		m = map[uint16]bool{}
	}
	m[f] = true
	return m
}
