package route

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"heddle/fabric"
	"heddle/ib"
)

// RowLen is the length of a row that holds LIDs 0..top: the smallest multiple
// of BlockLen greater than top.
func RowLen(top ib.LID) int { return (int(top)/BlockLen + 1) * BlockLen }

// New returns single-lane tables for n switches and LIDs 1..top in which every
// entry is Drop. The rows share one allocation.
func New(engine string, n int, top ib.LID) *Tables {
	w := RowLen(top)
	slab := make([]byte, n*w)
	if len(slab) > 0 {
		slab[0] = Drop
		for k := 1; k < len(slab); k *= 2 {
			copy(slab[k:], slab[:k])
		}
	}
	t := &Tables{Engine: engine, LFT: make([][]byte, n), TopLID: top, NumVLs: 1}
	for s := range t.LFT {
		t.LFT[s] = slab[s*w : (s+1)*w : (s+1)*w]
	}
	return t
}

// Clone returns a deep copy. Nil (unknown) rows stay nil.
func (t *Tables) Clone() *Tables {
	c := *t.Flat()
	rows := c.LFT
	c.LFT = make([][]byte, len(rows))
	for s, row := range rows {
		c.LFT[s] = bytes.Clone(row)
	}
	c.SL, c.Class = slices.Clone(t.SL), slices.Clone(t.Class)
	return &c
}

// PathSL is the service level that packets take from an end port on switch
// src to lid.
func (t *Tables) PathSL(src int32, lid ib.LID) ib.SL {
	if t.SL == nil || int(lid) >= len(t.Class) || t.Class[lid] < 0 {
		return 0
	}
	return t.SL[int(src)*t.NumClasses+int(t.Class[lid])]
}

// OneLane reports whether all paths have service level 0, and lanes are the usual ones.
func (t *Tables) OneLane() bool { return t.SL == nil && t.Lanes == nil }

// VL is the lane that packets of service level sl take on the link that
// leaves switch s by port out, having entered by port in (0: injected by the
// switch itself). vls is the number of data VLs of that link.
func (t *Tables) VL(s int32, in, out uint8, sl ib.SL, vls uint8) ib.VL {
	if t.Lanes != nil {
		if row := t.Lanes.Row(s, in, out); row != nil {
			return row[sl&15]
		}
	}
	return ib.VL(uint8(sl) % max(vls, 1))
}

// Row is the SL-to-VL table of switch s from port in to port out; nil: the level modulo the lanes
// of the link.
func (l *Lanes) Row(s int32, in, out uint8) *[16]ib.VL {
	if int(s) >= len(l.Index) || max(in, out) >= uint8(min(l.Stride[s], 255)) {
		return nil
	}
	k := l.Index[s][int(in)*int(l.Stride[s])+int(out)]
	if int(k) >= len(l.Rows) {
		return nil
	}
	return &l.Rows[k]
}

// SwitchClasses sets Class so that all LIDs of a switch's end ports have one
// class, the switch's index.
func (t *Tables) SwitchClasses(g *fabric.Graph) {
	t.NumClasses = len(g.Switches)
	t.Class = make([]int32, int(t.TopLID)+1)
	for l := range t.Class {
		t.Class[l] = -1
		if l < len(g.LIDOwner) {
			if e := g.LIDOwner[l]; e != fabric.NoLID {
				t.Class[l] = g.EndPorts[e].Switch
			}
		}
	}
}

// Refusal says in one line, beginning with the engine's name, why it has no
// tables.
func Refusal(engine string, err error) string {
	if text := err.Error(); strings.HasPrefix(text, engine+": ") {
		return text
	}
	return engine + ": " + err.Error()
}

// Budget is how many data lanes an engine may use on g: as many as every
// link between switches has, at most maxVLs if that is not 0.
func Budget(g *fabric.Graph, maxVLs int) int {
	b := 15
	for c := range g.Channels {
		b = min(b, int(max(g.Channels[c].VLs, 1)))
	}
	if maxVLs > 0 {
		b = min(b, maxVLs)
	}
	return b
}

// Entry is the entry of switch s for lid: an output port, 0 for the switch
// itself, or Drop. LIDs beyond TopLID or beyond the row are dropped, as a
// switch does with LIDs above its LinearFDBTop (IBA §14.2.5.4).
func (t *Tables) Entry(s int32, lid ib.LID) byte {
	rows, d := t.At(int(lid) / BlockLen)
	if lid > t.TopLID {
		return Drop
	}
	if d != nil {
		return d[int(s)*BlockLen+int(lid)%BlockLen]
	}
	if row := rows[s]; int(lid) < len(row) {
		return row[lid]
	}
	return Drop
}

// Block copies the 64 entries of block b of switch s into dst: the payload of
// a Set(LinearForwardingTable). Entries beyond the row are Drop.
func (t *Tables) Block(s int32, b uint16, dst *[BlockLen]byte) {
	for n := copy(dst[:], t.Part(s, int(b))); n < BlockLen; n++ {
		dst[n] = Drop
	}
}

