package pathlog

import (
	"encoding/binary"
	"math"

	"heddle/subnet"
)

// Digest is a hash of all that the paths of a snapshot follow from, so that a manager that
// restarts knows whether hosts were notified of the paths that it finds. It is never 0.
func Digest(s *subnet.Snapshot) uint64 {
	h := hash(0xCBF29CE484222325)
	if s.Graph == nil || s.Tables == nil {
		return uint64(h | 1)
	}
	g, t := s.Graph, s.Tables
	h.word(uint64(s.PacketLife))
	for i := range g.Switches {
		h.word(uint64(g.Switches[i].GUID))
	}
	for i := range g.Channels {
		c := &g.Channels[i]
		h.word(uint64(c.From)<<32 | uint64(uint32(c.To)))
		h.word(uint64(c.OutPort)<<48 | uint64(c.InPort)<<40 | uint64(c.MTU)<<32 | uint64(math.Float32bits(c.Gbps)))
	}
	for i := range g.EndPorts {
		e := &g.EndPorts[i]
		h.word(uint64(e.GUID))
		h.word(uint64(uint32(e.Switch))<<24 | uint64(e.Port)<<16 | uint64(e.LID))
		h.word(uint64(e.MTU)<<32 | uint64(math.Float32bits(e.Gbps)))
	}
	for _, o := range g.LIDOwner {
		h.word(uint64(uint32(o)))
	}
	for s := range t.Switches() {
		h.bytes(t.Row(int32(s)))
	}
	for _, sl := range t.SL {
		h.word(uint64(sl))
	}
	for _, c := range t.Class {
		h.word(uint64(uint32(c)))
	}
	for i := s.FirstVPort(); int(i) < len(s.Ports); i++ {
		h.word(uint64(s.Ports[i].GUID))
		h.word(uint64(s.Ports[i].LID))
	}
	return uint64(h | 1)
}

type hash uint64

func (h *hash) word(v uint64) {
	x := (uint64(*h) ^ v) * 0x9E3779B97F4A7C15
	*h = hash(x ^ x>>29)
}

func (h *hash) bytes(b []byte) {
	h.word(uint64(len(b)))
	for ; len(b) >= 8; b = b[8:] {
		h.word(binary.LittleEndian.Uint64(b))
	}
	var rest [8]byte
	copy(rest[:], b)
	h.word(binary.LittleEndian.Uint64(rest[:]))
}
