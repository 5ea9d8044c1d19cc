package check

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"heddle/fabric"
	"heddle/ib"
	"heddle/route"
)

// changes finds the LIDs to verify, and for each the switches whose entries
// differ or use an added or removed link; false if there are too many.
func (u *update) changes() bool {
	total := 0
	if u.d.SameChannels && u.sameReach() {
		u.old.t.OtherBands(u.now.t, func(b int) { total += u.bandChanges(b) })
	} else {
		total = u.allChanges()
	}
	switch {
	case total > u.now.n*u.top/8:
		return false
	case u.now.mode == single && len(u.weights) == 0:
		for _, l := range u.d.LIDs {
			i, ok := slices.BinarySearchFunc(u.todo, int32(l), func(x item, l int32) int { return cmp.Compare(x.lid, l) })
			if !ok {
				u.todo = slices.Insert(u.todo, i, item{lid: int32(l)})
			}
			u.todo[i].whole = true
		}
		return true
	}
	whole := make([]bool, u.top+1) // by LID
	for _, l := range u.d.LIDs {
		whole[l] = true
	}
	if u.now.mode != single {
		u.levelChanges(whole)
	}
	entries := u.todo
	u.todo = nil
	for l := int32(1); int(l) <= u.top; l++ {
		x := item{lid: l}
		if len(entries) > 0 && entries[0].lid == l {
			x, entries = entries[0], entries[1:]
		}
		if x.whole = whole[l]; x.whole || len(x.at) > 0 || len(u.weights) > 0 {
			u.todo = append(u.todo, x)
		}
	}
	return true
}

// allChanges compares whole rows. It adds the LIDs that switches treat otherwise to todo, and returns
// how many entries these are.
func (u *update) allChanges() (total int) {
	n := u.now.n
	lists := make([][]uint16, n)
	touched := u.touchedPorts()
	route.ForEach(u.o.Workers, n, func(_, s int) { lists[s] = u.rowChanges(int32(s), touched[s]) })
	first := make([]int32, u.top+2) // by LID: where its switches begin in at
	for _, list := range lists {
		for _, l := range list {
			first[l+1]++
		}
		total += len(list)
	}
	if total > n*u.top/8 {
		return total
	}
	for l := 1; l < len(first); l++ {
		first[l] += first[l-1]
	}
	at, next := make([]int32, total), slices.Clone(first)
	for s, list := range lists {
		for _, l := range list {
			at[next[l]] = int32(s)
			next[l]++
		}
	}
	for l := 1; l <= u.top; l++ {
		if some := at[first[l]:first[l+1]]; len(some) > 0 {
			u.todo = append(u.todo, item{lid: int32(l), at: some})
		}
	}
	return total
}

// touchedPorts lists by switch the ports whose channel was added or removed;
// nil: none.
func (u *update) touchedPorts() [][]uint8 {
	out := make([][]uint8, u.now.n)
	if u.d.SameChannels {
		return out
	}
	mark := func(g *fabric.Graph, to []int32) {
		for c := range g.Channels {
			if to[c] < 0 {
				k := &g.Channels[c]
				out[k.From] = append(out[k.From], k.OutPort)
			}
		}
	}
	mark(u.old.g, u.d.OldChannel)
	mark(u.now.g, u.d.Channel)
	return out
}

// rowChanges lists the LIDs that switch s treats otherwise.
func (u *update) rowChanges(s int32, ports []uint8) (out []uint16) {
	a, b := u.old.known(s), u.now.known(s)
	if len(ports) > 0 {
		var hot [256]bool
		for _, p := range ports {
			hot[p] = true
		}
		for l := 1; l < max(len(a), len(b)); l++ {
			x, y := byte(route.Drop), byte(route.Drop)
			if l < len(a) {
				x = a[l]
			}
			if l < len(b) {
				y = b[l]
			}
			if x != y || hot[x] {
				out = append(out, uint16(l))
			}
		}
		return out
	}
	k := min(len(a), len(b))
	if k > 0 && &a[0] == &b[0] {
		a, b, out = tail(a, k), tail(b, k), nil
	} else {
		out = differences(a[:k], b[:k])
		a, b = tail(a, k), tail(b, k)
	}
	for i, x := range append(a, b...) { // one of them is empty
		if x != route.Drop && k+i > 0 {
			out = append(out, uint16(k+i))
		}
	}
	return out
}

