package transition

import (
	"slices"

	"heddle/ib"
)

// stray holds the levels of packets to a LID at a switch that crossed a lost link.
type stray struct {
	s      int32
	levels uint16
}

// lostCables lists the lost links that are not channels again: channel is that of a
// switch's port, or negative.
func (x *mixer) lostCables(channel func(s int32, port uint8) int32) map[int]lostCable {
	if len(x.cables) == 0 {
		return nil
	}
	index := make(map[ib.GUID]int32, len(x.g.Switches))
	for s := range x.g.Switches {
		index[x.g.Switches[s].GUID] = int32(s)
	}
	lost := map[int]lostCable{}
	for _, c := range x.cables {
		a, ok := index[c.Switch]
		b, found := index[c.Peer]
		if !ok || !found || a == b {
			continue
		}
		for _, k := range [2]struct {
			from, to int32
			out, in  uint8
		}{{a, b, c.Port, c.PeerPort}, {b, a, c.PeerPort, c.Port}} {
			if channel(k.from, k.out) < 0 {
				lost[int(k.from)<<8|int(k.out)] = lostCable{k.to, k.in}
			}
		}
	}
	return lost
}

// findStrays follows packets by the installed entries over lost links. On one lane,
// packets to a LID to which all switches send add nothing.
func (x *mixer) findStrays() {
	if len(x.lost) == 0 {
		return
	}
	single := x.single()
	var lids []ib.LID
	for at := range x.lost {
		for l := 1; l <= int(x.old.TopLID); l++ {
			if effective(x.old, int32(at>>8), l) == byte(at) && !(single && x.fromAnywhere(ib.LID(l))) {
				lids = append(lids, ib.LID(l))
			}
		}
	}
	slices.Sort(lids)
	x.strays = map[ib.LID][]stray{}
	w := &walker{arrive: make([]uint16, x.n)}
	for _, l := range slices.Compact(lids) {
		x.start(w, l, oldSLs)
		x.strays[l] = x.follow(w.arrive, l)
	}
}

// follow sends levels, by switch, to l by installed entries, and returns those that
// cross lost links.
func (x *mixer) follow(levels []uint16, l ib.LID) (list []stray) {
	var stack []int32
	for u, m := range levels {
		if m != 0 {
			stack = append(stack, int32(u))
		}
	}
	over := make(map[int32]uint16)
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		at := int(u) << 8
		if int(u) < x.managed {
			at |= int(effective(x.old, u, int(l)))
		} else if row := x.frozen[int(u)-x.managed].Row; int(l) < len(row) {
			at |= int(row[l])
		} else {
			continue
		}
		v := int32(-1)
		if c := x.port[at]; c >= 0 {
			v = x.to[c]
		} else if k, ok := x.lost[at]; ok {
			v = k.to
			over[v] |= levels[u]
		}
		if v >= 0 && levels[u]&^levels[v] != 0 {
			levels[v] |= levels[u]
			stack = append(stack, v)
		}
	}
	for s := range int32(len(levels)) {
		if m := over[s]; m != 0 {
			list = append(list, stray{s, m})
		}
	}
	return list
}

// mayStray reports, without a layout, whether there can be strays.
func (x *mixer) mayStray() bool {
	if len(x.cables) == 0 || !x.single() {
		return len(x.cables) > 0
	}
	ends := map[ib.GUID][]byte{}
	for _, c := range x.cables {
		ends[c.Switch] = append(ends[c.Switch], c.Port)
		ends[c.Peer] = append(ends[c.Peer], c.PeerPort)
	}
	for s := range int32(x.managed) {
		ports := ends[x.g.Switches[s].GUID]
		for l := 1; len(ports) > 0 && l <= int(x.old.TopLID); l++ {
			if slices.Contains(ports, effective(x.old, s, l)) && !x.fromAnywhere(ib.LID(l)) {
				return true
			}
		}
	}
	return false
}
