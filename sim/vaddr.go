package sim

import (
	"slices"

	"heddle/ib"
)

// The addresses of virtual functions.

// lidOf is the LID that v sends from: its own; that of the VPort whose LID it
// uses (followed one step only); or the port's. 0: unknown so far.
func (s *Subnet) lidOf(v *vport) ib.LID {
	if v.h.Model != SharedPort {
		if v.own {
			return v.lid
		}
		if k := v.by; k > 0 && k <= v.h.top && v.h.vps[k].own {
			return v.h.vps[k].lid
		}
	}
	return s.ports[v.h.port].lid
}

// defaultOf is the index of the VPort that receives packets for the LID of v
// without a GRH: the LID's owner.
func (v *vport) defaultOf() uint16 {
	switch k := v.by; {
	case v.h.Model == SharedPort:
	case v.own:
		return v.idx
	case k > 0 && k <= v.h.top && v.h.vps[k].own:
		return k
	}
	return 0
}

// vguid is GUID i of v, 0 if there is none.
func (s *Subnet) vguid(v *vport, i int) ib.GUID {
	if v.h.Model == SharedPort {
		if c := s.ports[v.h.port].cold; i == 0 && c != nil && int(v.idx) < len(c.guids) {
			return c.guids[v.idx]
		}
		return 0
	}
	switch {
	case i == 0:
		return v.guid
	case i < len(v.alias):
		return v.alias[i]
	}
	return 0
}

// vguids is how many entries the GUID table of v has.
func (v *vport) vguids() int {
	if v.h.Model == SharedPort {
		return 1
	}
	return vportGUIDCap
}

// vgid is GID i of v; an empty entry gives the first.
func (s *Subnet) vgid(v *vport, i uint8) ib.GID {
	g := s.vguid(v, int(i))
	if g == 0 {
		g = s.vguid(v, 0)
	}
	return ib.MakeGID(s.infos[v.h.port].GidPrefix, g)
}

// gidIndex is the index of a GID at a port or, if v is not nil, at its
// function. The default prefix belongs to every port (IBA §4.1.1).
func (s *Subnet) gidIndex(p int32, v *vport, g ib.GID) (i int, ok bool) {
	if x := g.Prefix(); x != s.infos[p].GidPrefix && x != ib.DefaultSubnetPrefix {
		return 0, false
	}
	want := g.GUID()
	switch c := s.ports[p].cold; {
	case want == 0:
	case v != nil:
		for i := range v.vguids() {
			if s.vguid(v, i) == want {
				return i, true
			}
		}
	case s.guidOf(p) == want:
		return 0, true
	case c != nil:
		if i := slices.Index(c.guids, want); i > 0 {
			return i, true
		}
	}
	return 0, false
}

// vstate is the state of v that applies to packets. On a shared port a function
// has the port's state once it is up and has a GUID.
func (s *Subnet) vstate(v *vport) ib.PortState {
	if s.devs[s.ports[v.h.port].dev].down {
		return ib.StateDown
	}
	if v.h.Model != SharedPort {
		return v.state
	}
	if !v.up || s.vguid(v, 0) == 0 {
		return ib.StateDown
	}
	return s.ports[v.h.port].state
}

// shown reports whether the hypervisor of a shared port permits v a key.
func (v *vport) shown(k ib.PKey) bool {
	if v.allow == nil {
		return true
	}
	return slices.ContainsFunc(v.allow, func(a ib.PKey) bool { return (a^k)&0x7FFF == 0 })
}

// vpkeyAt is entry i of the P_Key table that v sees.
func (s *Subnet) vpkeyAt(v *vport, i int) ib.PKey {
	switch {
	case v.h.Model == SharedPort:
		if k := s.pkeyAt(v.h.port, i); v.shown(k) {
			return k
		}
	case v.pkeys == nil && i == 0:
		return ib.PKeyDefaultFull
	case i < len(v.pkeys):
		return v.pkeys[i]
	}
	return 0
}

// tableMatch finds an entry with the same 15 bits as k, if it or k has full
// membership (IBA §10.9.3).
func tableMatch(at func(int) ib.PKey, n int, k ib.PKey) (index int, ok bool) {
	if k&0x7FFF == 0 {
		return 0, false
	}
	for i := range n {
		if t := at(i); (t^k)&0x7FFF == 0 && (t|k)&0x8000 != 0 {
			return i, true
		}
	}
	return 0, false
}

// checkVPortPKey is the partition check of v on a packet for it.
func (s *Subnet) checkVPortPKey(v *vport, f *flight) bool {
	i, ok := tableMatch(func(i int) ib.PKey { return s.vpkeyAt(v, i) }, s.pkeyCap(v.h.port), f.pkey)
	if ok {
		f.pkeyIdx = uint16(i)
		return true
	}
	if v.h.Model == SharedPort {
		if pi := &s.infos[v.h.port]; pi.PKeyViolations != 0xFFFF {
			pi.PKeyViolations++
		}
		s.trap257(v.h.port, f)
		return false
	}
	if v.pviol != 0xFFFF {
		v.pviol++
	}
	s.trapVPortKey(v, f)
	return false
}
