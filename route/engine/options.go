package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// Switch is the index of the switch with a node GUID, or -1. O(log switches).
func Switch(g *fabric.Graph, guid ib.GUID) int32 {
	i, ok := slices.BinarySearchFunc(g.Switches, guid, func(a fabric.SwitchNode, b ib.GUID) int { return cmp.Compare(a.GUID, b) })
	if !ok {
		return -1
	}
	return int32(i)
}

// Port is the index of the end port with a port GUID, or -1. O(log ports).
func Port(g *fabric.Graph, guid ib.GUID) int32 {
	i, ok := slices.BinarySearchFunc(g.EndPorts, guid, func(a fabric.EndPort, b ib.GUID) int { return cmp.Compare(a.GUID, b) })
	if !ok {
		return -1
	}
	return int32(i)
}

// Missing is the sentence for Tables.Note about GUIDs of an option that the
// graph does not have; "" if there are none.
func Missing(option string, guids []ib.GUID) string {
	if len(guids) == 0 {
		return ""
	}
	const shown = 8
	names := make([]string, 0, shown)
	for _, guid := range guids[:min(len(guids), shown)] {
		names = append(names, guid.String())
	}
	more := ""
	if len(guids) > shown {
		more = fmt.Sprintf(" and %d more", len(guids)-shown)
	}
	return fmt.Sprintf("%s: not in the fabric: %s%s", option, strings.Join(names, ", "), more)
}

// Notes joins the sentences that are not empty.
func Notes(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "; ")
}

// Weights gives the cost of every channel, by Options.HopWeights; nil if all
// cost 1. The note names switches that the graph does not have. A weight on a
// port that leads to no switch has no effect.
func Weights(g *fabric.Graph, o route.Options) (weights []uint8, note string) {
	var missing []ib.GUID
	for _, h := range o.HopWeights {
		s := Switch(g, h.Switch)
		if s < 0 {
			missing = append(missing, h.Switch)
			continue
		}
		if int(h.Port) >= len(g.PortChannel[s]) {
			continue
		}
		c := g.PortChannel[s][h.Port]
		if c < 0 || h.Weight == 0 || (h.Weight == 1 && weights == nil) {
			continue
		}
		if weights == nil {
			weights = make([]uint8, len(g.Channels))
			for i := range weights {
				weights[i] = 1
			}
		}
		weights[c] = h.Weight
	}
	slices.Sort(missing)
	return weights, Missing("hop weights", slices.Compact(missing))
}

// Whole reports whether every row of tables is known up to their top: only then
// can they be updated incrementally.
func Whole(t *route.Tables) bool {
	for _, row := range t.LFT {
		if len(row) <= int(t.TopLID) {
			return false
		}
	}
	return true
}

// Asked is a hash of the options that define the result: all but Workers, Seed,
// MaxVLs, Previous and Rebalance. An engine that updates incrementally stores
// it, and starts over if it differs. O(length of the lists).
func Asked(o route.Options) uint64 {
	var h hash
	lists := [][]ib.GUID{o.Roots, o.IONodes, o.RoutingOrder, o.Unbalanced, o.ComputeNodes}
	for _, list := range lists {
		h.add(uint64(len(list)))
		for _, guid := range list {
			h.add(uint64(guid))
		}
	}
	for _, is := range []bool{o.ConnectRoots, o.SpreadLanes, o.ComputeNodes != nil} {
		x := uint64(0)
		if is {
			x = 1
		}
		h.add(x)
	}
	h.add(uint64(o.MaxReverseHops))
	for _, w := range o.HopWeights {
		h.add(uint64(w.Switch))
		h.add(uint64(w.Port)<<8 | uint64(w.Weight))
	}
	// Maps have no order: the sum has none either.
	var sum uint64
	for guid, id := range o.IDs {
		k := hash(1)
		k.add(uint64(guid))
		k.add(id)
		sum += uint64(k)
	}
	for guid, ports := range o.PortOrder {
		k := hash(2)
		k.add(uint64(guid))
		for _, p := range ports {
			k.add(uint64(p))
		}
		sum += uint64(k)
	}
	h.add(sum)
	return uint64(h)
}

// hash mixes numbers as G. L. Steele, D. Lea and C. H. Flood do in "Fast
// splittable pseudorandom number generators", 2014.
type hash uint64

func (h *hash) add(x uint64) {
	z := (uint64(*h) ^ x) + 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	*h = hash(z ^ z>>31)
}

// wishes are the options that concern the spreading, as indices of a graph.
type wishes struct {
	unloaded []bool  // by end port: a switch's port 0 or in Options.Unbalanced
	first    []int32 // end ports of Options.RoutingOrder that are there
	place    []uint8 // by channel: its place in Options.PortOrder, 255 if not named; nil if there is none
	ordered  []bool  // by switch: it has an order; nil if none has
	note     string
}

func readWishes(g *fabric.Graph, o route.Options) *wishes {
	w := &wishes{unloaded: make([]bool, len(g.EndPorts))}
	for i := range g.EndPorts {
		w.unloaded[i] = g.EndPorts[i].Type == ib.NodeSwitch
	}
	var missing []ib.GUID
	for _, guid := range o.Unbalanced {
		if e := Port(g, guid); e >= 0 {
			w.unloaded[e] = true
		} else {
			missing = append(missing, guid)
		}
	}
	w.note = Missing("unbalanced ports", missing)
	missing = missing[:0]
	seen := make(map[int32]bool, len(o.RoutingOrder))
	for _, guid := range o.RoutingOrder {
		switch e := Port(g, guid); {
		case e < 0:
			missing = append(missing, guid)
		case !seen[e]:
			seen[e] = true
			w.first = append(w.first, e)
		}
	}
	w.note = Notes(w.note, Missing("routing order", missing))
	missing = missing[:0]
	for guid, ports := range o.PortOrder {
		s := Switch(g, guid)
		if s < 0 {
			missing = append(missing, guid)
			continue
		}
		if w.place == nil {
			w.place = make([]uint8, len(g.Channels))
			for c := range w.place {
				w.place[c] = 255
			}
			w.ordered = make([]bool, len(g.Switches))
		}
		w.ordered[s] = true
		for i, p := range ports {
			if int(p) < len(g.PortChannel[s]) && g.PortChannel[s][p] >= 0 && i < 255 {
				c := g.PortChannel[s][p]
				w.place[c] = min(w.place[c], uint8(i))
			}
		}
	}
	slices.Sort(missing)
	w.note = Notes(w.note, Missing("port order", missing))
	return w
}

// hosts counts, by switch, the CA and router ports with LIDs that count as load.
func (w *wishes) hosts(g *fabric.Graph) []uint32 {
	n := make([]uint32, len(g.Switches))
	has := make([]bool, len(g.EndPorts))
	for _, e := range g.LIDOwner {
		if e == fabric.NoLID || has[e] {
			continue
		}
		has[e] = true
		if s := g.EndPorts[e].Switch; s >= 0 && !w.unloaded[e] {
			n[s]++
		}
	}
	return n
}