// Equal reports whether t and u forward alike: same top, same lanes, same
// service levels and the same entries up to the top. The engine's name does not
// count; an unknown row equals only another unknown one.
func (t *Tables) Equal(u *Tables) bool {
	if t.TopLID != u.TopLID || t.Switches() != u.Switches() || !slices.Equal(t.SL, u.SL) || !slices.Equal(t.Class, u.Class) {
		return false
	}
	for s := range int32(t.Switches()) {
		a, b := t.Row(s), u.Row(s)
		if (a == nil) != (b == nil) {
			return false
		}
		n := int(t.TopLID) + 1
		if a != nil && !bytes.Equal(a[:min(n, len(a))], b[:min(n, len(b))]) {
			return false
		}
	}
	return true
}

// Remap returns t, whose rows are in the order of graph from, with its rows in
// the order of graph to. Switches are matched by node GUID; a switch that from
// lacks gets a nil row (unknown). Rows are shared, not copied. Service levels
// are dropped, because they belong to the pairs of the old graph, and so are multicast trees
// (Multicast.Follow).
func (t *Tables) Remap(from, to *fabric.Graph) *Tables {
	t = t.Flat()
	r := *t
	r.LFT = make([][]byte, len(to.Switches))
	r.SL, r.Class, r.NumClasses, r.Lanes, r.Multicast, r.Memo = nil, nil, 0, nil, nil, nil
	// Both lists ascend by GUID.
	i := 0
	for s := range to.Switches {
		for i < len(from.Switches) && from.Switches[i].GUID < to.Switches[s].GUID {
			i++
		}
		if i < len(from.Switches) && from.Switches[i].GUID == to.Switches[s].GUID && i < len(t.LFT) {
			r.LFT[s] = t.LFT[i]
		}
	}
	return &r
}

// Follow is Remap with the service levels and lanes: pairs of switches that
// both graphs have keep theirs, a new switch sends on level 0.
func (t *Tables) Follow(from, to *fabric.Graph) *Tables {
	r := t.Remap(from, to)
	if t.SL == nil && t.Lanes == nil {
		return r
	}
	if t.SL != nil {
		r.Class, r.NumClasses = t.Class, t.NumClasses
		r.SL = make([]ib.SL, len(to.Switches)*t.NumClasses)
	}
	if t.Lanes != nil {
		r.Lanes = &Lanes{Rows: t.Lanes.Rows, Index: make([][]uint8, len(to.Switches)), Stride: make([]uint16, len(to.Switches)), Guards: t.Lanes.Guards}
	}
	was := 0
	for s := range to.Switches {
		for was < len(from.Switches) && from.Switches[was].GUID < to.Switches[s].GUID {
			was++
		}
		if was == len(from.Switches) || from.Switches[was].GUID != to.Switches[s].GUID {
			continue
		}
		if r.SL != nil {
			k := t.NumClasses
			copy(r.SL[s*k:(s+1)*k], t.SL[was*k:(was+1)*k])
		}
		if r.Lanes != nil && was < len(t.Lanes.Index) {
			r.Lanes.Index[s], r.Lanes.Stride[s] = t.Lanes.Index[was], t.Lanes.Stride[was]
		}
	}
	return r
}

// Follow returns the trees, which are of graph from, as the switches of graph to hold them: what they
// send to ports without a link included. Trees of no switch are left out; nil for none.
func (m *Multicast) Follow(from, to *fabric.Graph) *Multicast {
	if m == nil || len(m.Trees) == 0 {
		return nil
	}
	at := make([]int32, len(from.Switches))
	for s := range at {
		at[s] = -1
		if i, ok := to.SwitchByGUID(from.Switches[s].GUID); ok {
			at[s] = i
		}
	}
	r := &Multicast{}
	for _, t := range m.Trees {
		u := Tree{MLID: t.MLID, SL: t.SL}
		for i, s := range t.Switches { // both graphs ascend by GUID
			if at[s] >= 0 {
				u.Switches, u.Ports = append(u.Switches, at[s]), append(u.Ports, t.Ports[i])
			}
		}
		if len(u.Switches) > 0 {
			r.Trees = append(r.Trees, u)
		}
	}
	return r
}

// ForEach calls fn(worker, i) for every i in [0, n) on up to workers
// goroutines and returns when all calls have; worker, in [0, workers), names
// the goroutine, so that it can own scratch. Which worker gets which i is not
// determined: results must go to places that i alone decides.
func ForEach(workers, n int, fn func(worker, i int)) {
	workers = min(max(workers, 1), n)
	if workers <= 1 {
		for i := range n {
			fn(0, i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				fn(w, i)
			}
		})
	}
	wg.Wait()
}
