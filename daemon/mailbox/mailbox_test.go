package mailbox

import (
	"math/rand/v2"
	"testing"

	"heddle/mad"
)

// TestMailbox: packets arrive once and in order, the bell is rung while any wait, no more wait than
// may, and those that are done come back.
func TestMailbox(t *testing.T) {
	const most = 20
	r := rand.New(rand.NewPCG(1, 2))
	b := New(most)
	var row, wait []*mad.Packet
	made, refused := 0, 0
	put, taken := uint64(0), uint64(0) // those of row are not done yet
	var free []*mad.Packet             // which the receiver has
	for range 20_000 {
		if r.IntN(3) > 0 {
			if len(free) == 0 {
				made++
				free = append(free, &mad.Packet{})
			}
			p, limit := free[0], []int{most, most / 2, 2 * most}[r.IntN(3)]
			spare, ok := b.Put(p, limit)
			if ok != (len(wait) < min(limit, most)) {
				t.Fatalf("%d wait, limit %d: %v", len(wait), limit, ok)
			}
			if ok {
				wait, free = append(wait, p), free[1:]
				put++
			} else {
				refused++
			}
			if spare != nil {
				free = append(free, spare)
			}
			continue
		}
		select {
		case <-b.Bell():
		default:
			if len(wait) > 0 {
				t.Fatalf("%d wait, and the bell was not rung", len(wait))
			}
			continue
		}
		n := r.IntN(most / 2)
		done := taken
		row = b.Take(row, n)
		if len(row) != min(n, len(wait)) {
			t.Fatalf("%d of %d taken, want %d", len(row), len(wait), n)
		}
		for i, p := range row {
			if p != wait[i] {
				t.Fatalf("packet %d is another", i)
			}
		}
		wait = wait[len(row):]
		taken += uint64(len(row))
		if c, d := b.Counts(); c != put || d != done {
			t.Fatalf("%d packets came and %d are done, want %d and %d", c, d, put, done)
		}
	}
	if made > 2*most || refused == 0 {
		t.Errorf("%d packets were made, %d refused", made, refused)
	}
}
