package forward

import (
	"bytes"
	"testing"

	"heddle/ib/smp"
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
	// A write that leads to another shared row takes that one.
	next := bytes.Clone(shared)
	copy(next[route.BlockLen:], block(4)[:])
	m := &Linear{Top: 2*route.BlockLen - 1}
	m.Adopt(shared)
	if m.Set(1, block(4), next); &m.Row[0] != &next[0] || !m.Shared {
		t.Error("the row that was aimed at is not taken")
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
