package route

import (
	"bytes"
	"slices"

	"heddle/fabric"
)

// BlockDiff names one LFT block of one switch: what one Set(LinearForwardingTable)
// writes.
type BlockDiff struct {
	Switch int32  // index in the Graph
	Block  uint16 // LIDs 64·Block … 64·Block+63
}

// Diff lists exactly the blocks of wanted that installed does not already hold,
// by ascending switch, then block. A row of installed that is nil, or the part
// of a row beyond its length, is not known and therefore differs; so does
// everything if installed is nil. Both tables must be for the same Graph.
func Diff(installed, wanted *Tables) []BlockDiff {
	var out []BlockDiff
	for s, row := range wanted.LFT {
		var have []byte
		if installed != nil && s < len(installed.LFT) {
			have = installed.LFT[s]
		}
		for at := 0; at < len(row); at += BlockLen {
			end := min(at+BlockLen, len(row))
			if len(have) >= end && bytes.Equal(have[at:end], row[at:end]) {
				continue
			}
			out = append(out, BlockDiff{int32(s), uint16(at / BlockLen)})
		}
	}
	return out
}

// OrderRooted sorts blocks so that switches nearer to the destinations of a
// block come first: writing a new tree from its root outwards leaves no
// transient loop among switches that had no entry, and few where entries move.
// The distance of a block is that of its switch to the switch of the first
// LID in the block that has an owner; equal distances keep (block, switch)
// order, so the result is determined by its input.
func OrderRooted(g *fabric.Graph, blocks []BlockDiff) {
	if len(blocks) == 0 {
		return
	}
	n := len(g.Switches)
	slices.SortFunc(blocks, func(a, b BlockDiff) int {
		if a.Block != b.Block {
			return int(a.Block) - int(b.Block)
		}
		return int(a.Switch) - int(b.Switch)
	})
	key := make([]int32, 0, len(blocks))
	dist := make([]int32, n)
	queue := make([]int32, 0, n)
	for i := 0; i < len(blocks); {
		blk := blocks[i].Block
		root := blockRoot(g, blk)
		for s := range dist {
			dist[s] = int32(n)
		}
		queue = queue[:0]
		if root >= 0 {
			dist[root] = 0
			queue = append(queue, root)
		}
		for h := 0; h < len(queue); h++ {
			u := queue[h]
			for _, c := range g.Channels[g.Off[u]:g.Off[u+1]] {
				if dist[c.To] == int32(n) {
					dist[c.To] = dist[u] + 1
					queue = append(queue, c.To)
				}
			}
		}
		for ; i < len(blocks) && blocks[i].Block == blk; i++ {
			key = append(key, dist[blocks[i].Switch])
		}
	}
	idx := make([]int32, len(blocks))
	for i := range idx {
		idx[i] = int32(i)
	}
	slices.SortFunc(idx, func(a, b int32) int {
		if key[a] != key[b] {
			return int(key[a] - key[b])
		}
		return int(a - b)
	})
	out := make([]BlockDiff, len(blocks))
	for i, j := range idx {
		out[i] = blocks[j]
	}
	copy(blocks, out)
}

// blockRoot is the switch of the first owned LID of a block, or -1.
func blockRoot(g *fabric.Graph, blk uint16) int32 {
	at := int(blk) * BlockLen
	for l := at; l < at+BlockLen && l < len(g.LIDOwner); l++ {
		if e := g.LIDOwner[l]; e != fabric.NoLID && g.EndPorts[e].Switch >= 0 {
			return g.EndPorts[e].Switch
		}
	}
	return -1
}

// EntriesChanged counts the LFT entries in which wanted differs from
// installed; entries that are not known count as changed.
func EntriesChanged(installed, wanted *Tables) int {
	n := 0
	for s, row := range wanted.LFT {
		var have []byte
		if installed != nil && s < len(installed.LFT) {
			have = installed.LFT[s]
		}
		end := min(int(wanted.TopLID)+1, len(row))
		both := min(end, len(have))
		for at := 0; at < both; at += BlockLen {
			a, b := have[at:min(at+BlockLen, both)], row[at:min(at+BlockLen, both)]
			if bytes.Equal(a, b) {
				continue
			}
			for i := range a {
				if a[i] != b[i] && at+i > 0 {
					n++
				}
			}
		}
		n += end - max(both, 1)
	}
	return n
}