// sameReach reports whether switches have the same rows but for bands, and apply them as far.
func (u *update) sameReach() bool {
	if !u.old.t.SharedRows(u.now.t) || u.old.t.TopLID != u.now.t.TopLID {
		return false
	}
	for s := range u.now.n {
		if u.old.g.Switches[s].LinearFDBCap != u.now.g.Switches[s].LinearFDBCap {
			return false
		}
	}
	return true
}

// bandChanges adds the LIDs of a block that switches treat otherwise to todo, and returns how many
// entries differ.
func (u *update) bandChanges(b int) int {
	lo := b * route.BlockLen
	var first [route.BlockLen + 1]int32 // by place in the block: where its switches begin
	var list []int32                    // switch·BlockLen + place
	for s := range int32(u.now.n) {
		x, y := u.old.t.Part(s, b), u.now.t.Part(s, b)
		end := min(lo+len(x), lo+len(y), int(u.now.t.TopLID)+1) // rows have the same lengths
		if limit := int(u.now.g.Switches[s].LinearFDBCap); limit > 0 {
			end = min(end, limit)
		}
		x, y = x[:max(end-lo, 0)], y[:max(end-lo, 0)]
		for k := unlike(x, y, max(1-lo, 0)); k >= 0; k = unlike(x, y, k+1) {
			list = append(list, s*route.BlockLen+int32(k))
			first[k+1]++
		}
	}
	for k := range route.BlockLen {
		first[k+1] += first[k]
	}
	at, next := make([]int32, len(list)), first
	for _, x := range list {
		k := x % route.BlockLen
		at[next[k]] = x / route.BlockLen
		next[k]++
	}
	for k := range route.BlockLen {
		if some := at[first[k]:first[k+1]]; len(some) > 0 {
			u.todo = append(u.todo, item{lid: int32(lo + k), at: some})
		}
	}
	return len(list)
}

// unlike is the first index from k on at which two slices of one length differ, -1 if none.
func unlike(x, y []byte, k int) int {
	for ; k+8 <= len(x); k += 8 {
		if d := binary.LittleEndian.Uint64(x[k:]) ^ binary.LittleEndian.Uint64(y[k:]); d != 0 {
			return k + bits.TrailingZeros64(d)/8
		}
	}
	for ; k < len(x); k++ {
		if x[k] != y[k] {
			return k
		}
	}
	return -1
}

func tail(row []byte, k int) []byte { return row[k:len(row):len(row)] }

// differences lists the indices, but 0, at which two rows differ.
func differences(a, b []byte) (out []uint16) {
	const big = 16 * route.BlockLen
	for lo := 0; lo < len(a); lo += big {
		hi := min(lo+big, len(a))
		if bytes.Equal(a[lo:hi], b[lo:hi]) {
			continue
		}
		for at := lo; at < hi; at += route.BlockLen {
			end := min(at+route.BlockLen, hi)
			if bytes.Equal(a[at:end], b[at:end]) {
				continue
			}
			for l := max(at, 1); l < end; l++ {
				if a[l] != b[l] {
					out = append(out, uint16(l))
				}
			}
		}
	}
	return out
}

// known is the part of the row of switch s that applies to packets.
func (j *verifier) known(s int32) []byte {
	row := j.t.Row(s)
	end := min(len(row), int(j.t.TopLID)+1)
	if limit := int(j.g.Switches[s].LinearFDBCap); limit > 0 {
		end = min(end, limit)
	}
	return row[:end:end]
}

// levelChanges marks in whole, by LID, those to which some switch has another service level.
func (u *update) levelChanges(whole []bool) {
	a, b := u.old.t, u.now.t
	if sameSlice(a.SL, b.SL) && sameSlice(a.Class, b.Class) && a.NumClasses == b.NumClasses {
		return
	}
	if a.NumClasses == b.NumClasses && a.SL != nil && b.SL != nil {
		k := a.NumClasses
		other := make([]bool, k)
		for s := range u.now.n {
			x, y := a.SL[s*k:(s+1)*k], b.SL[s*k:(s+1)*k]
			for i := range x {
				if x[i] != y[i] {
					other[i] = true
				}
			}
		}
		for l := 1; l <= u.top; l++ {
			x, y := class(a, l), class(b, l)
			if x != y || x >= 0 && other[x] {
				whole[l] = true
			}
		}
		return
	}
	route.ForEach(u.o.Workers, u.top, func(_, i int) {
		l := i + 1
		for s := range int32(u.now.n) {
			if a.PathSL(s, ib.LID(l)) != b.PathSL(s, ib.LID(l)) {
				whole[l] = true
				return
			}
		}
	})
}

func class(t *route.Tables, l int) int32 {
	if l >= len(t.Class) {
		return -1
	}
	return t.Class[l]
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
