package config

import (
	"heddle/ib"
	"heddle/ib/smp"
)

// PortClass is a class of ports whose lanes are set up alike.
type PortClass uint8

// The classes.
const (
	HostPorts   PortClass = iota // of CAs
	SwitchPort0                  // enhanced ports 0 of switches
	SwitchPorts                  // external ports of switches
	RouterPorts
	NumPortClasses
)

// String is OpenSM's name of a class in opensm.conf.
func (p PortClass) String() string { return [...]string{"ca", "sw0", "swe", "rtr"}[p] }

// Lanes says how the ports of a class use their data lanes. Fields that are nil are not given. The
// values are shared, and never changed.
type Lanes struct {
	// SLtoVL has a lane for each service level; 15 discards. Numbers above the lanes of a link lose
	// their upper bits, as with OpenSM. It is in force while the forwarding tables use one lane:
	// tables that use more rest on mappings of their own.
	SLtoVL *smp.SLtoVL
	// High and Low are the arbitration tables, at most 64 entries each. What a port has no room
	// for is left out.
	High, Low []smp.VLArbEntry
	// HighLimit is in units of 4 KiB that may leave by the high table before a packet of the low
	// one; 0 = one packet, 255 = no limit.
	HighLimit *uint8
}

// Equal reports whether two say the same.
func (l *Lanes) Equal(o *Lanes) bool {
	same := func(a, b []smp.VLArbEntry) bool {
		if (a == nil) != (b == nil) || len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	return (l.SLtoVL == nil) == (o.SLtoVL == nil) && (l.SLtoVL == nil || *l.SLtoVL == *o.SLtoVL) &&
		(l.HighLimit == nil) == (o.HighLimit == nil) && (l.HighLimit == nil || *l.HighLimit == *o.HighLimit) &&
		same(l.High, o.High) && same(l.Low, o.Low)
}

// ClassOf is the class of a port of a node.
func ClassOf(typ ib.NodeType, num uint8) PortClass {
	switch {
	case typ == ib.NodeRouter:
		return RouterPorts
	case typ != ib.NodeSwitch:
		return HostPorts
	case num == 0:
		return SwitchPort0
	}
	return SwitchPorts
}

// LanesOf is how a port is to use its lanes. Without QoS nothing is given.
func (c *Config) LanesOf(typ ib.NodeType, num uint8) *Lanes {
	if !c.QoS {
		return &Lanes{}
	}
	return &c.Lanes[ClassOf(typ, num)]
}

// OnLanes are the lanes of service levels on a link with that many data lanes, 1 to 15.
func OnLanes(t *smp.SLtoVL, lanes uint8) (out smp.SLtoVL) {
	for sl, vl := range t {
		if vl != 15 {
			vl &= laneMask(lanes)
		}
		out[sl] = vl
	}
	return out
}

// ArbOnLanes is the part of an arbitration table that one attribute has, on a link with that many data
// lanes. first is the number of its first entry, room how many entries the port has.
func ArbOnLanes(t []smp.VLArbEntry, lanes uint8, first, room int) (out smp.VLArb) {
	for i := first; i < min(len(t), room, first+len(out)); i++ {
		out[i-first] = smp.VLArbEntry{VL: t[i].VL & laneMask(lanes), Weight: t[i].Weight}
	}
	return out
}

// laneMask are the bits of the numbers of lanes.
func laneMask(lanes uint8) ib.VL {
	if lanes < 15 {
		lanes--
	}
	return ib.VL(lanes)
}
