package forward

import (
	"bytes"
	"testing"

	"heddle/ib"
	"heddle/ib/smp"
	"heddle/internal/need"
	"heddle/internal/routetest"
	"heddle/route"
)

func block(fill byte) *[route.BlockLen]byte {
	var b [route.BlockLen]byte
	for i := range b {
		b[i] = fill
	}
	return &b
}

// TestLinearKnown: a row is installed for a planner when all blocks that are in force are
// known, and as far as they are known from the start.
func TestLinearKnown(t *testing.T) {
	var none *Linear
	if none.Installed() != nil {
		t.Error("a switch of which nothing is known has a row")
	}
	l := &Linear{}
	if r := l.Installed(); r == nil || len(r) != 0 {
		t.Errorf("a switch that forwards nothing: %v", r)
	}
	l.Top = 2*route.BlockLen - 1
	l.Set(1, block(7), nil)
	if l.Installed() != nil {
		t.Error("block 0 is in force and not known")
	}
	l.Set(0, block(5), nil)
	l.Set(3, block(9), nil)
	if r := l.Installed(); len(r) != 2*route.BlockLen || r[0] != 5 || r[route.BlockLen] != 7 {
		t.Errorf("row of %d", len(r))
	}
	l.Forget(1)
	if l.Installed() != nil {
		t.Error("block 1 is in force and forgotten")
	}
	l.Set(1, block(8), nil)
	if l.ForgetAbove(l.Top); BitGet(l.Known, 3) || !BitGet(l.Known, 1) {
		t.Error("what is above the top is to be forgotten, no more")
	}
	if l.ForgetAll(); len(l.Installed()) != 0 {
		t.Error("the switch was reset")
	}
}

// TestLinearShared: a row that belongs to published tables is never written.
func TestLinearShared(t *testing.T) {
	shared := bytes.Repeat([]byte{1}, 2*route.BlockLen)
	l := &Linear{Top: 2*route.BlockLen - 1}
	l.Adopt(shared)
	l.Set(0, block(1), nil)
	if &l.Row[0] != &shared[0] {
		t.Error("the same content made a copy")
	}
	l.Set(0, block(2), nil)
	if shared[0] != 1 || l.Installed() != nil && l.Installed()[0] != 2 {
		t.Error("the shared row was written")
	}
}

// TestLinearMoves: a switch whose row is shared reads as one that has a row of its own, whatever is
// written, forgotten and moved; and no row or table that it shares is changed. What it holds
// after a move of which all was acknowledged are the tables of the move.
func TestLinearMoves(t *testing.T) {
	for _, seed := range need.Seeds(100, 2000) {
		rnd := routetest.Draws(seed)
		const blocks, n = 20, 3
		tb := route.New("some", n, blocks*route.BlockLen-1)
		shared, at := tb.Clone(), int32(rnd(n))
		l, own := &Linear{Top: tb.TopLID}, &Linear{Top: tb.TopLID}
		for b := range blocks {
			for _, x := range []*Linear{l, own} {
				x.Set(b, (*[route.BlockLen]byte)(tb.Part(at, b)), nil)
			}
		}
		l.Adopt(tb.LFT[at])
		write := func(b int, data, same []byte) {
			l.Set(b, (*[route.BlockLen]byte)(bytes.Clone(data)), same)
			own.Set(b, (*[route.BlockLen]byte)(data), nil)
		}
		set := tb // what the switch is to hold
		for step := range 60 {
			switch rnd(8) {
			case 0: // another manager, or an answer that was lost
				b := rnd(blocks)
				if rnd(2) == 0 {
					l.Forget(b)
					own.Forget(b)
				}
				write(b, block(byte(rnd(3)))[:], nil)
			case 1:
				flat := set.Flat()
				if l.Flatten(set, flat); l.newer() {
					t.Fatalf("HEDDLE_SEED=%d step %d: not all is in the row", seed, step)
				}
				set = flat
			default:
				lid := 1 + rnd(blocks*route.BlockLen-1)
				now := set.WithColumns(set.TopLID, []route.Column{{LID: ib.LID(lid), Entries: []byte{byte(rnd(9)), byte(rnd(9)), byte(rnd(9))}}})
				b := lid / route.BlockLen
				acked := rnd(6) > 0
				if acked {
					write(b, now.Part(at, b), now.Part(at, b))
				}
				follows := l.Shared && l.Full && set.HasRow(at, l.Row) && (l.tables == set || l.tables == nil && !set.Banded())
				follows = follows && len(l.patch) == 0 || len(l.patch) == 1 && l.patch[0].block == int32(b) && follows
				l.Follow(set, now, at, []uint16{uint16(b)})
				if follows && acked && (l.tables != now || len(l.patch) > 0) {
					t.Fatalf("HEDDLE_SEED=%d step %d: it does not hold the tables of the move", seed, step)
				}
				set = now
			}
			for b := range blocks {
				if have, want := l.Block(b), own.Block(b); !bytes.Equal(have, want) {
					t.Fatalf("HEDDLE_SEED=%d step %d block %d: %v, want %v", seed, step, b, have, want)
				}
			}
			if lid := ib.LID(rnd(blocks * route.BlockLen)); l.Holds(lid, 1) != own.Holds(lid, 1) {
				t.Fatalf("HEDDLE_SEED=%d step %d: LID %d", seed, step, lid)
			}
		}
		if !bytes.Equal(l.Installed(), own.Installed()) {
			t.Fatalf("HEDDLE_SEED=%d: the rows at the end", seed)
		}
		if !tb.Equal(shared) {
			t.Fatalf("HEDDLE_SEED=%d: the shared row was written", seed)
		}
	}
}

func TestMulticastShow(t *testing.T) {
	var none *Multicast
	if none.Show() != nil {
		t.Error("a switch of which nothing is known shows blocks")
	}
	m := &Multicast{}
	m.Set(2, 1, &smp.MFT{1})
	m.Set(2, 0, &smp.MFT{2})
	m.Set(0, 3, &smp.MFT{3})
	list := m.Show()
	if len(list) != 3 || list[0].Block != 0 || list[1].Block != 2 || list[1].Position != 0 || list[2].Position != 1 || list[2].Masks[0] != 1 {
		t.Errorf("%+v", list)
	}
}

// TestMulticastDoubt: what a Set may have written counts beside what was there, until the
// block is read or written.
func TestMulticastDoubt(t *testing.T) {
	m := &Multicast{}
	m.Set(2, 1, &smp.MFT{1, 8})
	m.Doubt(2, 1, &smp.MFT{2, 0})
	m.Doubt(2, 1, &smp.MFT{4, 0})
	if b := m.Ports(2, 1); m.Blocks[MulticastKey(2, 1)] != nil || b == nil || b[0] != 7 || b[1] != 8 {
		t.Errorf("after two Sets without an answer: %+v", m)
	}
	if m.Set(2, 1, &smp.MFT{4, 0}); m.Ports(2, 1)[0] != 4 || len(m.Maybe) != 0 {
		t.Errorf("after it was read: %+v", m)
	}
	m.Forget(false)
	if b := m.Ports(2, 1); len(m.Blocks) != 0 || b == nil || b[0] != 4 {
		t.Errorf("while it is to be read again: %+v", m)
	}
	if m.Forget(true); m.Ports(2, 1) != nil {
		t.Errorf("after a reset: %+v", m)
	}
}
