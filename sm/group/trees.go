package group

import (
	"cmp"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/ib/smp"
	"heddle/route"
)

// heldTrees are the multicast trees as the switches of a graph hold them. Only
// blocks that were read or written since are looked at again, and a tree that is
// as it was served has its very lists, so that nobody need compare them.
type heldTrees struct {
	switches []fabric.SwitchNode // of the graph
	blocks   map[uint16]bool     // to be looked at again
	trees    []route.Tree        // ascending MLID
}

// Installed returns the trees as the switches hold them, nil if there is none.
func (gs *Groups) Installed() *route.Multicast {
	h := &gs.held
	g := gs.Fabric.Graph
	if len(h.switches) != len(g.Switches) || len(g.Switches) > 0 && &h.switches[0] != &g.Switches[0] {
		*h = heldTrees{switches: g.Switches, blocks: map[uint16]bool{}}
		for _, ni := range gs.Fabric.SwitchNode {
			if m := gs.Fabric.Nodes[ni].MFT; m != nil {
				for key := range m.Blocks {
					h.blocks[uint16(key)] = true
				}
				for key := range m.Maybe {
					h.blocks[uint16(key)] = true
				}
			}
		}
	}
	if len(h.blocks) > 0 {
		kept := make([]route.Tree, 0, len(h.trees))
		for i := range h.trees {
			if !h.blocks[uint16(h.trees[i].MLID-firstMLID)/smp.MFTBlockMLIDs] {
				kept = append(kept, h.trees[i])
			}
		}
		for b := range h.blocks {
			kept = gs.treesOf(kept, b)
		}
		slices.SortFunc(kept, func(a, b route.Tree) int { return cmp.Compare(a.MLID, b.MLID) })
		h.trees = kept
		clear(h.blocks)
	}
	if len(h.trees) == 0 {
		return nil
	}
	for i := range h.trees {
		t := &h.trees[i]
		t.SL = gs.treeSL(t.MLID)
		was := gs.servedTree(t.MLID)
		if was != nil && len(was.Switches) > 0 && &was.Switches[0] != &t.Switches[0] &&
			slices.Equal(was.Switches, t.Switches) && slices.Equal(was.Ports, t.Ports) {
			t.Switches, t.Ports = was.Switches, was.Ports
		}
	}
	return &route.Multicast{Trees: slices.Clone(h.trees)}
}

// treesOf appends the trees of a block of the tables.
func (gs *Groups) treesOf(list []route.Tree, block uint16) []route.Tree {
	var trees [smp.MFTBlockMLIDs]route.Tree
	for s, ni := range gs.Fabric.SwitchNode {
		n := &gs.Fabric.Nodes[ni]
		if n.MFT == nil {
			continue
		}
		for pos := range n.Info.NumPorts/16 + 1 {
			data := n.MFT.Ports(block, pos)
			if data == nil {
				continue
			}
			for i, mask := range data {
				if mask == 0 {
					continue
				}
				t := &trees[i]
				if k := len(t.Switches); k == 0 || t.Switches[k-1] != int32(s) {
					t.Switches = append(t.Switches, int32(s))
					t.Ports = append(t.Ports, [4]uint64{})
				}
				t.Ports[len(t.Ports)-1][pos/4] |= uint64(mask) << (pos % 4 * 16)
			}
		}
	}
	for i := range trees {
		t := &trees[i]
		if len(t.Switches) == 0 {
			continue
		}
		t.MLID = firstMLID + ib.LID(block)*smp.MFTBlockMLIDs + ib.LID(i)
		list = append(list, *t)
	}
	return list
}

// servedTree is the tree of a group that was last distributed, nil if it has
// none.
func (gs *Groups) servedTree(l ib.LID) *route.Tree {
	if gs.tables.Served() == nil || gs.tables.Served().Tables.Multicast == nil {
		return nil
	}
	trees := gs.tables.Served().Tables.Multicast.Trees
	i, ok := slices.BinarySearchFunc(trees, l, func(t route.Tree, l ib.LID) int { return cmp.Compare(t.MLID, l) })
	if !ok {
		return nil
	}
	return &trees[i]
}
